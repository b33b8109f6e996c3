//! Where the old base ends: the ladder of rungs, first answer wins.
//!
//! The rule this directory owns: a base is the old base only when its diff ids are a prefix of the
//! image's. Names in annotations, labels, provenance and history only say where to look: one that does
//! not fit, or leads nowhere, is told of and passed over. History and content answer where no name
//! does, and are never called proof. Missing or wrong history never changes which layers are kept once
//! a base is known.

mod clues;
mod content;
mod history;
mod ladder;
mod shipped;
#[cfg(test)]
mod tests;

pub use clues::Clue;
pub use content::holds_system;
pub use ladder::{Known, NamedBase, find, find_named, without_old_base};
pub use shipped::{UnreadDatabase, unproven_files};

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::process::{Command, Container};
use layer::LayerIndex;
use oci::error::{Error, Result};
use oci::{Digest, Image, Location, Reference};

/// The old base as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OldBaseChoice {
    Scratch,
    Layers(usize),
    Image(Location),
    /// As a result records it: wherever the image or the run names a place that has it, or in the local store.
    Digest(Digest),
}

impl FromStr for OldBaseChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "scratch" {
            return Ok(Self::Scratch);
        }
        match text.strip_prefix("layers:") {
            Some(count) => match count.parse() {
                Ok(count) => Ok(Self::Layers(count)),
                Err(_) => Err(Error::usage("--old-base layers:N takes a whole number").fact("given", text)),
            },
            None => text.parse().map(Self::Digest).or_else(|_| text.parse().map(Self::Image)),
        }
    }
}

/// As the flag takes it.
impl fmt::Display for OldBaseChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scratch => f.write_str("scratch"),
            Self::Layers(count) => write!(f, "layers:{count}"),
            Self::Image(location) => location.fmt(f),
            Self::Digest(digest) => digest.fmt(f),
        }
    }
}

/// The rung of the ladder that gave the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rung {
    Flag,
    Annotation,
    Label,
    Provenance,
    Known,
    History,
    Content,
    Scratch,
}

impl Rung {
    /// The word of the report, which others rely on.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Annotation => "annotation",
            Self::Label => "label",
            Self::Provenance => "provenance",
            Self::Known => "known",
            Self::History => "history",
            Self::Content => "content",
            Self::Scratch => "scratch",
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// How far the answer can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sureness {
    /// Diff ids agree.
    Proven,
    /// The user said how many layers it has; nothing was compared.
    Given,
    /// Read from marks that the builder left.
    Likely,
    /// The first layers hold an operating system and the program at once: no seam to be found.
    Unknown,
}

impl Sureness {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Proven => "proven",
            Self::Given => "given",
            Self::Likely => "likely",
            Self::Unknown => "unknown",
        }
    }
}

/// The answer. Invariant: `layers` is at most the number of the image's layers, and where
/// `image` is there, its diff ids are the first `layers` of the source's.
#[derive(Debug, Clone)]
pub struct OldBase {
    pub how: Rung,
    pub sure: Sureness,
    pub layers: usize,
    /// The old base by name, pinned for this platform.
    pub reference: Option<String>,
    pub image: Option<Image>,
    /// What the history shows the base to have set in the container, where there is no image.
    pub inherited: Map<String, Value>,
    /// Names of bases that were passed over, one line each.
    pub warnings: Vec<String>,
    /// What else was tried and led nowhere, one line each.
    pub notes: Vec<String>,
}

impl OldBase {
    fn layers(how: Rung, sure: Sureness, layers: usize) -> Self {
        let (inherited, warnings, notes) = (Map::new(), Vec::new(), Vec::new());
        Self { how, sure, layers, reference: None, image: None, inherited, warnings, notes }
    }

    fn image(how: Rung, location: &Location, image: Image) -> Self {
        let reference = Some(location.pinned(image.digest()));
        let found = Self::layers(how, Sureness::Proven, image.layers.len());
        Self { reference, image: Some(image), ..found }
    }

    /// What a container of the old base starts with: as its config says, else as far as the history of
    /// the source shows it. `None` where neither says anything.
    #[must_use]
    pub fn container(&self) -> Option<Container> {
        match &self.image {
            Some(image) => Some(Container::of(&image.config)),
            None if self.inherited.is_empty() => None,
            None => Some(Container::new(self.inherited.clone(), command_of(&self.inherited))),
        }
    }

    /// All that was passed over, in the words of a report.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        self.warnings.iter().chain(&self.notes).cloned().collect()
    }

    /// Whether layers are taken as the old base's without proof.
    #[must_use]
    pub fn is_guess(&self) -> bool {
        self.sure == Sureness::Likely && self.layers > 0
    }

    /// The answer as a result records it: however it was found, the same base is written the same.
    #[must_use]
    pub fn as_record(&self) -> String {
        match (&self.image, self.layers) {
            (Some(image), _) => image.digest().to_string(),
            (None, 0) => "scratch".to_owned(),
            (None, layers) => format!("layers:{layers}"),
        }
    }
}

fn command_of(members: &Map<String, Value>) -> Command {
    let words = |member: &str| {
        let words = members.get(member)?.as_array()?;
        Some(words.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect())
    };
    Command { entrypoint: words("Entrypoint"), cmd: words("Cmd") }
}

/// What the ladder may ask of the world.
pub trait Lookup {
    /// The image that the user named; `None` where it is not for the source's platform.
    fn image(&self, location: &Location) -> Result<Option<Image>>;

    /// The image that a name found in the source leads to. That it leads to none that can be used is an answer, with
    /// the reason in words that follow "which".
    fn clue(&self, reference: &Reference) -> Result<Result<Image, String>>;

    /// The image with this digest in the local store, where it is there.
    fn stored(&self, digest: Digest) -> Option<Image>;

    /// The in-toto statements that were published beside the source.
    fn statements(&self) -> Result<Vec<serde_json::Value>>;

    /// The index of the source's layer number `at`, from 0.
    fn layer(&self, at: usize) -> Result<Arc<LayerIndex>>;
}
