//! Makes a rebased image again from the inputs it records, and compares.

use crate::attest::sbom::SbomWish;
use crate::attest::{self, Statement};
use crate::examine::base::OldBaseChoice;
use crate::plan::{BaseChoice, FORMAT_KEY, Record, RecordedImage};
use crate::report::{Verification, VerifiedAttestation, VerifyOutcome};
use crate::run;
use crate::settings::Job;
use crate::store::Session;
use crate::store::fetch::{AttachedStatement, Fetcher, Opened, may_follow};
use oci::error::{Error, Kind, Result};
use oci::{Descriptor, Digest, Document, DocumentKind, EntryRole, Index, Location, Manifest, Platform};

/// Where inputs may be, in the words of the user. They must still have the digests that the image records.
#[derive(Debug, Clone, Default)]
pub struct InputPlaces {
    pub source: Option<Location>,
    pub base: Option<Location>,
    pub old_base: Option<Location>,
    pub log_runner: Option<Location>,
}

/// Does the work again and compares digests.
pub fn verify(session: &Session, image: &Location, given: &InputPlaces) -> Result<Verification> {
    let fetcher = session.fetcher();
    let opened = fetcher.opened(image)?;
    let top = opened.top();
    let recorded = recorded(top, |of| opened.document(&fetcher, of)).map_err(|error| error.fact("image", image))?;
    let attached = attached(&fetcher, &opened)?;
    let sbom = if attached.iter().any(AboutResult::is_sbom) { SbomWish::ForEachPlatform } else { SbomWish::None };
    let job = recorded.job(&fetcher, image, given).map_err(|error| error.fact("image", image))?;
    let job = Job { sbom, ..job };
    let derived = run::derive(session, &fetcher, &job)?;
    let derived = derived
        .ok_or_else(|| Error::input("the new base no longer has any of the image's platforms").fact("image", image))?;
    let run::Derived { assembled, statements } = derived;
    let is_same = assembled.top.digest() == top.digest();
    // What is said about an image that is another one than was derived is not held against that.
    let attestations = if is_same { compared(&attached, &statements) } else { Vec::new() };
    let is_true = attestations.iter().all(|attestation| attestation.differences.is_empty());
    let outcome = if is_same && is_true { VerifyOutcome::Same } else { VerifyOutcome::Different };
    Ok(Verification {
        attestations,
        schema: "underpin.verify/v1",
        outcome,
        image: image.to_string(),
        source: job.source.to_string(),
        base: job.options.base.to_string(),
        digest: top.digest(),
        derived: assembled.top.digest(),
    })
}

/// A statement of underpin's own making that is attached to the image or to one of its manifests.
struct AboutResult {
    subject: Digest,
    attached: AttachedStatement,
}

impl AboutResult {
    fn is_sbom(&self) -> bool {
        attest::sbom::is_ours(&self.attached.statement)
    }

    /// What it says otherwise than it should.
    fn against(&self, derived: &Statement) -> VerifiedAttestation {
        let (subject, statement) = (self.subject, &self.attached.statement);
        let wrong_subject = (statement.subjects != [subject]).then(|| {
            let subjects: Vec<String> = statement.subjects.iter().map(ToString::to_string).collect();
            format!("subject: expected {subject}, got {}", subjects.join(", "))
        });
        let differences = attest::differences(&derived.predicate, &statement.predicate);
        VerifiedAttestation {
            digest: self.attached.digest,
            subject,
            predicate_type: statement.predicate_type.clone(),
            differences: wrong_subject.into_iter().chain(differences).collect(),
        }
    }
}

/// What underpin has stated about the image, whoever signed it.
fn attached(fetcher: &Fetcher<'_>, image: &Opened) -> Result<Vec<AboutResult>> {
    let mut found = Vec::new();
    for subject in documents(image.top())? {
        let statements = match image.statements(fetcher, subject) {
            // Offline nobody can say.
            Err(error) if matches!(error.kind(), Kind::Network | Kind::Missing) => {
                let why = error.what();
                fetcher.tools.notices.warn(format!("what is attached to the image was not verified: {why}"));
                return Ok(found);
            }
            statements => statements?,
        };
        let ours = statements.into_iter().filter(|attached| attest::is_ours(&attached.statement));
        found.extend(ours.map(|attached| AboutResult { subject, attached }));
    }
    Ok(found)
}

