//! Facts of an image: its old base, its packages, whom its files belong to. `store::fetch` brings a
//! [`PlatformSubject`]; [`look`] finds its [`Facts`].
//!
//! Everything here is pure. The ladder of old bases asks for what it needs through [`base::Lookup`].

pub mod base;
mod base_change;
mod facts;
mod full_image;
pub mod klog_support;
pub mod ownership;
pub mod packages;
mod subject;
#[cfg(test)]
pub mod testing;

pub use base_change::{BaseChange, FileChanges};
pub use facts::{Facts, LayerFacts, Oddity, is_on_new_base, look};
pub use full_image::{FullImage, FullPlatform, ProgramAnswer, log_runner_in};
pub use klog_support::Klog;

pub use subject::{Fetched, LeftBehind, Origin, PlatformSubject, RunnerSubject, Shape, Subject};
