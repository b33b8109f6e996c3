//! What a run found and did: one model, one file per format.

mod batch;
mod check;
mod collection;
mod error;
mod html;
mod inspection;
mod json;
mod junit;
pub mod kube;
mod markdown;
mod markup;
mod model;
mod node;
mod sarif;
mod sheet;
mod text;
pub mod translation;

pub use batch::{BatchReport, BatchRow, BatchTarget};
pub use check::{CheckReport, CheckedImage, CheckedPlatform, CheckedRow};
mod store;
pub use collection::{Collection, Done};
pub use error::error_to_json;
pub use html::to_html;
pub use inspection::{Inspection, inspection_to_text};
pub use json::to_json;
pub use junit::to_junit;
pub use markdown::to_markdown;
pub use model::{Change, Ending, Named, Outcome, Report, ReportedFinding, Size};
pub use node::{NodeCollection, NodeListing};
pub use sarif::to_sarif;
pub use sheet::{Reportable, Row, RowFinding, Sheet};
pub use store::{Match, StoreCheck, StoreListing};
pub use text::{Detail, to_text};
