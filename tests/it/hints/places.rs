//! Hints about where images are read from and written to on disk.

use super::advice;
use crate::support::fixtures;
use crate::support::invocation::Invocation;
use crate::support::layouts::Layouts;
use crate::support::recipe::Dialect;
use crate::support::tools::tool;

const AMD64: &str = "linux/amd64";

fn layouts() -> Layouts {
    Layouts::on(&fixtures::old_base(AMD64), &fixtures::app(AMD64, 10))
}

fn for_three() -> Layouts {
    Layouts::new(
        &fixtures::on_three(Dialect::Oci, |platform| fixtures::app(platform, 10)),
        &fixtures::on_three(Dialect::Oci, fixtures::old_base),
        &fixtures::on_three(Dialect::Oci, fixtures::new_base),
    )
}

/// Moves the image at `from` to `to`.
fn moved(layouts: &Layouts, from: &str, to: &str) -> Invocation {
    layouts.underpin(&["rebase", from, "--old-base", "oci:old:v1", "--base", "oci:new:v1", "--no-cache", "--to", to])
}

#[test]
fn of_a_layout_with_other_tags_or_several() {
    let layouts = layouts();
    let run = moved(&layouts, "oci:app:v2", "oci:out:v1").run().fails("not-found");
    advice(&run, "use one of these tags, or append @DIGEST to the location").by_hand("append @DIGEST to the location");
    let digest = fixtures::app(AMD64, 10).build().digest();
    moved(&layouts, &format!("oci:app@{digest}"), "oci:out:v1").run().ok();

    let second = moved(&layouts, "oci:app:v1", "oci:out:v2").args(["--workdir", "/tmp"]).run().ok().digest();
    let inspect = |image: &str| layouts.underpin(&["inspect", image]).run();
    let run = inspect("oci:out").fails("input");
    advice(&run, "choose one: append :TAG or @DIGEST to the location").by_hand("append :TAG or @DIGEST");
    inspect("oci:out:v1").ok();
    inspect(&format!("oci:out@{second}")).ok();
}

#[test]
fn of_a_directory_that_cannot_become_a_layout() {
    let layouts = layouts();
    let run = moved(&layouts, "oci:app:v1", "oci:none/out:v1").run().fails("local-io");
    advice(&run, "only the directory itself is created; its parent must exist").by_hand("its parent must exist");
    std::fs::create_dir(layouts.layout("none")).unwrap();
    moved(&layouts, "oci:app:v1", "oci:none/out:v1").run().ok();

    std::fs::create_dir(layouts.layout("mine")).unwrap();
    std::fs::write(layouts.layout("mine").join("notes"), "x").unwrap();
    let run = moved(&layouts, "oci:app:v1", "oci:mine:v1").run();
    assert_eq!(run.code(), Some(2), "{run}");
    advice(&run, "choose a new or empty directory, or an existing OCI layout").by_hand("an existing OCI layout");
    moved(&layouts, "oci:app:v1", "oci:none/out:v2").run().ok();
}

#[test]
fn of_archives_that_hold_one_platform_or_none() {
    let layouts = for_three();
    let run = moved(&layouts, "oci:app:v1", "docker-archive:out.tar:a/b:c").run().fails("input");
    advice(&run, "choose one with --platform, or write an oci-archive").by_hand("write an oci-archive");
    moved(&layouts, "oci:app:v1", "docker-archive:out.tar:a/b:c").args(["--platform", AMD64]).run().ok();
    moved(&layouts, "oci:app:v1", "oci-archive:all.tar:v1").run().ok();

    let attested = || moved(&layouts, "oci:app:v1", "docker-archive:out.tar:a/b:c").args(["--attest", "provenance"]);
    let run = attested().run().fails("usage");
    let written = "write to an oci-archive, a layout or a registry, or leave --attest and --sign-key out";
    advice(&run, written).by_hand("write to an oci-archive");
    moved(&layouts, "oci:app:v1", "oci-archive:attested.tar:v1").args(["--attest", "provenance"]).run().ok();
}

