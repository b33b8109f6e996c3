//! The added layer: accounts, working directory, log directory, and paths that the user wants along. Only
//! what is needed; nothing needed, no layer.

use std::collections::HashSet;
use std::sync::Arc;

use super::accounts::{self, AccountPlan, AccountRoots};
use super::bring::{BringName, BringOutcome, BringScene, Brought, bring};
use super::extract;
use super::layers::Roots;
use super::logs::Runner;
use super::new_layer::NewLayer;
use crate::examine::PlatformSubject;
use crate::process::{Container, LostPath, Setup, Which, parts_of, start, view};
use layer::{Entry, EntryKind, RootPath};
use start::rootfs::{FileNode, Root, merge};

/// The layer and why it is there.
#[derive(Debug, Clone, Default)]
pub struct Added {
    pub layer: Arc<NewLayer>,
    /// One line for each thing that was added.
    pub what: Vec<String>,
    pub accounts: AccountPlan,
    pub working_dir: DirectoryState,
    pub log_dir: DirectoryState,
}

/// A directory that the container needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum DirectoryState {
    #[default]
    NotNeeded,
    There,
    /// The added layer brings it; whether the source was asked what it looked like.
    Made {
        path: String,
        known: bool,
    },
    /// It cannot be made: why.
    Blocked {
        path: String,
        why: String,
    },
    /// It is there, but the user of the image may not write to it.
    ReadOnly {
        path: String,
        uid: u64,
    },
}

/// Draws up what the rebased root lacks.
pub(super) fn draw(container: &Container, roots: &Roots<'_>, subject: &PlatformSubject) -> Added {
    let old_base = merge(subject.old_layers.iter().map(AsRef::as_ref));
    let of = AccountRoots { old_base: &old_base, source: roots.source(), rebased: &roots.rebased };
    let named = named_accounts(container, roots, subject);
    let accounts = accounts::look_up(container, &named, &of);
    let mut added = Added { accounts, ..Added::default() };
    added.write_accounts(&roots.rebased);
    added.working_dir = added.working_dir(container, roots);
    added.log_dir = added.log_dir(container, roots);
    let before = Container::of(&subject.source.config);
    let base_layers = subject.base_layers.len();
    let setup = Setup { before: &before, after: container, inlined: None, base_layers, leaving: &[] };
    added.named_directories(&setup, roots);
    added
}

/// Words that may be the names of accounts: values of flags, and what in a program looks like nothing else.
fn named_accounts(container: &Container, roots: &Roots<'_>, subject: &PlatformSubject) -> HashSet<String> {
    let start = start(container, &roots.rebased);
    let argv = &start.argv;
    let is_value =
        |at: usize| at.checked_sub(1).and_then(|before| argv.get(before)).is_some_and(|word| word.starts_with('-'));
    let values = argv.iter().enumerate().filter(|(at, word)| is_value(*at) || word.contains(['=', '-']));
    let values = values.flat_map(|(_, word)| parts_of(word)).map(str::to_owned);
    let own = start.chain.iter().filter(|executed| executed.layer >= subject.base_layers.len());
    let words = own.filter_map(|executed| executed.program.as_ref()).flat_map(|program| &program.strings.words);
    values.chain(words.filter(|word| word.contains('-')).cloned()).collect()
}

impl Added {
    fn layer(&mut self) -> &mut NewLayer {
        Arc::make_mut(&mut self.layer)
    }

    fn write_accounts(&mut self, rebased: &Root<'_>) {
        for (which, content) in self.accounts.files.clone() {
            let Some(path) = account_path(which, rebased) else { continue };
            lead(self.layer(), &path, |parent| rebased.get(parent));
            let there = rebased.get(&path).and_then(FileNode::entry);
            let size = content.len() as u64;
            let new = Entry::new(path.clone(), EntryKind::File { size }, 0o644, 0, 0);
            let entry = there.map_or(new, |there| Entry { path, kind: EntryKind::File { size }, ..there.clone() });
            self.layer().add_file(entry, content);
        }
        self.what.extend(self.accounts.added.clone());
    }

    fn working_dir(&mut self, container: &Container, roots: &Roots<'_>) -> DirectoryState {
        let written = container.text("WorkingDir");
        if written.is_empty() {
            return DirectoryState::NotNeeded;
        }
        let blocked = |why: &str| DirectoryState::Blocked { path: written.to_owned(), why: why.to_owned() };
        match RootPath::new(written) {
            Err(_) => blocked("it leaves the root"),
            Ok(_) if !written.starts_with('/') => blocked("it is not an absolute path"),
            // These words are in the history of results, so they are part of the digest of format 1.
            Ok(path) => self.directory(&path, "working folder", roots, Owner::default()),
        }
    }

