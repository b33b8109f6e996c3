//! Reports that go to files, in every format.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;

use crate::error::{Error, Result};
use crate::report::{ReportFormat, Reportable};
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
            let format = ReportFormat::ALL.into_iter().find(|format| format.word() == word)?;
            Some(Self { format, path: Path::new(path).to_owned() })
        });
        found.ok_or_else(|| {
            let words = ReportFormat::ALL.map(ReportFormat::word);
            Error::usage(format!("expected FORMAT=FILE, where FORMAT is one of {}", words.join(", ")))
        })
    }
}

impl ReportFile {
    fn write(&self, report: &impl Reportable) -> Result<()> {
        let text = self.format.write(report)?;
        write_file(&self.path, text.as_bytes())
    }
}
