//! From statements to what is attached: one manifest each, with the document that it is about as its `subject`.

use serde_json::{Map, Value, json};

use super::bundle::{self, BUNDLE, BUNDLE_PREDICATE_TYPE};
use super::key::SigningKey;
use super::statement::Statement;
use oci::error::Result;
use oci::{Descriptor, Digest, Document, MediaType, Referrer, json as canonical};

/// The media type of a statement that nobody signed.
pub const IN_TOTO: &str = "application/vnd.in-toto+json";
/// Where such a statement says what it claims, as `BuildKit`'s attestations do.
pub const PREDICATE_TYPE: &str = "in-toto.io/predicate-type";
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
const EMPTY_BYTES: &[u8] = b"{}";

/// A manifest about another one, with the blobs that it needs.
#[derive(Debug, Clone)]
pub struct Attachment {
    pub subject: Digest,
    pub predicate_type: String,
    pub manifest: Document,
    /// The same for every attachment: a place needs it once.
    pub config: (Descriptor, Vec<u8>),
    /// The statement, or the bundle that holds it.
    pub layer: (Descriptor, Vec<u8>),
}

impl Attachment {
    /// As a list of referrers has it.
    #[must_use]
    pub fn referrer(&self) -> Referrer {
        Referrer::of(&self.manifest)
    }
}

/// What is attached for each statement: itself, or with a key a sigstore bundle around its signed envelope.
pub fn attachments(statements: &[Statement], key: Option<&SigningKey>) -> Result<Vec<Attachment>> {
    statements.iter().map(|statement| attachment(statement, key)).collect()
}

fn attachment(statement: &Statement, key: Option<&SigningKey>) -> Result<Attachment> {
    let predicate_type = &statement.predicate_type;
    let (media_type, bytes, annotations) = match key {
        None => (IN_TOTO, statement.bytes(), json!({PREDICATE_TYPE: predicate_type})),
        Some(key) => (
            BUNDLE,
            bundle::seal(&statement.bytes(), key),
            json!({"dev.sigstore.bundle.content": "dsse-envelope", BUNDLE_PREDICATE_TYPE: predicate_type}),
        ),
    };
    let config = Descriptor::of(MediaType::new(EMPTY), EMPTY_BYTES);
    let layer = Descriptor::of(MediaType::new(media_type), &bytes);
    let mut manifest = Map::new();
    manifest.insert("schemaVersion".into(), 2.into());
    manifest.insert("mediaType".into(), MediaType::oci_manifest().as_str().into());
    manifest.insert("artifactType".into(), media_type.into());
    manifest.insert("config".into(), config.to_value());
    manifest.insert("layers".into(), json!([layer.to_value()]));
    manifest.insert("subject".into(), bare(&statement.subject).to_value());
    manifest.insert("annotations".into(), annotations);
    Ok(Attachment {
        subject: statement.subject.digest,
        predicate_type: predicate_type.clone(),
        manifest: Document::read(canonical::write(&Value::Object(manifest)), None)?,
        config: (config, EMPTY_BYTES.to_vec()),
        layer: (layer, bytes),
    })
}

/// Type, digest and size alone.
fn bare(of: &Descriptor) -> Descriptor {
    Descriptor::new(of.media_type.clone(), of.digest, of.size)
}
