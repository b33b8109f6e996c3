//! Makes a rebased image again from the inputs it records, and compares.

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::examine::base::OldBaseChoice;
use crate::oci::{
    BASE_DIGEST, BASE_NAME, Descriptor, Document, DocumentKind, EntryRole, Index, Location, Manifest, Platform, json,
};
use crate::plan::{FORMAT, FORMAT_KEY, OPTIONS_KEY, RebaseOptions, SOURCE_KEY};
use crate::report::{Verification, VerifyOutcome};
use crate::run;
use crate::settings::Job;
use crate::store::Session;

/// Does the work again and compares digests.
pub fn verify(session: &Session, image: &Location) -> Result<Verification> {
    let fetcher = session.fetcher();
    let opened = fetcher.opened(image)?;
    let top = opened.top();
    let job = recorded(top, |of| opened.document(&fetcher, of)).map_err(|error| error.fact("image", image))?;
    let derived = run::derive(session, &job)?;
    let derived = derived
        .ok_or_else(|| Error::input("the new base no longer has any of the image's platforms").fact("image", image))?;
    let outcome = if derived.top.digest() == top.digest() { VerifyOutcome::Same } else { VerifyOutcome::Different };
    Ok(Verification {
        schema: "underpin.verify/v1",
        outcome,
        image: image.to_string(),
        source: job.source.to_string(),
        base: job.options.base.to_string(),
        digest: top.digest(),
        derived: derived.top.digest(),
    })
}

/// The job that the image says it came from.
fn recorded(top: &Document, read: impl Fn(&Descriptor) -> Result<Document>) -> Result<Job> {
    match top.kind() {
        DocumentKind::Manifest => {
            let record = Record::read(&Manifest::read(top)?.annotations)?;
            record.options.old_base.as_ref().ok_or_else(no_old_base)?;
            Ok(record.job())
        }
        DocumentKind::Index => {
            let index = Index::read(top)?;
            let old_bases = children(&index, read)?;
            Ok(Job { old_bases, ..Record::read(&index.annotations)?.job() })
        }
    }
}

/// What each child of an index says about its old base.
fn children(index: &Index, read: impl Fn(&Descriptor) -> Result<Document>) -> Result<Vec<(Platform, OldBaseChoice)>> {
    let mut choices = Vec::new();
    for child in &index.children {
        let EntryRole::Image(Some(platform)) = &child.role else { continue };
        let manifest = Manifest::read(&read(&child.descriptor)?)?;
        // A child that was based on the new base already was passed on as it was, and records nothing.
        let Ok(record) = Record::read(&manifest.annotations) else { continue };
        choices.push((platform.clone(), record.options.old_base.ok_or_else(no_old_base)?));
    }
    Ok(choices)
}

fn no_old_base() -> Error {
    Error::input("the image does not record its old base")
}

/// The `dev.underpin.*` annotations, read.
struct Record {
    source: Location,
    options: RebaseOptions,
}

impl Record {
    fn read(annotations: &Map<String, Value>) -> Result<Self> {
        let text = |key: &str| annotations.get(key).and_then(Value::as_str);
        let input = |key: &'static str| {
            text(key).ok_or_else(|| Error::input("the image does not record all of its inputs").fact("missing", key))
        };
        match text(FORMAT_KEY) {
            Some(FORMAT) => {}
            Some(other) => {
                return Err(Error::input("the image has another format version than this underpin")
                    .fact("format", other)
                    .fact("this is", FORMAT)
                    .hint("verify it with the release that made it"));
            }
            None => {
                return Err(Error::input("the image does not record that underpin made it").fact("missing", FORMAT_KEY));
            }
        }
        let options = json::read_object(text(OPTIONS_KEY).unwrap_or("{}").as_bytes(), OPTIONS_KEY)?;
        let base = format!("{}@{}", input(BASE_NAME)?, input(BASE_DIGEST)?).parse()?;
        let options = RebaseOptions { base, ..RebaseOptions::read_record(options)? };
        Ok(Self { source: input(SOURCE_KEY)?.parse()?, options })
    }

    fn job(self) -> Job {
        Job::new(self.source, self.options)
    }
}
