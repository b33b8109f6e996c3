//! The black-box tests: the binary as people use it, against real registries and real tools.
//!
//! `support` is what the tests are built from and has tests of its own; every other module is one subject.
//! Nothing here is linked against the library, so nothing can pass because both sides share a bug.

// Signals, resets and resource use are asked of libc; each call says why it is sound.
#![allow(unsafe_code)]
// A test may fail by panicking, and the boundaries in `clippy.toml` are those of the product.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::print_stdout, clippy::print_stderr)]
#![allow(clippy::doc_markdown)]

mod support;

mod attest;
mod auth;
mod base_choice;
mod batch;
mod bazel;
mod bring;
mod check;
mod core_images;
mod crash;
mod disk_faults;
mod dist;
mod documented;
mod dynamic;
mod elf;
mod engines;
mod exceptions;
mod extract;
mod fates;
mod github;
mod golden;
mod hints;
mod hostile;
mod interpreted;
mod job;
mod kep;
mod kube;
mod kubelet;
mod limits;
mod local_faults;
mod logs;
mod make;
mod mended;
mod module_order;
mod names;
mod node;
mod old_base;
mod outdated;
mod outputs;
mod page;
mod proves;
mod pull_faults;
mod push_faults;
mod real_start;
mod rebase;
mod reference;
mod release;
mod reports;
mod reproducible;
mod round_trips;
mod sbom;
mod scanners;
mod seam;
mod services;
mod shells;
mod skips;
mod spellings;
mod starts;
mod store;
mod sweep;
mod terminal;
mod translate;
mod verify;