    fn log_dir(&mut self, container: &Container, roots: &Roots<'_>) -> DirectoryState {
        let Some(path) = log_directory(container) else { return DirectoryState::NotNeeded };
        let user = self.accounts.identity.as_ref().map(|identity| &identity.credentials);
        let (uid, gid) = (user.map(|user| user.uid), user.map_or(0, |user| user.gid));
        let owner = Owner { uid: uid.unwrap_or_default(), gid };
        let state = self.directory(&path, "log folder", roots, owner);
        // One that is made as the source had it is as closed as it was there.
        let like = match state {
            DirectoryState::There => &roots.rebased,
            DirectoryState::Made { known: true, .. } => roots.source(),
            _ => return state,
        };
        match uid {
            Some(uid) if !can_write(like, &path, uid, gid) => DirectoryState::ReadOnly { path: path.to_string(), uid },
            _ => state,
        }
    }

    /// Empty directories that only the old root had, that the user could write to, and that the command, a
    /// variable or a program of the application names.
    fn named_directories(&mut self, setup: &Setup<'_>, roots: &Roots<'_>) {
        let (before, after) = (start(setup.before, roots.source()), start(setup.after, &roots.rebased));
        let view = view((&before, roots.source()), (&after, &roots.rebased));
        let words = after.argv.iter().chain(after.environment.iter().map(|(_, value)| value));
        let mut named: Vec<&str> = words.flat_map(|word| parts_of(word)).collect();
        let own = after.chain.iter().filter(|executed| executed.layer >= setup.base_layers);
        let strings = own.filter_map(|executed| executed.program.as_ref()).flat_map(|program| &program.strings.paths);
        named.extend(strings.map(|string| string.text.as_str()));
        named.sort_unstable();
        named.dedup();
        for path in named.into_iter().filter(|path| view.lost(path) == Some(LostPath::EmptyDirectory)) {
            // Where it is written, so that links on the way to it are not needed.
            let written = RootPath::new(path).ok().filter(|_| path.starts_with('/'));
            if let Some(path) = written.or_else(|| view.place(path)) {
                self.directory(&path, "directory", roots, Owner::default());
            }
        }
    }

    fn directory(&mut self, path: &RootPath, what: &str, roots: &Roots<'_>, owner: Owner) -> DirectoryState {
        let (rebased, source) = (&roots.rebased, roots.source());
        match way(rebased, path) {
            Way::There => DirectoryState::There,
            Way::Blocked(why) => DirectoryState::Blocked { path: path.to_string(), why },
            Way::Missing(missing) => {
                if let Some(first) = missing.first() {
                    lead(self.layer(), first, |parent| rebased.get(parent));
                }
                make(self.layer(), &missing, source, owner);
                self.what.push(format!("{what} {path}"));
                let known = source.resolve(path).is_ok();
                DirectoryState::Made { path: path.to_string(), known }
            }
        }
    }

    /// Takes over the paths to be kept that the rebased root lacks; gives those that the source lacks, too.
    pub(super) fn keep(&mut self, keep: &[RootPath], roots: &Roots<'_>, subject: &PlatformSubject) -> Vec<RootPath> {
        let (rebased, source) = (&roots.rebased, roots.source());
        let mut missing = Vec::new();
        for path in keep {
            if source.get(path).is_none() {
                missing.push(path.clone());
                continue;
            }
            let taken = extract::take(self.layer(), &extract::kept(source, path), subject, (rebased, source));
            if taken > 0 {
                self.what.push(format!("{path} of the old base"));
            }
        }
        missing
    }
}

impl Added {
    /// Brings along what was named, with what it needs.
    pub(super) fn bring(
        &mut self,
        names: &[BringName],
        roots: &Roots<'_>,
        container: &Container,
        subject: &PlatformSubject,
    ) -> BringOutcome {
        if names.is_empty() {
            return BringOutcome::default();
        }
        let scene = BringScene::new(roots, container, subject);
        let outcome = bring(names, &scene, self.layer(), subject);
        self.what.extend(outcome.brought.iter().filter(|brought| brought.bulk.entries > 0).map(Brought::line));
        outcome
    }

    /// Brings the log runner along, at the path that it has in its own image.
    pub(super) fn put_runner(&mut self, runner: &Runner<'_>, rebased: &Root<'_>) {
        lead(self.layer(), &runner.path, |parent| rebased.get(parent));
        self.layer().take(runner.layer, runner.position, &runner.path);
        self.what.push(format!("log runner {}", runner.path));
    }
}

/// Where the account file is, or would be: a link is not replaced but followed.
fn account_path(which: Which, rebased: &Root<'_>) -> Option<RootPath> {
    let path = RootPath::new(which.path()).ok()?;
    match rebased.get(&path) {
        None => Some(path),
        Some(_) => rebased.resolve(&path).ok().map(|found| found.path),
    }
}

