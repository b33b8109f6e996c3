//! What a real start showed: of one image, or of source and result side by side.

use std::fmt::Write as _;

use serde::Serialize;

use super::model::{Named, ReportedFinding};
use super::rows::{Reportable, Row, RowFinding, RowOutcome, Rows};
use super::text::finding_lines;
use super::to_json;
use crate::examine::Origin;
use crate::plan::StartSeconds;
use crate::rules::{Finding, Level};
use crate::sandbox::{Attempt, Observation, OpenedFiles, OutputTail, PlatformStart, StartEnd};
use oci::error::printable;

/// Lines of each stream that are kept.
const LINES: usize = 20;

/// Source and result of one platform.
#[derive(Debug, Serialize)]
pub struct StartedPair {
    /// How long each was watched.
    pub seconds: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<ReportedStart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<ReportedStart>,
}

/// One start.
#[derive(Debug, Serialize)]
pub struct ReportedStart {
    /// `running`, `exited`, `not-executed`, `too-much-output` or `not-started`.
    pub outcome: &'static str,
    /// The exit status, where it ended by itself.
    pub status: Option<i32>,
    /// Why it was not executed, or not started at all.
    pub reason: Option<String>,
    /// As a report for people has it.
    #[serde(skip)]
    pub line: String,
    pub argv: Vec<String>,
    /// TCP ports that it listened on.
    pub ports: Vec<u16>,
    pub health: Option<ReportedHealth>,
    /// The last lines of each stream.
    pub stdout: Vec<String>,
    pub stderr: Vec<String>,
    /// How many files of the image its programs opened; `None` where that could not be seen.
    pub opened: Option<usize>,
    /// Why opened files were not seen.
    pub not_watched: Option<String>,
    /// Files that were not unpacked, and why.
    pub left_out: Vec<String>,
    /// The emulator that executed the program.
    pub emulator: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct ReportedHealth {
    pub argv: Vec<String>,
    /// `None` where it had to be ended.
    pub status: Option<i32>,
    pub output: Vec<String>,
}

impl StartedPair {
    #[must_use]
    pub fn new(start: &PlatformStart, seconds: StartSeconds) -> Self {
        let of = |attempt: &Attempt| ReportedStart::new(attempt, seconds);
        Self { seconds: seconds.0, source: start.source.as_ref().map(of), result: Some(of(&start.image)) }
    }

    /// Each start in one line, with who it is.
    pub(super) fn lines(&self) -> Vec<String> {
        let named = [("source", &self.source), ("result", &self.result)];
        named.iter().filter_map(|(name, start)| Some(format!("{name} {}", start.as_ref()?.line))).collect()
    }

    /// What the last lines of each wrote, where they differ.
    pub(super) fn differing_lines(&self) -> Vec<String> {
        let (Some(source), Some(result)) = (&self.source, &self.result) else { return Vec::new() };
        let streams = [("stdout", &source.stdout, &result.stdout), ("stderr", &source.stderr, &result.stderr)];
        let mut lines = Vec::new();
        for (name, before, after) in streams {
            let only = |one: &[String], other: &[String]| {
                one.iter().filter(|line| !other.contains(line)).rev().take(3).cloned().collect::<Vec<_>>()
            };
            lines.extend(only(before, after).into_iter().rev().map(|line| format!("source {name}: {line}")));
            lines.extend(only(after, before).into_iter().rev().map(|line| format!("result {name}: {line}")));
        }
        lines
    }
}

impl ReportedStart {
    fn new(attempt: &Attempt, seconds: StartSeconds) -> Self {
        match attempt {
            Attempt::NotStarted(why) => Self::not_started(&why.reason),
            Attempt::Started(seen) => Self::started(seen, seconds),
        }
    }

    fn not_started(reason: &str) -> Self {
        Self {
            outcome: "not-started",
            status: None,
            reason: Some(reason.to_owned()),
            line: format!("was not started: {reason}"),
            argv: Vec::new(),
            ports: Vec::new(),
            health: None,
            stdout: Vec::new(),
            stderr: Vec::new(),
            opened: None,
            not_watched: None,
            left_out: Vec::new(),
            emulator: None,
        }
    }

