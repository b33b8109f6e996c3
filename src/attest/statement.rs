//! The in-toto Statement v1: a predicate about a digest.

use serde_json::{Map, Value, json};

use oci::error::{Error, Result};
use oci::{Descriptor, Digest, json as canonical};

const STATEMENT_V1: &str = "https://in-toto.io/Statement/v1";
/// What cosign's `attest` still writes.
const STATEMENT_V0_1: &str = "https://in-toto.io/Statement/v0.1";
/// The predicate of a plain signature, as cosign 3 has it: it says nothing but that the key's owner signed.
pub const SIGNATURE: &str = "https://sigstore.dev/cosign/sign/v1";

/// A claim about one manifest or index.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// The document it is about.
    pub subject: Descriptor,
    /// A name for people; the digest is what counts.
    pub name: Option<String>,
    pub predicate_type: String,
    pub predicate: Value,
}

/// The statement that a signature is.
#[must_use]
pub fn signature(subject: &Descriptor) -> Statement {
    Statement { subject: subject.clone(), name: None, predicate_type: SIGNATURE.to_owned(), predicate: json!({}) }
}

impl Statement {
    /// Its only spelling.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut subject = Map::new();
        if let Some(name) = &self.name {
            subject.insert("name".to_owned(), name.as_str().into());
        }
        subject.insert("digest".to_owned(), json!({"sha256": self.subject.digest.hex()}));
        canonical::write(&json!({
            "_type": STATEMENT_V1,
            "subject": [subject],
            "predicateType": self.predicate_type,
            "predicate": self.predicate,
        }))
    }
}

/// A statement that somebody wrote.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadStatement {
    pub subjects: Vec<Digest>,
    pub predicate_type: String,
    pub predicate: Value,
}

impl ReadStatement {
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let mut object = canonical::read_object(bytes, "the statement")?;
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let kind = text("_type");
        if ![STATEMENT_V1, STATEMENT_V0_1].contains(&kind.as_str()) {
            return Err(Error::input("not an in-toto statement").fact("type", kind));
        }
        let subjects = object.get("subject").and_then(Value::as_array).into_iter().flatten();
        let digest = |subject: &Value| {
            let hex = subject.get("digest")?.get("sha256")?.as_str()?;
            format!("sha256:{hex}").parse::<Digest>().ok()
        };
        let subjects: Vec<Digest> = subjects.filter_map(digest).collect();
        let predicate_type = text("predicateType");
        if subjects.is_empty() || predicate_type.is_empty() {
            return Err(Error::input("the statement names no digest, or does not say what it claims"));
        }
        Ok(Self { subjects, predicate_type, predicate: object.shift_remove("predicate").unwrap_or(Value::Null) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oci::MediaType;

    #[test]
    fn what_is_written_is_read_and_nothing_else_is_a_statement() {
        let statement = signature(&Descriptor::of(MediaType::oci_manifest(), b"x"));
        let read = ReadStatement::read(&statement.bytes()).unwrap();
        assert_eq!((read.subjects, read.predicate_type.as_str()), (vec![Digest::of(b"x")], SIGNATURE));
        let text = String::from_utf8(statement.bytes()).unwrap();
        for (part, other) in [
            ("Statement/v1", "Statement/v2"),
            ("\"sha256\"", "\"sha512\""),
            ("\"predicateType\"", "\"predicatetype\""),
            ("\"predicate\":{}", "\"predicate\":{},\"predicate\":{}"),
            ("\"subject\"", "\"subjects\""),
        ] {
            assert!(
                text.contains(part) && ReadStatement::read(text.replace(part, other).as_bytes()).is_err(),
                "{other}"
            );
        }
    }
}
