//! A good signature among what others put beside it: whoever may push to a repository must not be able to hide it.

use std::collections::HashMap;
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::*;
use crate::attest::{Attachment, SigningKey, attachments, signature};
use crate::store::Stream;
use oci::{MediaType, RepositoryName};

const OURS: &str = include_str!("../../../../testdata/attest/ecdsa.pem");
const THEIRS: &str = include_str!("../../../../testdata/attest/ed25519.pem");

fn key(text: &str) -> SigningKey {
    SigningKey::read(text, &|| panic!("asked for a password")).unwrap()
}

fn image() -> Descriptor {
    Descriptor::of(MediaType::oci_manifest(), b"image")
}

fn signed(by: &str, about: &Descriptor) -> Attachment {
    attachments(&[signature(about)], Some(&key(by))).unwrap().remove(0)
}

/// A place that has what it was given, and fails with what it was told to.
#[derive(Default)]
struct FakePlace {
    referrers: Vec<Referrer>,
    list_fault: Option<Kind>,
    documents: HashMap<Digest, Result<Document, Kind>>,
    blobs: HashMap<Digest, Result<Vec<u8>, Kind>>,
    tag: Option<Result<Document, Kind>>,
    read: Mutex<Vec<Digest>>,
}

impl FakePlace {
    fn attach(&mut self, new: &Attachment) -> Referrer {
        self.documents.insert(new.manifest.digest(), Ok(new.manifest.clone()));
        self.blobs.insert(new.layer.0.digest, Ok(new.layer.1.clone()));
        self.referrers.push(new.referrer());
        new.referrer()
    }

    /// A manifest about the image, made of these parts.
    fn attach_junk(&mut self, artifact_type: &str, layer: &Value, extra: &Value) -> Referrer {
        let mut manifest = json!({
            "schemaVersion": 2, "mediaType": MediaType::oci_manifest().as_str(), "artifactType": artifact_type,
            "config": Descriptor::of(MediaType::new(EMPTY), b"{}").to_value(), "layers": [layer],
            "subject": image().to_value(),
        });
        manifest.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let document = Document::read(manifest.to_string().into_bytes(), None).unwrap();
        let referrer = Referrer::of(&document);
        self.documents.insert(document.digest(), Ok(document));
        self.referrers.push(referrer.clone());
        referrer
    }

    fn searched(&self) -> Result<SignatureSearch> {
        let patterns = ["**".to_owned()];
        let mut demand = SignatureDemand::new(&patterns, &[]).unwrap();
        demand.keys = vec![key(OURS).public()];
        let blob = |of: &Descriptor| {
            self.read.lock().unwrap().push(of.digest);
            let found = self.blobs.get(&of.digest).cloned().unwrap_or(Err(Kind::Missing));
            found.map_err(|kind| Error::new(kind, "the blob is broken"))
        };
        Search { place: self, blob: &blob, image: image().digest, demand: &demand, jobs: 4 }.run()
    }

    fn missing(&self) -> Vec<String> {
        match self.searched() {
            Ok(SignatureSearch::Missing(lines)) => lines,
            other => panic!("{other:?}"),
        }
    }
}

impl Source for FakePlace {
    fn top(&self) -> Result<Document> {
        unreachable!("nobody asks for it")
    }

    fn document(&self, of: &Descriptor) -> Result<Document> {
        let found = self.documents.get(&of.digest).cloned().unwrap_or(Err(Kind::Missing));
        found.map_err(|kind| Error::new(kind, "the manifest is broken"))
    }

    fn open(&self, _: &Descriptor, _: u64) -> Result<Stream> {
        unreachable!("nobody asks for it")
    }

    fn repository(&self) -> Option<&RepositoryName> {
        None
    }

    fn referrers(&self, _: Digest, _: Option<&str>) -> Result<Vec<Referrer>> {
        match self.list_fault {
            Some(kind) => Err(Error::new(kind, "the list is broken")),
            None => Ok(self.referrers.clone()),
        }
    }

    fn tagged(&self, _: &str) -> Result<Option<Document>> {
        let found = self.tag.clone().transpose();
        found.map_err(|kind| Error::new(kind, "the tag is broken"))
    }

    fn tags(&self) -> Result<Vec<String>> {
        unreachable!("nobody asks for it")
    }
}

