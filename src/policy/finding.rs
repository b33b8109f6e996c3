//! A finding: one rule that had something to say about one image.

use serde::Serialize;

use crate::oci::Platform;

/// The rules by their stable ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    EntrypointMissing,
    DynamicBinary,
    WrongMachine,
    NotABinary,
    NeedsShell,
    NeedsTool,
    NeedsLibrary,
    DynamicHelper,
    HealthcheckShell,
    UserMissing,
    WorkdirMissing,
    LogDirMissing,
    LayerBroken,
    KeepMissing,
    ShadowsBase,
    RemovesBase,
    LinkDangling,
    AccountNumber,
    UserByName,
    EntrypointRelative,
    Pid1Changes,
    LogFlagUnknown,
    LogFlagRemoved,
    UsesGlog,
    LogStrategy,
    EnvFrozen,
    ShellRemoved,
    OldBaseUnknown,
    OldBaseUnproven,
    PlatformMissing,
    DigestUnexpected,
    CmdChangesMeaning,
    ConfigOdd,
    LayerOdd,
    LabelDropped,
    AttestationDropped,
    BaseNotAllowed,
    ExceptionRecorded,
    ExceptionMissing,
    LockDrift,
}

impl Rule {
    /// The refusals that a user may answer for with `--allow`. The others have flags of
    /// their own, or are about what was asked for and not about the image.
    pub(super) const ALLOWABLE: [Self; 16] = [
        Self::EntrypointMissing,
        Self::DynamicBinary,
        Self::WrongMachine,
        Self::NotABinary,
        Self::NeedsShell,
        Self::NeedsTool,
        Self::NeedsLibrary,
        Self::DynamicHelper,
        Self::HealthcheckShell,
        Self::UserMissing,
        Self::WorkdirMissing,
        Self::LogDirMissing,
        Self::LogFlagUnknown,
        Self::LogFlagRemoved,
        Self::UsesGlog,
        Self::OldBaseUnknown,
    ];

    /// The id that others rely on.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::EntrypointMissing => "entrypoint-missing",
            Self::DynamicBinary => "dynamic-binary",
            Self::WrongMachine => "wrong-machine",
            Self::NotABinary => "not-a-binary",
            Self::NeedsShell => "needs-shell",
            Self::NeedsTool => "needs-tool",
            Self::NeedsLibrary => "needs-library",
            Self::DynamicHelper => "dynamic-helper",
            Self::HealthcheckShell => "healthcheck-shell",
            Self::UserMissing => "user-missing",
            Self::WorkdirMissing => "workdir-missing",
            Self::LogDirMissing => "log-dir-missing",
            Self::LayerBroken => "layer-broken",
            Self::KeepMissing => "keep-missing",
            Self::ShadowsBase => "shadows-base",
            Self::RemovesBase => "removes-base",
            Self::LinkDangling => "link-dangling",
            Self::AccountNumber => "account-number",
            Self::UserByName => "user-by-name",
            Self::EntrypointRelative => "entrypoint-relative",
            Self::Pid1Changes => "pid1-changes",
            Self::LogFlagUnknown => "log-flag-unknown",
            Self::LogFlagRemoved => "log-flag-removed",
            Self::UsesGlog => "uses-glog",
            Self::LogStrategy => "log-strategy",
            Self::EnvFrozen => "env-frozen",
            Self::ShellRemoved => "shell-removed",
            Self::OldBaseUnknown => "old-base-unknown",
            Self::OldBaseUnproven => "old-base-unproven",
            Self::PlatformMissing => "platform-missing",
            Self::DigestUnexpected => "digest-unexpected",
            Self::CmdChangesMeaning => "cmd-changes-meaning",
            Self::ConfigOdd => "config-odd",
            Self::LayerOdd => "layer-odd",
            Self::LabelDropped => "label-dropped",
            Self::AttestationDropped => "attestation-dropped",
            Self::BaseNotAllowed => "base-not-allowed",
            Self::ExceptionRecorded => "exception-recorded",
            Self::ExceptionMissing => "exception-missing",
            Self::LockDrift => "lock-drift",
        }
    }
}

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
