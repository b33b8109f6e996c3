//! A certificate authority that lives as long as one test.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose, date_time_ymd};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// When a certificate may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    Now,
    Expired,
}

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

/// A name that is not this machine's, so that its certificate counts.
pub const STRANGER: &str = "registry.test";

/// A certificate for `localhost`, `127.0.0.1` and [`STRANGER`], as files and as bytes.
pub struct Leaf {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub der: Vec<u8>,
    pub pkcs8: Vec<u8>,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name.push(rcgen::DnType::CommonName, "rig authority");
        let key = KeyPair::generate().unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { issuer: Issuer::new(params, key), folder }
    }

    /// The file for `--cacert`.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    pub fn leaf(&self, validity: Validity) -> Leaf {
        self.leaf_for(&["localhost", "127.0.0.1", STRANGER], validity)
    }

    /// A certificate for other names than this machine's.
    pub fn leaf_for(&self, names: &[&str], validity: Validity) -> Leaf {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        if validity == Validity::Expired {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2002, 1, 1);
        }
        let pair = KeyPair::generate().unwrap();
        let signed = params.signed_by(&pair, &self.issuer).unwrap();
        let certificate = self.folder.path().join(format!("{validity:?}.pem"));
        let key = self.folder.path().join(format!("{validity:?}.key"));
        fs::write(&certificate, signed.pem()).unwrap();
        fs::write(&key, pair.serialize_pem()).unwrap();
        Leaf { certificate, key, der: signed.der().to_vec(), pkcs8: pair.serialize_der() }
    }
}

impl Leaf {
    /// What an in-process server needs to speak TLS with this certificate.
    pub fn server(&self) -> Arc<rustls::ServerConfig> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.pkcs8.clone()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_no_client_auth().with_single_cert(vec![self.der.clone().into()], key);
        Arc::new(config.unwrap())
    }
}
