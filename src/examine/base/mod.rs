//! Where the old base ends: the ladder of rungs, first answer wins.
//!
//! The rule this folder owns: a base is the old base only when its diff ids are a prefix of the
//! image's. Names in annotations, labels and provenance only say where to look. History and
//! content answer where no base is named, and are never called proof. Missing or wrong history
//! never changes which layers are kept once a base is known.

mod clues;
mod content;
mod history;
mod ladder;
#[cfg(test)]
mod tests;

pub use clues::Clue;
pub use ladder::{Known, find};

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::layer::LayerIndex;
use crate::oci::{Image, Location};

/// The old base as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OldBaseChoice {
    Scratch,
    Layers(usize),
    Image(Location),
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
            None => text.parse().map(Self::Image),
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
    /// Diff ids agree, or the user said so.
    Proven,
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
    /// Clues that led nowhere, for the report.
    pub notes: Vec<String>,
}

impl OldBase {
    fn layers(how: Rung, sure: Sureness, layers: usize) -> Self {
        Self { how, sure, layers, reference: None, image: None, notes: Vec::new() }
    }

    fn image(how: Rung, location: &Location, image: Image) -> Self {
        let reference = Some(location.pinned(image.digest()));
        Self {
            how,
            sure: Sureness::Proven,
            layers: image.layers.len(),
            reference,
            image: Some(image),
            notes: Vec::new(),
        }
    }

    /// The answer as an option that leads to the same answer again, wherever it is asked.
    #[must_use]
    pub fn as_option(&self) -> String {
        match (&self.reference, self.layers) {
            (Some(reference), _) => reference.clone(),
            (None, 0) => "scratch".to_owned(),
            (None, layers) => format!("layers:{layers}"),
        }
    }
}

/// What the ladder may ask of the world.
pub trait Lookup {
    /// The image that the user named; `None` where it is not for the source's platform.
    fn image(&self, location: &Location) -> Result<Option<Image>>;

    /// The same for a name that was found in the image. `None` also where there is no such image,
    /// where we may not see it, and where such a name must not be followed.
    fn clue(&self, location: &Location) -> Result<Option<Image>>;

    /// The in-toto statements that were published beside the source.
    fn statements(&self) -> Result<Vec<serde_json::Value>>;

    /// The index of the source's layer number `at`, from 0.
    fn layer(&self, at: usize) -> Result<Arc<LayerIndex>>;
}
