//! The rules about layers: where those of the application meet the new base, and odd entries.

use crate::plan::{BringConflict, Brought, Pass};
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
        bring_missing(pass),
    ];
    let brought = bring_conflicts(pass).into_iter().chain(brought_partly(pass));
    findings.into_iter().flatten().chain(brought).collect()
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

fn bring_missing(pass: &Pass) -> Option<Finding> {
    let names: Vec<String> = pass.draft.layers.bring.missing.iter().map(ToString::to_string).collect();
    let message = "--bring names what the image does not have, as a package, a program on PATH, or a path";
    list(Rule::BringMissing, Level::Refuse, message, &names, "correct the name")
}

/// One for each, so that each can be allowed.
fn bring_conflicts(pass: &Pass) -> Vec<Finding> {
    let conflict = |conflict: &BringConflict| {
        let path = conflict.path.to_string();
        Finding::new(Rule::BringConflict, Level::Refuse, format!("{path} cannot be brought along"))
            .about(&path)
            .evidence(conflict.why.clone())
            .fix(format!(
                "pass --allow bring-conflict={path} to go on with the new base's, or --keep {path} to replace it"
            ))
    };
    pass.draft.layers.bring.conflicts.iter().map(conflict).collect()
}

/// What belongs to something that was brought and is not there.
fn brought_partly(pass: &Pass) -> Vec<Finding> {
    let brought = pass.draft.layers.bring.brought.iter().filter(|brought| !brought.left.is_empty());
    let note = |brought: &Brought| {
        Finding::new(
            Rule::BroughtPartly,
            Level::Note,
            format!("{} was brought along without all that belongs to it", brought.line()),
        )
        .evidence(brought.left.join("; "))
        .fix("bring more of it with --bring if the application needs it")
    };
    brought.map(note).collect()
}

fn drop_missing(pass: &Pass) -> Option<Finding> {
    let paths: Vec<String> = pass.draft.layers.drop_missing.iter().map(ToString::to_string).collect();
    let message = "--drop names what the image's own layers do not have, or what cannot be taken out of them";
    list(Rule::DropMissing, Level::Refuse, message, &paths, "correct the path")
}

pub(super) fn layer_odd(pass: &Pass) -> Vec<Finding> {
    let notes = pass.facts.layer_notes.iter().chain(&pass.draft.layers.notes);
    let notes = notes.map(|note| Finding::new(Rule::LayerOdd, Level::Note, note.clone()));
    notes.chain(packages_unread(pass)).chain(changes_unseen(pass)).collect()
}

/// Layers whose times say nothing: a file of a package leaves with it, also one that somebody edited.
fn changes_unseen(pass: &Pass) -> Option<Finding> {
    let layers = pass.facts.layers.iter().filter(|_| pass.draft.layers.extracted.is_none());
    let flat = layers.filter(|layer| layer.owners().packages.changes_unseen);
    let digests: Vec<String> = flat.map(|layer| format!("layer {}", layer.index.digest.short())).collect();
    list(
        Rule::LayerOdd,
        Level::Warn,
        "all files of a layer have the same time: one that was edited after its package was installed leaves with the package",
        &digests,
        "keep what was edited: --keep PATH",
    )
}

/// Layers whose package database says nothing, such as rpm's: all that was installed stays in them.
fn packages_unread(pass: &Pass) -> Option<Finding> {
    let layers = pass.facts.layers.iter().filter(|_| pass.draft.layers.extracted.is_none());
    let notes = layers.flat_map(|layer| {
        let digest = layer.index.digest.short();
        layer.owners().packages.notes.iter().map(move |note| format!("layer {digest}: {note}"))
    });
    list(
        Rule::LayerOdd,
        Level::Warn,
        "packages that the image's own layers installed cannot be told from the application, and all of them stay",
        &notes.collect::<Vec<_>>(),
        "copy the application into a layer of its own where the image is built, or take files out with --drop PATH",
    )
}
