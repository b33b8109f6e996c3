//! One image as a manifest sees it: which programs it can start, and who could write their logs.

use std::sync::Arc;

use super::klog_support::{self, Klog};
use super::subject::Origin;
use crate::process::{ChainEnd, Container, PodContainer, Start, bare_layer, search, start_of};
use layer::LayerIndex;
use oci::{Image, Platform};
use start::rootfs::{Root, merge};

/// An image with all its layers.
#[derive(Debug)]
pub struct FullImage {
    pub origin: Origin,
    pub platforms: Vec<FullPlatform>,
}

#[derive(Debug)]
pub struct FullPlatform {
    pub platform: Platform,
    pub image: Image,
    pub layers: Vec<Arc<LayerIndex>>,
}

/// What one platform shows of a program.
#[derive(Debug, Clone)]
pub struct ProgramAnswer {
    pub entrypoint: Vec<String>,
    /// Why it does not start as that user, where it does not.
    pub missing: Option<String>,
    /// What is started comes from a volume.
    pub mounted: Option<String>,
    pub klog: Klog,
    /// Where a log runner is.
    pub runner: Option<String>,
}

impl FullPlatform {
    /// What a container of a pod starts with these words, as its user and with its volumes. The first is the program that
    /// is asked about.
    #[must_use]
    pub fn show(&self, words: &[String], pod: &PodContainer) -> ProgramAnswer {
        let mounts = pod.surroundings.layer();
        let mut root = merge(self.layers.iter().map(AsRef::as_ref));
        root.add_layer(bare_layer(&mounts));
        let image = Container::of(&self.image.config);
        let container = pod.container(&image);
        let words = pod.expanded(Some(words.to_vec())).unwrap_or_default();
        let start = start_of(&container, &words, &root);
        let facts = start.chain.first().and_then(|executed| executed.program.as_ref());
        ProgramAnswer {
            missing: pod
                .user
                .forbids(&image)
                .map(|why| format!("runAsNonRoot is set, and {why}"))
                .or_else(|| missing(&start)),
            mounted: if let ChainEnd::Mounted(word) = &start.end { Some(word.clone()) } else { None },
            klog: klog_support::look(facts),
            runner: log_runner_in(&root, &container),
            entrypoint: image.command.entrypoint.unwrap_or_default(),
        }
    }
}

/// The names that Kubernetes has given its log runner.
const LOG_RUNNERS: [&str; 4] = ["/go-runner", "/kube-log-runner", "go-runner", "kube-log-runner"];

/// The log runner that the root has, as a command would name it.
#[must_use]
pub fn log_runner_in(root: &Root<'_>, container: &Container) -> Option<String> {
    LOG_RUNNERS.iter().find_map(|name| search(root, container, name)).map(|found| found.written)
}

/// Why the program does not start, where it does not.
fn missing(start: &Start) -> Option<String> {
    if let Err(unknown) = &start.user {
        return Some(format!("{} has no line for {}", unknown.which.path(), unknown.name));
    }
    match &start.end {
        // Only the pod's start shows which program that is.
        ChainEnd::Lost { word, .. } if word.contains("$(") && start.argv.first() != Some(word) => None,
        ChainEnd::Lost { reasons, .. } => Some(reasons.replace('\n', "; ")),
        ChainEnd::NoInterpreter { interpreter, .. } => Some(format!("it needs {interpreter}, which is not there")),
        ChainEnd::NotAProgram => Some("it is not a program".to_owned()),
        _ => {
            let lacks = start.chain.iter().find_map(|executed| executed.lacks.as_ref());
            lacks.map(|lacks| lacks.in_place("the image"))
        }
    }
}
