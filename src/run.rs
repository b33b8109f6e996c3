//! The flow, stage by stage: fetch; for each platform examine, plan, process, policy; then assemble,
//! start where that was asked for, publish, report. One value per arrow; no stage calls an earlier one. A stage that needs more of the
//! world says so, and it is fetched here. With `--base auto` the middle is run for one candidate after another.

mod start;

pub use start::start;

use crate::assemble::{self, Assembled};
use crate::attest::sbom::{self, Sbom, SbomWish};
use crate::attest::{self, SignatureDemand, SourceReferrer, Statement};
use crate::examine::{Fetched, Origin, PlatformSubject, Shape, Subject};
use crate::plan::{self, AttestKind, BaseChoice, Pass, RebaseOptions, RecordedName, RunsAs, TriedBase};
use crate::policy::exceptions::Exception;
use crate::policy::{self, MissingPlatform};
use crate::report::{AskedFor, Ending, FileListing, Inspection, Outcome, Report, ReportedAttestation, TargetChange};
use crate::rules::{Allow, Finding, Level, Rule};
use crate::sandbox::PlatformStart;
use crate::settings::Job;
use crate::store::disk::resolved_location;
use crate::store::fetch::{Fetcher, Request, SignatureSearch};
use crate::store::publish::{self, EarlyAnswers, Publisher, Receipt};
use crate::store::{LayerStore, Session};
use oci::error::{Error, Result};
use oci::{Document, Image, Location, Platform};

/// Everything that is known before the first byte is made.
struct Judged {
    image: Subject,
    passes: Vec<Pass>,
    /// Platforms that the new base does not have, or that must not be read.
    missing: Vec<MissingPlatform>,
    /// The candidates that were judged, in order, where the base was to be chosen.
    candidates: Vec<TriedBase>,
    /// Statements about the source, which the result leaves behind; looked up where something is attached.
    source_referrers: Vec<SourceReferrer>,
    /// What was started for real; empty where that was not asked for.
    started: Vec<PlatformStart>,
}

impl Judged {
    fn refuses(&self) -> bool {
        self.passes.is_empty() || self.refusals().next().is_some()
    }

    /// What refuses, and on which platform.
    fn refusals(&self) -> impl Iterator<Item = (&Platform, &Finding)> {
        let of_pass = |pass| {
            let Pass { subject, findings, .. }: &Pass = pass;
            findings.iter().map(|finding| (&subject.platform, finding))
        };
        let of_missing = |missing| {
            let MissingPlatform { platform, findings }: &MissingPlatform = missing;
            findings.iter().map(move |finding| (platform, finding))
        };
        let missing = self.missing.iter().flat_map(of_missing);
        let all = self.passes.iter().flat_map(of_pass).chain(missing);
        all.filter(|(_, finding)| finding.level == Level::Refuse)
    }

    /// The base, and what excludes it.
    fn tried(&self) -> TriedBase {
        TriedBase {
            base: self.image.base.clone(),
            size: self.passes.iter().map(|pass| pass.subject.base.size()).sum(),
            refusals: self.refusals().map(|(platform, finding)| (platform.clone(), finding.clone())).collect(),
        }
    }

    /// About the image as a whole, so every platform has it.
    fn add(&mut self, finding: &Finding) {
        self.passes.iter_mut().for_each(|pass| pass.findings.push(finding.clone()));
    }
}

/// What came of the main job.
pub struct Rebased {
    pub report: Report,
    /// Whether what was to be attached to the result is: its targets are published also if not.
    pub attached: Result<()>,
}

