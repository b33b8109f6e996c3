//! How many requests wait for one another: what does not depend on each other goes out together.
//!
//! Every answer is held back for a moment, and what counts is the length of the longest row of requests in which each
//! was sent after the answer to the one before it. Time is not measured.

use std::time::Duration;

use crate::support::docker_registry::Registry;
use crate::support::fixtures;
use crate::support::invocation::{Invocation, Sandbox};
use crate::support::layouts::upon;
use crate::support::proxy::{Action, Proxy, on, sequential_steps};
use crate::support::recipe::Recipe;
use crate::support::skip::{Part, or_skip};
use crate::support::tar_layer::{Layer, Pack, file, noise};
use crate::support::token_server::{Guarded, Manners};

/// Much longer than it takes to send requests together.
const HELD_BACK: Duration = Duration::from_millis(150);

/// A registry whose answers take their time: bases of twelve layers, and an application of two.
struct Distant {
    proxy: Proxy,
    registry: Registry,
    sandbox: Sandbox,
}

/// The base with ten more layers.
fn twelve(mut base: Recipe, seed: u64) -> Recipe {
    let more =
        (0..10).map(|at| Layer::of(Pack::Gzip, &[file(&format!("usr/share/{seed}-{at}"), noise(seed + at, 4000))]));
    base.layers.extend(more);
    base
}

/// Pushes the images to the registry at `host`.
fn push_images(host: &str) {
    let old = twelve(fixtures::old_base("linux/amd64"), 100);
    let own = [fixtures::app_layer("linux/amd64", 1_300_000), Layer::of(Pack::Gzip, &[file("srv/more", "more\n")])];
    upon(&old, own, fixtures::app_config()).build().push(host, "in/app", "v1");
    old.build().push(host, "base/old", "v1");
    twelve(fixtures::new_base("linux/amd64"), 200).build().push(host, "base/new", "v1");
}

impl Distant {
    fn new() -> Part<Self> {
        let registry = Registry::plain()?;
        push_images(registry.host());
        let proxy = Proxy::before(registry.host());
        Ok(Self { proxy, registry, sandbox: Sandbox::new() })
    }

    fn rebase(&self, to: &str) -> Invocation {
        let name = |rest: &str| format!("{}/{rest}", self.proxy.host());
        self.proxy.script([on("*", "").always().does(Action::then(|| std::thread::sleep(HELD_BACK)))]);
        let words = ["rebase", &name("in/app:v1"), "--base", &name("base/new:v1"), "--old-base", &name("base/old:v1")];
        self.sandbox.underpin(words).args(["--to", &name(to)])
    }

    /// The steps of a run, and its requests for the message.
    fn steps(&self, to: &str) -> (usize, String) {
        let run = self.rebase(to).run().ok();
        let seen = self.proxy.seen();
        let first = seen.first().map(|seen| seen.at);
        let line = |request: &crate::support::proxy::Seen| {
            let at = first.map(|first| request.at - first);
            format!("{at:?} {} {} {:?}", request.method, request.target, request.status)
        };
        let lines: Vec<String> = seen.iter().map(line).collect();
        (sequential_steps(&seen), format!("{}\n{run}", lines.join("\n")))
    }
}

#[test]
fn requests_that_do_not_depend_on_each_other_go_out_together() {
    let distant = or_skip!(Distant::new());
    let (cold, requests) = distant.steps("out/one:v1");
    assert!(cold <= 7, "cold: {cold}\n{requests}");
    let (warm, requests) = distant.steps("out/two:v1");
    assert!(warm <= 4, "warm: {warm}\n{requests}");
    assert_eq!(distant.proxy.count("POST", "?mount="), 14, "every layer is mounted\n{requests}");
    let (unchanged, requests) = distant.steps("out/two:v1");
    // What the target names, and then all of its parts at once.
    assert!(unchanged <= 3, "unchanged: {unchanged}\n{requests}");
    assert_eq!(distant.registry.tag("out/one", "v1"), distant.registry.tag("out/two", "v1"));
}

#[test]
fn a_token_server_adds_a_refusal_and_a_token() {
    let guarded = or_skip!(Guarded::new(Manners::default()));
    push_images(guarded.back.host());
    guarded.proxy.script([on("*", "").always().does(Action::then(|| std::thread::sleep(HELD_BACK)))]);
    let run = guarded.rebase(&guarded.name("out/app:v1")).run().ok();
    let steps = sequential_steps(&guarded.proxy.seen());
    // Seven without a guard, and the requests that learn that tokens are needed.
    assert!(steps <= 8, "{steps}\n{run}");
    // One for each repository, all at the beginning: that of the target is also for what is mounted there.
    let (asked, mut scopes) = (guarded.tokens.seen().len(), guarded.tokens.scopes());
    assert_eq!(asked, 4, "{scopes:?}\n{run}");
    scopes.sort();
    let pull = |name: &str| format!("repository:{name}:pull");
    let (new, own) = (pull("base/new"), pull("in/app"));
    let target = "repository:out/app:pull,push".to_owned();
    assert_eq!(scopes, [new.clone(), new, pull("base/old"), own.clone(), own, target], "{run}");
}
