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
use crate::policy::other_name;
use oci::error::{Error, Result};
use oci::{Digest, Location, RegistryHost, RepositoryName, json as canonical_json};

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
        let patterns = patterns.iter().map(|text| matcher(text)).collect::<Result<Vec<_>>>()?;
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
        match image.repository() {
            Some(name) => self.covers_name(name),
            None => self.patterns.iter().any(|pattern| pattern.is_match(image.without_digest())),
        }
    }

    /// Whether an image that is recorded under this name must be signed. A pattern may have the host in any of its
    /// spellings, and all ports that may be left out count as one: in doubt a signature is demanded.
    #[must_use]
    pub fn covers_name(&self, name: &RepositoryName) -> bool {
        let other = other_name(name);
        let mut names = std::iter::once(name).chain(&other).flat_map(RepositoryName::spellings);
        names.any(|name| self.patterns.iter().any(|pattern| pattern.is_match(&name)))
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
        let object = canonical_json::read_object(payload, "the payload").map_err(|error| malformed(error.what()))?;
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

/// What makes a text a pattern.
const MARKS: [char; 5] = ['*', '?', '[', '{', '\\'];
/// Patterns of what is no registry: the case of a path counts.
const TRANSPORTS: [&str; 5] = ["oci:", "oci-archive:", "docker-archive:", "docker-daemon:", "containers-storage:"];

fn matcher(text: &str) -> Result<GlobMatcher> {
    let refuse = || Error::usage("not a pattern of image names").fact("pattern", text);
    let is_elsewhere = TRANSPORTS.iter().any(|transport| text.starts_with(transport));
    let canonical = if is_elsewhere { text.to_owned() } else { canonical(text).map_err(|why| refuse().cause(why))? };
    let glob = GlobBuilder::new(&canonical).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| refuse().cause(error.kind()))
}

/// The pattern in the spelling that names have: lower case, no zeros before a port, addresses and short names written
/// out. One that could never match is refused, because whoever wrote it relies on it.
fn canonical(pattern: &str) -> Result<String, String> {
    let pattern = pattern.strip_prefix("docker://").unwrap_or(pattern).to_ascii_lowercase();
    let Some((host, path)) = pattern.split_once('/') else { return one_word(pattern) };
    // In braces there may be several names.
    if host.contains('{') {
        return Ok(pattern);
    }
    if path.contains([':', '@']) {
        return Err("a pattern names repositories, without a tag or digest".to_owned());
    }
    let is_host = host.contains(['.', ':']) || host == "localhost";
    match host.parse::<RegistryHost>() {
        Ok(host) if is_host => {
            let is_short = host.is_docker_hub() && !path.contains('/') && !path.contains("**");
            Ok(format!("{}/{}{path}", globset::escape(host.as_str()), if is_short { "library/" } else { "" }))
        }
        Ok(_) => Ok(format!("docker.io/{pattern}")),
        Err(_) if host.contains(MARKS) => Ok(format!("{}/{path}", without_zeros(host))),
        Err(error) => Err(error.what().to_owned()),
    }
}

/// A pattern without a slash: a short name of Docker Hub, or one that stands for everything.
fn one_word(pattern: String) -> Result<String, String> {
    match pattern.contains(MARKS) {
        true => Ok(pattern),
        false if pattern.contains(['.', ':', '@']) || pattern == "localhost" => {
            Err("for all of a registry write HOST/**; a tag or digest is not part of a pattern".to_owned())
        }
        false => Ok(format!("docker.io/library/{pattern}")),
    }
}

