//! Flags that several commands share, and how they become settings.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use super::console::Console;
use super::environment::{cache_folder, limit};
use super::policy_args::PolicyArgs;
use crate::error::{Error, Result};
use crate::examine::base::Choice;
use crate::examine::{Extent, KlogStyle, LogChoice, Taking, Wishes};
use crate::layer::RootPath;
use crate::oci::{Location, Platform};
use crate::plan::{Epoch, Options};
use crate::policy::{Allow, OnMissing};
use crate::settings::{self, CacheChoice, DEFAULT_BASE, Job, Network, Surroundings};
use crate::store::collect;
use crate::store::disk::line;
use crate::store::fetch::{OldBaseChoice, Request};

/// What to move, and onto what. Fields are in the order of `--help`.
#[derive(Debug, Args)]
pub struct MoveArgs {
    /// Image to move: REGISTRY/NAME[:TAG][@DIGEST], oci:DIR[:TAG], oci-archive:FILE[:TAG] or docker-archive:FILE[:[NAME:]TAG]
    #[arg(value_name = "SOURCE")]
    source: String,
    /// New base
    #[arg(long, value_name = "REF", default_value = DEFAULT_BASE, help_heading = "Where")]
    base: String,
    /// Move only this platform (repeatable) [default: all platforms of the source]
    #[arg(long, value_name = "OS/ARCH[/VARIANT]", help_heading = "Where")]
    platform: Vec<String>,
    /// What to do if the new base lacks a platform
    #[arg(long, value_name = "ACTION", value_enum, default_value = "refuse", help_heading = "Where")]
    on_missing_platform: OnMissingPlatform,
    /// Base the image was built on: an image, `scratch`, or `layers:N` for the first N layers [default: detect]
    #[arg(long, value_name = "REF|scratch|layers:N", help_heading = "Old base")]
    old_base: Option<String>,
    /// Candidate for the old base, tried if the image does not name its base (repeatable)
    #[arg(long, value_name = "REF", help_heading = "Old base")]
    known_base: Vec<String>,
    /// Override ENTRYPOINT (JSON array); still verified
    #[arg(long, value_name = "JSON", help_heading = "Command")]
    entrypoint: Option<Words>,
    /// Override CMD (JSON array); still verified
    #[arg(long, value_name = "JSON", help_heading = "Command")]
    cmd: Option<Words>,
    /// Replace this variable in the command with its value in the image (repeatable)
    #[arg(long, value_name = "NAME", help_heading = "Command")]
    freeze_env: Vec<String>,
    /// How to keep the log file that the shell redirected to
    #[arg(long, value_name = "HOW", value_enum, default_value = "auto", help_heading = "Command")]
    logs: Logs,
    /// How to spell klog's flags
    #[arg(long, value_name = "STYLE", value_enum, default_value = "auto", help_heading = "Command")]
    klog_style: Style,
    /// Image to copy the log runner from, such as registry.k8s.io/build-image/go-runner
    #[arg(long, value_name = "REF", help_heading = "Command")]
    log_runner: Option<String>,
    /// Copy only the program and the files it needs; for squashed images and unknown bases
    #[arg(long, help_heading = "Contents")]
    extract: bool,
    /// Keep this path of the image even if it belongs to the old base or to a package (repeatable)
    #[arg(long, value_name = "PATH", help_heading = "Contents")]
    keep: Vec<String>,
    /// Move the image in spite of this refusal (repeatable); recorded in the report and in the image
    #[arg(long, value_name = "RULE[=PATH]", help_heading = "Policy")]
    allow: Vec<Allow>,
    #[command(flatten)]
    policy: PolicyArgs,
    /// Refuse unless the result has this digest
    #[arg(long, value_name = "DIGEST", help_heading = "Policy")]
    expect_digest: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OnMissingPlatform {
    Refuse,
    Skip,
}

impl MoveArgs {
    pub fn job(&self, to: &[String]) -> Result<Job> {
        let platforms = self.platform.iter().map(|text| text.parse()).collect::<Result<Vec<Platform>>>()?;
        let choice = self.old_base.as_deref().map_or(Ok(Choice::Detect), settings::old_base)?;
        let wishes = self.wishes()?;
        let job = Job {
            request: Request {
                source: self.source.parse()?,
                base: self.base.parse()?,
                old_base: OldBaseChoice::Same(choice),
                platforms: platforms.clone(),
                known: locations(&self.known_base)?,
                wishes: wishes.clone(),
                log_runner: self.log_runner.as_deref().map(str::parse).transpose()?,
            },
            on_missing: match self.on_missing_platform {
                OnMissingPlatform::Refuse => OnMissing::Refuse,
                OnMissingPlatform::Skip => OnMissing::Skip,
            },
            options: Options { epoch: epoch()?, platforms, allow: self.allowed(), wishes },
            targets: locations(to)?,
            expect: self.expect_digest.as_deref().map(str::parse).transpose()?,
            exception: None,
        };
        self.policy.read()?.apply(job).check()
    }

    fn wishes(&self) -> Result<Wishes> {
        let keep = sorted(self.keep.iter().map(RootPath::new).collect::<Result<Vec<_>>>()?);
        let extent = if self.extract { Extent::Extract } else { Extent::Layers };
        Ok(Wishes {
            taking: Taking { extent, keep },
            logs: self.logs.into(),
            klog_style: self.klog_style.into(),
            freeze: sorted(self.freeze_env.clone()),
            entrypoint: self.entrypoint.clone().map(|words| words.0),
            cmd: self.cmd.clone().map(|words| words.0),
        })
    }

