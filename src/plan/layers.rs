//! The layers of the result: what of each source layer goes along, what is extracted from the whole
//! image, the small layer with what is missing on the new base, and the fate of each.
//!
//! The rule this file owns: nothing of the application is lost, and what belongs to the old system
//! stays behind. Where a layer cannot be rewritten without doubt, it is kept as it is.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::added::{self, Added};
use super::bring::BringOutcome;
use super::logs::Runner;
use super::new_layer::NewLayer;
use super::rebase_options::RebaseOptions;
use super::{extract, filter};
use crate::examine::ownership::{LayerOwnership, Ownership};
use crate::examine::{Facts, LayerFacts, PlatformSubject};
use crate::process::Container;
use layer::{Entry, EntryData, EntryKind, LayerContents, LayerIndex, RootPath};
use oci::{Descriptor, DiffId, ImageLayer, LayerType, is_dangerous};
use start::rootfs::{Root, merge};

/// The result's layers above the new base.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    /// The source's layers above the old base, in order.
    pub own: Vec<OwnLayer>,
    /// What was taken out of the source as a whole.
    pub extracted: Option<Arc<NewLayer>>,
    pub added: Added,
    /// What a person should know, one line each.
    pub notes: Vec<String>,
    /// Paths to be kept that the source does not have.
    pub keep_missing: Vec<RootPath>,
    pub bring: BringOutcome,
    /// Files that were not extracted, though nothing tells whose they are.
    pub left_unknown: Vec<RootPath>,
    /// Paths that were to be left out: all of them, and those that are not in the source's own layers or could not be.
    pub dropped: Vec<RootPath>,
    pub drop_missing: Vec<RootPath>,
}

/// What becomes of one layer of the source.
#[derive(Debug, Clone)]
pub struct OwnLayer {
    pub layer: ImageLayer,
    pub index: Arc<LayerIndex>,
    pub becomes: Becomes,
    pub leaving: Vec<Leaving>,
    pub staying: Bulk,
}

#[derive(Debug, Clone)]
pub enum Becomes {
    /// Byte for byte as it was.
    Kept,
    /// Written again without what leaves.
    Filtered(Arc<NewLayer>),
    /// Nothing of the application is left.
    Dropped,
}

impl OwnLayer {
    pub(super) fn new(facts: &LayerFacts, becomes: Becomes, leaving: Vec<Leaving>, staying: Bulk) -> Self {
        Self { layer: facts.layer.clone(), index: Arc::clone(&facts.index), becomes, leaving, staying }
    }

    pub(super) fn kept(facts: &LayerFacts) -> Self {
        Self::new(facts, Becomes::Kept, Vec::new(), Bulk::default())
    }

    /// What the result has of it.
    pub(super) fn contents(&self) -> Option<LayerContents<'_>> {
        match &self.becomes {
            Becomes::Kept => Some(LayerContents::from(self.index.as_ref())),
            Becomes::Filtered(new) => Some(LayerContents::from(new.as_ref())),
            Becomes::Dropped => None,
        }
    }
}

/// The roots before and after the move, as far as the bases' layers have been read.
#[derive(Debug)]
pub struct Roots<'a> {
    pub rebased: Root<'a>,
    /// `None` where it is the rebased one: then a layer of many entries is in memory once.
    other: Option<Root<'a>>,
}

impl<'a> Roots<'a> {
    /// Lays something over both, such as the volumes of a pod.
    pub(super) fn cover(&mut self, layer: LayerContents<'a>) {
        self.rebased.add_layer(layer);
        self.other.iter_mut().for_each(|root| root.add_layer(layer));
    }
}

impl Roots<'_> {
    #[must_use]
    pub fn source(&self) -> &Root<'_> {
        self.other.as_ref().unwrap_or(&self.rebased)
    }
}

impl Layers {
    /// Every layer as it is.
    pub(super) fn unchanged(facts: &Facts) -> Self {
        Self { own: facts.layers.iter().map(OwnLayer::kept).collect(), ..Self::default() }
    }

