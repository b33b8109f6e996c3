//! Images that start through a shell, moved to a base that has none: what ran before still runs,
//! and what went to a file is still there. Real programs, real shells, a real runtime.

mod klog;
mod places;
pub mod programs;
mod refusals;
mod runner;
mod scripts;

use serde_json::{Value, json};

use crate::support::fixtures;
use crate::support::layouts::{Layouts, old_base, upon};
use crate::support::programs::libraries;
use crate::support::recipe::Recipe;
use crate::support::skip::find;
use crate::support::tar_layer::{Entry, Layer, Pack, folder, program, symlink};

/// The old base has no accounts, so HOME was `/`; the new base has some, and the programs name the variable.
const HOME: &str = "warn env-lost";

pub const LOG: &str = "/var/log/app.log";

/// A program of this machine.
fn of_this_machine(name: &str) -> Vec<u8> {
    std::fs::read(find(name).unwrap()).unwrap()
}

/// An old base with this machine's dash as `sh`, bash, busybox and its `tee`, and `/var/log`.
fn shells(more: &[Entry]) -> Recipe {
    let bash = of_this_machine("bash");
    let mut files = libraries(&bash);
    files.extend([
        program("bin/sh", of_this_machine("dash")),
        program("bin/bash", bash),
        program("bin/busybox", of_this_machine("busybox")),
        symlink("usr/bin/tee", "/bin/busybox"),
        folder("var/"),
        folder("var/log/"),
    ]);
    files.extend(more.iter().cloned());
    old_base(&files)
}

/// `config` with a `PATH`, on an old base with shells, its own layer of these files.
fn shelled(files: &[Entry], config: &Value) -> Layouts {
    laid_out(&shells(&[]), files, config)
}

fn laid_out(old: &Recipe, files: &[Entry], config: &Value) -> Layouts {
    Layouts::on(old, &application(old, files, config))
}

fn application(old: &Recipe, files: &[Entry], config: &Value) -> Recipe {
    let mut config = config.clone();
    if config["Env"].is_null() {
        config["Env"] = json!([fixtures::PATH]);
    }
    upon(old, [Layer::of(Pack::Gzip, files)], config)
}

/// The findings of the first platform that this rule made.
fn of_rule<'a>(report: &'a Value, rule: &str) -> Vec<&'a Value> {
    let findings = report["platforms"][0]["findings"].as_array().unwrap().iter();
    findings.filter(|finding| finding["rule"] == rule).collect()
}

fn text<'a>(finding: &'a Value, key: &str) -> &'a str {
    finding[key].as_str().unwrap()
}

/// A text report has a mark that stands under this construct.
fn marks(report: &str, construct: &str) {
    let lines: Vec<&str> = report.lines().collect();
    let at = lines.iter().position(|line| line.trim_start().starts_with('^'));
    let at = at.unwrap_or_else(|| panic!("no mark\n{report}"));
    let marked = lines[at - 1].get(lines[at].find('^').unwrap()..);
    assert!(marked.is_some_and(|rest| rest.starts_with(construct)), "not under {construct}\n{report}");
}
