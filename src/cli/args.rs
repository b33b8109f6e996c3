//! Flags that several commands share, and how they become settings.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::console::Console;
use super::environment::{CacheDirectory, cache_directory, limit};
use super::keys::SigningKeys;
use super::policy_args::{PolicyArgs, read_text};
use crate::kube;
use crate::plan::{BaseChoice, CommandFrom, Epoch, RebaseOptions};
use crate::process::PodContainer;
use crate::settings::Job;
use crate::store::disk::{line, note_input, note_tree};
use crate::store::gc;
use crate::store::{CacheChoice, Network, SessionOptions};
use oci::error::{Error, Result};
use oci::{HostPattern, Location};

/// What to move, and onto what. Fields are in the order of `--help`.
#[derive(Debug, Args)]
pub struct MoveArgs {
    /// Image to move: REGISTRY/NAME[:TAG][@DIGEST], oci:DIR[:TAG], oci-archive:FILE[:TAG], docker-archive:FILE[:[NAME:]TAG],
    /// docker-daemon:NAME or containers-storage:NAME
    #[arg(value_name = "SOURCE")]
    source: String,
    #[command(flatten)]
    options: RebaseOptions,
    #[command(flatten)]
    policy: PolicyArgs,
}

impl MoveArgs {
    pub fn job(&self, to: &[String]) -> Result<Job> {
        if !self.options.base_candidates.is_empty() && self.options.base != BaseChoice::Auto {
            return Err(Error::usage("--base-candidate is what --base auto chooses from")
                .fact("base", &self.options.base)
                .hint("pass --base auto, or leave --base-candidate out"));
        }
        let options = RebaseOptions { source_date_epoch: epoch()?, ..self.options.clone() }.normalized();
        let pod = options.command_from.as_ref().map(|from| read_pod(from, Path::new(&from.file))).transpose()?;
        let job = Job { targets: locations(to)?, pod, ..Job::new(self.source.parse()?, options) };
        self.policy.read()?.apply(job).check()
    }
}

/// The container of a manifest.
pub(super) fn read_pod(from: &CommandFrom, path: &Path) -> Result<Arc<PodContainer>> {
    let text = read_text(path, kube::LONGEST)?;
    kube::pod_container(&text, &path.display().to_string(), &from.container).map(Arc::new)
}

/// The same job with its signing key, which only a job that publishes needs.
pub(super) fn signed(job: Job) -> Result<Job> {
    let key = job.options.sign_key.as_deref().map(Path::new);
    let signer = key.map(|path| SigningKeys::default().get(path)).transpose()?;
    Ok(Job { signer, ..job })
}

fn locations(texts: &[String]) -> Result<Vec<Location>> {
    texts.iter().map(|text| text.parse()).collect()
}

pub(super) fn epoch() -> Result<Option<Epoch>> {
    let value = std::env::var("SOURCE_DATE_EPOCH").ok().filter(|value| !value.is_empty());
    value.as_deref().map(str::parse).transpose()
}

const CACHE_HELP: &str = "Cache directory [default: $UNDERPIN_CACHE, or underpin in the user's cache directory]";

/// How to deal with registries and the cache.
#[derive(Debug, Args)]
pub struct SessionArgs {
    /// Do not use the network; images must be on disk or in the cache
    #[arg(long, help_heading = "Registries and cache")]
    offline: bool,
    /// Allow plain HTTP or an untrusted certificate for this host (repeatable); always allowed for loopback
    #[arg(long, value_name = "HOST[:PORT]", help_heading = "Registries and cache")]
    insecure: Vec<HostPattern>,
    /// Trust the certificates in this PEM file, in addition to the system's
    #[arg(long, value_name = "FILE", help_heading = "Registries and cache")]
    cacert: Option<PathBuf>,
    #[arg(long, value_name = "DIR", conflicts_with = "no_cache", help = CACHE_HELP, help_heading = "Registries and cache")]
    cache: Option<PathBuf>,
    /// Do not use a cache
    #[arg(long, help_heading = "Registries and cache")]
    no_cache: bool,
    /// Requests and transfers at a time, for each registry [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64), help_heading = "Registries and cache")]
    jobs: Option<u16>,
}

/// All layers of a usual image at once: most of the time is spent waiting for answers to small requests.
const JOBS: u16 = 16;

impl SessionArgs {
    pub fn session_options(&self) -> Result<SessionOptions> {
        Ok(SessionOptions {
            cache: self.cache_choice(),
            insecure: self.insecure.clone(),
            cacert: self.cacert.clone(),
            network: if self.offline { Network::Offline } else { Network::Online },
            jobs: usize::from(self.jobs.unwrap_or(JOBS)),
            pace: pace()?,
        })
    }

    fn cache_choice(&self) -> CacheChoice {
        if self.no_cache {
            return CacheChoice::None;
        }
        match cache_directory(self.cache.as_ref()) {
            Some(CacheDirectory::Named(directory)) => CacheChoice::Directory(directory),
            Some(CacheDirectory::Usual(directory)) => CacheChoice::Usual(directory),
            None => CacheChoice::None,
        }
    }

    /// Keeps what the run writes away from these files.
    pub(super) fn note_files(&self) {
        self.cacert.iter().for_each(|file| note_input(file));
        self.cache_directory().iter().for_each(|directory| note_tree(directory));
    }

    /// Where the cache is, if there is to be one.
    fn cache_directory(&self) -> Option<PathBuf> {
        match self.cache_choice() {
            CacheChoice::Directory(directory) | CacheChoice::Usual(directory) => Some(directory),
            CacheChoice::None => None,
        }
    }

    /// Collects garbage after a run, where a size is configured. Its failures are warnings.
    pub(super) fn collect_after(&self, console: &Console) {
        let Some(folder) = self.cache_directory() else { return };
        match limit() {
            Ok(Some(limit)) => gc::after_run(&folder, &limit, &console.notices()),
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
