//! Images of a container engine: podman's storage and docker's daemon for real, and what a tool is asked to do.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::docker_daemon::Daemon;
use crate::support::docker_registry::Registry;
use crate::support::fixtures;
use crate::support::invocation::{Invocation, Running};
use crate::support::layouts::Layouts;
use crate::support::skip::{need, or_skip};
use crate::support::tools::tool;

pub fn layouts() -> Layouts {
    Layouts::on(&fixtures::old_base("linux/amd64"), &fixtures::app("linux/amd64", 5000))
}

/// A storage of podman's that is nobody else's, with the application in it as `localhost/app:v1`.
pub struct Storage {
    config: PathBuf,
}

impl Storage {
    pub fn with_app(layouts: &Layouts) -> Self {
        let (root, config) = (layouts.sandbox.path("storage"), layouts.sandbox.path("storage.conf"));
        let text =
            format!("[storage]\ndriver = \"vfs\"\ngraphroot = \"{0}/root\"\nrunroot = \"{0}/run\"\n", root.display());
        std::fs::write(&config, text).unwrap();
        let storage = Self { config };
        let from = format!("oci:{}:v1", layouts.layout("app").display());
        let args = ["copy", "--insecure-policy", "--quiet", &from, "containers-storage:localhost/app:v1"];
        let run = storage.knows(layouts.sandbox.program(&program("skopeo"), args)).run();
        assert_eq!(run.code(), Some(0), "{run}");
        storage
    }

    pub fn knows(&self, invocation: Invocation) -> Invocation {
        invocation.env("CONTAINERS_STORAGE_CONF", &self.config)
    }
}

fn program(name: &str) -> String {
    crate::support::skip::find(name).unwrap().display().to_string()
}

pub fn rebase(layouts: &Layouts, source: &str, to: &str) -> Invocation {
    let inputs = ["--base", "oci:new:v1", "--old-base", "oci:old:v1", "--no-cache"];
    layouts.underpin(&["rebase", source, "-t", to]).args(inputs)
}

fn copies(layouts: &Layouts) -> Vec<PathBuf> {
    let kinds = std::fs::read_dir(layouts.sandbox.path("tmp")).unwrap().map(|entry| entry.unwrap().path());
    let kinds = kinds.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("underpin-"));
    let found = kinds.flat_map(|kind| std::fs::read_dir(kind).unwrap().map(|entry| entry.unwrap().path()));
    found.filter(|path| path.is_dir()).collect()
}

#[test]
fn an_image_of_podmans_storage_moves_as_the_same_from_a_registry() {
    or_skip!(need(&["skopeo"]));
    let layouts = layouts();
    let storage = Storage::with_app(&layouts);
    let source = "containers-storage:localhost/app:v1";
    let run = storage
        .knows(rebase(&layouts, source, "oci:out:storage"))
        .run()
        .ok()
        .says("other digests than from a registry");
    assert!(copies(&layouts).is_empty(), "{:?}", copies(&layouts));
    // What the same tool pushes to a registry is what it copied for us.
    let registry = or_skip!(Registry::plain());
    let pushed = format!("{}/app:v1", registry.host());
    let push = [
        "copy",
        "--insecure-policy",
        "--quiet",
        "--dest-tls-verify=false",
        "--format",
        "oci",
        source,
        &format!("docker://{pushed}"),
    ];
    let pushing = storage.knows(layouts.sandbox.program(&program("skopeo"), push)).run();
    assert_eq!(pushing.code(), Some(0), "{pushing}");
    let named = ["--source-name", "registry.example/app"];
    let of_registry = rebase(&layouts, &pushed, "oci:out:registry").args(named).run().ok();
    let of_storage = storage.knows(rebase(&layouts, source, "oci:out:again")).args(named).run().ok();
    assert_eq!(of_storage.digest(), of_registry.digest(), "{of_storage}\n{of_registry}");
    assert!(!run.digest().is_empty());
    // Other commands read it, too.
    let inspected = storage.knows(layouts.underpin(&["inspect", source, "--json", "--no-cache"])).run().ok().json();
    assert_eq!(inspected["image"]["reference"], source);
    storage
        .knows(rebase(&layouts, "containers-storage:localhost/none:v1", "oci:out:none"))
        .run()
        .fails("local-io")
        .says("localhost/none");
    assert!(copies(&layouts).is_empty());
}

