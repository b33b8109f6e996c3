//! Where images come from and go to: registries, OCI layouts, archives, and the local cache; and the
//! collector of garbage, in the cache and on a node.
//!
//! This is the only part that touches network and disk. All places look alike: a [`Source`] gives
//! documents and blobs, a [`Sink`] takes them. `async` stays inside `registry` and `node`.

pub mod collect;
pub mod disk;
mod engine;
pub mod fetch;
mod kept;
mod layer_store;
pub mod node;
mod notice;
mod once;
pub mod parallel;
mod place;
mod places;
mod progress;
pub mod publish;
mod receive;
pub mod registry;
mod session;
mod tools;
mod traffic;

pub use layer_store::LayerStore;
pub use notice::{Notice, Notices};
pub use once::Once;
pub use place::{Blob, Delivery, Sink, Source, Stream};
pub use places::Places;
pub use progress::{Meter, Progress};
pub use session::{CacheChoice, Network, Session, SessionOptions};
pub use tools::Tools;
pub use traffic::{Tally, Traffic};
