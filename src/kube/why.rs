//! Why a command of a manifest stays as it is, and what is remarked on one that changes.

use crate::shell::{Reason, Refusal};

macro_rules! rules {
    ($($name:ident $word:literal $hint:literal),* $(,)?) => {
        /// What stands in the way of a rewrite. The words are stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Rule {
            /// The command needs its shell.
            Shell(Reason),
            $(#[doc = $hint] $name),*
        }

        impl Rule {
            /// Those that are not about a shell.
            pub const OWN: &[Self] = &[$(Self::$name),*];

            /// The stable word.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { Self::Shell(reason) => reason.word(), $(Self::$name => $word),* }
            }

            /// What a person could do about it.
            #[must_use]
            pub const fn hint(self) -> &'static str {
                match self { Self::Shell(reason) => in_manifest(reason), $(Self::$name => $hint),* }
            }
        }
    };
}

rules! {
    CannotEdit "cannot-edit" "write the list with one item per line, or as one list in brackets",
    EntrypointMissing "entrypoint-missing" "put the program into the image, or correct the command",
    EntrypointUnknown "entrypoint-unknown" "name the image with --image NAME=LOCATION, or write `command` out",
    EnvTaken "env-taken" "set the variable in the container's env yourself, and remove it from the command",
    LogFlagRemoved "log-flag-removed" "use --logs runner or --logs stdout",
    LogFlagUnknown "log-flag-unknown" "use --logs runner or --logs stdout",
    LogRunnerMissing "log-runner-missing" "put kube-log-runner into the image, or use --logs klog or --logs stdout",
    LogStrategyOpen "log-strategy-open" "choose --logs klog, --logs runner or --logs stdout, or name the image with --image NAME=LOCATION",
    NotWords "not-words" "write every item of the list as a string",
    SharedByAlias "shared-by-alias" "write the list out where the alias stands",
    Template "unrendered-template" "render the template first (helm template, kustomize build), or use --template salt for the manifests of cluster/gce",
    UsesGlog "uses-glog" "use --logs runner or --logs stdout",
}

/// Some hints of the shell's are about flags that are not there for manifests.
const fn in_manifest(reason: Reason) -> &'static str {
    match reason {
        Reason::RuntimeVariable => "declare the variable in the container's env, or let the program read it",
        Reason::TargetIsShellScript => "start the program that the script starts",
        Reason::UnrenderedTemplate => Rule::Template.hint(),
        reason => reason.hint(),
    }
}

/// A command, or a whole file, that stays as it is.
#[derive(Debug, Clone)]
pub struct Why {
    pub rule: Rule,
    /// One sentence about this command.
    pub detail: String,
    /// The construct, where it is one of the shell's.
    pub refusal: Option<Box<Refusal>>,
}

impl Why {
    pub(super) fn new(rule: Rule, detail: impl Into<String>) -> Self {
        Self { rule, detail: detail.into(), refusal: None }
    }
}

impl From<Refusal> for Why {
    fn from(refusal: Refusal) -> Self {
        Self { rule: Rule::Shell(refusal.reason), detail: refusal.detail.clone(), refusal: Some(Box::new(refusal)) }
    }
}

/// Something to know about a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The stable word.
    pub word: &'static str,
    pub message: String,
}

impl Remark {
    pub(super) fn new(word: &'static str, message: impl Into<String>) -> Self {
        Self { word, message: message.into() }
    }
}

impl From<&crate::shell::Note> for Remark {
    fn from(note: &crate::shell::Note) -> Self {
        Self::new(note.word(), note.to_string())
    }
}
