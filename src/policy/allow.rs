//! What the user answers for: a rule that refuses is only recorded.

use std::fmt;
use std::str::FromStr;

use super::finding::{Finding, Level};
use super::rule::Rule;
use crate::error::{Error, Result};

/// `RULE` or `RULE=PATH`: with a path only the finding about that path is allowed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Allow {
    rule: Rule,
    path: Option<String>,
}

impl Allow {
    fn covers(&self, finding: &Finding) -> bool {
        self.rule == finding.rule && (self.path.is_none() || self.path == finding.path)
    }
}

/// Marks the refusals that were allowed; they stay in the report.
pub(super) fn apply(allowed: &[Allow], findings: &mut [Finding]) {
    for finding in findings.iter_mut().filter(|finding| finding.level == Level::Refuse) {
        if allowed.iter().any(|allow| allow.covers(finding)) {
            finding.level = Level::Excepted;
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
            apply(&[allow.parse().unwrap()], &mut findings);
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
