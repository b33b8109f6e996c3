//! What the starts of source and result show: findings where the result does worse, or where nothing is shown.
//!
//! The rule this file owns: a result may do all that its source did, and more. What differs without being worse, such
//! as the text of a log, is no finding. A source that fails by itself proves nothing, and that is said.

use std::collections::{BTreeMap, BTreeSet};

use super::{Attempt, NotStarted, Observation, OpenedFile, OpenedFiles, StartEnd};
use crate::plan::{BringOffer, BringScene, Offering, StartOptions};
use crate::rules::{Finding, Level, Rule};
use layer::{EntryKind, RootPath};
use oci::Platform;
use start::rootfs::{FileNode, Root};

/// The starts on one platform.
#[derive(Debug)]
pub struct PlatformStart {
    pub platform: Platform,
    /// `None` where only one image was started.
    pub source: Option<Attempt>,
    /// The result, or the only image.
    pub image: Attempt,
}

/// What two starts are compared on.
pub struct Comparison<'a> {
    pub options: &'a StartOptions,
    pub source: &'a Root<'a>,
    pub result: &'a Root<'a>,
    /// What could be brought along.
    pub scene: &'a BringScene<'a>,
}

/// Lines of output that a finding shows.
const SHOWN: usize = 4;
/// Findings about opened files; further files are counted.
const MOST: usize = 20;
/// Names of one file that a finding offers; of more, some are shown.
const NAMES: usize = 4;
/// From here on the kernel chooses ports itself.
const FIRST_EPHEMERAL: u16 = 32_768;

/// How far a start came: not at all, to an error, or to where it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    NotExecuted,
    Failed,
    Good,
}

impl StartEnd {
    const fn progress(&self) -> Progress {
        match self {
            Self::NotExecuted(_) => Progress::NotExecuted,
            Self::Exited(0) | Self::Running => Progress::Good,
            Self::Exited(_) | Self::TooMuchOutput => Progress::Failed,
        }
    }

    /// Whether it does what a start should.
    #[must_use]
    pub const fn is_good(&self) -> bool {
        matches!(self.progress(), Progress::Good)
    }

    /// As the end of a sentence about the image.
    #[must_use]
    pub fn said(&self, seconds: u16) -> String {
        match self {
            Self::NotExecuted(reason) => format!("was not executed: {reason}"),
            Self::Exited(status @ 129..=192) => {
                format!("ended with status {status} (signal {})", status.saturating_sub(128))
            }
            Self::Exited(status) => format!("ended with status {status}"),
            Self::Running => format!("was still running after {seconds} s"),
            Self::TooMuchOutput => "was ended because it wrote too much".to_owned(),
        }
    }
}

/// The findings of one platform.
#[must_use]
pub fn compare(source: &Attempt, result: &Attempt, on: &Comparison<'_>) -> Vec<Finding> {
    match (source, result) {
        (Attempt::Started(source), Attempt::Started(result)) => compare_starts(source, result, on),
        (Attempt::NotStarted(why), _) | (_, Attempt::NotStarted(why)) => vec![not_started(why, on.options)],
    }
}

/// A platform that nothing is known of.
#[must_use]
pub(super) fn not_started(why: &NotStarted, options: &StartOptions) -> Finding {
    let level = if options.require_all_platforms { Level::Refuse } else { Level::Warn };
    Finding::new(Rule::StartUnproven, level, format!("it was not started: {}", why.reason)).fix(why.fix)
}

/// What is to be said of one image that was started by itself.
#[must_use]
pub fn judge_start(attempt: &Attempt, options: &StartOptions) -> Vec<Finding> {
    let started = match attempt {
        Attempt::NotStarted(why) => return vec![not_started(why, options)],
        Attempt::Started(started) => started,
    };
    let mut findings = Vec::new();
    if !started.end.is_good() {
        let message = format!("it {}", started.end.said(options.seconds.0));
        let fix = "if the program needs something to start, give it with --start-arg, --start-env or --start-mount";
        findings.push(Finding::new(Rule::StartFailed, Level::Refuse, message).evidence(last_lines(started)).fix(fix));
    }
    if let Some(health) = started.health.as_ref().filter(|health| health.status != Some(0)) {
        let status =
            health.status.map_or_else(|| "did not end".to_owned(), |status| format!("ended with status {status}"));
        findings.push(
            Finding::new(Rule::StartFailed, Level::Refuse, format!("its health check {status}"))
                .evidence(health.argv.join(" "))
                .fix("a longer --seconds gives the program more time"),
        );
    }
    findings
}