/// The main job. A refusal is a report, not an error; then nothing has been written.
pub fn rebase(session: &Session, job: &Job) -> Result<Rebased> {
    let mounts_from: Vec<&Location> = job.options.base.location().into_iter().chain([&job.source]).collect();
    let early = EarlyAnswers::ask(&session.tools, &job.targets, &mounts_from);
    let (judged, assembled) = prepare(session, &session.fetcher(), job)?;
    let Some(assembled) = assembled.as_ref().filter(|_| !judged.refuses()) else {
        let assembled = assembled.as_ref().map(|assembled| (assembled, None));
        let report = report(session, job, &judged, assembled, Outcome::Refused);
        return Ok(Rebased { report, attached: Ok(()) });
    };
    let sboms = sboms(job, &judged)?;
    let receipt = publisher(session, job, &judged).publish(assembled, &job.targets, early)?;
    let (attestations, attached) = match attest(session, job, &judged, (assembled, &receipt, &sboms)) {
        Ok(attestations) => (attestations, Ok(())),
        Err(error) => (Vec::new(), Err(error)),
    };
    let is_stated_anew = attestations.iter().any(|attestation| attestation.change == TargetChange::Written);
    let is_unchanged = is_unchanged(&judged, &receipt) && !is_stated_anew;
    let outcome = if is_unchanged { Outcome::Unchanged } else { Outcome::Rebased };
    let report = report(session, job, &judged, Some((assembled, Some(&receipt))), outcome);
    Ok(Rebased { report: Report { attestations, sboms, ..report }, attached })
}

/// The same run stopped before anything is written.
pub fn plan(session: &Session, job: &Job) -> Result<Report> {
    let (judged, assembled) = prepare(session, &session.fetcher(), job)?;
    let outcome = if judged.refuses() { Outcome::Refused } else { Outcome::Planned };
    let sboms = if judged.refuses() { Vec::new() } else { sboms(job, &judged)? };
    let assembled = assembled.as_ref().map(|assembled| (assembled, None));
    Ok(Report { sboms, asked: AskedFor::Plan, ..report(session, job, &judged, assembled, outcome) })
}

/// Whether the image could move, without making a byte of the result, unless it is to be started. What `fetcher` has read
/// is not read again.
pub fn judge(session: &Session, fetcher: &Fetcher<'_>, job: &Job) -> Result<Report> {
    if job.options.start.is_some() {
        let (judged, _) = prepare(session, fetcher, job)?;
        let outcome = if judged.refuses() { Outcome::Refused } else { Outcome::Planned };
        return Ok(report(session, job, &judged, None, outcome));
    }
    let mut judged = consider(fetcher, job)?;
    note_exception(job, &mut judged);
    let outcome = if judged.refuses() { Outcome::Refused } else { Outcome::Planned };
    Ok(report(session, job, &judged, None, outcome))
}

/// Looks at one image for itself, and whether it could move to each of `bases`.
pub fn inspect(
    session: &Session,
    image: &Location,
    platforms: &[Platform],
    (known_bases, bases): (&[Location], &[Location]),
    files: FileListing,
) -> Result<Inspection> {
    let fetcher = session.fetcher();
    let inspected = fetcher.inspect(image, platforms, (None, known_bases))?;
    let options =
        RebaseOptions { platforms: platforms.to_vec(), known_bases: known_bases.to_vec(), ..RebaseOptions::default() };
    let job = Job::new(image.clone(), options);
    // One that cannot be reached is a row of the table, too.
    let tried = bases.iter().map(|base| (base, on_base(&fetcher, &job, base).map(|judged| judged.tried())));
    Ok(Inspection::new(&inspected, tried, files))
}

/// A result that was made again, with what is to be said about it: its provenance, and where they are wished for, SBOMs.
pub(crate) struct Derived {
    pub assembled: Assembled,
    pub statements: Vec<Statement>,
}

/// Makes the result of `job` again, in memory. `None` where the new base has none of its platforms.
pub(crate) fn derive(session: &Session, fetcher: &Fetcher<'_>, job: &Job) -> Result<Option<Derived>> {
    let mut judged = consider(fetcher, job)?;
    if judged.passes.is_empty() {
        return Ok(None);
    }
    let assembled = assemble(session, job, &mut judged)?;
    let mut statements = attest::provenance(&judged.image, &judged.passes, &assembled, &[])?;
    statements.extend(sbom::statements(&sboms(job, &judged)?, &assembled));
    Ok(Some(Derived { assembled, statements }))
}