    /// Whether every layer is as it is, and there is no other.
    pub(super) fn is_unchanged(&self) -> bool {
        let is_kept = |layer: &OwnLayer| matches!(layer.becomes, Becomes::Kept);
        self.extracted.is_none() && self.added.layer.is_empty() && self.own.iter().all(is_kept)
    }

    /// Decides for every layer, as far as that can be done without knowing the command.
    pub(super) fn begin(subject: &PlatformSubject, facts: &Facts, options: &RebaseOptions) -> Self {
        // What the user leaves out can still be read: a script that is inlined.
        if options.extract { Self::default() } else { filter::layers(subject, facts, options, &[]) }
    }

    /// Where the words of the command lead: in the layers that go along, or in all of the image
    /// where what goes along depends on them.
    pub(super) fn scene<'a>(&'a self, subject: &'a PlatformSubject, options: &RebaseOptions) -> Root<'a> {
        if !options.extract {
            return self.root(subject);
        }
        let layers = subject.base_layers.iter().chain(&subject.old_layers).chain(&subject.layers);
        merge(layers.map(AsRef::as_ref))
    }

    /// Extracts what the command needs, and draws up the added layer.
    pub(super) fn finish(self, subject: &PlatformSubject, facts: &Facts, needs: &Needs<'_>) -> Self {
        let RebaseOptions { keep, drop, .. } = needs.options;
        let layers = match needs.options.extract {
            true => extract::extract(subject, facts, needs),
            false if drop.is_empty() => self,
            false => filter::layers(subject, facts, needs.options, drop),
        };
        let drop_missing = layers.not_dropped(facts, keep, drop);
        let roots = layers.roots(subject);
        let mut added = added::draw(needs.container, &roots, subject);
        let keep_missing = added.keep(&needs.options.keep, &roots, subject);
        let bring = added.bring(&needs.options.bring, &roots, needs.container, subject);
        needs.runner.iter().for_each(|runner| added.put_runner(runner, &roots.rebased));
        std::mem::drop(roots);
        Self { added, keep_missing, bring, dropped: drop.clone(), drop_missing, ..layers }
    }

    /// Which of these paths no layer of the source's own has, or are still there.
    fn not_dropped(&self, facts: &Facts, keep: &[RootPath], drop: &[RootPath]) -> Vec<RootPath> {
        let has = |entries: &[Entry], path: &RootPath| {
            let is_file =
                |entry: &Entry| !entry.kind.is_marker() && !keep.iter().any(|kept| entry.path.is_within(kept));
            entries.iter().any(|entry| is_file(entry) && entry.path.is_within(path))
        };
        let is_gone = |path: &RootPath| {
            let was_there = facts.layers.iter().any(|layer| has(&layer.index.entries, path));
            was_there && !self.brought().any(|layer| has(layer.entries, path))
        };
        drop.iter().filter(|path| !is_gone(path)).cloned().collect()
    }

    /// The roots of the result and of the source.
    #[must_use]
    pub fn roots<'a>(&'a self, subject: &'a PlatformSubject) -> Roots<'a> {
        let other = (!self.is_source(subject)).then(|| source_root(subject));
        Roots { rebased: self.root(subject), other }
    }

    /// Whether the root of the rebased image is the source's, as far as either has been read.
    fn is_source(&self, subject: &PlatformSubject) -> bool {
        self.is_unchanged() && subject.base_layers.is_empty() && subject.old_layers.is_empty()
    }

    /// The root of the rebased image.
    #[must_use]
    pub fn root<'a>(&'a self, subject: &'a PlatformSubject) -> Root<'a> {
        let base = subject.base_layers.iter().map(|layer| LayerContents::from(layer.as_ref()));
        merge(base.chain(self.above_base()))
    }

