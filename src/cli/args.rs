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

/// What to move, and onto what.
#[derive(Debug, Args)]
pub struct MoveArgs {
    /// The image to move: REGISTRY/NAME[:TAG][@DIGEST], oci:DIR[:TAG], oci-archive:FILE[:TAG] or docker-archive:FILE[:[NAME:]TAG]
    #[arg(value_name = "SOURCE")]
    source: String,
    /// The new base
    #[arg(long, value_name = "REF", default_value = DEFAULT_BASE)]
    base: String,
    /// The base the image was built on: an image, `scratch`, or `layers:N` [default: detect]
    #[arg(long, value_name = "REF|scratch|layers:N")]
    old_base: Option<String>,
    /// An image that may be the old base, tried when the image does not name one (repeatable)
    #[arg(long, value_name = "REF")]
    known_base: Vec<String>,
    /// Move only this platform (repeatable) [default: all of the source]
    #[arg(long, value_name = "OS/ARCH[/VARIANT]")]
    platform: Vec<String>,
    /// What to do about a platform that the new base does not have
    #[arg(long, value_enum, default_value = "refuse")]
    on_missing_platform: OnMissingPlatform,
    /// Go on in spite of this refusal (repeatable); recorded in the report and in the image
    #[arg(long, value_name = "RULE[=PATH]")]
    allow: Vec<Allow>,
    /// Who writes the log file that a shell wrote
    #[arg(long, value_enum, default_value = "auto")]
    logs: Logs,
    /// How klog's flags are spelled
    #[arg(long, value_enum, default_value = "auto")]
    klog_style: Style,
    /// An image whose program is a log runner, such as registry.k8s.io/build-image/go-runner
    #[arg(long, value_name = "REF")]
    log_runner: Option<String>,
    /// Write the image's value of this variable into the command (repeatable)
    #[arg(long, value_name = "NAME")]
    freeze_env: Vec<String>,
    /// Say the entrypoint yourself, as a JSON list; it is still proven to start
    #[arg(long, value_name = "JSON")]
    entrypoint: Option<Words>,
    /// Say the cmd yourself, as a JSON list
    #[arg(long, value_name = "JSON")]
    cmd: Option<Words>,
    /// Take only the program and what it needs, out of all layers: for squashed images and unknown bases
    #[arg(long)]
    extract: bool,
    /// Take this path of the image along, whatever it belongs to (repeatable)
    #[arg(long, value_name = "PATH")]
    keep: Vec<String>,
    #[command(flatten)]
    policy: PolicyArgs,
    /// Refuse unless the result has this digest
    #[arg(long, value_name = "DIGEST")]
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
            Error::usage("expected a JSON list of words, such as [\"/app\", \"--flag\"]").fact("given", text)
        })
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Logs {
    /// klog where the program is proven to take its flags, else a runner where there is one
    Auto,
    /// The program's own flags of klog
    Klog,
    /// kube-log-runner before the program
    Runner,
    /// Nothing: the container runtime keeps the log
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
    /// As the program shows
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

const CACHE_HELP: &str =
    "The folder that keeps what was fetched [default: $UNDERPIN_CACHE, or the user's cache folder]";

/// How to deal with the world.
#[derive(Debug, Args)]
#[command(next_help_heading = "Registries and cache")]
pub struct WorldArgs {
    /// Never use the network
    #[arg(long)]
    offline: bool,
    /// Allow plain HTTP or an unknown certificate for this host (repeatable); loopback hosts need no flag
    #[arg(long, value_name = "HOST[:PORT]")]
    insecure: Vec<String>,
    /// Trust the certificates in this PEM file besides the system's
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    #[arg(long, value_name = "DIR", conflicts_with = "no_cache", help = CACHE_HELP)]
    cache: Option<PathBuf>,
    /// Keep nothing
    #[arg(long)]
    no_cache: bool,
    /// How many transfers at once [default: 4, or 16 where there are many images]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
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
            Err(error) => console.notices().warn(format!("the store was not collected: {}", line(&error))),
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

/// How much to say, and in which form.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct SayArgs {
    /// Print the report as JSON on stdout
    #[arg(long)]
    pub json: bool,
    /// Say nothing but errors and refusals
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say every request and decision
    #[arg(short, long)]
    pub verbose: bool,
}