fn compare_starts(source: &Observation, result: &Observation, on: &Comparison<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    findings.extend(compare_ends(source, result, on.options.seconds.0));
    if source.end.is_good() && result.end == source.end {
        findings.extend(ports_closed(source, result));
        findings.extend(health_worse(source, result));
    }
    findings.extend(opened_but_missing(source, result, on));
    findings
}

fn compare_ends(source: &Observation, result: &Observation, seconds: u16) -> Option<Finding> {
    let (before, after) = (source.end.progress(), result.end.progress());
    let said = |of: &Observation| of.end.said(seconds);
    if after < before {
        let message = format!("the result {}; the source {}", said(result), said(source));
        return Some(
            Finding::new(Rule::StartFailed, Level::Refuse, message)
                .evidence(last_lines(result))
                .fix(Rule::StartFailed.fix()),
        );
    }
    if result.end != source.end
        && !matches!((&source.end, &result.end), (StartEnd::NotExecuted(_), StartEnd::NotExecuted(_)))
    {
        let level = if after > before { Level::Warn } else { Level::Refuse };
        let message = format!("the result {}; the source {}", said(result), said(source));
        return Some(
            Finding::new(Rule::StartDiffers, level, message).evidence(last_lines(result)).fix(Rule::StartDiffers.fix()),
        );
    }
    (before < Progress::Good).then(|| {
        let message = format!("the source {} here, and so did the result, which proves nothing", said(source));
        let fix = "give it what it needs to run with --start-arg, --start-env or --start-mount";
        Finding::new(Rule::StartUnproven, Level::Warn, message).evidence(last_lines(source)).fix(fix)
    })
}

/// The end of what it wrote, errors first.
fn last_lines(of: &Observation) -> String {
    let errors = of.stderr.lines(SHOWN);
    let lines = if errors.is_empty() { of.stdout.lines(SHOWN) } else { errors };
    lines.join(" / ")
}

fn ports_closed(source: &Observation, result: &Observation) -> Option<Finding> {
    let fixed =
        |ports: &BTreeSet<u16>| ports.iter().copied().filter(|port| *port < FIRST_EPHEMERAL).collect::<BTreeSet<u16>>();
    let closed: Vec<String> = fixed(&source.ports).difference(&fixed(&result.ports)).map(ToString::to_string).collect();
    (!closed.is_empty()).then(|| {
        let message = format!("the source listens on port {}, the result does not", closed.join(", "));
        Finding::new(Rule::StartDiffers, Level::Refuse, message)
            .evidence(last_lines(result))
            .fix(Rule::StartDiffers.fix())
    })
}

fn health_worse(source: &Observation, result: &Observation) -> Option<Finding> {
    let (before, after) = (source.health.as_ref()?, result.health.as_ref()?);
    (before.status == Some(0) && after.status != Some(0)).then(|| {
        let status =
            after.status.map_or_else(|| "does not end".to_owned(), |status| format!("ends with status {status}"));
        let message = format!("the health check succeeds in the source; in the result it {status}");
        let said = after.output.lines(SHOWN).join(" / ");
        Finding::new(Rule::StartDiffers, Level::Refuse, message)
            .evidence(if said.is_empty() { after.argv.join(" ") } else { said })
            .fix(Rule::StartDiffers.fix())
    })
}

/// What every runtime puts there, and what a loader does without.
fn is_expendable(path: &RootPath) -> bool {
    let text = path.to_string();
    matches!(
        text.as_str(),
        "/etc/hosts" | "/etc/hostname" | "/etc/resolv.conf" | "/etc/ld.so.cache" | "/etc/ld.so.preload"
    ) || text.starts_with("/etc/ld-musl-")
}

