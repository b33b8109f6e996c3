//! Notation's signatures in their JWS form (Notary Project, "JWS Signature Envelope"): whether the holder of a given
//! certificate signed an image.
//!
//! The rule this file owns: the certificate that signed must be one of those that are given, byte for byte, and valid now.
//! Chains, revocation lists and time stamps are not used.

use std::str::FromStr as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384,
    RSA_PSS_2048_8192_SHA512, UnparsedPublicKey, VerificationAlgorithm,
};
use serde_json::{Map, Value};
use x509_cert::Certificate;
use x509_cert::der::{DateTime, Decode as _, Encode as _};

use super::bundle::Rejection;
use crate::error::{Error, Result};
use crate::oci::{Digest, json as canonical};

pub const NOTATION: &str = "application/vnd.cncf.notary.signature";
pub const NOTATION_JWS: &str = "application/jose+json";
pub const NOTATION_COSE: &str = "application/cose";
const PAYLOAD: &str = "application/vnd.cncf.notary.payload.v1+json";
const SCHEME: &str = "io.cncf.notary.signingScheme";
const EXPIRY: &str = "io.cncf.notary.expiry";

/// A certificate whose holder may sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedCertificate {
    der: Vec<u8>,
    /// The public key as its algorithm writes it.
    key: Vec<u8>,
    valid: (Duration, Duration),
}

impl TrustedCertificate {
    pub fn read(der: &[u8]) -> Result<Self> {
        let damaged = || Error::usage("the certificate cannot be read");
        let certificate = Certificate::from_der(der).map_err(|_| damaged())?;
        let signed = certificate.tbs_certificate();
        let key = signed.subject_public_key_info().subject_public_key.as_bytes().ok_or_else(damaged)?.to_vec();
        let validity = signed.validity();
        let valid = (validity.not_before.to_unix_duration(), validity.not_after.to_unix_duration());
        let der = certificate.to_der().map_err(|_| damaged())?;
        Ok(Self { der, key, valid })
    }

    /// Whether the envelope is the holder's signature of the image, at `now` since 1970.
    pub fn accepts(&self, envelope: &[u8], image: Digest, now: Duration) -> Result<(), Rejection> {
        let envelope = Envelope::read(envelope)?;
        if envelope.certificate != self.der {
            return Err(Rejection::OtherKey);
        }
        let key = UnparsedPublicKey::new(envelope.algorithm, &self.key);
        key.verify(envelope.signed.as_bytes(), &envelope.signature).map_err(|_| Rejection::OtherKey)?;
        if !(self.valid.0..=self.valid.1).contains(&now) {
            let (from, until) = (date(self.valid.0), date(self.valid.1));
            return Err(Rejection::Expired(format!("its certificate is valid from {from} until {until}")));
        }
        envelope.check_expiry(now)?;
        envelope.check_payload(image)
    }
}

/// The parts of a flattened JWS.
struct Envelope {
    signed: String,
    signature: Vec<u8>,
    certificate: Vec<u8>,
    algorithm: &'static dyn VerificationAlgorithm,
    protected: Map<String, Value>,
    payload: Vec<u8>,
}

/// As people write it.
fn date(since_1970: Duration) -> String {
    let date = DateTime::from_unix_duration(since_1970);
    date.map_or_else(|_| format!("{} s after 1970", since_1970.as_secs()), |date| date.to_string())
}

fn malformed(why: &str) -> Rejection {
    Rejection::Malformed(why.to_owned())
}

