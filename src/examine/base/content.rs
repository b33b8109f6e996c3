//! What the layers themselves show: an operating system at the bottom, the program above it.

use std::sync::Arc;

use crate::error::Result;
use crate::layer::{EntryKind, LayerIndex};

/// What the layers from the bottom up look like.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// No operating system anywhere below the program.
    NoSystem,
    /// This many layers hold an operating system and not the program.
    System(usize),
    /// The system and the program came in one layer: there is no seam.
    Squashed,
}

/// Files that only an operating system's root has.
const MARKS: [&[u8]; 10] = [
    b"etc/os-release",
    b"usr/lib/os-release",
    b"var/lib/dpkg/status",
    b"lib/apk/db/installed",
    b"usr/lib/apk/db/installed",
    b"var/lib/rpm/rpmdb.sqlite",
    b"usr/lib/sysimage/rpm/rpmdb.sqlite",
    b"bin/busybox",
    b"bin/sh",
    b"usr/bin/sh",
];
/// Distroless images hold one package a layer, each with its own status file.
const PACKAGE_FOLDER: &[u8] = b"var/lib/dpkg/status.d/";

/// Reads layers from the bottom until the seam is clear. `program` is the first word of the command.
pub(super) fn read(
    layers: usize,
    program: Option<&str>,
    index: impl Fn(usize) -> Result<Arc<LayerIndex>>,
) -> Result<Content> {
    let mut system = 0;
    for at in 0..layers {
        let layer = index(at)?;
        let marked = is_marked(&layer);
        if program.is_some_and(|program| holds(&layer, program)) {
            return Ok(match (marked, system) {
                (true, 0) => Content::Squashed,
                (_, 0) => Content::NoSystem,
                (_, system) => Content::System(system),
            });
        }
        match (marked, system) {
            (true, 0) => system = at + 1,
            (false, 0) if is_bare(&layer) => {}
            (false, 0) => return rest_decides(at, layers, index),
            (_, _) if holds_a_package(&layer) => system = at + 1,
            // Also a layer with the whole package database: an `apt-get` on top of the base.
            (_, system) => return Ok(Content::System(system)),
        }
    }
    // A command that names nothing in the image is judged elsewhere; a lone system is no seam.
    Ok(if system == 0 { Content::NoSystem } else { Content::Squashed })
}

/// Application files come first. A system above them cannot be stripped as a base.
fn rest_decides(from: usize, layers: usize, index: impl Fn(usize) -> Result<Arc<LayerIndex>>) -> Result<Content> {
    for at in from + 1..layers {
        if is_marked(index(at)?.as_ref()) {
            return Ok(Content::Squashed);
        }
    }
    Ok(Content::NoSystem)
}

fn is_marked(layer: &LayerIndex) -> bool {
    holds_a_package(layer) || layer.entries.iter().any(|entry| MARKS.contains(&entry.path.as_bytes()))
}

fn holds_a_package(layer: &LayerIndex) -> bool {
    let inside = |path: &[u8]| path.strip_prefix(PACKAGE_FOLDER).is_some_and(|name| !name.is_empty());
    layer.entries.iter().any(|entry| inside(entry.path.as_bytes()))
}

fn is_bare(layer: &LayerIndex) -> bool {
    layer.entries.iter().all(|entry| matches!(entry.kind, EntryKind::Directory))
}

/// Whether the layer has the program: by its path, or by its name where PATH would be searched.
pub(super) fn holds(layer: &LayerIndex, program: &str) -> bool {
    let program = program.as_bytes();
    let file = |kind: &EntryKind| !matches!(kind, EntryKind::Directory);
    let named = |path: &[u8]| match program.strip_prefix(b"/") {
        Some(absolute) => path == absolute,
        None => path.rsplit(|byte| *byte == b'/').next() == program.rsplit(|byte| *byte == b'/').next(),
    };
    layer.entries.iter().any(|entry| file(&entry.kind) && named(entry.path.as_bytes()))
}
