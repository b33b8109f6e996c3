//! Whose signature an image must carry, and whether one counts: cosign's bundles, its signatures of old, and notation's.
//!
//! The rule this file owns: a signature counts where a trusted key made it, over this digest, as a signature of an image.
//! Whatever is missing is named. Nothing else about it is believed: not the name in it, nor the annotations around it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use globset::{GlobBuilder, GlobMatcher};
use serde_json::Value;

use super::bundle::{Rejection, sealed_statement};
use super::key::PublicKey;
use super::notation::{EnvelopeForm, TrustedCertificate};
use super::pem;
use super::statement::SIGNATURE;
use crate::error::{Error, Result};
use crate::oci::{Digest, Location, json as canonical};

/// What cosign 1 and 2 sign: a document with the digest in it, under the tag `sha256-HEX.sig`.
pub const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// Where the signature over it is.
pub const SIMPLE_SIGNATURE: &str = "dev.cosignproject.cosign/signature";
const SIMPLE_TYPE: &str = "cosign container image signature";

/// Images that must be signed, and by whom.
#[derive(Debug, Clone)]
pub struct SignatureDemand {
    patterns: Vec<GlobMatcher>,
    /// Any one of them will do.
    pub keys: Vec<PublicKey>,
    /// Of those who sign with notation.
    pub certificates: Vec<TrustedCertificate>,
    /// The files that the keys came from, for messages.
    pub files: Vec<String>,
}

impl SignatureDemand {
    /// A pattern is the name of a repository, in which `*` stands for anything but `/`, and `**` for anything.
    pub fn new(patterns: &[String], files: &[(String, String)]) -> Result<Self> {
        let glob = |text: &String| {
            let glob = GlobBuilder::new(text).literal_separator(true).build();
            glob.map(|glob| glob.compile_matcher())
                .map_err(|error| Error::usage("not a pattern of image names").fact("pattern", text).cause(error.kind()))
        };
        let patterns = patterns.iter().map(glob).collect::<Result<Vec<_>>>()?;
        let (mut keys, mut certificates) = (Vec::new(), Vec::new());
        for (name, text) in files {
            let blocks = pem::blocks(text);
            let given = blocks.iter().filter(|block| block.label == "CERTIFICATE");
            let given = given.map(|block| TrustedCertificate::read(&block.bytes)).collect::<Result<Vec<_>>>();
            let given = given.map_err(|error| error.fact("key", name))?;
            if given.is_empty() {
                keys.extend(PublicKey::read_all(text).map_err(|error| error.fact("key", name))?);
            }
            certificates.extend(given);
        }
        Ok(Self { patterns, keys, certificates, files: files.iter().map(|(name, _)| name.clone()).collect() })
    }

    /// Whether the image must be signed.
    #[must_use]
    pub fn covers(&self, image: &Location) -> bool {
        self.covers_name(&image.repository().map_or_else(|| image.without_digest(), ToString::to_string))
    }

