//! A finding: one rule that had something to say about one image.

use serde::Serialize;

use super::rule::Rule;
use crate::oci::Platform;

/// What a finding means for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Note,
    Warn,
    /// Would refuse, but was allowed.
    Excepted,
    Refuse,
}

impl Level {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warn => "warn",
            Self::Excepted => "excepted",
            Self::Refuse => "refuse",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub rule: Rule,
    pub level: Level,
    pub message: String,
    pub evidence: String,
    pub fix: String,
    /// The file in the image that it is about.
    pub path: Option<String>,
}

impl Finding {
    pub(crate) fn new(rule: Rule, level: Level, message: impl Into<String>) -> Self {
        Self { rule, level, message: message.into(), evidence: String::new(), fix: String::new(), path: None }
    }

    #[must_use]
    pub(crate) fn about(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    #[must_use]
    pub(crate) fn evidence(mut self, evidence: impl Into<String>) -> Self {
        self.evidence = evidence.into();
        self
    }

    #[must_use]
    pub(crate) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = fix.into();
        self
    }
}

/// All findings of a run: those of each platform, in the subject's order, and those of platforms
/// that could not be looked at.
#[derive(Debug, Default)]
pub struct Findings {
    pub platforms: Vec<Vec<Finding>>,
    pub missing: Vec<(Platform, Finding)>,
}

impl Findings {
    /// Whether any finding forbids the move.
    #[must_use]
    pub fn refuse(&self) -> bool {
        let missing = self.missing.iter().map(|(_, finding)| finding);
        self.platforms.iter().flatten().chain(missing).any(|finding| finding.level == Level::Refuse)
    }
}
