//! Judges a pass: what must hold before an image may move, and what people should know. Beside it the
//! policy on bases and the exception list.
//!
//! That a rule refuses is a result, not an error: it goes into the report and the exit code is 1.

mod base_policy;
mod base_rules;
mod command;
mod dependencies;
mod difference;
pub mod exceptions;
mod interpreted;
mod judge;
mod layers;
mod logs;
mod needs;
mod pod;
mod program;
#[cfg(test)]
mod tests;
mod user;
mod workdir;

pub use base_policy::{BaseName, BasePolicy, CurrentBase, PolicyFile, PolicyPreset, SignedBy, other_name};
pub use base_rules::{BaseVerdict, Movable, TriedMove, judge_base, removal};
pub use dependencies::Dependency;
pub use judge::{MissingPlatform, judge, judge_alone, missing_platforms};
