//! The rules about the working directory.

use crate::plan::{DirectoryState, Pass};
use crate::process::{Container, Start};
use crate::rules::{Finding, Level, Rule};

pub(super) fn workdir_missing(pass: &Pass) -> Option<Finding> {
    let DirectoryState::Blocked { path, why } = &pass.draft.layers.added.working_dir else { return None };
    Some(
        Finding::new(Rule::WorkdirMissing, Level::Refuse, format!("the working directory {path} cannot be used"))
            .about(path)
            .evidence(why)
            .fix("set WORKDIR to a directory that the image contains"),
    )
}

/// A relative program is resolved in the working directory, which may be another one now.
pub(super) fn entrypoint_relative(pass: &Pass) -> Option<Finding> {
    let Pass { subject, draft, startup, .. } = pass;
    let program = draft.container.command.program().filter(|name| name.contains('/') && !name.starts_with('/'))?;
    let directory = |container: &Container| match container.text("WorkingDir") {
        "" => "/".to_owned(),
        path => path.to_owned(),
    };
    let (before, after) = (directory(&Container::of(&subject.source.config)), directory(&draft.container));
    let is_found = matches!(startup.program, Start::Found(_));
    (before != after && is_found).then(|| {
        Finding::new(
            Rule::EntrypointRelative,
            Level::Warn,
            format!("{program} is resolved in another working directory"),
        )
        .about(&program)
        .evidence(format!("{before} in the source, {after} on the new base"))
        .fix("write the program with its full path, or set WORKDIR in the image itself")
    })
}
