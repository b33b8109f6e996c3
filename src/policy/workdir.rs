//! The rules about the working directory.

use crate::plan::{DirectoryState, Pass};
use crate::rules::{Finding, Level, Rule};

pub(super) fn workdir_missing(pass: &Pass) -> Option<Finding> {
    let DirectoryState::Blocked { path, why } = &pass.draft.layers.added.working_dir else { return None };
    Some(
        Finding::new(Rule::WorkdirMissing, Level::Refuse, format!("the working directory {path} cannot be used"))
            .about(path)
            .evidence(why)
            .fix("set WORKDIR to a directory that the image contains, or pass --workdir DIR"),
    )
}
