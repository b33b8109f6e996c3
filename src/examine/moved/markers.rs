//! Whiteouts and opaque marks whose files are gone with the old base: they say nothing any more, and
//! some runtimes make folders for them.

use crate::layer::{Entry, EntryKind};
use crate::rootfs::Root;

/// Whether the marker still hides something of what lies below its layer.
pub(super) fn still_hides(marker: &Entry, below: &Root<'_>) -> bool {
    match marker.kind {
        EntryKind::Whiteout => below.get(&marker.path).is_some(),
        EntryKind::Opaque => below.directory(&marker.path).next().is_some(),
        _ => true,
    }
}