/// Judges the image, and assembles it unless it is refused: a refusal costs no compression.
fn prepare(session: &Session, fetcher: &Fetcher<'_>, job: &Job) -> Result<(Judged, Option<Assembled>)> {
    let mut judged = consider(fetcher, job)?;
    if !job.options.attest.is_empty() {
        look_behind(fetcher, job, &mut judged)?;
    }
    let assembled = if judged.refuses() { None } else { Some(assemble(session, job, &mut judged)?) };
    if let Some(finding) = assembled.as_ref().and_then(|assembled| unexpected(job, assembled)) {
        judged.add(&finding);
    }
    if let (Some(options), Some(assembled), false) = (job.options.start_options(), &assembled, judged.refuses()) {
        start::start_both(session, job, (&mut judged, assembled), &options)?;
    }
    note_exception(job, &mut judged);
    Ok((judged, assembled))
}

/// The move to the base that was named, or to the one that is chosen.
fn consider(fetcher: &Fetcher<'_>, job: &Job) -> Result<Judged> {
    match &job.options.base {
        BaseChoice::Image(base) => on_base(fetcher, job, base),
        BaseChoice::Auto => choose(fetcher, job),
    }
}

/// The first candidate that nothing refuses; where all are refused, the one with the fewest refusals.
fn choose(fetcher: &Fetcher<'_>, job: &Job) -> Result<Judged> {
    let images = fetcher.images(&job.source, &job.options.platforms)?;
    let runs_as = RunsAs::of(images.iter().map(|image| &image.config), &job.options);
    let mut candidates = Vec::new();
    let mut nearest: Option<Judged> = None;
    for base in plan::candidates(&job.options, runs_as)? {
        let judged = on_base(fetcher, job, &base).map_err(|error| error.fact("base candidate", &base))?;
        candidates.push(judged.tried());
        if !judged.refuses() {
            return Ok(Judged { candidates, ..judged });
        }
        if nearest.as_ref().is_none_or(|nearest| judged.refusals().count() < nearest.refusals().count()) {
            nearest = Some(judged);
        }
    }
    let nearest = nearest.ok_or_else(|| Error::usage("there is no base to choose from"))?;
    Ok(Judged { candidates, ..nearest })
}

/// Fetches, and takes every platform through the stages that need no bytes.
fn on_base(fetcher: &Fetcher<'_>, job: &Job, base: &Location) -> Result<Judged> {
    let unsigned = unsigned(fetcher, job, base)?;
    if !unsigned.is_empty() {
        return unread(fetcher, job, base, &unsigned);
    }
    let request = job.request(base);
    let Fetched { subject: image, platforms } = fetcher.fetch(&request)?;
    let passes = platforms.into_iter().map(|platform| pass(fetcher, &request, platform));
    let passes = passes.collect::<Result<Vec<Pass>>>()?;
    let missing = policy::missing_platforms(&image, job.options.on_missing_platform);
    let mut judged =
        Judged { image, passes, missing, candidates: Vec::new(), source_referrers: Vec::new(), started: Vec::new() };
    for finding in needless_allowances(job, &judged) {
        judged.add(&finding);
    }
    Ok(judged)
}

/// What must be signed and is not. It is looked for before a layer is read.
fn unsigned(fetcher: &Fetcher<'_>, job: &Job, base: &Location) -> Result<Vec<Finding>> {
    let options = &job.options;
    let mut findings = unsigned_source(fetcher, job)?;
    findings.extend(unsigned_base(fetcher, job, ("new base", base), options.base_name.as_ref())?);
    if let Some(runner) = &options.log_runner {
        findings.extend(unsigned_base(fetcher, job, ("log runner", runner), None)?);
    }
    Ok(findings)
}

