//! The added layer: accounts, working folder, log folder, and paths that the user wants along. Only
//! what is needed; nothing needed, no layer.

use serde_json::Value;

use super::super::PlatformSubject;
use super::super::account::{self, Accounts, Which};
use super::super::container::Container;
use super::super::runner::Runner;
use super::folders::{self, Owner, Way};
use super::new_layer::NewLayer;
use super::{extract, log_file};
use crate::layer::{Entry, EntryKind, RootPath};
use crate::rootfs::{FileNode, Root};

/// The layer and why it is there.
#[derive(Debug, Clone, Default)]
pub struct Added {
    pub layer: NewLayer,
    /// One line for each thing that was added.
    pub what: Vec<String>,
    pub accounts: Accounts,
    pub working_dir: FolderState,
    pub log_folder: FolderState,
}

/// A folder that the container needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FolderState {
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
pub(super) fn draw(container: &Container, rebased: &Root<'_>, source: &Root<'_>) -> Added {
    let mut added = Added { accounts: account::look_up(container, rebased, source), ..Added::default() };
    added.write_accounts(rebased);
    added.working_dir = added.working_dir(container, rebased, source);
    added.log_folder = added.log_folder(container, rebased, source);
    added
}

impl Added {
    fn write_accounts(&mut self, rebased: &Root<'_>) {
        for (which, content) in self.accounts.files.clone() {
            let Some(path) = account_path(which, rebased) else { continue };
            folders::lead(&mut self.layer, &path, |parent| rebased.get(parent));
            let there = rebased.get(&path).and_then(FileNode::entry);
            let size = content.len() as u64;
            let new = Entry::new(path.clone(), EntryKind::File { size }, 0o644, 0, 0);
            let entry = there.map_or(new, |there| Entry { path, kind: EntryKind::File { size }, ..there.clone() });
            self.layer.put_file(entry, content);
        }
        self.what.extend(self.accounts.added.clone());
    }

    fn working_dir(&mut self, container: &Container, rebased: &Root<'_>, source: &Root<'_>) -> FolderState {
        let written = container.members.get("WorkingDir").and_then(Value::as_str).unwrap_or_default();
        if written.is_empty() {
            return FolderState::NotNeeded;
        }
        let blocked = |why: &str| FolderState::Blocked { path: written.to_owned(), why: why.to_owned() };
        match RootPath::new(written) {
            Err(_) => blocked("it cannot be followed without leaving the root"),
            Ok(_) if !written.starts_with('/') => blocked("it is not an absolute path"),
            Ok(path) => self.folder(&path, "working folder", (rebased, source), Owner::default()),
        }
    }

    fn log_folder(&mut self, container: &Container, rebased: &Root<'_>, source: &Root<'_>) -> FolderState {
        let Some(path) = log_file::folder(container) else { return FolderState::NotNeeded };
        let (uid, gid) = (self.accounts.uid, self.accounts.gid.unwrap_or_default());
        let owner = Owner { uid: uid.unwrap_or_default(), gid };
        let state = self.folder(&path, "log folder", (rebased, source), owner);
        // One that is made as the source had it is as closed as it was there.
        let like = match state {
            FolderState::There => rebased,
            FolderState::Made { known: true, .. } => source,
            _ => return state,
        };
        match uid {
            Some(uid) if !log_file::can_write(like, &path, uid, gid) => {
                FolderState::ReadOnly { path: path.to_string(), uid }
            }
            _ => state,
        }
    }

    fn folder(&mut self, path: &RootPath, what: &str, roots: (&Root<'_>, &Root<'_>), owner: Owner) -> FolderState {
        let (rebased, source) = roots;
        match folders::way(rebased, path) {
            Way::There => FolderState::There,
            Way::Blocked(why) => FolderState::Blocked { path: path.to_string(), why },
            Way::Missing(missing) => {
                if let Some(first) = missing.first() {
                    folders::lead(&mut self.layer, first, |parent| rebased.get(parent));
                }
                folders::make(&mut self.layer, &missing, source, owner);
                self.what.push(format!("{what} {path}"));
                let known = source.resolve(path).is_ok();
                FolderState::Made { path: path.to_string(), known }
            }
        }
    }

    /// Takes over the paths to be kept that the rebased root lacks; gives those that the source lacks, too.
    pub(super) fn keep(
        &mut self,
        keep: &[RootPath],
        rebased: &Root<'_>,
        source: &Root<'_>,
        subject: &PlatformSubject,
    ) -> Vec<RootPath> {
        let mut missing = Vec::new();
        for path in keep {
            if source.get(path).is_none() {
                missing.push(path.clone());
                continue;
            }
            let taken = extract::take(&mut self.layer, &extract::kept(source, path), subject, (rebased, source));
            if taken > 0 {
                self.what.push(format!("{path} of the old base"));
            }
        }
        missing
    }
}

impl Added {
    /// Brings the log runner along, at the path that it has in its own image.
    pub(super) fn put_runner(&mut self, runner: &Runner<'_>, rebased: &Root<'_>) {
        folders::lead(&mut self.layer, &runner.path, |parent| rebased.get(parent));
        self.layer.take(runner.layer, runner.position, &runner.path);
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
