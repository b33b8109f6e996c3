//! The rules about where the application meets its new base.

use super::finding::{Finding, Level};
use super::rule::Rule;
use crate::examine::{PlatformFacts, PlatformSubject, Start};

/// So many paths are named in one finding; the others are counted.
const NAMED: usize = 10;

pub(super) fn judge(subject: &PlatformSubject, facts: &PlatformFacts) -> Vec<Finding> {
    let seam = &facts.seam;
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
        keep_missing(facts),
        entrypoint_relative(subject, facts),
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

fn keep_missing(facts: &PlatformFacts) -> Option<Finding> {
    let paths: Vec<String> = facts.moved.keep_missing.iter().map(ToString::to_string).collect();
    list(Rule::KeepMissing, Level::Refuse, "--keep names what the image does not have", &paths, "correct the path")
}

/// A relative program is looked for in the working folder, which may be another one now.
fn entrypoint_relative(subject: &PlatformSubject, facts: &PlatformFacts) -> Option<Finding> {
    let program = facts.container.command.program().filter(|name| name.contains('/') && !name.starts_with('/'))?;
    let folder = |members: &serde_json::Map<String, serde_json::Value>| {
        members
            .get("WorkingDir")
            .and_then(|value| value.as_str())
            .filter(|path| !path.is_empty())
            .unwrap_or("/")
            .to_owned()
    };
    let (before, after) = (folder(&subject.source.config.container()), folder(&facts.container.members));
    let is_found = matches!(facts.start, Start::Found(_));
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
