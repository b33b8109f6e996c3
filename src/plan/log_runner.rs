//! The log runner: in the new base, or in an image of its own.

use super::logs::RunnerAt;
use crate::examine::{RunnerSubject, log_runner_in};
use crate::layer::{LayerIndex, RootPath};
use crate::process::{Container, search};
use crate::rootfs::{FileNode, Root, merge};

/// Where one that is brought along goes, should its own path be taken.
const SPARE: [&str; 2] = ["/go-runner", "/kube-log-runner"];

/// The program of a runner image, as an entry of one of its layers.
pub(super) struct Runner<'a> {
    /// Where it goes in the rebased root. Nothing is there.
    pub(super) path: RootPath,
    pub(super) layer: &'a LayerIndex,
    pub(super) position: usize,
}

/// The program that the runner image starts, to be put into the root `to`.
pub(super) fn of_image<'a>(subject: &'a RunnerSubject, to: &Root<'_>) -> Option<Runner<'a>> {
    let root = merge(subject.layers.iter().map(AsRef::as_ref));
    let container = Container::of(&subject.image.config);
    let found = search(&root, &container, &container.command.program()?)?;
    let (layer, position) = found.file.node.place()?;
    let spare = SPARE.iter().filter_map(|path| RootPath::new(path).ok());
    let path = std::iter::once(found.file.path).chain(spare).find(|path| is_free(to, path))?;
    Some(Runner { path, layer: subject.layers.get(layer)?, position })
}

/// Whether a file can be put there without taking the place of anything, nor through a link.
fn is_free(root: &Root<'_>, path: &RootPath) -> bool {
    let mut above = std::iter::successors(path.parent(), RootPath::parent);
    root.get(path).is_none() && above.all(|parent| root.get(&parent).is_none_or(FileNode::is_directory))
}

/// A runner that the root has.
pub(super) fn in_root(root: &Root<'_>, container: &Container) -> Option<RunnerAt> {
    Some(RunnerAt { path: log_runner_in(root, container)?, from: "the rebased image" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examine::testing::{entry, layer};
    use crate::layer::{Entry, EntryKind};

    #[test]
    fn a_path_is_free_where_nothing_is_and_no_link_leads() {
        let mut own = layer("own");
        let link = |path: &str, to: &str| Entry { kind: EntryKind::Symlink(to.into()), ..entry(path) };
        own.entries = vec![entry("app"), link("bin", "usr/bin"), link("run", "app"), entry("usr/bin/x")];
        let root = merge([&own]);
        for (path, free) in [
            ("/go-runner", true),
            ("/usr/bin/go-runner", true),
            ("/opt/a/b", true),
            ("/app", false),
            ("/app/below", false),
            ("/run", false),
            ("/bin/go-runner", false),
            ("/usr/bin", false),
        ] {
            assert_eq!(is_free(&root, &RootPath::new(path).unwrap()), free, "{path}");
        }
    }
}