/// The image itself, and each image of an index.
fn documents(top: &Document) -> Result<Vec<Digest>> {
    let mut documents = vec![top.digest()];
    if top.kind() == DocumentKind::Index {
        let children = Index::read(top)?.children;
        let images = children.iter().filter(|child| matches!(child.role, EntryRole::Image(_)));
        documents.extend(images.map(|child| child.descriptor.digest));
    }
    Ok(documents)
}

/// Holds what is attached against what was derived. Of a manifest that was passed on as it was another run has told.
fn compared(attached: &[AboutResult], derived: &[Statement]) -> Vec<VerifiedAttestation> {
    let expected = |about: &AboutResult| {
        let is_it = |statement: &&Statement| {
            statement.subject.digest == about.subject
                && statement.predicate_type == about.attached.statement.predicate_type
        };
        derived.iter().find(is_it)
    };
    attached.iter().filter_map(|about| Some(about.against(expected(about)?))).collect()
}

/// What an image records, and the old base of each of its platforms.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub record: Record,
    /// Empty for a single manifest, whose record has it among its options.
    pub old_bases: Vec<(Platform, OldBaseChoice)>,
    /// The manifests of these platforms, in the same order.
    children: Vec<Digest>,
}

/// Reads what a result records.
pub(crate) fn recorded(top: &Document, read: impl Fn(&Descriptor) -> Result<Document>) -> Result<Recorded> {
    match top.kind() {
        DocumentKind::Manifest => {
            let record = Record::read(&Manifest::read(top)?.annotations)?;
            record.options.old_base.as_ref().ok_or_else(no_old_base)?;
            Ok(Recorded { record, old_bases: Vec::new(), children: Vec::new() })
        }
        DocumentKind::Index => {
            let index = Index::read(top)?;
            let (old_bases, children) = children(&index, read)?.into_iter().unzip();
            let mut record = Record::read(&index.annotations)?;
            // Each child records its own.
            record.options.old_base = None;
            Ok(Recorded { record, old_bases, children })
        }
    }
}

/// What each child of an index says about its old base.
fn children(
    index: &Index,
    read: impl Fn(&Descriptor) -> Result<Document>,
) -> Result<Vec<((Platform, OldBaseChoice), Digest)>> {
    let mut choices = Vec::new();
    for child in &index.children {
        let EntryRole::Image(Some(platform)) = &child.role else { continue };
        let manifest = Manifest::read(&read(&child.descriptor)?)?;
        // A child that was based on the new base already was passed on as it was, and records nothing.
        if !manifest.annotations.contains_key(FORMAT_KEY) {
            continue;
        }
        let record = Record::read(&manifest.annotations)?;
        let old_base = record.options.old_base.ok_or_else(no_old_base)?;
        choices.push(((platform.clone(), old_base), child.descriptor.digest));
    }
    Ok(choices)
}

fn no_old_base() -> Error {
    Error::input("the image does not record its old base")
}

impl Recorded {
    /// The move that made the image, from wherever its inputs are.
    fn job(self, fetcher: &Fetcher<'_>, image: &Location, given: &InputPlaces) -> Result<Job> {
        let Record { source, base, log_runner, mut options } = self.record;
        (options.source_name, options.base_name) = (Some(source.name()), Some(base.name()));
        let find = |what: Input, recorded: &RecordedImage, given: Option<&Location>| {
            reachable(fetcher, what, Places { given, recorded, image })
        };
        let place = find(Input::Source, &source, given.source.as_ref())?;
        options.base = BaseChoice::Image(find(Input::Base, &base, given.base.as_ref())?);
        let runner = log_runner.map(|runner| find(Input::LogRunner, &runner, given.log_runner.as_ref()));
        options.log_runner = runner.transpose()?;
        options.known_bases = given.old_base.iter().cloned().collect();
        let passed_on = manifests_in(fetcher.source(&place)?.top())?;
        let made = self.old_bases.into_iter().zip(self.children).filter(|(_, child)| !passed_on.contains(child));
        Ok(Job { old_bases: made.map(|(old_base, _)| old_base).collect(), ..Job::new(place, options) })
    }
}

/// The manifests that an index lists. One that is in the result as it was in the source records how the source was made.
fn manifests_in(top: &Document) -> Result<Vec<Digest>> {
    match top.kind() {
        DocumentKind::Manifest => Ok(Vec::new()),
        DocumentKind::Index => Ok(Index::read(top)?.children.iter().map(|child| child.descriptor.digest).collect()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    Source,
    Base,
    LogRunner,
}

impl Input {
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Source => ("source", "--source"),
            Self::Base => ("new base", "--base"),
            Self::LogRunner => ("log runner", "--log-runner"),
        }
    }
}

