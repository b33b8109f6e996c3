//! The images that `--image` names.

use super::super::args::WorldArgs;
use super::super::console::Console;
use crate::error::Result;
use crate::kube::{Answer, Images, Question};

/// Images that were fetched, by the names that manifests have for them.
pub(super) struct Fetched;

impl Images for Fetched {
    fn ask(&self, _: &str, _: &Question<'_>) -> Option<Answer> {
        None
    }
}

pub(super) fn fetch(_: &[String], _: &WorldArgs, _: &Console) -> Result<Option<Fetched>> {
    Ok(None)
}