pub(crate) fn unsigned_source(fetcher: &Fetcher<'_>, job: &Job) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for demand in demands(job, &job.source, job.options.source_name.as_ref()) {
        let search = fetcher.source_signature(&job.source, demand)?;
        findings.extend(signature_missing(("source", &job.source), demand, &search));
    }
    Ok(findings)
}

pub(crate) fn unsigned_base(
    fetcher: &Fetcher<'_>,
    job: &Job,
    (role, base): (&str, &Location),
    name: Option<&RecordedName>,
) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for demand in demands(job, base, name) {
        let search = fetcher.base_signature(base, demand)?;
        findings.extend(signature_missing((role, base), demand, &search));
    }
    Ok(findings)
}

/// What the policy demands of an image, by the name that it is read from or by the one that is recorded for it.
fn demands<'a>(
    job: &'a Job,
    image: &'a Location,
    name: Option<&'a RecordedName>,
) -> impl Iterator<Item = &'a SignatureDemand> {
    let places = [image.clone(), resolved_location(image)];
    let is_named = move |demand: &SignatureDemand| match name {
        Some(RecordedName::Registry(name)) => demand.covers_name(name),
        _ => false,
    };
    let is_covered =
        move |demand: &&SignatureDemand| places.iter().any(|place| demand.covers(place)) || is_named(demand);
    job.demands.iter().filter(is_covered)
}

fn signature_missing(
    (role, image): (&str, &Location),
    demand: &SignatureDemand,
    search: &SignatureSearch,
) -> Option<Finding> {
    let SignatureSearch::Missing(looked) = search else { return None };
    let message = format!("the {role} {image} is not signed by any of the keys that the policy demands");
    let evidence = format!("keys: {}; looked for: {}", demand.files.join(", "), looked.join("; "));
    Some(
        Finding::new(Rule::SignatureMissing, Level::Refuse, message)
            .evidence(evidence)
            .fix(Rule::SignatureMissing.fix()),
    )
}

/// The image as far as it is known without reading a layer.
fn unread(fetcher: &Fetcher<'_>, job: &Job, base: &Location, findings: &[Finding]) -> Result<Judged> {
    let images = fetcher.images(&job.source, &job.options.platforms)?;
    let origin = |location: &Location, top: &Document| Origin { location: location.clone(), top: top.clone() };
    let image = Subject {
        source: origin(&job.source, fetcher.source(&job.source)?.top()),
        base: origin(base, fetcher.opened(base)?.top()),
        runner: None,
        shape: Shape::Single,
        selected: Vec::new(),
        missing: Vec::new(),
        leaves_behind: false,
    };
    let unread =
        |image: &Image| MissingPlatform { platform: image.config.platform().clone(), findings: findings.to_vec() };
    let missing = images.iter().map(unread).collect();
    Ok(Judged {
        image,
        passes: Vec::new(),
        missing,
        candidates: Vec::new(),
        source_referrers: Vec::new(),
        started: Vec::new(),
    })
}

/// One platform, once everything that it depends on is there.
fn pass(fetcher: &Fetcher<'_>, request: &Request<'_>, mut subject: PlatformSubject) -> Result<Pass> {
    let options = request.options;
    while let Some(need) = plan::need(&subject) {
        fetcher.supply(request, &mut subject, need)?;
    }
    let mut pass = plan::pass(subject, options);
    pass.findings = policy::judge(&pass, &options.allow);
    if let Some(pod) = request.pod {
        plan::judge_in_pod(&mut pass, pod, options);
        let in_pod = policy::judge(&pass, &options.allow);
        pass.without_pod = Some(std::mem::replace(&mut pass.findings, in_pod));
    }
    Ok(pass)
}

