//! Merges layers, bottom first, entry by entry, in the order of their tars.
//!
//! Where an entry goes: links in its directory are followed inside the root, as umoci and containerd's
//! plain unpacking do; a link in its own place is replaced. (Runtimes that keep each layer in a
//! directory of its own do not see links of lower layers while they unpack: [`MergeIssueKind::ThroughLink`].)

use std::fmt;

use super::path_components::{PathComponents, TooManyLinks, is_absolute, split_last};
use super::root::{DirectoryCache, Root};
use super::tree::{EntrySource, FileNode, NodeId, ROOT};
use layer::{Entry, EntryKind, LayerContents, RootPath};

/// Bytes of a path and of a name in Linux.
const LONGEST_PATH: usize = 4096;
const LONGEST_NAME: usize = 255;
/// An entry can ask for a thousand directories with two thousand bytes.
const MOST_IMPLIED: usize = 1 << 18;

/// The root that the layers make, bottom first. Every stack of layers makes one; what of it no
/// runtime would take is in [`Root::issues`].
pub fn merge<'a, L: Into<LayerContents<'a>>>(layers: impl IntoIterator<Item = L>) -> Root<'a> {
    let mut root = Root::default();
    for layer in layers {
        root.add_layer(layer.into());
    }
    root
}

impl<'a> Root<'a> {
    /// Lays one more layer on top.
    pub fn add_layer(&mut self, layer: LayerContents<'a>) {
        let number = self.layers.len();
        for (position, entry) in layer.entries.iter().enumerate() {
            self.apply(EntrySource::new(entry, number, position));
        }
        self.directories = DirectoryCache::default();
        self.layers.push(layer);
    }
}

/// Where a path resolves to: the last node that exists, and the names that do not.
struct MergeTarget<'a> {
    at: NodeId,
    missing: Vec<&'a [u8]>,
    /// Whether a link was followed that a lower layer put there.
    through_lower_link: bool,
    /// Whether a name on the way was missing or no directory, also one that `..` led back from: it may be
    /// another thing later.
    through_nothing: bool,
}

impl<'a> Root<'a> {
    fn apply(&mut self, source: EntrySource<'a>) {
        let outcome = match &source.entry.kind {
            EntryKind::Whiteout => self.white_out(source),
            EntryKind::Opaque => self.clear(source),
            _ => self.put(source),
        };
        if let Err(why) = outcome {
            self.note(source, why);
        }
    }

    fn note(&mut self, source: EntrySource<'a>, kind: MergeIssueKind) {
        self.issues.push(MergeIssue { entry: source.entry, layer: source.layer(), kind });
    }

    /// A whiteout of what does not exist has no effect, and creates no directories.
    fn white_out(&mut self, source: EntrySource<'a>) -> Result<(), MergeIssueKind> {
        let Some((directory, name)) = split_last(source.entry.path.as_bytes()) else { return Ok(()) };
        if let Some(directory) = self.present(directory, source)? {
            self.forget_paths_through(directory, name);
            self.tree.remove_lower(directory, name, source.layer());
        }
        Ok(())
    }

    fn clear(&mut self, source: EntrySource<'a>) -> Result<(), MergeIssueKind> {
        if let Some(directory) = self.present(source.entry.path.as_bytes(), source)? {
            self.directories.forget();
            self.tree.clear(directory, source.layer());
        }
        Ok(())
    }

    /// What is at the name is about to go. Paths lead through directories and links only.
    fn forget_paths_through(&mut self, directory: NodeId, name: &[u8]) {
        let node = self.tree.child(directory, name).map(|id| self.tree.node(id));
        if node.is_some_and(|node| node.is_directory() || matches!(node.kind(), EntryKind::Symlink(_))) {
            self.directories.forget();
        }
    }

    fn put(&mut self, source: EntrySource<'a>) -> Result<(), MergeIssueKind> {
        let Some((directory, name)) = split_last(source.entry.path.as_bytes()) else {
            // Layers are refused in which the root is anything but a directory.
            self.tree.replace_directory(ROOT, FileNode::of(source));
            return Ok(());
        };
        let directory = self.made_directory(directory, name, source)?;
        let there = self.tree.child(directory, name).filter(|id| self.tree.node(*id).is_directory());
        if let (EntryKind::Directory, Some(there)) = (&source.entry.kind, there) {
            self.tree.replace_directory(there, FileNode::of(source));
            return Ok(());
        }
        // Before a hard link looks for its target: that may be what has to go.
        self.forget_paths_through(directory, name);
        self.tree.remove(directory, name);
        let node = match &source.entry.kind {
            EntryKind::Hardlink(target) => self.target(target, source)?.linked(source),
            _ => FileNode::of(source),
        };
        self.tree.add(directory, name, node);
        Ok(())
    }