/// The flags of klog and of the log runners that name one file.
const FLAGS: [&str; 4] = ["--log-file", "--log_file", "-log-file", "-log_file"];

/// The directory of the log file that the command names. `None` where there is none, where it is a
/// device, and where a volume will be mounted over it.
fn log_directory(container: &Container) -> Option<RootPath> {
    let directory = log_file(&container.command.argv())?.parent()?;
    (!container.mounts(&directory)).then_some(directory)
}

/// The log file that the words name, unless it is a device.
pub(super) fn log_file(argv: &[String]) -> Option<RootPath> {
    let file = argv.iter().enumerate().find_map(|(at, word)| {
        let (flag, value) = word.split_once('=').map_or((word.as_str(), None), |(flag, value)| (flag, Some(value)));
        let value = value.or_else(|| argv.get(at + 1).map(String::as_str));
        FLAGS.contains(&flag).then_some(value).flatten()
    })?;
    let path = RootPath::new(file).ok().filter(|_| file.starts_with('/'))?;
    let is_device = matches!(path.components().next(), Some(b"dev" | b"proc" | b"sys"));
    (!is_device).then_some(path)
}

/// Whether a process with these numbers can make a file in the directory.
fn can_write(root: &Root<'_>, directory: &RootPath, uid: u64, gid: u64) -> bool {
    let Ok(found) = root.resolve(directory) else { return false };
    let bits = match found.node {
        _ if uid == 0 => return true,
        node if node.uid() == uid => node.mode() >> 6,
        node if node.gid() == gid => node.mode() >> 3,
        node => node.mode(),
    };
    bits & 0o3 == 0o3
}

/// Who a directory belongs to where the source does not say.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Owner {
    pub(super) uid: u64,
    pub(super) gid: u64,
}

/// Whether a path leads to a directory.
pub(super) enum Way {
    There,
    /// It would, if these were made, outermost first.
    Missing(Vec<RootPath>),
    /// It cannot: why.
    Blocked(String),
}

/// Where `path` leads in `root`. What is missing can be made unless a link stands in the way.
pub(super) fn way(root: &Root<'_>, path: &RootPath) -> Way {
    match root.resolve(path) {
        Ok(found) if found.node.is_directory() => Way::There,
        Ok(_) => Way::Blocked(format!("{path} is not a directory")),
        Err(lost) => missing(root, path).map_or_else(|| Way::Blocked(lost.to_string()), Way::Missing),
    }
}

/// The directories that are missing of a path on which no link dangles.
fn missing(root: &Root<'_>, path: &RootPath) -> Option<Vec<RootPath>> {
    let mut missing = Vec::new();
    let mut at = path.clone();
    while root.get(&at).is_none() {
        missing.push(at.clone());
        at = at.parent()?;
    }
    missing.reverse();
    root.resolve(&at).ok().filter(|found| found.node.is_directory()).map(|_| missing)
}

/// Puts the missing directories into the layer. The last one belongs to `owner` unless the source knows better.
pub(super) fn make(layer: &mut NewLayer, missing: &[RootPath], source: &Root<'_>, owner: Owner) {
    let last = missing.len().saturating_sub(1);
    for (at, path) in missing.iter().enumerate() {
        if layer.has(path) {
            continue;
        }
        let known = source.resolve(path).ok().filter(|found| found.node.is_directory());
        let owner = if at == last { owner } else { Owner::default() };
        layer.add(known.map_or_else(|| directory(path, 0o755, owner), |found| like(path, found.node)));
    }
}

/// The directories that lead to `path`, as `known` has them: a layer that says nothing about them would
/// leave their attributes to the runtime.
pub(super) fn lead<'n>(layer: &mut NewLayer, path: &RootPath, known: impl Fn(&RootPath) -> Option<&'n FileNode<'n>>) {
    let parents: Vec<RootPath> = std::iter::successors(path.parent(), RootPath::parent).collect();
    for parent in parents.into_iter().rev().filter(|parent| !parent.is_root()) {
        if let Some(node) = known(&parent).filter(|node| node.is_directory() && !layer.has(&parent)) {
            let entry = like(&parent, node);
            layer.add(entry);
        }
    }
}

pub(super) fn like(path: &RootPath, node: &FileNode<'_>) -> Entry {
    let xattrs = node.entry().map(|entry| entry.xattrs.clone()).unwrap_or_default();
    Entry { xattrs, ..directory(path, node.mode(), Owner { uid: node.uid(), gid: node.gid() }) }
}

fn directory(path: &RootPath, mode: u32, owner: Owner) -> Entry {
    Entry::new(path.clone(), EntryKind::Directory, mode, owner.uid, owner.gid)
}