/// Makes the bytes of every platform, and what holds them together.
fn assemble(session: &Session, job: &Job, judged: &mut Judged) -> Result<Assembled> {
    let layers = LayerStore::new(&session.tools, &job.request(&judged.image.base.location))?;
    let mut images = Vec::new();
    for pass in &mut judged.passes {
        plan::record(&judged.image, pass, &job.options);
        let image = assemble::image(pass, &layers)?;
        pass.result = Some(image.result.clone());
        images.push(image);
    }
    let top = plan::top(&judged.image, &judged.passes, &job.options);
    assemble::join(&top, &judged.image, images)
}

/// Attaches to the published result what was asked for.
fn attest(
    session: &Session,
    job: &Job,
    judged: &Judged,
    (assembled, receipt, sboms): (&Assembled, &Receipt, &[Sbom]),
) -> Result<Vec<ReportedAttestation>> {
    if !job.options.attaches() {
        return Ok(Vec::new());
    }
    let attachments = attest::attachments(&statements(job, judged, (assembled, sboms))?, job.signer.as_deref())?;
    let changes = publisher(session, job, judged).attach(&attachments, receipt)?;
    Ok(attachments
        .iter()
        .zip(changes)
        .map(|(attachment, change)| ReportedAttestation::new(attachment, change))
        .collect())
}

/// Looks for what others have stated about the source: the result leaves it behind, and its provenance names it.
fn look_behind(fetcher: &Fetcher<'_>, job: &Job, judged: &mut Judged) -> Result<()> {
    let images = judged.passes.iter().map(|pass| pass.subject.source.digest());
    let mut subjects: Vec<_> = std::iter::once(judged.image.source.top.digest()).chain(images).collect();
    subjects.dedup();
    judged.source_referrers = fetcher.source_referrers(&job.source, &subjects)?;
    let left: Vec<Finding> = judged.source_referrers.iter().map(stays_behind).collect();
    for finding in &left {
        judged.add(finding);
    }
    // Those inside of the source's index have been found with it.
    let inside = judged.passes.iter().flat_map(|pass| &pass.subject.left_behind);
    let inside = inside.map(|left| SourceReferrer::in_index(left.digest));
    judged.source_referrers.extend(inside.collect::<Vec<_>>());
    judged.source_referrers.sort();
    judged.source_referrers.dedup();
    Ok(())
}

fn stays_behind(left: &SourceReferrer) -> Finding {
    let SourceReferrer { digest, kind, found } = left;
    Finding::new(
        Rule::AttestationDropped,
        Level::Note,
        "a statement about the source describes its bytes and is left behind",
    )
    .evidence(format!("{kind} {digest} ({found})"))
    .fix("sign and attest the rebased image anew")
}

/// What is stated about the result: of the kinds that were asked for, and with a key its signature.
fn statements(job: &Job, judged: &Judged, (assembled, sboms): (&Assembled, &[Sbom])) -> Result<Vec<Statement>> {
    let mut statements = Vec::new();
    for kind in &job.options.attest {
        statements.extend(match kind {
            AttestKind::Provenance => {
                attest::provenance(&judged.image, &judged.passes, assembled, &judged.source_referrers)?
            }
            AttestKind::Sbom => sbom::statements(sboms, assembled),
        });
    }
    if job.signer.is_some() {
        let documents = std::iter::once(&assembled.top).chain(&assembled.children);
        statements.extend(documents.map(|document| attest::signature(&document.descriptor())));
    }
    Ok(statements)
}

/// What each platform of the result is made of, where that was asked for: before anything is published.
fn sboms(job: &Job, judged: &Judged) -> Result<Vec<Sbom>> {
    let wish = job.sbom_wish();
    if wish == SbomWish::None {
        return Ok(Vec::new());
    }
    if wish == SbomWish::One && judged.passes.len() > 1 {
        return Err(Error::usage("an SBOM describes one platform, and the image has several")
            .fact("platforms", judged.passes.len())
            .hint("put {platform} into the name of the file, as in --report spdx=sbom-{platform}.json, or pass --platform"));
    }
    let name = plan::registry_name(&judged.image, &job.options);
    judged.passes.iter().map(|pass| Sbom::of(pass, name.as_deref())).collect()
}

