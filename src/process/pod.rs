//! A container of a pod: what the kubelet gives a runtime in place of an image's own settings, and what it mounts over
//! the image's root.
//!
//! As kubelet and containerd do it: `command` takes the place of ENTRYPOINT and CMD, `args` that of CMD; of an image's
//! USER only the user counts, not its group; a volume hides what the image has below its path.

use std::collections::BTreeMap;

use serde::Serialize;

use super::accounts::UserText;
use super::chain::Executed;
use super::container::{Command, Container};
use super::named_paths::{MoveView, ProcessView, parts_of};
use super::start::Start;
use layer::{Entry, EntryKind, LayerContents, RootPath};
use oci::Digest;
use shell::{Declared, expanded};
use start::rootfs::{Access, Root};

/// A container as a manifest declares it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PodContainer {
    /// Where it is declared, for people.
    #[serde(skip)]
    pub place: String,
    /// The manifest, as it was named.
    #[serde(skip)]
    pub file: String,
    pub command: Vec<String>,
    pub args: Vec<String>,
    /// In the order of the manifest.
    pub variables: Vec<PodVariable>,
    /// What is known of them where a shell would expand them.
    #[serde(skip)]
    pub declared: BTreeMap<String, Declared>,
    pub working_dir: Option<String>,
    pub user: PodUser,
    pub surroundings: PodSurroundings,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PodVariable {
    pub name: String,
    /// `None` where only the pod's start shows it: a field, a secret, a config map.
    pub value: Option<String>,
}

/// Whom the security contexts ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PodUser {
    pub uid: Option<u64>,
    pub gid: Option<u64>,
    /// `runAsNonRoot`.
    pub must_not_be_root: bool,
}

/// What a container has of its pod beside its settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PodSurroundings {
    /// `supplementalGroups` and `fsGroup`.
    pub groups: Vec<u64>,
    pub mounts: Vec<PodMount>,
    /// `readOnlyRootFilesystem`.
    pub has_read_only_root: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PodMount {
    pub path: RootPath,
    pub kind: MountKind,
    pub is_writable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum MountKind {
    Directory,
    File,
}

impl PodSurroundings {
    /// The mount that has the path.
    #[must_use]
    pub fn mount_of(&self, path: &RootPath) -> Option<&PodMount> {
        // The innermost counts.
        self.mounts.iter().filter(|mount| path.is_within(&mount.path)).max_by_key(|mount| mount.path.as_bytes().len())
    }

    /// The mounts as a layer on top of the image's: what they hide is gone, and what is in them is not known.
    #[must_use]
    pub fn layer(&self) -> Vec<Entry> {
        let mut mounts: Vec<&PodMount> = self.mounts.iter().filter(|mount| !mount.path.is_root()).collect();
        mounts.sort();
        let entries = mounts.into_iter().flat_map(|mount| {
            let (kind, mode) = match (mount.kind, mount.is_writable) {
                (MountKind::Directory, true) => (EntryKind::Directory, 0o777),
                (MountKind::Directory, false) => (EntryKind::Directory, 0o555),
                (MountKind::File, true) => (EntryKind::File { size: 0 }, 0o666),
                (MountKind::File, false) => (EntryKind::File { size: 0 }, 0o444),
            };
            let hidden = Entry::new(mount.path.clone(), EntryKind::Whiteout, 0, 0, 0);
            [hidden, Entry::new(mount.path.clone(), kind, mode, 0, 0)]
        });
        entries.collect()
    }
}

/// Entries without content, to be laid on a root.
#[must_use]
pub const fn bare_layer(entries: &[Entry]) -> LayerContents<'_> {
    LayerContents { entries, captured: &[], programs: &[], digests: &[] }
}

