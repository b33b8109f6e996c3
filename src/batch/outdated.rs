//! Which images are based on an old build of their base: what the base's name leads to now, by what the two differ, and
//! whether the image could move there.
//!
//! The rules this file owns: a base is the image's only where the layers agree; what cannot be told is said to be unknown,
//! and never counts as current; only an image that is outdated is judged, since that needs its layers.

mod names;
mod refresh;

use std::sync::Arc;

pub use names::BaseRule;

use super::file::BatchEntry;
use crate::examine::BaseChange;
use crate::plan::{RebaseOptions, RecordedName};
use crate::policy::BasePolicy;
use crate::policy::exceptions::ExceptionList;
use crate::report::{Named, OutdatedImage, OutdatedPlatform, ReportedChange, ReportedFinding, RowOutcome};
use crate::rules::{Finding, Level, Rule};
use crate::run as flow;
use crate::settings::Job;
use crate::store::fetch::{BasedImage, BasedPlatform, Fetcher, NamedBy};
use crate::store::{OnceMap, Session, parallel};
use layer::FileDigests;
use names::{BaseIdentity, BaseTag, NewestQuestion};
use oci::error::{Error, Kind, Result};
use oci::{BASE_DIGEST, BASE_NAME, Digest, Document, Image, Location, Platform};
use refresh::{Refresh, Refreshed};

/// What to do where the name of a base is known, or may be, and not the build.
const BUILD: &str = "name the build that it is on: --known-base NAME:TAG@DIGEST";

/// The images, and what they are held against.
pub struct OutdatedRun<'a> {
    pub images: Vec<AskedImage>,
    /// `--base`.
    pub bases: Vec<BaseRule>,
    /// Bases that the layers of an image without a name are compared with.
    pub known_bases: Vec<Location>,
    pub platforms: Vec<Platform>,
    pub policy: &'a BasePolicy,
    /// Puts the policy and the exception list to a move.
    pub apply: &'a (dyn Fn(Job, Option<&ExceptionList>) -> Job + Sync),
    pub jobs: usize,
}

/// One image, with its entry where it is the target of a batch file.
#[derive(Debug, Clone)]
pub struct AskedImage {
    pub location: Location,
    pub entry: Option<Arc<BatchEntry>>,
    pub list: Option<Arc<ExceptionList>>,
}

/// The answer, and the lines of a batch file that would refresh the image.
#[derive(Debug)]
pub struct OutdatedAnswer {
    pub row: OutdatedImage,
    pub refresh: Option<String>,
}

/// Pairs of bases that were compared: each is compared once a run.
type ComparedBases = OnceMap<(Digest, Digest), Arc<ReportedChange>>;

/// Answers for all images, in their order. One that cannot be read is a row, too.
pub fn outdated(session: &Session, run: &OutdatedRun<'_>) -> Result<Vec<OutdatedAnswer>> {
    let changes = ComparedBases::default();
    parallel::map(&run.images, run.jobs, |asked| {
        let inquiry = Inquiry { session, fetcher: session.fetcher(), run, asked, changes: &changes };
        Ok(inquiry.answer().unwrap_or_else(|error| OutdatedAnswer {
            row: OutdatedImage::unknown(&asked.location.to_string(), error),
            refresh: None,
        }))
    })
}

/// The question about one image.
struct Inquiry<'a> {
    session: &'a Session,
    fetcher: Fetcher<'a>,
    run: &'a OutdatedRun<'a>,
    asked: &'a AskedImage,
    changes: &'a ComparedBases,
}

/// A newest build, by the reference that led to it.
struct Newest {
    reference: Location,
    image: Arc<Image>,
}

/// What was found for one platform.
enum Verdict {
    Current(Newest),
    Outdated(Newest, Option<Arc<ReportedChange>>),
    Unknown(Error),
    /// The newest build is not signed as the policy demands, so it is none.
    Unsigned(Vec<Finding>, Location),
}

