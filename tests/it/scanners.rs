//! What scanners see of a result: exactly one account of each package that is there, and of no other. Read by two
//! readers that are not ours: dpkg's own, and python-debian with a few lines for apk.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::debian::{Package, of_this_machine, system};
use crate::support::fixtures;
use crate::support::layouts::{Layouts, upon};
use crate::support::programs::{Machine, prints};
use crate::support::python;
use crate::support::recipe::Recipe;
use crate::support::skip::{Part, need, or_skip};
use crate::support::tar_layer::{Entry, Layer, Pack, file, program, symlink, whiteout};
use crate::support::tools::{self, tool};

const AMD64: &str = "linux/amd64";

/// Every account that a root has of a package, once for each; and that at least one of its files is there.
const READER: &str = r#"
import os, sys
from debian.deb822 import Deb822
root = sys.argv[1]
def at(path): return os.path.join(root, path.lstrip("/"))
def listed(path): return [line.rstrip("\n") for line in open(path)] if os.path.exists(path) else []
def is_file(path): return os.path.lexists(at(path)) and (os.path.islink(at(path)) or not os.path.isdir(at(path)))
def say(manager, name, version, files):
    files = [f for f in files if f and f != "/."]
    print(manager, name, version, "gone" if files and not any(os.path.lexists(at(f)) for f in files) else "there")
dpkg = at("var/lib/dpkg")
if os.path.exists(dpkg + "/status"):
    for p in Deb822.iter_paragraphs(open(dpkg + "/status"), use_apt_pkg=False):
        if p.get("Status", "").split()[-1:] == ["installed"]:
            info = [f"{dpkg}/info/{n}.list" for n in (p["Package"], p["Package"] + ":" + p.get("Architecture", ""))]
            say("dpkg", p["Package"], p["Version"], sum(map(listed, info), []))
if os.path.isdir(dpkg + "/status.d"):
    for name in sorted(os.listdir(dpkg + "/status.d")):
        if name.endswith(".md5sums"): continue
        for p in Deb822.iter_paragraphs(open(f"{dpkg}/status.d/{name}"), use_apt_pkg=False):
            sums = [line.split(None, 1)[1] for line in listed(f"{dpkg}/status.d/{name}.md5sums") if " " in line]
            say("dpkg", p["Package"], p["Version"], sums)
seen = set()
for db in ("lib/apk/db/installed", "usr/lib/apk/db/installed"):
    if not os.path.exists(at(db)) or os.path.realpath(at(db)) in seen: continue
    seen.add(os.path.realpath(at(db)))
    for stanza in open(at(db)).read().split("\n\n"):
        fields = [line.split(":", 1) for line in stanza.splitlines() if ":" in line]
        names = [v for k, v in fields if k == "P"]
        if not names: continue
        assert len(names) == 1, stanza
        files, folder = [], ""
        for k, v in fields:
            if k == "F": folder = v
            if k == "R": files.append(folder + "/" + v)
        say("apk", names[0], dict(map(tuple, fields))["V"], files)
for db in ("var/lib/rpm", "usr/lib/sysimage/rpm"):
    if os.path.isdir(at(db)) and os.listdir(at(db)): print("rpm", db, "?", "there")
"#;

/// Name and version of each account; a package that is accounted for twice is there twice.
type Accounts = Vec<(String, String)>;

/// As python-debian reads it.
fn python_accounts(root: &Path) -> Part<Accounts> {
    python::need_fetched("debian")?;
    let text = python::run_fetched(READER, &[root]).unwrap();
    let rows = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mut accounts = Vec::new();
    for row in rows {
        let [_, name, version, there] = row[..] else { panic!("{row:?}") };
        assert_eq!(there, "there", "{name} {version} has no file in the root");
        accounts.push((name.to_owned(), version.to_owned()));
    }
    accounts.sort();
    Ok(accounts)
}