    /// The layers above the new base.
    pub fn above_base(&self) -> impl Iterator<Item = LayerContents<'_>> {
        self.brought().chain([LayerContents::from(self.added.layer.as_ref())])
    }

    /// Those of them that the source brought.
    pub(super) fn brought(&self) -> impl Iterator<Item = LayerContents<'_>> {
        let own = self.own.iter().filter_map(OwnLayer::contents);
        own.chain(self.extracted.iter().map(|layer| LayerContents::from(layer.as_ref())))
    }

    /// Everything that is written, with where its data comes from.
    pub(super) fn new_entries(&self) -> impl Iterator<Item = (&Entry, &EntryData)> {
        let filtered = self.own.iter().filter_map(|own| match &own.becomes {
            Becomes::Filtered(new) => Some(new),
            Becomes::Kept | Becomes::Dropped => None,
        });
        filtered.chain(self.written()).flat_map(|layer| layer.entries())
    }

    /// The layers that are written for the image as a whole: what was extracted, what is added.
    pub(super) fn written(&self) -> impl Iterator<Item = &Arc<NewLayer>> {
        self.extracted.iter().chain([&self.added.layer]).filter(|layer| !layer.is_empty())
    }
}

/// What the command needs of the layers.
pub(super) struct Needs<'a> {
    pub(super) options: &'a RebaseOptions,
    pub(super) container: &'a Container,
    /// The word of the command that is the program.
    pub(super) program: Option<String>,
    /// A runner that no base has.
    pub(super) runner: Option<Runner<'a>>,
}

/// The root of the source, as far as the old base's layers have been read.
pub(super) fn source_root(subject: &PlatformSubject) -> Root<'_> {
    merge(subject.old_layers.iter().chain(&subject.layers).map(AsRef::as_ref))
}

/// What becomes of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Of the old base: gone.
    Stripped,
    /// Of the new base: under the application now.
    Base,
    /// Of the application: byte for byte as it was.
    Kept,
    /// Of the application: written again without what belongs to the old system.
    Filtered,
    /// Nothing of the application was left in it.
    Dropped,
    /// New: what the application needs and the new base lacks, or what was extracted.
    Added,
}

impl Fate {
    /// The word of the report, which others rely on.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Stripped => "stripped",
            Self::Base => "base",
            Self::Kept => "kept",
            Self::Filtered => "filtered",
            Self::Dropped => "dropped",
            Self::Added => "added",
        }
    }

    /// Whether the result has the layer.
    #[must_use]
    pub const fn is_in_result(self) -> bool {
        !matches!(self, Self::Stripped | Self::Dropped)
    }
}

#[derive(Debug, Clone)]
pub struct PlannedLayer {
    pub fate: Fate,
    pub why: String,
    pub body: Body,
    /// What stays behind of it, by reason.
    pub leaving: Vec<Leaving>,
    pub staying: Bulk,
}

/// The bytes of a planned layer.
#[derive(Debug, Clone)]
pub enum Body {
    /// As they are in source or new base.
    Inherited(Inherited),
    /// Still to be written; the source's layer that it takes the place of, where there is one.
    Written { new: Arc<NewLayer>, of: Option<Inherited> },
}

#[derive(Debug, Clone)]
pub struct Inherited {
    pub descriptor: Descriptor,
    pub diff_id: DiffId,
}

/// Every layer of source and new base with its fate: first what goes, then the result in order.
pub(super) fn fates(subject: &PlatformSubject, layers: &Layers, passed_on: bool) -> Vec<PlannedLayer> {
    let (below, above) = subject.source_layers();
    if passed_on {
        let base = below.iter().map(|layer| inherited(layer, Fate::Base, "of the new base already"));
        let own = above.iter().map(|layer| inherited(layer, Fate::Kept, "of the application"));
        return base.chain(own).collect();
    }
    let gone = below.iter().map(|layer| inherited(layer, Fate::Stripped, "of the old base"));
    let base = subject.base.layers.iter().enumerate().map(|(at, layer)| {
        let read = subject.base_layers.get(at).map_or_else(|| layer.clone(), |index| truly(layer, index));
        inherited(&read, Fate::Base, "of the new base")
    });
    let own = layers.own.iter().map(own);
    let extracted = layers.extracted.iter().filter(|layer| !layer.is_empty());
    let extracted = extracted.map(|layer| written(layer, "extracted from the source".to_owned()));
    let added = Some(&layers.added).filter(|added| !added.layer.is_empty());
    let added = added.map(|added| written(&added.layer, format!("adds {}", added.what.join(", "))));
    gone.chain(base).chain(own).chain(extracted).chain(added).collect()
}

