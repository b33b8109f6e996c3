//! Hints about images of engines, transports of other tools, and manifests of the image promoter.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use super::{Advice, advice};
use crate::batch::Setup;
use crate::engines::{Storage, layouts, rebase};
use crate::support::invocation::Run;
use crate::support::layouts::Layouts;
use crate::support::skip::{need, or_skip};
use crate::support::tools::tool;

impl Advice {
    /// The command of another tool, up to what is then to be named, and that.
    fn of_a_tool(self) -> (String, String) {
        let told = self.text.split_once(": ").unwrap_or_else(|| panic!("no command: {}", self.text)).1;
        let (command, named) = told.split_once(", and name it ").unwrap_or((told, ""));
        (command.to_owned(), named.to_owned())
    }
}

/// Types a command of another tool where the images are.
fn typed(layouts: &Layouts, storage: Option<&Storage>, command: &str) -> Run {
    let shell = layouts.sandbox.program("/bin/sh", ["-c", command]);
    match storage {
        Some(storage) => storage.knows(shell).run(),
        None => shell.run(),
    }
}

#[test]
fn of_a_transport_that_nothing_here_reads() {
    or_skip!(need(&["skopeo"]));
    let layouts = layouts();
    let (app, as_dir) = (layouts.layout("app"), layouts.layout("a dir"));
    let (from, to) = (format!("oci:{}:v1", app.display()), format!("dir:{}", as_dir.display()));
    tool("skopeo", &["copy", "--insecure-policy", &from, &to]);
    let run = rebase(&layouts, "dir:a dir", "oci:out:v1").run().fails("usage");
    let written = "make an archive of it: skopeo copy {} oci-archive:image.tar:latest";
    typed(&layouts, None, &advice(&run, written).of_a_tool().0).ok();
    let named = advice(&run, "then name it: oci-archive:image.tar:latest").of_a_tool().0;
    rebase(&layouts, &named, "oci:out:v1").run().ok();

    let archive = format!("docker-archive:{}:a/b:c", layouts.layout("saved.tar").display());
    tool("skopeo", &["copy", "--insecure-policy", &from, &archive]);
    let run = rebase(&layouts, "docker-tarfile:saved.tar", "oci:out:v2").run().fails("usage");
    let named = advice(&run, "an archive of `docker save` is docker-archive:{rest}").text;
    rebase(&layouts, named.rsplit(' ').next().unwrap(), "oci:out:v2").run().ok();
}

/// Where neither tool is installed, an archive is made where the engine is, by the engine's own tool.
#[test]
fn of_an_engine_without_a_tool_that_reads_it() {
    or_skip!(need(&["skopeo", "podman"]));
    let layouts = layouts();
    let storage = Storage::with_app(&layouts);
    let elsewhere =
        format!("containers-storage:[vfs@{0}/root+{0}/run]localhost/app:v1", layouts.sandbox.path("storage").display());
    for (source, tools) in [("containers-storage:localhost/app:v1", "skopeo or podman"), (&elsewhere, "skopeo")] {
        let run = rebase(&layouts, source, "oci:out:v1").env("PATH", "/nowhere").run().fails("usage");
        let installed = advice(&run, "install {}").text;
        assert_eq!(installed, format!("install {tools}"));
        storage.knows(rebase(&layouts, source, "oci:out:v1")).run().ok();
        let written = "or make an archive where the engine is: {command}, and name it {archive}";
        let (command, named) = advice(&run, written).of_a_tool();
        typed(&layouts, Some(&storage), &command).ok();
        rebase(&layouts, &named, "oci:out:v2").env("PATH", "/nowhere").run().ok();
        std::fs::remove_file(layouts.layout("image.tar")).unwrap();
    }
}

#[test]
fn of_a_tool_that_cannot_copy_the_image() {
    or_skip!(need(&["skopeo"]));
    let layouts = layouts();
    let storage = Storage::with_app(&layouts);
    let run = storage.knows(rebase(&layouts, "containers-storage:localhost/none:v1", "oci:out:v1")).run();
    let (command, named) =
        advice(&run.fails("local-io"), "run it by hand: {command}, and name it {archive}").of_a_tool();
    // By hand it says the same, until the image is there.
    let by_hand = typed(&layouts, Some(&storage), &command);
    assert!(by_hand.code() != Some(0) && by_hand.stderr.contains("localhost/none"), "{by_hand}");
    let copy = "skopeo copy containers-storage:localhost/app:v1 containers-storage:localhost/none:v1";
    typed(&layouts, Some(&storage), copy).ok();
    typed(&layouts, Some(&storage), &command).ok();
    rebase(&layouts, &named, "oci:out:v1").run().ok();
    storage.knows(rebase(&layouts, "containers-storage:localhost/none:v1", "oci:out:v1")).run().ok();
}

