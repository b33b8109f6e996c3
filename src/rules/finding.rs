//! A finding: what one rule has to say about one image; and which refusals the user allows.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::table::Rule;
use oci::error::{Error, Result};

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
    /// What made an exception of a refusal.
    pub allowed_by: Option<Allow>,
}

impl Finding {
    pub(crate) fn new(rule: Rule, level: Level, message: impl Into<String>) -> Self {
        let (message, evidence, fix) = (message.into(), String::new(), String::new());
        Self { rule, level, message, evidence, fix, path: None, allowed_by: None }
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

/// `RULE` or `RULE=PATH`: with a path only the finding about that path is allowed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Allow {
    rule: Rule,
    path: Option<String>,
}

impl Allow {
    #[must_use]
    pub const fn rule(&self) -> Rule {
        self.rule
    }

    fn covers(&self, finding: &Finding) -> bool {
        self.rule == finding.rule && (self.path.is_none() || self.path == finding.path)
    }
}

/// Marks the refusals that were allowed; they stay in the report. Of several that cover one the first is what allowed
/// it, which is the widest where they are sorted.
pub fn apply_allowed(allowed: &[Allow], findings: &mut [Finding]) {
    for finding in findings.iter_mut().filter(|finding| finding.level == Level::Refuse) {
        if let Some(allow) = allowed.iter().find(|allow| allow.covers(finding)) {
            finding.level = Level::Excepted;
            finding.allowed_by = Some(allow.clone());
        }
    }
}

impl FromStr for Allow {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (id, path) = match text.split_once('=') {
            Some((id, path)) => (id, Some(path.to_owned())),
            None => (text, None),
        };
        let rule = Rule::allowable().find(|rule| rule.id() == id).ok_or_else(|| {
            let ids: Vec<&str> = Rule::allowable().map(Rule::id).collect();
            Error::usage("--allow names no rule that can be allowed").fact("given", text).fact("rules", ids.join(", "))
        })?;
        Ok(Self { rule, path })
    }
}

impl fmt::Display for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.rule.id())?;
        match &self.path {
            Some(path) => write!(f, "={path}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowed_refusal_is_excepted_and_nothing_else_is() {
        let refusal = |path: &str| Finding::new(Rule::NeedsShell, Level::Refuse, "x").about(path);
        let note = Finding::new(Rule::NeedsShell, Level::Note, "x");
        for (allow, expected) in [
            ("needs-shell", [Level::Excepted, Level::Excepted, Level::Note]),
            ("needs-shell=/a", [Level::Excepted, Level::Refuse, Level::Note]),
            ("old-base-unknown", [Level::Refuse, Level::Refuse, Level::Note]),
        ] {
            let mut findings = [refusal("/a"), refusal("/b"), note.clone()];
            apply_allowed(&[allow.parse().unwrap()], &mut findings);
            assert_eq!(findings.map(|finding| finding.level), expected, "{allow}");
        }
    }

    #[test]
    fn only_rules_about_the_image_can_be_allowed() {
        for bad in ["", "no-such-rule", "platform-missing", "digest-unexpected", "config-odd"] {
            assert!(bad.parse::<Allow>().is_err(), "{bad}");
        }
        assert_eq!("needs-shell=/a=b".parse::<Allow>().unwrap().to_string(), "needs-shell=/a=b");
    }
}
