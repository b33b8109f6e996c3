//! SLSA Provenance v1 of a result: what it was made from, and how.
//!
//! The rule this file owns: it says what the result's own record says (`plan::record`), so that whoever can make the
//! result again can make its provenance again; no time, no machine, no local path.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::statement::{ReadStatement, Statement};
use crate::assemble::Assembled;
use crate::examine::Subject;
use crate::plan::{FORMAT_KEY, OPTIONS_KEY, Pass, SOURCE_KEY};
use oci::error::Result;
use oci::{BASE_DIGEST, BASE_NAME, Digest, Document, Location, Platform, json as canonical};

pub const PROVENANCE: &str = "https://slsa.dev/provenance/v1";
/// What the parameters mean: `docs/attestations.md`.
const BUILD_TYPE: &str = "https://underpin.dev/rebase/v1";
const BUILDER: &str = "https://underpin.dev/underpin";

/// A statement about the source, which is an input that the result leaves behind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceReferrer {
    pub digest: Digest,
    /// Its artifact type, or what else it is.
    pub kind: String,
    /// How it was found: `referrer`, the suffix of a tag, or `index`.
    pub found: String,
}

impl SourceReferrer {
    /// An attestation that is an entry of the source's own index, as `BuildKit` has it.
    #[must_use]
    pub fn in_index(digest: Digest) -> Self {
        Self { digest, kind: "attestation-manifest".to_owned(), found: "index".to_owned() }
    }
}

/// The provenance of the index and of each manifest that underpin made. What was passed on as it was has another maker.
pub fn provenance(
    image: &Subject,
    passes: &[Pass],
    assembled: &Assembled,
    referrers: &[SourceReferrer],
) -> Result<Vec<Statement>> {
    let mut statements = Vec::new();
    for document in std::iter::once(&assembled.top).chain(&assembled.children) {
        let about: Vec<&Pass> = passes.iter().filter(|pass| is_about(pass, document, assembled)).collect();
        let Some(predicate) = predicate(image, &about, document, referrers)? else { continue };
        let predicate_type = PROVENANCE.to_owned();
        statements.push(Statement { subject: document.descriptor(), name: None, predicate_type, predicate });
    }
    Ok(statements)
}

/// An index is about every platform; a manifest about its own.
fn is_about(pass: &Pass, document: &Document, assembled: &Assembled) -> bool {
    let digest = document.digest();
    let is_its = |(platform, manifest): &(Platform, Digest)| *platform == pass.subject.platform && *manifest == digest;
    assembled.platforms.iter().any(is_its) || (digest == assembled.top.digest() && !assembled.children.is_empty())
}

fn predicate(
    image: &Subject,
    passes: &[&Pass],
    document: &Document,
    referrers: &[SourceReferrer],
) -> Result<Option<Value>> {
    let annotations = document.object().get("annotations").and_then(Value::as_object);
    let text = |key: &str| annotations.and_then(|annotations| annotations.get(key)).and_then(Value::as_str);
    let is_made = passes.iter().any(|pass| !pass.draft.passes_on());
    let (Some(format), Some(source), Some(base), true) =
        (text(FORMAT_KEY), text(SOURCE_KEY), text(BASE_DIGEST), is_made)
    else {
        return Ok(None);
    };
    let options = canonical::read(text(OPTIONS_KEY).unwrap_or("{}").as_bytes(), OPTIONS_KEY)?;
    let base = Input::named("base", text(BASE_NAME), base.parse()?);
    let mut inputs = vec![Input::read("source", source)?, base];
    inputs.extend(old_bases(passes));
    inputs.extend(runners(image, passes));
    inputs.extend(referrers.iter().map(Input::referrer));
    let external = json!({"source": source, "base": inputs.get(1).map(Input::text), "options": options});
    Ok(Some(json!({
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": external,
            "internalParameters": {"format": format, "allowedFindings": allowed(passes)},
            "resolvedDependencies": inputs.iter().map(Input::to_value).collect::<Vec<_>>(),
        },
        "runDetails": {"builder": {"id": BUILDER}},
    })))
}

/// Whether it is provenance that underpin makes: another builder's says other things.
pub(super) fn is_provenance(statement: &ReadStatement) -> bool {
    let build_type = statement.predicate.pointer("/buildDefinition/buildType").and_then(Value::as_str);
    statement.predicate_type == PROVENANCE && build_type == Some(BUILD_TYPE)
}