/// As dpkg reads it: its own database, and that of distroless once it is given the form of one.
fn dpkg_accounts(root: &Path, scratch: &Path) -> Accounts {
    let database = root.join("var/lib/dpkg");
    let mut status = std::fs::read_to_string(database.join("status")).unwrap_or_default();
    for entry in database.join("status.d").read_dir().into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "md5sums") {
            let control = std::fs::read_to_string(&path).unwrap();
            status = format!("{}\n\n{}\nStatus: install ok installed\n", status.trim_end(), control.trim_end());
        }
    }
    std::fs::create_dir_all(scratch.join("info")).unwrap();
    std::fs::write(scratch.join("status"), status.trim_start()).unwrap();
    let admin = format!("--admindir={}", scratch.display());
    let out = tool("dpkg-query", &[&admin, "-W", "-f", "${db:Status-Status} ${Package} ${Version}\n"]);
    let text = String::from_utf8(out.stdout).unwrap();
    let row = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        (words.next() == Some("installed".to_owned())).then(|| Some((words.next()?, words.next()?)))?
    };
    let mut accounts: Accounts = text.lines().filter_map(row).collect();
    accounts.sort();
    accounts
}

/// Moves the image, and holds what both readers see, and what the report says, against what must be there.
fn scan(layouts: &Layouts, args: &[&str], expected: &[(&str, &str)]) -> Part<Value> {
    need(&["umoci", "dpkg-query"])?;
    let is_named = args.contains(&"--old-base");
    let rebase = if is_named { layouts.rebase_unnamed("out").arg("--no-cache") } else { layouts.rebase("out") };
    let run = rebase.arg("--json").args(args).run().ok();
    python::holds("report", &run.stdout);
    let bundle = layouts.bundle("out");
    tools::unpack(&layouts.layout("out"), "v1", &bundle);
    let root = bundle.join("rootfs");
    let mut expected: Accounts = expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    expected.sort();
    assert_eq!(python_accounts(&root)?, expected, "python-debian\n{run}");
    if !root.join("lib/apk").exists() && !root.join("usr/lib/apk").exists() {
        assert_eq!(dpkg_accounts(&root, &layouts.sandbox.path("admin")), expected, "dpkg-query\n{run}");
    }
    let report = run.json();
    let packages = &report["platforms"][0]["packages"];
    let mut told = Accounts::new();
    let words =
        |row: &Value, key: &str| (row["name"].as_str().unwrap().to_owned(), row[key].as_str().unwrap().to_owned());
    for (list, key) in [("arrived", "version"), ("stayed", "version"), ("changed", "after")] {
        told.extend(packages[list].as_array().into_iter().flatten().map(|row| words(row, key)));
    }
    told.sort();
    assert_eq!(told, expected, "the report: {packages}");
    Ok(report)
}

fn app() -> Entry {
    program("app", prints(Machine::Amd64, fixtures::LINE))
}

fn config() -> Value {
    json!({"Env": [fixtures::PATH], "Entrypoint": ["/app"]})
}

/// Versions by name of packages of this machine.
fn versions(packages: &[Package]) -> BTreeMap<String, String> {
    packages.iter().map(|package| (package.name.clone(), package.version.clone())).collect()
}

fn packages(names: &[&str]) -> Part<Vec<Package>> {
    names.iter().map(|name| of_this_machine(name)).collect()
}

/// As distroless has its packages: each in a layer of its own.
fn distroless(names: &[&str]) -> Part<Recipe> {
    let layers = packages(names)?.iter().map(|package| Layer::of(Pack::Gzip, &package.unpacked())).collect();
    Ok(Recipe { config: json!({"Env": [fixtures::PATH]}), ..Recipe::new(AMD64, layers) })
}

/// A Debian of these packages in one layer, and what else is in it.
fn debian(names: &[&str], more: &[Entry]) -> Part<Recipe> {
    let mut files = system(&packages(names)?);
    files.extend_from_slice(more);
    Ok(Recipe { config: json!({"Env": [fixtures::PATH]}), ..Recipe::new(AMD64, vec![Layer::of(Pack::Gzip, &files)]) })
}

fn on(old: &Recipe, own: impl IntoIterator<Item = Layer>, new: &Recipe) -> Layouts {
    Layouts::new(&upon(old, own, config()).build(), &old.build(), &new.build())
}

fn rows(of: &BTreeMap<String, String>) -> Vec<(&str, &str)> {
    of.iter().map(|(name, version)| (name.as_str(), version.as_str())).collect()
}

/// The layer of an `apt-get install`, which writes the whole status again.
fn installation(of: &[&str], new: &Package) -> Part<Layer> {
    let all = system(&packages(of)?);
    let status = all.into_iter().find(|entry| entry.path() == "var/lib/dpkg/status").unwrap();
    let own = new.installed().into_iter().filter(|entry| entry.path() != "var/lib/dpkg/status");
    Ok(Layer::of(Pack::Gzip, &own.chain([status, app()]).collect::<Vec<_>>()))
}

