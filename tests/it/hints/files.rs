//! Hints about files that a command line names: lists, and archives.

use super::advice;
use crate::support::fixtures;
use crate::support::invocation::{Run, Sandbox};

#[test]
fn of_a_list_of_protected_images() {
    let sandbox = Sandbox::new();
    let collect = |list: &str| -> Run {
        std::fs::write(sandbox.path("here/list"), list).unwrap();
        sandbox.underpin(["cache", "gc", "--max-size", "0", "--protect-file", "list"]).run()
    };
    let run = collect("a.io/app:v1").fails("input");
    advice(&run, "end the last line of the list with a newline").by_hand("with a newline");
    collect("a.io/app:v1\n").ok();

    let run = collect("# nothing yet\n").fails("input");
    advice(&run, "add an entry to it, or run without the list").by_hand("add an entry to it");
    collect("# nothing yet\na.io/app:v1\n").ok();
    sandbox.underpin(["cache", "gc", "--max-size", "0"]).run().ok();
}

#[test]
fn of_an_archive_with_a_name_where_a_tag_belongs() {
    let sandbox = Sandbox::new();
    let app = fixtures::app("linux/amd64", 10).build();
    app.oci_archive(&sandbox.path("here/oci.tar"), "v1");
    app.docker_archive(&sandbox.path("here/docker.tar"), "docker.io/a/b:v1");
    let inspect = |image: &str| sandbox.underpin(["inspect", image]).run();
    let run = inspect("oci-archive:oci.tar:a/b:v1").fails("not-found");
    advice(&run, "what follows the `:` is a tag, or in a docker archive NAME:TAG").by_hand("is a tag");
    inspect("oci-archive:oci.tar:v1").ok();
    inspect("docker-archive:docker.tar:a/b:v1").ok();
}
