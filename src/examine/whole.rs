//! One image as a manifest sees it: which programs it can start, and who could write their logs.

use std::sync::Arc;

use super::container::Container;
use super::helper::is_there;
use super::klog::{self, Klog};
use super::program::{path_variable, working_dir};
use super::runner;
use super::subject::Origin;
use crate::elf::Program;
use crate::layer::{LayerIndex, RootPath};
use crate::oci::{Image, Platform};
use crate::rootfs::{Root, merge};

/// An image with all its layers.
#[derive(Debug)]
pub struct Whole {
    pub origin: Origin,
    pub platforms: Vec<WholePlatform>,
}

#[derive(Debug)]
pub struct WholePlatform {
    pub platform: Platform,
    pub image: Image,
    pub layers: Vec<Arc<LayerIndex>>,
}

/// What one platform shows of a program.
#[derive(Debug, Clone)]
pub struct Shown {
    pub entrypoint: Vec<String>,
    /// Why it does not start, where it does not.
    pub missing: Option<String>,
    pub klog: Klog,
    /// Where a log runner is.
    pub runner: Option<String>,
}

impl WholePlatform {
    /// Looks for a program, with the `PATH` and the folder of the image unless others are given.
    #[must_use]
    pub fn show(&self, program: &str, path: Option<&str>, folder: Option<&str>) -> Shown {
        let root = merge(self.layers.iter().map(AsRef::as_ref));
        let container = Container::of(&self.image.config);
        let path = path.map_or_else(|| path_variable(&container), str::to_owned);
        let folder = folder.and_then(|folder| RootPath::new(folder).ok()).unwrap_or_else(|| working_dir(&container));
        let found = root.search(program, &path, &folder);
        let facts = found.as_ref().ok().and_then(|found| root.program(found.file.node));
        let missing = match &found {
            Err(lost) => Some(lost.to_string().replace('\n', "; ")),
            Ok(_) => facts.and_then(|facts| lacks(&root, facts)),
        };
        Shown {
            entrypoint: container.command.entrypoint.clone().unwrap_or_default(),
            missing,
            klog: klog::look(facts),
            runner: runner::in_root(&root, &container).map(|runner| runner.path),
        }
    }
}

/// What the kernel would have to start first, and is not there.
fn lacks(root: &Root<'_>, program: &Program) -> Option<String> {
    let script = program.script.as_ref().map(|script| script.interpreter.as_str());
    let interpreter = script.or(program.interpreter.as_deref())?;
    (!is_there(root, interpreter)).then(|| format!("it needs {interpreter}, which is not there"))
}