const SYSTEM: [&str; 3] = ["base-files", "netbase", "tzdata"];
const STATIC: [&str; 2] = ["netbase", "tzdata"];

#[test]
fn an_installation_leaves_no_account_on_a_distroless_base() {
    let old = or_skip!(debian(&SYSTEM, &[]));
    let conntrack = or_skip!(of_this_machine("libmnl0"));
    let layer = or_skip!(installation(&["base-files", "netbase", "tzdata", "libmnl0"], &conntrack));
    let layouts = on(&old, [layer], &or_skip!(distroless(&STATIC)));
    let there = versions(&or_skip!(packages(&STATIC)));
    let report = or_skip!(scan(&layouts, &[], &rows(&there)));
    let left: Vec<&str> = report["platforms"][0]["packages"]["left"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["name"].as_str().unwrap())
        .collect();
    assert_eq!(left, ["base-files", "libmnl0"]);
}

#[test]
fn an_installation_leaves_the_account_of_a_debian_base_as_it_is() {
    let old = or_skip!(debian(&SYSTEM, &[]));
    let new = or_skip!(debian(&["base-files", "tzdata"], &[]));
    let libmnl0 = or_skip!(of_this_machine("libmnl0"));
    let layer = or_skip!(installation(&["base-files", "netbase", "tzdata", "libmnl0"], &libmnl0));
    let layouts = on(&old, [layer], &new);
    or_skip!(scan(&layouts, &[], &rows(&versions(&or_skip!(packages(&["base-files", "tzdata"]))))));
}

#[test]
fn what_is_extracted_brings_no_account() {
    let old = or_skip!(debian(&SYSTEM, &[app()]));
    let layouts = on(&old, [], &or_skip!(distroless(&STATIC)));
    let there = versions(&or_skip!(packages(&STATIC)));
    or_skip!(scan(&layouts, &["--extract", "--old-base", "scratch"], &rows(&there)));
}

#[test]
fn what_is_brought_is_accounted_for_once_on_either_base() {
    let old = or_skip!(debian(&["base-files", "netbase", "tzdata", "libmnl0", "libnfnetlink0"], &[]));
    let bring = ["--bring", "libmnl0", "--bring", "libnfnetlink0", "--bring", "netbase", "--bring", "libmnl0"];
    let bring = [&bring[..], &["--allow", "bring-conflict"]].concat();
    for new in [or_skip!(distroless(&STATIC)), or_skip!(debian(&STATIC, &[]))] {
        let layouts = on(&old, [Layer::of(Pack::Gzip, &[app()])], &new);
        let mut there = versions(&or_skip!(packages(&STATIC)));
        there.extend(versions(&or_skip!(packages(&["libmnl0", "libnfnetlink0"]))));
        // They need libc6, which comes along.
        let found = layouts.rebase("look").arg("--json").args(&bring).run().ok().json();
        for with in
            found["platforms"][0]["brought"].as_array().unwrap().iter().flat_map(|b| b["with"].as_array().unwrap())
        {
            let name = with.as_str().unwrap();
            there.extend(versions(&or_skip!(packages(&[name]))));
        }
        or_skip!(scan(&layouts, &bring, &rows(&there)));
    }
}

#[test]
fn a_database_that_the_image_removed_does_not_hide_that_of_the_new_base() {
    let old = or_skip!(debian(&SYSTEM, &[]));
    for markers in [
        vec![whiteout("var/lib/dpkg")],
        vec![whiteout("var/lib/dpkg/status"), whiteout("var/lib/dpkg/info"), whiteout("var/lib/dpkg/status.d")],
        vec![file("var/lib/dpkg/.wh..wh..opq", "")],
    ] {
        let own = [Layer::of(Pack::Gzip, &[app()]), Layer::of(Pack::Gzip, &markers)];
        for new in [or_skip!(distroless(&STATIC)), or_skip!(debian(&STATIC, &[]))] {
            let there = versions(&or_skip!(packages(&STATIC)));
            or_skip!(scan(&on(&old, own.clone(), &new), &[], &rows(&there)));
        }
    }
}

