//! Images of a container engine: podman's storage for real, docker's daemon by what a tool is asked to do.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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
    // There is no daemon here: a stand-in shows what a tool is asked for, and puts the application where it is told to.
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
