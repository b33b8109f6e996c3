//! Keys that sign and keys that are trusted: ECDSA on P-256 with SHA-256, and Ed25519.
//!
//! The rule this file owns: a private key is wiped when it is dropped, and neither it nor its password gets into a
//! message. Signatures are deterministic (RFC 6979, RFC 8032): a second run writes the same bytes.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crypto_secretbox::aead::{Aead as _, KeyInit as _};
use crypto_secretbox::{Nonce, XSalsa20Poly1305};
use p256::ecdsa::signature::{Signer as _, Verifier as _};
use p256::pkcs8::{DecodePrivateKey as _, DecodePublicKey as _, EncodePublicKey as _};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::pem;
use oci::Digest;
use oci::error::{Error, Result};

/// The variable with the password of cosign's keys. It is kept from other programs.
pub const SIGNING_PASSWORD: &str = "COSIGN_PASSWORD";
/// More memory than this is not spent on a password.
const SCRYPT_MEMORY: u64 = 512 << 20;

/// A key to sign with.
pub enum SigningKey {
    Ecdsa(p256::ecdsa::SigningKey),
    Ed25519(Box<ed25519_dalek::SigningKey>),
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public().fingerprint())
    }
}

/// Asks for the password of an encrypted key; called only where the key is one.
pub type AskPassword<'a> = &'a dyn Fn() -> Result<Zeroizing<String>>;

const NEW_KEY: &str = "make one with `cosign generate-key-pair` or `openssl genpkey -algorithm ed25519`";

impl SigningKey {
    /// Reads a PEM file: cosign's encrypted key, PKCS #8, or SEC 1.
    pub fn read(text: &str, password: AskPassword<'_>) -> Result<Self> {
        let is_private = |block: &pem::PemBlock| block.label.ends_with("PRIVATE KEY");
        let block = pem::blocks(text)
            .into_iter()
            .find(is_private)
            .ok_or_else(|| Error::usage("there is no private key in PEM form in this file").hint(NEW_KEY))?;
        match block.label.as_str() {
            "ENCRYPTED SIGSTORE PRIVATE KEY" | "ENCRYPTED COSIGN PRIVATE KEY" => {
                Self::from_pkcs8(&decrypt(&block.bytes, password()?.as_bytes())?)
            }
            "PRIVATE KEY" => Self::from_pkcs8(&block.bytes),
            "EC PRIVATE KEY" => {
                let key = p256::SecretKey::from_sec1_der(&block.bytes).map_err(|_| unsupported(&block.label))?;
                Ok(Self::Ecdsa(key.into()))
            }
            "ENCRYPTED PRIVATE KEY" => Err(unsupported(&block.label).hint(
                "decrypt it with `openssl pkey -in FILE -out PLAIN`; `cosign import-key-pair --key PLAIN` encrypts it in the form that is read",
            )),
            label => Err(unsupported(label).hint(NEW_KEY)),
        }
    }

    fn from_pkcs8(der: &[u8]) -> Result<Self> {
        if let Ok(key) = p256::ecdsa::SigningKey::from_pkcs8_der(der) {
            return Ok(Self::Ecdsa(key));
        }
        let key = ed25519_dalek::SigningKey::from_pkcs8_der(der).map_err(|_| unsupported("PRIVATE KEY"))?;
        Ok(Self::Ed25519(Box::new(key)))
    }

    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Ecdsa(key) => {
                let signature: p256::ecdsa::DerSignature = key.sign(message);
                signature.as_bytes().to_vec()
            }
            Self::Ed25519(key) => key.sign(message).to_bytes().to_vec(),
        }
    }

    #[must_use]
    pub fn public(&self) -> PublicKey {
        match self {
            Self::Ecdsa(key) => PublicKey::Ecdsa(*key.verifying_key()),
            Self::Ed25519(key) => PublicKey::Ed25519(key.verifying_key()),
        }
    }
}

fn unsupported(label: &str) -> Error {
    Error::usage("the key cannot be used: only ECDSA keys on P-256 and Ed25519 keys are supported")
        .fact("PEM label", label)
}

#[derive(Deserialize)]
struct EncryptedKey {
    kdf: KeyDerivation,
    cipher: KeyCipher,
    ciphertext: String,
}

