//! What a path resolves to, as in the kernel inside a container (`path_resolution(7)`), or why
//! it does not resolve: that is an answer, not an error.

use std::fmt;

use super::path_components::{ComponentOrigin, MAX_LINKS, PathComponents, is_absolute};
use super::permission::{Access, Credentials};
use super::root::Root;
use super::tree::FileNode;
use super::tree::{NodeId, ROOT};
use layer::{EntryKind, RootPath, shown};
use oci::error::printable;

/// A path that exists.
#[derive(Debug, Clone)]
pub struct Resolved<'r> {
    /// Where it ends: a path without any link in it.
    pub path: RootPath,
    pub node: &'r FileNode<'r>,
    /// The links gone through, those of directories included, in this order.
    pub links: Vec<FollowedLink>,
}

/// A symbolic link that was followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowedLink {
    /// Where the link is: a path without any other link in it.
    pub link: RootPath,
    /// The target as written.
    pub target: Vec<u8>,
}

/// A walk that came to its end.
pub(super) struct Walk {
    pub(super) at: NodeId,
    pub(super) links: Vec<NodeId>,
}

/// A walk that did not.
pub(super) struct FailedWalk {
    links: Vec<NodeId>,
    reason: NotFoundReason,
}

impl Root<'_> {
    /// Follows all links, one in the last place included. Absolute links start at the image's
    /// root, and `..` never goes above it.
    pub fn resolve(&self, path: &RootPath) -> Result<Resolved<'_>, NotFound> {
        self.resolve_written(path.as_bytes())
            .map_err(|strayed| NotFound { candidates: vec![self.candidate(path.to_string(), strayed)] })
    }

    /// Follows a path as somebody wrote it: seen from the root, with or without a leading slash.
    pub(super) fn resolve_written(&self, written: &[u8]) -> Result<Resolved<'_>, FailedWalk> {
        self.walk(written).map(|walk| self.resolved(&walk))
    }

    pub(super) fn candidate(&self, written: String, strayed: FailedWalk) -> TriedPath {
        TriedPath { written, links: self.all_followed(&strayed.links), reason: strayed.reason }
    }

    pub(super) fn walk(&self, written: &[u8]) -> Result<Walk, FailedWalk> {
        self.walk_from(ROOT, written, None)
    }

    /// The walk of a process in this working directory. It must have the right to search every
    /// directory that a name is looked up in; `None` may do everything.
    pub(super) fn walk_as(
        &self,
        working_dir: &RootPath,
        written: &[u8],
        who: Option<&Credentials>,
    ) -> Result<Walk, FailedWalk> {
        // A runtime changes to the directory as root, so the way to it is open to everybody.
        let from = if is_absolute(written) { ROOT } else { self.walk(working_dir.as_bytes())?.at };
        self.walk_from(from, written, who)
    }

    fn walk_from(&self, at: NodeId, written: &[u8], who: Option<&Credentials>) -> Result<Walk, FailedWalk> {
        let mut walked = Walk { at, links: Vec::new() };
        match self.follow(written, &mut walked, who) {
            Ok(()) => Ok(walked),
            Err(reason) => Err(FailedWalk { links: walked.links, reason }),
        }
    }

    /// The path as a process with these credentials would open it from the working directory.
    pub fn resolve_as(
        &self,
        written: &str,
        working_dir: &RootPath,
        who: &Credentials,
    ) -> Result<Resolved<'_>, NotFound> {
        match self.walk_as(working_dir, written.as_bytes(), Some(who)) {
            Ok(walk) => Ok(self.resolved(&walk)),
            Err(strayed) => Err(NotFound { candidates: vec![self.candidate(written.to_owned(), strayed)] }),
        }
    }

    pub(super) fn resolved(&self, Walk { at, links }: &Walk) -> Resolved<'_> {
        Resolved { path: self.tree.path(*at), node: self.tree.node(*at), links: self.all_followed(links) }
    }

    fn follow(&self, written: &[u8], walked: &mut Walk, who: Option<&Credentials>) -> Result<(), NotFoundReason> {
        let mut steps = PathComponents::new(written);
        while let Some((step, origin)) = steps.next().map_err(|_| NotFoundReason::Loop)? {
            let directory = self.tree.node(walked.at);
            if !directory.is_directory() {
                return Err(NotFoundReason::NotADirectory(self.tree.path(walked.at)));
            }
            if !step.is_empty() && who.is_some_and(|who| !directory.allows(who, Access::Execute)) {
                return Err(NotFoundReason::NotEnterable(self.tree.path(walked.at)));
            }
            match step {
                b"" | b"." => {}
                b".." => walked.at = self.tree.parent(walked.at),
                name => {
                    let child = self.tree.child(walked.at, name);
                    let child = child.ok_or_else(|| self.missing(walked, name, origin))?;
                    let EntryKind::Symlink(target) = self.tree.node(child).kind() else {
                        walked.at = child;
                        continue;
                    };
                    steps.follow(target).map_err(|_| NotFoundReason::Loop)?;
                    walked.links.push(child);
                    if is_absolute(target) {
                        walked.at = ROOT;
                    }
                }
            }
        }
        Ok(())
    }

    fn missing(&self, walked: &Walk, name: &[u8], origin: ComponentOrigin) -> NotFoundReason {
        // A name that no path can have is shown by its directory.
        let directory = self.tree.path(walked.at);
        let missing = directory.join(name).unwrap_or(directory);
        match origin {
            ComponentOrigin::Path => NotFoundReason::Missing(missing),
            ComponentOrigin::Link(number) => {
                let followed = walked.links.get(number).map(|id| self.followed(*id));
                followed.map_or(NotFoundReason::Loop, |FollowedLink { link, target }| NotFoundReason::Dangling {
                    link,
                    target,
                    missing,
                })
            }
        }
    }

    fn followed(&self, id: NodeId) -> FollowedLink {
        let target = match self.tree.node(id).kind() {
            EntryKind::Symlink(target) => target.clone(),
            _ => Vec::new(),
        };
        FollowedLink { link: self.tree.path(id), target }
    }

    fn all_followed(&self, links: &[NodeId]) -> Vec<FollowedLink> {
        links.iter().map(|id| self.followed(*id)).collect()
    }
}

