//! Where a path leads, as the kernel would follow it in a container: `path_resolution(7)`.

use super::lost::{Candidate, Lost, Why};
use super::node::Node;
use super::root::Root;
use super::steps::{Origin, Steps, is_absolute};
use super::tree::{NodeId, ROOT};
use crate::layer::{EntryKind, RootPath};

/// A path that leads somewhere.
#[derive(Debug, Clone)]
pub struct Resolved<'r> {
    /// Where it ends: a path without any link in it.
    pub path: RootPath,
    pub node: &'r Node<'r>,
    /// The links gone through, those of folders included, in this order.
    pub links: Vec<Followed>,
}

/// A symbolic link that was followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// Where the link is: a path without any other link in it.
    pub link: RootPath,
    /// The target as written.
    pub target: Vec<u8>,
}

/// A walk that came to its end.
pub(super) struct Walked {
    pub(super) at: NodeId,
    pub(super) links: Vec<NodeId>,
}

/// A walk that did not.
pub(super) struct Strayed {
    links: Vec<NodeId>,
    why: Why,
}

impl Root<'_> {
    /// Follows all links, one in the last place included. Absolute links start at the image's
    /// root, and nothing leads above it.
    pub fn resolve(&self, path: &RootPath) -> Result<Resolved<'_>, Lost> {
        self.resolve_written(path.as_bytes())
            .map_err(|strayed| Lost { candidates: vec![self.candidate(path.to_string(), strayed)] })
    }

    /// Follows a path as somebody wrote it: seen from the root, with or without a leading slash.
    pub(super) fn resolve_written(&self, written: &[u8]) -> Result<Resolved<'_>, Strayed> {
        let Walked { at, links } = self.walk(written)?;
        Ok(Resolved { path: self.tree.path(at), node: self.tree.node(at), links: self.all_followed(&links) })
    }

    pub(super) fn candidate(&self, written: String, strayed: Strayed) -> Candidate {
        Candidate { written, links: self.all_followed(&strayed.links), why: strayed.why }
    }

    pub(super) fn walk(&self, written: &[u8]) -> Result<Walked, Strayed> {
        let mut walked = Walked { at: ROOT, links: Vec::new() };
        match self.follow(written, &mut walked) {
            Ok(()) => Ok(walked),
            Err(why) => Err(Strayed { links: walked.links, why }),
        }
    }

    fn follow(&self, written: &[u8], walked: &mut Walked) -> Result<(), Why> {
        let mut steps = Steps::new(written);
        while let Some((step, origin)) = steps.next().map_err(|_| Why::Loop)? {
            if !self.tree.node(walked.at).is_folder() {
                return Err(Why::NotAFolder(self.tree.path(walked.at)));
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
                    steps.follow(target).map_err(|_| Why::Loop)?;
                    walked.links.push(child);
                    if is_absolute(target) {
                        walked.at = ROOT;
                    }
                }
            }
        }
        Ok(())
    }

    fn missing(&self, walked: &Walked, name: &[u8], origin: Origin) -> Why {
        // A name that no path can have is shown by its folder.
        let folder = self.tree.path(walked.at);
        let missing = folder.join(name).unwrap_or(folder);
        match origin {
            Origin::Path => Why::Missing(missing),
            Origin::Link(number) => {
                let followed = walked.links.get(number).map(|id| self.followed(*id));
                followed.map_or(Why::Loop, |Followed { link, target }| Why::Dangling { link, target, missing })
            }
        }
    }

    fn followed(&self, id: NodeId) -> Followed {
        let target = match self.tree.node(id).kind() {
            EntryKind::Symlink(target) => target.clone(),
            _ => Vec::new(),
        };
        Followed { link: self.tree.path(id), target }
    }

    fn all_followed(&self, links: &[NodeId]) -> Vec<Followed> {
        links.iter().map(|id| self.followed(*id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rootfs::merge;
    use crate::rootfs::sample::{file, folder, layer, path, symlink};

    /// A root after the usr-merge, with links of all sorts.
    fn entries() -> Vec<crate::layer::Entry> {
        vec![
            folder("usr/bin"),
            file("usr/bin/sh"),
            symlink("bin", "usr/bin"),
            symlink("usr/bin/ash", "sh"),
            symlink("etc/alternatives/ash", "/bin/ash"),
            symlink("a", "/etc/alternatives/ash"),
            symlink("up", "../../../../bin/sh"),
            symlink("usr/local", ".."),
            symlink("top", "/"),
            symlink("slashed", "bin/sh/"),
            symlink("slashed-folder", "usr//./bin/"),
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
            ("slashed-folder", "usr/bin", vec!["slashed-folder"]),
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
        let dangling = |link: &str, target: &str, missing: &str| Why::Dangling {
            link: path(link),
            target: target.into(),
            missing: path(missing),
        };
        for (asked, why) in [
            ("nothing", Why::Missing(path("nothing"))),
            ("bin/nothing", Why::Missing(path("usr/bin/nothing"))),
            ("nothing/at/all", Why::Missing(path("nothing"))),
            ("dangling", dangling("dangling", "/opt/app", "opt")),
            ("deep", dangling("dangling", "/opt/app", "opt")),
            ("through-nothing", dangling("through-nothing", "nothing/../bin/sh", "nothing")),
            ("nul", dangling("nul", "a\0b", "")),
            ("usr/bin/sh/x", Why::NotAFolder(path("usr/bin/sh"))),
            ("slashed", Why::NotAFolder(path("usr/bin/sh"))),
            ("through-file", Why::NotAFolder(path("usr/bin/sh"))),
            ("self", Why::Loop),
            ("one", Why::Loop),
            ("self/x", Why::Loop),
        ] {
            let lost = root.resolve(&path(asked)).unwrap_err();
            assert_eq!(lost.candidates.len(), 1);
            assert_eq!((&lost.candidates[0].written, &lost.candidates[0].why), (&format!("/{asked}"), &why));
        }
        assert_eq!(
            root.resolve(&path("deep")).unwrap_err().to_string(),
            "/deep: the link /dangling leads to /opt/app, but /opt is not there"
        );
    }

    #[test]
    fn forty_links_are_followed_and_no_more() {
        let links = (0..50).map(|number| symlink(&format!("l{number}"), format!("l{}", number + 1)));
        let layers = [layer(links.chain([file("l50")]))];
        let root = merge(&layers);
        assert_eq!(root.resolve(&path("l10")).unwrap().links.len(), 40);
        assert_eq!(root.resolve(&path("l9")).unwrap_err().candidates[0].why, Why::Loop);
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
