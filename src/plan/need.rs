//! Which further layers must be read before the plan can be trusted. The application's own always
//! are; a base's only when an answer depends on them, and never because the cache has them.

use super::Pass;
use super::accounts::User;
use super::added::DirectoryState;
use super::rebase_options::RebaseOptions;
use crate::layer::{EntryKind, LayerIndex};
use crate::process::{Presence, Start};

/// Layers that have not been read and are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    NewBase,
    OldBase,
}

impl Pass {
    /// The next need; `None` when everything can be answered.
    #[must_use]
    pub fn need(&self, options: &RebaseOptions) -> Option<Need> {
        let subject = &self.subject;
        let has_new = subject.base_layers.len() == subject.base.layers.len();
        let has_old = subject.old_layers.len() == subject.old_base.layers;
        if !has_new && self.needs_new_base(options) {
            return Some(Need::NewBase);
        }
        if !has_old && self.needs_old_base(options) {
            return Some(Need::OldBase);
        }
        None
    }

    /// Not needed when the application's own layers hold the program at its full path, whatever lies
    /// below them, the accounts are numbers, and nothing of theirs can touch what a base brings.
    fn needs_new_base(&self, options: &RebaseOptions) -> bool {
        let Self { subject, draft, startup, seam, .. } = self;
        let is_full_path = draft.container.command.program().is_some_and(|program| program.starts_with('/'));
        let program = match &startup.program {
            Start::NoCommand => false,
            Start::Found(started) => !is_full_path || started.interpreter == Presence::Missing,
            // It, its shell, or a runner may be in the new base.
            Start::Lost { .. } | Start::Shell => true,
        };
        let added = &draft.layers.added;
        program
            || draft.form.asked_the_root()
            || options.selects_contents()
            || User::of(&draft.container).has_names()
            || !added.layer.is_empty()
            || !is_settled(&added.working_dir)
            || !is_settled(&added.log_dir)
            || startup.helpers.iter().any(|helper| !helper.lacks.is_empty())
            || !seam.dangling.is_empty()
            || !seam.broken.is_empty()
            || subject.layers.iter().any(|layer| meets_a_base(layer))
    }

    /// Needed when the source is asked about what the rebased root does not have.
    fn needs_old_base(&self, options: &RebaseOptions) -> bool {
        let Self { draft, startup, seam, .. } = self;
        let unknown_owner = |state: &DirectoryState| matches!(state, DirectoryState::Made { known: false, .. });
        let is_lost = |start: &Start| matches!(start, Start::Lost { .. });
        let added = &draft.layers.added;
        // The new base may know the name as well, by another number.
        let named = !draft.passes_on() && User::of(&draft.container).depends_on_image();
        options.selects_contents()
            || is_lost(&startup.program)
            || startup.wrappers.iter().any(is_lost)
            || named
            || unknown_owner(&added.working_dir)
            || unknown_owner(&added.log_dir)
            || !startup.unanswered.is_empty()
            || seam.dangling.iter().any(|link| !link.led)
    }
}

fn is_settled(state: &DirectoryState) -> bool {
    matches!(state, DirectoryState::NotNeeded | DirectoryState::There)
}

/// Whether an entry could take the place of something that a base has: bases bring nothing outside
/// the system's own directories.
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
        let is_directory = matches!(entry.kind, EntryKind::Directory);
        entry.kind.is_marker() || is_system && !is_directory
    })
}
