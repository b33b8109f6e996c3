//! Notation's signatures (Notary Project, "Signature Envelope"), as JWS and as COSE: whether the holder of a given
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
use serde_json::Value;
use x509_cert::Certificate;
use x509_cert::der::{DateTime, Decode as _, Encode as _};

use super::bundle::Rejection;
use super::cbor::{Cbor, signature_structure};
use oci::error::{Error, Result};
use oci::{Digest, json as canonical};

pub const NOTATION: &str = "application/vnd.cncf.notary.signature";
const PAYLOAD: &str = "application/vnd.cncf.notary.payload.v1+json";
const SCHEME: &str = "io.cncf.notary.signingScheme";
const EXPIRY: &str = "io.cncf.notary.expiry";
const NO_EXPIRY: &str = "its expiry cannot be read";
const NO_CERTIFICATE: &str = "the envelope has no certificate";
/// The tag of COSE's messages with one signature, and the header with certificates (RFC 9360).
const COSE_SIGN1: u64 = 18;
const X5CHAIN: i128 = 33;

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
    pub fn accepts(
        &self,
        (form, envelope): (EnvelopeForm, &[u8]),
        image: Digest,
        now: Duration,
    ) -> Result<(), Rejection> {
        let envelope = Envelope::read(form, envelope)?;
        if envelope.certificate != self.der {
            return Err(Rejection::OtherKey);
        }
        let key = UnparsedPublicKey::new(envelope.algorithm, &self.key);
        key.verify(&envelope.signed, &envelope.signature).map_err(|_| Rejection::OtherKey)?;
        if !(self.valid.0..=self.valid.1).contains(&now) {
            let (from, until) = (date(self.valid.0), date(self.valid.1));
            return Err(Rejection::Expired(format!("its certificate is valid from {from} until {until}")));
        }
        envelope.check_expiry(now)?;
        envelope.check_payload(image)
    }
}

/// The forms that notation writes envelopes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvelopeForm {
    Jws,
    Cose,
}

impl EnvelopeForm {
    /// By the type of the layer that it is.
    #[must_use]
    pub fn of(media_type: &str) -> Option<Self> {
        match media_type {
            "application/jose+json" => Some(Self::Jws),
            "application/cose" => Some(Self::Cose),
            _ => None,
        }
    }
}

/// What an envelope says, in either form.
struct Envelope {
    signed: Vec<u8>,
    signature: Vec<u8>,
    certificate: Vec<u8>,
    algorithm: &'static dyn VerificationAlgorithm,
    payload_type: String,
    scheme: String,
    /// When the signature ends, since 1970.
    expiry: Option<Duration>,
    /// What must be understood.
    critical: Vec<String>,
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
    fn read(form: EnvelopeForm, bytes: &[u8]) -> Result<Self, Rejection> {
        match form {
            EnvelopeForm::Jws => Self::from_jws(bytes),
            EnvelopeForm::Cose => Self::from_cose(bytes),
        }
    }

    /// A flattened JWS ("JWS Signature Envelope").
    fn from_jws(bytes: &[u8]) -> Result<Self, Rejection> {
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
        let member = |key: &str| members.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let expiry = members.get(EXPIRY).map(|expiry| {
            let until = expiry.as_str().and_then(|text| DateTime::from_str(text).ok());
            until.map(|until| until.unix_duration()).ok_or_else(|| malformed(NO_EXPIRY))
        });
        let critical = members.get("crit").and_then(Value::as_array).into_iter().flatten();
        Ok(Self {
            signed: format!("{protected}.{payload}").into_bytes(),
            signature: decoded(text("signature")?)?,
            certificate: certificate.ok_or_else(|| malformed(NO_CERTIFICATE))?,
            algorithm: algorithm(&member("alg"))?,
            payload_type: member("cty"),
            scheme: member(SCHEME),
            expiry: expiry.transpose()?,
            critical: critical.map(|key| key.as_str().unwrap_or_default().to_owned()).collect(),
            payload: decoded(payload)?,
        })
    }

