//! One image as a manifest sees it: which programs it can start, and who could write their logs.

use std::sync::Arc;

use super::klog_support::{self, Klog};
use super::subject::Origin;
use crate::layer::LayerIndex;
use crate::oci::{Image, Platform};
use crate::process::{ChainEnd, Container, Start, search, start_of};
use crate::rootfs::{Root, merge};

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
    /// Why it does not start, where it does not.
    pub missing: Option<String>,
    pub klog: Klog,
    /// Where a log runner is.
    pub runner: Option<String>,
}

impl FullPlatform {
    /// Looks for a program, with the `PATH` and the working directory of the image unless others are given.
    #[must_use]
    pub fn show(&self, program: &str, path: Option<&str>, directory: Option<&str>) -> ProgramAnswer {
        let root = merge(self.layers.iter().map(AsRef::as_ref));
        let mut container = Container::of(&self.image.config);
        if let Some(path) = path {
            container.add_environment(&[("PATH".to_owned(), path.to_owned())]);
        }
        if let Some(directory) = directory {
            container.set_working_dir(directory);
        }
        let start = start_of(&container, &[program.to_owned()], &root);
        let facts = start.chain.first().and_then(|executed| executed.program.as_ref());
        let missing = missing(&start);
        ProgramAnswer {
            entrypoint: container.command.entrypoint.clone().unwrap_or_default(),
            missing,
            klog: klog_support::look(facts),
            runner: log_runner_in(&root, &container),
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
    match &start.end {
        ChainEnd::Lost { reasons, .. } => Some(reasons.replace('\n', "; ")),
        ChainEnd::NoInterpreter { interpreter, .. } => Some(format!("it needs {interpreter}, which is not there")),
        ChainEnd::NotAProgram => Some("it is not a program".to_owned()),
        _ => {
            let lacks = start.chain.iter().find_map(|executed| executed.lacks.as_ref());
            lacks.map(|lacks| lacks.in_place("the image"))
        }
    }
}