/// Every path that was tried, with the reason why it did not do. There is none if `PATH` is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotFound {
    pub candidates: Vec<TriedPath>,
}

/// A path that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriedPath {
    /// As it was put together, before any link.
    pub written: String,
    /// The links gone through before it failed.
    pub links: Vec<FollowedLink>,
    pub reason: NotFoundReason,
}

/// Why a path was not found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotFoundReason {
    /// Nothing is at this path, which has no link in it.
    Missing(RootPath),
    /// The link's target, as written, points to nothing.
    Dangling {
        link: RootPath,
        target: Vec<u8>,
        missing: RootPath,
    },
    /// The path goes on below something that is not a directory.
    NotADirectory(RootPath),
    /// More links than Linux follows, usually a loop.
    Loop,
    IsDirectory,
    /// A device or a pipe.
    NotAFile,
    /// A file without any execute bit.
    NotExecutable,
    /// A file that others may execute, but not the user of the process.
    NotPermitted,
    /// A directory that the user of the process may not enter.
    NotEnterable(RootPath),
}

impl fmt::Display for NotFoundReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(path) => write!(f, "{path} does not exist"),
            Self::Dangling { link, target, missing } => {
                write!(f, "the symbolic link {link} points to {}, but {missing} does not exist", shown(target))
            }
            Self::NotADirectory(path) => write!(f, "{path} is not a directory"),
            Self::Loop => write!(f, "it has more than {MAX_LINKS} symbolic links, or they form a loop"),
            Self::IsDirectory => f.write_str("it is a directory"),
            Self::NotAFile => f.write_str("it is a device or a named pipe"),
            Self::NotExecutable => f.write_str("it is not executable"),
            Self::NotPermitted => f.write_str("the user may not execute it"),
            Self::NotEnterable(path) => write!(f, "the user may not enter {path}"),
        }
    }
}

impl fmt::Display for TriedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", printable(&self.written), self.reason)
    }
}

