//! `underpin outdated`: which images are based on an old build of their base, and the batch file that refreshes them.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use globset::Glob;

use super::Ended;
use super::args::{SayArgs, SessionArgs};
use super::batch::read_batch;
use super::console::{Console, Form};
use super::kube::inputs;
use super::policy_args::{BatchLists, Policy, PolicyArgs};
use super::report_file::ReportArgs;
use crate::batch::{AskedImage, BaseRule, OutdatedAnswer, OutdatedRun, outdated};
use crate::kube::container_images;
use crate::policy::exceptions::ExceptionList;
use crate::report::{OutdatedImage, OutdatedReport, Reportable as _, RowOutcome};
use crate::settings::Job;
use crate::store::Session;
use crate::store::disk::{OutputFile, note_location};
use oci::error::{Error, Result, printable};
use oci::{Location, Platform, TagPattern};

/// Find images that are based on an old build of their base
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_flag = true)]
pub struct Outdated {
    /// Images; with a pattern in place of the tag, such as registry.example/app:v*, all that match
    #[arg(value_name = "IMAGE", required_unless_present_any = ["batch", "kube"])]
    images: Vec<String>,
    /// Also the targets of this batch file, each held against the base that the file names
    #[arg(long, value_name = "FILE", help_heading = "Where")]
    batch: Option<PathBuf>,
    /// Also the images of these Kubernetes manifests: files, directories, patterns, or `-` for stdin
    #[arg(long, value_name = "FILE", num_args = 1.., help_heading = "Where")]
    kube: Vec<PathBuf>,
    /// Newest build of the base that images record as NAME (repeatable) [default for NAME: REF without its tag]
    #[arg(long, value_name = "[NAME=]REF", help_heading = "Where")]
    base: Vec<BaseRule>,
    /// Look only at this platform (repeatable) [default: all]
    #[arg(long, value_name = "OS/ARCH[/VARIANT]", help_heading = "Where")]
    platform: Vec<Platform>,
    /// Base to compare the layers of images with that do not name theirs; with a tag and a digest, an older build (repeatable)
    #[arg(long, value_name = "REF", help_heading = "Old base")]
    known_base: Vec<String>,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    pub(super) world: SessionArgs,
    /// Write a batch file that moves the outdated images to the newest builds of their bases
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    write: Option<PathBuf>,
    #[command(flatten)]
    reports: ReportArgs,
    #[command(flatten)]
    pub(super) say: SayArgs,
}

const EXAMPLES: &str = "Examples:
  # has the base of these images been built again since?
  underpin outdated registry.example/app:v1-static --base gcr.io/distroless/static

  # every release of an image, and a batch file that refreshes the outdated ones
  underpin outdated 'registry.example/app:v*-static' --base gcr.io/distroless/static \\
      --write refresh.yaml

  # the results of a batch, by the bases that it names
  underpin outdated --batch images.yaml --report html=outdated.html

  # what a cluster runs
  underpin outdated --kube deploy/ --base gcr.io/distroless/static

Exit codes: 0 all current; 1 an image is outdated; 2 it could not be told for an image, whatever the others are.";

/// A name that was asked about, and where it leads.
enum Question {
    Image(AskedImage),
    /// What could not even be asked.
    Unknown(String, Error),
}

impl Outdated {
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        let policy = self.policy.read()?;
        let known_bases = self.known_base.iter().map(|text| text.parse()).collect::<Result<Vec<Location>>>()?;
        let entries = self.entries(&policy)?;
        known_bases.iter().for_each(note_location);
        self.images.iter().filter_map(|text| text.parse().ok()).for_each(|image| note_location(&image));
        let manifests = inputs::find(&self.kube);
        let refresh = self.write.as_deref().map(OutputFile::open).transpose()?;
        let files = self.reports.open()?;
        let options = self.world.session_options()?;
        let session = Session::new(&options, console.notices(), console.progress())?;
        let (images, unasked) = self.questions(&session, entries, manifests, &policy);
        let apply = |job: Job, list: Option<&ExceptionList>| policy.apply_list(job, list);
        let run = OutdatedRun {
            images,
            bases: self.base.clone(),
            known_bases,
            platforms: self.platform.clone(),
            policy: &policy.bases,
            apply: &apply,
            jobs: options.jobs,
        };
        let answers = outdated(&session, &run)?;
        let written = refresh.map_or(Ok(()), |file| file.write(batch_file(&answers, console).as_bytes()));
        let rows = answers.into_iter().map(|answer| answer.row).chain(unasked).collect();
        let report = OutdatedReport::new(rows, session.traffic.tally());
        match console.form {
            Form::Json => console.data(&format!("{}\n", report.json())),
            Form::Text => console.data(&report.text()),
        }
        Ok(console.ended(report.grade().into(), files.write(&report).and(written)))
    }

    /// The targets of the batch file.
    fn entries(&self, policy: &Policy) -> Result<Vec<Question>> {
        let Some(path) = self.batch.as_deref() else { return Ok(Vec::new()) };
        let mut lists = BatchLists::beside(path);
        let mut questions = Vec::new();
        for entry in read_batch(path)?.images {
            let list = lists.list_for(&entry, policy)?;
            let entry = Arc::new(entry);
            for target in &entry.job.targets {
                let (location, list, entry) = (target.clone(), list.clone(), Some(Arc::clone(&entry)));
                note_location(&location);
                questions.push(Question::Image(AskedImage { location, entry, list }));
            }
        }
        Ok(questions)
    }

    /// Every image once, in the order of the command line; beside them the rows of what could not be asked.
    fn questions(
        &self,
        session: &Session,
        entries: Vec<Question>,
        in_manifests: Result<Vec<inputs::Input>>,
        policy: &Policy,
    ) -> (Vec<AskedImage>, Vec<OutdatedImage>) {
        let named = self.images.iter().flat_map(|text| named(session, text, policy));
        let in_manifests = in_manifests.map(|inputs| manifests(&inputs, policy));
        let in_manifests = in_manifests.unwrap_or_else(|error| vec![Question::Unknown("--kube".to_owned(), error)]);
        let (mut images, mut unasked, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        // The batch file knows most of its images, so its word counts.
        for question in entries.into_iter().chain(named).chain(in_manifests) {
            let name = match &question {
                Question::Image(image) => image.location.to_string(),
                Question::Unknown(name, _) => name.clone(),
            };
            match question {
                _ if !seen.insert(name) => {}
                Question::Image(image) => images.push(image),
                Question::Unknown(name, error) => unasked.push(OutdatedImage::unknown(&name, error)),
            }
        }
        (images, unasked)
    }
}

