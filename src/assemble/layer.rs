//! One layer, written: its data gathered, its bytes made, and read back before anybody may have them.

use super::scratch::{Made, Scratch};
use crate::examine::PlatformSubject;
use crate::plan::NewLayer;
use layer::{self, LayerIndex, LayerSpec, Limits, SourceData, SpecEntry, WriteOptions, WrittenLayer};
use oci::error::{Error, Result};
use oci::{Descriptor, Digest, Image};
use std::io::Read;
use std::num::NonZeroUsize;

/// What making layers needs of the world.
pub trait LayerSource {
    /// The bytes of a layer of the source.
    fn open_source(&self, layer: &Descriptor) -> Result<Box<dyn Read + Send>>;

    /// The bytes of a layer of the log runner's image.
    fn open_runner(&self, layer: &Descriptor) -> Result<Box<dyn Read + Send>>;

    /// Space for this many bytes.
    fn scratch(&self, size: u64) -> Result<Scratch>;

    /// How many threads may work.
    fn jobs(&self) -> NonZeroUsize;
}

/// A layer that exists now.
#[derive(Debug, Clone)]
pub struct MadeLayer {
    pub written: WrittenLayer,
    pub made: Made,
}

/// Writes the layer. Success means that its bytes were read back and hold what the plan says.
pub(super) fn make(
    new: &NewLayer,
    subject: &PlatformSubject,
    mtime: i64,
    source: &dyn LayerSource,
) -> Result<MadeLayer> {
    let entries = new.entries().map(|(entry, data)| SpecEntry { entry: entry.clone(), data: data.clone() });
    let spec = LayerSpec::new(entries.collect())?;
    let size = expected_size(new);
    let mut source_data = SourceData::new(source.scratch(size)?);
    for digest in spec.sources() {
        let (of, bytes) = open(&digest, subject, source)?;
        source_data.gather(&spec, bytes, of, &Limits::default())?;
    }
    let mut out = source.scratch(size)?;
    let written = layer::write(&spec, &mut source_data, WriteOptions { mtime, jobs: source.jobs() }, &mut out)?;
    let made = out.finish();
    let index = layer::scan(made.open(), &written.descriptor(), Some(&written.diff_id), &Limits::default())?;
    check(&spec, mtime, &index)?;
    Ok(MadeLayer { written, made })
}

/// The layer that data comes from, with its bytes.
fn open<'a>(
    digest: &Digest,
    subject: &'a PlatformSubject,
    source: &dyn LayerSource,
) -> Result<(&'a Descriptor, Box<dyn Read + Send>)> {
    let of = |image: &'a Image| image.layers.iter().map(|layer| &layer.descriptor).find(|of| of.digest == *digest);
    if let Some(of) = of(&subject.source) {
        return Ok((of, source.open_source(of)?));
    }
    match subject.runner.as_ref().and_then(|runner| of(&runner.image)) {
        Some(of) => Ok((of, source.open_runner(of)?)),
        None => Err(Error::input("neither source nor log runner has such a layer").fact("layer", digest)),
    }
}

/// About how many bytes the tar will have: decides where it is worked on.
fn expected_size(new: &NewLayer) -> u64 {
    let size = |entry: &layer::Entry| match entry.kind {
        layer::EntryKind::File { size } => size.saturating_add(1024),
        _ => 1024,
    };
    new.entries().fold(0, |sum, (entry, _)| sum.saturating_add(size(entry)))
}

/// The bytes hold what the spec says: all of it and nothing else.
fn check(spec: &LayerSpec, mtime: i64, index: &LayerIndex) -> Result<()> {
    let same = |(spec, read): (&SpecEntry, &layer::Entry)| {
        let expected = layer::Entry { mtime, offset: read.offset, sparse: false, ..spec.entry.clone() };
        expected == *read
    };
    if spec.entries().len() == index.entries.len() && spec.entries().iter().zip(&index.entries).all(same) {
        return Ok(());
    }
    Err(Error::integrity("a layer that was written does not read back as planned; nothing was published")
        .fact("layer", index.digest)
        .hint("this is a bug in underpin, please report it with the report of `underpin plan --json`"))
}
