//! The rules about layers: where those of the application meet the new base, and odd entries.

use crate::plan::Pass;
use crate::rules::{Finding, Level, Rule};

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
            "remove them from the image if the new base's are better",
        ),
        list(
            Rule::RemovesBase,
            Level::Warn,
            "the application removes files that the new base has",
            &seam.removed,
            "do not remove them where the image is built if only the old base had them",
        ),
        list(
            Rule::LinkDangling,
            Level::Warn,
            "links of the application led into the old base and lead nowhere now",
            &broken_links,
            "keep their targets with --keep, or remove the links",
        ),
        list(
            Rule::LayerOdd,
            Level::Warn,
            "some runtimes read these entries differently",
            &seam.odd,
            "build these layers with plain paths",
        ),
        keep_missing(pass),
        drop_missing(pass),
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

fn drop_missing(pass: &Pass) -> Option<Finding> {
    let paths: Vec<String> = pass.draft.layers.drop_missing.iter().map(ToString::to_string).collect();
    let message = "--drop names what the image's own layers do not have, or what cannot be taken out of them";
    list(Rule::DropMissing, Level::Refuse, message, &paths, "correct the path")
}

pub(super) fn layer_odd(pass: &Pass) -> Vec<Finding> {
    let notes = pass.facts.layer_notes.iter().chain(&pass.draft.layers.notes);
    notes.map(|note| Finding::new(Rule::LayerOdd, Level::Note, note.clone())).collect()
}