fn asked(location: Location, policy: &Policy) -> Question {
    Question::Image(AskedImage { location, entry: None, list: policy.list.as_ref().map(Arc::clone) })
}

/// One image, or all whose tags match.
fn named(session: &Session, text: &str, policy: &Policy) -> Vec<Question> {
    let found = match TagPattern::find(text) {
        None => text.parse().map(|location| vec![location]),
        Some(pattern) => pattern.and_then(|pattern| matching(session, &pattern)),
    };
    match found {
        Ok(locations) => locations.into_iter().map(|location| asked(location, policy)).collect(),
        Err(error) => vec![Question::Unknown(text.to_owned(), error)],
    }
}

fn matching(session: &Session, pattern: &TagPattern) -> Result<Vec<Location>> {
    let wrong = |error| Error::usage("the pattern is not valid").fact("pattern", &pattern.pattern).cause(error);
    let glob = Glob::new(&pattern.pattern).map_err(wrong)?.compile_matcher();
    let tags = session.fetcher().tags(&pattern.place).map_err(|error| error.fact("pattern", &pattern.pattern))?;
    let is_wanted =
        |tag: &&String| glob.is_match(tag) && (!is_of_digest(tag) || pattern.pattern.starts_with("sha256-"));
    let found = tags.iter().filter(is_wanted).map(|tag| pattern.image(tag)).collect::<Result<Vec<Location>>>()?;
    if found.is_empty() {
        return Err(Error::missing("no tag matches the pattern")
            .fact("pattern", &pattern.pattern)
            .fact("in", &pattern.place)
            .fact("tags", tags.len()));
    }
    Ok(found)
}

/// Signatures, attestations and lists of referrers are under tags of their subject's digest; they are no images.
fn is_of_digest(tag: &str) -> bool {
    let hex = tag.strip_prefix("sha256-").and_then(|rest| rest.get(..64));
    hex.is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The images of all manifests. One that cannot be read is told of, and the others are looked at.
fn manifests(files: &[inputs::Input], policy: &Policy) -> Vec<Question> {
    let mut questions = Vec::new();
    for file in files {
        match inputs::read(file).and_then(|text| container_images(&text)) {
            Err(error) => questions.push(Question::Unknown(file.name(), error.fact("path", file.name()))),
            Ok(images) => questions.extend(images.iter().map(|image| of_container(image, file, policy))),
        }
    }
    questions
}

/// A container's image is in a registry, whatever its name looks like.
fn of_container(image: &str, file: &inputs::Input, policy: &Policy) -> Question {
    match image.parse() {
        Ok(reference) => asked(Location::Registry(reference), policy),
        Err(error) => Question::Unknown(image.to_owned(), Error::fact(error, "path", file.name())),
    }
}

/// The moves that refresh the outdated images; of those that cannot be moved, why.
fn batch_file(answers: &[OutdatedAnswer], console: &Console) -> String {
    let mut text = "# Moves images to the newest builds of their bases. Written by `underpin outdated`.\n".to_owned();
    let entries: String = answers.iter().filter_map(|answer| answer.refresh.as_deref()).collect();
    text.push_str(if entries.is_empty() { "images: []\n" } else { "images:\n" });
    text.push_str(&entries);
    let is_left_out = |answer: &&OutdatedAnswer| answer.row.outcome == RowOutcome::Outdated && answer.refresh.is_none();
    let mut left_out = 0;
    for answer in answers.iter().filter(is_left_out) {
        let why = match answer.row.stops.first() {
            Some(why) => why.as_str(),
            None => "it was asked about by its digest, and has no tag to be published under",
        };
        left_out += 1;
        let _ = writeln!(text, "# left out: {}: {}", printable(&answer.row.image.reference), printable(why));
    }
    if left_out > 0 {
        console.say(&format!("warning: outdated and left out of the batch file, which says why: {left_out}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_digests_are_no_images() {
        let hex = "0123456789abcdef".repeat(4);
        for (tag, expected) in [
            (format!("sha256-{hex}"), true),
            (format!("sha256-{hex}.sig"), true),
            (format!("sha256-{hex}.att"), true),
            ("sha256-v1".to_owned(), false),
            ("v1".to_owned(), false),
            (format!("sha512-{hex}"), false),
        ] {
            assert_eq!(is_of_digest(&tag), expected, "{tag}");
        }
    }
}
