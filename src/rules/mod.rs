//! The table of all rules, how one is found and explained, and what a finding of one is.
//!
//! A rule has a stable id, its levels, a reason, an example and a fix, in one row. `docs/rules.md` and
//! `underpin explain` are made from the table. The options of a rebase name rules (`--allow`), so the
//! table is below `plan`; `policy` has the functions that put rules to an image.

mod constructs;
mod finding;
mod table;

use std::fmt;

pub use finding::{Allow, Finding, Level, apply_allowed};
pub use table::Rule;

use shell::Reason;

/// Everything there is to say about one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleRow {
    /// Stable: others rely on it.
    pub id: &'static str,
    pub family: Family,
    /// The levels that its findings can have, the worst first. What `--allow` does to them is not counted.
    pub levels: &'static [Level],
    pub allowing: Allowing,
    /// What was found.
    pub means: &'static str,
    /// What would happen, or why it is worth knowing.
    pub why: &'static str,
    /// One case, as lines.
    pub example: &'static str,
    /// What to do, as a finding prints it: without a capital at its beginning or a full stop at its end.
    pub fix: &'static str,
}

/// Whether a refusal can be turned into an exception on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowing {
    /// With `--allow RULE`: about the image, and a user may know better.
    ByUser,
    /// It has a flag of its own, or is about what was asked for, or forbids nothing.
    Never,
}

/// What rules have in common; the headings of `docs/rules.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Program,
    Start,
    Command,
    Logs,
    User,
    Layers,
    Result,
    Bases,
    Manifest,
    Translation,
    Construct,
}

impl Family {
    pub const ALL: [Self; 11] = [
        Self::Program,
        Self::Start,
        Self::Command,
        Self::Logs,
        Self::User,
        Self::Layers,
        Self::Result,
        Self::Bases,
        Self::Manifest,
        Self::Translation,
        Self::Construct,
    ];

    /// The heading.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Program => "Programs",
            Self::Start => "A real start",
            Self::Command => "Command and health check",
            Self::Logs => "Log files",
            Self::User => "User and directories",
            Self::Layers => "Old base and layers",
            Self::Result => "The result",
            Self::Bases => "Allowed bases and exceptions",
            Self::Manifest => "Kubernetes manifests",
            Self::Translation => "Notes on a translated command",
            Self::Construct => "Shell constructs",
        }
    }

    /// The stable word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Start => "start",
            Self::Command => "command",
            Self::Logs => "logs",
            Self::User => "user",
            Self::Layers => "layers",
            Self::Result => "result",
            Self::Bases => "bases",
            Self::Manifest => "kube",
            Self::Translation => "translation",
            Self::Construct => "shell",
        }
    }
}

impl Rule {
    /// All rules, those about constructs of the shell last.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::PLAIN.iter().copied().chain(Reason::ALL.iter().copied().map(Self::Shell))
    }

    /// The rules of a family, in the order of the table.
    pub fn of_family(family: Family) -> impl Iterator<Item = Self> {
        Self::all().filter(move |rule| rule.row().family == family)
    }

    /// The rules that `--allow` takes.
    pub fn allowable() -> impl Iterator<Item = Self> {
        Self::all().filter(|rule| rule.row().allowing == Allowing::ByUser)
    }

    /// The rule with this id.
    #[must_use]
    pub fn find(id: &str) -> Option<Self> {
        Self::all().find(|rule| rule.id() == id)
    }

    /// Whether a warning of it is about something that was stripped and that somebody may miss.
    #[must_use]
    pub const fn is_about_loss(self) -> bool {
        matches!(
            self,
            Self::CommandLost
                | Self::EnvLost
                | Self::LinkDangling
                | Self::NeedsFile
                | Self::NeedsLibrary
                | Self::NeedsTool
                | Self::PackagesLeft
                | Self::ProgramChanged
                | Self::UserChanged
                | Self::WorkdirChanged
        )
    }

    /// Whether only a real start can find it. What is allowed of it changes no byte of a result, and is not recorded there.
    #[must_use]
    pub fn is_of_start(self) -> bool {
        self.row().family == Family::Start
    }

    /// The id that others rely on.
    #[must_use]
    pub const fn id(self) -> &'static str {
        self.row().id
    }

    /// What to do about it, in general.
    #[must_use]
    pub const fn fix(self) -> &'static str {
        self.row().fix
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

impl serde::Serialize for Rule {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_id_is_there_once_and_finds_its_rule() {
        let mut seen = HashSet::new();
        for rule in Rule::all() {
            assert!(seen.insert(rule.id()), "{rule} is there twice");
            assert!(rule.id().bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'));
            assert_eq!(Rule::find(rule.id()), Some(rule));
        }
        assert_eq!(Rule::find("no-such-rule"), None);
    }

    /// The order in which `--allow` is recorded is part of the digest of a result.
    #[test]
    fn the_rules_that_can_be_allowed_keep_their_order() {
        let ids: Vec<&str> = Rule::allowable().map(Rule::id).collect();
        let expected = [
            "entrypoint-missing",
            "dynamic-binary",
            "wrong-machine",
            "not-a-binary",
            "needs-shell",
            "needs-tool",
            "needs-library",
            "dynamic-helper",
            "healthcheck-shell",
            "user-missing",
            "workdir-missing",
            "log-dir-missing",
            "log-flag-unknown",
            "log-flag-removed",
            "uses-glog",
            "old-base-unknown",
            "command-lost",
            "needs-file",
            "runs-as-root",
            "packed-binary",
            "program-changed",
            "start-unknown",
            "extract-incomplete",
            "bring-conflict",
            "needs-interpreter",
            "start-failed",
            "start-differs",
            "opened-but-missing",
            "pod-not-writable",
        ];
        assert_eq!(ids, expected);
        assert!(Rule::allowable().is_sorted());
    }

    #[test]
    fn every_row_says_something_and_in_one_style() {
        for rule in Rule::all() {
            let RuleRow { levels, allowing, means, why, example, fix, .. } = rule.row();
            assert!(means.ends_with('.') && why.ends_with('.') && !example.is_empty(), "{rule}");
            assert!(!fix.is_empty() && !fix.ends_with('.') && !fix.contains('\n'), "{rule}: {fix}");
            assert!(levels.is_sorted_by(|one, next| one > next), "{rule}: the worst level first");
            assert!(*allowing == Allowing::Never || levels.contains(&Level::Refuse), "{rule}: nothing to allow");
            assert!(example.lines().all(|line| !line.trim().is_empty() && line.chars().count() <= 110), "{rule}");
        }
    }
}
