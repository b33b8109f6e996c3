//! Reports that go to files, in every format.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;

use crate::attest::sbom::{Sbom, SbomFormat, SbomWish};
use crate::report::{FileListing, ReportFormat, Reportable};
use crate::store::disk::{OutputFile, OutputRole};
use oci::error::{Error, Result};

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Write a report to a file (repeatable); FORMAT is text, json, markdown, html, junit or sarif
    #[arg(long, value_name = "FORMAT=FILE", help_heading = "Output")]
    report: Vec<ReportFile>,
}

/// The same for commands that make images.
#[derive(Debug, Args)]
pub struct ResultReportArgs {
    /// Write a report to a file (repeatable); FORMAT is text, json, markdown, html, junit, sarif, or spdx or cyclonedx for an SBOM,
    /// where {platform} and {digest} in FILE are replaced
    #[arg(long, value_name = "FORMAT=FILE", help_heading = "Output")]
    report: Vec<AnyReportFile>,
}

/// How many documents of a kind a run makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Images {
    One,
    Many,
}

impl ReportArgs {
    /// Opens the files, before anything is published.
    pub(super) fn open(&self) -> Result<ReportFiles> {
        self.report.iter().map(ReportFile::open).collect::<Result<_>>().map(ReportFiles)
    }

    /// Whether one of them lists the files of each layer.
    pub(super) fn listing(&self, images: usize) -> FileListing {
        listing(self.report.iter(), images)
    }
}

impl ResultReportArgs {
    /// Opens the files, before anything is published.
    pub(super) fn open(&self) -> Result<ReportFiles> {
        let reports = self.report.iter().filter_map(|file| match file {
            AnyReportFile::Report(file) => Some(file.open()),
            AnyReportFile::Sbom(_) => None,
        });
        reports.collect::<Result<_>>().map(ReportFiles)
    }

    /// Whether one of them lists the files of each layer.
    pub(super) fn listing(&self, images: usize) -> FileListing {
        let reports = self.report.iter().filter_map(|file| match file {
            AnyReportFile::Report(file) => Some(file),
            AnyReportFile::Sbom(_) => None,
        });
        listing(reports, images)
    }

    /// What the run has to make for SBOMs. The file with the least room decides.
    pub(super) fn sbom_wish(&self) -> SbomWish {
        let files = self.report.iter().filter_map(|file| match file {
            AnyReportFile::Sbom(file) => Some(file.wish()),
            AnyReportFile::Report(_) => None,
        });
        files.min().unwrap_or(SbomWish::None)
    }

    /// Tries the files of SBOMs, whose names are not known before there is an image.
    pub(super) fn sboms(&self, images: Images) -> Result<SbomFiles> {
        let files = self.report.iter().filter_map(|file| match file {
            AnyReportFile::Sbom(file) => Some(file.clone()),
            AnyReportFile::Report(_) => None,
        });
        let files: Vec<SbomFile> = files.collect();
        for file in &files {
            file.check(images)?;
        }
        Ok(SbomFiles(files))
    }
}

/// Of all formats only a page lists files.
fn listing<'a>(mut files: impl Iterator<Item = &'a ReportFile>, images: usize) -> FileListing {
    let has_page = files.any(|file| file.format == ReportFormat::Html);
    if has_page { FileListing::for_images(images) } else { FileListing::None }
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

/// SBOMs to write once there is an image.
#[derive(Debug)]
pub(super) struct SbomFiles(Vec<SbomFile>);

impl SbomFiles {
    pub(super) fn write(&self, sboms: &[Sbom]) -> Result<()> {
        let all = self.0.iter().flat_map(|file| sboms.iter().map(|sbom| file.write(sbom)));
        all.fold(Ok(()), Result::and)
    }
}

/// `FORMAT=FILE`
#[derive(Debug, Clone)]
struct ReportFile {
    format: ReportFormat,
    path: PathBuf,
}

impl ReportFile {
    fn open(&self) -> Result<(ReportFormat, OutputFile)> {
        Ok((self.format, OutputFile::open(&self.path)?))
    }
}

/// An SBOM, by the pattern of its file's name.
#[derive(Debug, Clone)]
struct SbomFile {
    format: SbomFormat,
    pattern: String,
    role: OutputRole,
}

impl SbomFile {
    const PLATFORM: &str = "{platform}";
    const DIGEST: &str = "{digest}";

    fn wish(&self) -> SbomWish {
        let is_for_many = self.pattern.contains(Self::PLATFORM) || self.pattern.contains(Self::DIGEST);
        if is_for_many { SbomWish::ForEachPlatform } else { SbomWish::One }
    }

    /// Whether it can be written, and has a name for each document.
    fn check(&self, images: Images) -> Result<()> {
        if images == Images::Many && !self.pattern.contains(Self::DIGEST) {
            return Err(Error::usage("the SBOMs of several images need a file each").fact("file", &self.pattern).hint(
                format!(
                    "put {{digest}} into the name of the file: --report {}=sbom-{{digest}}.json",
                    self.format.word()
                ),
            ));
        }
        OutputFile::open_as(Path::new(&self.pattern), self.role).map(drop)
    }

    fn write(&self, sbom: &Sbom) -> Result<()> {
        let platform = sbom.platform.to_string().replace('/', "-");
        let name = self.pattern.replace(Self::PLATFORM, &platform).replace(Self::DIGEST, &sbom.digest.hex());
        OutputFile::open_as(Path::new(&name), self.role)?.write(self.format.write(sbom).as_bytes())
    }
}

#[derive(Debug, Clone)]
enum AnyReportFile {
    Report(ReportFile),
    Sbom(SbomFile),
}

impl FromStr for ReportFile {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (word, path) = split(text)?;
        if SbomFormat::ALL.iter().any(|format| format.word() == word) {
            return Err(Error::usage("only rebase, plan and batch write an SBOM"));
        }
        let format = ReportFormat::ALL.into_iter().find(|format| format.word() == word);
        let format = format.ok_or_else(|| unknown(&ReportFormat::ALL.map(ReportFormat::word)))?;
        Ok(Self { format, path: Path::new(path).to_owned() })
    }
}

impl FromStr for AnyReportFile {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (word, path) = split(text)?;
        match SbomFormat::ALL.into_iter().find(|format| format.word() == word) {
            Some(format) => Ok(Self::Sbom(SbomFile { format, pattern: path.to_owned(), role: OutputRole::unique() })),
            None => text.parse().map(Self::Report).map_err(|_| {
                let sboms = SbomFormat::ALL.map(SbomFormat::word);
                unknown(&[&ReportFormat::ALL.map(ReportFormat::word)[..], &sboms].concat())
            }),
        }
    }
}

fn split(text: &str) -> Result<(&str, &str)> {
    let split = text.split_once('=').filter(|(_, path)| !path.is_empty());
    split.ok_or_else(|| unknown(&ReportFormat::ALL.map(ReportFormat::word)))
}

fn unknown(words: &[&str]) -> Error {
    Error::usage(format!("expected FORMAT=FILE, where FORMAT is one of {}", words.join(", ")))
}
