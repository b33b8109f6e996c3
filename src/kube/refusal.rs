//! Why a command of a manifest stays as it is, and what is remarked on one that changes.

use crate::rules::Rule;
use shell::{Reason, Refusal};

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
    /// What the user did already, and is not told to do.
    pub done: AlreadyDone,
}

/// What could be advised, and was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AlreadyDone {
    pub template: TemplateFlag,
    pub image: ImageFlag,
}

/// Whether `--template` was given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TemplateFlag {
    Given,
    #[default]
    NotGiven,
}

/// Whether `--image` named the container's image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ImageFlag {
    Given,
    #[default]
    NotGiven,
}

impl KubeRefusal {
    pub(super) fn new(rule: Rule, detail: impl Into<String>) -> Self {
        Self { rule, detail: detail.into(), refusal: None, done: AlreadyDone::default() }
    }

    /// What a person could do about it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match (self.rule, self.done) {
            (Rule::Shell(Reason::UnrenderedTemplate), AlreadyDone { template: TemplateFlag::Given, .. }) => {
                "fill the placeholder in first: it is not one whose value is known to be one word or a list of words"
            }
            (Rule::LogStrategyOpen, AlreadyDone { image: ImageFlag::Given, .. }) => {
                "put kube-log-runner into the image, or use --logs stdout"
            }
            (rule, _) => hint(rule),
        }
    }
}

impl From<Refusal> for KubeRefusal {
    fn from(refusal: Refusal) -> Self {
        let (rule, detail) = (Rule::Shell(refusal.reason), refusal.detail.clone());
        Self { refusal: Some(Box::new(refusal)), ..Self::new(rule, detail) }
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

impl From<&shell::Note> for CommandNote {
    fn from(note: &shell::Note) -> Self {
        Self::new(note.into(), note.to_string())
    }
}