/// The layer as its bytes are, where they have been read: the media type that was declared may be wrong.
fn truly(layer: &ImageLayer, index: &LayerIndex) -> ImageLayer {
    ImageLayer { kind: LayerType(index.compression), ..layer.clone() }
}

fn own(of: &OwnLayer) -> PlannedLayer {
    let truth = truly(&of.layer, &of.index);
    let (fate, why) = match (&of.becomes, of.staying.entries) {
        (Becomes::Kept, _) => (Fate::Kept, "of the application, byte for byte"),
        (Becomes::Filtered(_), _) => (Fate::Filtered, "of the application, without what belongs to the old system"),
        (Becomes::Dropped, 0) => (Fate::Dropped, "nothing of the application in it"),
        (Becomes::Dropped, _) => (Fate::Dropped, "what the application needs of it was extracted"),
    };
    let mut planned = inherited(&truth, fate, why);
    if let (Becomes::Filtered(new), Body::Inherited(of)) = (&of.becomes, &planned.body) {
        planned.body = Body::Written { new: Arc::clone(new), of: Some(of.clone()) };
    }
    PlannedLayer { leaving: of.leaving.clone(), staying: of.staying, ..planned }
}

fn written(new: &Arc<NewLayer>, why: String) -> PlannedLayer {
    let body = Body::Written { new: Arc::clone(new), of: None };
    PlannedLayer { fate: Fate::Added, why, body, leaving: Vec::new(), staying: Bulk::default() }
}

fn inherited(layer: &ImageLayer, fate: Fate, why: &str) -> PlannedLayer {
    let annotations: Map<String, Value> = layer
        .descriptor
        .annotations
        .iter()
        .filter(|(key, _)| !is_dangerous(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let mut descriptor = Descriptor::new(layer.kind.media_type(), layer.descriptor.digest, layer.descriptor.size);
    descriptor.annotations = annotations;
    let body = Body::Inherited(Inherited { descriptor, diff_id: layer.diff_id });
    PlannedLayer { fate, why: why.to_owned(), body, leaving: Vec::new(), staying: Bulk::default() }
}

/// How much there is of something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bulk {
    pub entries: usize,
    pub bytes: u64,
}

/// Part of a layer that does not go along, by reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaving {
    /// Such as `package curl 7.88.1-10` or `package database`.
    pub what: String,
    /// Whether it is a package: those are counted.
    pub is_package: bool,
    pub bulk: Bulk,
}

impl Bulk {
    pub(super) fn add(&mut self, entry: &Entry) {
        self.entries += 1;
        if let EntryKind::File { size, .. } = entry.kind {
            self.bytes = self.bytes.saturating_add(size);
        }
    }
}

/// Why an entry stays behind, and whether that is a package.
pub(super) fn reason(owners: &LayerOwnership, owner: Ownership) -> (String, bool) {
    match owner {
        Ownership::Package(at) => {
            let package = owners.packages.packages.get(at);
            let named = package.map(|package| format!("package {} {}", package.name, package.version));
            (named.unwrap_or_default(), true)
        }
        other => (owners.word(other), false),
    }
}

/// A sum for each reason.
#[derive(Default)]
pub(super) struct Sums(BTreeMap<(bool, String), Bulk>);

impl Sums {
    pub(super) fn add(&mut self, what: String, is_package: bool, entry: &Entry) {
        // Packages first: `false` sorts before `true`.
        self.0.entry((!is_package, what)).or_default().add(entry);
    }

    pub(super) fn finish(self) -> Vec<Leaving> {
        let leaving = |((other, what), bulk): ((bool, String), Bulk)| Leaving { what, is_package: !other, bulk };
        self.0.into_iter().map(leaving).collect()
    }
}
