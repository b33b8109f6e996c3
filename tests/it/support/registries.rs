//! What most tests need: registries behind proxies, the fixture images in them, a sandbox, and
//! the invariants that hold after every run, whatever went wrong in it.

use std::cell::{Cell, OnceCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::docker_registry::Registry;
use super::fixtures;
use super::invocation::{Invocation, Run, Sandbox, files_under};
use super::proxy::Proxy;
use super::published::{self, Published};
use super::recipe::Content;
use super::skip::Part;

/// A registry and the proxy that stands before it.
pub struct Site {
    pub registry: Registry,
    pub proxy: Proxy,
}

impl Site {
    fn new() -> Part<Rc<Self>> {
        Registry::plain().map(Self::of)
    }

    fn of(registry: Registry) -> Rc<Self> {
        let proxy = Proxy::before(registry.host());
        Rc::new(Self { registry, proxy })
    }

    /// A reference through the proxy.
    pub fn name(&self, rest: &str) -> String {
        format!("{}/{rest}", self.proxy.host())
    }
}

pub struct Registries {
    pub source: Rc<Site>,
    pub target: Rc<Site>,
    pub sandbox: Sandbox,
    pub app: Content,
    pub old_base: Content,
    pub new_base: Content,
    expected: OnceCell<String>,
    trials: Cell<usize>,
}

impl Registries {
    /// Source and target in two registries. `payload` is the size of the application's layer.
    pub fn two(payload: usize) -> Part<Self> {
        Ok(Self::of(Site::new()?, Site::new()?, payload))
    }

    /// The same with a target that has the referrers API.
    pub fn with_referrers_api(payload: usize) -> Part<Self> {
        Ok(Self::of(Site::new()?, Site::of(Registry::with_referrers_api()?), payload))
    }

    /// Source and target in one registry, so that layers can be mounted.
    pub fn one(payload: usize) -> Part<Self> {
        let site = Site::new()?;
        Ok(Self::of(Rc::clone(&site), site, payload))
    }

    fn of(source: Rc<Site>, target: Rc<Site>, payload: usize) -> Self {
        let app = fixtures::app("linux/amd64", payload).build();
        let (old_base, new_base) =
            (fixtures::old_base("linux/amd64").build(), fixtures::new_base("linux/amd64").build());
        for (content, repository) in [(&app, "in/app"), (&old_base, "base/old"), (&new_base, "base/new")] {
            content.push(source.registry.host(), repository, "v1");
        }
        let (expected, trials) = (OnceCell::new(), Cell::new(0));
        Self { source, target, sandbox: Sandbox::new(), app, old_base, new_base, expected, trials }
    }

    /// The digest of the application's own layer: the one blob that is always fetched.
    pub fn app_layer(&self) -> String {
        self.app.layers().pop().unwrap()
    }

    pub fn app_layer_size(&self) -> u64 {
        self.app.blob(&self.app_layer()).len() as u64
    }

    /// Digests of all layers that the result has.
    pub fn result_layers(&self) -> Vec<String> {
        let mut layers = self.new_base.layers();
        layers.push(self.app_layer());
        layers
    }

    /// `underpin rebase` of the application to `to`, with a cache of its own.
    pub fn rebase(&self, to: &str, cache: &str) -> Invocation {
        self.rebase_with(to, &self.sandbox.path(cache))
    }

    fn rebase_with(&self, to: &str, cache: &Path) -> Invocation {
        let name = |rest: &str| self.source.name(rest);
        let invocation = self.sandbox.underpin(["rebase", &name("in/app:v1"), "--base", &name("base/new:v1")]);
        let invocation = invocation.args(["--old-base", &name("base/old:v1"), "--to", to]);
        invocation.arg("--cache").arg(cache).hurried()
    }

    /// What a run without faults gives.
    pub fn expected(&self) -> &str {
        self.expected.get_or_init(|| {
            let run = self.rebase(&self.target.name("out/expected:e"), "cache-expected").run().ok();
            let published = self.published("out/expected", "e");
            assert_eq!(published.digest, run.digest(), "{run}");
            assert_eq!(published.only().layers, self.result_layers(), "new base, then the application");
            published.digest
        })
    }

    /// Reads a target again, past the proxy, and finds it sound.
    pub fn published(&self, repository: &str, tag: &str) -> Published {
        published::registry(self.target.registry.host(), repository, tag).unwrap_or_else(|why| panic!("{tag}: {why}"))
    }

    /// A run with a cold cache and a tag that was never used. Forgets requests and scripts.
    pub fn trial(&self) -> Trial<'_> {
        self.expected();
        self.trials.set(self.trials.get() + 1);
        self.calm();
        let number = self.trials.get();
        Trial { registries: self, tag: format!("t{number}"), cache: format!("cache-{number}") }
    }

    pub fn calm(&self) {
        self.source.proxy.calm();
        self.target.proxy.calm();
    }
}

pub struct Trial<'a> {
    registries: &'a Registries,
    pub tag: String,
    cache: String,
}

impl Trial<'_> {
    pub fn invocation(&self) -> Invocation {
        self.registries.rebase(&self.to(), &self.cache)
    }

    pub fn to(&self) -> String {
        // A repository of its own: blobs of an earlier trial must not be there already.
        self.registries.target.name(&format!("{}:v1", self.repository()))
    }

    pub fn repository(&self) -> String {
        format!("out/{}", self.tag)
    }

    pub fn run(&self) -> Run {
        self.invocation().run()
    }

    /// The same with a cache somewhere else.
    pub fn run_with_cache(&self, cache: &Path) -> Run {
        self.registries.rebase_with(&self.to(), cache).run()
    }

    pub fn cache(&self) -> PathBuf {
        self.registries.sandbox.path(&self.cache)
    }

    /// The digest that the target tag names now.
    pub fn target(&self) -> Option<String> {
        self.registries.target.registry.tag(&self.repository(), "v1")
    }

    /// The run succeeded and gave exactly the expected image.
    pub fn gives_the_expected_image(&self, run: Run) -> Run {
        let run = run.ok();
        assert_eq!(run.digest(), self.registries.expected(), "{run}");
        assert_eq!(self.target().as_deref(), Some(self.registries.expected()), "{run}");
        run
    }

    /// The run failed with this kind, and the tag is as it was: not there.
    pub fn fails(&self, run: Run, kind: &str) -> Run {
        let run = run.fails(kind);
        assert_eq!(self.target(), None, "{run}");
        run
    }

    /// What holds after every case: the tag is complete, the cache does not lie, the next run
    /// without faults gives the expected image, and then nothing is left lying about.
    pub fn settle(&self) {
        if self.target().is_some() {
            self.is_complete();
        }
        assert_eq!(published::lies_in_cache(&self.cache()), Vec::<PathBuf>::new());
        self.registries.calm();
        self.gives_the_expected_image(self.run());
        self.is_complete();
        self.leaves_nothing_behind();
    }

    fn is_complete(&self) {
        assert_eq!(self.registries.published(&self.repository(), "v1").digest, self.registries.expected());
    }

    pub fn leaves_nothing_behind(&self) {
        assert_eq!(self.registries.sandbox.strays(), Vec::<PathBuf>::new());
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut left = files_under(&self.cache());
        left.retain(|path| {
            name(path).starts_with(".underpin-") || path.parent().is_some_and(|at| at.ends_with("partial"))
        });
        assert_eq!(left, Vec::<PathBuf>::new(), "orphans after a run that succeeded");
    }
}