    /// The file that a hard link points to at this moment. Links in its directory are followed; if it
    /// is a symbolic link itself, that gets a second name. The attributes in the hard link's own
    /// header are not used: there is one file, and it has some.
    fn target(&mut self, target: &'a RootPath, source: EntrySource<'a>) -> Result<FileNode<'a>, MergeIssueKind> {
        let (directory, name) = split_last(target.as_bytes()).ok_or(MergeIssueKind::DirectoryTarget)?;
        let spot = self.locate(directory, source.layer())?;
        let found = if spot.missing.is_empty() { self.tree.child(spot.at, name) } else { None };
        let node = *self.tree.node(found.ok_or(MergeIssueKind::MissingTarget)?);
        if node.is_directory() {
            return Err(MergeIssueKind::DirectoryTarget);
        }
        if node.layer() != source.layer() {
            self.note(source, MergeIssueKind::LowerTarget);
        }
        Ok(node)
    }

    /// The place that a path resolves to, if it exists.
    fn present(&mut self, path: &'a [u8], source: EntrySource<'a>) -> Result<Option<NodeId>, MergeIssueKind> {
        let spot = self.locate(path, source.layer())?;
        if !spot.missing.is_empty() {
            return Ok(None);
        }
        if spot.through_lower_link {
            self.note(source, MergeIssueKind::ThroughLink);
        }
        Ok(Some(spot.at))
    }

    /// The directory that `name` is to be put in; makes what is missing of it.
    fn made_directory(
        &mut self,
        path: &'a [u8],
        name: &'a [u8],
        source: EntrySource<'a>,
    ) -> Result<NodeId, MergeIssueKind> {
        let spot = self.locate(path, source.layer())?;
        if !self.tree.node(spot.at).is_directory() {
            return Err(MergeIssueKind::BelowFile);
        }
        self.check_length(&spot, name)?;
        self.implied += spot.missing.len();
        if self.implied > MOST_IMPLIED {
            self.implied = MOST_IMPLIED;
            return Err(MergeIssueKind::TooManyDirectories);
        }
        if spot.through_lower_link {
            self.note(source, MergeIssueKind::ThroughLink);
        }
        let implied = FileNode::implied(source.layer());
        Ok(spot.missing.into_iter().fold(spot.at, |directory, name| self.tree.add(directory, name, implied)))
    }

    fn check_length(&self, spot: &MergeTarget<'_>, name: &[u8]) -> Result<(), MergeIssueKind> {
        let mut length = self.tree.path_length(spot.at);
        for name in spot.missing.iter().chain([&name]) {
            // A link's target can hold bytes that no path of an entry has.
            if name.len() > LONGEST_NAME || name.contains(&0) {
                return Err(MergeIssueKind::ImpossiblePath);
            }
            length += name.len() + 1;
        }
        if length > LONGEST_PATH { Err(MergeIssueKind::ImpossiblePath) } else { Ok(()) }
    }

    /// Where a path leads to; a directory is remembered.
    fn locate(&mut self, path: &'a [u8], layer: usize) -> Result<MergeTarget<'a>, MergeIssueKind> {
        if let Some((at, through_lower_link)) = self.directories.get(path) {
            return Ok(MergeTarget { at, missing: Vec::new(), through_lower_link, through_nothing: false });
        }
        let spot = self.walk_as_far_as_it_goes(path, layer)?;
        if !spot.through_nothing && self.tree.node(spot.at).is_directory() {
            self.directories.insert(path, spot.at, spot.through_lower_link);
        }
        Ok(spot)
    }

    /// Follows a path as far as there is one. From there on it goes by its names, `..` included,
    /// as runtimes do, so that what is below a dangling link is put where the link points.
    fn walk_as_far_as_it_goes(&self, path: &'a [u8], layer: usize) -> Result<MergeTarget<'a>, MergeIssueKind> {
        let mut spot = MergeTarget { at: ROOT, missing: Vec::new(), through_lower_link: false, through_nothing: false };
        let mut steps = PathComponents::new(path);
        while let Some((step, _)) = steps.next()? {
            match step {
                b"" | b"." => {}
                b".." => {
                    if spot.missing.pop().is_none() {
                        spot.through_nothing |= !self.tree.node(spot.at).is_directory();
                        spot.at = self.tree.parent(spot.at);
                    }
                }
                name => match self.tree.child(spot.at, name).filter(|_| spot.missing.is_empty()) {
                    None => {
                        spot.through_nothing = true;
                        spot.missing.push(name);
                    }
                    Some(id) => self.enter(id, layer, &mut spot, &mut steps)?,
                },
            }
        }
        Ok(spot)
    }

    fn enter(
        &self,
        id: NodeId,
        layer: usize,
        spot: &mut MergeTarget<'a>,
        steps: &mut PathComponents<'a>,
    ) -> Result<(), MergeIssueKind> {
        let node = self.tree.node(id);
        match node.kind() {
            EntryKind::Symlink(target) => {
                spot.through_lower_link |= node.layer() != layer;
                if is_absolute(target) {
                    spot.at = ROOT;
                }
                steps.follow(target)?;
            }
            _ => spot.at = id,
        }
        Ok(())
    }
}

impl From<TooManyLinks> for MergeIssueKind {
    fn from(_: TooManyLinks) -> Self {
        Self::Loop
    }
}

/// An entry with the issue it has.
#[derive(Debug, Clone, Copy)]
pub struct MergeIssue<'a> {
    pub entry: &'a Entry,
    /// The number of its layer, from the bottom and from 0.
    pub layer: usize,
    pub kind: MergeIssueKind,
}

