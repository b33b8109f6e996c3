//! The move that refreshes an outdated image, judged as `plan` does, and the lines of a batch file that say it.
//!
//! The rule this file owns: what is judged is what is written. A result of underpin is made again from its own source with
//! the options that it records; where that source or its old base is not there any more, the result itself is moved, whose
//! old base is the base that it records.

use std::fmt::Write as _;

use serde_json::Value;

use super::AskedImage;
use crate::examine::base::OldBaseChoice;
use crate::plan::{BaseChoice, FORMAT_KEY, RebaseOptions, Record, RecordedName};
use crate::policy::Movable;
use crate::policy::exceptions::ExceptionList;
use crate::report::{Outcome, Report, ReportedFinding};
use crate::rules::Level;
use crate::run as flow;
use crate::settings::Job;
use crate::store::Session;
use crate::store::fetch::{BasedImage, Fetcher, may_follow};
use crate::verify::{Recorded, recorded};
use oci::error::{Error, Kind, Result};
use oci::{Location, Platform};

/// Whether an image could move, and how.
pub(super) struct Refreshed {
    pub movable: Movable,
    pub stops: Vec<String>,
    pub findings: Vec<ReportedFinding>,
    /// The lines of a batch file; `None` where it cannot move.
    pub entry: Option<String>,
}

impl Refreshed {
    /// It could not be found out.
    pub(super) fn unclear(why: &str) -> Self {
        let movable = Movable::Unknown(why.to_owned());
        Self { movable, stops: vec![why.to_owned()], findings: Vec::new(), entry: None }
    }
}

/// An outdated image and what is needed to move it.
pub(super) struct Refresh<'a> {
    pub session: &'a Session,
    pub fetcher: &'a Fetcher<'a>,
    pub asked: &'a AskedImage,
    pub image: &'a BasedImage,
    pub apply: &'a (dyn Fn(Job, Option<&ExceptionList>) -> Job + Sync),
    pub platforms: &'a [Platform],
    /// Where an old base that is recorded by digest may be.
    pub known_bases: &'a [Location],
}

impl Refresh<'_> {
    /// Judges the move to `newest`: the first way that can be gone decides.
    pub(super) fn judge(&self, newest: &Location) -> Refreshed {
        let jobs = match self.jobs(newest) {
            Ok(jobs) => jobs,
            Err(error) => return Refreshed::unclear(error.what()),
        };
        let mut failed: Vec<String> = Vec::new();
        for job in jobs {
            match self.attempt(&job) {
                Ok((report, written)) => return self.judged(&report, &written),
                Err(error) => failed.push(format!("from {}: {}", job.source, error.what())),
            }
        }
        Refreshed::unclear(&failed.join("; "))
    }

    fn judged(&self, report: &Report, written: &Job) -> Refreshed {
        if report.outcome != Outcome::Refused {
            let entry = self.entry(written);
            return Refreshed { movable: Movable::Yes, stops: Vec::new(), findings: Vec::new(), entry };
        }
        let stops = report.refusals();
        let mut findings: Vec<ReportedFinding> = Vec::new();
        for finding in report.platforms.iter().flat_map(|platform| &platform.findings) {
            if finding.level == Level::Refuse && !findings.contains(finding) {
                findings.push(finding.clone());
            }
        }
        Refreshed { movable: Movable::No(stops.clone()), stops, findings, entry: None }
    }

    /// The ways to make the image again, the best first.
    fn jobs(&self, newest: &Location) -> Result<Vec<Job>> {
        let base = BaseChoice::Image(newest.clone());
        let recorded = self.recorded()?;
        let mut jobs = Vec::new();
        if let Some(entry) = &self.asked.entry {
            let mut job = entry.job.clone();
            let digest = recorded.as_ref().map(|recorded| recorded.record.source.digest());
            if let Some(digest) = digest {
                job.source = job.source.pinned(digest).parse()?;
            }
            job.options.base = base.clone();
            jobs.push(job);
        }
        if let Some(recorded) = &recorded {
            // A record comes with the image, and must not lead into a private network.
            let source = recorded.record.source.reference().filter(|name| may_follow(&self.asked.location, name));
            let job = source.and_then(|source| move_of_source(recorded, Location::Registry(source), newest));
            jobs.extend(job.map(|mut job| {
                job.options.known_bases = self.known_bases.to_vec();
                job
            }));
        }
        if recorded.is_some() || self.asked.entry.is_none() {
            jobs.push(self.move_of_result(recorded.as_ref(), base)?);
        }
        Ok(jobs)
    }

    /// What the image records, where underpin made it.
    fn recorded(&self) -> Result<Option<Recorded>> {
        let top = self.image.top();
        let is_ours = top.object().get("annotations").and_then(|map| map.get(FORMAT_KEY)).is_some();
        is_ours.then(|| recorded(top, |of| self.image.document(self.fetcher, of))).transpose()
    }

    /// The image itself, off the base that it was found to be on; where no name tells, as a move without flags would be.
    fn move_of_result(&self, recorded: Option<&Recorded>, base: BaseChoice) -> Result<Job> {
        let old_bases = self.image.platforms.iter().map(|platform| platform.named.found.as_ref()?.reference.clone());
        let mut old_bases = old_bases.collect::<Option<Vec<String>>>().unwrap_or_default();
        old_bases.dedup();
        let mut options = recorded.map(|recorded| already_in_image(&recorded.record)).unwrap_or_default();
        options.base = base;
        options.platforms = self.platforms.to_vec();
        let mut locations = old_bases.iter().map(|text| text.parse()).collect::<Result<Vec<Location>>>()?;
        match &locations[..] {
            [one] => options.old_base = Some(OldBaseChoice::Image(one.clone())),
            _ => options.known_bases.append(&mut locations),
        }
        let source = self.asked.location.pinned(self.image.top().digest()).parse()?;
        Ok(Job::new(source, options))
    }

    /// The report of a move, and the move as a batch file can say it.
    fn attempt(&self, job: &Job) -> Result<(Report, Job)> {
        let report = self.report(job)?;
        let written = written(job, &report)?;
        if written.options.known_bases == job.options.known_bases {
            return Ok((report, written));
        }
        // The ladder decides by names then: it must come to the same answer.
        let again = self.report(&written)?;
        if old_bases(&again) == old_bases(&report) {
            return Ok((again, written));
        }
        Err(Error::new(Kind::Input, "its old bases cannot be written into a batch file"))
    }

    fn report(&self, job: &Job) -> Result<Report> {
        let list = self.asked.list.as_deref();
        flow::judge(self.session, self.fetcher, &(self.apply)(job.clone(), list))
    }

    /// The lines of a batch file; `None` for an image that was asked about by its digest alone.
    fn entry(&self, job: &Job) -> Option<String> {
        let target = self.target()?;
        let mut lines = String::new();
        let base = &job.options.base;
        let _ = writeln!(lines, "  - source: {}", quoted(&job.source.to_string()));
        let _ = writeln!(lines, "    target: {}\n    base: {}", quoted(&target), quoted(&base.to_string()));
        for (key, value) in job.options.given().into_iter().filter(|(key, _)| key != "base") {
            let _ = writeln!(lines, "    {key}: {value}");
        }
        if let Some(list) = self.asked.entry.as_ref().and_then(|entry| entry.exceptions.as_deref()) {
            let _ = writeln!(lines, "    exceptions: {}", quoted(list));
        }
        Some(lines)
    }

    /// The name that the image was asked about, with the tag written out.
    fn target(&self) -> Option<String> {
        let location = &self.asked.location;
        let has_tag = match location {
            Location::Registry(reference) => reference.effective_tag().is_some(),
            _ => location.digest().is_none() || location.tag().is_some(),
        };
        has_tag.then(|| location.without_digest())
    }
}