/// Where an input may be: where the user says it is, under its recorded name, in the local store.
struct Places<'a> {
    given: Option<&'a Location>,
    recorded: &'a RecordedImage,
    /// What records it.
    image: &'a Location,
}

/// The first place that has the input.
fn reachable(fetcher: &Fetcher<'_>, what: Input, Places { given, recorded, image }: Places<'_>) -> Result<Location> {
    let digest = recorded.digest();
    let mut causes = Vec::new();
    // A record comes with its image: it leads no further than any other name in it.
    let (named, forbidden): (Vec<_>, Vec<_>) =
        recorded.reference().into_iter().partition(|name| may_follow(image, name));
    causes.extend(forbidden.iter().map(|name| format!("{name}: a public image must not lead to a private address")));
    let given = given.map(|given| given.with_digest(digest));
    let named = named.into_iter().map(Location::Registry);
    for place in given.into_iter().chain(named).chain([Location::Cache(digest)]) {
        let opened = if what == Input::Source { fetcher.source(&place) } else { fetcher.opened(&place) };
        match opened {
            Ok(_) => return Ok(place),
            Err(error) => causes.push(format!("{place}: {}", error.what())),
        }
    }
    let (what, flag) = what.words();
    let error = Error::missing(format!("the {what} that the image records cannot be found"));
    Err(causes.into_iter().fold(error, Error::cause).hint(format!("name a place that has it: {flag} REF")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::plan::{FORMAT, OPTIONS_KEY, SOURCE_KEY};
    use oci::{BASE_DIGEST, BASE_NAME};

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn annotations(options: &str) -> Value {
        json!({
            BASE_NAME: "a.io/base", BASE_DIGEST: DIGEST, FORMAT_KEY: FORMAT,
            SOURCE_KEY: format!("a.io/app@{DIGEST}"), OPTIONS_KEY: options,
        })
    }

    fn manifest(annotations: &Value) -> Document {
        let config = json!({"mediaType": "application/vnd.oci.image.config.v1+json", "digest": DIGEST, "size": 0});
        let manifest = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config, "layers": [], "annotations": annotations,
        });
        Document::read(manifest.to_string().into_bytes(), None).unwrap()
    }

    fn index(child: &Document, annotations: &Value) -> Document {
        let index = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [{
                "mediaType": child.media_type().as_str(), "digest": child.digest().to_string(),
                "size": child.bytes().len(), "platform": {"os": "linux", "architecture": "amd64"},
            }],
            "annotations": annotations,
        });
        Document::read(index.to_string().into_bytes(), None).unwrap()
    }

    fn of_index(child: &Value, options: &str) -> Result<Recorded> {
        let child = manifest(child);
        recorded(&index(&child, &annotations(options)), |_| Ok(child.clone()))
    }

    #[test]
    fn a_child_records_its_old_base_or_nothing_at_all() {
        let of = of_index(&annotations("{\"old_base\":\"layers:2\"}"), "{\"old_base\":\"scratch\"}").unwrap();
        assert_eq!(of.old_bases, [("linux/amd64".parse().unwrap(), OldBaseChoice::Layers(2))]);
        assert_eq!(of.record.options.old_base, None, "an index has none of its own");
        assert!(of_index(&json!({}), "{}").unwrap().old_bases.is_empty(), "passed on as it was");
        for damaged in ["{\"old_base\":\"layers:x\"}", "{}", "{\"old_base\":\"layers:2\",\"later\":1}", "{"] {
            assert!(of_index(&annotations(damaged), "{}").is_err(), "{damaged}");
        }
    }

    #[test]
    fn a_record_opens_no_further_images() {
        for options in ["{\"known_bases\":[\"oci:/etc\"]}", "{\"known_base\":\"oci:/etc\"}", "{\"base\":\"oci:/etc\"}"]
        {
            let both = format!("{},\"old_base\":\"scratch\"}}", options.strip_suffix('}').unwrap());
            assert!(recorded(&manifest(&annotations(&both)), |_| Err(no_old_base())).is_err(), "{options}");
        }
        let plain = manifest(&annotations("{\"old_base\":\"scratch\"}"));
        assert!(recorded(&plain, |_| Err(no_old_base())).is_ok());
    }
}
