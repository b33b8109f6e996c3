//! What a process gets on the new base and did not on the old one, or the other way round: the two starts,
//! compared. More privilege refuses, another program refuses, the rest is said.

use crate::plan::{CommandOutcome, Pass};
use crate::process::{ChainEnd, Executed, Identity, Start};
use crate::rules::{Finding, Level, Rule};
use elf::Program;
use start::rootfs::Credentials;

pub(super) fn judge(pass: &Pass) -> Vec<Finding> {
    if pass.draft.passes_on() {
        return Vec::new();
    }
    let (before, after) = (&pass.startup.before, &pass.startup.after);
    let mut findings = Vec::new();
    findings.extend(command_lost(pass));
    findings.extend(program_changed(pass));
    findings.extend(user(before, after, pass.draft.user_overridden));
    findings.extend(working_dir(before, after));
    findings.extend(variables(pass));
    findings
}

/// A command that becomes none. A shell that only the old base gave is nothing that anybody starts.
fn command_lost(pass: &Pass) -> Option<Finding> {
    let (before, after) = (&pass.startup.before, &pass.startup.after);
    if before.argv.is_empty() || !after.argv.is_empty() || pass.draft.command_overridden {
        return None;
    }
    let is_bare_shell = before.argv.len() == 1 && pass.facts.command.starts_shell();
    let level = if is_bare_shell { Level::Warn } else { Level::Refuse };
    Some(
        Finding::new(
            Rule::CommandLost,
            level,
            "the image inherits its command from the old base, and the new base has none: nothing would be started",
        )
        .evidence(before.argv.join(" "))
        .fix("set ENTRYPOINT in the image itself, or pass it, such as --entrypoint '[\"/app\"]'"),
    )
}

fn program_changed(pass: &Pass) -> Option<Finding> {
    let (before, after) = (&pass.startup.before, &pass.startup.after);
    let (old, new) = pair(pass)?;
    if pass.draft.command_overridden || is_same(pass, old, new) {
        return None;
    }
    let is_of_bases = old.layer < pass.subject.old_layers.len() && new.layer < pass.startup.base_layers;
    // The program came with the old base, and comes with the new one.
    let level = if is_of_bases && old.word == new.word { Level::Warn } else { Level::Refuse };
    let message = match level {
        Level::Warn => format!("{} is the new base's program now", new.path),
        _ => format!("{} is started where {} was", new.path, old.path),
    };
    Some(
        Finding::new(Rule::ProgramChanged, level, message)
            .about(new.path.to_string())
            .evidence(format!("{} became {}", before.argv.join(" "), after.argv.join(" ")))
            .fix("write the program with its full path, or override the command with --entrypoint and --cmd"),
    )
}

/// The files to compare: what stays, or, where a part of the command was the old base's and is gone with it, what
/// comes first. That a shell or an init was taken away is said elsewhere.
fn pair(pass: &Pass) -> Option<(&Executed, &Executed)> {
    let (before, after) = (&pass.startup.before, &pass.startup.after);
    if !after.runs() || !before.runs() {
        return None;
    }
    let form = &pass.draft.form;
    let is_inherited = matches!(form.outcome, CommandOutcome::Unchanged) && form.init_dropped.is_empty();
    // What became of a pod's shell has a rule of its own.
    if is_inherited && before.argv != after.argv && pass.pod.is_none() {
        return Some((before.chain.first()?, after.chain.first()?));
    }
    matches!(before.end, ChainEnd::Runs).then_some((before.program()?, after.program()?))
}

/// The same file at the same place, as far as that can be told without its bytes.
fn is_same(pass: &Pass, old: &Executed, new: &Executed) -> bool {
    let (a, b) = (&old.stamp, &new.stamp);
    let is_alike = (&a.kind, a.mode, a.uid, a.gid) == (&b.kind, b.mode, b.uid, b.gid) && old.program == new.program;
    // Files of two bases may be alike and differ in their bytes; those of one layer do not.
    let before = pass.subject.old_layers.get(old.layer).map(|layer| layer.diff_id);
    let after = pass.subject.base_layers.get(new.layer).map(|layer| layer.diff_id);
    // What is in neither base is the application's, or was brought along as it was.
    old.path == new.path && is_alike && (before == after || after.is_none())
}

fn user(before: &Start, after: &Start, is_overridden: bool) -> Vec<Finding> {
    let first = before.user.as_ref().ok().zip(after.user.as_ref().ok());
    let last = before.last_user.as_ref().zip(after.last_user.as_ref());
    let pairs = [last, first].into_iter().flatten().filter(|_| !is_overridden);
    let mut findings: Vec<Finding> = pairs.filter_map(|(before, after)| identity(before, after)).collect();
    findings.truncate(1);
    findings
}

