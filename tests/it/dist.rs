//! What is given to people: the static binary of `scripts/release`, and the image of it that `scripts/image` makes.
//!
//! `scripts/test` builds the binary before the tests. That two builds give the same bytes is shown by
//! `scripts/release --twice`, which takes twice as long as a build.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::invocation::Sandbox;
use crate::support::skip::{Part, missing, need, or_skip};
use crate::support::{fixtures, published, tools};

fn clone() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The binary, where it was built.
fn released() -> Part<PathBuf> {
    let program = clone().join("target/dist/underpin");
    if program.exists() {
        return Ok(program);
    }
    Err(missing("the binary of scripts/release"))
}

#[test]
fn the_binary_is_static_and_names_nothing_of_the_machine_that_built_it() {
    let program = or_skip!(released());
    let sandbox = Sandbox::new();
    let told = sandbox.underpin(["elf", "--json", program.to_str().unwrap()]).run().ok().json();
    assert_eq!((told["static"].as_bool(), told["needed"].as_array().map(Vec::len)), (Some(true), Some(0)), "{told}");
    let bytes = std::fs::read(&program).unwrap();
    let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("/cargo/registry/src"), "messages still say where in the code they come from");
    for path in [clone().to_str().unwrap(), "/.cargo/registry", "/.rustup/toolchains"] {
        assert!(!has(path), "{path}");
    }
    let sums = sandbox.program("sha256sum", ["--check", "--quiet", "SHA256SUMS"]);
    sums.current_dir(program.parent().unwrap()).run().ok();
}

#[test]
fn the_image_of_underpin_starts_and_is_the_same_every_time() {
    let program = or_skip!(released());
    or_skip!(need(&["umoci", "runc"]));
    let sandbox = Sandbox::new();
    // Named alike in both runs: names are part of the digest.
    let base = format!("oci:{}:static", sandbox.path("base").display());
    fixtures::new_base("linux/amd64").build().layout(&sandbox.path("base"), "static");
    let maker = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples/program-image");
    let image = |to: &str| {
        let to = format!("oci:{}:underpin", sandbox.path(to).display());
        let script = sandbox.program(clone().join("scripts/image").to_str().unwrap(), [&base, &to]);
        script.env("PROGRAM_IMAGE", &maker).env("UNDERPIN_STATIC", &program).run().ok().digest()
    };
    assert_eq!(image("one"), image("two"));
    let published = published::layout(&sandbox.path("one"), "underpin").unwrap();
    assert_eq!(published.only().layers[..2], fixtures::new_base("linux/amd64").build().layers());

    let bundle = sandbox.path("bundle");
    tools::unpack(&sandbox.path("one"), "underpin", &bundle);
    let mut config: Value = serde_json::from_slice(&std::fs::read(bundle.join("config.json")).unwrap()).unwrap();
    config["process"]["args"].as_array_mut().unwrap().push("--version".into());
    std::fs::write(bundle.join("config.json"), config.to_string()).unwrap();
    assert!(tools::run(&bundle).starts_with(&format!("underpin {} (commit ", env!("CARGO_PKG_VERSION"))));
}