    /// A `COSE_Sign1` message ("COSE Signature Envelope").
    fn from_cose(bytes: &[u8]) -> Result<Self, Rejection> {
        let unreadable = || malformed("the envelope is not a COSE_Sign1 message");
        let Some(Cbor::Tagged(COSE_SIGN1, message)) = Cbor::read(bytes) else { return Err(unreadable()) };
        let Some([protected, unprotected, payload, signature]) = message.list() else { return Err(unreadable()) };
        let part = |part: &Cbor| part.bytes().map(<[u8]>::to_vec).ok_or_else(unreadable);
        let (protected, payload, signature) = (part(protected)?, part(payload)?, part(signature)?);
        let members = Cbor::read(&protected).ok_or_else(unreadable)?;
        let named = |key: &str| members.get(&Cbor::Text(key.to_owned()));
        let text = |value: Option<&Cbor>| value.and_then(Cbor::text).unwrap_or_default().to_owned();
        let expiry = named(EXPIRY).map(|expiry| match expiry {
            Cbor::Tagged(1, seconds) => seconds_of(seconds).ok_or_else(|| malformed(NO_EXPIRY)),
            _ => Err(malformed(NO_EXPIRY)),
        });
        let chain = unprotected.get(&Cbor::Integer(X5CHAIN));
        let certificate = chain.and_then(|chain| chain.list().map_or(Some(chain), <[Cbor]>::first));
        let critical = members.get(&Cbor::Integer(2)).and_then(Cbor::list).unwrap_or_default();
        Ok(Self {
            signed: signature_structure(&protected, &payload),
            signature,
            certificate: certificate.and_then(Cbor::bytes).ok_or_else(|| malformed(NO_CERTIFICATE))?.to_vec(),
            algorithm: algorithm(cose_algorithm(members.get(&Cbor::Integer(1))))?,
            payload_type: text(members.get(&Cbor::Integer(3))),
            scheme: text(named(SCHEME)),
            expiry: expiry.transpose()?,
            critical: critical.iter().map(|key| key.text().unwrap_or_default().to_owned()).collect(),
            payload,
        })
    }

    /// What must be understood is what is checked here.
    fn check_expiry(&self, now: Duration) -> Result<(), Rejection> {
        if self.critical.iter().any(|key| ![SCHEME, EXPIRY].contains(&key.as_str())) {
            return Err(malformed("it demands something that is not known"));
        }
        if self.scheme != "notary.x509" {
            return Err(malformed("it was made by another scheme than notary.x509"));
        }
        match self.expiry.filter(|until| now > *until) {
            Some(until) => Err(Rejection::Expired(format!("the signature was valid until {}", date(until)))),
            None => Ok(()),
        }
    }

    fn check_payload(&self, image: Digest) -> Result<(), Rejection> {
        if self.payload_type != PAYLOAD {
            return Err(Rejection::PayloadType(self.payload_type.clone()));
        }
        let payload = canonical::read_object(&self.payload, "the payload").map_err(|error| malformed(error.what()))?;
        let digest = payload.get("targetArtifact").and_then(|target| target.get("digest")).and_then(Value::as_str);
        let digest: Digest =
            digest.and_then(|text| text.parse().ok()).ok_or_else(|| malformed("the payload names no digest"))?;
        if digest == image { Ok(()) } else { Err(Rejection::OtherDigest(vec![digest])) }
    }
}

fn seconds_of(value: &Cbor) -> Option<Duration> {
    let Cbor::Integer(seconds) = value else { return None };
    Some(Duration::from_secs(u64::try_from(*seconds).ok()?))
}

/// An algorithm of COSE by its name in JWS.
fn cose_algorithm(value: Option<&Cbor>) -> &'static str {
    match value {
        Some(Cbor::Integer(-37)) => "PS256",
        Some(Cbor::Integer(-38)) => "PS384",
        Some(Cbor::Integer(-39)) => "PS512",
        Some(Cbor::Integer(-7)) => "ES256",
        Some(Cbor::Integer(-35)) => "ES384",
        Some(Cbor::Integer(-36)) => "ES512",
        _ => "",
    }
}