/// What a program that went along opened in the source, and cannot in the result. What stayed behind, such as a
/// shell, opens nothing in the result.
fn opened_but_missing(source: &Observation, result: &Observation, on: &Comparison<'_>) -> Vec<Finding> {
    let (OpenedFiles::Seen(before), OpenedFiles::Seen(after)) = (&source.opened, &result.opened) else {
        return Vec::new();
    };
    let names: BTreeSet<String> = after.iter().map(|opened| file_key(&opened.path)).collect();
    let is_file =
        |path: &RootPath| on.source.get(path).is_some_and(|node| matches!(node.kind(), EntryKind::File { .. }));
    let is_lost = |opened: &&OpenedFile| {
        is_file(&opened.path)
            && !is_expendable(&opened.path)
            && on.result.resolve(&opened.by).is_ok()
            && on.result.resolve(&opened.path).is_err()
            && !names.contains(&file_key(&opened.path))
    };
    let mut lost: Vec<&OpenedFile> = before.iter().filter(is_lost).collect();
    lost.dedup_by_key(|opened| &opened.path);
    let mut links = lost_links(&lost, on);
    let mut findings: Vec<Finding> = Vec::new();
    for opened in lost.iter().take(MOST) {
        findings.push(missing(opened, &links.remove(&opened.path).unwrap_or_default(), on));
    }
    if let Some(more) = lost.len().checked_sub(MOST).filter(|more| *more > 0) {
        let message = format!("the source opens {more} more files that the result does not have");
        let evidence = lost.iter().skip(MOST).take(MOST).map(|opened| opened.path.to_string()).collect::<Vec<_>>();
        let fix = "bring the files above and run again: then these are named; if the program does without all of them, \
            pass --allow opened-but-missing";
        findings
            .push(Finding::new(Rule::OpenedButMissing, Level::Refuse, message).evidence(evidence.join(", ")).fix(fix));
    }
    findings
}

/// Links of the source that lead to what was opened, and that the result does not have: the kernel tells the file, and
/// not by which name it was opened.
fn lost_links(lost: &[&OpenedFile], on: &Comparison<'_>) -> BTreeMap<RootPath, Vec<RootPath>> {
    let wanted: BTreeSet<&RootPath> = lost.iter().map(|opened| &opened.path).collect();
    let mut links: BTreeMap<RootPath, Vec<RootPath>> = BTreeMap::new();
    let is_link = |node: &FileNode<'_>| matches!(node.kind(), EntryKind::Symlink(_));
    let all = on.source.entries().filter(|(_, node)| !wanted.is_empty() && is_link(node));
    for (link, _) in all.filter(|(link, _)| on.result.get(link).is_none()) {
        let leads_to = on.source.resolve(&link).map(|found| found.path);
        if let Some(file) = leads_to.ok().filter(|file| wanted.contains(file)) {
            links.entry(file).or_default().push(link);
        }
    }
    links
}

fn missing(opened: &OpenedFile, links: &[RootPath], on: &Comparison<'_>) -> Finding {
    let OpenedFile { path, by } = opened;
    let message = format!("{by} opens {path} in the source, and the result does not have it");
    let owner = on.scene.owner_of(path).map(|package| format!("it belongs to the package {package}"));
    Finding::new(Rule::OpenedButMissing, Level::Refuse, message)
        .about(path.to_string())
        .evidence(owner.unwrap_or_else(|| "it belongs to no package".to_owned()))
        .fix(format!(
            "pass {}; if the program does without it, pass --allow opened-but-missing={path}",
            way(path, links, on)
        ))
}

/// The flags after which the result has the file under all names that it may have been opened by.
fn way(path: &RootPath, links: &[RootPath], on: &Comparison<'_>) -> String {
    if links.len() > NAMES {
        let some: Vec<String> = links.iter().take(NAMES).map(ToString::to_string).collect();
        return format!(
            "--bring with the name that it is opened by: it has {} in the source, such as {}",
            links.len() + 1,
            some.join(", ")
        );
    }
    let names = if links.is_empty() { std::slice::from_ref(path) } else { links };
    let mut offers: Vec<BringOffer> = names.iter().filter_map(|name| on.scene.offer(name, Offering::Package)).collect();
    offers.dedup_by(|one, other| one.name == other.name);
    match offers.as_slice() {
        [] => format!("--keep {path}"),
        [only] => only.to_string(),
        several => {
            let flags: Vec<String> = several.iter().map(|offer| format!("--bring {}", offer.name)).collect();
            format!("{}, its names in the source", flags.join(" "))
        }
    }
}

