//! What an image is based on, by the names in it and in the run, and what a name leads to now. No layer is read for it.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::images::Recording;
use super::layers::LayerReader;
use super::lookup::{Looker, Patience};
use super::select::Listed;
use super::{BaseAnswer, Fetcher, Opened};
use crate::examine::base::{Known, NamedBase, find_named};
use crate::store::parallel;
use layer::{FileDigests, LayerIndex};
use oci::error::Result;
use oci::{Document, Image, Location, Platform};

/// An image with the base of each platform, as far as names tell.
pub struct BasedImage {
    opened: Arc<Opened>,
    pub platforms: Vec<BasedPlatform>,
}

pub struct BasedPlatform {
    listed: Listed,
    pub named: NamedBase,
}

/// Who named an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedBy {
    User,
    /// An image did, which must not lead everywhere.
    Image,
}

impl BasedImage {
    #[must_use]
    pub fn top(&self) -> &Document {
        self.opened.top()
    }

    /// Another document of the image.
    pub fn document(&self, fetcher: &Fetcher<'_>, of: &oci::Descriptor) -> Result<Document> {
        self.opened.document(fetcher, of)
    }
}

impl BasedPlatform {
    #[must_use]
    pub const fn platform(&self) -> &Platform {
        &self.listed.platform
    }

    #[must_use]
    pub const fn image(&self) -> &Image {
        &self.listed.image
    }

    /// The annotations of the index that the image is in.
    #[must_use]
    pub const fn index_annotations(&self) -> &Map<String, Value> {
        &self.listed.index_annotations
    }
}

impl Fetcher<'_> {
    /// Reads the documents of an image, and finds the base of each platform among what is named, in it or as `known`.
    pub fn based(
        &self,
        location: &Location,
        platforms: &[Platform],
        known: impl FnOnce(&Document) -> Vec<Location>,
    ) -> Result<BasedImage> {
        let opened = self.open(location, Recording::Off)?;
        let known = known(opened.top());
        let (chosen, ..) = self.chosen(&opened, platforms)?;
        let layers = LayerReader::new(self, &opened);
        let platforms = parallel::map(&chosen, self.tools.jobs(), |listed| {
            let looker = Looker::new(self, &opened, listed, &layers, Patience::Note);
            let (mut found, mut lost) = (Vec::new(), Vec::new());
            for location in &known {
                match looker.answer(location)? {
                    Ok(image) => found.push((location, image)),
                    Err(why) => lost.push(format!("the run names {location}, which {why}")),
                }
            }
            let known: Vec<Known<'_>> = found.iter().map(|(location, image)| Known { location, image }).collect();
            let mut named = find_named(&listed.image, &listed.index_annotations, &known, &looker)?;
            named.warnings.extend(lost);
            Ok(BasedPlatform { listed: listed.clone(), named })
        })?;
        Ok(BasedImage { opened, platforms })
    }

    /// The image that a name leads to now for a platform.
    pub fn leads_to(&self, (of, platform): (&BasedImage, &BasedPlatform), base: &Location, by: NamedBy) -> BaseAnswer {
        let layers = LayerReader::new(self, &of.opened);
        let looker = Looker::new(self, &of.opened, &platform.listed, &layers, Patience::Note);
        let forbidden = match (by, base) {
            (NamedBy::User, _) => None,
            (NamedBy::Image, Location::Registry(reference)) => looker.forbids(reference),
            (NamedBy::Image, _) => {
                Some("is not in a registry, and an image must not lead to a place on disk".to_owned())
            }
        };
        match forbidden {
            Some(why) => Err(why),
            None => looker.answer(base).unwrap_or_else(|error| Err(format!("cannot be used ({})", error.what()))),
        }
    }

    /// The indexes of the first layers of an image's platform.
    pub fn first_layers(
        &self,
        (of, platform): (&BasedImage, &BasedPlatform),
        count: usize,
        digests: FileDigests,
    ) -> Result<Vec<Arc<LayerIndex>>> {
        let layers = platform.image().layers.get(..count).unwrap_or(&platform.image().layers);
        self.read_layers(&of.opened, layers, digests)
    }

    /// The indexes of all layers of a base.
    pub fn base_layers(&self, base: &Location, image: &Image, digests: FileDigests) -> Result<Vec<Arc<LayerIndex>>> {
        self.read_layers(self.opened(base)?.as_ref(), &image.layers, digests)
    }

    /// The tags of the place that `location` is in.
    pub fn tags(&self, location: &Location) -> Result<Vec<String>> {
        self.tools.places.source(location)?.tags()
    }
}
