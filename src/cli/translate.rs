//! `underpin translate`: what a shell-form command becomes, or why it cannot.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::Ended;
use super::args::SayArgs;
use super::console::{Console, Form};
use super::report_file::ReportArgs;
use crate::plan::{KlogStyle, LogChoice};
use crate::report::{Reportable as _, Translation};
use crate::store::disk::{Symlinks, open_regular};
use oci::error::{Error, Result};
use shell::logs::{Spelling, Strategy};
use shell::{CommandContext, Declared, ImageContext, Programs, Verdict};

/// Translate a shell-form command to exec form, or explain why it cannot be; runs nothing
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Translate {
    /// The command, as the argument list that a runtime gets
    #[arg(value_name = "ARGV", last = true, required = true)]
    argv: Vec<OsString>,
    /// The command is from a Kubernetes manifest, where the kubelet expands $(NAME)
    #[arg(long, value_name = "PLACE", num_args = 0..=1, require_equals = true, default_missing_value = "command")]
    kube: Option<KubePlace>,
    /// Variable that the container declares; without a value, assumed to be a single word (repeatable)
    #[arg(long, value_name = "NAME[=VALUE]", requires = "kube")]
    env: Vec<String>,
    /// Variable of the image that may be replaced by its value in the command (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    image_env: Vec<String>,
    /// How to keep the log file that the shell redirected to; `auto` leaves the choice open
    #[arg(long, value_name = "HOW", value_enum, default_value = "auto")]
    logs: LogChoice,
    /// How to spell klog's flags; `auto` assumes dashes and says so
    #[arg(long, value_name = "STYLE", value_enum, default_value = "auto")]
    klog_style: KlogStyle,
    /// File with the script that the command starts
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Print the verdict as JSON on stdout
    #[arg(long, help_heading = "Output")]
    json: bool,
    #[command(flatten)]
    reports: ReportArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KubePlace {
    /// command and args of a container
    Command,
    /// an exec probe
    Probe,
    /// a lifecycle hook
    Hook,
}

const EXAMPLES: &str = "Examples:
  # an ENTRYPOINT in shell form
  underpin translate -- /bin/sh -c 'exec /app --v=2 >>/var/log/app.log 2>&1'

  # the command of a container, for a program that uses klog
  underpin translate --kube --env NODE_NAME --logs klog -- \\
      sh -c '/proxy --node=$NODE_NAME 1>>/var/log/proxy.log 2>&1'

  # an entrypoint script
  underpin translate --script run.sh --json -- ./run.sh --v=4

Exit codes: 0 translated, or no shell is involved; 1 refused: the command needs a shell; 2 wrong usage, or a file could not be read.";

/// Where images usually have the runner.
const RUNNER: &str = "/go-runner";

/// No more of a script is read; what is longer is refused.
const LONGEST_SCRIPT: u64 = 1 << 20;

impl Translate {
    pub(super) fn say(&self) -> SayArgs {
        SayArgs { json: self.json, ..SayArgs::default() }
    }

    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        let context = self.context()?;
        let script = self.script.as_deref().map(read).transpose()?;
        let files = self.reports.open()?;
        let translation = Translation::of(&self.argv, script.as_deref(), &context, self.strategy().as_ref());
        match (console.form, &translation.verdict) {
            (Form::Json, _) => console.json(&translation.json()),
            // A refusal goes to stderr, as all refusals do.
            (Form::Text, Verdict::Refuse(_)) => console.insist(&translation.text()),
            (Form::Text, _) => console.show(&translation.text()),
        }
        let ended = match translation.verdict {
            Verdict::Refuse(_) => Ended::Refused,
            Verdict::Translate(_) | Verdict::Unchanged(_) => Ended::Done,
        };
        Ok(console.ended(ended, files.write(&translation)))
    }

    fn context(&self) -> Result<CommandContext> {
        let frozen = self.image_env.iter().map(|text| pair(text, "--image-env")).collect::<Result<_>>()?;
        let declared: BTreeMap<String, Declared> = self.env.iter().map(|text| declared(text)).collect::<Result<_>>()?;
        Ok(match self.kube {
            None => CommandContext::Image(ImageContext { frozen, ..ImageContext::default() }),
            Some(KubePlace::Command) => CommandContext::Container { declared, frozen, programs: Programs::Unknown },
            Some(KubePlace::Probe) => CommandContext::Probe { declared },
            Some(KubePlace::Hook) => CommandContext::Hook,
        })
    }

    /// `None` where the log is only described.
    fn strategy(&self) -> Option<Strategy> {
        let spelling = match self.klog_style {
            KlogStyle::Auto => Spelling::AssumedDash,
            KlogStyle::Dash => Spelling::Dash,
            KlogStyle::Underscore => Spelling::Underscore,
        };
        match self.logs {
            LogChoice::Auto => None,
            LogChoice::Klog => Some(Strategy::Klog(spelling)),
            LogChoice::Runner => Some(Strategy::Runner(RUNNER.to_owned())),
            LogChoice::Stdout => Some(Strategy::Stdout),
        }
    }
}

fn pair(text: &str, flag: &'static str) -> Result<(String, String)> {
    let wrong = || Error::usage("a variable must be given as NAME=VALUE").fact("flag", flag).fact("value", text);
    let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
    Ok((name.to_owned(), value.to_owned()))
}

fn declared(text: &str) -> Result<(String, Declared)> {
    if text.contains('=') {
        return pair(text, "--env").map(|(name, value)| (name, Declared::Literal(value)));
    }
    Ok((text.to_owned(), Declared::OneWord))
}

/// The script's bytes, a little more than is accepted at most.
fn read(path: &Path) -> Result<Vec<u8>> {
    use std::io::Read as _;
    let missing = || Error::missing("no such file").fact("path", path.display());
    let file = open_regular(path, Symlinks::Followed)?.ok_or_else(missing)?;
    let mut bytes = Vec::new();
    let failed = |error| Error::from_stream(error, "could not read the script");
    file.reader(0).take(LONGEST_SCRIPT).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}
