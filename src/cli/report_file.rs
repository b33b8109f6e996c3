//! Reports that go to files, in every format.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;

use crate::error::{Error, Result};
use crate::report::{Reportable, to_html, to_junit, to_markdown, to_sarif};
use crate::store::disk::{check_writable, write_file};

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Write a report to a file (repeatable); FORMAT is text, json, markdown, html, junit or sarif
    #[arg(long, value_name = "FORMAT=FILE", help_heading = "Output")]
    report: Vec<ReportFile>,
}

impl ReportArgs {
    /// Checks that the reports can be written, before anything is published.
    pub(super) fn check(&self) -> Result<()> {
        self.report.iter().try_for_each(|file| check_writable(&file.path))
    }

    pub(super) fn write(&self, report: &impl Reportable) -> Result<()> {
        self.report.iter().try_for_each(|file| file.write(report))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReportFormat {
    Text,
    Json,
    Markdown,
    Html,
    Junit,
    Sarif,
}

const FORMATS: [(&str, ReportFormat); 6] = [
    ("text", ReportFormat::Text),
    ("json", ReportFormat::Json),
    ("markdown", ReportFormat::Markdown),
    ("html", ReportFormat::Html),
    ("junit", ReportFormat::Junit),
    ("sarif", ReportFormat::Sarif),
];

/// `FORMAT=FILE`
#[derive(Debug, Clone)]
struct ReportFile {
    format: ReportFormat,
    path: PathBuf,
}

impl FromStr for ReportFile {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let split = text.split_once('=').filter(|(_, path)| !path.is_empty());
        let found = split.and_then(|(word, path)| {
            let (_, format) = FORMATS.into_iter().find(|(name, _)| *name == word)?;
            Some(Self { format, path: Path::new(path).to_owned() })
        });
        found.ok_or_else(|| {
            let words: Vec<&str> = FORMATS.iter().map(|(word, _)| *word).collect();
            Error::usage(format!("expected FORMAT=FILE, where FORMAT is one of {}", words.join(", ")))
        })
    }
}

impl ReportFile {
    fn write(&self, report: &impl Reportable) -> Result<()> {
        let text = match self.format {
            ReportFormat::Text => report.text(),
            ReportFormat::Json => format!("{}\n", report.json()),
            ReportFormat::Markdown => to_markdown(&report.rows()),
            ReportFormat::Html => to_html(&report.rows()),
            ReportFormat::Junit => to_junit(&report.rows())?,
            ReportFormat::Sarif => format!("{}\n", to_sarif(&report.rows())),
        };
        write_file(&self.path, text.as_bytes())
    }
}
