//! The local store: what it remembers, what it protects, what it collects.

mod collector;
mod crash;
mod damage;
mod trust;

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::invocation::{Invocation, Run, files_under};
use crate::support::registries::Registries;
use crate::support::skip::Part;

// A store that was filled from a registry, and the `cache` commands on it.

pub struct Setup {
    pub registries: Registries,
    pub cache: PathBuf,
}

impl Setup {
    /// The three fixture images, fetched in the order: application, old base, new base.
    pub fn new(payload: usize) -> Part<Self> {
        let registries = Registries::two(payload)?;
        let cache = registries.sandbox.path("store");
        let setup = Self { registries, cache };
        for name in ["in/app:v1", "base/old:v1", "base/new:v1"] {
            setup.fetch(name);
        }
        Ok(setup)
    }

    /// The image's name through the proxy.
    pub fn name(&self, rest: &str) -> String {
        self.registries.source.name(rest)
    }

    pub fn fetch(&self, rest: &str) -> Run {
        let inspect = self.registries.sandbox.underpin(["inspect", &self.name(rest), "-q", "--cache"]);
        inspect.arg(&self.cache).hurried().run().ok()
    }

    /// Whether the image is complete in the store.
    pub fn has(&self, rest: &str) -> bool {
        let inspect = self.registries.sandbox.underpin(["inspect", &self.name(rest), "-q", "--offline", "--cache"]);
        inspect.arg(&self.cache).run().code() == Some(0)
    }

    pub fn command(&self, args: &[&str]) -> Invocation {
        self.registries.sandbox.underpin(["cache"]).args(args).arg("--cache").arg(&self.cache)
    }

    pub fn run(&self, args: &[&str]) -> Run {
        self.command(args).run()
    }

    pub fn json(&self, args: &[&str]) -> Value {
        self.command(args).arg("--json").run().ok().json()
    }

    /// The files that are blobs or records.
    pub fn files(&self) -> BTreeSet<PathBuf> {
        files_under(&self.cache).into_iter().collect()
    }

    /// A file in the sandbox with this text.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.registries.sandbox.path(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

/// The references of a list of objects.
pub fn references(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|one| one["reference"].as_str().unwrap().to_owned()).collect()
}
