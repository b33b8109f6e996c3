//! Dynamic programs of real compilers: onto a base with what their loader needs they move and start; onto one without
//! it they are refused, with what is missing and with a fix in the terms of their language.

use serde_json::Value;

use crate::support::debian::of_this_machine;
use crate::support::layouts::{Layouts, findings, upon};
use crate::support::programs::{c, go, rust};
use crate::support::recipe::Recipe;
use crate::support::skip::{Part, need, or_skip};
use crate::support::tar_layer::{Entry, Layer, Pack, file, program};
use crate::support::{fixtures, published};

const C: &str = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { printf(\"C, %s\\n\", getenv(\"MODE\")); }\n";
const CPP: &str = "#include <cstdlib>\n#include <iostream>\nint main() { std::cout << \"C++, \" << std::getenv(\"MODE\") << std::endl; }\n";
const RUST: &str = "fn main() { println!(\"Rust, {}\", std::env::var(\"MODE\").unwrap()); }\n";
const CGO: &str = r#"package main
// #include <stdlib.h>
import "C"
import "os"
func main() { os.Stdout.WriteString("cgo, " + C.GoString(C.getenv(C.CString("MODE"))) + "\n") }
"#;

/// The packages of distroless' `base` and `cc` that programs are loaded with.
const BASE: [&str; 1] = ["libc6:amd64"];
const CC: [&str; 3] = ["libc6:amd64", "libgcc-s1:amd64", "libstdc++6:amd64"];

/// Packages of this machine as distroless unpacks them: `/lib` is a directory there.
fn unpacked(names: &[&str]) -> Part<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    for name in names {
        let files = of_this_machine(name)?.unpacked();
        let is_known = |entry: &Entry| entries.iter().any(|known| known.path() == entry.path());
        let new: Vec<Entry> = files.into_iter().filter(|entry| !is_known(entry) && entry.path() != "lib").collect();
        entries.extend(new);
    }
    Ok(entries)
}

fn with_packages(base: Recipe, names: &[&str]) -> Part<Recipe> {
    let mut base = base;
    base.layers.push(Layer::of(Pack::Gzip, &unpacked(names)?));
    Ok(base)
}

/// A base with a security fix: other bytes, the same libraries.
fn patched(names: &[&str]) -> Part<Recipe> {
    let mut base = with_packages(fixtures::new_base("linux/amd64"), names)?;
    base.layers.push(Layer::of(Pack::Gzip, &[file("etc/os-release", "ID=debian\nVERSION_ID=12.1\n")]));
    Ok(base)
}

/// An application on Debian with everything that it needs, to be moved to `new`.
fn on_debian(bytes: &[u8], new: &Recipe) -> Part<Layouts> {
    let old = with_packages(fixtures::old_base("linux/amd64"), &CC)?;
    let app = upon(&old, [Layer::of(Pack::Gzip, &[program("app", bytes)])], fixtures::app_config());
    Ok(Layouts::new(&app.build(), &old.build(), &new.build()))
}

fn finding(report: &Value) -> [String; 2] {
    ["message", "fix"].map(|key| report["platforms"][0]["findings"][0][key].as_str().unwrap().to_owned())
}

#[test]
fn a_dynamic_program_moves_to_a_patched_base_without_any_allow_and_starts_there() {
    or_skip!(need(&["umoci", "runc", "gcc", "g++", "go", "rustc"]));
    for (bytes, packages, line) in [
        (c("gcc", &[], C), &BASE[..], "C, quiet\n"),
        (c("g++", &["-xc++"], CPP), &CC, "C++, quiet\n"),
        (rust(&[], RUST), &CC, "Rust, quiet\n"),
        (go(CGO, &[("CGO_ENABLED", "1"), ("GOARCH", "amd64")]), &BASE, "cgo, quiet\n"),
    ] {
        let layouts = or_skip!(on_debian(&bytes, &or_skip!(patched(packages))));
        assert_eq!(layouts.start("app"), line, "before");
        let report = layouts.rebase("out").arg("--json").run().ok().json();
        assert_eq!(findings(&report["platforms"][0]), [""; 0], "{line}");
        assert_eq!(report["platforms"][0]["binaries"][0]["linkage"], "dynamic");
        published::layout(&layouts.layout("out"), "v1").unwrap();
        assert_eq!(layouts.start("out"), line, "after");
    }
}

#[test]
fn what_is_missing_is_named_with_who_needs_it_and_a_fix_in_its_language() {
    or_skip!(need(&["gcc", "g++", "go", "rustc"]));
    let (base, none) = (or_skip!(patched(&BASE)), fixtures::new_base("linux/amd64"));
    let loader =
        "/app cannot start: its interpreter /lib64/ld-linux-x86-64.so.2 is not in the rebased image (needed by /app)";
    let library = |name: &str| format!("/app cannot start: {name} is not in the rebased image (needed by /app)");
    let cgo = || go(CGO, &[("CGO_ENABLED", "1"), ("GOARCH", "amd64")]);
    for (bytes, new, message, fix) in [
        (c("gcc", &[], C), &none, loader.to_owned(), "link it with -static-pie, or"),
        (c("g++", &["-xc++"], CPP), &base, library("libstdc++.so.6"), "or choose a --base that has libstdc++.so.6"),
        (rust(&[], RUST), &base, library("libgcc_s.so.1"), "build it with `-C target-feature=+crt-static`"),
        (cgo(), &none, loader.to_owned(), "build it with CGO_ENABLED=0, or"),
    ] {
        let layouts = or_skip!(on_debian(&bytes, new));
        let report = layouts.rebase("out").arg("--json").run().refused().json();
        assert_eq!(findings(&report["platforms"][0]), ["refuse dynamic-binary"]);
        let [said, offered] = finding(&report);
        assert_eq!(said, message);
        assert!(offered.contains(fix), "{offered}");
    }
}

#[test]
fn a_program_of_musl_needs_its_own_loader() {
    or_skip!(need(&["umoci", "runc", "musl-gcc"]));
    let app = c("musl-gcc", &[], C);
    let layouts = or_skip!(on_debian(&app, &or_skip!(patched(&BASE))));
    let [message, _] = finding(&layouts.rebase("out").arg("--json").run().refused().json());
    assert!(message.contains("its interpreter /lib/ld-musl-x86_64.so.1 is not in the rebased image"), "{message}");
    let musl = std::fs::read("/lib/ld-musl-x86_64.so.1").unwrap();
    let mut new = fixtures::new_base("linux/amd64");
    new.layers.push(Layer::of(Pack::Gzip, &[program("lib/ld-musl-x86_64.so.1", musl)]));
    let layouts = or_skip!(on_debian(&app, &new));
    layouts.rebase("out").run().ok();
    assert_eq!(layouts.start("out"), "C, quiet\n");
}

/// Level and message of the finding about the machine, if there is one.
fn machine(report: &Value) -> Option<[String; 2]> {
    let findings = report["platforms"][0]["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["rule"] == "wrong-machine")?;
    Some(["level", "message"].map(|key| found[key].as_str().unwrap().to_owned()))
}

#[test]
fn a_library_that_needs_a_later_processor_than_the_platform_has_is_refused() {
    or_skip!(need(&["musl-gcc"]));
    let library = |flags: &[&str]| {
        let flags = [&["-shared", "-fPIC", "-Wl,-soname,libown.so"], flags].concat();
        c("musl-gcc", &flags, "int own(void) { return 42; }\n")
    };
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("libown.so"), library(&[])).unwrap();
    let at = format!("-L{}", directory.path().display());
    let source = "int own(void);\nint main(void) { return own(); }\n";
    let app = c("musl-gcc", &[&at, "-Wl,--no-as-needed", "-lown"], source);
    let own = |bytes: Vec<u8>| Layer::of(Pack::Gzip, &[file("usr/lib/libown.so", bytes)]);
    let (plain, later) = (library(&[]), library(&["-Wl,-z,x86-64-v3"]));
    let loader = std::fs::read("/lib/ld-musl-x86_64.so.1").unwrap();
    let on = |platform: &str, bytes: &[u8]| {
        let mut base = fixtures::new_base(platform);
        base.layers.push(Layer::of(Pack::Gzip, &[program("lib/ld-musl-x86_64.so.1", loader.clone())]));
        base.layers.push(own(bytes.to_vec()));
        base
    };
    for (platform, before, after, expected) in [
        ("linux/amd64", &plain, &plain, None),
        ("linux/amd64", &plain, &later, Some("refuse")),
        ("linux/amd64", &later, &later, Some("warn")),
        ("linux/amd64/v2", &plain, &later, Some("refuse")),
        ("linux/amd64/v3", &plain, &later, None),
    ] {
        let old = on(platform, before);
        let source = upon(&old, [Layer::of(Pack::Gzip, &[program("app", app.clone())])], fixtures::app_config());
        let new = on(platform, after);
        let layouts = Layouts::new(&source.build(), &old.build(), &new.build());
        let run = layouts.plan().arg("--json").run();
        let run = if expected == Some("refuse") { run.refused() } else { run.ok() };
        let message = format!("/usr/lib/libown.so needs a processor of x86-64-v3, the image is for {platform}");
        assert_eq!(machine(&run.json()), expected.map(|level| [level.to_owned(), message]), "{run}");
    }
}
