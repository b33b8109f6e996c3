//! `underpin elf` on what real compilers make, and on what nobody should trip over.

mod compiled;
mod corpus;
mod strings;

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;

use crate::support::invocation::Sandbox;
use crate::support::programs::{Machine, prints};

/// What `underpin elf --json` says of one file, and the exit code.
fn look(sandbox: &Sandbox, file: &Path) -> (Value, Option<i32>) {
    let run = sandbox.underpin(["elf", "--json"]).arg(file).run();
    assert_eq!(run.stdout.lines().count(), 1, "one object per line\n{run}");
    (run.json(), run.code())
}

#[test]
fn exit_codes_are_those_a_makefile_wants() {
    let sandbox = Sandbox::new();
    let file = |name: &str, bytes: &[u8]| std::fs::write(sandbox.path("here").join(name), bytes).unwrap();
    file("static", &prints(Machine::Amd64, "x"));
    file("arm", &prints(Machine::ArmV7, "x"));
    file("script", b"#!/usr/bin/env -S sh -e\n");
    file("text", b"no program\n");
    file("cut", &prints(Machine::Amd64, "x")[..100]);
    symlink("static", sandbox.path("here").join("link")).unwrap();
    for (files, code) in [
        (&["static"][..], 0),
        (&["static", "arm", "link"], 0),
        (&["static", "script"], 1),
        (&["text"], 1),
        (&["cut"], 1),
        (&["static", "missing"], 2),
        (&["text", "missing", "static"], 2),
    ] {
        let run = sandbox.underpin([&["elf"], files].concat()).run();
        assert_eq!(run.code(), Some(code), "{run}");
    }
    let run = sandbox.underpin(["elf", "static", "arm", "script", "missing", "cut", "/"]).run();
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(
        lines,
        [
            "static  static  amd64",
            "arm     static  arm hard-float",
            "script  script                  interpreter /usr/bin/env",
            "cut     other   amd64           the program headers are outside the file: it is truncated",
        ]
    );
    assert!(run.stderr.contains("missing") && run.stderr.contains("found a directory"), "{run}");
    assert!(sandbox.strays().len() == 6, "nothing is written");
}

#[test]
fn a_program_that_looks_for_marks_of_go_is_not_made_with_go() {
    let sandbox = Sandbox::new();
    let itself = std::path::Path::new(env!("CARGO_BIN_EXE_underpin"));
    assert_eq!(look(&sandbox, itself).0["go"], Value::Null);
}

#[test]
fn only_regular_files_are_opened() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.program("mkfifo", ["fifo"]).run().code(), Some(0));
    for (file, kind) in [("fifo", "input"), ("/dev/zero", "input"), (".", "input"), ("missing", "not-found")] {
        sandbox.underpin(["elf", file]).run().fails(kind);
    }
    assert_eq!(sandbox.underpin(["elf"]).run().code(), Some(2));
}

#[test]
fn every_key_of_the_contract_is_there() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("here").join("arm");
    std::fs::write(&file, prints(Machine::ArmV7, "x")).unwrap();
    let (json, code) = look(&sandbox, &file);
    assert_eq!(code, Some(0));
    let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    let contract = ["path", "linkage", "class", "endian", "machine", "interpreter", "needed", "static", "go"];
    assert!(contract.iter().all(|key| keys.contains(key)), "{keys:?}");
    for (key, value) in [
        ("linkage", Value::from("static")),
        ("class", Value::from(32)),
        ("endian", Value::from("little")),
        ("machine", Value::from("arm")),
        ("float_abi", Value::from("hard")),
        ("interpreter", Value::Null),
        ("needed", Value::Array(Vec::new())),
        ("static", Value::from(true)),
        ("go", Value::Null),
    ] {
        assert_eq!(json[key], value, "{key}");
    }
}

#[test]
fn memory_stays_small_whatever_the_file() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("here").join("huge");
    std::fs::write(&file, prints(Machine::Amd64, "x")).unwrap();
    std::fs::File::options().write(true).open(&file).unwrap().set_len(256 << 20).unwrap();
    let run = sandbox.underpin(["elf"]).arg(&file).run().ok();
    assert!(run.peak < 32 << 10, "{run}");
}
