//! `underpin kube`: the same translation in Kubernetes manifests.

pub(super) mod inputs;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::Ended;
use super::args::{SayArgs, SessionArgs};
use super::console::{Console, Form};
use super::report_file::ReportArgs;
use crate::kube::{self, KubeOptions, NoImages};
use crate::plan::{KlogStyle, LogChoice};
use crate::report::kube::{self as report, KubeMode, KubeReport, ManifestFile};
use crate::store::disk::edit_file;
use oci::error::{Error, Result};

use inputs::Input;

/// Rewrite shell-form commands, probes and hooks in Kubernetes manifests to exec form; changes nothing else
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_flag = true)]
pub struct Kube {
    /// Manifests, directories, patterns such as 'deploy/**/*.yaml', or `-` for stdin
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// List the files that would change, and exit 1 if there are any
    #[arg(long, group = "mode")]
    check: bool,
    /// Show what would change (the default)
    #[arg(long, group = "mode")]
    diff: bool,
    /// Change the files in place, and list those that changed; stdin goes to stdout
    #[arg(long, group = "mode")]
    write: bool,
    /// How to keep the log file that the shell redirected to
    #[arg(long, value_name = "HOW", value_enum, default_value = "auto")]
    logs: LogChoice,
    /// How to spell klog's flags
    #[arg(long, value_name = "STYLE", value_enum, default_value = "auto")]
    klog_style: KlogStyle,
    /// Template language whose placeholders are kept as they are
    #[arg(long, value_enum)]
    template: Option<Engine>,
    /// Image that containers with image NAME will run; its programs are examined (repeatable)
    #[arg(long, value_name = "NAME=LOCATION")]
    image: Vec<String>,
    #[command(flatten)]
    pub(super) world: SessionArgs,
    #[command(flatten)]
    reports: ReportArgs,
    #[command(flatten)]
    pub(super) say: SayArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Engine {
    /// The well-known placeholders of cluster/gce/manifests, such as {{params}}
    Salt,
}

const EXAMPLES: &str = "Examples:
  # show what would change in a directory of manifests, for programs that log with klog
  underpin kube --logs klog deploy/

  # change a file, after checking the flags against the image that will run
  underpin kube --write --image registry.example/proxy=oci:build:proxy deploy/proxy.yaml

  # a presubmit with a report
  underpin kube --check --logs runner --report junit=report.xml 'cluster/**/*.yaml'

Exit codes: 0 done, or nothing to do; 1 something was refused, or with --check would change; 2 wrong usage, or a file could not be read.";

impl Kube {
    /// Every file is processed, also after one that cannot be read.
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        let inputs = inputs::find(&self.files)?;
        let files = self.reports.open()?;
        let images = inputs::fetch_images(&self.image, &self.world, console)?;
        let options = KubeOptions {
            logs: self.logs,
            klog_style: self.klog_style,
            template: if self.template.is_some() { kube::Template::Salt } else { kube::Template::Rendered },
            images: images.as_ref().map_or(&NoImages, |images| images),
        };
        let mut looked: Vec<ManifestFile> = inputs.iter().map(|input| look(input, &options)).collect();
        if self.mode() == KubeMode::Write {
            inputs.iter().zip(&mut looked).for_each(|(input, file)| write(input, file));
        }
        self.tell(console, &looked);
        let report = KubeReport { files: &looked, mode: self.mode() };
        Ok(console.ended(self.ended(&looked), files.write(&report)))
    }

    fn mode(&self) -> KubeMode {
        match (self.check, self.write) {
            (true, _) => KubeMode::Check,
            (_, true) => KubeMode::Write,
            _ => KubeMode::Diff,
        }
    }

    fn tell(&self, console: &Console, looked: &[ManifestFile]) {
        match console.form {
            Form::Json => console.json(&report::to_json(looked).to_string()),
            Form::Text => self.show(console, looked),
        }
        console.say(&report::changes(looked));
        console.insist(&report::refusals(looked));
        for error in looked.iter().filter_map(|file| file.result.as_ref().err()) {
            console.insist(&format!("error: {error}\n"));
        }
        console.say(&report::summary(looked, self.mode()));
    }

    fn show(&self, console: &Console, looked: &[ManifestFile]) {
        for file in looked {
            let Ok(rewritten) = &file.result else { continue };
            let is_stream = file.path == inputs::STREAM;
            match self.mode() {
                // A stream is passed on whole, or it would be lost.
                KubeMode::Write if is_stream => console.data(&rewritten.text),
                _ if !file.is_changed() => {}
                KubeMode::Check | KubeMode::Write => {
                    console.show(&format!("{}\n", oci::error::printable(&file.path)));
                }
                KubeMode::Diff => {
                    console.diff(&report::unified(&file.path, &file.before, &rewritten.text));
                }
            }
        }
    }

    fn ended(&self, looked: &[ManifestFile]) -> Ended {
        let would_change = self.mode() == KubeMode::Check && looked.iter().any(ManifestFile::is_changed);
        if looked.iter().any(|file| file.result.is_err()) {
            Ended::Failed
        } else if would_change || looked.iter().any(ManifestFile::is_refused) {
            Ended::Refused
        } else {
            Ended::Done
        }
    }
}

fn look(input: &Input, options: &KubeOptions<'_>) -> ManifestFile {
    let path = input.name();
    let named = |error: Error| error.fact("file", &path);
    match inputs::read(input) {
        Ok(before) => {
            let result = kube::rewrite(&before, options).map_err(named);
            ManifestFile { path, before, result }
        }
        Err(error) => ManifestFile { path: path.clone(), before: String::new(), result: Err(named(error)) },
    }
}

/// Replaces a file that changes, whole or not at all.
fn write(input: &Input, file: &mut ManifestFile) {
    if let (Input::File(path), Ok(rewritten), true) = (input, &file.result, file.is_changed())
        && let Err(error) = replace(path, &file.before, &rewritten.text)
    {
        file.result = Err(error);
    }
}

fn replace(path: &Path, before: &str, after: &str) -> Result<()> {
    if inputs::read(&Input::File(path.to_owned()))? != before {
        return Err(Error::input("the file changed while it was being rewritten").fact("path", path.display()));
    }
    edit_file(path, after.as_bytes())
}