    /// In one order, whatever the order of the flags: the result records them.
    fn allowed(&self) -> Vec<Allow> {
        sorted(self.allow.clone())
    }
}

/// In one order and each once, whatever the order of the flags.
fn sorted<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort();
    list.dedup();
    list
}

/// Words as ENTRYPOINT and CMD have them: a JSON list of strings.
#[derive(Debug, Clone)]
struct Words(Vec<String>);

impl FromStr for Words {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let words = serde_json::from_str(text).map(Self);
        words.map_err(|_| {
            Error::usage("expected a JSON array of strings, such as [\"/app\", \"--flag\"]").fact("given", text)
        })
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Logs {
    /// klog's flags if the program is proven to accept them, else a log runner if there is one
    Auto,
    /// Pass klog's flags to the program
    Klog,
    /// Start the program through kube-log-runner
    Runner,
    /// Drop the file: the container runtime keeps the log
    Stdout,
}

impl From<Logs> for LogChoice {
    fn from(logs: Logs) -> Self {
        match logs {
            Logs::Auto => Self::Auto,
            Logs::Klog => Self::Klog,
            Logs::Runner => Self::Runner,
            Logs::Stdout => Self::Stdout,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Style {
    /// As the program spells them
    Auto,
    /// `--log-file`
    Dash,
    /// `--log_file`
    Underscore,
}

impl From<Style> for KlogStyle {
    fn from(style: Style) -> Self {
        match style {
            Style::Auto => Self::Auto,
            Style::Dash => Self::Dash,
            Style::Underscore => Self::Underscore,
        }
    }
}

fn locations(texts: &[String]) -> Result<Vec<Location>> {
    texts.iter().map(|text| text.parse()).collect()
}

pub(super) fn epoch() -> Result<Option<Epoch>> {
    let value = std::env::var("SOURCE_DATE_EPOCH").ok().filter(|value| !value.is_empty());
    value.as_deref().map(settings::epoch).transpose()
}

const CACHE_HELP: &str = "Cache directory [default: $UNDERPIN_CACHE, or underpin in the user's cache directory]";

/// How to deal with the world.
#[derive(Debug, Args)]
pub struct WorldArgs {
    /// Do not use the network; images must be on disk or in the cache
    #[arg(long, help_heading = "Registries and cache")]
    offline: bool,
    /// Allow plain HTTP or an untrusted certificate for this host (repeatable); always allowed for loopback
    #[arg(long, value_name = "HOST[:PORT]", help_heading = "Registries and cache")]
    insecure: Vec<String>,
    /// Trust the certificates in this PEM file, in addition to the system's
    #[arg(long, value_name = "FILE", help_heading = "Registries and cache")]
    cacert: Option<PathBuf>,
    #[arg(long, value_name = "DIR", conflicts_with = "no_cache", help = CACHE_HELP, help_heading = "Registries and cache")]
    cache: Option<PathBuf>,
    /// Do not use a cache
    #[arg(long, help_heading = "Registries and cache")]
    no_cache: bool,
    /// Transfers at a time [default: 4 for one image, 16 for many]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64), help_heading = "Registries and cache")]
    jobs: Option<u16>,
}

/// What a command works on, which decides how many transfers go at once where nothing is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    OneImage,
    /// Mostly waiting for answers to small requests, one after another for each image.
    ManyImages,
}

impl Work {
    const fn jobs(self) -> u16 {
        match self {
            Self::OneImage => 4,
            Self::ManyImages => 16,
        }
    }
}

impl WorldArgs {
    pub fn surroundings(&self, work: Work) -> Result<Surroundings> {
        Ok(Surroundings {
            cache: self.cache_choice(),
            insecure: self.insecure.clone(),
            cacert: self.cacert.clone(),
            network: if self.offline { Network::Offline } else { Network::Online },
            jobs: usize::from(self.jobs.unwrap_or(work.jobs())),
            pace: pace()?,
        })
    }

    fn cache_choice(&self) -> CacheChoice {
        if self.no_cache {
            return CacheChoice::None;
        }
        cache_folder(self.cache.as_ref()).map_or(CacheChoice::None, CacheChoice::Folder)
    }

    /// Collects garbage after a run, where a size is configured. Its failures are warnings.
    pub(super) fn collect_after(&self, console: &Console) {
        let CacheChoice::Folder(folder) = self.cache_choice() else { return };
        match limit() {
            Ok(Some(limit)) => collect::after_run(&folder, &limit, &console.notices()),
            Ok(None) => {}
            Err(error) => console.notices().warn(format!("garbage in the cache was not collected: {}", line(&error))),
        }
    }
}

/// By how much the waits are divided in tests.
pub(super) fn pace() -> Result<u32> {
    match std::env::var("UNDERPIN_TEST_PACE") {
        Err(_) => Ok(1),
        Ok(text) => {
            let divisor = text.parse().ok().filter(|divisor| (1..=1000).contains(divisor));
            divisor.ok_or_else(|| Error::usage("UNDERPIN_TEST_PACE is not a number from 1 to 1000").fact("value", text))
        }
    }
}

/// How much to print, and in which format. Commands that have these flags set `disable_help_flag`, so that
/// `--help` is listed with them.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct SayArgs {
    /// Print the report as JSON on stdout
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Print only errors and refusals
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Output")]
    pub quiet: bool,
    /// Print every request and decision
    #[arg(short, long, help_heading = "Output")]
    pub verbose: bool,
    /// Print help (-h prints a summary)
    #[arg(short, long, action = clap::ArgAction::Help, help_heading = "Output")]
    pub help: Option<bool>,
}