#[derive(Deserialize)]
struct KeyDerivation {
    name: String,
    params: ScryptParams,
    salt: String,
}

#[derive(Deserialize)]
struct ScryptParams {
    #[serde(rename = "N")]
    n: u64,
    r: u32,
    p: u32,
}

#[derive(Deserialize)]
struct KeyCipher {
    name: String,
    nonce: String,
}

/// The PKCS #8 key inside the box that cosign makes: scrypt, and nacl's secretbox.
fn decrypt(json: &[u8], password: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    let damaged = || Error::usage("the encrypted key is damaged, or encrypted in an unknown way");
    let sealed: EncryptedKey = serde_json::from_slice(json).map_err(|_| damaged())?;
    if sealed.kdf.name != "scrypt" || sealed.cipher.name != "nacl/secretbox" {
        return Err(damaged());
    }
    let params = &sealed.kdf.params;
    let memory = 128u64.checked_mul(params.n).and_then(|bytes| bytes.checked_mul(params.r.into()));
    let is_bounded = params.n.is_power_of_two() && params.p <= 16 && memory.is_some_and(|bytes| bytes <= SCRYPT_MEMORY);
    let log_n = u8::try_from(params.n.trailing_zeros()).ok().filter(|_| is_bounded).ok_or_else(damaged)?;
    let params = scrypt::Params::new(log_n, params.r, params.p).map_err(|_| damaged())?;
    let decode = |text: &str| STANDARD.decode(text).map_err(|_| damaged());
    let (salt, nonce, boxed) = (decode(&sealed.kdf.salt)?, decode(&sealed.cipher.nonce)?, decode(&sealed.ciphertext)?);
    let mut key = Zeroizing::new([0u8; 32]);
    scrypt::scrypt(password, &salt, &params, key.as_mut_slice()).map_err(|_| damaged())?;
    let nonce: [u8; 24] = nonce.try_into().map_err(|_| damaged())?;
    let opened = XSalsa20Poly1305::new(key.as_slice().into()).decrypt(Nonce::from_slice(&nonce), boxed.as_slice());
    opened.map(Zeroizing::new).map_err(|_| {
        Error::usage("the password does not open the signing key")
            .hint(format!("set {SIGNING_PASSWORD} to the password that the key was made with"))
    })
}

/// A key to check with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublicKey {
    Ecdsa(p256::ecdsa::VerifyingKey),
    Ed25519(ed25519_dalek::VerifyingKey),
}

const PUBLIC_KEY: &str = "`cosign public-key --key cosign.key` prints it";

impl PublicKey {
    /// Reads the keys of a PEM file, of which there is at least one.
    pub fn read_all(text: &str) -> Result<Vec<Self>> {
        let blocks = pem::blocks(text);
        if let Some(private) = blocks.iter().find(|block| block.label.ends_with("PRIVATE KEY")) {
            return Err(Error::usage("this is a private key; a policy needs the public one")
                .fact("PEM label", &private.label)
                .hint(PUBLIC_KEY));
        }
        let keys = blocks.iter().filter(|block| block.label == "PUBLIC KEY").map(|block| Self::from_der(&block.bytes));
        let keys = keys.collect::<Result<Vec<Self>>>()?;
        if keys.is_empty() {
            return Err(Error::usage("there is no public key in PEM form in this file").hint(PUBLIC_KEY));
        }
        Ok(keys)
    }

    fn from_der(der: &[u8]) -> Result<Self> {
        if let Ok(key) = p256::ecdsa::VerifyingKey::from_public_key_der(der) {
            return Ok(Self::Ecdsa(key));
        }
        ed25519_dalek::VerifyingKey::from_public_key_der(der).map(Self::Ed25519).map_err(|_| unsupported("PUBLIC KEY"))
    }