/// What an image is made of, however its layers are compressed.
fn content(layouts: &Layouts, image: &str) -> (Vec<Value>, Value) {
    let inspected = layouts.underpin(&["inspect", image, "--json", "--no-cache"]).run().ok().json();
    let platform = &inspected["platforms"][0];
    let layers = platform["layers"].as_array().unwrap().iter().map(|layer| layer["diff_id"].clone()).collect();
    (layers, platform["entrypoint"].clone())
}

#[test]
fn what_podman_saves_is_read_in_both_formats() {
    or_skip!(need(&["skopeo", "podman"]));
    let layouts = layouts();
    let storage = Storage::with_app(&layouts);
    let podman = |args: &[&str]| {
        let run = storage.knows(layouts.sandbox.program(&program("podman"), args)).run();
        assert_eq!(run.code(), Some(0), "{run}");
    };
    podman(&["save", "--quiet", "-o", "docker.tar", "localhost/app:v1"]);
    // As the hint says where no tool is installed.
    podman(&["save", "--format", "oci-archive", "-o", "image.tar", "localhost/app:v1"]);
    rebase(&layouts, "oci:app:v1", "oci:plain:v1").run().ok();
    for (at, source) in ["docker-archive:docker.tar", "oci-archive:image.tar"].iter().enumerate() {
        let to = format!("oci:saved:v{at}");
        rebase(&layouts, source, &to).run().ok();
        assert_eq!(content(&layouts, &to), content(&layouts, "oci:plain:v1"), "{source}");
    }
}

#[test]
fn a_tool_gets_the_variables_that_it_works_with_and_no_others() {
    let layouts = layouts();
    let seen = layouts.sandbox.path("seen");
    for name in ["skopeo", "docker", "podman"] {
        let directory = layouts.sandbox.path(&format!("{name}-bin"));
        std::fs::create_dir(&directory).unwrap();
        let tool = directory.join(name);
        std::fs::write(&tool, format!("#!/bin/sh\n/usr/bin/env > {}\nexit 1\n", seen.display())).unwrap();
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
        let source = if name == "docker" { "docker-daemon:app:v1" } else { "containers-storage:app:v1" };
        let invocation = rebase(&layouts, source, "oci:out:x").env("PATH", &directory).env("DOCKER_HOST", "unix:///x");
        let invocation = invocation.env("CONTAINERS_STORAGE_CONF", "/x").env("AWS_SECRET_ACCESS_KEY", "CANARY");
        let invocation = invocation.env("COSIGN_PASSWORD", "CANARY").env("DOCKER_PASSWORD", "CANARY");
        invocation.env("SIGNING_KEY", "CANARY").env("UNDERPIN_HELPER_ENV", "SIGNING_KEY").run().fails("local-io");
        let seen = std::fs::read_to_string(&seen).unwrap();
        assert!(!seen.contains("CANARY"), "{name}: {seen}");
        for line in ["DOCKER_HOST=unix:///x", "CONTAINERS_STORAGE_CONF=/x", "HOME=", "TMPDIR=", "UNDERPIN_COPY="] {
            assert!(seen.lines().any(|found| found.starts_with(line)), "{name} {line}: {seen}");
        }
    }
}

/// A directory with nothing but docker's client.
fn only_docker(layouts: &Layouts, daemon: &Daemon) -> PathBuf {
    let directory = layouts.sandbox.path("docker-bin");
    std::fs::create_dir(&directory).unwrap();
    std::os::unix::fs::symlink(daemon.client(), directory.join("docker")).unwrap();
    directory
}