/// As apk leaves it.
fn alpine(packages: &[(&str, &str)], is_merged: bool) -> Vec<Entry> {
    let stanza = |(name, version): &(&str, &str)| {
        format!("C:Q1=\nP:{name}\nV:{version}\nA:x86_64\nL:MIT\nt:1000\nF:usr/bin\nR:{name}\na:0:0:755\n\n")
    };
    let database: String = packages.iter().map(stanza).collect();
    let path = if is_merged { "usr/lib/apk/db/installed" } else { "lib/apk/db/installed" };
    let files = packages.iter().map(|(name, version)| program(&format!("usr/bin/{name}"), *version).at(1000));
    let link = is_merged.then(|| symlink("lib", "usr/lib"));
    files.chain([file(path, database).at(1000)]).chain(link).collect()
}

#[test]
fn an_alpine_image_has_the_accounts_of_its_new_base() {
    let recipe = |packages: &[(&str, &str)], merged: bool| {
        Recipe::new(AMD64, vec![Layer::of(Pack::Gzip, &alpine(packages, merged))])
    };
    let old = recipe(&[("busybox", "1.36-r1"), ("tool", "1-r0")], false);
    let mut own = alpine(&[("busybox", "1.36-r1"), ("tool", "1-r0"), ("added", "2-r0")], false);
    own.retain(|entry| ["usr/bin/added", "lib/apk/db/installed"].contains(&entry.path()));
    own.push(app());
    for merged in [false, true] {
        let new = recipe(&[("busybox", "1.37-r0")], merged);
        let layouts = on(&old, [Layer::of(Pack::Gzip, &own)], &new);
        let report = or_skip!(scan(&layouts, &[], &[("busybox", "1.37-r0")]));
        let packages = &report["platforms"][0]["packages"];
        assert_eq!(
            packages["changed"],
            json!([{"name": "busybox", "before": "1.36-r1", "after": "1.37-r0", "manager": "apk"}])
        );
        let with_tool = [("busybox", "1.37-r0"), ("tool", "1-r0")];
        or_skip!(scan(&on(&old, [Layer::of(Pack::Gzip, &own)], &new), &["--bring", "tool"], &with_tool));
    }
}

#[test]
fn packages_of_apk_come_to_a_base_of_debian_and_to_one_without_any() {
    let old = Recipe::new(AMD64, vec![Layer::of(Pack::Gzip, &alpine(&[("busybox", "1"), ("tool", "1-r0")], false))]);
    let tool = ("tool", "1-r0");
    let app = || [Layer::of(Pack::Gzip, &[app()])];
    or_skip!(scan(&on(&old, app(), &fixtures::new_base(AMD64)), &["--bring", "tool"], &[tool]));
    let new = or_skip!(distroless(&["netbase"]));
    let netbase = or_skip!(of_this_machine("netbase"));
    or_skip!(scan(&on(&old, app(), &new), &["--bring", "tool"], &[tool, ("netbase", &netbase.version)]));
}

#[test]
fn a_database_without_a_last_empty_line_gets_no_package_into_another() {
    let old = Recipe::new(AMD64, vec![Layer::of(Pack::Gzip, &alpine(&[("tool", "1-r0")], false))]);
    let cut =
        [file("lib/apk/db/installed", "P:busybox\nV:1.37-r0\nF:usr/bin\nR:busybox\n"), program("usr/bin/busybox", "x")];
    let new = Recipe::new(AMD64, vec![Layer::of(Pack::Gzip, &cut)]);
    let layouts = on(&old, [Layer::of(Pack::Gzip, &[app()])], &new);
    or_skip!(scan(&layouts, &["--bring", "tool"], &[("busybox", "1.37-r0"), ("tool", "1-r0")]));
}

#[test]
fn another_version_of_a_package_that_the_new_base_has_is_a_conflict() {
    let image = |version: &str| Recipe::new(AMD64, vec![Layer::of(Pack::Gzip, &alpine(&[("tool", version)], false))]);
    let other = [file("lib/apk/db/installed", "P:tool\nV:2-r0\nF:usr/bin\nR:tool2\n\n"), program("usr/bin/tool2", "x")];
    let new = Recipe::new(AMD64, vec![Layer::of(Pack::Gzip, &other)]);
    let layouts = on(&image("1-r0"), [Layer::of(Pack::Gzip, &[app()])], &new);
    layouts.rebase("out").args(["--bring", "tool"]).run().refused().says("bring-conflict").says("version 2-r0");
}
