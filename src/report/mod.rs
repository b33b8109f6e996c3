//! What a run found and did: one model, one file per format.

mod check;
mod error;
mod inspection;
mod json;
mod model;
mod sheet;
mod text;
pub mod translation;

pub use check::{CheckReport, CheckedImage, CheckedPlatform, CheckedRow};
pub use error::error_to_json;
pub use inspection::{Inspection, inspection_to_text};
pub use json::to_json;
pub use model::{Change, Ending, Named, Outcome, Report, ReportedFinding};
pub use sheet::{Reportable, Row, RowFinding, Sheet};
pub use text::{Detail, to_text};
