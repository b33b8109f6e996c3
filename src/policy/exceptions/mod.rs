//! The exception list: the Markdown table of components that may stay on their base, and why.
//!
//! The rule this folder owns: the page belongs to people. It is read as it is, and an edit changes
//! one line and no other byte.

mod component;
mod edit;
mod list;
mod problem;
mod render;
mod table;
#[cfg(test)]
mod tests;

pub use component::{Component, component_names, without_architecture};
pub use list::{Exception, ExceptionList};
pub use problem::{Gravity, Problem};
pub use render::{Standing, render};
pub use table::LARGEST;
