//! Hints about files that a command line names: lists, and archives.

use std::os::unix::fs::PermissionsExt as _;

use super::advice;
use crate::support::fixtures;
use crate::support::invocation::{Run, Sandbox};
use crate::support::skip::{missing, need, or_skip};

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

#[test]
fn of_an_output_that_is_in_the_way_of_another_file() {
    let sandbox = Sandbox::new();
    let list = "|Component|Base|Reason|\n|-|-|-|\n|app|b.io/b|x|\n";
    std::fs::write(sandbox.path("here/list.md"), list).unwrap();
    let report = |to: &str| sandbox.underpin(["exceptions", "list.md", "--report", &format!("json={to}")]).run();
    advice(&report("list.md").fails("usage"), "name another file").by_hand("name another file");
    report("other.json").ok();

    let fifo = sandbox.path("here/fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    advice(&report("fifo").fails("usage"), "start its reader first, or name a file").by_hand("start its reader first");
    let reader = std::thread::spawn(move || std::fs::read_to_string(fifo).unwrap());
    while report("fifo").code() != Some(0) {}
    assert!(reader.join().unwrap().contains("app"));
}

#[test]
fn of_a_file_of_somebody_elses() {
    or_skip!(need(&["setpriv"]));
    if !rustix::process::geteuid().is_root() {
        return missing("the rights of root").stop();
    }
    let sandbox = Sandbox::new();
    let (list, copy) = (sandbox.path("here/list.md"), sandbox.path("here/copy.md"));
    std::fs::write(&list, "|Component|Base|Reason|\n|-|-|-|\n|app|b.io/b|x|\n").unwrap();
    std::os::unix::fs::chown(&list, Some(1234), Some(1234)).unwrap();
    for directory in [".", "here"] {
        std::fs::set_permissions(sandbox.path(directory), std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let binary = crate::support::invocation::binary();
    let remove = |user: u32, list: &str| {
        let user = [format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".to_owned(), binary.clone()];
        sandbox.program("setpriv", user).args(["exceptions", list, "--remove", "app"]).run()
    };
    let run = remove(4321, "list.md").fails("local-io");
    advice(&run, "run as its owner, or copy the file and change the copy").by_hand("run as its owner");
    std::fs::copy(&list, &copy).unwrap();
    std::os::unix::fs::chown(&copy, Some(4321), Some(4321)).unwrap();
    remove(4321, "copy.md").ok();
    remove(1234, "list.md").ok();
}
