//! Places on disk: OCI layouts, archives of two kinds, and the local cache.
//!
//! The rules they share: only regular files are opened, and never through a link that an image
//! could have brought along; what is written appears whole, durable and verified, or not at all;
//! processes that share a place wait for each other.

mod archive;
mod archive_sink;
mod atomic;
mod cache;
mod contents;
mod docker_archive;
mod docker_list;
mod draft;
mod gate;
mod layout;
mod layout_sink;
mod lock;
mod member_name;
mod moment;
mod named_file;
mod node_record;
mod partial;
mod record;
mod regular;
mod rooms;
mod sealed;
mod section;
mod shelf;
mod sighting;
mod soundness;
mod tarball;
mod verified;

#[cfg(test)]
mod sample;

pub use archive::OciArchive;
pub use archive_sink::ArchiveSink;
pub use atomic::{scratch as scratch_file, sync_folder};
pub use cache::Cache;
pub use docker_archive::DockerArchive;
pub use gate::{alone, enter};
pub use layout::Layout;
pub use layout_sink::LayoutSink;
pub use lock::{Held, Mode, Patience, folder as lock_folder};
pub use moment::Moment;
pub use named_file::{check_writable, read_file, write_file};
pub use node_record::{NODES, NodeRecord, Spell};
pub use partial::{Partial, Receiving};
pub use record::{Record, names as record_names};
pub use regular::{Links, open as open_regular};
pub use rooms::{IMAGES, create_private, has_known_version, line, sweep};
pub use sighting::{Sighting, Use};
pub use soundness::{Soundness, soundness};
