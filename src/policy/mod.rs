//! The rules: what must hold before an image may move, and what people should know.
//!
//! A rule has a stable id, a level, evidence and a fix. That a rule refuses is a result, not an
//! error: it goes into the report and the exit code is 1.

mod allow;
mod bases;
pub mod exceptions;
mod file;
mod finding;
mod needs;
mod program;
mod rule;
mod rules;
mod seam;
mod shell;
mod standing;
#[cfg(test)]
mod start_tests;
mod surroundings;
#[cfg(test)]
mod tests;

pub use allow::Allow;
pub use bases::{BaseName, BasePolicy, Footing};
pub use file::PolicyFile;
pub use finding::{Finding, Findings, Level};
pub use rule::{Allowing, Family, Rule, RuleRow};
pub use rules::{OnMissing, judge};
pub use standing::{Movable, Stance, judge_standing};