#[test]
fn of_an_engine_that_nothing_is_published_to() {
    or_skip!(need(&["skopeo", "podman"]));
    let layouts = layouts();
    let storage = Storage::with_app(&layouts);
    let target = "containers-storage:localhost/moved:v1";
    let run = rebase(&layouts, "oci:app:v1", target).run().fails("usage");
    let to = advice(&run, "write an archive with --to {archive}").flag("--to");
    rebase(&layouts, "oci:app:v1", &to[1]).run().ok();
    typed(&layouts, Some(&storage), &advice(&run, "then load it: {load}").of_a_tool().0).ok();
    storage.knows(layouts.underpin(&["inspect", target, "--no-cache"])).run().ok();

    let run = rebase(&layouts, "oci:app:v1", "docker-daemon:moved:v1").run().fails("usage");
    let to = advice(&run, "write an archive with --to {archive}").flag("--to");
    std::fs::remove_file(layouts.layout("image.tar")).unwrap();
    rebase(&layouts, "oci:app:v1", &to[1].replace("NAME:TAG", "docker.io/library/moved:v2")).run().ok();
    // There is no daemon here; podman takes the same words.
    let load = advice(&run, "then load it: {load}").of_a_tool().0;
    let loaded = typed(&layouts, Some(&storage), &load.replacen("docker", "podman", 1)).ok();
    assert!(loaded.stdout.contains("docker.io/library/moved:v2"), "{loaded}");
}

#[test]
fn of_a_directory_for_temporary_files_whose_name_others_cannot_read() {
    or_skip!(need(&["skopeo"]));
    let layouts = layouts();
    let storage = Storage::with_app(&layouts);
    let move_it = |directory: &OsStr| {
        let directory = layouts.sandbox.path("tmp").join(directory);
        std::fs::create_dir_all(&directory).unwrap();
        let source = "containers-storage:localhost/app:v1";
        storage.knows(rebase(&layouts, source, "oci:out:v1")).env("TMPDIR", directory).run()
    };
    let run = move_it(OsStr::new("a:b")).fails("usage");
    advice(&run, "set TMPDIR to one without a colon").by_hand("set TMPDIR");
    let run = move_it(OsStr::from_bytes(b"\xff")).fails("usage");
    advice(&run, "set TMPDIR to another directory").by_hand("set TMPDIR");
    move_it(OsStr::new("plain")).ok();
}

#[test]
fn of_targets_that_one_manifest_of_the_promoter_cannot_name() {
    let setup = or_skip!(Setup::new(2));
    let host = setup.proxy.host();
    // The same registry by another name.
    let port = host.rsplit(':').next().unwrap();
    let text = setup.read("batch.yaml");
    setup.write("batch.yaml", &text.replace(&format!("{host}/out/app1"), &format!("localhost:{port}/out/app1")));
    let run = setup.batch(&["--promoter", "all.yaml"]).run().fails("usage");
    let only = advice(&run, "write a manifest for each registry: choose its images with --only PATTERN")
        .flags("--only PATTERN", &[("PATTERN", &format!("localhost:{port}/*"))]);
    setup.batch(&["--promoter", "one.yaml"]).args(&only).run().ok();
    assert!(setup.read("one.yaml").starts_with("- name: out/app1\n"));

    setup.write("batch.yaml", &text);
    let run = setup.batch(&["--promoter", "all.yaml", "--promoter-prefix", "registry.example"]).run().fails("usage");
    let written = "name the registry, and the path, that all targets are in: --promoter-prefix REF";
    let prefix = advice(&run, written).flags("--promoter-prefix REF", &[("REF", &format!("{host}/out"))]);
    setup.batch(&["--promoter", "all.yaml"]).args(&prefix).run().ok();
    assert!(setup.read("all.yaml").starts_with("- name: app0\n"));
}

#[test]
fn of_a_manifest_of_the_promoter_that_is_laid_out_otherwise() {
    let setup = or_skip!(Setup::new(1));
    let there = "- name: out/app0\n  dmap: {}\n";
    setup.write("images.yaml", there);
    let run = setup.batch(&["--promoter", "images.yaml"]).run();
    assert_eq!((run.kind().as_deref(), setup.read("images.yaml").as_str()), (Some("input"), there), "{run}");
    advice(&run, "write to a new file, and bring the two together by hand").by_hand("write to a new file");
    setup.batch(&["--promoter", "new.yaml"]).run().ok();
    let together = there.replace("  dmap: {}\n", "") + setup.read("new.yaml").split_once('\n').unwrap().1;
    setup.write("images.yaml", &together);
    setup.batch(&["--promoter", "images.yaml"]).run().ok();
    assert_eq!(setup.read("images.yaml"), together, "nothing is left to add");
}