impl Inquiry<'_> {
    fn answer(&self) -> Result<OutdatedAnswer> {
        let location = &self.asked.location;
        let image = self.fetcher.based(location, &self.run.platforms, |top| self.known(top))?;
        let mut platforms = Vec::new();
        for platform in &image.platforms {
            let base = BaseIdentity::of(platform);
            let verdict = self.verdict((&image, platform), &base)?;
            platforms.push((platform, base, verdict));
        }
        let refreshed = self.refreshed(&image, &platforms);
        let reference = location.without_digest();
        let named = Named { reference: reference.clone(), digest: image.top().digest().to_string() };
        let rows: Vec<OutdatedPlatform> =
            platforms.iter().map(|(platform, base, verdict)| row(platform, base, verdict)).collect();
        let outcome = rows.iter().map(|row| row.outcome).max().unwrap_or(RowOutcome::Unknown);
        let cause = platforms.iter().find_map(|(platform, _, verdict)| verdict.cause(platform));
        let findings = findings(&rows, platforms.iter().map(|(.., verdict)| verdict), refreshed.as_ref());
        let (movable, stops, refresh) = match refreshed {
            Some(Refreshed { movable, stops, entry, .. }) => (Some(movable), stops, entry),
            None => (None, Vec::new(), None),
        };
        let error = cause.as_ref().map(|cause| cause.what().to_owned());
        let row = OutdatedImage { image: named, outcome, platforms: rows, movable, stops, findings, error, cause };
        Ok(OutdatedAnswer { row, refresh })
    }

    /// The bases that the user names for this image.
    fn known(&self, top: &Document) -> Vec<Location> {
        let OutdatedRun { bases, known_bases, .. } = self.run;
        let mut known = known_bases.clone();
        if let Some(entry) = &self.asked.entry {
            known.extend(entry.job.options.base.location().cloned());
            known.extend(entry.job.options.known_bases.iter().cloned());
        }
        let annotation = |key: &str| top.object().get("annotations")?.get(key)?.as_str();
        let named = annotation(BASE_NAME).is_some();
        // An older build of a base without a name is looked for beside its newest one.
        let digest = annotation(BASE_DIGEST).and_then(|digest| digest.parse::<Digest>().ok());
        let beside = bases.iter().filter(|rule| !named || rule.is_elsewhere());
        let of_entry = known.iter().filter(|_| !named);
        let older = digest.map(|digest| {
            let places = beside.map(|rule| &rule.reference).chain(of_entry);
            places.map(|place| place.with_digest(digest)).collect::<Vec<_>>()
        });
        known.extend(older.unwrap_or_default());
        known.extend(bases.iter().filter(|_| !named).map(|rule| rule.reference.clone()));
        known
    }

    fn verdict(&self, of: (&BasedImage, &BasedPlatform), base: &BaseIdentity) -> Result<Verdict> {
        let question = NewestQuestion::of(base, self.asked.entry.as_deref(), &self.run.bases, self.run.policy);
        let Some(question) = question else { return Ok(Verdict::Unknown(self.nameless(of.1, base))) };
        let (mut found, mut lost) = (Vec::new(), Vec::new());
        for reference in &question.references {
            match self.fetcher.leads_to(of, reference, question.by) {
                Ok(image) => found.push(Newest { reference: reference.clone(), image }),
                Err(why) => lost.push(format!("{reference}, which {why}")),
            }
        }
        for newest in &found {
            let findings = self.unsigned(&newest.reference, base)?;
            if !findings.is_empty() {
                return Ok(Verdict::Unsigned(findings, newest.reference.clone()));
            }
        }
        if let Some(at) = found.iter().position(|newest| is_based_on(of.1, &newest.image)) {
            return Ok(Verdict::Current(found.swap_remove(at)));
        }
        if !lost.is_empty() {
            return Ok(Verdict::Unknown(unreachable(&lost, question.tag, base)));
        }
        Ok(self.not_current(of, base, (&question, found)))
    }

    /// No name to ask.
    fn nameless(&self, platform: &BasedPlatform, base: &BaseIdentity) -> Error {
        let error = match base.digest {
            Some(digest) => Error::input("it records its base without a name").fact("base", digest),
            None if self.run.known_bases.is_empty() => Error::input("it does not name its base"),
            None => Error::input("it does not name its base, and is on none of those that --known-base names"),
        };
        let error = platform.named.warnings.iter().fold(error, Error::cause);
        error.hint(if self.run.known_bases.is_empty() {
            "name the base that it may be on: --base REF, or --known-base REF"
        } else {
            BUILD
        })
    }

    /// The image is on none of the newest builds. Whether that makes it outdated depends on what it is on.
    fn not_current(
        &self,
        of: (&BasedImage, &BasedPlatform),
        base: &BaseIdentity,
        (question, mut found): (&NewestQuestion, Vec<Newest>),
    ) -> Verdict {
        let Some(newest) = found.pop() else { return Verdict::Unknown(self.nameless(of.1, base)) };
        if !found.is_empty() {
            let names: Vec<String> = question.references.iter().map(ToString::to_string).collect();
            return Verdict::Unknown(
                Error::input("several references of its base were given, and it is on none of them")
                    .fact("references", names.join(", "))
                    .hint("ask about it alone, with the one --base that it was made with"),
            );
        }
        if question.tag == BaseTag::Dropped {
            return Verdict::Unknown(untagged(base, &newest.reference));
        }
        if of.1.named.found.as_ref().is_some_and(|old| old.image.is_some()) {
            let change = self.compared(of, &newest);
            return Verdict::Outdated(newest, change);
        }
        self.without_old_base(of, base, newest)
    }

    /// The old base is not there any more, or the image says something that is not so.
    fn without_old_base(&self, of: (&BasedImage, &BasedPlatform), base: &BaseIdentity, newest: Newest) -> Verdict {
        let Some((name, digest)) = base.name.as_ref().zip(base.digest) else {
            return Verdict::Unknown(undated(of.1, &newest.reference));
        };
        match self.fetcher.leads_to(of, &name.with_digest(digest), NamedBy::Image) {
            Ok(_) => Verdict::Unknown(
                Error::input("its layers are not those of the base that it names")
                    .fact("base", name.pinned(digest))
                    .hint("`underpin inspect IMAGE` shows its layers; name the base with --known-base"),
            ),
            Err(why) => {
                let why = format!("not compared: its base is {}, which {why}", name.with_digest(digest));
                let change = ReportedChange::unread((digest, newest.image.digest()), why);
                Verdict::Outdated(newest, Some(Arc::new(change)))
            }
        }
    }

    /// By what the old and the newest build differ. The old one's layers are the first of the image's own.
    fn compared(&self, of: (&BasedImage, &BasedPlatform), newest: &Newest) -> Option<Arc<ReportedChange>> {
        let old = of.1.named.found.as_ref()?;
        let pair = (old.image.as_ref()?.digest(), newest.image.digest());
        let change = self.changes.get(pair, || {
            let read = |digests: FileDigests| -> Result<[_; 2]> {
                let from = self.fetcher.first_layers(of, old.layers, digests)?;
                Ok([from, self.fetcher.base_layers(&newest.reference, &newest.image, digests)?])
            };
            let change = read(FileDigests::LeftOut)
                .and_then(|[from, to]| BaseChange::between((&from, &to), || read(FileDigests::Wanted)));
            Ok(Arc::new(match change {
                Ok(change) => ReportedChange::new(pair, &change),
                Err(error) => ReportedChange::unread(pair, format!("not compared: {}", error.what())),
            }))
        });
        change.ok()
    }

    /// What is held against a newest build that has to be signed.
    fn unsigned(&self, reference: &Location, base: &BaseIdentity) -> Result<Vec<Finding>> {
        let job = Job::new(self.asked.location.clone(), RebaseOptions::default());
        let job = (self.run.apply)(job, None);
        let name = base.name.as_ref().and_then(Location::repository).cloned().map(RecordedName::Registry);
        flow::unsigned_base(&self.fetcher, &job, ("newest base", reference), name.as_ref())
    }

    /// Whether the image could move, where it is outdated.
    fn refreshed(
        &self,
        image: &BasedImage,
        platforms: &[(&BasedPlatform, BaseIdentity, Verdict)],
    ) -> Option<Refreshed> {
        if platforms.iter().any(|(.., verdict)| matches!(verdict, Verdict::Unknown(_) | Verdict::Unsigned(..))) {
            return None;
        }
        let newest = platforms.iter().filter_map(|(.., verdict)| match verdict {
            Verdict::Outdated(newest, _) => Some(&newest.reference),
            _ => None,
        });
        let mut newest: Vec<&Location> = newest.collect();
        newest.dedup();
        let refresh = Refresh {
            session: self.session,
            fetcher: &self.fetcher,
            asked: self.asked,
            image,
            apply: self.run.apply,
            platforms: &self.run.platforms,
            known_bases: &self.run.known_bases,
        };
        match newest[..] {
            [] => None,
            [newest] => Some(refresh.judge(newest)),
            _ => Some(Refreshed::unclear("its platforms are based on different images")),
        }
    }
}

