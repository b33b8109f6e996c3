//! Places on disk: OCI layouts, archives of two kinds, and the local cache.
//!
//! The rules they share: only regular files are opened, and never through a link that an image
//! could have brought along; what is written appears whole, durable and verified, or not at all;
//! processes that share a place wait for each other.

mod archive;
mod atomic;
mod cache;
mod cache_layout;
mod checksummed_json;
mod docker_archive;
mod docker_manifest;
mod gc_lock;
mod image_record;
mod image_use;
mod layout;
mod layout_index;
mod layout_reader;
mod lock;
mod node_record;
mod partial;
mod place;
mod private_access;
mod private_directory;
mod regular_file;
mod run_files;
mod tar_reader;
mod tar_writer;
mod terminal;
mod timestamp;
mod user_file;
mod verified;

#[cfg(test)]
mod testing;

pub use archive::{ArchiveSink, OciArchive};
pub use atomic::{create_directories, scratch as scratch_file, sync_directory};
pub use cache::Cache;
pub use cache_layout::{
    FileState, IMAGES, check_cache, check_usable, create_private, file_state, has_known_version, line, read_index,
    sweep,
};
pub use docker_archive::DockerArchive;
pub use gc_lock::{lock_exclusive, lock_shared};
pub use image_record::{ImageRecord, names as record_files};
pub use image_use::{ImageAccess, ImageUse};
pub use layout::{Layout, LayoutSink};
pub use lock::{LockGuard, LockMode, LockWait, directory as lock_directory};
pub use node_record::{ImageTimes, NODES, NodeRecord};
pub use partial::{Partial, Receiving};
pub use place::{Place, resolved_location, resolved_pattern};
pub use private_directory::{
    PATIENCE, PrivateDirectory, Purpose, end_private_directories, end_processes, name_of, proc_file, start_process,
    wait_if_ending,
};
pub use regular_file::{Symlinks, open as open_regular};
pub use run_files::{OutputRole, keep_apart, note_input, note_location, note_tree};
pub use terminal::{ask_password, end_password_prompt};
pub use timestamp::Timestamp;
pub use user_file::{
    OutputFile, add_line, edit_file, is_there, place_of, read_edited, read_file, remove_file, write_file,
};
