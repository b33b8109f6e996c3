//! Every decision of a run, drawn up before anything is written. `assemble` decides nothing.

mod annotations;
mod config;
mod history;
mod layers;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use crate::examine::{Becomes, Command, Facts, Moved, PlatformFacts, PlatformSubject, Shape};
use crate::oci::{DiffId, Image, Platform};

pub use annotations::{FORMAT, FORMAT_KEY, OPTIONS_KEY, Options, SOURCE_KEY};
pub use config::Epoch;
pub use layers::{Body, Fate, Inherited, PlannedLayer};

/// The result, decided.
#[derive(Debug)]
pub struct Plan {
    pub top: Top,
    pub platforms: Vec<PlatformPlan>,
}

/// What the target will name.
#[derive(Debug)]
pub enum Top {
    /// The one platform's manifest.
    Single,
    /// A new index with these members around the children.
    Index(Map<String, Value>),
    /// The source as it is: it stands on the new base already.
    Source,
}

#[derive(Debug)]
pub struct PlatformPlan {
    pub platform: Platform,
    /// The members of its entry in an index, beside type, digest and size.
    pub entry: Map<String, Value>,
    pub entry_annotations: Map<String, Value>,
    pub image: ImagePlan,
    /// All layers of source, new base and result with their fates, in the order of a report.
    pub layers: Vec<PlannedLayer>,
    pub before: Command,
    pub after: Command,
}

#[derive(Debug)]
pub enum ImagePlan {
    /// Byte for byte as it is.
    AsIs(Box<Image>),
    New(NewImage),
}

/// A config and a manifest, complete but for the layers and the digests that only the final bytes
/// have.
#[derive(Debug)]
pub struct NewImage {
    pub config: Map<String, Value>,
    pub manifest: Map<String, Value>,
    /// What the diff ids must come out as: those of the new base, then those kept; `None` where a
    /// layer is still to be written. Taken from the inputs and not from `layers`, so that one
    /// checks the other.
    pub diff_ids: Vec<Option<DiffId>>,
    /// The time of every entry in a layer that is written, in seconds since 1970.
    pub mtime: i64,
}

/// Draws the plan.
#[must_use]
pub fn draw(facts: &Facts, options: &Options) -> Plan {
    let subject = &facts.subject;
    let judged = subject.platforms.iter().zip(&facts.platforms);
    let platforms: Vec<PlatformPlan> =
        judged.map(|(platform, answers)| draw_platform(facts, platform, answers, options)).collect();
    let untouched = platforms.iter().all(|platform| matches!(platform.image, ImagePlan::AsIs(_)));
    let complete = subject.missing.is_empty() && subject.left_behind.is_empty() && options.platforms.is_empty();
    let top = match &subject.shape {
        Shape::Single => Top::Single,
        Shape::Index(_) if untouched && complete && subject.source.top.media_type().is_oci() => Top::Source,
        Shape::Index(object) => Top::Index(annotations::index(object, subject, options)),
    };
    Plan { top, platforms }
}

fn draw_platform(facts: &Facts, subject: &PlatformSubject, answers: &PlatformFacts, options: &Options) -> PlatformPlan {
    let image = if answers.already_right {
        ImagePlan::AsIs(Box::new(subject.source.clone()))
    } else {
        ImagePlan::New(draw_image(facts, subject, answers, options))
    };
    PlatformPlan {
        platform: subject.platform.clone(),
        entry: subject.entry.clone().unwrap_or_else(|| platform_object(&subject.source)),
        entry_annotations: annotations::harmless(&subject.entry_annotations),
        layers: layers::fates(subject, &answers.moved, answers.already_right),
        image,
        before: answers.command.clone(),
        after: answers.container.command.clone(),
    }
}

fn draw_image(facts: &Facts, subject: &PlatformSubject, answers: &PlatformFacts, options: &Options) -> NewImage {
    NewImage {
        config: config::merge(subject, answers, options.epoch),
        manifest: annotations::manifest(&facts.subject, subject, options),
        diff_ids: expected(subject, &answers.moved),
        mtime: options.epoch.map_or(0, |epoch| i64::try_from(epoch.0).unwrap_or_default()),
    }
}

fn expected(subject: &PlatformSubject, moved: &Moved) -> Vec<Option<DiffId>> {
    let base = subject.base.diff_ids().iter().copied().map(Some);
    let own = subject.source.diff_ids().iter().copied().skip(subject.old_base.layers);
    let own = own.zip(&moved.layers).filter_map(|(diff_id, layer)| match layer.becomes {
        Becomes::Kept => Some(Some(diff_id)),
        Becomes::Filtered(_) => Some(None),
        Becomes::Dropped => None,
    });
    let new = moved.extracted.iter().chain([&moved.added.layer]).filter(|layer| !layer.is_empty());
    base.chain(own).chain(new.map(|_| None)).collect()
}

fn platform_object(image: &Image) -> Map<String, Value> {
    let config = image.config.object();
    let keys = ["architecture", "os", "os.version", "os.features", "variant"];
    keys.iter().filter_map(|key| Some(((*key).to_owned(), config.get(*key)?.clone()))).collect()
}
