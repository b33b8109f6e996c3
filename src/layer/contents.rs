//! What a layer holds, for those who do not ask how it travels: the same for a layer that was read
//! and for one that is about to be written.

use super::capture::Captured;
use super::entry::Entry;
use super::index::LayerIndex;
use super::inspected::IndexedProgram;

#[derive(Debug, Clone, Copy)]
pub struct LayerContents<'a> {
    pub entries: &'a [Entry],
    /// In the order of the entries, as `programs` are: both are searched often.
    pub captured: &'a [Captured],
    pub programs: &'a [IndexedProgram],
}

impl<'a> From<&'a LayerIndex> for LayerContents<'a> {
    fn from(index: &'a LayerIndex) -> Self {
        Self { entries: &index.entries, captured: &index.captured, programs: &index.programs }
    }
}

impl<'a> LayerContents<'a> {
    /// The content of the entry at this position, where it was captured.
    #[must_use]
    pub fn content(&self, position: usize) -> Option<&'a [u8]> {
        let at = self.captured.binary_search_by_key(&position, |captured| captured.entry).ok()?;
        self.captured.get(at).map(|captured| captured.content.as_slice())
    }

    /// What was found out about the entry at this position, where it is a program or a script.
    #[must_use]
    pub fn program(&self, position: usize) -> Option<&'a crate::elf::Program> {
        let at = self.programs.binary_search_by_key(&position, |inspected| inspected.entry).ok()?;
        self.programs.get(at).map(|inspected| &inspected.program)
    }
}
