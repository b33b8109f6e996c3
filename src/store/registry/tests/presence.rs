//! What a target still has: a registry is asked about every part that this run has not seen there.

use super::*;
use crate::store::{ImageParts, Sink};
use oci::error::{Error, Kind};

const LAYER: &[u8] = b"a layer of some length";

/// An index with one manifest, which has one layer and a config.
fn parts() -> ImageParts {
    let child = Descriptor::of(MediaType::oci_manifest(), b"child");
    let top = Descriptor::of(MediaType::oci_index(), b"top");
    ImageParts {
        top,
        children: vec![child],
        blobs: vec![blob_of(LAYER), Descriptor::of(MediaType::oci_config(), b"{}")],
    }
}

/// A registry that has everything, but answers like this to requests whose line ends with `end`.
fn registry(end: &str, reply: Reply) -> FakeRegistry {
    let end = end.to_owned();
    FakeRegistry::start(move |seen, _| if seen.line().ends_with(&end) { reply.clone() } else { Reply::new(200) })
}

fn missing(fake: &FakeRegistry) -> Result<Vec<Digest>, Error> {
    Rig::new().registry.sink(&fake.image("out/app:v1")).missing_parts(&parts(), 4)
}

#[test]
fn every_part_is_asked_for_once_and_what_was_seen_is_not_asked_for_again() {
    let fake = registry("none", Reply::new(200));
    let rig = Rig::new();
    let sink = rig.registry.sink(&fake.image("out/app:v1"));
    assert_eq!(sink.missing_parts(&parts(), 4).unwrap(), []);
    let mut lines = fake.lines();
    lines.sort();
    let head = |kind: &str, digest: Digest| format!("HEAD /v2/out/app/{kind}/{digest}");
    let mut expected: Vec<String> = parts().blobs.iter().map(|blob| head("blobs", blob.digest)).collect();
    expected.push(head("manifests", parts().children[0].digest));
    expected.sort();
    assert_eq!(lines, expected);
    let another = ImageParts { children: Vec::new(), ..parts() };
    assert_eq!(sink.missing_parts(&another, 4).unwrap(), []);
    assert_eq!(fake.lines().len(), 3, "the blobs were seen");
    let elsewhere = rig.registry.sink(&fake.image("out/other:v1"));
    assert_eq!(elsewhere.missing_parts(&another, 4).unwrap(), []);
    assert_eq!(fake.lines().len(), 5, "but not in another repository");
}

#[test]
fn what_is_gone_or_denied_is_missing_and_what_is_unclear_is_an_error() {
    let [layer, config] = [parts().blobs[0].digest, parts().blobs[1].digest];
    for part in [layer, config, parts().children[0].digest] {
        for status in [404, 401, 403] {
            let fake = registry(&part.to_string(), Reply::new(status));
            assert_eq!(missing(&fake).unwrap(), [part], "{status}");
        }
        for status in [400, 405, 500] {
            let fake = registry(&part.to_string(), Reply::new(status));
            assert!(missing(&fake).is_err(), "{status}");
        }
    }
}

#[test]
fn a_blob_of_another_size_is_read_and_damage_is_an_error() {
    let digest = parts().blobs[0].digest.to_string();
    for (size, bytes, is_there) in [
        (LAYER.len(), &b"not read"[..], true),
        (0, LAYER, true),
        (LAYER.len() + 1, LAYER, true),
        (0, b"", false),
        (3, b"a l", false),
        (99, b"A LAYER OF SOME LENGTH", false),
    ] {
        let end = digest.clone();
        let served = bytes.to_vec();
        let fake = FakeRegistry::start(move |seen, _| match seen.method.as_str() {
            "GET" => Reply::new(200).body(served.clone()),
            _ if seen.target.ends_with(&end) => Reply::new(200).with("Content-Length", size),
            _ => Reply::new(200),
        });
        match missing(&fake) {
            Ok(missing) => assert!(is_there && missing.is_empty(), "{size} {bytes:?}"),
            Err(error) => {
                assert!(!is_there && error.kind() == Kind::Integrity, "{size}: {error}");
                assert!(error.to_string().contains(&digest), "{error}");
            }
        }
    }
}