#[test]
fn an_image_of_dockers_daemon_is_read_through_skopeo_and_through_docker() {
    or_skip!(need(&["skopeo"]));
    let daemon = or_skip!(Daemon::start());
    let layouts = layouts();
    let file = |name: &str| layouts.layout(name).display().to_string();
    let (from, loaded) = (format!("oci:{}:v1", file("app")), format!("docker-archive:{}:app:v1", file("app.tar")));
    tool("skopeo", &["copy", "--insecure-policy", "--quiet", &from, &loaded]);
    daemon.docker(&["load", "-i", &file("app.tar")]);
    rebase(&layouts, "oci:app:v1", "oci:plain:v1").run().ok();
    let bin = only_docker(&layouts, &daemon);
    let source = "docker-daemon:app:v1";
    let reading = |to: &str| rebase(&layouts, source, to).env("DOCKER_HOST", daemon.host());
    reading("oci:read:skopeo").run().ok().says("is copied with skopeo");
    let by_docker = reading("oci:read:docker").env("PATH", &bin).run().ok().says("is copied with docker");
    for read in ["oci:read:skopeo", "oci:read:docker"] {
        assert_eq!(content(&layouts, read), content(&layouts, "oci:plain:v1"), "{read}");
    }
    // A context is known to docker alone.
    let home = layouts.sandbox.path("home").join(".docker");
    let create = ["context", "create", "elsewhere", "--docker", &format!("host={}", daemon.host())];
    let docker = |args: &[&str]| {
        let run = layouts.sandbox.program(&daemon.client().display().to_string(), args).run();
        assert_eq!(run.code(), Some(0), "{run}");
    };
    docker(&create);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let of_context = |to: &str| rebase(&layouts, source, to).env("PATH", &path);
    let told = of_context("oci:read:told").env("DOCKER_CONTEXT", "elsewhere").run().ok().says("copied with docker");
    docker(&["context", "use", "elsewhere"]);
    let used = of_context("oci:read:used").run().ok().says("copied with docker");
    assert_eq!((told.digest(), used.digest()), (by_docker.digest(), by_docker.digest()));
    std::fs::remove_dir_all(home).unwrap();
    // As the hints say: an archive in place of the tool, and one in place of the target.
    daemon.docker(&["save", "-o", &file("image.tar"), "app:v1"]);
    rebase(&layouts, "docker-archive:image.tar", "oci:read:saved").run().ok();
    assert_eq!(content(&layouts, "oci:read:saved"), content(&layouts, "oci:plain:v1"));
    rebase(&layouts, "oci:app:v1", "docker-archive:moved.tar:registry.example/app:moved").run().ok();
    daemon.docker(&["load", "-i", &file("moved.tar")]);
    let known: Value =
        serde_json::from_str(&daemon.docker(&["image", "inspect", "registry.example/app:moved"])).unwrap();
    let (layers, entrypoint) = content(&layouts, "oci:plain:v1");
    assert_eq!(known[0]["RootFS"]["Layers"].as_array().unwrap(), &layers, "{known}");
    assert_eq!(known[0]["Config"]["Entrypoint"], entrypoint, "{known}");
    // What is not there is said by the tool, with the command to try.
    let none = rebase(&layouts, "docker-daemon:none:v1", "oci:read:none").env("DOCKER_HOST", daemon.host());
    none.run()
        .fails("local-io")
        .says(&format!("skopeo copy --src-daemon-host {} docker-daemon:none:v1", daemon.host()));
    assert!(copies(&layouts).is_empty());
}

/// A tool on the PATH that is a script; it writes its arguments, one a line, to `arguments`.
fn stand_in(layouts: &Layouts, name: &str, script: &str) -> PathBuf {
    let directory = layouts.sandbox.path("bin");
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join(name);
    let record = layouts.sandbox.path("arguments");
    let text = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" > {}\n{script}\n", record.display());
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

fn path(directory: &Path) -> String {
    format!("{}:/usr/bin:/bin", directory.display())
}

