//! Makes a rebased image again from the inputs it records, and compares.

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::examine::base::OldBaseChoice;
use crate::oci::{
    BASE_DIGEST, BASE_NAME, Descriptor, Document, DocumentKind, EntryRole, Index, Location, Manifest, Platform, json,
};
use crate::plan::{FORMAT_KEY, OPTIONS_KEY, RebaseOptions, ResultFormat, SOURCE_KEY};
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
            let mut job = Job { old_bases, ..Record::read(&index.annotations)?.job() };
            // Each child records its own.
            job.options.old_base = None;
            Ok(job)
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
        if manifest.annotations.get(FORMAT_KEY).and_then(Value::as_str).and_then(ResultFormat::find).is_none() {
            continue;
        }
        let record = Record::read(&manifest.annotations)?;
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
        let number = text(FORMAT_KEY).ok_or_else(|| {
            Error::input("the image does not record that underpin made it").fact("missing", FORMAT_KEY)
        })?;
        let format = ResultFormat::find(number).ok_or_else(|| {
            Error::input("the image has another format version than this underpin")
                .fact("format", number)
                .fact("this is", ResultFormat::default().number())
                .hint("verify it with the release that made it")
        })?;
        let options = json::read_object(text(OPTIONS_KEY).unwrap_or("{}").as_bytes(), OPTIONS_KEY)?;
        let base = format!("{}@{}", input(BASE_NAME)?, input(BASE_DIGEST)?).parse()?;
        let options = RebaseOptions { base, format, ..RebaseOptions::read_record(options)? };
        Ok(Self { source: input(SOURCE_KEY)?.parse()?, options })
    }

    fn job(self) -> Job {
        Job::new(self.source, self.options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn annotations(options: &str) -> Value {
        json!({
            BASE_NAME: "a.io/base", BASE_DIGEST: DIGEST, FORMAT_KEY: ResultFormat::default().number(),
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

    fn of_index(child: &Value, options: &str) -> Result<Job> {
        let child = manifest(child);
        recorded(&index(&child, &annotations(options)), |_| Ok(child.clone()))
    }

    #[test]
    fn a_child_records_its_old_base_or_nothing_at_all() {
        let job = of_index(&annotations("{\"old_base\":\"layers:2\"}"), "{\"old_base\":\"scratch\"}").unwrap();
        assert_eq!(job.old_bases.len(), 1);
        assert_eq!(job.options.old_base, None, "an index has none of its own");
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
