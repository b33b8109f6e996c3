//! The formats that every report can be written in: a new one is a row here and a file beside this one.

use super::{Reportable, to_html, to_junit, to_markdown, to_sarif};
use oci::error::{Result, ascii_json, printable_lines};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportFormat {
    Text,
    Json,
    Markdown,
    Html,
    Junit,
    Sarif,
}

impl ReportFormat {
    pub const ALL: [Self; 6] = [Self::Text, Self::Json, Self::Markdown, Self::Html, Self::Junit, Self::Sarif];

    /// The word of `--report FORMAT=FILE`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Markdown => "markdown",
            Self::Html => "html",
            Self::Junit => "junit",
            Self::Sarif => "sarif",
        }
    }

    /// The report as the text of a file.
    pub fn write(self, report: &impl Reportable) -> Result<String> {
        Ok(match self {
            Self::Text => printable_lines(&report.text()),
            Self::Json => format!("{}\n", ascii_json(&report.json())),
            Self::Markdown => printable_lines(&to_markdown(&report.rows())),
            Self::Html => printable_lines(&to_html(&report.rows())),
            Self::Junit => printable_lines(&to_junit(&report.rows())?),
            Self::Sarif => format!("{}\n", ascii_json(&to_sarif(&report.rows()))),
        })
    }
}
