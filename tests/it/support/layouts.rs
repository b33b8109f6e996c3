//! Source, old base and new base of one rebase as layouts side by side, and what the report says of it.

use std::path::PathBuf;

use serde_json::Value;

use super::invocation::{Invocation, Sandbox};
use super::recipe::{Content, Recipe};
use super::tar_layer::{Entry, Layer, Pack};
use super::tools::Container;
use super::{fixtures, tools};

const AMD64: &str = "linux/amd64";

pub struct Layouts {
    pub sandbox: Sandbox,
}

impl Layouts {
    /// The names of the layouts are `app`, `old` and `new`.
    pub fn new(app: &Content, old: &Content, new: &Content) -> Self {
        let layouts = Self { sandbox: Sandbox::new() };
        for (name, image) in [("app", app), ("old", old), ("new", new)] {
            image.layout(&layouts.layout(name), "v1");
        }
        layouts
    }

    /// On its own old base, moved to the new base of `fixtures`.
    pub fn on(old: &Recipe, app: &Recipe) -> Self {
        Self::new(&app.build(), &old.build(), &fixtures::new_base(AMD64).build())
    }

    pub fn layout(&self, name: &str) -> PathBuf {
        self.sandbox.path("here").join(name)
    }

    pub fn underpin(&self, args: &[&str]) -> Invocation {
        self.sandbox.underpin(args)
    }

    /// A rebase to the layout `out`, without a cache and with the old base named.
    pub fn rebase(&self, out: &str) -> Invocation {
        self.rebase_unnamed(out).args(["--old-base", "oci:old:v1", "--no-cache"])
    }

    /// A rebase to the layout `out` that must find out about the old base.
    pub fn rebase_unnamed(&self, out: &str) -> Invocation {
        self.underpin(&["rebase", "oci:app:v1", "--base", "oci:new:v1", "--to", &format!("oci:{out}:v1")])
    }

    /// Layouts have no names to record: where the inputs are must be said.
    pub fn verify(&self, image: &str) -> Invocation {
        let inputs = ["--source", "oci:app:v1", "--base", "oci:new:v1", "--old-base", "oci:old:v1"];
        self.underpin(&["verify", image]).args(inputs)
    }

    pub fn plan(&self) -> Invocation {
        self.underpin(&["plan", "oci:app:v1", "--base", "oci:new:v1", "--old-base", "oci:old:v1", "--no-cache"])
    }

    /// What the image of a layout prints when it is started.
    pub fn start(&self, layout: &str) -> String {
        tools::start(&self.layout(layout), "v1", &self.bundle(layout))
    }

    /// The image of a layout, unpacked and ready to be started.
    pub fn container(&self, layout: &str) -> Container {
        Container::of(&self.layout(layout), &self.bundle(layout))
    }

    /// Where the image of a layout is unpacked.
    pub fn bundle(&self, layout: &str) -> PathBuf {
        self.sandbox.path(&format!("bundle-{layout}"))
    }
}

/// An old base with these files upon the fixture one's.
pub fn old_base(files: &[Entry]) -> Recipe {
    let mut old = fixtures::old_base(AMD64);
    old.layers.push(Layer::of(Pack::Gzip, files));
    old
}

/// An application with these layers of its own.
pub fn upon(old: &Recipe, layers: impl IntoIterator<Item = Layer>, config: Value) -> Recipe {
    let layers = old.layers.iter().cloned().chain(layers).collect();
    Recipe { config, ..Recipe::new(&old.platform, layers) }
}

/// The fates of the layers of a report's first platform, new base and old base aside.
pub fn fates(report: &Value) -> Vec<&str> {
    let layers = report["platforms"][0]["layers"].as_array().unwrap().iter();
    let fates = layers.map(|layer| layer["fate"].as_str().unwrap());
    fates.filter(|fate| !["stripped", "base"].contains(fate)).collect()
}

/// `LEVEL RULE` of all findings of a report's platform, without notes.
pub fn findings(platform: &Value) -> Vec<String> {
    let word = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let findings = platform["findings"].as_array().unwrap().iter();
    let said = findings.filter(|finding| finding["level"] != "note");
    said.map(|finding| format!("{} {}", word(finding, "level"), word(finding, "rule"))).collect()
}
