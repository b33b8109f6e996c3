//! The machine's own Python, which has Debian's packages: a reader of YAML, XML and JSON Schema that is not ours.

use std::ffi::OsStr;
use std::process::Command;

use super::skip::{Part, missing, or_skip};

const PYTHON: &str = "/usr/bin/python3";

/// Whether the module is installed.
pub fn need_module(module: &str) -> Part<()> {
    run::<&str>(&format!("import {module}"), &[]).map(drop).map_err(|_| missing(&format!("python3-{module}")))
}

/// What the script prints, or what it says when it fails.
pub fn run<A: AsRef<OsStr>>(script: &str, args: &[A]) -> Result<String, String> {
    run_in(&mut Command::new(PYTHON), script, args)
}

fn run_in<A: AsRef<OsStr>>(python: &mut Command, script: &str, args: &[A]) -> Result<String, String> {
    let out = python.arg("-c").arg(script).args(args).output().map_err(|error| error.to_string())?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    if out.status.success() { Ok(text(out.stdout)) } else { Err(text(out.stderr)) }
}

/// Packages of PyPI, which `scripts/test` fetches: other people's readers of SBOMs and of package databases.
const FETCHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/python");

/// Whether the module was fetched.
pub fn need_fetched(module: &str) -> Part<()> {
    let is_there = std::path::Path::new(FETCHED).join(module).is_dir();
    if is_there { Ok(()) } else { Err(missing(&format!("{module} of PyPI"))) }
}

/// As [`run`], with what was fetched.
pub fn run_fetched<A: AsRef<OsStr>>(script: &str, args: &[A]) -> Result<String, String> {
    run_in(Command::new(PYTHON).env("PYTHONPATH", FETCHED), script, args)
}

// The JSON Schema of `docs`, held against what commands print.

const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/report.schema.json");

/// Every object of the schema made strict, so that a key that is not described is found.
const VALIDATE: &str = r##"
import json, sys, jsonschema
schema = json.load(open(sys.argv[1]))
def strict(node):
    if isinstance(node, dict):
        if "properties" in node:
            node["additionalProperties"] = False
        for value in node.values(): strict(value)
    elif isinstance(node, list):
        for value in node: strict(value)
strict(schema)
jsonschema.Draft202012Validator.check_schema(schema)
part = jsonschema.Draft202012Validator({"$ref": "#/$defs/" + sys.argv[2], "$defs": schema["$defs"]})
whole = jsonschema.Draft202012Validator(schema)
text = open(sys.argv[3]).read()
# `elf` has one document a line.
documents = [json.loads(line) for line in text.splitlines()] if sys.argv[2] == "program" else [json.loads(text)]
assert documents
for document in documents:
    # The whole alone would only say that none fits.
    for error in part.iter_errors(document):
        sys.exit(f"{sys.argv[3]}: {list(error.path)}: {error.message[:500]}")
    whole.validate(document)
"##;

/// The text is what the schema says under this name, and with a key more it is not. The test counts
/// as skipped where there is no validator.
pub fn holds(definition: &str, text: &str) {
    or_skip!(need_module("jsonschema"));
    fits(definition, text).unwrap_or_else(|why| panic!("{definition}: {why}\n{text}"));
    if text.contains('{') {
        assert!(fits(definition, &text.replacen('{', "{\"news\":1,", 1)).is_err(), "{definition} refuses nothing");
    }
}

fn fits(definition: &str, text: &str) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("document");
    std::fs::write(&file, text).unwrap();
    run(VALIDATE, &[SCHEMA, definition, file.to_str().unwrap()])
}
