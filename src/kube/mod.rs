//! Kubernetes manifests as text: every command of every workload without its shell, every other
//! byte as it was.
//!
//! ```text
//! text ► template ► yaml, json ► ManifestTree ► workload ► decision ► rewrite (edit) ► text
//! ```
//!
//! The rule of the module: text in, text out, and the new text is read again before anybody sees
//! it. What is not proven to be the intended value is not written. How the kubelet expands
//! variables is `shell::CommandContext`'s; which of them are known is `container`'s.

mod container;
mod decision;
mod edit;
mod json;
mod logs;
mod manifest;
mod pod;
mod refusal;
mod rewrite;
mod scalar;
mod template;
#[cfg(test)]
mod tests;
mod tools;
mod tree;
mod workload;
mod yaml;

pub use pod::pod_container;
pub use refusal::{AlreadyDone, CommandNote, ImageFlag, KubeRefusal, TemplateFlag};
pub use workload::{CommandKind, ObjectName};

pub use crate::yaml::Position;

use manifest::ParsedManifest;

use crate::examine::Klog;
use crate::plan::{KlogStyle, LogChoice};
use crate::process::PodContainer;
use crate::rules::Rule;
use oci::error::{Error, Result};
use shell::{Log, Reason};

/// A longer manifest is not read.
pub const LONGEST: u64 = 16 << 20;

/// What `kube` was asked to do.
#[derive(Clone, Copy)]
pub struct KubeOptions<'a> {
    pub logs: LogChoice,
    pub klog_style: KlogStyle,
    pub template: Template,
    pub images: &'a dyn Images,
}

/// What to do about placeholders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// A manifest is what the API server gets: a template is refused.
    Rendered,
    /// The placeholders of `cluster/gce/manifests` are kept as words.
    Salt,
}

impl Template {
    const fn flag(self) -> TemplateFlag {
        match self {
            Self::Rendered => TemplateFlag::NotGiven,
            Self::Salt => TemplateFlag::Given,
        }
    }
}

/// A program, and the container that would start it.
#[derive(Debug, Clone)]
pub struct ProgramQuery<'a> {
    pub program: &'a str,
    /// All words, where the program is the first of them; else none.
    pub line: &'a [String],
    pub container: &'a PodContainer,
}

/// What the image shows. Invariant: it holds for every platform of the image.
#[derive(Debug, Clone)]
pub struct ProgramFacts {
    /// The image that was examined.
    pub image: String,
    pub entrypoint: Vec<String>,
    /// Why the program does not start as the container's user, where it does not.
    pub missing: Option<String>,
    /// What is started comes from a volume.
    pub mounted: Option<String>,
    pub klog: Klog,
    /// Where a log runner is.
    pub runner: Option<String>,
}

/// Images that can be asked.
pub trait Images {
    /// `None` for an image that was not named.
    fn facts(&self, image: &str, query: &ProgramQuery<'_>) -> Option<ProgramFacts>;
}

/// No image was named: what they contain is assumed.
#[derive(Debug, Clone, Copy)]
pub struct NoImages;

impl Images for NoImages {
    fn facts(&self, _: &str, _: &ProgramQuery<'_>) -> Option<ProgramFacts> {
        None
    }
}

/// A manifest after its commands were rewritten.
#[derive(Debug)]
pub struct RewrittenManifest {
    /// The new text; the old one where nothing changes.
    pub text: String,
    pub commands: Vec<ManifestCommand>,
    /// The whole file is refused: it is a template that must be rendered first.
    pub refused: Option<(KubeRefusal, Position)>,
}

/// One command of the manifest, and what became of it.
#[derive(Debug)]
pub struct ManifestCommand {
    pub object: ObjectName,
    pub container: String,
    pub what: CommandKind,
    pub position: Position,
    pub before: Vec<String>,
    pub outcome: KubeOutcome,
    pub notes: Vec<CommandNote>,
}

#[derive(Debug)]
pub enum KubeOutcome {
    Unchanged,
    Changed(Box<ChangedCommand>),
    Refused(Box<KubeRefusal>),
    /// Left as it is for this reason: the image has its shell.
    Kept(Box<KubeRefusal>),
}

/// What a command became.
#[derive(Debug)]
pub struct ChangedCommand {
    pub command: Vec<String>,
    pub args: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub workdir: Option<String>,
    pub log: Option<Log>,
}

impl RewrittenManifest {
    /// Whether anything was refused.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.refused.is_some() || self.commands.iter().any(|command| matches!(command.outcome, KubeOutcome::Refused(_)))
    }
}

/// The images that the containers of a manifest name, as they are written, in order.
pub fn container_images(text: &str) -> Result<Vec<String>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    ParsedManifest::read(text, Template::Rendered)?.images()
}

/// What becomes of a manifest.
pub fn rewrite(text: &str, options: &KubeOptions<'_>) -> Result<RewrittenManifest> {
    let (mark, text) = match text.strip_prefix('\u{feff}') {
        Some(rest) => ("\u{feff}", rest),
        None => ("", text),
    };
    let read = match ParsedManifest::read(text, options.template) {
        Ok(read) => read,
        Err(error) => return unrendered((mark, text), options, &error).ok_or(error),
    };
    let mut rewritten = read.rewrite(options)?;
    rewritten.text.insert_str(0, mark);
    Ok(rewritten)
}

/// A text that cannot be read because it is a template.
fn unrendered((mark, text): (&str, &str), options: &KubeOptions<'_>, error: &Error) -> Option<RewrittenManifest> {
    let (at, placeholder) = template::first(text)?;
    let detail = format!("{placeholder} has not been filled in ({})", error.what());
    let done = AlreadyDone { template: options.template.flag(), ..AlreadyDone::default() };
    let why = KubeRefusal { done, ..KubeRefusal::new(Rule::Shell(Reason::UnrenderedTemplate), detail) };
    let refused = Some((why, Position::of(text, at)));
    Some(RewrittenManifest { text: format!("{mark}{text}"), commands: Vec::new(), refused })
}
