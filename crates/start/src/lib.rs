//! What a runtime finds in the layers of an image, computed in memory: nothing is unpacked or executed.
//!
//! [`rootfs`] merges layers into one root, as a runtime unpacks them; [`link`] says what a dynamic loader would map for a program
//! of that root, and what it would miss.
//!
//! ```
//! use start::rootfs::merge;
//!
//! let root = merge(&[]);
//! assert!(root.issues().is_empty(), "nothing is odd in no layer");
//! ```

// Tests put files where they like, and tables of cases are long.
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::too_many_lines))]

pub mod link;
pub mod rootfs;
