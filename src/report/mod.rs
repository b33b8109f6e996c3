//! What a run found and did: one model, one file per format.

mod batch;
mod cache;
mod candidates;
mod check;
mod exceptions;
mod files;
mod format;
mod html;
mod inspection;
mod json;
mod junit;
pub mod kube;
mod markdown;
mod model;
mod node;
mod outdated;
mod programs;
mod rows;
mod rules;
mod sarif;
mod started;
#[cfg(test)]
mod tests;
mod text;
mod translation;
mod verification;

pub use batch::{BatchOutcome, BatchReport, BatchRow, BatchTarget};
pub use cache::{CacheCheck, CacheCollection, CacheListing, Done, EntryMatches};
pub use candidates::{BaseFit, ReportedBase};
pub use check::{CheckOutcome, CheckReport, CheckedImage, CheckedPlatform, CheckedRow};
pub use exceptions::ExceptionListReport;
pub use files::{FileListing, FileTree};
pub use format::ReportFormat;
pub use html::to_html;
pub use inspection::{Inspection, InspectionPlatform};
pub use json::{error_to_json, to_json};
pub use junit::to_junit;
pub use markdown::to_markdown;
pub use model::{
    AskedFor, Ending, LogStrategy, Named, Outcome, Report, ReportedAttestation, ReportedFinding, Size, TargetChange,
};
pub use node::{NodeCollection, NodeListing};
pub use outdated::{OutdatedImage, OutdatedPlatform, OutdatedReport, ReportedChange, ReportedFiles};
pub use programs::Programs;
pub use rows::{Grade, Reportable, Row, RowFinding, RowOutcome, RowWords, Rows};
pub use rules::{explained, listed, rules_to_json};
pub use sarif::to_sarif;
pub use started::{StartReport, StartedPair};
pub use text::{Detail, losses_to_text, to_text};
pub use translation::Translation;
pub use verification::{Verification, VerifiedAttestation, VerifyOutcome};
