//! One image as a manifest sees it: which programs it can start, and who could write their logs.

use std::sync::Arc;

use super::klog_support::{self, Klog};
use super::subject::Origin;
use crate::elf::Program;
use crate::layer::{LayerIndex, RootPath};
use crate::oci::{Image, Platform};
use crate::process::{Container, is_there, search};
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
        let container = Container::of(&self.image.config);
        let path = path.unwrap_or_else(|| container.search_path());
        let directory = directory.and_then(|path| RootPath::new(path).ok()).unwrap_or_else(|| container.working_dir());
        let found = root.search(program, path, &directory);
        let facts = found.as_ref().ok().and_then(|found| root.program(found.file.node));
        let missing = match &found {
            Err(lost) => Some(lost.to_string().replace('\n', "; ")),
            Ok(_) => facts.and_then(|facts| lacks(&root, facts)),
        };
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

/// What the kernel would have to start first, and is not there.
fn lacks(root: &Root<'_>, program: &Program) -> Option<String> {
    let script = program.script.as_ref().map(|script| script.interpreter.as_str());
    let interpreter = script.or(program.interpreter.as_deref())?;
    (!is_there(root, interpreter)).then(|| format!("it needs {interpreter}, which is not there"))
}