fn arguments(layouts: &Layouts) -> Vec<String> {
    let text = std::fs::read_to_string(layouts.sandbox.path("arguments")).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_daemon_is_read_by_the_tool_that_is_there_and_without_a_shell() {
    let layouts = layouts();
    // A stand-in shows what a tool is asked for, and puts the application where it is told to.
    let app = layouts.layout("app");
    let copy = format!(
        "for last; do :; done; to=${{last#oci:}}; mkdir -p \"${{to%:*}}\" && cp -r {}/. \"${{to%:*}}\" && sed -i 's/\"v1\"/\"image\"/' \"${{to%:*}}/index.json\"",
        app.display()
    );
    let bin = stand_in(&layouts, "skopeo", &copy);
    let odd = "docker-daemon:app:$(id)";
    let run = rebase(&layouts, odd, "oci:out:v1").env("PATH", path(&bin)).run().ok();
    assert_eq!(run.digest(), layouts.rebase("plain").run().ok().digest(), "the same bytes\n{run}");
    let asked = arguments(&layouts);
    assert_eq!(asked[asked.len() - 2], odd, "{asked:?}");
    assert!(asked.contains(&"copy".to_owned()) && asked.last().unwrap().starts_with("oci:"), "{asked:?}");
    assert!(copies(&layouts).is_empty());
    // What a tool says is shown where it fails, and what it wrote is gone.
    let bin = stand_in(&layouts, "skopeo", "echo 'cannot connect to the daemon' >&2; exit 1");
    let run = rebase(&layouts, "docker-daemon:app:v1", "oci:out:v2").env("PATH", path(&bin)).run().fails("local-io");
    run.says("cannot connect to the daemon").says("skopeo copy docker-daemon:app:v1");
    assert!(copies(&layouts).is_empty());
}

/// Every place that text of an image could name: tools would be executed, files and layouts of this machine read.
fn hostile_places(layouts: &Layouts) -> Vec<String> {
    let old = layouts.layout("old").display().to_string();
    let tools = ["containers-storage:[vfs@/tmp+/tmp]app:v1", "containers-storage:app:v1", "docker-daemon:app:v1"];
    let tools = tools.map(str::to_owned);
    tools
        .into_iter()
        .chain([format!("oci:{old}:v1"), format!("oci-archive:{old}.tar:v1"), "dir:/etc".to_owned()])
        .collect()
}

/// The record of an image, and every other member that names a base.
#[test]
fn no_text_of_an_image_becomes_a_place_on_this_machine() {
    let layouts = layouts();
    let marker = layouts.sandbox.path("arguments");
    for tool in ["skopeo", "podman", "docker"] {
        stand_in(&layouts, tool, "exit 1");
    }
    let bin = path(&layouts.sandbox.path("bin"));
    let here = layouts.sandbox.path("here");
    let app = fixtures::app("linux/amd64", 5000).build();
    let digest = app.digest();
    for (number, place) in hostile_places(&layouts).into_iter().enumerate() {
        for format in ["1", "2", "3"] {
            let named = json!({
                "org.opencontainers.image.base.name": place, "org.opencontainers.image.base.digest": digest,
                "dev.underpin.format": format, "dev.underpin.source": format!("{place}@{digest}"),
                "dev.underpin.options": format!("{{\"old_base\":\"{place}\",\"log_runner\":\"{place}@{digest}\"}}"),
            });
            let hostile = app
                .with_config(|config| config["config"]["Labels"] = named.clone())
                .with_manifest(|manifest| manifest["annotations"] = named.clone());
            let name = format!("hostile-{number}-{format}");
            hostile.layout(&here.join(&name), "v1");
            let image = format!("oci:{name}:v1");
            let on = |words: &[&str]| layouts.underpin(words).env("PATH", &bin).run();
            on(&["verify", &image]).fails("input");
            on(&["inspect", &image]).ok();
            let outdated = on(&["outdated", &image, "--json"]);
            let plan = on(&["plan", &image, "--base", "oci:new:v1", "--json"]);
            assert!(!marker.exists(), "{place} was handed to a tool\n{outdated}\n{plan}");
            let old_base = plan.json()["platforms"][0]["old_base"].clone();
            assert!(matches!(old_base["how"].as_str(), Some("history" | "content" | "scratch")), "{place}\n{old_base}");
        }
    }
}

/// A copy that goes on for long, with the process that the tool has started.
struct LongCopy {
    running: Running,
    bin: PathBuf,
    child: String,
}

impl LongCopy {
    fn begin(layouts: &Layouts) -> Self {
        let mark = layouts.sandbox.path("mark");
        let script = format!("sleep 300 & echo $! > {0}.new; mv {0}.new {0}; wait", mark.display());
        let bin = stand_in(layouts, "skopeo", &script);
        let running = rebase(layouts, "docker-daemon:app:v1", "oci:out:v1").env("PATH", path(&bin)).start();
        let until = Instant::now() + Duration::from_secs(30);
        while !mark.exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(copies(layouts).len(), 1);
        Self { running, bin, child: std::fs::read_to_string(&mark).unwrap() }
    }
}

fn is_gone(pid: &str) -> bool {
    let until = Instant::now() + Duration::from_secs(30);
    let lives = || {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z ")
    };
    while lives() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    !lives()
}

#[test]
fn an_interrupted_copy_leaves_nothing_and_no_tool() {
    let layouts = layouts();
    let LongCopy { running, child, .. } = LongCopy::begin(&layouts);
    running.signal(libc::SIGTERM);
    let run = running.finish().says("interrupted: nothing was published");
    assert!(!run.stderr.contains("could not copy"), "{run}");
    assert_eq!(run.code(), Some(143), "{run}");
    assert!(copies(&layouts).is_empty(), "{:?}", copies(&layouts));
    assert!(is_gone(&child));
}

#[test]
fn what_a_killed_copy_leaves_is_gone_with_the_next() {
    let layouts = layouts();
    let LongCopy { running, bin, child } = LongCopy::begin(&layouts);
    running.signal(libc::SIGKILL);
    running.finish();
    assert_eq!(copies(&layouts).len(), 1);
    stand_in(&layouts, "skopeo", "exit 1");
    rebase(&layouts, "docker-daemon:app:v1", "oci:out:v2").env("PATH", path(&bin)).run().fails("local-io");
    assert!(copies(&layouts).is_empty(), "{:?}", copies(&layouts));
    assert!(is_gone(&child));
}

#[test]
fn what_cannot_be_read_or_written_is_answered_by_name_with_what_to_do() {
    let layouts = layouts();
    let empty = layouts.sandbox.path("empty");
    std::fs::create_dir(&empty).unwrap();
    for (source, words) in [
        ("docker-daemon:app:v1", ["no tool", "docker save -o image.tar app:v1"]),
        ("containers-storage:app:v1", ["no tool", "podman save"]),
        ("dir:/tmp/x", ["dir:", "skopeo copy dir:/tmp/x oci-archive:image.tar:latest"]),
        ("sif:x.sif", ["sif:", "skopeo copy sif:x.sif oci-archive:image.tar:latest"]),
        ("ostree:x@/y", ["ostree:", "skopeo copy"]),
    ] {
        let run = rebase(&layouts, source, "oci:out:v1").env("PATH", &empty).run().fails("usage");
        words.iter().fold(run, |run, word| run.says(word));
    }
    for (target, words) in [
        ("docker-daemon:app:v1", ["--to docker-archive:image.tar:NAME:TAG", "docker load -i image.tar"]),
        (
            "containers-storage:app",
            ["--to oci-archive:image.tar:latest", "skopeo copy oci-archive:image.tar:latest containers-storage:app"],
        ),
    ] {
        let run = rebase(&layouts, "oci:app:v1", target).run().fails("usage");
        words.iter().fold(run, |run, word| run.says(word));
    }
}

#[test]
fn the_archive_that_a_hint_names_can_be_read() {
    or_skip!(need(&["skopeo"]));
    let layouts = layouts();
    let (from, archive) = (layouts.layout("app"), layouts.layout("image.tar"));
    let directory = layouts.layout("as-dir");
    tool(
        "skopeo",
        &["copy", "--insecure-policy", &format!("oci:{}:v1", from.display()), &format!("dir:{}", directory.display())],
    );
    // As the hint for dir: says.
    tool(
        "skopeo",
        &[
            "copy",
            "--insecure-policy",
            &format!("dir:{}", directory.display()),
            &format!("oci-archive:{}:latest", archive.display()),
        ],
    );
    rebase(&layouts, "oci-archive:image.tar:latest", "oci:out:v1").run().ok();
}
