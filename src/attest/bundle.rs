//! The DSSE envelope, and the sigstore bundle around it (media type v0.3), as cosign 3 writes and reads them.
//!
//! The rule this file owns: nothing of a payload is believed, or even read, before a trusted key has signed it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::attachment::IN_TOTO;
use super::key::{PublicKey, SigningKey};
use super::statement::ReadStatement;
use oci::{Digest, json as canonical};

pub const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// The annotation by which readers find the bundle that they look for.
pub const BUNDLE_PREDICATE_TYPE: &str = "dev.sigstore.bundle.predicateType";
/// More signatures on one statement are an attack.
const SIGNATURE_LIMIT: usize = 32;

/// Why a signature does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    /// It cannot be read, for this reason.
    Malformed(String),
    /// What was signed is of another kind.
    PayloadType(String),
    /// None of the trusted keys made it.
    OtherKey,
    /// It is about other bytes.
    OtherDigest(Vec<Digest>),
    /// It claims something else.
    OtherPredicate(String),
    /// It is not valid at this time: its certificate, or the signature itself.
    Expired(String),
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(why) => write!(f, "it cannot be read: {why}"),
            Self::PayloadType(given) => write!(f, "it signs another type of payload: {given:?}"),
            Self::OtherKey => f.write_str("it was made with another key"),
            Self::OtherDigest(digests) => {
                let digests: Vec<String> = digests.iter().map(ToString::to_string).collect();
                write!(f, "it is about another digest: {}", digests.join(", "))
            }
            Self::OtherPredicate(given) => write!(f, "it is a statement of another type: {given:?}"),
            Self::Expired(when) => write!(f, "it is not valid now: {when}"),
        }
    }
}

/// The bundle around the signed envelope of a payload.
pub(super) fn seal(payload: &[u8], key: &SigningKey) -> Vec<u8> {
    let signature = key.sign(&to_be_signed(IN_TOTO, payload));
    canonical::write(&json!({
        "mediaType": BUNDLE,
        "verificationMaterial": {"publicKey": {"hint": key.public().hint()}},
        "dsseEnvelope": {
            "payload": STANDARD.encode(payload),
            "payloadType": IN_TOTO,
            "signatures": [{"sig": STANDARD.encode(signature)}],
        },
    }))
}

