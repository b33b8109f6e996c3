//! What became of manifests: one model, one file per format.

mod diff;
mod json;
mod rows;
mod text;

pub use diff::{Paint, unified};
pub use json::to_json;
pub use rows::Manifests;
pub use text::{changes, refusals, summary};

use crate::error::Error;
use crate::kube::{Command, Judged, Outcome};

/// A manifest and what became of it.
#[derive(Debug)]
pub struct File {
    /// As the user named it; `-` for a stream.
    pub path: String,
    pub before: String,
    pub result: Result<Judged, Error>,
}

/// What a change means to who asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It should have been made already.
    Check,
    /// It is shown.
    Diff,
    /// It is made.
    Write,
}

impl File {
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.result.as_ref().is_ok_and(|judged| judged.text != self.before)
    }

    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.result.as_ref().is_ok_and(Judged::is_refused)
    }

    fn commands(&self) -> &[Command] {
        self.result.as_ref().map(|judged| judged.commands.as_slice()).unwrap_or_default()
    }

    /// The stable word for what became of the file.
    fn outcome(&self) -> &'static str {
        match (&self.result, self.is_refused(), self.is_changed()) {
            (Err(_), ..) => "error",
            (_, true, _) => "refused",
            (_, _, true) => "changed",
            _ => "unchanged",
        }
    }
}

/// The stable word for what became of a command.
fn verdict(command: &Command) -> &'static str {
    match command.outcome {
        Outcome::Unchanged => "unchanged",
        Outcome::Changed(_) => "translate",
        Outcome::Refused(_) => "refuse",
        Outcome::Kept(_) => "kept",
    }
}

/// `Deployment/web, container app, livenessProbe`.
fn title(command: &Command) -> String {
    let name = if command.object.name.is_empty() { String::new() } else { format!("/{}", command.object.name) };
    format!("{}{name}, container {}, {}", command.object.kind, command.container, command.what.word())
}
