//! The layers of the image as they will be: what of each source layer goes along, what is taken out
//! of the whole image with `--extract`, and the small layer with what is missing on the new base.
//!
//! The rule this folder owns: nothing of the application is lost, and what belongs to the old
//! system stays behind. Where a layer cannot be rewritten without doubt, it is kept as it is.

mod added;
mod extract;
mod filter;
mod folders;
mod leaving;
mod log_file;
mod markers;
mod new_layer;
#[cfg(test)]
mod tests;

use crate::layer::{LayerContents, RootPath};
use crate::rootfs::{Root, merge};

use super::PlatformSubject;
use super::container::Container;
use super::runner::Runner;

pub use added::{Added, FolderState};
pub use leaving::{Bulk, Leaving};
pub use new_layer::NewLayer;

/// What was asked to be taken of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taking {
    pub extent: Extent,
    /// Paths that go along whatever they belong to. Sorted.
    pub keep: Vec<RootPath>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Extent {
    /// The layers above the old base.
    #[default]
    Layers,
    /// Only the program and what it needs, out of all layers.
    Extract,
}

/// What the command needs of the layers.
pub(super) struct Needs<'a> {
    pub(super) taking: &'a Taking,
    /// The word of the command that is the program.
    pub(super) program: Option<String>,
    /// A runner that no base has.
    pub(super) runner: Option<Runner<'a>>,
}

/// The result's layers above the new base.
#[derive(Debug, Clone, Default)]
pub struct Moved {
    /// The source's layers above the old base, in order; with [`Extent::Extract`] all of its layers.
    pub layers: Vec<MovedLayer>,
    /// What was taken out of the source.
    pub extracted: Option<NewLayer>,
    pub added: Added,
    /// What a person should know, one line each.
    pub notes: Vec<String>,
    /// Paths to be kept that the source does not have.
    pub keep_missing: Vec<RootPath>,
}

/// What becomes of one layer of the source.
#[derive(Debug, Clone)]
pub struct MovedLayer {
    pub becomes: Becomes,
    pub leaving: Vec<Leaving>,
    pub staying: Bulk,
}

#[derive(Debug, Clone)]
pub enum Becomes {
    /// Byte for byte as it was.
    Kept,
    /// Written again without what leaves.
    Filtered(NewLayer),
    /// Nothing of the application is left.
    Dropped,
}

impl MovedLayer {
    pub(super) const fn kept() -> Self {
        Self { becomes: Becomes::Kept, leaving: Vec::new(), staying: Bulk { entries: 0, bytes: 0 } }
    }
}

impl Moved {
    /// The image as it stands, every layer as it is.
    pub(super) fn as_it_is(subject: &PlatformSubject) -> Self {
        Self { layers: subject.layers.iter().map(|_| MovedLayer::kept()).collect(), ..Self::default() }
    }

    /// Decides for every layer, as far as that can be done without knowing the command.
    pub(super) fn begin(subject: &PlatformSubject, taking: &Taking) -> Self {
        match taking.extent {
            Extent::Layers => filter::layers(subject, &taking.keep),
            Extent::Extract => Self::default(),
        }
    }

    /// Where the words of the command lead: in the layers that go along, or in all of the image
    /// where what goes along depends on them.
    pub(super) fn scene<'a>(&'a self, subject: &'a PlatformSubject, taking: &Taking) -> Root<'a> {
        match taking.extent {
            Extent::Layers => self.root(subject),
            Extent::Extract => {
                let layers = subject.base_layers.iter().chain(&subject.old_layers).chain(&subject.layers);
                merge(layers.map(AsRef::as_ref))
            }
        }
    }

    /// Extracts what the command needs, and draws up the added layer.
    pub(super) fn finish(self, subject: &PlatformSubject, container: &Container, needs: &Needs<'_>) -> Self {
        let taking = needs.taking;
        let moved = match taking.extent {
            Extent::Layers => self,
            Extent::Extract => extract::extract(subject, container, needs),
        };
        let rebased = moved.root(subject);
        let other = (!moved.is_source(subject)).then(|| source_root(subject));
        let source = other.as_ref().unwrap_or(&rebased);
        let mut added = added::draw(container, &rebased, source);
        let keep_missing = added.keep(&taking.keep, &rebased, source, subject);
        needs.runner.iter().for_each(|runner| added.put_runner(runner, &rebased));
        drop((other, rebased));
        Self { added, keep_missing, ..moved }
    }

    /// Whether the root of the rebased image is the source's, as far as either has been read: then
    /// one of them is enough, and a layer of many entries is in memory once.
    pub(super) fn is_source(&self, subject: &PlatformSubject) -> bool {
        let is_kept = |layer: &MovedLayer| matches!(layer.becomes, Becomes::Kept);
        let is_whole = self.extracted.is_none() && self.added.layer.is_empty() && self.layers.iter().all(is_kept);
        is_whole && subject.base_layers.is_empty() && subject.old_layers.is_empty()
    }

    /// The root of the rebased image, as far as the new base's layers have been read.
    pub(super) fn root<'a>(&'a self, subject: &'a PlatformSubject) -> Root<'a> {
        let base = subject.base_layers.iter().map(|layer| LayerContents::from(layer.as_ref()));
        merge(base.chain(self.own(subject)))
    }

    /// The layers above the new base.
    pub(super) fn own<'a>(&'a self, subject: &'a PlatformSubject) -> impl Iterator<Item = LayerContents<'a>> {
        self.brought(subject).chain([LayerContents::from(&self.added.layer)])
    }

    /// Those of them that the source brought.
    pub(super) fn brought<'a>(&'a self, subject: &'a PlatformSubject) -> impl Iterator<Item = LayerContents<'a>> {
        let layers = self.layers.iter().zip(&subject.layers).filter_map(|(moved, index)| match &moved.becomes {
            Becomes::Kept => Some(LayerContents::from(index.as_ref())),
            Becomes::Filtered(new) => Some(LayerContents::from(new)),
            Becomes::Dropped => None,
        });
        layers.chain(self.extracted.iter().map(LayerContents::from))
    }
}

/// The root of the source, as far as the old base's layers have been read.
pub(super) fn source_root(subject: &PlatformSubject) -> Root<'_> {
    merge(subject.old_layers.iter().chain(&subject.layers).map(AsRef::as_ref))
}
