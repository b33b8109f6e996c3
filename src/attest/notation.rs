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
            return Err(Rejection::Expired(format!("until {} s since 1970", self.valid.1.as_secs())));
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
            Err(Rejection::Expired(format!("the signature until {expiry}")))
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
