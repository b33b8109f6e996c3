//! Why a command of a manifest stays as it is, and what is remarked on one that changes.

use crate::rules::Rule;
use crate::shell::{Reason, Refusal};

/// What to do about it in a manifest: some rules are about images elsewhere, and some advice of the
/// shell's is about flags that `kube` does not have.
const fn hint(rule: Rule) -> &'static str {
    match rule {
        Rule::EntrypointMissing => "put the program into the image, or correct the command",
        Rule::LogFlagRemoved | Rule::LogFlagUnknown | Rule::UsesGlog => "use --logs runner or --logs stdout",
        Rule::Shell(Reason::RuntimeVariable) => {
            "declare the variable in the container's env, or let the program read it"
        }
        Rule::Shell(Reason::TargetIsShellScript) => "start the program that the script starts",
        Rule::Shell(Reason::UnrenderedTemplate) => {
            "render the template first (helm template, kustomize build), or use --template salt for the manifests of cluster/gce"
        }
        rule => rule.fix(),
    }
}

/// A command, or a whole file, that stays as it is.
#[derive(Debug, Clone)]
pub struct KubeRefusal {
    pub rule: Rule,
    /// One sentence about this command.
    pub detail: String,
    /// The construct, where it is one of the shell's.
    pub refusal: Option<Box<Refusal>>,
}

impl KubeRefusal {
    pub(super) fn new(rule: Rule, detail: impl Into<String>) -> Self {
        Self { rule, detail: detail.into(), refusal: None }
    }

    /// What a person could do about it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        hint(self.rule)
    }
}

impl From<Refusal> for KubeRefusal {
    fn from(refusal: Refusal) -> Self {
        Self { rule: Rule::Shell(refusal.reason), detail: refusal.detail.clone(), refusal: Some(Box::new(refusal)) }
    }
}

/// Something to know about a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandNote {
    pub rule: Rule,
    pub message: String,
}

impl CommandNote {
    pub(super) fn new(rule: Rule, message: impl Into<String>) -> Self {
        Self { rule, message: message.into() }
    }
}

impl From<&crate::shell::Note> for CommandNote {
    fn from(note: &crate::shell::Note) -> Self {
        Self::new(note.into(), note.to_string())
    }
}