/// What DSSE signs: the type with the payload, so that neither can be taken for another.
fn to_be_signed(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

/// The statement in a bundle, whoever signed it: good for comparing it with what is known, and for nothing else.
#[must_use]
pub fn unchecked_statement(bundle: &[u8]) -> Option<ReadStatement> {
    let object = canonical::read_object(bundle, "the bundle").ok()?;
    ReadStatement::read(&decoded(object.get("dsseEnvelope")?.get("payload"))?).ok()
}

/// The statement in a bundle that one of the keys has signed.
pub fn sealed_statement(bundle: &[u8], keys: &[PublicKey]) -> Result<ReadStatement, Rejection> {
    let payload = opened(bundle, keys)?;
    ReadStatement::read(&payload).map_err(|error| Rejection::Malformed(error.what().to_owned()))
}

/// The payload that one of the keys has signed.
fn opened(bundle: &[u8], keys: &[PublicKey]) -> Result<Vec<u8>, Rejection> {
    let malformed = |why: &str| Rejection::Malformed(why.to_owned());
    let object = canonical::read_object(bundle, "the bundle").map_err(|error| malformed(error.what()))?;
    let media_type = object.get("mediaType").and_then(Value::as_str).unwrap_or_default();
    if media_type != BUNDLE {
        return Err(Rejection::Malformed(format!("the bundle is of type {media_type:?}")));
    }
    let material = object.get("verificationMaterial").and_then(|material| material.get("publicKey"));
    let material =
        material.and_then(Value::as_object).ok_or_else(|| malformed("the bundle does not name a public key"))?;
    let hint =
        material.get("hint").and_then(Value::as_str).ok_or_else(|| malformed("the bundle gives no hint at its key"))?;
    let envelope = object.get("dsseEnvelope").and_then(Value::as_object);
    let envelope = envelope.ok_or_else(|| malformed("the bundle has no DSSE envelope"))?;
    let payload_type = envelope.get("payloadType").and_then(Value::as_str).unwrap_or_default();
    if payload_type != IN_TOTO {
        return Err(Rejection::PayloadType(payload_type.to_owned()));
    }
    let payload = decoded(envelope.get("payload")).ok_or_else(|| malformed("the payload is not base64"))?;
    let message = to_be_signed(payload_type, &payload);
    let signatures = signatures(envelope).ok_or_else(|| malformed("the envelope has no readable signatures"))?;
    let key = keys.iter().find(|key| signatures.iter().any(|signature| key.verifies(&message, signature)));
    key.filter(|key| hint == key.hint()).map(|_| payload).ok_or(Rejection::OtherKey)
}

fn signatures(envelope: &Map<String, Value>) -> Option<Vec<Vec<u8>>> {
    let list = envelope.get("signatures")?.as_array().filter(|list| list.len() <= SIGNATURE_LIMIT)?;
    list.iter().map(|signature| decoded(signature.get("sig"))).collect()
}

fn decoded(value: Option<&Value>) -> Option<Vec<u8>> {
    STANDARD.decode(value?.as_str()?).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::attest::key::tests::{ECDSA, ED25519, key};
    use crate::attest::statement::signature;
    use oci::{Descriptor, MediaType};

    /// Made with cosign 3.1.
    const COSIGN_3: &[u8] = include_bytes!("../../testdata/attest/cosign3.bundle.json");
    pub const COSIGN_PUBLIC: &str = include_str!("../../testdata/attest/cosign.pub");

    /// Different bytes: one changed, one taken away, or the end cut off.
    pub fn mutants(of: &[u8], count: usize, random: &mut fastrand::Rng) -> Vec<Vec<u8>> {
        let mut mutant = || {
            let mut bytes = of.to_vec();
            let at = random.usize(..bytes.len());
            match random.u8(..4) {
                0 => bytes[at] ^= 1 << random.u8(..8),
                1 => drop(bytes.remove(at)),
                2 => bytes.truncate(at),
                _ => bytes[at] = random.alphanumeric() as u8,
            }
            bytes
        };
        std::iter::repeat_with(&mut mutant).filter(|mutant| mutant != of).take(count).collect()
    }

    fn sealed(with: &SigningKey) -> Vec<u8> {
        seal(&signature(&Descriptor::of(MediaType::oci_manifest(), b"x")).bytes(), with)
    }

    #[test]
    fn only_the_key_that_signed_opens_a_bundle() {
        for (one, other) in [(ECDSA, ED25519), (ED25519, ECDSA)] {
            let (one, other) = (key(one), key(other));
            let bundle = sealed(&one);
            assert_eq!(bundle, sealed(&one), "the same bytes");
            let read = sealed_statement(&bundle, &[other.public(), one.public()]).unwrap();
            assert_eq!(read.subjects, [Digest::of(b"x")]);
            assert_eq!(sealed_statement(&bundle, &[other.public()]), Err(Rejection::OtherKey));
            assert_eq!(sealed_statement(&bundle, &[]), Err(Rejection::OtherKey));
        }
    }

    /// Bundles of which a byte was changed, or a part is missing: none is accepted, none crashes.
    #[test]
    fn mutated_bundles_are_not_accepted() {
        let mut random = fastrand::Rng::with_seed(18);
        let (ecdsa, ed25519) = (key(ECDSA), key(ED25519));
        let cosign = PublicKey::read_all(COSIGN_PUBLIC).unwrap().remove(0);
        for (bundle, key) in
            [(sealed(&ecdsa), ecdsa.public()), (sealed(&ed25519), ed25519.public()), (COSIGN_3.to_vec(), cosign)]
        {
            assert!(sealed_statement(&bundle, std::slice::from_ref(&key)).is_ok());
            for mutant in mutants(&bundle, 200, &mut random) {
                let read = sealed_statement(&mutant, std::slice::from_ref(&key));
                assert!(read.is_err(), "{}", String::from_utf8_lossy(&mutant));
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let with = key(ECDSA);
        let text = String::from_utf8(sealed(&with)).unwrap();
        let changed =
            |from: &str, to: &str| sealed_statement(text.replace(from, to).as_bytes(), &[with.public()]).unwrap_err();
        assert_eq!(
            changed("application/vnd.in-toto+json", "text/plain"),
            Rejection::PayloadType("text/plain".to_owned())
        );
        assert!(matches!(changed("dsseEnvelope", "messageSignature"), Rejection::Malformed(_)));
        assert!(matches!(changed("v0.3", "v0.4"), Rejection::Malformed(_)));
        let unsigned = seal(b"not a statement", &with);
        assert!(matches!(sealed_statement(&unsigned, &[with.public()]), Err(Rejection::Malformed(_))));
    }
}
