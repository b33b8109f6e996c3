//! What its dynamic loader would map for a program on a root, and the first thing that it would miss.
//!
//! Pure: nothing is executed. The rules are those of glibc's `ld.so` and of musl's; which of the two it is, and
//! which directories it was built to search, its own file says. A program that needs another loader, or a
//! file whose tables could not be read, is not proven. `ld.so.conf` is for `ldconfig`, which writes the cache:
//! no loader reads it.
//!
//! A test compares the answers with those of both loaders, on roots from which files were taken away.

mod cache;
mod closure;
mod environment;
mod missing;
mod musl;
mod object;
mod search;
mod symbols;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use closure::{Linked, LinkedFile, Linker, NeededLevel};
pub use environment::LoaderEnvironment;
pub use missing::Missing;
