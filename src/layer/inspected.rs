//! What was found out about the programs of a layer while they went by.

use serde::{Deserialize, Serialize};

use crate::elf::{Linkage, Probe, Program};

/// A file that is a program, a script, or looks like a program and is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexedProgram {
    /// The entry's place in the layer's list.
    pub entry: usize,
    pub program: Program,
}

impl IndexedProgram {
    /// `None` for plain data: most files of most layers, and nothing to say about them.
    pub(super) fn new(entry: usize, probe: Probe) -> Option<Self> {
        let program = probe.finish();
        let is_data = program.linkage == Linkage::Other && program.notes.is_empty();
        (!is_data).then_some(Self { entry, program })
    }
}
