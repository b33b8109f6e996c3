//! The log runner: in the new base, or in an image of its own.

use super::container::Container;
use super::exec_form::RunnerAt;
use super::program;
use super::subject::RunnerSubject;
use crate::layer::{LayerIndex, RootPath};
use crate::rootfs::{Root, merge};

/// The names that Kubernetes has given it.
const NAMES: [&str; 4] = ["/go-runner", "/kube-log-runner", "go-runner", "kube-log-runner"];

/// The program of a runner image, as an entry of one of its layers.
pub(super) struct Runner<'a> {
    pub(super) path: RootPath,
    pub(super) layer: &'a LayerIndex,
    pub(super) position: usize,
}

/// The program that the runner image starts.
pub(super) fn of_image(subject: &RunnerSubject) -> Option<Runner<'_>> {
    let root = merge(subject.layers.iter().map(AsRef::as_ref));
    let container = Container::of(&subject.image.config);
    let found = program::search(&root, &container, &container.command.program()?)?;
    let (layer, position) = found.file.node.place()?;
    Some(Runner { path: found.file.path, layer: subject.layers.get(layer)?, position })
}

/// A runner that the root has.
pub(super) fn in_root(root: &Root<'_>, container: &Container) -> Option<RunnerAt> {
    let found = NAMES.iter().find_map(|name| program::search(root, container, name))?;
    Some(RunnerAt { path: found.written, from: "the rebased image" })
}
