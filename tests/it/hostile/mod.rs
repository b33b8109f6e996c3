//! Images made to do harm, as far as they are documents, layouts and archives. (What is inside a layer is tested beside the code that reads it.)
//!
//! Each case has a benign twin, so that nobody passes by refusing everything: `Setup::new` proves
//! the twin of all of them, and each module adds its own where the hostile part needs one.
//! No digest can be made to contain itself, so the cycle of indexes is a layout that lies about a name.

mod archives;
mod configs;
mod documents;
mod layouts;

use std::time::Duration;

use crate::support::fixtures;
use crate::support::invocation::{Invocation, Run, Sandbox};
use crate::support::published::{self, Published};
use crate::support::recipe::Content;

/// Layouts of the fixture images, and a place for the hostile one.
struct Setup {
    sandbox: Sandbox,
}

impl Setup {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        fixtures::old_base("linux/amd64").build().layout(&sandbox.path("old"), "v1");
        fixtures::new_base("linux/amd64").build().layout(&sandbox.path("new"), "v1");
        let setup = Self { sandbox };
        setup.accepts("the benign twin", &good());
        setup
    }

    fn at(&self, name: &str) -> String {
        format!("oci:{}:v1", self.sandbox.path(name).display())
    }

    /// A rebase of `source` to the layout `out`, which is removed first.
    fn rebase(&self, source: &str) -> Invocation {
        let _ = std::fs::remove_dir_all(self.sandbox.path("out"));
        let places = [self.at("new"), self.at("old"), self.at("out")];
        let args = ["rebase", source, "--base", &places[0], "--old-base", &places[1], "--to", &places[2]];
        self.sandbox.underpin(args).arg("--no-cache").hurried()
    }

    fn rebase_layout(&self, content: &Content) -> Invocation {
        let _ = std::fs::remove_dir_all(self.sandbox.path("in"));
        content.layout(&self.sandbox.path("in"), "v1");
        self.rebase(&self.at("in"))
    }

    fn accepts(&self, why: &str, content: &Content) -> Published {
        let run = self.rebase_layout(content).run();
        assert_eq!(run.code(), Some(0), "{why}\n{run}");
        published::layout(&self.sandbox.path("out"), "v1").unwrap_or_else(|found| panic!("{why}: {found}\n{run}"))
    }

    /// The image is an error of one of these kinds, quickly, in little memory, and leaves nothing.
    fn refuses(&self, why: &str, content: &Content, kinds: &[&str]) -> Run {
        let run = self.rebase_layout(content).run();
        self.is_refused(why, run, kinds)
    }

    fn is_refused(&self, why: &str, run: Run, kinds: &[&str]) -> Run {
        assert_eq!(run.code(), Some(2), "{why}\n{run}");
        assert!(run.kind().is_some_and(|kind| kinds.contains(&kind.as_str())), "{why}: not {kinds:?}\n{run}");
        assert!(run.processor < Duration::from_secs(5), "{why}\n{run}");
        assert!(run.peak < 256 * 1024, "{why}\n{run}");
        assert!(!self.sandbox.path("out").join("index.json").exists(), "{why}\n{run}");
        assert!(self.sandbox.strays().is_empty(), "{why}: {:?}\n{run}", self.sandbox.strays());
        run
    }
}

fn good() -> Content {
    fixtures::app("linux/amd64", 1000).build()
}