/// JSON is YAML.
fn quoted(text: &str) -> Value {
    Value::from(text)
}

/// The recorded move with another base. `None` where the record does not name what it needs.
fn move_of_source(recorded: &Recorded, source: Location, newest: &Location) -> Option<Job> {
    let Recorded { record, old_bases, .. } = recorded;
    if record.log_runner.is_some() {
        return None;
    }
    let options = RebaseOptions {
        base: BaseChoice::Image(newest.clone()),
        base_name: behind(record.base.name(), newest),
        source_name: behind(record.source.name(), &source),
        ..record.options.clone()
    };
    Some(Job { old_bases: old_bases.clone(), ..Job::new(source, options) })
}

/// The name of what is read from a disk: that of the registry behind it.
fn behind(name: RecordedName, place: &Location) -> Option<RecordedName> {
    let is_named = matches!(name, RecordedName::Registry(_));
    (is_named && place.repository().is_none()).then_some(name)
}

/// The recorded options that still decide something when the result itself is moved. The others have had their effect.
fn already_in_image(record: &Record) -> RebaseOptions {
    let options = record.options.clone();
    RebaseOptions {
        allow: options.allow,
        entrypoint: options.entrypoint,
        cmd: options.cmd,
        user: options.user,
        workdir: options.workdir,
        env: options.env,
        healthcheck: options.healthcheck,
        on_missing_platform: options.on_missing_platform,
        source_date_epoch: options.source_date_epoch,
        ..RebaseOptions::default()
    }
}

/// The old base of each platform as the report has it.
fn old_bases(report: &Report) -> Vec<(&str, Option<&str>, usize)> {
    let platforms = report.platforms.iter();
    let old = platforms.filter_map(|platform| Some((platform.platform.as_str(), platform.old_base.as_ref()?)));
    old.map(|(platform, old)| (platform, old.reference.as_deref(), old.layers)).collect()
}

/// The job as a batch file can say it: one old base for all platforms, or names that the ladder finds them by.
fn written(job: &Job, report: &Report) -> Result<Job> {
    let is_by_digest = matches!(job.options.old_base, Some(OldBaseChoice::Digest(_)));
    if job.old_bases.is_empty() && !is_by_digest {
        return Ok(job.clone());
    }
    let mut choices: Vec<OldBaseChoice> = Vec::new();
    for (_, reference, layers) in old_bases(report) {
        let choice = match (reference, layers) {
            // The local store has no name that a file could have.
            (Some(reference), _) => reference.strip_prefix("cache@").unwrap_or(reference).parse()?,
            (None, 0) => OldBaseChoice::Scratch,
            (None, layers) => OldBaseChoice::Layers(layers),
        };
        if !choices.contains(&choice) {
            choices.push(choice);
        }
    }
    let mut job = Job { old_bases: Vec::new(), ..job.clone() };
    job.options.old_base = None;
    match &choices[..] {
        [one] => job.options.old_base = Some(one.clone()),
        several => {
            let named = several.iter().map(named).collect::<Result<Vec<Location>>>()?;
            let is_new = |location: &Location| !job.options.known_bases.contains(location);
            let new: Vec<Location> = named.into_iter().filter(is_new).collect();
            job.options.known_bases.extend(new);
        }
    }
    Ok(job)
}

fn named(choice: &OldBaseChoice) -> Result<Location> {
    match choice {
        OldBaseChoice::Image(location) => Ok(location.clone()),
        _ => Err(Error::input("its platforms have old bases that a batch file cannot name")),
    }
}
