//! What the layers themselves show: an operating system at the bottom, the program above it.

use std::collections::HashSet;
use std::sync::Arc;

use super::shipped::{CERTIFICATES, CERTIFICATES_LICENCE, is_distroless_directory, is_distroless_file};
use layer::{Entry, EntryKind, LayerIndex, RootPath};
use oci::error::Result;

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
/// Those of them that are a package manager's whole database.
const DATABASES: [&[u8]; 5] = [
    b"var/lib/dpkg/status",
    b"lib/apk/db/installed",
    b"usr/lib/apk/db/installed",
    b"var/lib/rpm/rpmdb.sqlite",
    b"usr/lib/sysimage/rpm/rpmdb.sqlite",
];
/// Distroless images hold one package a layer, each with its own status file.
const STATUS_DIRECTORY: &[u8] = b"var/lib/dpkg/status.d/";

/// Reads layers from the bottom until the seam is clear. `program` is the first word of the command.
pub(super) fn read(
    layers: usize,
    program: Option<&str>,
    index: impl Fn(usize) -> Result<Arc<LayerIndex>>,
) -> Result<Content> {
    let (mut system, mut distroless) = (0, Distroless::default());
    for at in 0..layers {
        let layer = index(at)?;
        let marked = holds_system(&layer);
        if program.is_some_and(|program| holds(&layer, program)) {
            return Ok(match (marked, system) {
                (true, 0) => Content::Squashed,
                (_, 0) => Content::NoSystem,
                (_, system) => Content::System(system),
            });
        }
        let is_part = distroless.take(&layer);
        match (marked, system) {
            (true, 0) => system = at + 1,
            (false, 0) if is_bare(&layer) || is_part => {}
            (false, 0) => return rest_decides(at, layers, index),
            (_, _) if is_part && distroless.has_packages => system = at + 1,
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
        if holds_system(index(at)?.as_ref()) {
            return Ok(Content::Squashed);
        }
    }
    Ok(Content::NoSystem)
}

/// Whether the layer has files that only an operating system's root has.
#[must_use]
pub fn holds_system(layer: &LayerIndex) -> bool {
    holds_a_package(layer) || layer.entries.iter().any(|entry| MARKS.contains(&entry.path.as_bytes()))
}

pub(super) fn holds_a_package(layer: &LayerIndex) -> bool {
    let inside = |path: &[u8]| path.strip_prefix(STATUS_DIRECTORY).is_some_and(|name| !name.is_empty());
    layer.entries.iter().any(|entry| inside(entry.path.as_bytes()))
}

fn is_bare(layer: &LayerIndex) -> bool {
    layer.entries.iter().all(|entry| matches!(entry.kind, EntryKind::Directory))
}

/// The layers of a distroless image, one after the other: packages with their status file, and the few
/// files that no package has. None of these is there twice, so a layer that brings one again is not
/// distroless' own.
#[derive(Default)]
struct Distroless {
    files: HashSet<RootPath>,
    has_packages: bool,
    /// It has the database of a whole system.
    is_other: bool,
}

impl Distroless {
    /// Whether the layer can be a part of the image.
    fn take(&mut self, layer: &LayerIndex) -> bool {
        self.is_other |= layer.entries.iter().any(|entry| DATABASES.contains(&entry.path.as_bytes()));
        let has_package = holds_a_package(layer);
        if self.is_other || !(has_package || self.lacks_all(layer)) {
            return false;
        }
        self.has_packages |= has_package;
        let files = layer.entries.iter().filter(|entry| entry.kind != EntryKind::Directory);
        self.files.extend(files.map(|entry| entry.path.clone()));
        true
    }

    /// Whether all of the layer is what distroless images have beside packages, and not there yet.
    fn lacks_all(&self, layer: &LayerIndex) -> bool {
        let has_licence = layer.entries.iter().any(|entry| entry.path.as_bytes() == CERTIFICATES_LICENCE);
        let is_new = |entry: &Entry| {
            let path = entry.path.as_bytes();
            let is_known = is_distroless_file(path) || path == CERTIFICATES && has_licence;
            is_known && (path.ends_with(b"os-release") || !self.files.contains(&entry.path))
        };
        layer.entries.iter().all(|entry| match entry.kind {
            EntryKind::Directory => is_distroless_directory(entry),
            EntryKind::Whiteout | EntryKind::Opaque => false,
            _ => is_new(entry),
        })
    }
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
