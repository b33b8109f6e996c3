//! `underpin kube`: the same translation in Kubernetes manifests.

mod files;
mod images;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::Ended;
use super::args::{Logs, SayArgs, Style, WorldArgs};
use super::console::{Console, Form};
use super::report_file::ReportArgs;
use crate::error::{Error, Result};
use crate::kube::{self, NoImages, Options};
use crate::report::kube::{self as report, File, Manifests, Mode};
use crate::store::disk::write_file;

use files::Input;

/// Rewrite shell-form commands, probes and hooks of Kubernetes manifests to exec form; nothing else changes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Kube {
    /// Manifests, folders of them, patterns such as 'deploy/**/*.yaml', or `-` for a stream
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Name the files that would change, and exit 1 if there are any
    #[arg(long, group = "mode")]
    check: bool,
    /// Show what would change (the default)
    #[arg(long, group = "mode")]
    diff: bool,
    /// Change the files, and name those that were changed; a stream is passed on
    #[arg(long, group = "mode")]
    write: bool,
    /// Who writes the log file that a shell wrote
    #[arg(long, value_enum, default_value = "auto")]
    logs: Logs,
    /// How klog's flags are spelled
    #[arg(long, value_enum, default_value = "auto")]
    klog_style: Style,
    /// Which template's placeholders are kept as words
    #[arg(long, value_enum)]
    template: Option<Engine>,
    /// The image that containers of image NAME will run: its programs are looked at (repeatable)
    #[arg(long, value_name = "NAME=LOCATION")]
    image: Vec<String>,
    #[command(flatten)]
    reports: ReportArgs,
    #[command(flatten)]
    pub(super) world: WorldArgs,
    #[command(flatten)]
    pub(super) say: SayArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Engine {
    /// The well-known placeholders of cluster/gce/manifests, such as {{params}}
    Salt,
}

const EXAMPLES: &str = "Examples:
  # what would change in a folder of manifests, where programs log with klog
  underpin kube --logs klog deploy/

  # change them, proving the flags on the image that will run
  underpin kube --write --image registry.example/proxy=oci:build:proxy deploy/proxy.yaml

  # a presubmit with a report
  underpin kube --check --logs runner --report junit=report.xml 'cluster/**/*.yaml'

Exit codes: 0 done, or already right; 1 something was refused, or with --check would change; 2 usage, unreadable file.";

impl Kube {
    /// Every file is looked at, also after one that cannot be read.
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        self.reports.check()?;
        let inputs = files::find(&self.files)?;
        let images = images::fetch(&self.image, &self.world, console)?;
        let options = Options {
            logs: self.logs.into(),
            klog_style: self.klog_style.into(),
            template: if self.template.is_some() { kube::Template::Salt } else { kube::Template::Rendered },
            images: images.as_ref().map_or(&NoImages, |images| images),
        };
        let mut looked: Vec<File> = inputs.iter().map(|input| look(input, &options)).collect();
        if self.mode() == Mode::Write {
            inputs.iter().zip(&mut looked).for_each(|(input, file)| write(input, file));
        }
        self.tell(console, &looked);
        self.reports.write(&Manifests { files: &looked, mode: self.mode() })?;
        Ok(self.ended(&looked))
    }

    fn mode(&self) -> Mode {
        match (self.check, self.write) {
            (true, _) => Mode::Check,
            (_, true) => Mode::Write,
            _ => Mode::Diff,
        }
    }

    fn tell(&self, console: &Console, looked: &[File]) {
        match console.form {
            Form::Json => console.data(&format!("{}\n", report::to_json(looked))),
            Form::Text => self.show(console, looked),
        }
        console.say(&report::changes(looked));
        console.insist(&report::refusals(looked));
        for error in looked.iter().filter_map(|file| file.result.as_ref().err()) {
            console.insist(&format!("error: {error}\n"));
        }
        console.say(&report::summary(looked, self.mode()));
    }

    fn show(&self, console: &Console, looked: &[File]) {
        for file in looked {
            let Ok(judged) = &file.result else { continue };
            let is_stream = file.path == files::STREAM;
            match self.mode() {
                // A stream is passed on whole, or it would be lost.
                Mode::Write if is_stream => console.data(&judged.text),
                _ if !file.is_changed() => {}
                Mode::Check | Mode::Write => console.data(&format!("{}\n", crate::error::printable(&file.path))),
                Mode::Diff => {
                    console.data(&report::unified(&file.path, &file.before, &judged.text, Console::paint()));
                }
            }
        }
    }

    fn ended(&self, looked: &[File]) -> Ended {
        let would_change = self.mode() == Mode::Check && looked.iter().any(File::is_changed);
        if looked.iter().any(|file| file.result.is_err()) {
            Ended::Failed
        } else if would_change || looked.iter().any(File::is_refused) {
            Ended::Refused
        } else {
            Ended::Done
        }
    }
}

fn look(input: &Input, options: &Options<'_>) -> File {
    let path = input.name();
    let named = |error: Error| error.fact("file", &path);
    match files::read(input) {
        Ok(before) => {
            let result = kube::judge(&before, options).map_err(named);
            File { path, before, result }
        }
        Err(error) => File { path: path.clone(), before: String::new(), result: Err(named(error)) },
    }
}

/// Replaces the file where it changes, whole or not at all.
fn write(input: &Input, file: &mut File) {
    if let (Input::File(path), Ok(judged), true) = (input, &file.result, file.is_changed())
        && let Err(error) = replace(path, &file.before, &judged.text)
    {
        file.result = Err(error);
    }
}

fn replace(path: &Path, before: &str, after: &str) -> Result<()> {
    if files::read(&Input::File(path.to_owned()))? != before {
        return Err(Error::input("the file has changed while it was looked at").fact("path", path.display()));
    }
    write_file(path, after.as_bytes())
}
