//! However a move is written and wherever its images are read from, the result is the same.
//!
//! Each round makes one of the many ways to say the same thing, from a fixed seed: places and the spelling of paths, tags or
//! digests, order and repetition of options, options that have no effect, jobs, cache, clock, locale, umask.

use std::path::Path;

use crate::support::docker_registry::Registry;
use crate::support::fixtures;
use crate::support::invocation::{Invocation, Sandbox};
use crate::support::recipe::{Content, Dialect, Recipe};
use crate::support::skip::{need, or_skip};
use crate::support::{published, tools};

const ROUNDS: u64 = 48;
const NAMES: [(&str, &str); 2] =
    [("--source-name", "registry.example/in/app"), ("--base-name", "gcr.io/distroless/static")];

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33).unwrap() % sides
    }

    fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.roll(of.len())]
    }

    fn coin(&mut self) -> bool {
        self.roll(2) == 0
    }

    fn shuffled(&mut self, mut list: Vec<Vec<String>>) -> Vec<Vec<String>> {
        for at in (1..list.len()).rev() {
            list.swap(at, self.roll(at + 1));
        }
        list
    }
}

/// The images of a move, in every kind of place.
struct World {
    sandbox: Sandbox,
    home: Registry,
    mirror: Registry,
    images: Vec<(&'static str, Content)>,
}

impl World {
    fn new(home: Registry, mirror: Registry) -> Self {
        let sandbox = Sandbox::new();
        let images = vec![
            ("app", fixtures::attested_app(2000)),
            ("old", fixtures::on_three(Dialect::Oci, fixtures::old_base)),
            ("new", fixtures::on_three(Dialect::Oci, fixtures::new_base)),
        ];
        let here = sandbox.path("here");
        for (name, image) in &images {
            for registry in [&home, &mirror] {
                image.push(registry.host(), &format!("team/{name}"), "v1");
            }
            image.layout(&here.join(name), "v1");
            image.layout(&sandbox.path("else where").join(name), "another");
            image.oci_archive(&here.join(format!("{name}.tar")), "v1");
        }
        Self { sandbox, home, mirror, images }
    }

    fn digest(&self, name: &str) -> String {
        self.images.iter().find(|(listed, _)| *listed == name).unwrap().1.digest()
    }

    /// One way to write where an image is.
    fn place(&self, name: &str, dice: &mut Dice) -> String {
        let digest = self.digest(name);
        let here = self.sandbox.path("here").display().to_string();
        let other = self.sandbox.path("else where").display().to_string();
        let (home, mirror) = (self.home.host(), self.mirror.host());
        let ways = [
            format!("oci:{name}:v1"),
            format!("oci:./{name}:v1"),
            format!("oci:{name}/:v1"),
            format!("oci:../here/{name}:v1"),
            format!("oci:{here}/{name}:v1"),
            format!("oci:{here}//{name}"),
            format!("oci:{other}/{name}:another"),
            format!("oci:{name}@{digest}"),
            format!("oci-archive:{name}.tar:v1"),
            format!("oci-archive:{here}/./{name}.tar"),
            format!("{home}/team/{name}:v1"),
            format!("docker://{home}/team/{name}:v1"),
            format!("{home}/team/{name}@{digest}"),
            format!("{home}/team/{name}:v1@{digest}"),
            format!("{mirror}/team/{name}:v1"),
            format!("{mirror}/team/{name}@{digest}"),
        ];
        ways[dice.roll(ways.len())].clone()
    }

