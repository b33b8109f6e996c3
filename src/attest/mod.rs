//! Statements about a result, and the signatures over them: bytes in, bytes out.
//!
//! ```text
//! provenance ─┐
//! SBOM ───────┤
//! (others)    ├► Statement ► Attachment (a manifest with a `subject`) ► store
//! signature ──┘      └ with a key: in a signed envelope, in a sigstore bundle
//! ```
//!
//! The rule this directory owns: a statement is *about* a digest and never in it, and the same inputs give the same
//! bytes: no time, no random number, no place. So a second run finds what the first one attached.

mod attachment;
mod bundle;
mod cbor;
mod comparison;
mod key;
mod notation;
mod pem;
mod provenance;
pub mod sbom;
mod statement;
mod trust;

pub use attachment::{Attachment, IN_TOTO, PREDICATE_TYPE, attachments};
pub use bundle::{BUNDLE, BUNDLE_PREDICATE_TYPE, Rejection, sealed_statement, unchecked_statement};
pub use comparison::{differences, is_ours};
pub use key::{PublicKey, SIGNING_PASSWORD, SigningKey};
pub use notation::{EnvelopeForm, NOTATION};
pub use provenance::{PROVENANCE, SourceReferrer, provenance};
pub use statement::{ReadStatement, SIGNATURE, Statement, signature};
pub use trust::{SIMPLE_SIGNATURE, SIMPLE_SIGNING, SignatureDemand};