impl Envelope {
    fn read(bytes: &[u8]) -> Result<Self, Rejection> {
        let object =
            |bytes: &[u8]| canonical::read_object(bytes, "the envelope").map_err(|error| malformed(error.what()));
        let envelope = object(bytes)?;
        let text =
            |key: &str| envelope.get(key).and_then(Value::as_str).ok_or_else(|| malformed("the envelope lacks a part"));
        let decoded = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| malformed("the envelope is not base64"));
        let (protected, payload) = (text("protected")?, text("payload")?);
        let certificate = envelope.get("header").and_then(|header| header.get("x5c")).and_then(|chain| chain.get(0));
        let certificate = certificate.and_then(Value::as_str).and_then(|text| STANDARD.decode(text).ok());
        let members = object(&decoded(protected)?)?;
        Ok(Self {
            signed: format!("{protected}.{payload}"),
            signature: decoded(text("signature")?)?,
            certificate: certificate.ok_or_else(|| malformed("the envelope has no certificate"))?,
            algorithm: algorithm(&members)?,
            payload: decoded(payload)?,
            protected: members,
        })
    }

    /// What must be understood is what is checked here.
    fn check_expiry(&self, now: Duration) -> Result<(), Rejection> {
        let critical = self.protected.get("crit").and_then(Value::as_array).into_iter().flatten();
        if critical.filter_map(Value::as_str).any(|key| ![SCHEME, EXPIRY].contains(&key)) {
            return Err(malformed("it demands something that is not known"));
        }
        if self.protected.get(SCHEME).and_then(Value::as_str) != Some("notary.x509") {
            return Err(malformed("it was made by another scheme than notary.x509"));
        }
        let Some(expiry) = self.protected.get(EXPIRY) else { return Ok(()) };
        let until = expiry
            .as_str()
            .and_then(|text| DateTime::from_str(text).ok())
            .ok_or_else(|| malformed("its expiry cannot be read"))?;
        if now > until.unix_duration() {
            Err(Rejection::Expired(format!("the signature was valid until {until}")))
        } else {
            Ok(())
        }
    }

    fn check_payload(&self, image: Digest) -> Result<(), Rejection> {
        let kind = self.protected.get("cty").and_then(Value::as_str).unwrap_or_default();
        if kind != PAYLOAD {
            return Err(Rejection::PayloadType(kind.to_owned()));
        }
        let payload = canonical::read_object(&self.payload, "the payload").map_err(|error| malformed(error.what()))?;
        let digest = payload.get("targetArtifact").and_then(|target| target.get("digest")).and_then(Value::as_str);
        let digest: Digest =
            digest.and_then(|text| text.parse().ok()).ok_or_else(|| malformed("the payload names no digest"))?;
        if digest == image { Ok(()) } else { Err(Rejection::OtherDigest(vec![digest])) }
    }
}

fn algorithm(protected: &Map<String, Value>) -> Result<&'static dyn VerificationAlgorithm, Rejection> {
    match protected.get("alg").and_then(Value::as_str).unwrap_or_default() {
        "PS256" => Ok(&RSA_PSS_2048_8192_SHA256),
        "PS384" => Ok(&RSA_PSS_2048_8192_SHA384),
        "PS512" => Ok(&RSA_PSS_2048_8192_SHA512),
        "ES256" => Ok(&ECDSA_P256_SHA256_FIXED),
        "ES384" => Ok(&ECDSA_P384_SHA384_FIXED),
        other => Err(Rejection::Malformed(format!("the signature algorithm {other:?} is not supported"))),
    }
}

#[cfg(test)]
mod tests {
    use p256::ecdsa::signature::Signer as _;
    use p256::pkcs8::DecodePrivateKey as _;
    use serde_json::json;

    use super::*;
    use crate::attest::bundle::tests::mutants;
    use crate::attest::pem;

    /// Made with notation 1.3.2, whose test certificates are valid for a day.
    const ENVELOPE: &[u8] = include_bytes!("../../testdata/attest/notation.jws");
    const CERTIFICATE: &str = include_str!("../../testdata/attest/notation.crt");
    const IMAGE: &str = "sha256:01f5e9e0a3879826433b21063dff87e6907e75964cdc4e4c691ef6c5073dbcb1";
    const SIGNED_AT: Duration = Duration::from_secs(1_794_958_943);
    const DAY: Duration = Duration::from_secs(86_400);

    fn image() -> Digest {
        IMAGE.parse().unwrap()
    }

    fn notations() -> TrustedCertificate {
        TrustedCertificate::read(&pem::blocks(CERTIFICATE)[0].bytes).unwrap()
    }

