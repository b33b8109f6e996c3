//! The rules themselves: each a small function from facts to findings.

use super::finding::{Allow, Finding, Findings, Level, apply_allowed};
use super::rule::Rule;
use super::{needs, program, seam, shell, surroundings};
use crate::examine::base::Sureness;
use crate::examine::{Facts, Outcome, PlatformFacts, PlatformSubject};
use crate::oci::{Platform, is_dangerous};

/// What to do about a platform that the new base lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMissing {
    Refuse,
    Skip,
}

/// Puts every rule to every platform.
#[must_use]
pub fn judge(facts: &Facts, on_missing: OnMissing, allowed: &[Allow]) -> Findings {
    let judged = facts.subject.platforms.iter().zip(&facts.platforms);
    let platforms = judged
        .map(|(subject, answers)| {
            let mut findings = Vec::new();
            findings.extend(program::judge(answers, &subject.platform));
            findings.extend(shell::judge(answers));
            findings.extend(needs::judge(answers));
            findings.extend(surroundings::judge(answers));
            findings.extend(seam::judge(subject, answers));
            findings.extend(cmd_changes_meaning(answers));
            findings.extend(old_base(subject, answers));
            findings.extend(layer_odd(answers));
            findings.extend(config_odd(answers));
            findings.extend(labels_dropped(subject));
            findings.extend(attestations(facts, subject));
            apply_allowed(allowed, &mut findings);
            findings
        })
        .collect();
    let missing = facts.subject.missing.iter();
    let missing = missing.map(|platform| (platform.clone(), platform_missing(facts, platform, on_missing))).collect();
    Findings { platforms, missing }
}

fn cmd_changes_meaning(facts: &PlatformFacts) -> Option<Finding> {
    let (before, after) = (facts.command.argv(), facts.container.command.argv());
    let is_inherited = matches!(facts.form.outcome, Outcome::Unchanged) && facts.form.init_dropped.is_empty();
    if before == after || !is_inherited || facts.said {
        return None;
    }
    let message = "part of the command came from the old base and is the new base's now";
    Some(
        Finding::new(Rule::CmdChangesMeaning, Level::Warn, message)
            .evidence(format!("{before:?} became {after:?}"))
            .fix("set ENTRYPOINT and CMD in the image itself if this is not what you want"),
    )
}

fn old_base(subject: &PlatformSubject, facts: &PlatformFacts) -> Vec<Finding> {
    let old = &subject.old_base;
    let notes = old.notes.iter().map(|note| Finding::new(Rule::OldBaseUnproven, Level::Note, note.clone()));
    let verdict = match old.sure {
        Sureness::Proven => None,
        Sureness::Likely if old.layers == 0 => None,
        // What is extracted does not depend on where the old base ends.
        Sureness::Unknown if facts.moved.extracted.is_some() => None,
        Sureness::Likely => Some(
            Finding::new(
                Rule::OldBaseUnproven,
                Level::Warn,
                format!("the old base was read from the {}, not proven by its layers", old.how),
            )
            .evidence(format!("layers 1 to {} are taken as the old base", old.layers))
            .fix(format!(
                "check with `underpin inspect`, then pass --old-base REF, or layers:{} to say the same",
                old.layers
            )),
        ),
        Sureness::Unknown => Some(
            Finding::new(
                Rule::OldBaseUnknown,
                Level::Refuse,
                "an operating system and the program share a layer, so there is no old base to strip",
            )
            .evidence("the first layers hold package data or a shell beside the program")
            .fix("take only the program and its data out of it with --extract, or pass --old-base with the image it was built on, or layers:N"),
        ),
    };
    notes.chain(verdict).collect()
}

fn layer_odd(facts: &PlatformFacts) -> Vec<Finding> {
    facts.layer_notes.iter().map(|note| Finding::new(Rule::LayerOdd, Level::Note, note.clone())).collect()
}

fn config_odd(facts: &PlatformFacts) -> Vec<Finding> {
    let finding = |odd: &crate::examine::Oddity| {
        Finding::new(Rule::ConfigOdd, Level::Warn, format!("{} is carried as it is: {}", odd.member, odd.why))
            .evidence(format!("{} {:?}", odd.member, odd.value))
            .fix("mend it where the image is built")
    };
    facts.oddities.iter().map(finding).collect()
}

fn labels_dropped(subject: &PlatformSubject) -> Vec<Finding> {
    let labels = [&subject.source, &subject.base].map(|image| image.config.container());
    let labels = labels.iter().filter_map(|container| container.get("Labels")?.as_object());
    let annotations = [&subject.source.manifest.annotations, &subject.entry_annotations];
    let keys = labels.flat_map(|map| map.keys()).chain(annotations.into_iter().flat_map(|map| map.keys()));
    let mut keys: Vec<&String> = keys.filter(|key| is_dangerous(key)).collect();
    keys.sort();
    keys.dedup();
    let finding = |key: &String| {
        Finding::new(Rule::LabelDropped, Level::Warn, "a label known to make runtimes act on the host is left behind")
            .evidence(key.clone())
            .fix("remove it where the image is built")
    };
    keys.into_iter().map(finding).collect()
}

/// Statements about the source's bytes would be untrue of the result.
fn attestations(facts: &Facts, subject: &PlatformSubject) -> Vec<Finding> {
    let first = facts.subject.platforms.first().is_some_and(|first| first.platform == subject.platform);
    let left =
        facts.subject.left_behind.iter().filter(|left| left.of.map_or(first, |of| of == subject.source.digest()));
    left.map(|left| {
        Finding::new(
            Rule::AttestationDropped,
            Level::Note,
            format!("{} describes the source's bytes and is left behind", left.what),
        )
        .evidence(left.digest.to_string())
        .fix("sign and attest the rebased image anew")
    })
    .collect()
}

fn platform_missing(facts: &Facts, platform: &Platform, on_missing: OnMissing) -> Finding {
    let (level, fix) = match on_missing {
        OnMissing::Refuse => {
            (Level::Refuse, "choose platforms with --platform, or leave it out with --on-missing-platform skip")
        }
        OnMissing::Skip => (Level::Warn, "the result does not have this platform"),
    };
    Finding::new(Rule::PlatformMissing, level, format!("the new base has no image for {platform}"))
        .evidence(facts.subject.base.pinned())
        .fix(fix)
}
