//! What a result must be, read by nothing of the tool's own but its digest.

use std::io::Read as _;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use oci::{Digest, Location};
use serde_json::Value;
use underpin::examine::base::OldBaseChoice;
use underpin::report::VerifyOutcome;
use underpin::settings::Job;
use underpin::store::Session;
use underpin::verify::{InputPlaces, verify};

/// Every document and layer of the layout is there, has the digest and size that name it, and the diff ids fit.
pub fn check(layout: &Path) {
    let index = document(&std::fs::read(layout.join("index.json")).unwrap());
    for entry in list(&index, "manifests") {
        check_document(layout, entry);
    }
}

fn check_document(layout: &Path, of: &Value) {
    let bytes = blob(layout, of);
    let top = document(&bytes);
    assert_eq!(top["mediaType"], of["mediaType"], "{top}");
    for child in list(&top, "manifests") {
        check_document(layout, child);
    }
    if top.get("manifests").is_none() {
        check_manifest(layout, &top);
    }
}

fn check_manifest(layout: &Path, manifest: &Value) {
    let config = document(&blob(layout, &manifest["config"]));
    let diff_ids = list(&config["rootfs"], "diff_ids");
    let layers = list(manifest, "layers");
    assert_eq!(diff_ids.len(), layers.len(), "{config}");
    for (layer, diff_id) in layers.iter().zip(diff_ids) {
        let bytes = blob(layout, layer);
        let media_type = layer["mediaType"].as_str().unwrap();
        assert!(media_type.starts_with("application/vnd.oci.image.layer."), "{media_type}");
        let mut tar = Vec::new();
        match media_type.ends_with("+gzip") {
            true => drop(MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut tar).unwrap()),
            false => tar = bytes,
        }
        assert_eq!(diff_id.as_str(), Some(Digest::of(&tar).to_string().as_str()));
    }
}

/// `underpin verify` makes the same again from what the result records.
pub fn verifies(session: &Session, image: &Location, job: &Job) {
    let at = |name: &str| {
        let text = job.source.to_string().replace("/app:", &format!("/{name}:"));
        Some(text.parse::<Location>().unwrap())
    };
    // Only where it was read: else it may be an image that cannot be.
    let old_base = matches!(job.options.old_base, Some(OldBaseChoice::Image(_))).then(|| at("old")).flatten();
    let places = InputPlaces { source: at("app"), base: at("new"), old_base, log_runner: None };
    match verify(session, image, &places) {
        Ok(verification) => assert_eq!(verification.outcome, VerifyOutcome::Same, "{image}"),
        // An image that was on its base already is passed on as it was, with whatever it says of itself.
        Err(error) => assert!(image_is_the_source(image, job), "{error}"),
    }
}

fn image_is_the_source(image: &Location, job: &Job) -> bool {
    let top = |of: &Location| {
        let layout = of.local().unwrap().path.clone();
        let index = document(&std::fs::read(layout.join("index.json")).unwrap());
        index["manifests"][0]["digest"].clone()
    };
    top(image) == top(&job.source)
}

fn blob(layout: &Path, of: &Value) -> Vec<u8> {
    let digest = of["digest"].as_str().unwrap();
    let bytes = std::fs::read(layout.join("blobs/sha256").join(digest.strip_prefix("sha256:").unwrap())).unwrap();
    assert_eq!(Digest::of(&bytes).to_string(), digest);
    assert_eq!(of["size"].as_u64(), Some(bytes.len() as u64));
    bytes
}

fn document(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

fn list<'a>(of: &'a Value, member: &str) -> &'a [Value] {
    of.get(member).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
