//! The label of Cloud Native Buildpacks: it names the top layer of the run image by diff id.

use serde_json::Value;

use super::clue::Clue;
use crate::oci::{Config, DiffId, json};

const LABEL: &str = "io.buildpacks.lifecycle.metadata";

/// What the label says: how many layers the run image has, and where it was.
#[derive(Debug)]
pub(super) struct RunImage {
    pub layers: usize,
    pub clue: Option<Clue>,
}

/// `None` where there is no such label, or its top layer is not one of the image's own.
pub(super) fn read(config: &Config) -> Option<RunImage> {
    let metadata = json::read(config.label(LABEL)?.as_bytes(), "buildpacks label").ok()?;
    let run_image = metadata.get("runImage")?;
    let top: DiffId = run_image.get("topLayer")?.as_str()?.parse().ok()?;
    let at = config.diff_ids().iter().position(|id| *id == top)?;
    Some(RunImage { layers: at + 1, clue: clue(run_image) })
}

fn clue(run_image: &Value) -> Option<Clue> {
    let reference = run_image.get("reference")?.as_str()?;
    let (name, digest) = reference.split_once('@')?;
    Clue::new(name, Some(digest))
}