/// The predicate without what may differ: what others stated about the source may have changed since, and where the old
/// base and the log runner were found decides nothing.
pub(super) fn comparable(mut predicate: Value) -> Value {
    let inputs = predicate.pointer_mut("/buildDefinition/resolvedDependencies").and_then(Value::as_array_mut);
    if let Some(inputs) = inputs {
        inputs.retain(|input| input.get("name").is_none_or(|name| name != REFERRER));
        for input in inputs.iter_mut().filter_map(Value::as_object_mut) {
            let is_found = input.get("name").is_some_and(|name| name == OLD_BASE || name == LOG_RUNNER);
            if is_found {
                input.shift_remove("uri");
            }
        }
    }
    predicate
}

const OLD_BASE: &str = "old-base";
const LOG_RUNNER: &str = "log-runner";
const REFERRER: &str = "source-referrer";

/// Something that the result was made from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Input {
    role: &'static str,
    /// A registry's name; never a local path.
    name: Option<String>,
    digest: Digest,
    media_type: Option<String>,
    note: Option<(&'static str, String)>,
}

impl Input {
    fn named(role: &'static str, name: Option<&str>, digest: Digest) -> Self {
        Self { role, name: name.map(str::to_owned), digest, media_type: None, note: None }
    }

    /// `NAME@DIGEST` or a digest alone, as a result records its inputs.
    fn read(role: &'static str, text: &str) -> Result<Self> {
        match text.rsplit_once('@') {
            Some((name, digest)) => Ok(Self::named(role, Some(name), digest.parse()?)),
            None => Ok(Self::named(role, None, text.parse()?)),
        }
    }

    fn referrer(of: &SourceReferrer) -> Self {
        let found = Some(("found", of.found.clone()));
        Self { media_type: Some(of.kind.clone()), note: found, ..Self::named(REFERRER, None, of.digest) }
    }

    fn text(&self) -> String {
        match &self.name {
            Some(name) => format!("{name}@{}", self.digest),
            None => self.digest.to_string(),
        }
    }

    /// As an in-toto `ResourceDescriptor`.
    fn to_value(&self) -> Value {
        let mut value = Map::new();
        value.insert("name".to_owned(), self.role.into());
        if self.name.is_some() {
            value.insert("uri".to_owned(), self.text().into());
        }
        value.insert("digest".to_owned(), json!({"sha256": self.digest.hex()}));
        if let Some(media_type) = &self.media_type {
            value.insert("mediaType".to_owned(), media_type.as_str().into());
        }
        if let Some((key, note)) = &self.note {
            value.insert("annotations".to_owned(), json!({*key: note}));
        }
        Value::Object(value)
    }
}

/// The old bases that were read, each once. One that is only known by its layers is in the options.
fn old_bases(passes: &[&Pass]) -> Vec<Input> {
    let old = passes.iter().filter_map(|pass| {
        let old = &pass.subject.old_base;
        let name = old.reference.as_deref().and_then(registry_name);
        Some(Input::named(OLD_BASE, name.as_deref(), old.image.as_ref()?.digest()))
    });
    old.collect::<BTreeSet<_>>().into_iter().collect()
}

/// The name of a registry's repository, as a result would record it.
fn registry_name(reference: &str) -> Option<String> {
    let location: Location = reference.parse().ok()?;
    location.repository().map(ToString::to_string)
}

/// The log runner's manifests that were used.
fn runners(image: &Subject, passes: &[&Pass]) -> Vec<Input> {
    let name = image.runner.as_ref().and_then(|runner| runner.location.repository()).map(ToString::to_string);
    let used = passes.iter().filter(|pass| pass.draft.form.uses_runner());
    let used = used.filter_map(|pass| pass.subject.runner.as_ref());
    let used = used.map(|runner| Input::named(LOG_RUNNER, name.as_deref(), runner.image.digest()));
    used.collect::<BTreeSet<_>>().into_iter().collect()
}

/// The refusals that whoever asked for the move allowed.
fn allowed(passes: &[&Pass]) -> Vec<Value> {
    // A start leaves no trace in the bytes, and whoever derives the statement again starts nothing.
    let findings = passes.iter().flat_map(|pass| pass.image_findings()).filter(|finding| !finding.rule.is_of_start());
    let allowed = findings.filter_map(|finding| {
        let by = finding.allowed_by.as_ref()?;
        Some((finding.rule.id(), finding.message.clone(), by.to_string()))
    });
    let allowed: BTreeSet<(&str, String, String)> = allowed.collect();
    allowed.into_iter().map(|(rule, message, by)| json!({"rule": rule, "message": message, "allowedBy": by})).collect()
}
