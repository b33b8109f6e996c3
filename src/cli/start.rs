//! `underpin start`: starts an image for real, in a sandbox.

use std::path::PathBuf;

use clap::Args;

use super::Ended;
use super::args::{SayArgs, SessionArgs};
use super::console::{Console, Form};
use super::report_file::ReportArgs;
use crate::plan::{DEFAULT_START_SECONDS, StartMount, StartOptions, StartSeconds, Variable};
use crate::report::Reportable as _;
use crate::run;
use crate::store::Session;
use crate::store::disk::note_location;
use oci::Platform;
use oci::error::Result;

/// Start an image for real in a sandbox, and say whether it runs
///
/// The image's program is executed: without a network, with limits, in a root that is thrown away.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_flag = true)]
pub struct Start {
    /// Image to start
    #[arg(value_name = "IMAGE")]
    image: String,
    /// Start only this platform (repeatable) [default: all platforms of the image]
    #[arg(long, value_name = "OS/ARCH[/VARIANT]")]
    platform: Vec<String>,
    /// How long to watch it
    #[arg(long, value_name = "SECONDS", default_value = DEFAULT_START_SECONDS)]
    seconds: StartSeconds,
    /// Start with this argument after the image's command (repeatable)
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    start_arg: Vec<String>,
    /// Start with this variable (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    start_env: Vec<Variable>,
    /// Start with this path of the host, read-only (repeatable)
    #[arg(long, value_name = "HOST-PATH:PATH")]
    start_mount: Vec<StartMount>,
    /// OCI runtime to start with [default: runc, crun or youki on PATH]
    #[arg(long, value_name = "PATH")]
    runtime: Option<PathBuf>,
    /// Refuse if a platform cannot be started on this machine
    #[arg(long)]
    require_all_platforms: bool,
    #[command(flatten)]
    pub(super) world: SessionArgs,
    #[command(flatten)]
    reports: ReportArgs,
    #[command(flatten)]
    pub(super) say: SayArgs,
}

const EXAMPLES: &str = "Examples:
  # does it run?
  underpin start registry.example/app:v1

  # a program that needs something to live
  underpin start registry.example/app:v1 --seconds 10 --start-arg --once \\
      --start-env MODE=test --start-mount /etc/hostname:/etc/app.conf

  # before and after a move
  underpin rebase registry.example/app:v1 --start=2 --to registry.example/app:v1-static";

impl Start {
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        let image = self.image.parse()?;
        let platforms = self.platform.iter().map(|text| text.parse()).collect::<Result<Vec<Platform>>>()?;
        note_location(&image);
        let files = self.reports.open()?;
        let options = StartOptions {
            seconds: self.seconds,
            args: self.start_arg.clone(),
            env: self.start_env.clone(),
            mounts: self.start_mount.clone(),
            runtime: self.runtime.clone(),
            require_all_platforms: self.require_all_platforms,
        };
        let session = Session::new(&self.world.session_options()?, console.notices(), console.progress())?;
        let report = run::start(&session, &image, &platforms, &options)?;
        files.write(&report)?;
        match console.form {
            Form::Json => console.json(&report.json()),
            Form::Text => console.show(&report.text()),
        }
        Ok(report.grade().into())
    }
}
