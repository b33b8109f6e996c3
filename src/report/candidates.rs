//! Bases that an image was tried on, with what excludes each: of `--base auto`, and of `inspect --bases`.

use std::fmt::Write as _;

use bytesize::ByteSize;
use serde::Serialize;

use crate::plan::TriedBase;
use crate::rules::Rule;
use oci::Location;
use oci::error::{Error, printable};

/// Whether an image could move to a base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaseFit {
    Fits,
    Excluded,
    /// It could not be examined.
    Unknown,
}

impl BaseFit {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::Excluded => "excluded",
            Self::Unknown => "unknown",
        }
    }
}

#[derive(Debug, Serialize)]
pub struct ReportedBase {
    pub reference: String,
    pub digest: String,
    pub size: u64,
    pub verdict: BaseFit,
    pub excluded_by: Vec<ReportedExclusion>,
    /// Why it could not be examined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A finding that refuses the move to a base.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct ReportedExclusion {
    pub platform: String,
    pub rule: Rule,
    pub message: String,
}

impl From<&TriedBase> for ReportedBase {
    fn from(tried: &TriedBase) -> Self {
        let exclusion = |(platform, finding): &(oci::Platform, crate::rules::Finding)| ReportedExclusion {
            platform: platform.to_string(),
            rule: finding.rule,
            message: finding.message.clone(),
        };
        Self {
            reference: tried.base.location.without_digest(),
            digest: tried.base.top.digest().to_string(),
            size: tried.size,
            verdict: if tried.fits() { BaseFit::Fits } else { BaseFit::Excluded },
            excluded_by: tried.refusals.iter().map(exclusion).collect(),
            error: None,
        }
    }
}

impl ReportedBase {
    /// One that may not have been reached.
    pub(super) fn of_attempt(location: &Location, attempt: &Result<TriedBase, Error>) -> Self {
        match attempt {
            Ok(tried) => tried.into(),
            Err(error) => Self {
                reference: location.without_digest(),
                digest: String::new(),
                size: 0,
                verdict: BaseFit::Unknown,
                excluded_by: Vec::new(),
                error: Some(error.what().to_owned()),
            },
        }
    }

    /// `fits`, `excluded`, or why it is not known.
    pub(super) fn verdict_words(&self) -> String {
        match &self.error {
            Some(error) => format!("{}: {error}", self.verdict.word()),
            None => self.verdict.word().to_owned(),
        }
    }
}

impl ReportedExclusion {
    /// `linux/amd64 [needs-tool] /app runs iptables, …`
    pub(super) fn line(&self) -> String {
        format!("{} [{}] {}", self.platform, self.rule, self.message)
    }
}

/// A line for each base, and below it one for each reason.
pub(super) fn base_lines(out: &mut String, head: &str, bases: &[ReportedBase]) {
    for base in bases {
        let (reference, words) = (printable(&base.reference), base.verdict_words());
        let size = if base.size > 0 { format!(" ({})", ByteSize(base.size)) } else { String::new() };
        let _ = writeln!(out, "{head:10}{reference}{size}: {}", printable(&words));
        for exclusion in &base.excluded_by {
            let _ = writeln!(out, "            {}", printable(&exclusion.line()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_that_could_not_be_reached_says_why() {
        let location: Location = "oci:gone:v1".parse().unwrap();
        let base = ReportedBase::of_attempt(&location, &Err(Error::input("there is no layout")));
        let mut out = String::new();
        base_lines(&mut out, "base", std::slice::from_ref(&base));
        assert_eq!(out, "base      oci:gone:v1: unknown: there is no layout\n");
        assert_eq!((base.verdict, base.verdict.word()), (BaseFit::Unknown, "unknown"));
    }

    #[test]
    fn each_reason_has_a_line_and_text_of_an_image_adds_none() {
        let exclusion =
            ReportedExclusion { platform: "linux/amd64".to_owned(), rule: Rule::NeedsTool, message: "a\nb".to_owned() };
        let base = ReportedBase {
            reference: "a.io/b".to_owned(),
            digest: String::new(),
            size: 2048,
            verdict: BaseFit::Excluded,
            excluded_by: vec![exclusion],
            error: None,
        };
        let mut out = String::new();
        base_lines(&mut out, "candidate", &[base]);
        assert_eq!(out, "candidate a.io/b (2.0 KiB): excluded\n            linux/amd64 [needs-tool] a\\nb\n");
    }
}