    /// Whether the owner of the key signed the message.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Ecdsa(key) => p256::ecdsa::DerSignature::try_from(signature)
                .is_ok_and(|signature| key.verify(message, &signature).is_ok()),
            Self::Ed25519(key) => ed25519_dalek::Signature::from_slice(signature)
                .is_ok_and(|signature| key.verify_strict(message, &signature).is_ok()),
        }
    }

    /// The key in the form that tools compare: the digest of its DER.
    #[must_use]
    pub fn fingerprint(&self) -> Digest {
        Digest::of(&self.der())
    }

    /// The hint that a sigstore bundle gives about the key.
    #[must_use]
    pub(super) fn hint(&self) -> String {
        use sha2::Digest as _;
        STANDARD.encode(sha2::Sha256::digest(self.der()))
    }

    fn der(&self) -> Vec<u8> {
        let der = match self {
            Self::Ecdsa(key) => key.to_public_key_der(),
            Self::Ed25519(key) => key.to_public_key_der(),
        };
        der.map(|der| der.as_bytes().to_vec()).unwrap_or_default()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Made with `openssl genpkey` for these tests; they are worth nothing.
    pub const ECDSA: &str = include_str!("../../testdata/attest/ecdsa.pem");
    pub const SEC1: &str = include_str!("../../testdata/attest/ecdsa-sec1.pem");
    pub const ED25519: &str = include_str!("../../testdata/attest/ed25519.pem");
    /// Made with cosign 3.1, password `secret`.
    const COSIGN: &str = include_str!("../../testdata/attest/cosign.key");
    const COSIGN_PUBLIC: &str = include_str!("../../testdata/attest/cosign.pub");

    pub fn key(text: &str) -> SigningKey {
        SigningKey::read(text, &|| panic!("asked for a password")).unwrap()
    }

    fn with_password(password: &'static str) -> Result<SigningKey> {
        SigningKey::read(COSIGN, &|| Ok(Zeroizing::new(password.to_owned())))
    }

    #[test]
    fn every_form_of_a_key_is_read_and_signs_the_same_twice() {
        for text in [ECDSA, SEC1, ED25519] {
            let key = key(text);
            let signature = key.sign(b"x");
            assert_eq!(signature, key.sign(b"x"));
            assert!(key.public().verifies(b"x", &signature) && !key.public().verifies(b"y", &signature));
        }
        assert_eq!(key(ECDSA).public(), key(SEC1).public(), "one key in two forms");
    }

    #[test]
    fn cosigns_key_opens_with_its_password_only() {
        let key = with_password("secret").unwrap();
        assert_eq!([key.public()], PublicKey::read_all(COSIGN_PUBLIC).unwrap().as_slice());
        let error = with_password("Secret").unwrap_err().to_string();
        assert!(error.contains("the password does not open") && !error.contains("Secret"), "{error}");
    }

    #[test]
    fn neither_key_nor_password_is_in_a_message() {
        let shown = format!("{:?}", key(ED25519));
        assert!(shown.starts_with("SigningKey(sha256:"), "{shown}");
        for (text, what) in [
            ("", "no private key"),
            (COSIGN_PUBLIC, "no private key"),
            ("-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n", "only ECDSA keys on P-256"),
            ("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n", "only ECDSA"),
            ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "only ECDSA"),
            (
                "-----BEGIN ENCRYPTED COSIGN PRIVATE KEY-----\ne30=\n-----END ENCRYPTED COSIGN PRIVATE KEY-----\n",
                "damaged",
            ),
        ] {
            let error = SigningKey::read(text, &|| Ok(Zeroizing::new("pw-pw".to_owned()))).unwrap_err().to_string();
            assert!(error.contains(what) && !error.contains("AAAA") && !error.contains("pw-pw"), "{error}");
        }
        assert!(PublicKey::read_all(ECDSA).unwrap_err().what().contains("private key"));
    }

    #[test]
    fn a_key_that_would_take_all_memory_is_refused() {
        let sealed = |n: u64, r: u32| {
            format!(
                r#"{{"kdf":{{"name":"scrypt","params":{{"N":{n},"r":{r},"p":1}},"salt":"AA=="}},"cipher":{{"name":"nacl/secretbox","nonce":"AA=="}},"ciphertext":"AA=="}}"#
            )
        };
        for (n, r) in [(1 << 40, 8), (0, 8), (3, 8), (65_536, u32::MAX), (u64::MAX, 8)] {
            assert!(decrypt(sealed(n, r).as_bytes(), b"x").unwrap_err().what().contains("damaged"), "{n} {r}");
        }
    }
}