impl PodContainer {
    /// What it declares, whatever the file that it is in.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(serde_json::to_string(self).unwrap_or_default().as_bytes())
    }

    /// The image's container as this one runs it.
    #[must_use]
    pub fn container(&self, image: &Container) -> Container {
        let mut container = image.clone();
        container.set_command(self.command_over(&image.command));
        let unknown = self.variables.iter().filter(|variable| variable.value.is_none());
        let unknown: Vec<&str> = unknown.map(|variable| variable.name.as_str()).collect();
        container.remove_environment(&unknown);
        let known = self.variables.iter().filter_map(|variable| Some((variable.name.clone(), variable.value.clone()?)));
        container.add_environment(&known.collect::<Vec<_>>());
        self.working_dir.iter().for_each(|directory| container.set_working_dir(directory));
        container.set("User", Some(self.user.over(image.text("User")).into()));
        // The kubelet does not run it.
        container.set("Healthcheck", None);
        container.pod = self.surroundings.clone();
        container
    }

    /// `command` and `args` over ENTRYPOINT and CMD, before anything is expanded.
    #[must_use]
    pub fn written_over(&self, image: &Command) -> Command {
        let words = |words: &[String]| (!words.is_empty()).then(|| words.to_vec());
        match (self.command.is_empty(), self.args.is_empty()) {
            (true, true) => image.clone(),
            (true, false) => Command { entrypoint: image.entrypoint.clone(), cmd: words(&self.args) },
            (false, _) => Command { entrypoint: words(&self.command), cmd: words(&self.args) },
        }
    }

    fn command_over(&self, image: &Command) -> Command {
        let Command { entrypoint, cmd } = self.written_over(image);
        let own = |is_own: bool, words: Option<Vec<String>>| if is_own { self.expanded(words) } else { words };
        Command {
            entrypoint: own(!self.command.is_empty(), entrypoint),
            cmd: own(!self.command.is_empty() || !self.args.is_empty(), cmd),
        }
    }

    /// Words as the kubelet passes them on.
    #[must_use]
    pub fn expanded(&self, words: Option<Vec<String>>) -> Option<Vec<String>> {
        let values = self.variables.iter().map(|variable| (variable.name.clone(), variable.value.clone())).collect();
        words.map(|words| words.iter().map(|word| expanded(word, &values)).collect())
    }
}

impl PodUser {
    /// USER for a runtime. The kubelet asks for the user of the image, and for nobody's group.
    fn over(&self, image: &str) -> String {
        let own = UserText::new(image).user;
        let user = match self.uid {
            Some(uid) => uid.to_string(),
            None if own.is_empty() => "0".to_owned(),
            None => own.to_owned(),
        };
        self.gid.map_or_else(|| user.clone(), |gid| format!("{user}:{gid}"))
    }

    /// Why the kubelet would not start it: `runAsNonRoot`, and the user is root or not known to be another.
    #[must_use]
    pub fn forbids(&self, image: &Container) -> Option<String> {
        let own = UserText::new(image.text("User")).user;
        let given = self.uid.map(|uid| uid.to_string());
        let user = given.as_deref().unwrap_or(own);
        match user.parse::<u64>() {
            _ if !self.must_not_be_root => None,
            Ok(0) => Some("it would run as root".to_owned()),
            Ok(_) => None,
            Err(_) if user.is_empty() => Some("it would run as root".to_owned()),
            Err(_) => Some(format!("its user {user} is a name, which the kubelet does not look up")),
        }
    }
}

/// Where programs keep what they make while they run. Elsewhere a path that is not there is one that is read, if it is one
/// at all: `https://host` has the form of a path, too.
const STATE: [&str; 2] = ["var", "run"];