fn identity(before: &Identity, after: &Identity) -> Option<Finding> {
    let (old, new) = (&before.credentials, &after.credentials);
    let evidence = format!("{} before, {} after", numbers(old), numbers(new));
    if new.uid == 0 && old.uid != 0 || new.gid == 0 && old.gid != 0 {
        let what = if new.uid == 0 { "root" } else { "the group of root" };
        let message = format!("the image would run as {what}, which it did not before");
        return Some(
            Finding::new(Rule::RunsAsRoot, Level::Refuse, message)
                .evidence(evidence)
                .fix(format!("set USER in the image itself, or pass --user {}:{}", old.uid, old.gid)),
        );
    }
    (sorted(old) != sorted(new)).then(|| {
        Finding::new(Rule::UserChanged, Level::Warn, "the image runs as another user or group than before")
            .evidence(evidence)
            .fix(format!("set USER in the image itself, or pass --user {}:{}", old.uid, old.gid))
    })
}

fn sorted(who: &Credentials) -> (u64, u64, Vec<u64>) {
    let mut groups: Vec<u64> = who.groups.iter().copied().filter(|group| *group != who.gid).collect();
    groups.sort_unstable();
    groups.dedup();
    (who.uid, who.gid, groups)
}

fn numbers(who: &Credentials) -> String {
    let groups: Vec<String> = who.groups.iter().map(ToString::to_string).collect();
    let groups = if groups.is_empty() { String::new() } else { format!(" groups {}", groups.join(",")) };
    format!("uid {} gid {}{groups}", who.uid, who.gid)
}

fn working_dir(before: &Start, after: &Start) -> Option<Finding> {
    let normal = |start: &Start| layer::RootPath::new(&start.working_dir.written).ok();
    (normal(before) != normal(after)).then(|| {
        let (old, new) = (&before.working_dir.written, &after.working_dir.written);
        Finding::new(Rule::WorkdirChanged, Level::Warn, "the image starts in another working directory than before")
            .evidence(format!("{old} before, {new} after"))
            .fix(format!("set WORKDIR in the image itself, or pass --workdir {old}"))
    })
}

/// Variables that a program on the start path names, and that it does not get as before.
fn variables(pass: &Pass) -> Option<Finding> {
    let (before, after) = (&pass.startup.before, &pass.startup.after);
    let own = after.chain.iter().filter(|executed| executed.layer >= pass.startup.base_layers);
    let programs: Vec<&Program> = own.filter_map(|executed| executed.program.as_ref()).collect();
    let names = before.environment.iter().chain(&after.environment).map(|(name, _)| name.as_str());
    let differs = |name: &&str| *name != "PATH" && before.variable(name) != after.variable(name);
    let is_set_by_user = |name: &&str| pass.draft.variables_overridden.iter().any(|given| given == name);
    let changed = names.filter(differs).filter(|name| !is_default_bundle(name, after) && !is_set_by_user(name));
    let mut noticed: Vec<&str> =
        changed.filter(|name| programs.iter().any(|program| may_name(program, name))).collect();
    noticed.sort_unstable();
    noticed.dedup();
    (!noticed.is_empty()).then(|| {
        Finding::new(Rule::EnvLost, Level::Warn, "the program names variables that it does not get as before")
            .evidence(noticed.iter().map(|name| change(name, before, after)).collect::<Vec<_>>().join(", "))
            .fix("set them in the image itself, or with --env NAME=VALUE")
    })
}

/// What became of a variable, without its value: that may be a secret.
fn change(name: &str, before: &Start, after: &Start) -> String {
    match (before.variable(name), after.variable(name)) {
        (Some(_), None) => format!("{name} is gone"),
        (None, Some(_)) => format!("{name} is new"),
        _ => format!("{name} has another value"),
    }
}

/// A Go program looks into this very file without being told.
fn is_default_bundle(name: &str, after: &Start) -> bool {
    name == "SSL_CERT_FILE" && after.variable(name) == Some("/etc/ssl/certs/ca-certificates.crt")
}

fn may_name(program: &Program, name: &str) -> bool {
    let strings = &program.strings;
    let is_elf = program.script.is_none();
    is_elf && (!strings.complete || strings.words.binary_search_by(|word| word.as_str().cmp(name)).is_ok())
}
