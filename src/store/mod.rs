//! Where images come from and go to: registries, OCI layouts, archives, and the local cache.
//!
//! This is the only part that touches network and disk. All places look alike: a [`Source`] gives
//! documents and blobs, a [`Sink`] takes them. `async` stays inside `registry`.

mod notice;
mod place;
pub mod registry;
mod traffic;

pub use notice::{Notice, Notices};
pub use place::{Blob, Delivery, Sink, Source, Stream};
pub use traffic::{Tally, Traffic};
