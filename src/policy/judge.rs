//! Puts all rules to a pass, in the order of a report; those about its base and its config are here.

use std::collections::BTreeMap;

use super::{command, difference, interpreted, layers, logs, needs, pod, program, user, workdir};
use crate::examine::base::Sureness;
use crate::examine::{PlatformSubject, Subject};
use crate::plan::{OnMissing, Pass};
use crate::process::OwnStartup;
use crate::rules::{Allow, Finding, Level, Rule, apply_allowed};
use layer::RootPath;
use oci::{Platform, is_dangerous};

/// Puts every rule to one platform.
#[must_use]
pub fn judge(pass: &Pass, allowed: &[Allow]) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(program::judge(pass));
    findings.extend(interpreted::judge(pass));
    findings.extend(command::judge(pass));
    findings.extend(difference::judge(pass));
    findings.extend(needs::judge(pass));
    findings.extend(user::judge(pass));
    findings.extend(workdir::workdir_missing(pass));
    findings.extend(logs::log_dir_missing(pass));
    findings.extend(command::healthcheck_missing(pass));
    findings.extend(pod::judge(pass));
    findings.extend(layers::judge(pass));
    findings.extend(command::cmd_changes_meaning(pass));
    findings.extend(old_base(pass));
    findings.extend(layers::layer_odd(pass));
    findings.extend(config_odd(pass));
    findings.extend(labels_dropped(&pass.subject));
    findings.extend(attestations(&pass.subject));
    apply_allowed(allowed, &mut findings);
    findings
}

/// What keeps an image from starting on its own root: for one that stays where it is.
#[must_use]
pub fn judge_alone(alone: &OwnStartup, platform: &Platform) -> Vec<Finding> {
    program::judge_alone(alone, platform)
}

/// A platform of the source that was not looked at, such as one that the new base does not have, and why.
#[derive(Debug, Clone)]
pub struct MissingPlatform {
    pub platform: Platform,
    pub findings: Vec<Finding>,
}

/// What the rules say about the platforms that could not be looked at.
#[must_use]
pub fn missing_platforms(image: &Subject, on_missing: OnMissing) -> Vec<MissingPlatform> {
    let missing = |platform: &Platform| MissingPlatform {
        platform: platform.clone(),
        findings: vec![platform_missing(image, platform, on_missing)],
    };
    image.missing.iter().map(missing).collect()
}

fn old_base(pass: &Pass) -> Vec<Finding> {
    let old = &pass.subject.old_base;
    let warning = |warning: &String| {
        Finding::new(Rule::BaseNameIgnored, Level::Warn, warning.clone()).fix(Rule::BaseNameIgnored.fix())
    };
    let notes = old.notes.iter().map(|note| Finding::new(Rule::OldBaseUnproven, Level::Note, note.clone()));
    let verdicts = [old_base_doubted(pass), base_unproven_files(pass), extract_incomplete(pass)];
    old.warnings.iter().map(warning).chain(notes).chain(verdicts.into_iter().flatten()).collect()
}

fn old_base_doubted(pass: &Pass) -> Option<Finding> {
    let old = &pass.subject.old_base;
    match old.sure {
        Sureness::Proven | Sureness::Given => None,
        Sureness::Likely if old.layers == 0 => None,
        // What is extracted does not depend on where the old base ends.
        Sureness::Unknown if pass.draft.layers.extracted.is_some() => None,
        Sureness::Likely => Some(
            Finding::new(
                Rule::OldBaseUnproven,
                Level::Warn,
                format!("the old base was read from the {}, not proven by its layers", old.how),
            )
            .evidence(format!("layers 1 to {} are taken as the old base", old.layers))
            .fix(format!(
                "check with `underpin inspect IMAGE`, then pass --old-base REF, or --old-base layers:{} to confirm",
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
            .fix("take only the program and its data out of it with --extract, or pass --old-base with the image it was built on, or --old-base layers:N"),
        ),
    }
}

/// Files that a finding names; the rest is counted.
const NAMED: usize = 10;

fn named(names: &[String]) -> String {
    let first = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// What would be lost with a base that is only likely.
fn base_unproven_files(pass: &Pass) -> Option<Finding> {
    let old = &pass.subject.old_base;
    let lost = if pass.draft.passes_on() { &[] } else { pass.seam.unproven.as_slice() };
    let lowest = lost.iter().map(|(layer, _)| *layer).min()?;
    let paths: Vec<String> = lost.iter().map(|(_, path)| path.to_string()).collect();
    let keep = if lowest > 0 { format!(", or --old-base layers:{lowest} to keep them") } else { String::new() };
    Some(
        Finding::new(
            Rule::BaseUnprovenFiles,
            Level::Refuse,
            format!("the old base was read from the {}, and its layers contain files that no package owns", old.how),
        )
        .evidence(named(&paths))
        .fix(format!(
            "pass --old-base REF with the image it was built on, or --old-base layers:{} if these files are the base's{keep}",
            old.layers
        )),
    )
}

fn extract_incomplete(pass: &Pass) -> Option<Finding> {
    let left = &pass.draft.layers.left_unknown;
    let mut directories: BTreeMap<RootPath, usize> = BTreeMap::new();
    for path in left {
        *directories.entry(path.parent().unwrap_or_default()).or_default() += 1;
    }
    let counted = |(directory, count): (&RootPath, &usize)| {
        let files = if *count == 1 { "file" } else { "files" };
        format!("{directory} ({count} {files})")
    };
    let directories: Vec<String> = directories.iter().map(counted).collect();
    (!left.is_empty()).then(|| {
        Finding::new(
            Rule::ExtractIncomplete,
            Level::Refuse,
            "nothing tells the application's files from the system's, and --extract would leave some behind",
        )
        .evidence(named(&directories))
        .fix(Rule::ExtractIncomplete.fix())
    })
}

fn config_odd(pass: &Pass) -> Vec<Finding> {
    let finding = |odd: &crate::examine::Oddity| {
        Finding::new(Rule::ConfigOdd, Level::Warn, format!("{} is carried as it is: {}", odd.member, odd.why))
            .evidence(format!("{} {:?}", odd.member, odd.value))
            .fix("fix it where the image is built")
    };
    pass.facts.oddities.iter().map(finding).collect()
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
fn attestations(subject: &PlatformSubject) -> Vec<Finding> {
    let left = subject.left_behind.iter();
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

fn platform_missing(image: &Subject, platform: &Platform, on_missing: OnMissing) -> Finding {
    let (level, fix) = match on_missing {
        OnMissing::Refuse => {
            (Level::Refuse, "choose platforms with --platform, or leave it out with --on-missing-platform skip")
        }
        OnMissing::Skip => (Level::Warn, "the result does not have this platform"),
    };
    Finding::new(Rule::PlatformMissing, level, format!("the new base has no image for {platform}"))
        .evidence(image.base.pinned())
        .fix(fix)
}