/// Paths where programs keep their state, that neither root has, that the source's process could make and the result's
/// cannot: named by the command, or, where they look like directories, by a program of the chain.
#[must_use]
pub fn closed_to_result(
    (before, source): (&Start, &Root<'_>),
    (after, rebased): (&Start, &Root<'_>),
    surroundings: &PodSurroundings,
    base_layers: usize,
) -> Vec<(RootPath, String)> {
    let view = super::startup::view((before, source), (after, rebased));
    let words = after.argv.iter().flat_map(|word| parts_of(word)).map(|part| (part, "the command".to_owned()));
    let own = after.chain.iter().filter(|executed| executed.layer >= base_layers);
    let strings = own.flat_map(|executed| state_paths(executed).map(|path| (path, executed.path.to_string())));
    let mut closed: Vec<(RootPath, String)> = Vec::new();
    for (path, by) in words.chain(strings) {
        let Some(path) = state_path(path) else { continue };
        let is_new = !closed.iter().any(|(there, _)| path.is_within(there));
        if is_new && surroundings.mount_of(&path).is_none() && is_closed(&view, &path) {
            closed.push((path, by));
        }
    }
    closed
}

fn state_paths(executed: &Executed) -> impl Iterator<Item = &str> {
    let strings = executed.program.iter().flat_map(|program| &program.strings.paths);
    // A socket, a token, a database: whoever makes it is another.
    let is_directory = |path: &&str| path.rsplit('/').next().is_some_and(|name| !name.contains('.'));
    strings.map(|string| string.text.as_str()).filter(is_directory)
}

fn state_path(path: &str) -> Option<RootPath> {
    let found = RootPath::new(path).ok().filter(|_| path.starts_with('/') && !path.starts_with("//"))?;
    let is_state = found.components().next().is_some_and(|first| STATE.iter().any(|name| name.as_bytes() == first));
    (is_state && found.components().count() > 1).then_some(found)
}

fn is_closed(view: &MoveView<'_>, path: &RootPath) -> bool {
    can_make(&view.before, path) == Some(true) && can_make(&view.after, path) == Some(false)
}

/// Whether the process could make the path; `None` where it is there, or leads through what is no directory.
fn can_make(side: &ProcessView<'_>, path: &RootPath) -> Option<bool> {
    if side.root.resolve(path).is_ok() {
        return None;
    }
    let mut above = std::iter::successors(path.parent(), RootPath::parent);
    let nearest = above.find_map(|parent| side.root.resolve(&parent).ok())?;
    nearest.node.is_directory().then(|| nearest.node.allows(&side.who, Access::Write))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::process::{ChainEnd, start};
    use ::start::rootfs::{Credentials, merge};
    use layer::LayerIndex;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn image(user: &str) -> Container {
        let members =
            json!({"User": user, "Env": ["A=image", "B=image"], "WorkingDir": "/w", "Healthcheck": {"Test": []}});
        let command = Command { entrypoint: Some(words(&["/entry"])), cmd: Some(words(&["cmd"])) };
        Container::new(members.as_object().unwrap().clone(), command)
    }

    #[test]
    fn command_and_args_take_the_place_of_the_images_words() {
        for (command, args, expected) in [
            (&[][..], &[][..], "/entry cmd"),
            (&["/c"], &[], "/c"),
            (&[], &["a"], "/entry a"),
            (&["/c"], &["a"], "/c a"),
            (&["/c", "$(A)"], &["$(B)$(C)", "$$(A)"], "/c pod $(B)$(C) $(A)"),
        ] {
            let variables = vec![
                PodVariable { name: "A".to_owned(), value: Some("pod".to_owned()) },
                PodVariable { name: "B".to_owned(), value: None },
            ];
            let pod = PodContainer { command: words(command), args: words(args), variables, ..PodContainer::default() };
            let container = pod.container(&image(""));
            assert_eq!(container.command.argv().join(" "), expected);
            assert_eq!(container.environment().collect::<Vec<_>>(), [("A", "pod")], "B is not known");
            assert!(!container.members.contains_key("Healthcheck"));
        }
        let own = Container { command: Command { entrypoint: None, cmd: Some(words(&["$(A)"])) }, ..image("") };
        assert_eq!(PodContainer::default().container(&own).command.argv(), ["$(A)"], "an image's words stay");
    }

    #[test]
    fn the_user_is_the_pods_or_the_images_without_its_group() {
        for (uid, gid, own, expected, forbidden) in [
            (None, None, "", "0", true),
            (None, None, "0:0", "0", true),
            (None, None, "7:8", "7", false),
            (None, Some(9), "7:8", "7:9", false),
            (None, None, "nonroot:nonroot", "nonroot", true),
            (Some(5), None, "nonroot", "5", false),
            (Some(5), Some(6), "", "5:6", false),
            (Some(0), None, "7", "0", true),
        ] {
            let user = PodUser { uid, gid, must_not_be_root: true };
            assert_eq!(user.over(own), expected, "{own}");
            assert_eq!(user.forbids(&image(own)).is_some(), forbidden, "{own}");
            assert_eq!(PodUser { must_not_be_root: false, ..user }.forbids(&image(own)), None);
        }
    }

    fn mount(path: &str, kind: MountKind, is_writable: bool) -> PodMount {
        PodMount { path: RootPath::new(path).unwrap(), kind, is_writable }
    }

    #[test]
    fn a_mount_hides_what_the_image_has_there() {
        let mut index: LayerIndex = crate::examine::testing::layer("x");
        index.entries =
            ["bin/app", "data/below", "data/log/x", "etc/conf"].map(crate::examine::testing::entry).to_vec();
        let mounts = vec![
            mount("/data/log", MountKind::Directory, false),
            mount("/data", MountKind::Directory, true),
            mount("/etc/conf", MountKind::File, false),
            mount("/new/x.log", MountKind::File, true),
        ];
        let surroundings = PodSurroundings { groups: vec![5], mounts, has_read_only_root: false };
        let entries = surroundings.layer();
        let layers = [index];
        let mut root = merge(&layers);
        root.add_layer(bare_layer(&entries));
        let user = Credentials { uid: 7, gid: 7, groups: vec![] };
        let writable = |path: &str| {
            let node = root.get(&RootPath::new(path).unwrap());
            node.map(|node| node.allows(&user, Access::Write))
        };
        for (path, expected) in [
            ("/data", Some(true)),
            ("/data/below", None),
            ("/data/log", Some(false)),
            ("/data/log/x", None),
            ("/etc/conf", Some(false)),
            ("/new/x.log", Some(true)),
        ] {
            assert_eq!(writable(path), expected, "{path}");
        }
        let container = |program: &str| Container {
            command: Command { entrypoint: Some(words(&[program])), cmd: None },
            pod: surroundings.clone(),
            ..Container::default()
        };
        assert!(matches!(start(&container("/data/tool"), &root).end, ChainEnd::Mounted(_)));
        assert!(matches!(start(&container("/other/tool"), &root).end, ChainEnd::Lost { .. }));
        assert!(start(&container("/other"), &root).user.unwrap().credentials.groups.contains(&5));
    }
}
