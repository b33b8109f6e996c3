//! `--bring`: what an application needs of its old system, taken along with its libraries. Real packages of Debian, on
//! bases made of the packages that distroless' images are made of, started under runc.

use serde_json::{Value, json};

use crate::support::debian::{Package, by_hand, of_this_machine, system};
use crate::support::fixtures;
use crate::support::invocation::{Invocation, Run};
use crate::support::layouts::{Layouts, findings, upon};
use crate::support::programs::{GoCompiler, Machine, c, go, prints};
use crate::support::python;
use crate::support::recipe::Recipe;
use crate::support::skip::{Part, need, or_skip};
use crate::support::tar_layer::{Entry, Layer, Pack, file, folder, program, symlink};
use crate::support::tools::Container;

const AMD64: &str = "linux/amd64";
/// What the system of the source has beside the tools.
const SYSTEM: [&str; 4] = ["base-files", "netbase", "tzdata", "libc6"];
const FIREWALL: [&str; 9] = [
    "iptables",
    "libip4tc2",
    "libip6tc2",
    "libxtables12",
    "libmnl0",
    "libnftnl11",
    "libnfnetlink0",
    "libnetfilter-conntrack3",
    "conntrack",
];
const SETS: [&str; 2] = ["ipset", "libipset13"];
const SYSTEMD: [&str; 7] =
    ["libsystemd0", "libcap2", "libgcrypt20", "libgpg-error0", "liblzma5", "liblz4-1", "libzstd1"];
/// What distroless' `static` and `base` are made of.
const STATIC: [&str; 3] = ["base-files", "netbase", "tzdata"];
const BASE: [&str; 5] = ["base-files", "netbase", "tzdata", "libc6", "libssl3"];

fn packages(names: &[&str]) -> Part<Vec<Package>> {
    names.iter().map(|name| of_this_machine(name)).collect()
}

/// As distroless has its packages: each in a layer of its own.
fn distroless(names: &[&str]) -> Part<Recipe> {
    let accounts = [file("etc/passwd", "root:x:0:0:root:/root:/sbin/nologin\n"), file("etc/group", "root:x:0:\n")];
    let packages = packages(names)?;
    let layers = packages.iter().map(|package| Layer::of(Pack::Gzip, &package.unpacked()));
    let layers = layers.chain([Layer::of(Pack::Gzip, &accounts)]).collect();
    let config = json!({"Env": [fixtures::PATH], "WorkingDir": "/"});
    Ok(Recipe { config, ..Recipe::new(AMD64, layers) })
}