const UNREADABLE: [Kind; 3] = [Kind::Missing, Kind::Input, Kind::Integrity];
const UNCLEAR: [Kind; 3] = [Kind::Network, Kind::Auth, Kind::Io];

/// A referrer of the right type whose manifest or blob fails like this.
fn broken(place: &mut FakePlace, kind: Kind, is_manifest: bool) -> Digest {
    let new = signed(THEIRS, &image());
    place.attach(&new);
    if is_manifest {
        place.documents.insert(new.manifest.digest(), Err(kind));
    } else {
        place.blobs.insert(new.layer.0.digest, Err(kind));
    }
    new.manifest.digest()
}

#[test]
fn what_cannot_be_read_hides_no_good_signature() {
    for kind in UNREADABLE.into_iter().chain(UNCLEAR) {
        for is_manifest in [true, false] {
            let mut place = FakePlace::default();
            place.attach(&signed(OURS, &image()));
            broken(&mut place, kind, is_manifest);
            // Before it, and after it.
            for _ in 0..2 {
                assert_eq!(place.searched().unwrap(), SignatureSearch::Found, "{kind:?} {is_manifest}");
                place.referrers.reverse();
            }
        }
    }
}

#[test]
fn what_cannot_be_read_is_a_line_and_what_could_not_be_looked_at_is_an_error() {
    for is_manifest in [true, false] {
        for kind in UNREADABLE {
            let mut place = FakePlace::default();
            let digest = broken(&mut place, kind, is_manifest);
            let lines = place.missing();
            assert!(lines[0].starts_with(&format!("referrer {digest}: it cannot be read: the ")), "{lines:?}");
        }
        for kind in UNCLEAR {
            let mut place = FakePlace::default();
            broken(&mut place, kind, is_manifest);
            let error = place.searched().unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}

#[test]
fn junk_of_any_number_up_to_the_limit_hides_no_good_signature() {
    let mut place = FakePlace::default();
    let good = place.attach(&signed(OURS, &image()));
    let layer = |at: usize| Descriptor::of(MediaType::new(BUNDLE), format!("junk {at}").as_bytes()).to_value();
    for at in 0..MOST - 1 {
        place.attach_junk(BUNDLE, &layer(at), &json!({"annotations": {"n": at.to_string()}}));
    }
    assert_eq!(place.searched().unwrap(), SignatureSearch::Found);
    // What says that it is newer is looked at first.
    let dated = json!({"annotations": {CREATED: "2026-11-18T00:00:00Z"}});
    for at in 0..5 {
        place.attach_junk(BUNDLE, &layer(MOST + at), &dated);
    }
    let lines = place.missing();
    let limit = format!("only the newest {MOST} of {} candidates were looked at", MOST + 5);
    assert!(lines[0].contains(&limit), "{lines:?}");
    assert!(lines.len() <= TOLD + 2 && lines.last().unwrap().starts_with("and "), "{lines:?}");
    // So is the good one, where it says so.
    let at = place.referrers.iter().position(|one| *one == good).unwrap();
    place.referrers[at].descriptor.annotations.insert(CREATED.to_owned(), "2026-11-18T00:00:01Z".into());
    place.read.lock().unwrap().clear();
    assert_eq!(place.searched().unwrap(), SignatureSearch::Found);
    assert!(place.read.lock().unwrap().len() <= 4, "those that are judged at once");
}

#[test]
fn what_is_of_another_type_or_too_large_costs_nothing() {
    let mut place = FakePlace::default();
    place.attach(&signed(OURS, &image()));
    let layer = Descriptor::of(MediaType::new("text/plain"), b"junk").to_value();
    for at in 0..2 * MOST {
        place.attach_junk("application/vnd.example", &layer, &json!({"annotations": {"n": at.to_string()}}));
    }
    assert_eq!(place.searched().unwrap(), SignatureSearch::Found);
    assert_eq!(place.read.lock().unwrap().len(), 1);

    let mut place = FakePlace::default();
    let huge = Descriptor::new(MediaType::new(BUNDLE), Digest::of(b"huge"), LARGEST + 1);
    let referrer = place.attach_junk(BUNDLE, &huge.to_value(), &json!({}));
    let lines = place.missing();
    assert_eq!(lines[0], format!("referrer {}: it is larger than 256 KiB", referrer.descriptor.digest));
    assert!(place.read.lock().unwrap().is_empty());
}

#[test]
fn odd_manifests_are_passed_over() {
    let mut place = FakePlace::default();
    let bundle = Descriptor::of(MediaType::new(BUNDLE), b"x").to_value();
    for (layer, extra) in [
        (json!(7), json!({})),
        (json!({"digest": "sha256:../../etc/passwd", "size": -1}), json!({})),
        (bundle.clone(), json!({"layers": []})),
        (bundle.clone(), json!({"layers": {"0": bundle}})),
        (bundle.clone(), json!({"subject": null})),
        (bundle.clone(), json!({"subject": {"digest": "sha512:0"}})),
        (bundle, json!({"subject": Descriptor::of(MediaType::oci_manifest(), b"other").to_value()})),
    ] {
        place.attach_junk(BUNDLE, &layer, &extra);
    }
    assert_eq!(place.missing()[0], format!("referrers of {}: no signature", image().digest));
    place.attach(&signed(OURS, &image()));
    assert_eq!(place.searched().unwrap(), SignatureSearch::Found);
}

/// A payload as cosign 2 has it under its tag, signed by `by`.
fn payload(place: &mut FakePlace, by: &str, at: usize) -> Value {
    let critical = json!({"image": {"docker-manifest-digest": image().digest.to_string()},
        "type": "cosign container image signature"});
    let bytes = json!({"critical": critical, "optional": {"n": at}}).to_string().into_bytes();
    let mut layer = Descriptor::of(MediaType::new(SIMPLE_SIGNING), &bytes);
    layer.annotations.insert(SIMPLE_SIGNATURE.to_owned(), STANDARD.encode(key(by).sign(&bytes)).into());
    place.blobs.insert(layer.digest, Ok(bytes));
    layer.to_value()
}

fn under_tag(layers: &[Value]) -> Document {
    let config = Descriptor::of(MediaType::oci_config(), b"{}").to_value();
    let manifest = json!({"schemaVersion": 2, "mediaType": MediaType::oci_manifest().as_str(), "config": config,
        "layers": layers});
    Document::read(manifest.to_string().into_bytes(), None).unwrap()
}

#[test]
fn a_good_payload_under_the_tag_is_found_among_others() {
    for faults in [&UNREADABLE[..], &UNCLEAR] {
        let mut place = FakePlace::default();
        let mut layers = vec![json!(7), json!({"mediaType": "text/plain", "digest": "x", "size": 0})];
        // What has another type, or no signature, is not read and takes nobody's turn.
        let unsigned = Descriptor::of(MediaType::new(SIMPLE_SIGNING), b"unsigned").to_value();
        layers.extend(std::iter::repeat_n(unsigned, MOST));
        let good = payload(&mut place, OURS, 0);
        layers.push(good);
        layers.extend((1..=70).map(|at| payload(&mut place, THEIRS, at)));
        for (at, kind) in faults.iter().enumerate() {
            let lost = payload(&mut place, THEIRS, 1000 + at);
            place.blobs.insert(lost["digest"].as_str().unwrap().parse().unwrap(), Err(*kind));
            layers.push(lost);
        }
        place.tag = Some(Ok(under_tag(&layers)));
        assert_eq!(place.searched().unwrap(), SignatureSearch::Found);
        layers.retain(|layer| layer["annotations"].is_null());
        place.tag = Some(Ok(under_tag(&layers)));
        assert!(place.missing().iter().any(|line| line.contains("a payload without a signature")));
    }
}

#[test]
fn one_broken_place_does_not_hide_the_other() {
    for kind in UNREADABLE.into_iter().chain(UNCLEAR) {
        let mut place = FakePlace { list_fault: Some(kind), ..FakePlace::default() };
        let good = payload(&mut place, OURS, 0);
        place.tag = Some(Ok(under_tag(&[good])));
        assert_eq!(place.searched().unwrap(), SignatureSearch::Found, "the list: {kind:?}");
        place.tag = None;
        let outcome = place.searched();
        assert_eq!(outcome.as_ref().err().map(Error::kind), Some(kind).filter(|kind| UNCLEAR.contains(kind)));

        let mut place = FakePlace { tag: Some(Err(kind)), ..FakePlace::default() };
        let outcome = place.searched();
        assert_eq!(outcome.as_ref().err().map(Error::kind), Some(kind).filter(|kind| UNCLEAR.contains(kind)));
        place.attach(&signed(OURS, &image()));
        assert_eq!(place.searched().unwrap(), SignatureSearch::Found, "the tag: {kind:?}");
    }
}
