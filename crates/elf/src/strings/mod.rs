//! Which strings a program refers to: by address and length in its code, by pointers in its data, or,
//! in C, because a NUL ends them.
//!
//! The rule it owns: a string is what something refers to, byte for byte. What stands before or after
//! it proves nothing: Go and Rust put strings side by side without anything between them. The file is
//! read once and in order, so what is referred to later is kept for a while ([`text_store`]), and what
//! is referred to before it is read is remembered ([`wanted`]). Nothing here exceeds 16 MiB; where that
//! is not enough for a file, the answer says that it is not complete.

mod amd64;
mod arm64;
mod calls;
mod code;
mod found;
mod layout;
mod operands;
mod pointers;
mod scan;
mod shape;
mod text_store;
mod wanted;
mod whole;

#[cfg(test)]
mod tests;

pub(super) use calls::NameArgument;
pub(super) use found::StringLanguage;
pub(super) use scan::{BlockView, StringScan};