    /// `rebase` with these options to a layout of its own.
    fn rebase(&self, source: &str, out: &Path, options: &[Vec<String>]) -> Invocation {
        let to = format!("oci:{}:out", out.display());
        self.sandbox.underpin(["rebase", source, "--to", &to]).args(options.concat())
    }
}

fn option(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// What every round asks for, in words of its own.
fn options(world: &World, dice: &mut Dice) -> Vec<Vec<String>> {
    let mut options: Vec<Vec<String>> = NAMES.iter().map(|(flag, name)| option(&[flag, name])).collect();
    options.push(option(&["--base", &world.place("new", dice)]));
    options.push(option(&["--old-base", &world.place("old", dice)]));
    options.push(option(&["--platform", dice.pick(&["linux/amd64", "linux/x86_64", "linux/amd64/v1"])]));
    options.push(option(&["--platform", dice.pick(&["linux/arm", "linux/arm/v7", "linux/arm/7"])]));
    options.push(option(&["--env", "B=2"]));
    options.push(option(&["--env", "A=1"]));
    options.push(option(&["--drop", dice.pick(&["/srv/payload", "srv/payload", "//srv/./payload/"])]));
    let repeated = options[dice.roll(options.len() - 7) + 6].clone();
    let needless = [
        repeated,
        option(&["--allow", "needs-tool"]),
        option(&["--allow", "needs-file=/nowhere"]),
        option(&["--logs", dice.pick(&["auto", "stdout"])]),
        option(&["--klog-style", "dash"]),
        option(&["--entrypoint", "[ \"/app\" ]"]),
        option(&["--env", "MODE=quiet"]),
        option(&["--known-base", &world.place("old", dice)]),
        option(&["--on-missing-platform", "skip"]),
        option(&["--jobs", dice.pick(&["1", "3", "16"])]),
        option(&[dice.pick(&["-q", "-v"])]),
    ];
    options.extend(needless.into_iter().filter(|_| dice.coin()));
    dice.shuffled(options)
}

/// The surroundings of a run.
fn around(world: &World, run: Invocation, dice: &mut Dice) -> Invocation {
    let run = match dice.roll(3) {
        0 => run.arg("--no-cache"),
        1 => run.arg("--cache").arg(world.sandbox.path("shared cache")),
        _ => run.arg("--cache").arg(world.sandbox.path(&format!("cache {}", dice.roll(1 << 20)))),
    };
    let run = run.env("TZ", dice.pick(&["UTC", "Asia/Kathmandu"])).env("LC_ALL", dice.pick(&["C", "tr_TR.UTF-8"]));
    run.umask([0o022, 0o077, 0][dice.roll(3)])
}

#[test]
fn every_way_to_write_a_move_gives_the_same_digest() {
    let world = World::new(or_skip!(Registry::plain()), or_skip!(Registry::plain()));
    let mut found: Option<String> = None;
    for round in 1..=ROUNDS {
        let mut dice = Dice(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let source = world.place("app", &mut dice);
        let options = options(&world, &mut dice);
        let out = world.sandbox.path(&format!("out {round}"));
        let run = around(&world, world.rebase(&source, &out, &options), &mut dice).run().ok();
        let digest = found.get_or_insert_with(|| run.digest());
        assert_eq!(&run.digest(), digest, "round {round}: {source} {options:?}\n{run}");
        assert_eq!(&published::layout(&out, "out").unwrap().digest, digest);
    }
}

#[test]
fn the_clock_does_not_enter() {
    or_skip!(need(&["faketime"]));
    let sandbox = Sandbox::new();
    for (name, recipe) in [("app", fixtures::app("linux/amd64", 50)), ("new", fixtures::new_base("linux/amd64"))] {
        recipe.build().layout(&sandbox.path("here").join(name), "v1");
    }
    let rebase = |when: &str| {
        let out = format!("oci:out-{}:v1", when.len());
        let words = ["-f", when, &crate::support::invocation::binary(), "rebase", "oci:app:v1", "--base", "oci:new:v1"];
        // The added layer has times of its own.
        let more = ["--old-base", "layers:2", "--keep", "/etc/os-release", "--workdir", "/made", "--to", &out];
        sandbox.program("faketime", words.iter().chain(&more)).run().ok().digest()
    };
    assert_eq!(rebase("@2000-01-01 00:00:00"), rebase("@2037-12-31 23:59:59.5"));
}

/// The digest of the fixture, moved from layouts with `more`.
fn moved(sandbox: &Sandbox, source: &str, more: &[&str]) -> String {
    let words =
        ["rebase", source, "--base", "oci:new:v1", "--old-base", "oci:old:v1", "--no-cache", "--to", "oci:out:x"];
    sandbox.underpin(words.iter().chain(more)).run().ok().digest()
}

fn layouts() -> Sandbox {
    let sandbox = Sandbox::new();
    let here = sandbox.path("here");
    fixtures::attested_app(100).layout(&here.join("app"), "v1");
    fixtures::on_three(Dialect::Oci, fixtures::old_base).layout(&here.join("old"), "v1");
    fixtures::on_three(Dialect::Oci, fixtures::new_base).layout(&here.join("new"), "v1");
    sandbox
}

#[test]
fn what_has_an_effect_changes_the_digest() {
    let sandbox = layouts();
    let plain = moved(&sandbox, "oci:app:v1", &[]);
    let mut seen = vec![plain];
    for more in [
        ["--source-name", "registry.example/app"],
        ["--base-name", "registry.example/app"],
        ["--platform", "linux/arm64"],
        ["--env", "A=1"],
        ["--env", "A=2"],
        ["--drop", "/srv/payload"],
        ["--user", "65532"],
    ] {
        let digest = moved(&sandbox, "oci:app:v1", &more);
        assert!(!seen.contains(&digest), "{more:?}");
        seen.push(digest);
    }
    let all = ["--platform", "linux/arm/v7", "--platform", "linux/amd64", "--platform", "linux/arm64"];
    assert_eq!(moved(&sandbox, "oci:app:v1", &all), seen[0], "all platforms are no selection");
}

#[test]
fn a_batch_file_gives_the_digest_of_the_command_line() {
    let sandbox = layouts();
    let file = "defaults: { base: oci:new:v1, base_name: gcr.io/distroless/static, old_base: oci:old:v1, logs: stdout }\n\
                images:\n  - { source: oci:app:v1, target: oci:batch:x, source_name: registry.example/in/app }\n";
    std::fs::write(sandbox.path("here/images.yaml"), file).unwrap();
    sandbox.underpin(["batch", "images.yaml", "--no-cache"]).run().ok();
    let names: Vec<&str> = NAMES.iter().flat_map(|(flag, name)| [*flag, *name]).collect();
    let made = published::layout(&sandbox.path("here/batch"), "x").unwrap();
    assert_eq!(made.digest, moved(&sandbox, "oci:app:v1", &names));
}

#[test]
fn no_path_and_no_tag_is_published() {
    let registry = or_skip!(Registry::plain());
    let sandbox = layouts();
    fixtures::attested_app(100).push(registry.host(), "team/app", "some-tag");
    let sources = [
        format!("oci:{}:v1", sandbox.path("here/app").display()),
        "oci:app:v1".to_owned(),
        format!("{}/team/app:some-tag", registry.host()),
    ];
    for source in sources {
        moved(&sandbox, &source, &[]);
        let out = published::layout(&sandbox.path("here/out"), "x").unwrap();
        let text = out.images.iter().map(|image| image.manifest.to_string()).collect::<String>();
        for leak in ["oci:", "here", ":v1", "some-tag", "/tmp"] {
            assert!(!text.contains(leak), "{source}: {leak} in {text}");
        }
        let named = source.contains("some-tag");
        assert_eq!(text.contains(&format!("{}/team/app@sha256:", registry.host())), named, "{text}");
    }
}

#[test]
fn an_allowance_that_allows_nothing_is_warned_of() {
    let sandbox = layouts();
    let words = ["rebase", "oci:app:v1", "--base", "oci:new:v1", "--old-base", "oci:old:v1", "--to", "oci:out:x"];
    let run = sandbox.underpin(words.iter().chain(&["--allow", "needs-tool=iptables"])).run().ok();
    let run = run.says("allow-unneeded").says("--allow needs-tool=iptables allows nothing");
    assert_eq!(run.digest(), moved(&sandbox, "oci:app:v1", &[]));
    assert!(!sandbox.underpin(words).run().ok().stderr.contains("allow-unneeded"));
}

/// Layers that are passed on keep the compression that they came with. So the manifest differs, and the config does not.
#[test]
fn a_source_that_was_recompressed_keeps_its_config() {
    or_skip!(need(&["skopeo"]));
    let sandbox = layouts();
    let here = sandbox.path("here");
    let plain = Recipe { ..fixtures::app("linux/amd64", 3000) }.build();
    plain.layout(&here.join("gzip"), "v1");
    let at = |name: &str| format!("oci:{}:v1", here.join(name).display());
    // `dir:` stores layers as tar files; on the way back skopeo compresses them itself.
    let plain_dir = format!("dir:{}", here.join("plain").display());
    tools::tool("skopeo", &["copy", "-q", "--insecure-policy", "--dest-decompress", &at("gzip"), &plain_dir]);
    tools::tool("skopeo", &["copy", "-q", "--insecure-policy", &plain_dir, &at("again")]);
    let result = |source: &str| {
        moved(&sandbox, source, &[]);
        let out = published::layout(&here.join("out"), "x").unwrap();
        let image = out.only();
        (image.config_digest.clone(), image.layers.clone())
    };
    let (one, two) = (result("oci:gzip:v1"), result("oci:again:v1"));
    assert_eq!(one.0, two.0, "the config");
    assert_ne!(one.1, two.1, "skopeo compresses as another tool does");
}