/// The name that a file has wherever it is; for a library without its version, which another release changes.
fn file_key(path: &RootPath) -> String {
    let name = String::from_utf8_lossy(path.name().unwrap_or_default()).into_owned();
    match name.split_once(".so") {
        Some((library, rest)) if rest.is_empty() || rest.starts_with('.') => {
            let plain = library.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
            plain.strip_suffix('-').unwrap_or(library).to_owned() + ".so"
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::OutputTail;

    fn ended(end: StartEnd) -> Observation {
        Observation {
            argv: vec!["/app".to_owned()],
            end,
            stdout: OutputTail::default(),
            stderr: OutputTail { bytes: b"why\n".to_vec(), is_cut: false },
            ports: BTreeSet::new(),
            health: None,
            opened: OpenedFiles::NotWatched(String::new()),
            left_out: Vec::new(),
            emulator: None,
        }
    }

    #[test]
    fn a_result_that_does_worse_is_refused_and_one_that_does_as_well_is_not() {
        use StartEnd::{Exited, NotExecuted, Running};
        let lost = || NotExecuted("exec /app: no such file or directory".to_owned());
        for (source, result, expected) in [
            (Running, Running, None),
            (Exited(0), Exited(0), None),
            (Running, Exited(1), Some((Rule::StartFailed, Level::Refuse))),
            (Running, lost(), Some((Rule::StartFailed, Level::Refuse))),
            (Exited(0), Exited(127), Some((Rule::StartFailed, Level::Refuse))),
            (Exited(1), lost(), Some((Rule::StartFailed, Level::Refuse))),
            (Running, Exited(0), Some((Rule::StartDiffers, Level::Refuse))),
            (Exited(0), Running, Some((Rule::StartDiffers, Level::Refuse))),
            (Exited(1), Exited(2), Some((Rule::StartDiffers, Level::Refuse))),
            (Exited(1), Exited(0), Some((Rule::StartDiffers, Level::Warn))),
            (lost(), Running, Some((Rule::StartDiffers, Level::Warn))),
            (Exited(1), Exited(1), Some((Rule::StartUnproven, Level::Warn))),
            (lost(), lost(), Some((Rule::StartUnproven, Level::Warn))),
        ] {
            let found = compare_ends(&ended(source.clone()), &ended(result.clone()), 5);
            assert_eq!(found.map(|finding| (finding.rule, finding.level)), expected, "{source:?} {result:?}");
        }
    }

    #[test]
    fn ports_that_the_kernel_chose_are_not_compared() {
        let with = |ports: &[u16]| Observation { ports: ports.iter().copied().collect(), ..ended(StartEnd::Running) };
        assert!(ports_closed(&with(&[8080, 40_000]), &with(&[8080, 50_000])).is_none());
        assert!(ports_closed(&with(&[8080]), &with(&[8080, 9090])).is_none());
        let closed = ports_closed(&with(&[8080, 9090]), &with(&[9090])).unwrap();
        assert!(closed.message.contains("8080") && !closed.message.contains("9090"), "{}", closed.message);
    }

    #[test]
    fn a_library_keeps_its_name_in_another_version() {
        for (one, other, same) in [
            ("usr/lib/libc-2.31.so", "lib/libc.so.6", true),
            ("lib/libz.so.1.2", "usr/lib/libz.so.1", true),
            ("lib/libssl3.so", "lib/libssl.so", false),
            ("lib/liba.so.1", "lib/libb.so.1", false),
            ("etc/a.conf", "usr/etc/a.conf", true),
            ("etc/a.conf", "etc/b.conf", false),
        ] {
            let key = |text: &str| file_key(&RootPath::new(text).unwrap());
            assert_eq!(key(one) == key(other), same, "{one} {other}");
        }
    }
}
