//! The virtual root: the layers of an image merged in memory, as a container would see them.
//!
//! [`merge`] makes it; it needs the indexes of the layers and nothing else. Nothing is ever
//! unpacked, so no link in an image can lead out of it. The rules are those of the OCI image-spec
//! (`layer.md`) and, where it is silent, of `umoci unpack`, with which the tests compare file by
//! file. What runtimes disagree about, or reject, is kept in [`Root::issues`].
//!
//! A tree is as large as the layers that made it, whatever they contain: names and attributes are
//! borrowed, implied directories are limited in number, paths in length, and nothing here recurses.

mod merge;
mod path_components;
mod permission;
mod resolve;
mod root;
mod search;
mod tree;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use merge::merge;
pub use merge::{MergeIssue, MergeIssueKind};
pub use permission::{Access, Credentials};
pub use resolve::{FollowedLink, NotFound, NotFoundReason, Resolved, TriedPath};
pub use root::Root;
pub use search::{FoundBy, FoundCommand};
pub use tree::FileNode;
