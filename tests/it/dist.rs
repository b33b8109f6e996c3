//! What is given to people: the static binary of `scripts/release`, the packages that `scripts/package` makes of it, and
//! the image that `scripts/image` makes.
//!
//! `scripts/check` builds the binary before the tests. That two builds give the same bytes is shown by
//! `scripts/release --twice`, which takes twice as long as a build.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::invocation::Sandbox;
use crate::support::programs::{Machine, prints, script_program};
use crate::support::skip::{Part, missing, need, or_skip};
use crate::support::{fixtures, published, python, tools};

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
    let maker = script_program("program-image");
    let image = |to: &str| {
        let to = format!("oci:{}:underpin", sandbox.path(to).display());
        let script = sandbox.program(clone().join("scripts/image").to_str().unwrap(), [&base, &to]);
        let script = script.env("PROGRAM_IMAGE", &maker).env("UNDERPIN_STATIC", &program);
        script.env("UNDERPIN_STATIC_ARM64", "none").run().ok().digest()
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

/// Two programs that need no release to be built: this one packs, and a small one stands for the other machine's.
fn packed(sandbox: &Sandbox, into: &str, key: Option<&Path>) -> PathBuf {
    let small = sandbox.path("small");
    if !small.exists() {
        // What packing asks of the binary of this machine, without its hundred megabytes of debugging information.
        let script = format!("#!/bin/sh\nexec {} \"$@\"\n", crate::support::invocation::binary());
        std::fs::write(&small, script).unwrap();
        tools::tool("chmod", &["755", small.to_str().unwrap()]);
        std::fs::write(sandbox.path("arm64"), prints(Machine::of("linux/arm64"), "arm64\n")).unwrap();
    }
    let (out, own) = (sandbox.path(into), format!("amd64={}", small.display()));
    let other = format!("arm64={}", sandbox.path("arm64").display());
    let script = clone().join("scripts/package");
    let run = sandbox.program(script.to_str().unwrap(), [out.to_str().unwrap(), &own, &other]);
    let run = run.env("HOME", std::env::var_os("HOME").unwrap_or_default()).env("SOURCE_DATE_EPOCH", "1700000000");
    let run = key.into_iter().fold(run, |run, key| run.env("SIGN_KEY", key));
    run.run().ok();
    out
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn packages_are_the_same_every_time_and_hold_what_people_expect() {
    or_skip!(need(&["dpkg-deb", "jq", "openssl", "cargo"]));
    let sandbox = Sandbox::new();
    let version = env!("CARGO_PKG_VERSION");
    let out = packed(&sandbox, "one", None);
    let expected = [
        "SHA256SUMS".to_owned(),
        format!("underpin-{version}-linux-amd64.tar.gz"),
        format!("underpin-{version}-linux-arm64.tar.gz"),
        format!("underpin-{version}.cdx.json"),
        format!("underpin_{version}_amd64.deb"),
        format!("underpin_{version}_arm64.deb"),
    ];
    assert_eq!(names(&out), expected);
    sandbox.program("sha256sum", ["--check", "--quiet", "SHA256SUMS"]).current_dir(&out).run().ok();
    let again = packed(&sandbox, "two", None);
    assert_eq!(std::fs::read(out.join("SHA256SUMS")).unwrap(), std::fs::read(again.join("SHA256SUMS")).unwrap());

    // The archive: unpacked, and started from there.
    let archive = format!("underpin-{version}-linux-amd64");
    sandbox.program("tar", ["-xzf", out.join(&expected[1]).to_str().unwrap()]).run().ok();
    let root = sandbox.path("here").join(&archive);
    let said = sandbox.program(root.join("underpin").to_str().unwrap(), ["--version"]).run().ok().stdout;
    assert!(said.starts_with(&format!("underpin {version} (commit ")) && said.ends_with(", format 2)\n"), "{said}");
    for file in
        ["LICENSE", "README.md", "completions/underpin.bash", "completions/_underpin", "man/man1/underpin-rebase.1"]
    {
        assert!(root.join(file).metadata().unwrap().len() > 200, "{file}");
    }

    // As the README has people install it.
    let readme = std::fs::read_to_string(clone().join("README.md")).unwrap();
    let headings: Vec<&str> = readme.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(headings[1], "## Install");
    assert!(readme.lines().count() <= 150);
    let commands = readme.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    sandbox.program("bash", ["-euc", commands]).current_dir(&out).run().ok();
    let installed = sandbox.path("home/.local/bin/underpin");
    sandbox.program(installed.to_str().unwrap(), ["--version"]).run().ok();

    // The Debian package, as dpkg sees it.
    let deb = out.join(&expected[4]);
    let field = |name: &str| sandbox.program("dpkg-deb", ["--field", deb.to_str().unwrap(), name]).run().ok().stdout;
    assert_eq!((field("Package").trim(), field("Architecture").trim()), ("underpin", "amd64"));
    assert_eq!(field("Depends").trim(), "", "a static program needs nothing");
    sandbox.program("dpkg-deb", ["-x", deb.to_str().unwrap(), "root"]).run().ok();
    let installed = sandbox.path("here").join("root/usr");
    for file in [
        "bin/underpin",
        "share/man/man1/underpin.1.gz",
        "share/bash-completion/completions/underpin",
        "share/doc/underpin/copyright",
    ] {
        assert!(installed.join(file).is_file(), "{file}");
    }
}

#[test]
fn checksums_are_signed_so_that_openssl_and_cosign_agree() {
    or_skip!(need(&["dpkg-deb", "jq", "openssl", "cargo"]));
    let cosign = or_skip!(tools::newer("trixie/cosign", "cosign"));
    let sandbox = Sandbox::new();
    let key = sandbox.path("key.pem");
    let public = sandbox.path("key.pub");
    let openssl = |args: &[&str]| sandbox.program("openssl", args).run();
    let [key_text, public_text] = [&key, &public].map(|path| path.to_str().unwrap());
    openssl(&["genpkey", "-algorithm", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key_text]).ok();
    openssl(&["pkey", "-in", key_text, "-pubout", "-out", public_text]).ok();
    let out = packed(&sandbox, "signed", Some(&key));
    let sums = out.join("SHA256SUMS");
    let [sums_text, signature] = [&sums, &out.join("SHA256SUMS.sig")].map(|path| path.to_str().unwrap().to_owned());
    let words = ["verify-blob", "--key", public_text, "--insecure-ignore-tlog", "--signature", &signature, &sums_text];
    let verify = || sandbox.program(cosign.to_str().unwrap(), words).run();
    verify().ok();
    let der = sandbox.path("der");
    let script = format!("base64 -d {signature} >{}", der.display());
    sandbox.program("sh", ["-c", &script]).run().ok();
    openssl(&["dgst", "-sha256", "-verify", public_text, "-signature", der.to_str().unwrap(), &sums_text]).ok();
    // Another list is not what was signed.
    std::fs::write(&sums, "0000  underpin\n").unwrap();
    assert_ne!(verify().code(), Some(0));
}

#[test]
fn the_sbom_of_a_release_names_every_crate_that_is_locked_and_is_valid() {
    or_skip!(need(&["dpkg-deb", "jq", "cargo"]));
    or_skip!(python::need_fetched("cyclonedx"));
    let sandbox = Sandbox::new();
    let out = packed(&sandbox, "sbom", None);
    let file = out.join(format!("underpin-{}.cdx.json", env!("CARGO_PKG_VERSION")));
    let script = "import sys\nfrom cyclonedx.schema import SchemaVersion\nfrom cyclonedx.validation.json import JsonStrictValidator\n\
        error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(open(sys.argv[1]).read())\nassert error is None, error";
    python::run_fetched(script, &[&file]).unwrap();
    let sbom: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let lock = std::fs::read_to_string(clone().join("Cargo.lock")).unwrap();
    let components = sbom["components"].as_array().unwrap();
    for crate_name in ["serde_json", "rustls", "zstd", "clap"] {
        assert!(components.iter().any(|component| component["name"] == crate_name), "{crate_name}");
    }
    for component in components {
        let sum = component["hashes"][0]["content"].as_str().unwrap();
        assert!(lock.contains(&format!("checksum = \"{sum}\"")), "{component}");
    }
}

/// Both platforms, each with its own binary, as one index.
#[test]
fn the_image_of_two_binaries_is_one_index() {
    or_skip!(need(&["skopeo"]));
    let sandbox = Sandbox::new();
    let base = format!("oci:{}:static", sandbox.path("base").display());
    let both = ["linux/amd64", "linux/arm64"].map(|platform| (platform, fixtures::new_base(platform).build()));
    crate::support::recipe::index(crate::support::recipe::Dialect::Oci, &both).layout(&sandbox.path("base"), "static");
    let maker = script_program("program-image");
    let layout = format!("oci:{}:underpin", sandbox.path("layout").display());
    // Small programs stand for the released ones.
    let programs = ["linux/amd64", "linux/arm64"].map(|platform| {
        let file = sandbox.path(&platform.replace('/', "-"));
        std::fs::write(&file, prints(Machine::of(platform), "x\n")).unwrap();
        format!("{platform}={}", file.display())
    });
    sandbox.program(maker.to_str().unwrap(), [&layout, &programs[0], &programs[1]]).run().ok();
    let out = format!("oci:{}:underpin", sandbox.path("out").display());
    sandbox.underpin(["rebase", "-q", &layout, "--old-base", "scratch", "--base", &base, "--to", &out]).run().ok();
    let raw = tools::tool("skopeo", &["inspect", "--raw", &out]).stdout;
    let index: Value = serde_json::from_slice(&raw).unwrap();
    let machines: Vec<&Value> =
        index["manifests"].as_array().unwrap().iter().map(|one| &one["platform"]["architecture"]).collect();
    assert_eq!(machines, ["amd64", "arm64"]);
}

/// As people have it who download a crate: no clone around it, and nothing in it that they do not need.
#[test]
fn the_crate_is_small_and_has_what_a_build_needs() {
    or_skip!(need(&["cargo"]));
    let mut cargo = std::process::Command::new("cargo");
    let out = cargo.args(["package", "--list", "--allow-dirty", "--offline"]).current_dir(clone()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let listed = String::from_utf8(out.stdout).unwrap();
    for needed in ["build.rs", "Cargo.lock", "src/lib.rs", "README.md", "LICENSE", "src/batch/schema.json"] {
        assert!(listed.lines().any(|line| line == needed), "{needed} is missing\n{listed}");
    }
    for other in ["tests/", "testdata/", ".github/", ".ci/", "fuzz/", "proptest-regressions/"] {
        assert!(!listed.lines().any(|line| line.starts_with(other)), "{other} is in it");
    }
}