    fn started(seen: &Observation, seconds: StartSeconds) -> Self {
        let (outcome, status, reason) = match &seen.end {
            StartEnd::Running => ("running", None, None),
            StartEnd::Exited(status) => ("exited", Some(*status), None),
            StartEnd::NotExecuted(reason) => ("not-executed", None, Some(reason.clone())),
            StartEnd::TooMuchOutput => ("too-much-output", None, None),
        };
        let (opened, not_watched) = match &seen.opened {
            OpenedFiles::Seen(files) => (Some(files.len()), None),
            OpenedFiles::NotWatched(reason) => (None, Some(reason.clone())),
        };
        let lines = |tail: &OutputTail| tail.lines(LINES);
        let health = seen.health.as_ref().map(|health| ReportedHealth {
            argv: health.argv.clone(),
            status: health.status,
            output: lines(&health.output),
        });
        Self {
            outcome,
            status,
            reason,
            line: line(seen, seconds),
            argv: seen.argv.clone(),
            ports: seen.ports.iter().copied().collect(),
            health,
            stdout: lines(&seen.stdout),
            stderr: lines(&seen.stderr),
            opened,
            not_watched,
            left_out: seen.left_out.clone(),
            emulator: seen.emulator.clone(),
        }
    }
}

/// `was still running after 5 s, listened on port 8080, is healthy (12 files opened)`
fn line(seen: &Observation, seconds: StartSeconds) -> String {
    let mut text = seen.end.said(seconds.0);
    if !seen.ports.is_empty() {
        let ports: Vec<String> = seen.ports.iter().map(ToString::to_string).collect();
        let _ = write!(text, ", listened on port {}", ports.join(", "));
    }
    match seen.health.as_ref().map(|health| health.status) {
        Some(Some(0)) => text.push_str(", is healthy"),
        Some(Some(status)) => text.extend([", health check ended with status ", &status.to_string()]),
        Some(None) => text.push_str(", health check did not end"),
        None => {}
    }
    match &seen.opened {
        OpenedFiles::Seen(files) if files.len() == 1 => text.push_str(" (1 file opened)"),
        OpenedFiles::Seen(files) => text.extend([" (", &files.len().to_string(), " files opened)"]),
        OpenedFiles::NotWatched(reason) => text.extend([" (opened files not seen: ", reason, ")"]),
    }
    if let Some(emulator) = &seen.emulator {
        let _ = write!(text, ", by {emulator}");
    }
    if !seen.left_out.is_empty() {
        let _ = write!(text, "; not unpacked: {}", named(&seen.left_out));
    }
    text
}

fn named(names: &[String]) -> String {
    const NAMED: usize = 5;
    let first = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// What `underpin start` found.
#[derive(Debug, Serialize)]
pub struct StartReport {
    pub schema: &'static str,
    /// `started` or `refused`.
    pub outcome: &'static str,
    pub image: Named,
    /// How long each was watched.
    pub seconds: u16,
    pub platforms: Vec<StartedPlatform>,
}

#[derive(Debug, Serialize)]
pub struct StartedPlatform {
    pub platform: String,
    pub started: ReportedStart,
    pub findings: Vec<ReportedFinding>,
}

impl StartReport {
    #[must_use]
    pub fn new(origin: &Origin, starts: &[(PlatformStart, Vec<Finding>)], seconds: StartSeconds) -> Self {
        let platforms: Vec<StartedPlatform> = starts
            .iter()
            .map(|(start, findings)| StartedPlatform {
                platform: start.platform.to_string(),
                started: ReportedStart::new(&start.image, seconds),
                findings: findings.iter().map(ReportedFinding::from).collect(),
            })
            .collect();
        let is_refused =
            |platform: &StartedPlatform| platform.findings.iter().any(|finding| finding.level == Level::Refuse);
        let is_one_started = platforms.iter().any(|platform| platform.started.outcome != "not-started");
        let is_good = is_one_started && !platforms.iter().any(is_refused);
        Self {
            schema: "underpin.start/v1",
            outcome: if is_good { "started" } else { "refused" },
            image: Named { reference: origin.location.without_digest(), digest: origin.top.digest().to_string() },
            seconds: seconds.0,
            platforms,
        }
    }
}

impl Reportable for StartReport {
    fn text(&self) -> String {
        let mut out = format!("image     {}@{}\n", printable(&self.image.reference), self.image.digest);
        for StartedPlatform { platform, started, findings } in &self.platforms {
            let _ = writeln!(out, "\n{platform}\n  start     {}", printable(&started.line));
            for (name, lines) in [("stdout", &started.stdout), ("stderr", &started.stderr)] {
                for line in lines {
                    let _ = writeln!(out, "  {name}    {}", printable(line));
                }
            }
            for finding in findings {
                finding_lines(&mut out, finding);
            }
        }
        let _ = match self.outcome {
            "started" => writeln!(out, "\nstarted   {}", printable(&self.image.reference)),
            _ => writeln!(out, "\nrefused: {} does not start", printable(&self.image.reference)),
        };
        out
    }

    fn json(&self) -> String {
        to_json(self)
    }

    fn rows(&self) -> Rows<'_> {
        let outcome = if self.outcome == "started" { RowOutcome::Started } else { RowOutcome::Refused };
        let findings = self
            .platforms
            .iter()
            .flat_map(|platform| platform.findings.iter().map(|finding| RowFinding::on(&platform.platform, finding)));
        let row = Row { findings: findings.collect(), ..Row::new(&self.image.reference, outcome) };
        Rows { command: "start", thing: "image", list: vec![row] }
    }
}
