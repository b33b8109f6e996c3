//! The rules: what must hold before an image may move, and what people should know.
//!
//! A rule has a stable id, a level, evidence and a fix. That a rule refuses is a result, not an
//! error: it goes into the report and the exit code is 1.

mod base_policy;
mod base_rules;
pub mod exceptions;
mod finding;
mod needs;
mod program;
mod rule;
mod rules;
mod seam;
mod shell;
#[cfg(test)]
mod start_tests;
mod surroundings;
#[cfg(test)]
mod tests;

pub use base_policy::{BaseName, BasePolicy, CurrentBase, PolicyFile};
pub use base_rules::{BaseVerdict, Movable, judge_base};
pub use finding::{Allow, Finding, Level};
pub use rule::{Allowing, Family, Rule, RuleRow};
pub use rules::{MissingPlatform, judge, missing_platforms};