/// A small Debian with these tools, and the links that their maintainer scripts made.
fn debian(tools: &[&str]) -> Part<Recipe> {
    let names: Vec<&str> = SYSTEM.iter().chain(tools).copied().collect();
    let mut files = system(&packages(&names)?);
    for name in ["iptables", "iptables-save", "iptables-restore"] {
        files.push(symlink(&format!("usr/sbin/{name}"), &format!("/etc/alternatives/{name}")));
        let real = name.replacen("iptables", "iptables-nft", 1);
        files.push(symlink(&format!("etc/alternatives/{name}"), &format!("/usr/sbin/{real}")));
    }
    files.extend([folder("tmp/").mode(0o1777), file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")]);
    files.push(file("etc/group", "root:x:0:\n"));
    Ok(Recipe { config: json!({"Env": [fixtures::PATH]}), ..Recipe::new(AMD64, vec![Layer::of(Pack::Gzip, &files)]) })
}

/// Source, old base and the two new bases, as layouts `app`, `old`, `new` (`base`) and `static`.
fn layouts(tools: &[&str], app: &[Entry]) -> Part<Layouts> {
    let old = debian(tools)?;
    let config = json!({"Env": [fixtures::PATH], "Entrypoint": ["/app"]});
    let source = upon(&old, [Layer::of(Pack::Gzip, app)], config);
    let layouts = Layouts::new(&source.build(), &old.build(), &distroless(&BASE)?.build());
    distroless(&STATIC)?.build().layout(&layouts.layout("static"), "v1");
    Ok(layouts)
}

/// A program in Go that runs a tool.
fn runs(tool: &str) -> Vec<u8> {
    let source = format!(
        "package main\nimport (\"os\"; \"os/exec\")\nfunc main() {{\n\
         c := exec.Command(\"{tool}\", \"--version\")\nc.Stdout = os.Stdout\nc.Stderr = os.Stderr\n\
         if e := c.Run(); e != nil {{ println(e.Error()); os.Exit(1) }} }}\n"
    );
    GoCompiler::usual().build(&source, &[], &[])
}

fn onto(layouts: &Layouts, base: &str, out: &str) -> Invocation {
    let to = format!("oci:{out}:v1");
    let base = format!("oci:{base}:v1");
    layouts
        .underpin(&["rebase", "oci:app:v1", "--old-base", "oci:old:v1", "--no-cache", "--json"])
        .args(["--base", &base, "--to", &to])
}

/// The `--bring NAME` that a refusal offers, and what it says of the cost.
fn offered(run: &Run, rule: &str) -> (String, String) {
    let report = run.json();
    let findings = report["platforms"][0]["findings"].as_array().unwrap().clone();
    let finding = findings.iter().find(|finding| finding["rule"] == rule && finding["level"] == "refuse");
    let fix = finding.unwrap_or_else(|| panic!("nothing of {rule}\n{run}"))["fix"].as_str().unwrap().to_owned();
    let offer = fix.split("--bring ").nth(1).unwrap_or_else(|| panic!("no offer: {fix}"));
    let (name, rest) = offer.split_once(", which adds ").unwrap();
    (name.to_owned(), rest.to_owned())
}

/// Refused, offers this, and moves with it; what it prints then when started.
fn moves_as_offered(layouts: &Layouts, base: &str, rule: &str, name: &str) -> (Value, Container, String) {
    let (offer, cost) = offered(&onto(layouts, base, "out").run().refused(), rule);
    assert_eq!(offer, name);
    let run = onto(layouts, base, "out").args(["--bring", &offer]).run().ok();
    let report = run.json();
    python::holds("report", &run.stdout);
    let brought = report["platforms"][0]["brought"][0].clone();
    let files = format!("{} file", brought["entries"]);
    assert!(cost.contains(&files), "{cost}, and brought {brought}");
    let inputs = ["--source", "oci:app:v1", "--old-base", "oci:old:v1", "--base", &format!("oci:{base}:v1")];
    layouts.underpin(&["verify", "oci:out:v1"]).args(inputs).run().ok().says("verified");
    let container = layouts.container("out");
    let ended = container.start();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    (report, container, ended.stdout)
}

#[test]
fn kube_proxy_moves_with_iptables() {
    or_skip!(need(&["umoci", "runc", "go"]));
    let layouts = or_skip!(layouts(&FIREWALL, &[program("app", runs("iptables"))]));
    let (report, container, said) = moves_as_offered(&layouts, "new", "needs-tool", "iptables");
    assert!(said.starts_with("iptables v1."), "{said}");
    let brought = &report["platforms"][0]["brought"][0];
    assert_eq!((&brought["name"], &brought["kind"]), (&json!("iptables"), &json!("package")));
    let with: Vec<&str> = brought["with"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(with.contains(&"libxtables12") && !with.contains(&"libc6"), "the base has libc6: {with:?}");
    for path in [
        "usr/lib/x86_64-linux-gnu/xtables/libxt_conntrack.so",
        "usr/sbin/iptables",
        "etc/alternatives/iptables",
        "usr/share/doc/iptables/copyright",
        "usr/share/doc/libxtables12/copyright",
        "var/lib/dpkg/status.d/iptables.md5sums",
        "var/lib/dpkg/status.d/libxtables12",
    ] {
        assert!(container.has(path), "{path}");
    }
    let control = container.read("var/lib/dpkg/status.d/iptables");
    assert!(control.starts_with("Package: iptables\n") && !control.contains("Status:"), "{control}");
    assert!(!container.has("var/lib/dpkg/status"), "nothing of the old database");
}

#[test]
fn what_is_brought_comes_with_the_loader_where_the_base_has_none() {
    or_skip!(need(&["umoci", "runc", "go"]));
    let layouts = or_skip!(layouts(&FIREWALL, &[program("app", runs("conntrack"))]));
    let (report, _, said) = moves_as_offered(&layouts, "static", "needs-tool", "conntrack");
    assert!(said.starts_with("conntrack v1."), "{said}");
    let with = report["platforms"][0]["brought"][0]["with"].to_string();
    assert!(with.contains("libc6") && with.contains("libnetfilter-conntrack3"), "{with}");
}

#[test]
fn ip_masq_agent_moves_with_two_tools_and_nothing_comes_twice() {
    or_skip!(need(&["umoci", "runc", "go"]));
    let tools: Vec<&str> = FIREWALL.iter().chain(&SETS).copied().collect();
    let layouts = or_skip!(layouts(&tools, &[program("app", runs("ipset"))]));
    let bring = |out: &str, names: &[&str]| {
        let names = names.iter().flat_map(|name| ["--bring", name]);
        onto(&layouts, "static", out).args(names).run().ok()
    };
    let both = bring("out", &["ipset", "iptables"]);
    let again = bring("again", &["iptables", "ipset", "iptables"]);
    assert_eq!(both.json()["digest"], again.json()["digest"], "in any order, and once");
    let brought = &both.json()["platforms"][0]["brought"];
    assert!(brought[0]["with"].to_string().contains("libmnl0"), "{brought}");
    assert!(!brought[1]["with"].to_string().contains("libmnl0"), "the first brought it: {brought}");
    let container = layouts.container("out");
    for (tool, begins) in [("ipset", "ipset v7."), ("iptables", "iptables v1.")] {
        let ended = container.execute(&[tool.to_owned(), "--version".to_owned()]);
        assert!(ended.stdout.starts_with(begins), "{tool}: {ended:?}");
    }
}

/// Loads the library as go-systemd does.
const LOADS: &str = "#include <dlfcn.h>\n#include <stdio.h>\nint main(void) {\n\
        void *l = dlopen(\"libsystemd.so.0\", RTLD_NOW);\nif (!l) { puts(dlerror()); return 1; }\n\
        puts(dlsym(l, \"sd_journal_open\") ? \"journal\" : \"nothing\"); return 0; }\n";

#[test]
fn node_problem_detector_moves_with_the_library_that_it_loads() {
    or_skip!(need(&["umoci", "runc", "gcc"]));
    let layouts = or_skip!(layouts(&SYSTEMD, &[program("app", c("gcc", &["-ldl"], LOADS))]));
    let (_, _, said) = moves_as_offered(&layouts, "new", "needs-library", "libsystemd0");
    assert_eq!(said, "journal\n");
}

/// As coreos/go-systemd does it: names in a list of Go, given to `dlopen` one after the other.
const GO_LOADS: &str = r#"package main
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include <dlfcn.h>
import "C"
import ("fmt"; "os"; "unsafe")
func handle(names []string) unsafe.Pointer {
	for _, name := range names {
		c := C.CString(name)
		defer C.free(unsafe.Pointer(c))
		if h := C.dlopen(c, C.RTLD_LAZY); h != nil { return h }
	}
	return nil
}
func main() {
	h := handle([]string{"libsystemd.so.0", "libsystemd.so"})
	if h == nil { fmt.Println("unable to open a handle to the library"); os.Exit(1) }
	s := C.CString("sd_journal_open")
	if C.dlsym(h, s) == nil { os.Exit(2) }
	fmt.Println("journal")
}
"#;

#[test]
fn a_go_program_that_loads_a_library_as_go_systemd_does_moves_with_it() {
    or_skip!(need(&["umoci", "runc", "go", "gcc"]));
    let app = go(GO_LOADS, &[("CGO_ENABLED", "1"), ("GOARCH", "amd64")]);
    let layouts = or_skip!(layouts(&SYSTEMD, &[program("app", app)]));
    let (_, _, said) = moves_as_offered(&layouts, "new", "needs-library", "libsystemd0");
    assert_eq!(said, "journal\n");
}

/// A package as apk's database has it.
fn apk(name: &str, files: &[&str]) -> String {
    let files = files.iter().map(|path| {
        let (directory, name) = path.rsplit_once('/').unwrap();
        format!("F:{directory}\nR:{name}\nZ:Q1x\n")
    });
    format!("C:Q1x\nP:{name}\nV:1.0-r0\nA:x86_64\nT:{name}\nL:MIT\n{}\n", files.collect::<String>())
}

#[test]
fn a_package_of_alpine_comes_with_its_loader_and_its_libraries() {
    or_skip!(need(&["umoci", "runc", "go", "musl-gcc"]));
    let directory = tempfile::tempdir().unwrap();
    let library = c("musl-gcc", &["-shared", "-fPIC", "-Wl,-soname,libown.so.1"], "int own(void) { return 7; }\n");
    std::fs::write(directory.path().join("libown.so"), &library).unwrap();
    let source = "#include <stdio.h>\nint own(void);\nint main(void) { printf(\"own %d\\n\", own()); }\n";
    let tool = c("musl-gcc", &[&format!("-L{}", directory.path().display()), "-Wl,--no-as-needed", "-lown"], source);
    let (loader, lib) = ("lib/ld-musl-x86_64.so.1", "usr/lib/libown.so.1");
    let database = [apk("musl", &[loader]), apk("own-libs", &[lib]), apk("own-tool", &["usr/bin/own-tool"])].concat();
    let files = [
        program(loader, std::fs::read(format!("/{loader}")).unwrap()),
        program(lib, library),
        program("usr/bin/own-tool", tool),
        file("lib/apk/db/installed", database),
        file("etc/alpine-release", "3.21.0\n"),
    ];
    let old = crate::support::layouts::old_base(&files);
    let config = json!({"Env": [fixtures::PATH], "Entrypoint": ["/app"]});
    let app = upon(&old, [Layer::of(Pack::Gzip, &[program("app", runs("own-tool"))])], config);
    let layouts = Layouts::on(&old, &app);
    let (report, container, said) = moves_as_offered(&layouts, "new", "needs-tool", "own-tool");
    assert_eq!(said, "own 7\n");
    let brought = &report["platforms"][0]["brought"][0];
    assert_eq!((&brought["kind"], &brought["entries"]), (&json!("package"), &json!(3)), "{brought}");
    let database = container.read("lib/apk/db/installed");
    for name in ["P:musl\n", "P:own-libs\n", "P:own-tool\n"] {
        assert_eq!(database.matches(name).count(), 1, "{name}: {database}");
    }
}

#[test]
fn a_file_that_the_command_names_is_offered_and_comes_along() {
    let config = json!({"Env": [fixtures::PATH], "Entrypoint": ["/app"], "Cmd": ["--rules=/etc/rules"]});
    let files = [symlink("etc/rules", "/usr/share/rules/v1"), file("usr/share/rules/v1", "x\n")];
    let old = crate::support::layouts::old_base(&files);
    let app = upon(&old, [fixtures::app_layer(AMD64, 10)], config);
    let layouts = Layouts::on(&old, &app);
    let (offer, cost) = offered(&onto(&layouts, "new", "out").run().refused(), "needs-file");
    assert_eq!((offer.as_str(), cost.split(',').next()), ("/etc/rules", Some("2 B in 2 files")));
    let report = onto(&layouts, "new", "out").args(["--bring", &offer]).run().ok().json();
    assert_eq!(findings(&report["platforms"][0]), Vec::<String>::new());
    or_skip!(need(&["umoci", "runc"]));
    assert_eq!(layouts.container("out").read("usr/share/rules/v1"), "x\n");
}

/// An application, and a system with one package by hand.
fn by_hand_layouts(files: &[(&str, &str)]) -> Layouts {
    let old = crate::support::layouts::old_base(&by_hand("tool", files).installed());
    let app = program("app", prints(Machine::Amd64, fixtures::LINE));
    let config = json!({"Env": [fixtures::PATH], "Entrypoint": ["/app"]});
    Layouts::on(&old, &upon(&old, [Layer::of(Pack::Gzip, &[app])], config))
}

#[test]
fn a_name_that_nothing_has_is_refused_and_named() {
    let layouts = by_hand_layouts(&[("usr/bin/tool", "x")]);
    let run = onto(&layouts, "new", "out").args(["--bring", "tol", "--bring", "/usr/bin/gone"]).run().refused();
    assert!(run.says("bring-missing").says("tol").stderr.contains("/usr/bin/gone"));
    assert!(!layouts.layout("out").exists(), "a refusal writes nothing");
    layouts.rebase("out").args(["--bring", "usr/bin/x"]).run().fails("usage").says("usr/bin/x");
    onto(&layouts, "new", "out").args(["--bring", "tool"]).run().ok();
}

#[test]
fn nothing_of_the_new_base_is_replaced() {
    let layouts = by_hand_layouts(&[("usr/bin/tool", "x"), ("etc/os-release", "ID=other!\n")]);
    let run = onto(&layouts, "new", "out").args(["--bring", "tool"]).run().refused().says("bring-conflict");
    assert!(run.stderr.contains("/etc/os-release"), "{run}");
    let allowed = ["--bring", "tool", "--allow", "bring-conflict=/etc/os-release"];
    onto(&layouts, "new", "allowed").args(allowed).run().ok();
    onto(&layouts, "new", "kept").args(["--bring", "tool", "--keep", "/etc/os-release"]).run().ok();
    or_skip!(need(&["umoci", "runc"]));
    assert_eq!(layouts.container("allowed").read("etc/os-release"), "ID=newless\n");
    assert_eq!(layouts.container("kept").read("etc/os-release"), "ID=other!\n");
}

#[test]
fn of_a_single_program_the_rest_of_its_package_is_named() {
    let layouts = by_hand_layouts(&[("usr/bin/tool", "x"), ("usr/lib/tool/plugin.so", "y")]);
    let run = onto(&layouts, "new", "out").args(["--bring", "/usr/bin/tool"]).run().ok();
    let report = run.json();
    let notes = report["platforms"][0]["findings"].to_string();
    assert!(notes.contains("1 other file of package tool") && notes.contains("--bring tool"), "{notes}");
    let report = onto(&layouts, "new", "whole").args(["--bring", "tool"]).run().ok().json();
    assert!(!report["platforms"][0]["findings"].to_string().contains("brought-partly"), "{report}");
    assert_eq!(report["platforms"][0]["brought"][0]["entries"], 2);
}
