//! The flags that name the base-image policy and the exception list.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::exceptions::read_list;
use crate::attest::SignatureDemand;
use crate::batch::BatchEntry;
use crate::plan::BaseChoice;
use crate::policy::exceptions::ExceptionList;
use crate::policy::{BasePolicy, Dependency, PolicyFile, PolicyPreset, SignedBy};
use crate::settings::Job;
use crate::store::disk::{read_file, resolved_pattern};
use oci::Location;
use oci::error::{Error, Result};

#[derive(Debug, Args)]
pub struct PolicyArgs {
    /// Exception list: a Markdown table of components that may keep their base
    #[arg(long, value_name = "FILE", help_heading = "Policy")]
    exceptions: Option<PathBuf>,
    /// Base-image policy: `kubernetes` for that of Kubernetes today, or a YAML file with `allow_bases`, `exception_bases`,
    /// `base_candidates`, `exceptions`, `excepted_rules`, `signed_by`
    #[arg(long, value_name = "kubernetes|FILE", help_heading = "Policy")]
    policy: Option<PathBuf>,
    /// Versions of bases that are named without a tag: a YAML file like Kubernetes' build/dependencies.yaml
    #[arg(long, value_name = "FILE", help_heading = "Policy")]
    dependencies: Option<PathBuf>,
}

/// The base-image policy with its exception list.
#[derive(Debug)]
pub(super) struct Policy {
    pub bases: BasePolicy,
    pub list: Option<Arc<ExceptionList>>,
    /// Whose signatures images must carry.
    pub demands: Arc<[SignatureDemand]>,
}

/// A larger policy file is not read.
const LARGEST: u64 = 1 << 20;

impl PolicyArgs {
    pub(super) fn read(&self) -> Result<Policy> {
        let (mut bases, beside, demands) = self.bases()?;
        if let Some(path) = &self.dependencies {
            bases.versions = versions(path, &bases)?;
        }
        let list = self.exceptions.clone().or(beside).as_deref().map(read_list).transpose()?.map(Arc::new);
        Ok(Policy { bases, list, demands: demands.into() })
    }

    /// The policy, the exception list that it names, and the signatures that it demands.
    fn bases(&self) -> Result<(BasePolicy, Option<PathBuf>, Vec<SignatureDemand>)> {
        let Some(path) = &self.policy else { return Ok((BasePolicy::default(), None, Vec::new())) };
        // A file of that name is `./kubernetes`.
        if let Some(preset) = path.to_str().and_then(PolicyPreset::named) {
            return Ok((preset.policy(), None, Vec::new()));
        }
        let file = PolicyFile::read(&read_text(path, LARGEST)?).map_err(|error| error.fact("path", path.display()))?;
        let directory = path.parent().unwrap_or(Path::new(""));
        let beside = file.exceptions.as_ref().map(|name| directory.join(name));
        let demands = file.signed_by.iter().map(|signed| demand(signed, directory));
        let demands = demands.collect::<Result<Vec<_>>>().map_err(|error| error.fact("path", path.display()))?;
        Ok((file.policy, beside, demands))
    }
}

fn versions(path: &Path, bases: &BasePolicy) -> Result<Vec<Location>> {
    let read = Dependency::read_all(&read_text(path, LARGEST)?);
    let versions = bases.versions_in(&read.map_err(|error| error.fact("path", path.display()))?);
    if versions.is_empty() {
        return Err(Error::input("the file records no version of a base of the policy").fact("path", path.display()));
    }
    Ok(versions)
}

/// The demand with its keys, which are relative to the policy file's directory.
fn demand(signed: &SignedBy, directory: &Path) -> Result<SignatureDemand> {
    let read = |name: &String| Ok((name.clone(), read_text(&directory.join(name), LARGEST)?));
    let keys = signed.keys.iter().map(read).collect::<Result<Vec<_>>>()?;
    let resolved = signed.images.iter().filter_map(|pattern| resolved_pattern(pattern));
    let patterns: Vec<String> = signed.images.iter().cloned().chain(resolved).collect();
    SignatureDemand::new(&patterns, &keys).map_err(|error| error.fact("at", signed.at))
}

impl Policy {
    /// What `check --base auto` tries: the candidates, where the policy names some, else the allowed bases.
    pub(super) fn candidates(&self) -> Vec<Location> {
        let BasePolicy { candidates, .. } = &self.bases;
        if candidates.is_empty() { self.bases.allowed_images() } else { candidates.clone() }
    }

    /// The base in the version that the file of dependencies records, where it is named without one.
    pub(super) fn versioned(&self, base: BaseChoice) -> BaseChoice {
        match base {
            BaseChoice::Image(location) => BaseChoice::Image(self.bases.at_version(location)),
            BaseChoice::Auto => BaseChoice::Auto,
        }
    }

    /// Tells the job whether its source may keep its base, and what there is to choose from.
    pub(super) fn apply(&self, job: Job) -> Job {
        self.apply_list(job, self.list.as_deref())
    }

    /// The same with another list.
    pub(super) fn apply_list(&self, mut job: Job, list: Option<&ExceptionList>) -> Job {
        if job.options.base == BaseChoice::Auto && job.options.base_candidates.is_empty() {
            job.options.base_candidates.clone_from(&self.bases.candidates);
        }
        job.options.base = self.versioned(job.options.base);
        job.demands = Arc::clone(&self.demands);
        match list.and_then(|list| list.exception_for(&job.source)) {
            Some(exception) => job.excepted(exception.clone(), &self.bases.excepted_rules),
            None => job,
        }
    }
}

/// The exception lists that the images of a batch file name, each read once.
pub(super) struct BatchLists<'a> {
    /// The batch file: lists are relative to its directory.
    file: &'a Path,
    read: HashMap<PathBuf, Arc<ExceptionList>>,
}

impl<'a> BatchLists<'a> {
    pub(super) fn beside(file: &'a Path) -> Self {
        Self { file, read: HashMap::new() }
    }

    /// The list that the image names, else the policy's.
    pub(super) fn list_for(&mut self, entry: &BatchEntry, policy: &Policy) -> Result<Option<Arc<ExceptionList>>> {
        let Some(name) = &entry.exceptions else { return Ok(policy.list.clone()) };
        let path = self.file.with_file_name(name);
        if let Some(list) = self.read.get(&path) {
            return Ok(Some(Arc::clone(list)));
        }
        let list = read_list(&path).map(Arc::new).map_err(|error| error.fact("at", entry.at))?;
        self.read.insert(path, Arc::clone(&list));
        Ok(Some(list))
    }
}

/// A text file that the user named.
pub(super) fn read_text(path: &Path, limit: u64) -> Result<String> {
    text_of(path, read_file(path, limit))
}

/// The text of what was read of a file.
pub(super) fn text_of(path: &Path, read: std::io::Result<Vec<u8>>) -> Result<String> {
    let bytes = read.map_err(|error| Error::io("could not read the file", path, &error))?;
    String::from_utf8(bytes).map_err(|_| Error::input("the file is not UTF-8").fact("path", path.display()))
}