impl Verdict {
    const fn outcome(&self) -> RowOutcome {
        match self {
            Self::Current(_) => RowOutcome::Current,
            Self::Outdated(..) => RowOutcome::Outdated,
            Self::Unknown(_) | Self::Unsigned(..) => RowOutcome::Unknown,
        }
    }

    /// Why it could not be told.
    fn cause(&self, platform: &BasedPlatform) -> Option<Error> {
        let error = match self {
            Self::Current(_) | Self::Outdated(..) => return None,
            Self::Unknown(error) => error.clone(),
            Self::Unsigned(_, reference) => {
                Error::input("what its base's name leads to now is not signed as the policy demands")
                    .fact("base", reference)
            }
        };
        Some(error.fact("platform", platform.platform()))
    }
}

/// Whether the platform is on exactly this build. The same layers are enough where it is not known which it is on.
fn is_based_on(platform: &BasedPlatform, newest: &Image) -> bool {
    match platform.named.found.as_ref().and_then(|found| found.image.as_ref()) {
        Some(old) => old.digest() == newest.digest(),
        None => newest.is_under(platform.image()) && !newest.layers.is_empty(),
    }
}

fn row(platform: &BasedPlatform, base: &BaseIdentity, verdict: &Verdict) -> OutdatedPlatform {
    let old = platform.named.found.as_ref().and_then(|found| found.image.as_ref()).map(Image::digest);
    let (newest, compared) = match verdict {
        Verdict::Current(newest) => (Some(newest), None),
        Verdict::Outdated(newest, change) => (Some(newest), change.clone()),
        Verdict::Unknown(_) | Verdict::Unsigned(..) => (None, None),
    };
    let asked = newest.map(|newest| newest.reference.to_string());
    let is_known = matches!(verdict, Verdict::Current(_));
    OutdatedPlatform {
        platform: platform.platform().to_string(),
        outcome: verdict.outcome(),
        how: base.how,
        base: asked.or_else(|| base.name.as_ref().map(Location::without_digest)),
        current: old.or(base.digest),
        newest: newest.map(|newest| newest.image.digest()),
        change: None,
        notes: if is_known { Vec::new() } else { platform.named.warnings.clone() },
        compared,
    }
}