    #[test]
    fn notations_own_signature_counts_while_its_certificate_is_valid() {
        let (theirs, second) = (notations(), Duration::from_secs(1));
        let too_early = SIGNED_AT.saturating_sub(second);
        for now in [SIGNED_AT, SIGNED_AT + DAY] {
            assert_eq!(theirs.accepts(ENVELOPE, image(), now), Ok(()));
        }
        for now in [too_early, SIGNED_AT + DAY + second] {
            let refused = theirs.accepts(ENVELOPE, image(), now).unwrap_err().to_string();
            let expected = "its certificate is valid from 2026-11-17T23:42:23Z until 2026-11-18T23:42:23Z";
            assert!(refused.contains(expected), "{refused}");
        }
        let other = theirs.accepts(ENVELOPE, Digest::of(b"other"), SIGNED_AT);
        assert_eq!(other, Err(Rejection::OtherDigest(vec![image()])));
        assert_eq!(Signer::new().certificate.accepts(ENVELOPE, image(), SIGNED_AT), Err(Rejection::OtherKey));
    }

    /// All but the name of the program that signed, which nobody signed.
    #[test]
    fn mutated_envelopes_are_not_accepted() {
        let text = std::str::from_utf8(ENVELOPE).unwrap();
        let envelope = text.replace(",\"io.cncf.notary.signingAgent\":\"notation-go/1.3.2\"", "");
        assert!(envelope.len() < text.len());
        let theirs = notations();
        assert_eq!(theirs.accepts(envelope.as_bytes(), image(), SIGNED_AT), Ok(()));
        for mutant in mutants(envelope.as_bytes(), 400, &mut fastrand::Rng::with_seed(13)) {
            let judged = theirs.accepts(&mutant, image(), SIGNED_AT);
            assert!(judged.is_err(), "{}", String::from_utf8_lossy(&mutant));
        }
    }

    /// A holder of a certificate who signs whatever is wanted.
    struct Signer {
        key: p256::ecdsa::SigningKey,
        certificate: TrustedCertificate,
    }

    impl Signer {
        fn new() -> Self {
            let pair = rcgen::KeyPair::generate().unwrap();
            let certificate = rcgen::CertificateParams::new(Vec::new()).unwrap().self_signed(&pair).unwrap();
            let key = p256::ecdsa::SigningKey::from_pkcs8_der(&pair.serialize_der()).unwrap();
            Self { key, certificate: TrustedCertificate::read(certificate.der()).unwrap() }
        }

        fn judged(&self, protected: &Value, payload: &Value) -> Result<(), Rejection> {
            let packed = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
            let (protected, payload) = (packed(protected), packed(payload));
            let signature: p256::ecdsa::Signature = self.key.sign(format!("{protected}.{payload}").as_bytes());
            let envelope = json!({
                "protected": protected, "payload": payload, "signature": URL_SAFE_NO_PAD.encode(signature.to_bytes()),
                "header": {"x5c": [STANDARD.encode(&self.certificate.der)]},
            });
            self.certificate.accepts(envelope.to_string().as_bytes(), image(), SIGNED_AT)
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let signer = Signer::new();
        let payload = json!({"targetArtifact": {"digest": IMAGE}});
        let protected = json!({"alg": "ES256", "cty": PAYLOAD, "crit": [SCHEME], SCHEME: "notary.x509"});
        let judged = |changes: Value| {
            let mut protected = protected.clone();
            protected.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
            signer.judged(&protected, &payload)
        };
        assert_eq!(judged(json!({})), Ok(()));
        assert_eq!(judged(json!({EXPIRY: "2027-01-01T00:00:00Z"})), Ok(()), "not yet");
        for (changes, reason) in [
            (json!({"cty": "text/plain"}), "another type of payload: \"text/plain\""),
            (json!({EXPIRY: "2026-11-17T00:00:00Z"}), "the signature was valid until 2026-11-17T00:00:00Z"),
            (json!({EXPIRY: "tomorrow"}), "its expiry cannot be read"),
            (json!({"crit": [SCHEME, "x"]}), "demands something that is not known"),
            (json!({SCHEME: "notary.x509.signingAuthority"}), "another scheme"),
            (json!({"alg": "none"}), "algorithm \"none\" is not supported"),
            (json!({"alg": "PS256"}), "another key"),
        ] {
            let refused = judged(changes.clone()).unwrap_err().to_string();
            assert!(refused.contains(reason), "{changes}: {refused}");
        }
        let other = Digest::of(b"other");
        let about = |digest: &str| signer.judged(&protected, &json!({"targetArtifact": {"digest": digest}}));
        assert_eq!(about(&other.to_string()), Err(Rejection::OtherDigest(vec![other])));
        assert!(matches!(about("x"), Err(Rejection::Malformed(_))));
    }
}
