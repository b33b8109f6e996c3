//! The rules about where the application meets its new base.

use crate::plan::Pass;
use crate::process::{Container, Start};
use crate::rules::Rule;
use crate::rules::{Finding, Level};

/// So many paths are named in one finding; the others are counted.
const NAMED: usize = 10;

pub(super) fn judge(pass: &Pass) -> Vec<Finding> {
    let seam = &pass.seam;
    let broken_links: Vec<String> =
        seam.dangling.iter().filter(|link| link.led).map(|link| format!("{} -> {}", link.link, link.target)).collect();
    let findings = [
        list(
            Rule::LayerBroken,
            Level::Refuse,
            "the layers cannot be unpacked on the new base",
            &seam.broken,
            "they need files of the old base: build these layers without hard links into it",
        ),
        list(
            Rule::ShadowsBase,
            Level::Warn,
            "files of the application take the place of the new base's",
            &seam.shadowed,
            "leave them out of the image if the new base's are better",
        ),
        list(
            Rule::RemovesBase,
            Level::Warn,
            "the application removes files that the new base has",
            &seam.removed,
            "do not remove them where the image is built, if they were only the old base's",
        ),
        list(
            Rule::LinkDangling,
            Level::Warn,
            "links of the application led into the old base and lead nowhere now",
            &broken_links,
            "bring their targets along with --keep, or leave the links out",
        ),
        list(
            Rule::LayerOdd,
            Level::Warn,
            "some runtimes read these entries differently",
            &seam.odd,
            "build these layers with plain paths",
        ),
        keep_missing(pass),
        entrypoint_relative(pass),
    ];
    findings.into_iter().flatten().collect()
}

fn list(rule: Rule, level: Level, message: &str, paths: &[String], fix: &str) -> Option<Finding> {
    if paths.is_empty() {
        return None;
    }
    let named = paths.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let evidence = match paths.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    };
    Some(Finding::new(rule, level, message).evidence(evidence).fix(fix))
}

fn keep_missing(pass: &Pass) -> Option<Finding> {
    let paths: Vec<String> = pass.draft.layers.keep_missing.iter().map(ToString::to_string).collect();
    list(Rule::KeepMissing, Level::Refuse, "--keep names what the image does not have", &paths, "correct the path")
}

/// A relative program is looked for in the working folder, which may be another one now.
fn entrypoint_relative(pass: &Pass) -> Option<Finding> {
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
            format!("{program} is looked for in another working folder"),
        )
        .about(&program)
        .evidence(format!("{before} in the source, {after} on the new base"))
        .fix("write the program with its full path, or set WORKDIR in the image itself")
    })
}