/// What was to be allowed and is refused on no platform. What the policy allows it allows for many images.
fn needless_allowances(job: &Job, judged: &Judged) -> Vec<Finding> {
    let mut needed: Vec<Allow> = judged.passes.iter().flat_map(plan::needed_allowances).collect();
    needed.extend(judged.passes.iter().flat_map(|pass| plan::needed_by(&pass.findings)));
    let is_later = |allow: &Allow| job.options.start.is_some() && allow.rule().is_of_start();
    let is_needless =
        |allow: &&Allow| !needed.contains(allow) && !job.excepted_rules.contains(allow) && !is_later(allow);
    let needless = job.options.allow.iter().filter(is_needless).filter(|_| !judged.passes.is_empty());
    needless.map(needless_allowance).collect()
}

fn needless_allowance(allow: &Allow) -> Finding {
    let message = format!("--allow {allow} allows nothing: no finding of this image needs it");
    Finding::new(Rule::AllowUnneeded, Level::Warn, message).about(allow.to_string()).fix(Rule::AllowUnneeded.fix())
}

fn unexpected(job: &Job, assembled: &Assembled) -> Option<Finding> {
    let expected = job.options.expect_digest.filter(|expected| *expected != assembled.top.digest())?;
    Some(
        Finding::new(Rule::DigestUnexpected, Level::Refuse, "the result is not the one that --expect-digest names")
            .evidence(format!("expected {expected}, got {}", assembled.top.digest()))
            .fix("compare source, base and options with those of the expected image (`underpin inspect` shows its annotations)"),
    )
}

/// An exception lets the image stay where it is; it does not make a refused move right.
fn note_exception(job: &Job, judged: &mut Judged) {
    if let Some(finding) = job.exception.as_ref().map(|exception| recorded(exception, judged)) {
        judged.add(&finding);
    }
}

fn recorded(exception: &Exception, judged: &Judged) -> Finding {
    let Exception { component, base, reason, line, .. } = exception;
    let evidence = format!("line {line} of the list: {component} | {base} | {reason}");
    if judged.refuses() {
        let message = format!("{component} is recorded as an exception and may stay on its base: {reason}");
        return Finding::new(Rule::ExceptionRecorded, Level::Note, message).evidence(evidence);
    }
    Finding::new(Rule::ExceptionRecorded, Level::Warn, format!("{component} is recorded as an exception, and can move"))
        .evidence(evidence)
        .fix(format!("once it has moved, remove its row: {}", policy::removal(component)))
}

fn publisher<'a>(session: &'a Session, job: &'a Job, judged: &'a Judged) -> Publisher<'a> {
    Publisher { tools: &session.tools, source: &job.source, base: &judged.image.base.location }
}

fn is_unchanged(judged: &Judged, receipt: &Receipt) -> bool {
    let image_is_as_it_was = judged.passes.iter().all(|pass| pass.draft.passes_on());
    let targets_are_as_they_were =
        receipt.targets.iter().all(|target| target.change == publish::Publication::AlreadyThere);
    image_is_as_it_was || targets_are_as_they_were
}

fn report(
    session: &Session,
    job: &Job,
    judged: &Judged,
    made: Option<(&Assembled, Option<&Receipt>)>,
    outcome: Outcome,
) -> Report {
    Report::new(&Ending {
        image: &judged.image,
        passes: &judged.passes,
        missing: &judged.missing,
        candidates: &judged.candidates,
        started: &judged.started,
        seconds: job.options.start,
        assembled: made.map(|(assembled, _)| assembled),
        receipt: made.and_then(|(_, receipt)| receipt),
        targets: &job.targets,
        outcome,
        traffic: session.traffic.tally(),
        files: job.files,
    })
}
