//! Reads layers: each byte is fetched, hashed and inflated once, and the index is kept.

use std::io::{self, Read};
use std::sync::Arc;

use super::{Fetcher, Opened};
use crate::examine::base::{OldBase, UnreadDatabase, unproven_files};
use crate::examine::{LayerFacts, PlatformSubject};
use crate::process::{Container, OwnStartup, look_alone};
use crate::store::disk::{Partial, Receiving};
use crate::store::layer_store::REFETCHES;
use crate::store::parallel::OnceMap;
use crate::store::{Source, Stream, parallel};
use layer::{self, FileDigests, LayerContents, LayerIndex, Limits, RootPath};
use oci::error::{Error, Kind, Result};
use oci::{Digest, Hashed, Image, ImageLayer};
use start::rootfs::merge;

/// Reads the layers of one source. A layer that several platforms share is read once.
pub(super) struct LayerReader<'a> {
    fetcher: &'a Fetcher<'a>,
    place: &'a dyn Source,
    read: &'a OnceMap<(Digest, FileDigests), Arc<LayerIndex>>,
}

impl<'a> LayerReader<'a> {
    pub fn new(fetcher: &'a Fetcher<'a>, opened: &'a Opened) -> Self {
        Self { fetcher, place: opened.place.as_ref(), read: &opened.layers }
    }

    /// Puts the indexes of the layers above each platform's old base into the subjects.
    pub fn put_above_the_seam(&self, platforms: &mut [PlatformSubject], digests: FileDigests) -> Result<()> {
        for platform in platforms {
            let above = platform.source_layers().1;
            platform.layers = above.iter().map(|layer| self.read_with(layer, digests)).collect::<Result<_>>()?;
        }
        Ok(())
    }

    /// The indexes of all layers of `image`.
    pub fn read_all(&self, image: &Image) -> Result<Vec<Arc<LayerIndex>>> {
        parallel::map(&image.layers, self.fetcher.tools.jobs(), |layer| self.read(layer))
    }

    /// The index of one layer, verified against its digest and its diff id.
    pub fn read(&self, layer: &ImageLayer) -> Result<Arc<LayerIndex>> {
        self.read_with(layer, FileDigests::LeftOut)
    }

    /// The same with the digest of each file, where that is wanted. An index that was made without is made anew.
    pub fn read_with(&self, layer: &ImageLayer, digests: FileDigests) -> Result<Arc<LayerIndex>> {
        let is_enough = |index: &LayerIndex| digests == FileDigests::LeftOut || index.digests.is_some();
        let key = (layer.descriptor.digest, digests);
        let (bases, size) = (self.fetcher.bases, layer.descriptor.size);
        let read = || {
            if let Some(index) = bases.index(key).filter(|index| index.size == size) {
                return Ok(index);
            }
            let index = match self.cached(layer).filter(is_enough) {
                Some(index) => Arc::new(index),
                None => Arc::new(self.receive(layer, digests)?),
            };
            bases.note_index(key, &index);
            Ok(index)
        };
        let index = self.read.get(key, read)?;
        check_diff_id(layer, &index)?;
        Ok(index)
    }

    fn cached(&self, layer: &ImageLayer) -> Option<LayerIndex> {
        let bytes = self.fetcher.tools.cache.index(&layer.descriptor.digest, LayerIndex::VERSION)?;
        let index = LayerIndex::from_bytes(&bytes).ok()?;
        (index.digest == layer.descriptor.digest && index.size == layer.descriptor.size).then_some(index)
    }

    fn receive(&self, layer: &ImageLayer, digests: FileDigests) -> Result<LayerIndex> {
        let of = &layer.descriptor;
        let mut tries = 0;
        loop {
            match self.receive_once(layer, tries > 0, digests) {
                Ok(index) => {
                    self.fetcher.tools.cache.keep_index(&of.digest, LayerIndex::VERSION, &index.to_bytes());
                    return Ok(index);
                }
                Err(error) if error.kind() == Kind::Integrity && tries < REFETCHES => {
                    tries += 1;
                    self.fetcher.tools.notices.warn(format!("layer {}: digest mismatch, fetching again", of.digest));
                }
                Err(error) => return Err(error.fact("layer", of.digest)),
            }
        }
    }

    fn receive_once(&self, layer: &ImageLayer, afresh: bool, file_digests: FileDigests) -> Result<LayerIndex> {
        let limits = Limits { file_digests, ..Limits::default() };
        let of = &layer.descriptor;
        let open =
            |from| Ok(self.fetcher.tools.progress.watch(&label(layer), of.size - from, self.place.open(of, from)?));
        match self.fetcher.tools.cache.receive(of)? {
            Receiving::Present(file) => layer::scan(file, of, None, &limits),
            Receiving::Nothing => layer::scan(open(0)?, of, None, &limits),
            Receiving::Partial(mut partial) => {
                if afresh {
                    partial.restart();
                }
                let from = partial.have().min(of.size);
                let prefix = partial.prefix()?;
                let rest = open(from)?;
                let index = layer::scan(Tee { prefix, rest, partial: &mut partial }, of, None, &limits);
                let index = match index {
                    Err(error) if error.kind() == Kind::Integrity => {
                        partial.restart();
                        return Err(error);
                    }
                    other => other?,
                };
                partial.commit(Hashed { digest: index.digest, len: index.size })?;
                Ok(index)
            }
        }
    }
}

/// What an earlier run left of the blob, then the rest of it, which is kept as it comes.
struct Tee<'a, P> {
    prefix: P,
    rest: Stream,
    partial: &'a mut Partial,
}

impl<P: Read> Read for Tee<'_, P> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.prefix.read(into)?;
        if read > 0 || into.is_empty() {
            return Ok(read);
        }
        let read = self.rest.read(into)?;
        self.partial.append(into.get(..read).unwrap_or_default());
        Ok(read)
    }
}

fn label(layer: &ImageLayer) -> String {
    format!("layer {}", layer.descriptor.digest.short())
}

/// What a container of `image` starts, on its own root, and which files of a base that is only likely may be the
/// application's.
pub(super) fn look(image: &Image, old_base: &OldBase, indexes: &[Arc<LayerIndex>]) -> (OwnStartup, Vec<RootPath>) {
    let root = merge(indexes.iter().map(AsRef::as_ref));
    let own = indexes.iter().skip(old_base.layers).map(|index| LayerContents::from(index.as_ref()));
    let start = look_alone(&Container::of(&image.config), &root, own);
    if !old_base.is_guess() {
        return (start, Vec::new());
    }
    let base = image.layers.iter().zip(indexes).take(old_base.layers);
    let base: Vec<LayerFacts> = base.map(|(layer, index)| LayerFacts::new(layer.clone(), Arc::clone(index))).collect();
    let files = unproven_files(&base, &root, UnreadDatabase::OfBase);
    (start, files.into_iter().map(|(_, path)| path).collect())
}

fn check_diff_id(layer: &ImageLayer, index: &LayerIndex) -> Result<()> {
    if index.diff_id == layer.diff_id {
        return Ok(());
    }
    Err(Error::integrity("the layer is not the one the config describes")
        .fact("layer", layer.descriptor.digest)
        .fact("expected", layer.diff_id)
        .fact("got", index.diff_id))
}
