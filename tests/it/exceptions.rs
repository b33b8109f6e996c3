//! The exception list through the binary: listed, validated, edited in place, rendered.

use serde_json::Value;

use crate::support::invocation::{Run, Sandbox};

const SEED: &str = include_str!("../../testdata/base-image-exception-list.md");

const SECTIONS: &str = include_str!("../../testdata/base-image-exception-list-sections.md");

fn with_list(page: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("here").join("list.md"), page).unwrap();
    sandbox
}

fn exceptions(sandbox: &Sandbox, flags: &[&str]) -> Run {
    sandbox.underpin(["exceptions", "list.md"].iter().chain(flags)).run()
}

fn page(sandbox: &Sandbox) -> String {
    std::fs::read_to_string(sandbox.path("here").join("list.md")).unwrap()
}

#[test]
fn the_list_that_people_keep_is_listed_and_left_alone() {
    let sandbox = with_list(SEED);
    let run =
        exceptions(&sandbox, &["--json"]).ok().says("list.md:16: stackdriver-logging-agent: the row names no base");
    let list: Vec<Value> = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(list.len(), 16);
    assert_eq!((&list[0]["component"], &list[0]["base"]), (&"kube-proxy".into(), &"k8s.gcr.io/debian-iptable".into()));
    assert_eq!(list[6]["base"], "");
    assert!(exceptions(&sandbox, &[]).ok().stdout.contains("Requires libsystemd0"));
    assert!(exceptions(&sandbox, &["--render"]).ok().stdout.contains("| etcd | k8s.gcr.io/debian-base |"));
    assert_eq!(page(&sandbox), SEED);
}

#[test]
fn an_edit_changes_one_line_and_a_bad_one_nothing() {
    let sandbox = with_list(SEED);
    let add = ["--add", "pause", "--base", "k8s.gcr.io/debian-base", "--reason", "Requires a shell"];
    exceptions(&sandbox, &add).ok();
    assert_eq!(page(&sandbox), format!("{SEED}| pause | k8s.gcr.io/debian-base | Requires a shell |\n"));
    exceptions(&sandbox, &add).fails("input").says("has the component already");
    exceptions(&sandbox, &["--remove", "pause"]).ok();
    assert_eq!(page(&sandbox), SEED);
    exceptions(&sandbox, &["--remove", "pause"]).fails("input");
    exceptions(&sandbox, &["--add", "x", "--base", "NOT A NAME", "--reason", "y"]).fails("input");
    exceptions(&sandbox, &[&add[..], &["--batch", "none.yaml"]].concat()).fails("local-io").says("none.yaml");
    exceptions(&sandbox, &[&add[..], &["--report", "html=none/x"]].concat()).fails("usage");
    assert_eq!(page(&sandbox), SEED);
    assert_eq!(exceptions(&sandbox, &["--add", "x"]).code(), Some(2), "a row needs a base and a reason");
}

#[test]
fn a_batch_says_which_components_there_are() {
    let sandbox = with_list("|Component|Base|Reason|\n|-|-|-|\n|etcd|k8s.gcr.io/debian-base|c|\n");
    let batch =
        |sources: &str| std::fs::write(sandbox.path("here").join("b.yaml"), format!("images: [{sources}]")).unwrap();
    batch("{source: 'a.io/etcd-amd64:v3'}, {source: 'a.io/pause:v1', base: 'a.io/static'}");
    let page = exceptions(&sandbox, &["--batch", "b.yaml", "--render"]).ok().stdout;
    assert!(page.contains("| pause | a.io/static:latest |"), "{page}");
    batch("{source: 'a.io/pause:v1'}");
    exceptions(&sandbox, &["--batch", "b.yaml"])
        .refused()
        .says("list.md:3: etcd: no image of the batch is this component");
}

#[test]
fn a_list_that_cannot_be_relied_on_is_refused() {
    let bad = "|Component|Base|Reason|\n|-|-|-|\n|a|b|c|\n|a|b|c|\n|d|e||\n";
    let sandbox = with_list(bad);
    exceptions(&sandbox, &[]).refused().says("list.md:4: a: the component is recorded twice").says("gives no reason");
    exceptions(&with_list("# nothing\n"), &[]).fails("input").says("no table of exceptions");
}

#[test]
fn a_list_with_several_tables_is_edited_in_the_right_one() {
    let sandbox = with_list(SECTIONS);
    let listed = exceptions(&sandbox, &["--json"]).ok().json();
    assert_eq!(listed.as_array().unwrap().len(), 17);
    assert_eq!(listed[1]["base"], "distroless-iptables");
    assert_eq!(listed[1]["section"], "Release: distroless-iptables");
    let add = ["--add", "n", "--base", "debian:12", "--reason", "Requires a shell"];
    exceptions(&sandbox, &add).fails("input").says("such as --section 'Non-release images'");
    exceptions(&sandbox, &[&add[..], &["--section", "Non-release images", "--owner", "@me"]].concat()).ok();
    assert!(page(&sandbox).contains("\n| n | debian:12 | @me |  | Requires a shell |\n\n## Non-org images\n"));
    exceptions(&sandbox, &["--remove", "n"]).ok();
    assert_eq!(page(&sandbox), SECTIONS);
    assert!(exceptions(&sandbox, &["--render"]).ok().stdout.contains("| kube-proxy | distroless-iptables |"));
}

#[test]
fn a_list_is_begun_with_init_and_never_overwritten() {
    let sandbox = Sandbox::new();
    let add = ["--add", "etcd", "--base", "k8s.gcr.io/debian-base", "--reason", "Requires a shell"];
    exceptions(&sandbox, &add).fails("local-io").says("underpin exceptions --init list.md");
    sandbox.underpin(["exceptions", "--init", "list.md"]).run().ok();
    let begun = page(&sandbox);
    exceptions(&sandbox, &add).ok();
    assert_eq!(page(&sandbox), format!("{begun}| etcd | k8s.gcr.io/debian-base | Requires a shell |\n"));
    sandbox.underpin(["exceptions", "--init", "list.md"]).run().fails("usage").says("exists already");
    std::fs::remove_file(sandbox.path("here").join("list.md")).unwrap();
    exceptions(&sandbox, &[&["--init"], &add[..]].concat()).ok();
    assert_eq!(page(&sandbox), format!("{begun}| etcd | k8s.gcr.io/debian-base | Requires a shell |\n"));
}
