//! The rules themselves: each a small function from facts to findings.

use super::allow::{self, Allow};
use super::finding::{Finding, Findings, Level, Rule};
use super::program;
use crate::examine::base::Sureness;
use crate::examine::{Facts, PlatformFacts, PlatformSubject};
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
            findings.extend(program::judge(&answers.start, &subject.platform));
            findings.extend(needs_shell(answers));
            findings.extend(healthcheck_shell(answers));
            findings.extend(user_missing(answers));
            findings.extend(cmd_changes_meaning(answers));
            findings.extend(old_base(subject));
            findings.extend(layer_odd(answers));
            findings.extend(config_odd(answers));
            findings.extend(labels_dropped(subject));
            findings.extend(attestations(facts, subject));
            allow::apply(allowed, &mut findings);
            findings
        })
        .collect();
    let missing = facts.subject.missing.iter();
    let missing = missing.map(|platform| (platform.clone(), platform_missing(facts, platform, on_missing))).collect();
    Findings { platforms, missing }
}

fn needs_shell(facts: &PlatformFacts) -> Option<Finding> {
    let form = facts.shell_form.as_ref()?;
    let evidence = form.script.clone().unwrap_or_else(|| facts.command.argv().join(" "));
    let message = format!("the command starts a shell ({}); only exec-form commands can be moved", form.shell);
    Some(
        Finding::new(Rule::NeedsShell, Level::Refuse, message)
            .about(&form.shell)
            .evidence(evidence)
            .fix("build the image with an exec-form ENTRYPOINT or CMD, such as [\"/app\", \"--flag\"]"),
    )
}

fn healthcheck_shell(facts: &PlatformFacts) -> Option<Finding> {
    let test = facts.container.members.get("Healthcheck")?.get("Test")?.as_array()?;
    let words: Vec<&str> = test.iter().filter_map(|word| word.as_str()).collect();
    let (&"CMD-SHELL", script) = words.split_first()? else { return None };
    Some(
        Finding::new(Rule::HealthcheckShell, Level::Refuse, "the health check needs a shell and would always fail")
            .evidence(script.join(" "))
            .fix("write HEALTHCHECK in exec form, such as HEALTHCHECK CMD [\"/app\", \"health\"], or leave it to the orchestrator"),
    )
}

fn user_missing(facts: &PlatformFacts) -> Vec<Finding> {
    let finding = |account: &crate::examine::UnknownAccount| {
        let message = format!("the image runs as {}, which the rebased image does not know", account.name);
        Finding::new(Rule::UserMissing, Level::Refuse, message)
            .about(account.file)
            .evidence(format!("{} has no line for it", account.file))
            .fix("write USER as a number, such as 65532:65532 (Kubernetes' runAsNonRoot wants one, too)")
    };
    facts.unknown_accounts.iter().map(finding).collect()
}

fn cmd_changes_meaning(facts: &PlatformFacts) -> Option<Finding> {
    let (before, after) = (facts.command.argv(), facts.container.command.argv());
    if before == after {
        return None;
    }
    let message = "part of the command came from the old base and is the new base's now";
    Some(
        Finding::new(Rule::CmdChangesMeaning, Level::Warn, message)
            .evidence(format!("{before:?} became {after:?}"))
            .fix("set ENTRYPOINT and CMD in the image itself if this is not what you want"),
    )
}

fn old_base(subject: &PlatformSubject) -> Vec<Finding> {
    let old = &subject.old_base;
    let notes = old.notes.iter().map(|note| Finding::new(Rule::OldBaseUnproven, Level::Note, note.clone()));
    let verdict = match old.sure {
        Sureness::Proven => None,
        Sureness::Likely if old.layers == 0 => None,
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
            .fix("pass --old-base with the image it was built on, or layers:N"),
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