#[test]
fn of_archives_of_the_other_kind() {
    let layouts = layouts();
    moved(&layouts, "oci:app:v1", "docker-archive:docker.tar:a/b:c").run().ok();
    moved(&layouts, "oci:app:v1", "oci-archive:oci.tar:v1").run().ok();
    let run = moved(&layouts, "oci:app:v1", "oci-archive:docker.tar:v1").run().fails("input");
    advice(&run, "write to it as docker-archive:, or remove it").by_hand("write to it as docker-archive:");
    moved(&layouts, "oci:app:v1", "docker-archive:docker.tar:a/b:d").run().ok();
    let run = moved(&layouts, "oci:app:v1", "docker-archive:oci.tar:a/b:c").run().fails("input");
    super::computed_advice(&run, "remove the file, or choose another one", "src/store/disk/archive.rs: hint")
        .by_hand("remove the file");
    std::fs::remove_file(layouts.layout("oci.tar")).unwrap();
    moved(&layouts, "oci:app:v1", "docker-archive:oci.tar:a/b:c").run().ok();
}

#[test]
fn of_a_docker_archive_whose_image_is_not_named() {
    let layouts = layouts();
    for name in ["a/b:c", "a/d:c", "a/b:e"] {
        moved(&layouts, "oci:app:v1", &format!("docker-archive:in.tar:{name}")).run().ok();
    }
    let again = |from: &str| layouts.underpin(&["inspect", from]).run();
    for from in ["docker-archive:in.tar", "docker-archive:in.tar:nope"] {
        let run = again(from);
        assert_eq!(run.code(), Some(2), "{run}");
        let written = "name one of these: append :TAG or :NAME:TAG to the location";
        super::computed_advice(&run, written, "src/store/disk/docker_manifest.rs: hint").by_hand(":NAME:TAG");
    }
    let run = again("docker-archive:in.tar:c").fails("input");
    advice(&run, "append the full name to the location, as :NAME:TAG").by_hand(":NAME:TAG");
    again("docker-archive:in.tar:docker.io/a/b:c").ok();
    again("docker-archive:in.tar:e").ok();
}

#[test]
fn of_an_archive_that_is_compressed() {
    let layouts = layouts();
    moved(&layouts, "oci:app:v1", "oci-archive:in.tar:v1").run().ok();
    let path = layouts.layout("in.tar");
    tool("gzip", &[path.to_str().unwrap()]);
    let run = layouts.underpin(&["inspect", "oci-archive:in.tar.gz:v1"]).run().fails("input");
    super::computed_advice(&run, "gunzip it first", "src/store/disk/tar_reader.rs: unpack").by_hand("gunzip it first");
    tool("gunzip", &[layouts.layout("in.tar.gz").to_str().unwrap()]);
    layouts.underpin(&["inspect", "oci-archive:in.tar:v1"]).run().ok();
}

#[test]
fn of_a_cache_of_another_version() {
    let layouts = layouts();
    let inspect = |more: &[&str]| layouts.underpin(&["inspect", "oci:app:v1"]).args(more).run();
    inspect(&["--cache", "kept"]).ok();
    std::fs::write(layouts.layout("kept").join("version"), "99\n").unwrap();
    let list = |more: &[&str]| layouts.underpin(&["cache", "ls"]).args(more).run();
    let run = list(&["--cache", "kept"]);
    assert_eq!(run.code(), Some(2), "{run}");
    advice(&run, "choose another directory with --cache, or pass --no-cache").by_hand("pass --no-cache");
    list(&["--cache", "other"]).ok();
    inspect(&["--no-cache"]).ok();
}

#[test]
fn of_a_file_to_write_that_is_a_link() {
    let layouts = layouts();
    std::os::unix::fs::symlink("real", layouts.layout("link")).unwrap();
    std::fs::write(layouts.layout("real"), "").unwrap();
    let run = |file: &str| moved(&layouts, "oci:app:v1", "oci:out:v1").args(["--digest-file", file]).run();
    let linked = run("link");
    assert_eq!(linked.code(), Some(2), "{linked}");
    advice(&linked, "name the file that the link points to").by_hand("the file that the link points to");
    run("real").ok();
}

#[test]
fn of_a_target_in_a_registry_without_a_network() {
    let layouts = layouts();
    let run = moved(&layouts, "oci:app:v1", "registry.example/app:v1").arg("--offline").run();
    assert_eq!(run.code(), Some(2), "{run}");
    advice(&run, "run without --offline, or use oci: and archive locations").by_hand("use oci: and archive locations");
    moved(&layouts, "oci:app:v1", "oci:out:v1").arg("--offline").run().ok();
}
