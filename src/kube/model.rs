//! What became of a manifest and of every command in it.

use super::object::Name;
use super::position::Position;
use super::site::What;
use super::why::{Remark, Why};
use crate::shell::Log;

/// A manifest, judged.
#[derive(Debug)]
pub struct Judged {
    /// The new text; the old one where nothing changes.
    pub text: String,
    pub commands: Vec<Command>,
    /// The whole file is refused: it is no manifest yet.
    pub refused: Option<(Why, Position)>,
}

/// One command of the manifest, and what became of it.
#[derive(Debug)]
pub struct Command {
    pub object: Name,
    pub container: String,
    pub what: What,
    pub position: Position,
    pub before: Vec<String>,
    pub outcome: Outcome,
    pub remarks: Vec<Remark>,
}

#[derive(Debug)]
pub enum Outcome {
    Unchanged,
    Changed(Box<Changed>),
    Refused(Box<Why>),
    /// Left as it is for this reason: its shell is in the image.
    Kept(Box<Why>),
}

/// What a command became.
#[derive(Debug)]
pub struct Changed {
    pub command: Vec<String>,
    pub args: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub workdir: Option<String>,
    pub log: Option<Log>,
}

impl Judged {
    /// Whether something stays that should not.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.refused.is_some() || self.commands.iter().any(|command| matches!(command.outcome, Outcome::Refused(_)))
    }
}
