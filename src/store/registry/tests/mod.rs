//! The promises of the client, each against a registry's double.

mod auth;
mod offer;
mod presence;
mod pull;
mod push;
mod safety;
mod spellings;
mod tls;
mod wire;

use super::testing::{End, FakeRegistry, Reply, Rig, SeenRequest};
use oci::{Descriptor, Digest, Document, MediaType};

/// A small manifest, as bytes.
fn manifest() -> Vec<u8> {
    let config = Descriptor::of(MediaType::oci_config(), b"{}").to_value();
    let object = serde_json::json!({"schemaVersion": 2, "mediaType": MediaType::oci_manifest().as_str(),
        "config": config, "layers": []});
    object.to_string().into_bytes()
}

fn document() -> Document {
    Document::read(manifest(), None).unwrap()
}

fn manifest_reply() -> Reply {
    Reply::new(200).with("Content-Type", MediaType::oci_manifest()).body(manifest())
}

/// Bytes that are nowhere alike, so that a wrong offset shows.
fn noise(size: usize) -> Vec<u8> {
    (0..size as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn blob_of(bytes: &[u8]) -> Descriptor {
    Descriptor::of(MediaType::new("application/vnd.oci.image.layer.v1.tar+gzip"), bytes)
}

/// Serves `bytes` as a registry that knows `Range` does.
fn ranged(seen: &SeenRequest, bytes: &[u8]) -> Reply {
    match seen.header("range") {
        None => Reply::new(200).body(bytes),
        Some(range) => {
            let at: usize = range.strip_prefix("bytes=").unwrap().strip_suffix('-').unwrap().parse().unwrap();
            let total = bytes.len();
            Reply::new(206).with("Content-Range", format!("bytes {at}-{}/{total}", total - 1)).body(&bytes[at..])
        }
    }
}

fn digest(bytes: &[u8]) -> Digest {
    Digest::of(bytes)
}
