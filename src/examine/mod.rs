//! Questions put to an image. `store::fetch` brings a [`Subject`]; [`look`] turns it into [`Facts`].
//!
//! Everything here is pure. Where a question needs more of the world (the old base that an
//! annotation names, the index of a layer), it asks through [`base::Lookup`].

mod account;
pub mod base;
pub mod belonging;
mod command;
mod container;
mod facts;
mod oddity;
pub mod packages;
mod program;
#[cfg(test)]
pub mod sample;
mod subject;

pub use account::UnknownAccount;
pub use command::{Command, ShellForm};
pub use container::Container;
pub use facts::{Facts, PlatformFacts, look};
pub use oddity::Oddity;
pub use program::{Presence, Start, Started, needs_new_base, start};
pub use subject::{LeftBehind, Origin, PlatformSubject, Shape, Subject};