/// A pattern of hosts with its port as names have it.
fn without_zeros(host: &str) -> String {
    match host.rsplit_once(':').and_then(|(name, port)| Some((name, port.parse::<u16>().ok()?))) {
        Some((name, port)) => format!("{name}:{port}"),
        None => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::attest::bundle::tests::{COSIGN_PUBLIC, mutants};
    use crate::attest::key::tests::{ECDSA, ED25519, key};
    use crate::attest::{Statement, attachments, signature};
    use oci::{Descriptor, MediaType};

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
    fn neither_a_pattern_nor_an_image_escapes_by_its_spelling() {
        for (pattern, image, covered) in [
            ("gcr.io/bases/*", "GCR.IO/bases/static", true),
            ("gcr.io/bases/*", "gcr.io:443/bases/static", true),
            ("gcr.io/bases/*", "gcr.io:00443/bases/static", true),
            ("gcr.io/bases/*", "gcr.io:80/bases/static", true),
            ("gcr.io/bases/*", "gcr.io:5000/bases/static", false),
            ("gcr.io:443/bases/*", "gcr.io/bases/static", true),
            ("gcr.io:0443/bases/*", "gcr.io/bases/static", true),
            ("GCR.io/Bases/*", "gcr.io/bases/static", true),
            ("docker://gcr.io/bases/*", "gcr.io/bases/static", true),
            ("*.GCR.io/**", "eu.gcr.io/x/y", true),
            ("*.gcr.io:0443/**", "eu.gcr.io/x/y", true),
            ("*.gcr.io/**", "eu.gcr.io:443/x/y", true),
            ("{GCR.io,quay.io}/**", "gcr.io/x", true),
            ("{gcr.io/a,quay.io:5000/b}/*", "quay.io:5000/b/x", true),
            ("127.0.0.1:5000/**", "127.0.0.1:05000/x", true),
            ("127.0.0.1:05000/**", "127.0.0.1:5000/x", true),
            ("127.0.0.1:5000/**", "[::ffff:127.0.0.1]:5000/x", true),
            ("[::ffff:7f00:1]:5000/**", "127.0.0.1:5000/x", true),
            ("[::1]:5000/**", "[0:0:0:0:0:0:0:1]:5000/x", true),
            ("[0:0:0:0:0:0:0:1]:5000/**", "[::1]:5000/x", true),
            ("[::1]/**", "[::1]:80/x", true),
            ("localhost/**", "LOCALHOST:80/x", true),
            ("localhost:443/**", "localhost/x", true),
            ("localhost:5000/**", "localhost:5001/x", false),
            ("docker.io/library/*", "debian", true),
            ("index.docker.io/library/*", "debian:12", true),
            ("registry-1.docker.io:443/library/debian", "docker.io/debian", true),
            ("docker.io/debian", "index.docker.io/library/debian", true),
            ("debian", "debian:12", true),
            ("library/*", "debian:12", true),
            ("grafana/*", "Docker.io/grafana/loki", true),
            ("grafana/*", "gcr.io/grafana/loki", false),
            ("docker.io/*/debian", "debian", true),
            ("docker.io/deb*", "debian", true),
            ("docker.io/**", "grafana/loki", true),
            ("**", "gcr.io/x", true),
            ("**/debian", "debian", true),
            ("*/*", "gcr.io/x/y", false),
            ("registry.k8s.io/**", "k8s.gcr.io/build-image/debian-base", true),
            ("k8s.gcr.io/**", "Registry.k8s.io:443/pause", true),
            ("gcr.io/*", "gcr.io.evil.io/x", false),
            ("gcr.io/*", "gcrxio.example/x", false),
        ] {
            let demand = SignatureDemand::new(&[pattern.to_owned()], &[]).unwrap();
            assert_eq!(demand.covers(&image.parse().unwrap()), covered, "{pattern} {image}");
        }
    }

    #[test]
    fn a_pattern_that_could_never_match_is_refused() {
        for pattern in
            ["gcr.io./*", "127.1/*", "gcr.io:99999/x", "gcr.io/x:v1", "gcr.io/x@sha256:00", "debian:12", "gcr.io"]
        {
            assert!(SignatureDemand::new(&[pattern.to_owned()], &[]).is_err(), "{pattern}");
        }
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