/// What the issue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeIssueKind {
    /// A hard link to what is not there when the entry's turn comes.
    MissingTarget,
    /// A hard link to a directory.
    DirectoryTarget,
    /// It is below something that is not a directory.
    BelowFile,
    /// Its directory is reached through too many links.
    Loop,
    /// Its path, once links in it are followed, is one that Linux does not have.
    ImpossiblePath,
    /// It would need one implied directory too many.
    TooManyDirectories,
    /// Its directory is reached through a link of a lower layer. It goes where the link points.
    ThroughLink,
    /// A hard link to a file that only a lower layer has.
    LowerTarget,
}

impl MergeIssueKind {
    /// Whether the entry did what it says all the same: some runtimes accept it, others do not.
    /// After the others, a runtime would not have gone on at all.
    #[must_use]
    pub const fn is_applied(self) -> bool {
        matches!(self, Self::ThroughLink | Self::LowerTarget)
    }
}

impl fmt::Display for MergeIssueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MissingTarget => "is a hard link to a file that does not exist",
            Self::DirectoryTarget => "is a hard link to a directory",
            Self::BelowFile => "is below something that is not a directory",
            Self::Loop => "is below symbolic links that form a loop",
            Self::ImpossiblePath => "has a path that is too long for Linux",
            Self::TooManyDirectories => {
                "is in a directory without an entry of its own, and there are too many of those"
            }
            Self::ThroughLink => {
                "is below a symbolic link of a lower layer; some runtimes follow it, others replace it with a directory"
            }
            Self::LowerTarget => "is a hard link to a file in a lower layer, which some runtimes do not find",
        })
    }
}