/// One candidate per line.
impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.candidates.is_empty() {
            return f.write_str("PATH has no directories");
        }
        for (number, candidate) in self.candidates.iter().enumerate() {
            let line = if number == 0 { "" } else { "\n" };
            write!(f, "{line}{candidate}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rootfs::merge;
    use crate::rootfs::testing::{directory, file, layer, path, symlink};

    /// A root after the usr-merge, with links of all sorts.
    fn entries() -> Vec<layer::Entry> {
        vec![
            directory("usr/bin"),
            file("usr/bin/sh"),
            symlink("bin", "usr/bin"),
            symlink("usr/bin/ash", "sh"),
            symlink("etc/alternatives/ash", "/bin/ash"),
            symlink("a", "/etc/alternatives/ash"),
            symlink("up", "../../../../bin/sh"),
            symlink("usr/local", ".."),
            symlink("top", "/"),
            symlink("slashed", "bin/sh/"),
            symlink("slashed-directory", "usr//./bin/"),
            symlink("self", "self"),
            symlink("one", "two"),
            symlink("two", "/one"),
            symlink("dangling", "/opt/app"),
            symlink("deep", "dangling/x"),
            symlink("through-file", "bin/sh/../ash"),
            symlink("through-nothing", "nothing/../bin/sh"),
            symlink("nul", b"a\0b"),
        ]
    }

    #[test]
    fn links_are_followed_inside_the_root() {
        let layers = [layer(entries())];
        let root = merge(&layers);
        for (asked, end, links) in [
            ("usr/bin/sh", "usr/bin/sh", vec![]),
            ("bin/sh", "usr/bin/sh", vec!["bin"]),
            ("bin", "usr/bin", vec!["bin"]),
            ("bin/ash", "usr/bin/sh", vec!["bin", "usr/bin/ash"]),
            ("a", "usr/bin/sh", vec!["a", "etc/alternatives/ash", "bin", "usr/bin/ash"]),
            ("up", "usr/bin/sh", vec!["up", "bin"]),
            ("usr/local/usr/bin/sh", "usr/bin/sh", vec!["usr/local"]),
            ("top/top/bin/sh", "usr/bin/sh", vec!["top", "top", "bin"]),
            ("slashed-directory", "usr/bin", vec!["slashed-directory"]),
            ("", "", vec![]),
            ("top", "", vec!["top"]),
        ] {
            let resolved = root.resolve(&path(asked)).unwrap();
            assert_eq!(resolved.path, path(end), "{asked}");
            let followed: Vec<RootPath> = resolved.links.into_iter().map(|followed| followed.link).collect();
            assert_eq!(followed, links.into_iter().map(path).collect::<Vec<_>>(), "{asked}");
            assert_eq!(root.get(&path(end)).unwrap().kind(), resolved.node.kind());
        }
    }

    #[test]
    fn a_path_that_leads_to_nothing_says_why() {
        let layers = [layer(entries())];
        let root = merge(&layers);
        let dangling = |link: &str, target: &str, missing: &str| NotFoundReason::Dangling {
            link: path(link),
            target: target.into(),
            missing: path(missing),
        };
        for (asked, why) in [
            ("nothing", NotFoundReason::Missing(path("nothing"))),
            ("bin/nothing", NotFoundReason::Missing(path("usr/bin/nothing"))),
            ("nothing/at/all", NotFoundReason::Missing(path("nothing"))),
            ("dangling", dangling("dangling", "/opt/app", "opt")),
            ("deep", dangling("dangling", "/opt/app", "opt")),
            ("through-nothing", dangling("through-nothing", "nothing/../bin/sh", "nothing")),
            ("nul", dangling("nul", "a\0b", "")),
            ("usr/bin/sh/x", NotFoundReason::NotADirectory(path("usr/bin/sh"))),
            ("slashed", NotFoundReason::NotADirectory(path("usr/bin/sh"))),
            ("through-file", NotFoundReason::NotADirectory(path("usr/bin/sh"))),
            ("self", NotFoundReason::Loop),
            ("one", NotFoundReason::Loop),
            ("self/x", NotFoundReason::Loop),
        ] {
            let lost = root.resolve(&path(asked)).unwrap_err();
            assert_eq!(lost.candidates.len(), 1);
            assert_eq!((&lost.candidates[0].written, &lost.candidates[0].reason), (&format!("/{asked}"), &why));
        }
        assert_eq!(
            root.resolve(&path("deep")).unwrap_err().to_string(),
            "/deep: the symbolic link /dangling points to /opt/app, but /opt does not exist"
        );
    }

    #[test]
    fn forty_links_are_followed_and_no_more() {
        let links = (0..50).map(|number| symlink(&format!("l{number}"), format!("l{}", number + 1)));
        let layers = [layer(links.chain([file("l50")]))];
        let root = merge(&layers);
        assert_eq!(root.resolve(&path("l10")).unwrap().links.len(), 40);
        assert_eq!(root.resolve(&path("l9")).unwrap_err().candidates[0].reason, NotFoundReason::Loop);
    }

    #[test]
    fn get_does_not_follow_the_last_link_but_those_before_it() {
        let layers = [layer(entries())];
        let root = merge(&layers);
        for (asked, target) in
            [("bin", Some("usr/bin")), ("bin/ash", Some("sh")), ("self", Some("self")), ("bin/sh", None)]
        {
            let target = target.map(|target| EntryKind::Symlink(target.into()));
            let expected = target.unwrap_or(EntryKind::File { size: 1 });
            assert_eq!(*root.get(&path(asked)).unwrap().kind(), expected, "{asked}");
        }
        for asked in ["nothing", "bin/nothing", "bin/sh/x", "self/x", "dangling/x"] {
            assert!(root.get(&path(asked)).is_none(), "{asked}");
        }
    }
}
