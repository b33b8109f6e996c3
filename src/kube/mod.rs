//! Kubernetes manifests as text: every command of every workload without its shell, every other
//! byte as it was.
//!
//! ```text
//! text ► template ► yaml, json ► Tree ► object ► site ► decide ► rewrite ► text
//! ```
//!
//! The rule of the module: text in, text out, and the new text is read again before anybody sees
//! it. What is not proven to be the intended value is not written. How the kubelet expands
//! variables is `shell::CommandContext`'s; which of them are known is `environment`'s.

mod decide;
mod environment;
mod image;
mod insert;
mod intent;
mod json;
mod log;
mod manifest;
mod model;
mod mount;
mod object;
mod placeholder;
mod position;
mod rewrite;
mod scalar;
mod site;
mod splice;
mod template;
#[cfg(test)]
mod tests;
mod tree;
mod why;
mod yaml;

pub use image::{Answer, Images, NoImages, Question};
pub use model::{Changed, Command, Judged, Outcome};
pub use object::Name;
pub use position::Position;
pub use site::What;
pub use why::{Remark, Why};

use manifest::Manifest;

use crate::error::{Error, Result};
use crate::examine::{KlogStyle, LogChoice};
use crate::policy::Rule;
use crate::shell::Reason;

/// A longer manifest is not read.
pub const LONGEST: u64 = 16 << 20;

/// What is wanted.
#[derive(Clone, Copy)]
pub struct Options<'a> {
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

/// What becomes of a manifest.
pub fn judge(text: &str, options: &Options<'_>) -> Result<Judged> {
    let (mark, text) = match text.strip_prefix('\u{feff}') {
        Some(rest) => ("\u{feff}", rest),
        None => ("", text),
    };
    let read = match Manifest::read(text, options.template) {
        Ok(read) => read,
        Err(error) => return unrendered(mark, text, &error).ok_or(error),
    };
    let mut judged = read.judge(options)?;
    judged.text.insert_str(0, mark);
    Ok(judged)
}

/// A text that cannot be read because it is a template.
fn unrendered(mark: &str, text: &str, error: &Error) -> Option<Judged> {
    let (at, placeholder) = template::first(text)?;
    let detail = format!("{placeholder} stands where its value should be ({})", error.what());
    let why = Why::new(Rule::Shell(Reason::UnrenderedTemplate), detail);
    let refused = Some((why, Position::of(text, at)));
    Some(Judged { text: format!("{mark}{text}"), commands: Vec::new(), refused })
}