    /// The same for a name under which it is recorded.
    #[must_use]
    pub fn covers_name(&self, name: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.is_match(name))
    }

    /// Whether a bundle is a signature of the image by one of the keys.
    pub fn accepts_bundle(&self, bundle: &[u8], image: Digest) -> Result<(), Rejection> {
        let statement = sealed_statement(bundle, &self.keys)?;
        if !statement.subjects.contains(&image) {
            return Err(Rejection::OtherDigest(statement.subjects));
        }
        // Whoever attests that an image has a flaw has not signed it.
        if statement.predicate_type != SIGNATURE {
            return Err(Rejection::OtherPredicate(statement.predicate_type));
        }
        Ok(())
    }

    /// The same for an envelope of notation, at `now` since 1970. Of several reasons the nearest to being right is given.
    pub fn accepts_notation(
        &self,
        envelope: (EnvelopeForm, &[u8]),
        image: Digest,
        now: Duration,
    ) -> Result<(), Rejection> {
        let mut why = Rejection::OtherKey;
        for certificate in &self.certificates {
            match certificate.accepts(envelope, image, now) {
                Ok(()) => return Ok(()),
                Err(Rejection::OtherKey) => {}
                Err(other) => why = other,
            }
        }
        Err(why)
    }

    /// The same for a signature of cosign 1 or 2: a payload, and the signature in base64.
    pub fn accepts_simple(&self, payload: &[u8], signature: &str, image: Digest) -> Result<(), Rejection> {
        let malformed = |why: &str| Rejection::Malformed(why.to_owned());
        let signature = STANDARD.decode(signature).map_err(|_| malformed("the signature is not base64"))?;
        if !self.keys.iter().any(|key| key.verifies(payload, &signature)) {
            return Err(Rejection::OtherKey);
        }
        let object = canonical::read_object(payload, "the payload").map_err(|error| malformed(error.what()))?;
        let critical = object.get("critical").ok_or_else(|| malformed("the payload names no image"))?;
        let kind = critical.get("type").and_then(Value::as_str).unwrap_or_default();
        if kind != SIMPLE_TYPE {
            return Err(Rejection::PayloadType(kind.to_owned()));
        }
        let digest =
            critical.get("image").and_then(|image| image.get("docker-manifest-digest")).and_then(Value::as_str);
        let digest: Digest =
            digest.and_then(|text| text.parse().ok()).ok_or_else(|| malformed("the payload names no digest"))?;
        if digest == image { Ok(()) } else { Err(Rejection::OtherDigest(vec![digest])) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::attest::bundle::tests::{COSIGN_PUBLIC, mutants};
    use crate::attest::key::tests::{ECDSA, ED25519, key};
    use crate::attest::{Statement, attachments, signature};
    use crate::oci::{Descriptor, MediaType};

    fn demand(keys: &[&str]) -> SignatureDemand {
        let patterns = ["a.io/bases/*".to_owned(), "oci:bases*".to_owned(), "b.io/**".to_owned()];
        let demand = SignatureDemand::new(&patterns, &[]).unwrap();
        SignatureDemand { keys: keys.iter().map(|text| key(text).public()).collect(), ..demand }
    }

    #[test]
    fn a_pattern_is_a_name_without_its_tag() {
        let demand = demand(&[]);
        for (image, covered) in [
            ("a.io/bases/static:v1", true),
            ("a.io/bases/x/static:v1", false),
            ("a.io/static", false),
            ("b.io/x/y/z", true),
            ("oci:bases:static", true),
            ("oci:other:static", false),
        ] {
            assert_eq!(demand.covers(&image.parse().unwrap()), covered, "{image}");
        }
        assert!(SignatureDemand::new(&["a[".to_owned()], &[]).is_err());
    }

    #[test]
    fn a_bundle_counts_for_its_digest_its_key_and_its_claim() {
        let image = Descriptor::of(MediaType::oci_manifest(), b"image");
        let sealed = |statement: Statement| attachments(&[statement], Some(&key(ECDSA))).unwrap().remove(0).layer.1;
        let plain = sealed(signature(&image));
        assert_eq!(demand(&[ED25519, ECDSA]).accepts_bundle(&plain, image.digest), Ok(()));
        assert_eq!(demand(&[ED25519]).accepts_bundle(&plain, image.digest), Err(Rejection::OtherKey));
        let other = demand(&[ECDSA]).accepts_bundle(&plain, Digest::of(b"other"));
        assert_eq!(other, Err(Rejection::OtherDigest(vec![image.digest])));
        let claim = Statement { predicate_type: "x/flaws".to_owned(), ..signature(&image) };
        let claim = demand(&[ECDSA]).accepts_bundle(&sealed(claim), image.digest);
        assert_eq!(claim, Err(Rejection::OtherPredicate("x/flaws".to_owned())));
    }

    #[test]
    fn a_simple_signature_counts_for_its_digest_its_key_and_its_type() {
        let digest = Digest::of(b"image");
        let payload = |kind: &str, digest: &str| {
            let critical = json!({"identity": {"docker-reference": "x"}, "image": {"docker-manifest-digest": digest}, "type": kind});
            json!({"critical": critical, "optional": null}).to_string().into_bytes()
        };
        let judge = |payload: &[u8], keys: &[&str]| {
            demand(keys).accepts_simple(payload, &STANDARD.encode(key(ECDSA).sign(payload)), digest)
        };
        let right = payload(SIMPLE_TYPE, &digest.to_string());
        assert_eq!(judge(&right, &[ECDSA]), Ok(()));
        assert_eq!(judge(&right, &[ED25519]), Err(Rejection::OtherKey));
        let other = Digest::of(b"other");
        assert_eq!(
            judge(&payload(SIMPLE_TYPE, &other.to_string()), &[ECDSA]),
            Err(Rejection::OtherDigest(vec![other]))
        );
        assert_eq!(judge(&payload("x", &digest.to_string()), &[ECDSA]), Err(Rejection::PayloadType("x".to_owned())));
        assert!(matches!(judge(b"{}", &[ECDSA]), Err(Rejection::Malformed(_))));
        assert!(matches!(judge(&payload(SIMPLE_TYPE, "x"), &[ECDSA]), Err(Rejection::Malformed(_))));
        assert!(matches!(demand(&[ECDSA]).accepts_simple(&right, "?", digest), Err(Rejection::Malformed(_))));
    }

    /// Payloads of which a byte was changed, with the signature over the intact one.
    #[test]
    fn mutated_payloads_are_not_accepted() {
        let digest = Digest::of(b"image");
        let intact =
            json!({"critical": {"image": {"docker-manifest-digest": digest.to_string()}, "type": SIMPLE_TYPE}})
                .to_string();
        let mut random = fastrand::Rng::with_seed(18);
        for text in [ECDSA, ED25519] {
            let signature = STANDARD.encode(key(text).sign(intact.as_bytes()));
            for mutant in mutants(intact.as_bytes(), 100, &mut random) {
                assert_eq!(demand(&[text]).accepts_simple(&mutant, &signature, digest), Err(Rejection::OtherKey));
            }
        }
    }

    /// What cosign 2.5 signed counts; nothing else does, be it the payload or the signature that was changed.
    #[test]
    fn mutants_of_cosigns_own_signature_are_not_accepted() {
        let payload = include_bytes!("../../testdata/attest/cosign2.payload");
        let signature = include_str!("../../testdata/attest/cosign2.sig").trim();
        let image = "sha256:01f5e9e0a3879826433b21063dff87e6907e75964cdc4e4c691ef6c5073dbcb1".parse().unwrap();
        let demand = SignatureDemand { keys: PublicKey::read_all(COSIGN_PUBLIC).unwrap(), ..demand(&[]) };
        assert_eq!(demand.accepts_simple(payload, signature, image), Ok(()));
        let mut random = fastrand::Rng::with_seed(25);
        for mutant in mutants(payload, 200, &mut random) {
            assert_eq!(demand.accepts_simple(&mutant, signature, image), Err(Rejection::OtherKey));
        }
        for mutant in mutants(signature.as_bytes(), 200, &mut random) {
            let mutant = String::from_utf8_lossy(&mutant);
            assert!(demand.accepts_simple(payload, &mutant, image).is_err(), "{mutant}");
        }
    }
}
