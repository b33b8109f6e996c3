//! Reports that go to files, in every format.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;

use crate::error::{Error, Result};
use crate::report::{ReportFormat, Reportable};
use crate::store::disk::OutputFile;

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Write a report to a file (repeatable); FORMAT is text, json, markdown, html, junit or sarif
    #[arg(long, value_name = "FORMAT=FILE", help_heading = "Output")]
    report: Vec<ReportFile>,
}

impl ReportArgs {
    /// Opens the files, before anything is published.
    pub(super) fn open(&self) -> Result<ReportFiles> {
        let open = |file: &ReportFile| Ok((file.format, OutputFile::open(&file.path)?));
        Ok(ReportFiles(self.report.iter().map(open).collect::<Result<_>>()?))
    }
}

/// Reports that are open and not written yet.
#[derive(Debug)]
pub(super) struct ReportFiles(Vec<(ReportFormat, OutputFile)>);

impl ReportFiles {
    /// Writes all of them. One that fails does not keep the others from being written.
    pub(super) fn write(self, report: &impl Reportable) -> Result<()> {
        let write = |(format, file): (ReportFormat, OutputFile)| file.write(format.write(report)?.as_bytes());
        self.0.into_iter().map(write).fold(Ok(()), Result::and)
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
