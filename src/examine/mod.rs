//! Questions put to an image. `store::fetch` brings a [`Subject`]; [`look`] turns it into [`Facts`].
//!
//! Everything here is pure. Where a question needs more of the world (the old base that an
//! annotation names, the index of a layer), it asks through [`base::Lookup`].

mod absent;
mod account;
pub mod base;
pub mod belonging;
mod command;
mod container;
mod exec_form;
mod facts;
mod health;
mod helper;
mod klog;
mod moved;
mod need;
mod oddity;
pub mod packages;
mod program;
mod runner;
#[cfg(test)]
pub mod sample;
mod seam;
mod subject;
mod whole;
mod wishes;

pub use absent::Absent;
pub use account::{Accounts, OtherNumber, UnknownAccount, Which};
pub use command::Command;
pub use container::Container;
pub use exec_form::{Choice, ExecForm, HealthOutcome, KeptLog, NoStrategy, Outcome};
pub use facts::{Facts, PlatformFacts, look};
pub use health::Health;
pub use helper::Helper;
pub use klog::Klog;
pub use moved::{Added, Becomes, Bulk, Extent, FolderState, Leaving, Moved, MovedLayer, NewLayer, Taking};
pub use need::{Need, need};
pub use oddity::Oddity;
pub use program::{Presence, Start, Started, start};
pub use seam::{Dangling, Seam};
pub use subject::{LeftBehind, Origin, PlatformSubject, RunnerSubject, Shape, Subject};
pub use whole::{Shown, Whole, WholePlatform};
pub use wishes::{KlogStyle, LogChoice, Wishes};
