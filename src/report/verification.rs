//! What `verify` found: whether an image can be reproduced from its recorded inputs.

use serde::Serialize;

use super::model::ReportedFinding;
use super::rows::{Reportable, Row, RowFinding, RowOutcome, Rows};
use super::to_json;
use crate::rules::{Level, Rule};
use oci::Digest;
use oci::error::printable;

/// Whether the inputs gave the image again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VerifyOutcome {
    Same,
    Different,
}

#[derive(Debug, Serialize)]
pub struct Verification {
    pub schema: &'static str,
    pub outcome: VerifyOutcome,
    pub image: String,
    pub source: String,
    pub base: String,
    /// The digest of the image that was verified.
    pub digest: Digest,
    /// The digest that its recorded inputs give.
    pub derived: Digest,
    /// The provenance that is attached to it, held against what its inputs give.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attestations: Vec<VerifiedAttestation>,
}

/// A statement that is attached to the image. Who signed it is not checked.
#[derive(Debug, Serialize)]
pub struct VerifiedAttestation {
    pub digest: Digest,
    pub subject: Digest,
    pub predicate_type: String,
    /// The fields that differ from what was derived; none where it is true.
    pub differences: Vec<String>,
}

impl Reportable for Verification {
    fn text(&self) -> String {
        let Self { image, source, base, digest, derived, .. } = self;
        let facts = format!("  source   {source}\n  base     {base}\n  digest   {digest}\n");
        match self.outcome {
            VerifyOutcome::Same => {
                let lines = self.attestations.iter().map(|it| format!("  attested {}\n", it.predicate_type));
                let attested = lines.collect::<Vec<_>>().concat();
                format!("verified: {image} matches its recorded inputs\n{facts}{attested}")
            }
            VerifyOutcome::Different if digest == derived => {
                let differences = self.differences().map(|it| printable(&it)).collect::<Vec<_>>().join("\n           ");
                format!("refused: a statement attached to {image} is not true of it\n{facts}  differs  {differences}\n")
            }
            VerifyOutcome::Different => {
                format!("refused: {image} does not match its recorded inputs\n{facts}  derived  {derived}\n")
            }
        }
    }

    fn json(&self) -> String {
        to_json(self)
    }

    fn rows(&self) -> Rows<'_> {
        let row = match self.outcome {
            VerifyOutcome::Same => Row::new(&self.image, RowOutcome::Verified),
            VerifyOutcome::Different => {
                let findings = vec![RowFinding::plain(self.difference(), None)];
                Row { findings, ..Row::new(&self.image, RowOutcome::Refused) }
            }
        };
        Rows {
            command: "verify",
            thing: "image",
            list: vec![Row { bases: vec![self.base.clone()], facts: self.facts(), ..row }],
        }
    }
}

impl Verification {
    fn facts(&self) -> Vec<(&'static str, String)> {
        let Self { source, base, digest, derived, .. } = self;
        let facts = [("Source", source.clone()), ("Base", base.clone()), ("Digest", digest.to_string())];
        facts.into_iter().chain((digest != derived).then(|| ("Derived", derived.to_string()))).collect()
    }

    fn differences(&self) -> impl Iterator<Item = String> {
        self.attestations
            .iter()
            .flat_map(|it| it.differences.iter().map(move |difference| format!("{}: {difference}", it.digest)))
    }

    fn difference(&self) -> ReportedFinding {
        let Self { source, base, digest, derived, .. } = self;
        if digest == derived {
            return ReportedFinding {
                rule: Rule::AttestationDiffers,
                level: Level::Refuse,
                message: "a statement that is attached to the image is not true of it".to_owned(),
                evidence: self.differences().collect::<Vec<_>>().join("\n"),
                fix: Rule::AttestationDiffers.fix().to_owned(),
            };
        }
        ReportedFinding {
            rule: Rule::DigestUnexpected,
            level: Level::Refuse,
            message: "the image does not match its recorded inputs".to_owned(),
            evidence: format!("source {source}\nbase {base}\ndigest {digest}\nderived {derived}"),
            fix: "do not use it; rebase the source again".to_owned(),
        }
    }
}