impl fmt::Display for MergeIssue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marker = if self.entry.kind == EntryKind::Whiteout { "whiteout of " } else { "" };
        write!(f, "{marker}{} {}", self.entry.path, self.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rootfs::testing::{directory, entry, file, hard_link, layer, opaque, path, shown, symlink, whiteout};
    use layer::{Entry, LayerIndex};

    /// The root of a stack of layers, and its oddities.
    fn merged(stack: Vec<Vec<Entry>>) -> (String, Vec<(String, MergeIssueKind)>) {
        let layers: Vec<LayerIndex> = stack.into_iter().map(layer).collect();
        let root = merge(&layers);
        let odd = root.issues().iter().map(|odd| (odd.entry.path.to_string(), odd.kind)).collect();
        (shown(&root), odd)
    }

    fn check(cases: Vec<(Vec<Vec<Entry>>, &str)>) {
        for (stack, expected) in cases {
            let (root, odd) = merged(stack);
            assert_eq!(root, expected);
            assert_eq!(odd, [], "{expected}");
        }
    }

    #[test]
    fn later_layers_and_later_entries_replace_earlier_ones() {
        check(vec![
            (vec![vec![file("a")], vec![file("a")]], "a:1"),
            (vec![vec![file("a"), symlink("a", "b")]], "a->b:0"),
            (vec![vec![symlink("a", "b")], vec![file("a")]], "a:1"),
            (vec![vec![directory("a"), file("a/b")], vec![file("a")]], "a:1"),
            (vec![vec![directory("a"), file("a/b")], vec![file("a")], vec![directory("a")]], "a/:2"),
            (vec![vec![file("a")], vec![directory("a"), file("a/b")]], "a/:1 a/b:1"),
            (vec![vec![directory("a"), file("a/b")], vec![directory("a")]], "a/:1 a/b:0"),
            (vec![vec![directory("a"), file("a/b"), file("a")]], "a:0"),
            (vec![vec![directory("d")], vec![symlink("l", "d")], vec![directory("l")]], "d/:0 l/:2"),
            (vec![], ""),
        ]);
    }

    #[test]
    fn directories_without_an_entry_are_implied_until_one_does() {
        check(vec![
            (vec![vec![file("a/b/c")]], "a//:0 a/b//:0 a/b/c:0"),
            (vec![vec![file("a/b")], vec![directory("a")]], "a/:1 a/b:0"),
            (vec![vec![directory("a")], vec![file("a/b")]], "a/:0 a/b:1"),
        ]);
        let layers = [layer([file("a/b")])];
        let root = merge(&layers);
        let a = root.get(&path("a")).unwrap();
        assert_eq!((a.mode(), a.uid(), a.gid(), a.entry().is_none()), (0o755, 0, 0, true));
    }

    /// The way to a directory is remembered within a layer; each of these makes it another one.
    #[test]
    fn a_directory_that_is_removed_or_replaced_is_looked_for_again() {
        check(vec![
            (
                vec![vec![directory("a"), symlink("l", "a"), file("l/1"), symlink("l", "b"), file("l/2")]],
                "a/:0 a/1:0 b//:0 b/2:0 l->b:0",
            ),
            (vec![vec![directory("a"), file("a/1"), file("a"), directory("a"), file("a/2")]], "a/:0 a/2:0"),
            (
                vec![vec![symlink("l", "a"), file("l/1"), directory("a/b"), file("l/b/2")]],
                "a//:0 a/1:0 a/b/:0 a/b/2:0 l->a:0",
            ),
        ]);
        // A name that was missing on the way is there now.
        let through_nothing =
            [directory("d"), symlink("l", "x/../d"), file("l/1"), directory("y/z"), symlink("x", "y/z"), file("l/2")];
        check(vec![(vec![through_nothing.to_vec()], "d/:0 d/1:0 l->x/../d:0 x->y/z:0 y//:0 y/d//:0 y/d/2:0 y/z/:0")]);
        let through_file =
            [file("x"), directory("y"), symlink("l", "x/.."), file("l/1"), symlink("x", "y/z"), file("l/2")];
        check(vec![(vec![through_file.to_vec()], "1:0 l->x/..:0 x->y/z:0 y/:0 y/2:0")]);
        // Removed in the same layer by what a lower one had there.
        let lower = vec![directory("a"), directory("a/b"), symlink("l", "a")];
        let (root, _) = merged(vec![lower.clone(), vec![file("l/1"), whiteout("l"), file("l/2")]]);
        assert_eq!(root, "a/:0 a/1:1 a/b/:0 l//:1 l/2:1");
        let (root, _) = merged(vec![lower, vec![file("a/b/1"), opaque("a"), file("a/b/2")]]);
        assert_eq!(root, "a/:0 a/b/:0 a/b/1:1 a/b/2:1 l->a:0");
    }

    #[test]
    fn a_whiteout_removes_what_lower_layers_put_there() {
        check(vec![
            (vec![vec![file("a"), file("b")], vec![whiteout("a")]], "b:0"),
            (vec![vec![directory("a"), file("a/b")], vec![whiteout("a")]], ""),
            (vec![vec![directory("a"), file("a/b")], vec![whiteout("a/b")]], "a/:0"),
            (vec![vec![directory("d"), file("d/x"), symlink("l", "d")], vec![whiteout("l")]], "d/:0 d/x:0"),
            (vec![vec![file("a")], vec![whiteout("a")], vec![file("a")]], "a:2"),
            (vec![vec![file("a")], vec![whiteout("b"), whiteout("c/d"), whiteout("a/b")]], "a:0"),
            (vec![vec![whiteout("a"), file("b")]], "b:0"),
        ]);
    }

    #[test]
    fn a_whiteout_never_removes_what_its_own_layer_puts_there() {
        let lower = || vec![directory("a"), file("a/old"), directory("a/b"), file("a/b/old")];
        check(vec![
            (vec![lower(), vec![whiteout("a"), directory("a"), file("a/new")]], "a/:1 a/new:1"),
            (vec![lower(), vec![directory("a"), whiteout("a"), file("a/new")]], "a/:1 a/new:1"),
            (vec![lower(), vec![directory("a"), file("a/new"), whiteout("a")]], "a/:1 a/new:1"),
            (vec![lower(), vec![file("a"), whiteout("a")]], "a:1"),
            (vec![lower(), vec![whiteout("a"), file("a/b/new")]], "a//:1 a/b//:1 a/b/new:1"),
            // As umoci has it: the directory was in use before it was removed.
            (vec![lower(), vec![file("a/b/new"), whiteout("a")]], "a/:0 a/b/:0 a/b/new:1"),
            (vec![lower(), vec![file("a/b/new"), whiteout("a"), whiteout("a/b/new")]], "a/:0 a/b/:0 a/b/new:1"),
        ]);
    }

    #[test]
    fn an_opaque_directory_hides_all_that_lower_layers_have_in_it() {
        let lower = || vec![directory("a"), file("a/old"), directory("a/b"), file("a/b/old"), file("c")];
        check(vec![
            (vec![lower(), vec![opaque("a")]], "a/:0 c:0"),
            (vec![lower(), vec![opaque("a"), file("a/new")]], "a/:0 a/new:1 c:0"),
            (vec![lower(), vec![file("a/new"), opaque("a")]], "a/:0 a/new:1 c:0"),
            (vec![lower(), vec![file("a/b/new"), opaque("a")]], "a/:0 a/b/:0 a/b/new:1 c:0"),
            (vec![lower(), vec![directory("a"), opaque("a"), file("a/b/new")]], "a/:1 a/b//:1 a/b/new:1 c:0"),
            (vec![lower(), vec![opaque("")]], ""),
            (vec![lower(), vec![file("a/old"), opaque("")]], "a/:0 a/old:1"),
            (vec![lower(), vec![opaque("c"), opaque("missing")]], "a/:0 a/b/:0 a/b/old:0 a/old:0 c:0"),
            (vec![lower(), vec![opaque("a"), directory("a/x")], vec![opaque("a")]], "a/:0 c:0"),
            (vec![lower(), vec![opaque("a"), file("a/x")], vec![file("a/y"), opaque("a")]], "a/:0 a/y:2 c:0"),
        ]);
    }

    #[test]
    fn a_hard_link_keeps_the_file_it_led_to_at_that_moment() {
        check(vec![
            (vec![vec![file("a"), hard_link("b", "a")]], "a:0 b:0"),
            (vec![vec![file("a"), hard_link("b", "a")], vec![file("a")]], "a:1 b:0"),
            (vec![vec![file("a"), hard_link("b", "a")], vec![whiteout("a")]], "b:0"),
            (vec![vec![symlink("l", "x"), hard_link("b", "l")]], "b->x:0 l->x:0"),
            (vec![vec![file("d/a"), symlink("l", "d"), hard_link("b", "l/a")]], "b:0 d//:0 d/a:0 l->d:0"),
        ]);
        let layers = [layer([file("a"), hard_link("b", "a"), file("a")])];
        let root = merge(&layers);
        let b = root.get(&path("b")).unwrap();
        assert_eq!(root.content(b), Some(b"0".as_slice()), "the first file of the name");
        assert_eq!(root.content(root.get(&path("a")).unwrap()), Some(b"2".as_slice()));
        assert_eq!(b.entry().unwrap().path, path("a"));
        assert_eq!(b.hard_link().unwrap().path, path("b"));
    }

    #[test]
    fn a_hard_link_that_leads_nowhere_is_odd_and_leaves_nothing() {
        for (stack, expected, why) in [
            (vec![vec![hard_link("b", "a"), file("a")]], "a:0", MergeIssueKind::MissingTarget),
            (vec![vec![file("b")], vec![hard_link("b", "a")]], "", MergeIssueKind::MissingTarget),
            (vec![vec![hard_link("b", "a/x/y"), file("a")]], "a:0", MergeIssueKind::MissingTarget),
            (vec![vec![directory("a"), hard_link("b", "a")]], "a/:0", MergeIssueKind::DirectoryTarget),
            // The old file makes room for the link before the link looks for it.
            (
                vec![vec![file("d/a"), symlink("l", "d"), hard_link("l/a", "d/a")]],
                "d//:0 l->d:0",
                MergeIssueKind::MissingTarget,
            ),
            (vec![vec![file("d/a"), hard_link("d", "d/a")]], "", MergeIssueKind::MissingTarget),
        ] {
            let (root, odd) = merged(stack);
            assert_eq!(root, expected);
            assert_eq!(odd.into_iter().map(|(_, why)| why).collect::<Vec<_>>(), [why], "{expected}");
            assert!(!why.is_applied());
        }
    }

    #[test]
    fn a_hard_link_to_a_lower_layer_is_odd_and_works() {
        let (root, odd) = merged(vec![vec![file("a")], vec![hard_link("b", "a")], vec![hard_link("c", "b")]]);
        assert_eq!(root, "a:0 b:1<0 c:2<0");
        assert_eq!(
            odd,
            [("/b".to_owned(), MergeIssueKind::LowerTarget), ("/c".to_owned(), MergeIssueKind::LowerTarget)]
        );
        assert!(MergeIssueKind::LowerTarget.is_applied());
    }

    #[test]
    fn what_lies_below_a_link_goes_where_the_link_leads() {
        for (target, expected) in [
            ("d", "d/:0 d/x:1 l->d:0"),
            ("/d", "d/:0 d/x:1 l->/d:0"),
            ("./d/", "d/:0 d/x:1 l->./d/:0"),
            ("../../d", "d/:0 d/x:1 l->../../d:0"),
            ("/", "d/:0 l->/:0 x:1"),
            ("m/n", "d/:0 l->m/n:0 m//:1 m/n//:1 m/n/x:1"),
            ("m/../d", "d/:0 d/x:1 l->m/../d:0"),
            ("m/../../d", "d/:0 d/x:1 l->m/../../d:0"),
        ] {
            let (root, odd) = merged(vec![vec![directory("d"), symlink("l", target)], vec![file("l/x")]]);
            assert_eq!(root, expected, "{target}");
            assert_eq!(odd, [("/l/x".to_owned(), MergeIssueKind::ThroughLink)]);
            let (_, odd) = merged(vec![vec![directory("d"), symlink("l", target), file("l/x")]]);
            assert_eq!(odd, [], "all runtimes follow a link of the same layer");
        }
    }

    #[test]
    fn a_relative_link_starts_at_its_directory_and_an_absolute_one_at_the_root() {
        check(vec![
            (vec![vec![directory("d"), symlink("p/l", "/d"), file("p/l/x")]], "d/:0 d/x:0 p//:0 p/l->/d:0"),
            (vec![vec![directory("d"), symlink("p/l", "../d"), file("p/l/x")]], "d/:0 d/x:0 p//:0 p/l->../d:0"),
            (vec![vec![symlink("p/l", "d"), file("p/l/x")]], "p//:0 p/d//:0 p/d/x:0 p/l->d:0"),
        ]);
    }

    #[test]
    fn markers_are_about_where_a_link_leads_too() {
        let lower = || vec![directory("d"), file("d/x"), file("d/y"), symlink("l", "d")];
        for (marker, expected) in [(whiteout("l/x"), "d/:0 d/y:0 l->d:0"), (opaque("l"), "d/:0 l->d:0")] {
            let at = marker.path.to_string();
            assert_eq!(
                merged(vec![lower(), vec![marker]]),
                (expected.to_owned(), vec![(at, MergeIssueKind::ThroughLink)])
            );
        }
    }

    #[test]
    fn what_no_runtime_could_put_there_is_odd() {
        let chain = |links: usize| {
            let link = |number: usize| symlink(&format!("l{number}"), format!("l{}", number + 1));
            (0..links).map(link).chain([directory(&format!("l{links}"))]).collect::<Vec<_>>()
        };
        let deep = "d/".repeat(1000);
        for (stack, expected) in [
            (vec![vec![file("a")], vec![file("a/b")]], vec![MergeIssueKind::BelowFile]),
            (vec![vec![file("a"), file("a/b/c/d")]], vec![MergeIssueKind::BelowFile]),
            (vec![vec![symlink("a", "a"), file("a/x")]], vec![MergeIssueKind::Loop]),
            (
                vec![vec![symlink("a", "b"), symlink("b", "a"), file("a/x"), whiteout("a/x")]],
                vec![MergeIssueKind::Loop; 2],
            ),
            (vec![chain(40), vec![file("l0/x")]], vec![MergeIssueKind::ThroughLink]),
            (vec![chain(41), vec![file("l0/x")]], vec![MergeIssueKind::Loop]),
            (vec![vec![file("n".repeat(255))]], vec![]),
            (vec![vec![file("n".repeat(256))]], vec![MergeIssueKind::ImpossiblePath]),
            (vec![vec![symlink("l", b"a\0b"), file("l/x")]], vec![MergeIssueKind::ImpossiblePath]),
            // Each entry is short enough; where it goes is not.
            (vec![vec![symlink("l", &deep), file(format!("l/{deep}x")), symlink("m", format!("l/{deep}"))]], vec![]),
            (
                vec![vec![symlink("l", &deep), symlink("m", format!("l/{deep}")), file(format!("m/{deep}x"))]],
                vec![MergeIssueKind::ImpossiblePath],
            ),
        ] {
            let (root, odd) = merged(stack);
            assert_eq!(odd.into_iter().map(|(_, why)| why).collect::<Vec<_>>(), expected);
            assert!(expected.is_empty() || expected == [MergeIssueKind::ThroughLink] || !root.contains("/x"), "{root}");
        }
    }

    #[test]
    fn implied_directory_are_limited_in_number() {
        let entries = (0..300).map(|number| file(format!("{number}/{}x", "d/".repeat(1000))));
        let layers = [layer(entries)];
        let root = merge(&layers);
        assert_eq!(root.issues().len(), 300 - MOST_IMPLIED / 1001);
        assert!(root.issues().iter().all(|odd| odd.kind == MergeIssueKind::TooManyDirectories));
    }

    #[test]
    fn a_thousand_marks_for_one_directory_cost_no_more_than_one() {
        // Without that, this would be 10,000,000,000 steps.
        let files = (0..100_000).map(|number| file(format!("a/{number}")));
        let marks = (0..100_000).map(|number| if number % 2 == 0 { whiteout("a") } else { opaque("a") });
        let layers = [layer([file("a/old")]), layer(files.chain(marks))];
        assert_eq!(merge(&layers).directory(&path("a")).count(), 100_000);
    }

    #[test]
    fn the_root_takes_the_attributes_that_an_entry_gives_it() {
        let layers = [layer([Entry { mode: 0o700, uid: 7, ..directory("") }]), layer([file("a")])];
        let merged = merge(&layers);
        let root = merged.get(&RootPath::root()).unwrap();
        assert_eq!((root.mode(), root.uid(), root.layer()), (0o700, 7, 0));
    }

    #[test]
    fn devices_pipes_and_names_that_are_not_text_are_nodes() {
        let null = EntryKind::Character { major: 1, minor: 3 };
        let setuid = Entry { mode: 0o4755, uid: u64::from(u32::MAX) + 1, ..file(b"\xff/su\x80") };
        let layers = [layer([entry("null", null.clone()), entry("pipe", EntryKind::Fifo), setuid])];
        let root = merge(&layers);
        assert_eq!(*root.get(&path("null")).unwrap().kind(), null);
        assert_eq!(*root.get(&path("pipe")).unwrap().kind(), EntryKind::Fifo);
        let setuid = root.get(&path(b"\xff/su\x80")).unwrap();
        assert_eq!((setuid.mode(), setuid.uid()), (0o4755, 1 << 32));
    }
}
