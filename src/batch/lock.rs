//! `underpin.lock`: what every name of the batch resolved to, and the result.
//!
//! An image whose recipe is the one in the lock is made from exactly these digests again; so it
//! gives the same result, and a target that has it already costs one request.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::file::BatchEntry;
use crate::plan::BaseChoice;
use crate::report::Report;
use crate::settings::Job;
use oci::error::{Error, Result};
use oci::{Digest, Location, Platform};

const VERSION: u32 = 1;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lock {
    images: BTreeMap<String, Locked>,
}

/// What a run found out about some of the images: a result, or that there is none any more.
#[derive(Debug, Clone, Default)]
pub struct Changes(BTreeMap<String, Option<Locked>>);

impl Changes {
    /// What the lines of a journal say, the last about an image counts. One that was cut off is not there.
    #[must_use]
    pub fn from_journal(lines: &str) -> Self {
        Self(lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// A line of a journal.
    #[must_use]
    pub fn journal_line(entry: &BatchEntry, locked: Option<&Locked>) -> String {
        crate::report::to_json(&(entry_key(entry), locked))
    }

    pub fn put(&mut self, entry: &BatchEntry, locked: Option<Locked>) {
        self.0.insert(entry_key(entry), locked);
    }
}

/// One image of the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Locked {
    pub source: String,
    pub targets: Vec<String>,
    pub recipe: Value,
    pub pins: LockedDigests,
    pub result: Digest,
    pub before: u64,
    pub after: u64,
}

/// The digests that the names resolved to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedDigests {
    pub source: Digest,
    pub base: Digest,
    /// The base that `auto` chose, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen_base: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_runner: Option<Digest>,
    /// The old base by platform, as `--old-base` takes it.
    pub old_base: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockDocument {
    version: u32,
    images: Vec<Locked>,
}

impl Lock {
    pub fn read(text: &str) -> Result<Self> {
        let wrong = |why: String| {
            Error::input("cannot read underpin.lock").cause(why).hint("remove it, or run with --update-lock")
        };
        let document: LockDocument = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if document.version != VERSION {
            return Err(wrong(format!("it has version {}; this release reads version {VERSION}", document.version)));
        }
        let images = document.images.into_iter().map(|image| (key(&image.source, &image.targets), image));
        Ok(Self { images: images.collect() })
    }

    /// Sorted, one image per line, so that a diff shows one line for each changed image.
    #[must_use]
    pub fn to_text(&self) -> String {
        let images: Vec<String> = self.images.values().map(crate::report::to_json).collect();
        format!("{{\"version\":{VERSION},\"images\":[\n{}\n]}}\n", images.join(",\n"))
    }

    /// The entry of the image, where it was made by the same recipe.
    #[must_use]
    pub fn entry_for(&self, entry: &BatchEntry) -> Option<&Locked> {
        self.images.get(&entry_key(entry)).filter(|locked| locked.recipe == entry.recipe)
    }

    /// Applies what a run found out.
    pub fn apply(&mut self, changes: &Changes) {
        for (key, change) in &changes.0 {
            match change {
                Some(locked) => self.images.insert(key.clone(), locked.clone()),
                None => self.images.remove(key),
            };
        }
    }

    /// Removes images that the file no longer has.
    pub fn retain(&mut self, entries: &[BatchEntry]) {
        let keys: std::collections::BTreeSet<String> = entries.iter().map(entry_key).collect();
        self.images.retain(|key, _| keys.contains(key));
    }
}

fn entry_key(entry: &BatchEntry) -> String {
    key(&entry.job.source.to_string(), &targets(entry))
}

fn targets(entry: &BatchEntry) -> Vec<String> {
    entry.job.targets.iter().map(ToString::to_string).collect()
}

fn key(source: &str, targets: &[String]) -> String {
    format!("{source} {}", targets.join(" "))
}

impl Locked {
    /// What a finished move leaves in the lock.
    pub fn record(entry: &BatchEntry, report: &Report, result: Digest) -> Result<Self> {
        let old_base = report.platforms.iter().filter_map(|platform| {
            let old = platform.old_base.as_ref()?;
            let text = match (&old.reference, old.layers) {
                (Some(reference), _) => reference.clone(),
                (None, 0) => "scratch".to_owned(),
                (None, layers) => format!("layers:{layers}"),
            };
            Some((platform.platform.clone(), text))
        });
        let sum =
            |of: fn(&crate::report::Size) -> u64| report.platforms.iter().map(|platform| of(&platform.size)).sum();
        Ok(Self {
            source: entry.job.source.to_string(),
            targets: targets(entry),
            recipe: entry.recipe.clone(),
            pins: LockedDigests {
                source: report.source.digest.parse()?,
                base: report.base.digest.parse()?,
                chosen_base: (entry.job.options.base == BaseChoice::Auto).then(|| report.base.reference.clone()),
                log_runner: report.log_runner.as_ref().map(|runner| runner.digest.parse()).transpose()?,
                old_base: old_base.collect(),
            },
            result,
            before: sum(|size| size.before),
            after: sum(|size| size.after),
        })
    }

    /// The base of the job by name: the one that was written, or the one that was chosen.
    pub fn base(&self, job: &Job) -> Result<Option<Location>> {
        match (&job.options.base, &self.pins.chosen_base) {
            (BaseChoice::Image(location), _) => Ok(Some(location.clone())),
            (BaseChoice::Auto, chosen) => chosen.as_deref().map(str::parse).transpose(),
        }
    }

