//! From a config and a root to what a runtime would start: the command's programs, what they need to
//! start, and what the program was seen to use.

mod container;
mod program;
mod startup;

pub use container::{Command, Container, DEFAULT_PATH, MEMBER_ORDER, set_member};

pub use program::{Helper, Presence, Start, Started, is_seen, is_there, search, start};
pub use startup::{Absent, Health, Setup, Startup, look};
