//! From a config and a root to what a runtime would start: the command's programs, what they need to
//! start, and what the program was seen to use.

mod absent;
mod container;
mod helper;
mod program;
mod startup;

pub use absent::Absent;
pub use container::{Command, Container, DEFAULT_PATH, MEMBER_ORDER, set_member};

pub use helper::{Helper, is_seen, is_there};
pub use program::{Presence, Start, Started, search, start};
pub use startup::{Health, Setup, Startup, look};