    /// The job, with exactly the digests of the lock.
    pub fn pin(&self, job: &Job) -> Result<Job> {
        let mut job = job.clone();
        let pinned = |location: &Location, digest: Digest| location.pinned(digest).parse::<Location>();
        job.source = pinned(&job.source, self.pins.source)?;
        if let Some(base) = self.base(&job)? {
            job.options.base = pinned(&base, self.pins.base)?.into();
        }
        if let (Some(runner), Some(digest)) = (&job.options.log_runner, self.pins.log_runner) {
            job.options.log_runner = Some(pinned(runner, digest)?);
        }
        let each = self.pins.old_base.iter().map(|(platform, text)| Ok((platform.parse::<Platform>()?, text.parse()?)));
        job.old_bases = each.collect::<Result<_>>()?;
        job.options.old_base = None;
        Ok(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::BatchFile;

    const D: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn entries(text: &str) -> Vec<BatchEntry> {
        BatchFile::read(text, None, &|_| Ok(String::new())).unwrap().images
    }

    fn locked(entry: &BatchEntry) -> Locked {
        let digest: Digest = D.parse().unwrap();
        let old_base = [("linux/amd64".to_owned(), format!("debian:12@{D}"))].into();
        Locked {
            source: entry.job.source.to_string(),
            targets: targets(entry),
            recipe: entry.recipe.clone(),
            pins: LockedDigests { source: digest, base: digest, chosen_base: None, log_runner: None, old_base },
            result: digest,
            before: 2,
            after: 1,
        }
    }

    #[test]
    fn a_lock_reads_as_it_was_written_and_has_a_line_for_each_image() {
        let entries = entries("images: [{source: a, target: x.io/b:c}, {source: d, target: x.io/e:f}]");
        let mut changes = Changes::default();
        for entry in &entries {
            changes.put(entry, Some(locked(entry)));
        }
        let mut lock = Lock::default();
        lock.apply(&changes);
        let text = lock.to_text();
        assert_eq!((Lock::read(&text).unwrap(), text.lines().count()), (lock.clone(), 4));
        assert_eq!(Lock::read(&Lock::default().to_text()).unwrap(), Lock::default());

        changes.put(&entries[0], None);
        lock.apply(&changes);
        assert!(lock.entry_for(&entries[0]).is_none() && lock.entry_for(&entries[1]).is_some());
        lock.retain(&entries[..1]);
        assert_eq!(lock, Lock::default());
    }

    #[test]
    fn a_journal_is_read_as_far_as_it_was_written() {
        let entries = entries("images: [{source: a, target: x.io/b:c}, {source: d, target: x.io/e:f}]");
        let line = |entry: &BatchEntry| Changes::journal_line(entry, Some(&locked(entry)));
        let (one, two) = (line(&entries[0]), line(&entries[1]));
        let gone = Changes::journal_line(&entries[0], None);
        for (journal, there) in [
            (String::new(), [false, false]),
            (format!("{one}\n{two}\n"), [true, true]),
            (format!("{one}\n{}", &two[..two.len() / 2]), [true, false]),
            (format!("{one}\n{two}\n{gone}\n"), [false, true]),
            (format!("{gone}\n{one}\n"), [true, false]),
            (format!("?\n{one}\n"), [true, false]),
        ] {
            let mut lock = Lock::default();
            lock.apply(&Changes::from_journal(&journal));
            let found: Vec<bool> = entries.iter().map(|entry| lock.entry_for(entry).is_some()).collect();
            assert_eq!(found, there, "{journal}");
        }
    }

    #[test]
    fn another_recipe_is_not_in_the_lock() {
        let one = &entries("images: [{source: a, target: x.io/b:c}]")[0];
        let mut changes = Changes::default();
        changes.put(one, Some(locked(one)));
        let mut lock = Lock::default();
        lock.apply(&changes);
        for (text, expected) in [
            ("images: [{target: x.io/b:c, source: a}]", true),
            ("images: [{source: a, target: x.io/b:c, base: z}]", false),
            ("images: [{source: a, target: x.io/b:d}]", false),
        ] {
            assert_eq!(lock.entry_for(&entries(text)[0]).is_some(), expected, "{text}");
        }
    }

    #[test]
    fn a_pinned_job_has_the_same_names_and_leads_to_the_digests() {
        let entry = &entries("images: [{source: a.io/b, target: x.io/b:c}]")[0];
        let job = locked(entry).pin(&entry.job).unwrap();
        assert_eq!(job.source.digest().unwrap().to_string(), D);
        assert_eq!(job.source.without_digest(), entry.job.source.without_digest());
        let name = |job: &Job| job.options.base.location().unwrap().without_digest();
        assert_eq!((name(&job), job.old_bases.len()), (name(&entry.job), 1));
    }

    #[test]
    fn a_base_that_was_chosen_stays_chosen() {
        let entry = &entries("images: [{source: a.io/b, target: x.io/b:c, base: auto, base_candidates: [a.io/s]}]")[0];
        let mut locked = locked(entry);
        assert_eq!(locked.pin(&entry.job).unwrap().options.base, BaseChoice::Auto, "nothing was chosen yet");
        locked.pins.chosen_base = Some("a.io/s:latest".to_owned());
        let job = locked.pin(&entry.job).unwrap();
        assert_eq!(job.options.base.to_string(), format!("a.io/s:latest@{D}"));
    }

    #[test]
    fn a_lock_that_cannot_be_read_is_an_error() {
        for bad in [
            "",
            "{}",
            "{\"version\":2,\"images\":[]}",
            "{\"version\":1,\"images\":[{}]}",
            "{\"version\":1,\"images\":[],\"x\":1}",
        ] {
            assert!(Lock::read(bad).is_err(), "{bad}");
        }
    }
}
