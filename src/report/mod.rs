//! What a run found and did: one model, one file per format.

mod error;
mod inspection;
mod json;
mod model;
mod text;
pub mod translation;

pub use error::error_to_json;
pub use inspection::{Inspection, inspection_to_text};
pub use json::to_json;
pub use model::{Change, Ending, Outcome, Report};
pub use text::{Detail, to_text};
