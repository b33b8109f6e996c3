//! Where images come from and go to: registries, OCI layouts, archives, and the local cache; and the
//! collector of garbage, in the cache and on a node.
//!
//! This is the only part that touches network and disk. All places look alike: a [`Source`] gives
//! documents and blobs, a [`Sink`] takes them. `async` stays inside `registry` and `node`.

pub mod child_process;
pub mod disk;
pub mod engine;
pub mod fetch;
pub mod gc;
mod layer_store;
pub mod node;
pub mod parallel;
mod progress;
pub mod publish;
pub mod registry;
mod session;
mod source_sink;
mod standing;

pub use layer_store::LayerStore;

pub use parallel::OnceMap;
pub use progress::{Meter, Notice, Notices, Progress, Tally, Traffic};
pub use session::{CacheChoice, Network, Session, SessionOptions};
pub use source_sink::{
    Blob, Delivery, ImageParts, ImageTurn, Offer, OfferWish, Opener, PutUnder, Sink, Source, StoreAccess, Stream,
};