fn algorithm(name: &str) -> Result<&'static dyn VerificationAlgorithm, Rejection> {
    match name {
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
    const NOTATIONS: (EnvelopeForm, &[u8]) = (EnvelopeForm::Jws, ENVELOPE);
    /// The same with `--signature-format cose`, a moment later.
    const COSE: &[u8] = include_bytes!("../../testdata/attest/notation.cose");
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
            assert_eq!(theirs.accepts(NOTATIONS, image(), now), Ok(()));
        }
        for now in [too_early, SIGNED_AT + DAY + second] {
            let refused = theirs.accepts(NOTATIONS, image(), now).unwrap_err().to_string();
            let expected = "its certificate is valid from 2026-11-17T23:42:23Z until 2026-11-18T23:42:23Z";
            assert!(refused.contains(expected), "{refused}");
        }
        let other = theirs.accepts(NOTATIONS, Digest::of(b"other"), SIGNED_AT);
        assert_eq!(other, Err(Rejection::OtherDigest(vec![image()])));
        assert_eq!(Signer::new().certificate.accepts(NOTATIONS, image(), SIGNED_AT), Err(Rejection::OtherKey));
    }

    #[test]
    fn so_does_one_in_the_form_of_cose_and_mutants_of_it_do_not() {
        let theirs = notations();
        let now = SIGNED_AT + DAY / 2;
        assert_eq!(theirs.accepts((EnvelopeForm::Cose, COSE), image(), now), Ok(()));
        let late = theirs.accepts((EnvelopeForm::Cose, COSE), image(), SIGNED_AT + DAY * 2);
        assert!(matches!(late, Err(Rejection::Expired(_))), "{late:?}");
        let other = theirs.accepts((EnvelopeForm::Cose, COSE), Digest::of(b"other"), now);
        assert_eq!(other, Err(Rejection::OtherDigest(vec![image()])));
        let other = Signer::new().certificate.accepts((EnvelopeForm::Cose, COSE), image(), now);
        assert_eq!(other, Err(Rejection::OtherKey));
        // Nobody signed the name of the program that signed: its key is 27 bytes long, its value 17.
        let agent = b"io.cncf.notary.signingAgent";
        let at = COSE.windows(agent.len()).position(|window| window == agent).unwrap();
        let unsigned = at..at + agent.len() + 1 + 17;
        for mutant in mutants(COSE, 400, &mut fastrand::Rng::with_seed(26)) {
            let is_cut = mutant.len() < COSE.len();
            let is_signed = |(at, (one, other)): (usize, (&u8, &u8))| one != other && !unsigned.contains(&at);
            if is_cut || mutant.iter().zip(COSE).enumerate().any(is_signed) {
                let judged = theirs.accepts((EnvelopeForm::Cose, &mutant), image(), now);
                assert!(judged.is_err(), "{mutant:x?}");
            }
        }
    }

    /// All but the name of the program that signed, which nobody signed.
    #[test]
    fn mutated_envelopes_are_not_accepted() {
        let text = std::str::from_utf8(ENVELOPE).unwrap();
        let envelope = text.replace(",\"io.cncf.notary.signingAgent\":\"notation-go/1.3.2\"", "");
        assert!(envelope.len() < text.len());
        let theirs = notations();
        assert_eq!(theirs.accepts((EnvelopeForm::Jws, envelope.as_bytes()), image(), SIGNED_AT), Ok(()));
        for mutant in mutants(envelope.as_bytes(), 400, &mut fastrand::Rng::with_seed(13)) {
            let judged = theirs.accepts((EnvelopeForm::Jws, &mutant), image(), SIGNED_AT);
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
            let envelope = envelope.to_string();
            self.certificate.accepts((EnvelopeForm::Jws, envelope.as_bytes()), image(), SIGNED_AT)
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
