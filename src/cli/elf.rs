//! `underpin elf`: the static check on local files.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;

use super::Ended;
use super::args::SayArgs;
use super::console::{Console, Form};
use super::report_file::ReportArgs;
use crate::report::{Programs, Reportable as _};
use crate::store::disk::{Symlinks, open_regular};
use elf::{Probe, Program};
use oci::error::{Error, Result};

/// Show how programs are linked, and for which machine; exit 1 unless all are statically linked
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Elf {
    /// Programs to examine
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print one JSON object per file
    #[arg(long, help_heading = "Output")]
    json: bool,
    #[command(flatten)]
    reports: ReportArgs,
}

const EXAMPLES: &str = "Examples:
  # fail a build whose program would not start on distroless/static
  underpin elf bin/app

  # the libraries a program needs, for scripts
  underpin elf --json /bin/ls | jq -r .needed[]

Exit codes: 0 all are statically linked; 1 one is not; 2 a file could not be read.";

const BUFFER: usize = 256 << 10;

impl Elf {
    pub(super) fn say(&self) -> SayArgs {
        SayArgs { json: self.json, ..SayArgs::default() }
    }

    /// Every file is looked at, also after one that cannot be read.
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        let programs = Programs(self.files.iter().map(|path| (path.display().to_string(), look(path))).collect());
        let files = self.reports.open()?;
        match console.form {
            Form::Json if programs.errors().count() == self.files.len() => {}
            Form::Json => console.json(&programs.json()),
            Form::Text => console.show(&programs.text()),
        }
        for error in programs.errors() {
            console.error(error);
        }
        Ok(console.ended(programs.grade().into(), files.write(&programs)))
    }
}

/// What the file is. Symlinks are followed: the user named them. How a program is linked does not depend on its
/// strings, and to find those takes most of the time.
fn look(path: &Path) -> Result<Program> {
    let missing = || Error::missing("no such file").fact("path", path.display());
    let file = open_regular(path, Symlinks::Followed)?.ok_or_else(missing)?;
    let mut probe = Probe::without_strings(file.len());
    let mut reader = file.reader(0);
    let mut buffer = vec![0; BUFFER];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(probe.finish()),
            Ok(got) => probe.feed(buffer.get(..got).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::from_stream(error, "could not read the file")),
        }
    }
}