/// What reports for CI systems are made from.
fn findings<'v>(
    rows: &[OutdatedPlatform],
    verdicts: impl Iterator<Item = &'v Verdict>,
    refreshed: Option<&Refreshed>,
) -> Vec<ReportedFinding> {
    let unsigned = verdicts.flat_map(|verdict| match verdict {
        Verdict::Unsigned(findings, _) => findings.as_slice(),
        _ => &[],
    });
    let mut found: Vec<ReportedFinding> = Vec::new();
    let is_outdated = |row: &&OutdatedPlatform| row.outcome == RowOutcome::Outdated;
    let lines: Vec<String> = rows.iter().filter(is_outdated).map(evidence).collect();
    if let Some(base) = rows.iter().find(is_outdated).and_then(|row| row.base.as_deref()) {
        let message = format!("it is based on an older build: {base} leads to another image now");
        found.push(ReportedFinding {
            rule: Rule::BaseOutdated,
            level: Level::Refuse,
            message,
            evidence: lines.join("\n"),
            fix: Rule::BaseOutdated.fix().to_owned(),
        });
    }
    for finding in unsigned.map(ReportedFinding::from) {
        if !found.contains(&finding) {
            found.push(finding);
        }
    }
    found.extend(refreshed.into_iter().flat_map(|refreshed| refreshed.findings.iter().cloned()));
    found
}

fn evidence(row: &OutdatedPlatform) -> String {
    let shown = |digest: Option<Digest>| digest.map_or_else(|| "unknown".to_owned(), |digest| digest.to_string());
    let summary = row.compared.as_ref().map(|change| format!(": {}", change.summary)).unwrap_or_default();
    format!("{}: {} → {}{summary}", row.platform, shown(row.current), shown(row.newest))
}

fn unreachable(lost: &[String], tag: BaseTag, base: &BaseIdentity) -> Error {
    let error = Error::new(Kind::Missing, "the newest build of its base could not be looked up");
    let error = lost.iter().fold(error, Error::cause);
    match base.name.as_ref().and_then(Location::repository) {
        Some(name) if tag == BaseTag::Dropped => {
            error.hint(format!("underpin records a base without its tag: pass --base {name}:TAG"))
        }
        _ => error.hint("pass --base [NAME=]REF with a reference that can be reached"),
    }
}

/// The reference that was asked may be another one than the image was made with.
fn untagged(base: &BaseIdentity, asked: &Location) -> Error {
    let name = asked.repository().map_or_else(|| asked.to_string(), ToString::to_string);
    let error = Error::input("it is not on the latest build of its base, whose tag it does not record")
        .fact("base", &name)
        .fact("asked", asked);
    let error = base.digest.into_iter().fold(error, |error, digest| error.fact("recorded", digest));
    error.hint(format!("say which tag it was made with: --base {name}:TAG, or --batch FILE"))
}

/// It may be an older build, or another image.
fn undated(platform: &BasedPlatform, newest: &Location) -> Error {
    let error = Error::input("it does not record which build of its base it is on, and is not on the newest");
    let error = error.fact("newest", newest);
    let error = platform.named.warnings.iter().fold(error, Error::cause);
    error.hint(BUILD)
}
