//! Which further layers must be read before the questions can be answered. The application's own
//! always are; a base's only when an answer depends on them, and never because the cache has them.

use super::PlatformSubject;
use super::account::User;
use super::facts::look_at;
use super::moved::{FolderState, Taking};
use super::program::{Presence, Start};
use super::wishes::Wishes;
use crate::layer::{EntryKind, LayerIndex};

/// Layers that have not been read and are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    NewBase,
    OldBase,
}

/// The next need; `None` when everything can be answered.
#[must_use]
pub fn need(subject: &PlatformSubject, wishes: &Wishes) -> Option<Need> {
    let has_new = subject.base_layers.len() == subject.base.layers.len();
    let has_old = subject.old_layers.len() == subject.old_base.layers;
    if !has_new && needs_new_base(subject, wishes) {
        return Some(Need::NewBase);
    }
    if !has_old && needs_old_base(subject, wishes) {
        return Some(Need::OldBase);
    }
    None
}

/// Not needed when the application's own layers hold the program at its full path, whatever lies
/// below them, the accounts are numbers, and nothing of theirs can touch what a base brings.
fn needs_new_base(subject: &PlatformSubject, wishes: &Wishes) -> bool {
    let facts = look_at(subject, wishes);
    let is_full_path = facts.container.command.program().is_some_and(|program| program.starts_with('/'));
    let program = match &facts.start {
        Start::NoCommand => false,
        Start::Found(started) => !is_full_path || started.interpreter == Presence::Missing,
        // It, its shell, or a runner may be in the new base.
        Start::Lost { .. } | Start::Shell => true,
    };
    program
        || facts.form.asked_the_root()
        || wishes.taking != Taking::default()
        || User::of(&facts.container).has_names()
        || !facts.moved.added.layer.is_empty()
        || !is_settled(&facts.moved.added.working_dir)
        || !is_settled(&facts.moved.added.log_folder)
        || facts.helpers.iter().any(|helper| !helper.lacks.is_empty())
        || !facts.seam.dangling.is_empty()
        || !facts.seam.broken.is_empty()
        || subject.layers.iter().any(|layer| meets_a_base(layer))
}

fn is_settled(state: &FolderState) -> bool {
    matches!(state, FolderState::NotNeeded | FolderState::There)
}

/// Whether an entry could take the place of something that a base has: bases bring nothing outside
/// the system's own folders.
fn meets_a_base(layer: &LayerIndex) -> bool {
    const OF_SYSTEMS: [&[u8]; 13] = [
        b"bin", b"boot", b"dev", b"etc", b"home", b"lib", b"lib32", b"lib64", b"libx32", b"root", b"sbin", b"usr",
        b"var",
    ];
    layer.entries.iter().any(|entry| {
        let mut names = entry.path.components();
        let first = names.next().unwrap_or_default();
        let is_local = first == b"usr" && names.next() == Some(b"local");
        let is_system = OF_SYSTEMS.contains(&first) && !is_local;
        let is_folder = matches!(entry.kind, EntryKind::Directory);
        entry.kind.is_marker() || is_system && !is_folder
    })
}

/// Needed when the source is asked about what the rebased root does not have.
fn needs_old_base(subject: &PlatformSubject, wishes: &Wishes) -> bool {
    if wishes.taking != Taking::default() {
        return true;
    }
    let facts = look_at(subject, wishes);
    let unknown_owner = |state: &FolderState| matches!(state, FolderState::Made { known: false, .. });
    let added = &facts.moved.added;
    // The new base may know the name as well, by another number.
    let named = !facts.already_right && User::of(&facts.container).depends_on_image();
    matches!(facts.start, Start::Lost { .. })
        || facts.wrappers.iter().any(|wrapper| matches!(wrapper, Start::Lost { .. }))
        || named
        || unknown_owner(&added.working_dir)
        || unknown_owner(&added.log_folder)
        || !facts.unanswered.is_empty()
        || facts.seam.dangling.iter().any(|link| !link.led)
}
