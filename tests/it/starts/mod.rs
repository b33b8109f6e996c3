//! The point of it all: what was rebased still starts.

mod machines;
mod programs;
mod users;

use serde_json::json;

use crate::support::docker_registry::Registry;
use crate::support::invocation::Sandbox;
use crate::support::recipe::Recipe;
use crate::support::skip::{need, or_skip};
use crate::support::tar_layer::{Layer, Pack, program};
use crate::support::{fixtures, tools};

/// Rebases `app` between layouts and starts the result.
fn rebased_and_started(app: &Recipe) -> String {
    let sandbox = Sandbox::new();
    app.build().layout(&sandbox.path("app"), "v1");
    fixtures::old_base("linux/amd64").build().layout(&sandbox.path("old"), "v1");
    fixtures::new_base("linux/amd64").build().layout(&sandbox.path("new"), "v1");
    let at = |name: &str| format!("oci:{}:v1", sandbox.path(name).display());
    let args = ["rebase", &at("app"), "--base", &at("new"), "--old-base", &at("old"), "--to", &at("out"), "--no-cache"];
    sandbox.underpin(args).run().ok();
    tools::start(&sandbox.path("out"), "v1", &sandbox.path("bundle"))
}

#[test]
fn a_static_program_starts_on_the_new_base() {
    or_skip!(need(&["umoci", "runc"]));
    assert_eq!(rebased_and_started(&fixtures::app("linux/amd64", 1000)), fixtures::LINE);
}

#[test]
fn a_go_program_starts_on_the_new_base_and_sees_its_files() {
    or_skip!(need(&["umoci", "runc", "go"]));
    let source = r#"package main
import ("fmt"; "io/ioutil"; "os")
func main() { release, _ := ioutil.ReadFile("/etc/os-release"); fmt.Print(os.Args[1:], os.Getenv("MODE"), string(release)) }
"#;
    let mut app = fixtures::app("linux/amd64", 1000);
    app.layers[2] = Layer::of(Pack::Gzip, &[program("app", crate::support::programs::go(source, &[]))]);
    app.config["Cmd"] = json!(["--one", "two"]);
    assert_eq!(rebased_and_started(&app), "[--one two]quietID=newless\n");
}

#[test]
fn an_image_from_a_registry_starts_as_others_pull_it() {
    or_skip!(need(&["umoci", "runc", "skopeo"]));
    let registry = or_skip!(Registry::plain());
    let sandbox = Sandbox::new();
    crate::support::token_server::push_fixtures(registry.host());
    let to = format!("{}/out/app:v1", registry.host());
    crate::support::token_server::rebase_at(&sandbox, registry.host(), &to).run().ok();
    tools::skopeo_to_layout(&format!("docker://{to}"), &sandbox.path("pulled"), "v1");
    assert_eq!(tools::start(&sandbox.path("pulled"), "v1", &sandbox.path("bundle")), fixtures::LINE);
}
