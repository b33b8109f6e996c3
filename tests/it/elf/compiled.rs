//! What gcc, musl and Go make of a small program, looked at and compared with what was asked for.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::look;
use crate::support::invocation::Sandbox;
use crate::support::programs::GoCompiler;
use crate::support::skip::{need, need_go_package, or_skip};
use crate::support::sweep;

pub(super) fn sandbox_with(name: &str, source: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("here").join(name), source).unwrap();
    sandbox
}

#[test]
fn c_programs_are_what_the_compiler_was_told_to_make() {
    or_skip!(need(&["gcc", "musl-gcc"]));
    let sandbox = sandbox_with(
        "main.c",
        "#include <math.h>\n#include <stdio.h>\nint main(int n, char **a) { puts(*a); return (int) cos(n); }\n",
    );
    for (compiler, flags, linkage, needs) in [
        ("gcc", &["-no-pie", "-lm"][..], "dynamic", &["libm.so.6", "libc.so.6"][..]),
        ("gcc", &["-pie", "-lm"], "dynamic", &["libm.so.6", "libc.so.6"]),
        ("gcc", &["-static", "-lm"], "static", &[]),
        ("gcc", &["-static-pie", "-lm"], "static-pie", &[]),
        ("gcc", &["-shared", "-fPIC", "-lm"], "shared-object", &["libm.so.6", "libc.so.6"]),
        ("gcc", &["-shared", "-fPIC", "-Wl,-soname,libx.so.1", "-nostdlib"], "shared-object", &[]),
        ("gcc", &["-c"], "other", &[]),
        ("musl-gcc", &["-static"], "static", &[]),
        ("musl-gcc", &[], "dynamic", &["libc.so"]),
    ] {
        let out = sandbox.path("here").join("out");
        sandbox.program(compiler, ["main.c", "-o", "out"]).args(flags).run().ok();
        let (json, code) = look(&sandbox, &out);
        assert_eq!(json["linkage"], linkage, "{compiler} {flags:?} {json}");
        assert_eq!(json["needed"], json!(needs), "{compiler} {flags:?}");
        assert_eq!(json["interpreter"].is_string(), linkage == "dynamic", "{compiler} {flags:?} {json}");
        assert_eq!(code, Some(i32::from(!linkage.starts_with("static"))), "{compiler} {flags:?}");
        assert_eq!(json["go"], Value::Null);
    }
}

pub(super) struct Go {
    pub sandbox: Sandbox,
}

impl Go {
    pub fn new(source: &str) -> Self {
        Self { sandbox: sandbox_with("main.go", source) }
    }

    /// Builds without cgo.
    pub fn build(&self, settings: &[(&str, &str)], flags: &[&str]) -> PathBuf {
        let go = GoCompiler::usual().command(&self.sandbox, &[&["build", "-o", "out"], flags].concat());
        settings.iter().fold(go, |go, (name, value)| go.env(name, value)).run().ok();
        self.sandbox.path("here").join("out")
    }
}

const HELLO: &str = "package main\nfunc main() { println(\"hello\") }\n";
pub(super) const OUTSIDE_OF_MODULES: (&str, &str) = ("GO111MODULE", "off");

#[test]
fn go_programs_of_every_machine_are_static() {
    or_skip!(need(&["go"]));
    let go = Go::new(HELLO);
    let machines = vec![
        ("amd64", 64, "little"),
        ("arm64", 64, "little"),
        ("s390x", 64, "big"),
        ("arm", 32, "little"),
        ("ppc64le", 64, "little"),
    ];
    for (machine, class, endian) in sweep::some(machines, 3) {
        let out = go.build(&[("GOARCH", machine), OUTSIDE_OF_MODULES], &["main.go"]);
        let (json, code) = look(&go.sandbox, &out);
        assert_eq!(code, Some(0), "{json}");
        let facts = ["machine", "class", "endian", "linkage"].map(|key| json[key].clone());
        assert_eq!(facts, [json!(machine), json!(class), json!(endian), json!("static")]);
        assert!(json["go"]["version"].as_str().unwrap().starts_with("go1."), "{json}");
    }
}

#[test]
fn a_position_independent_go_program_needs_an_interpreter_and_no_library() {
    or_skip!(need(&["go"]));
    let go = Go::new(HELLO);
    let out = go.build(&[OUTSIDE_OF_MODULES], &["-buildmode=pie", "main.go"]);
    let (json, code) = look(&go.sandbox, &out);
    assert_eq!((json["linkage"].as_str(), code), (Some("dynamic"), Some(1)), "{json}");
    assert!(json["interpreter"].is_string());
    assert_eq!(json["needed"], json!([]));
}

#[test]
fn a_module_says_what_it_is_made_of() {
    or_skip!(need(&["go"]));
    let go = Go::new("package main\nimport \"example.com/dep\"\nfunc main() { dep.F() }\n");
    let here = go.sandbox.path("here");
    std::fs::create_dir(here.join("dep")).unwrap();
    std::fs::write(here.join("dep/dep.go"), "package dep\nfunc F() { println(\"dep\") }\n").unwrap();
    std::fs::write(here.join("dep/go.mod"), "module example.com/dep\n").unwrap();
    let module = "module example.com/app\ngo 1.18\nrequire example.com/dep v1.2.3\nreplace example.com/dep => ./dep\n";
    std::fs::write(here.join("go.mod"), module).unwrap();
    let out = go.build(&[("GOPROXY", "off"), ("GOTOOLCHAIN", "local")], &["-trimpath", "-ldflags=-s -w", "."]);
    let (json, _) = look(&go.sandbox, &out);
    let facts = &json["go"];
    assert_eq!((&facts["path"], &facts["module"]), (&json!("example.com/app"), &json!("example.com/app")), "{facts}");
    assert_eq!(facts["modules"], json!([{"path": "example.com/dep", "version": "./dep (devel)"}]));
    assert_eq!(facts["settings"]["CGO_ENABLED"], "0");
    assert_eq!(facts["settings"]["-trimpath"], "true");
}

/// Debian's klog, built outside of modules: build info names none, the function table does.
#[test]
fn a_stripped_program_outside_of_modules_still_shows_klog() {
    const SOURCES: &str = "/usr/share/gocode";
    or_skip!(need(&["go"]));
    or_skip!(need_go_package("k8s.io/klog"));
    let go = Go::new(
        "package main\nimport (\"flag\"; \"k8s.io/klog\")\nfunc main() { klog.InitFlags(nil); flag.Parse(); klog.Info(1) }\n",
    );
    let out = go.build(&[OUTSIDE_OF_MODULES, ("GOPATH", SOURCES)], &["-ldflags=-s -w", "main.go"]);
    let (json, code) = look(&go.sandbox, &out);
    assert_eq!(code, Some(0), "{json}");
    assert_eq!(json["go"]["modules"], json!([]));
    let has = |list: &Value, word: &str| list.as_array().unwrap().contains(&json!(word));
    assert!(has(&json["go"]["packages"], "k8s.io/klog"), "{json}");
    assert!(!has(&json["go"]["packages"], "github.com/golang/glog"), "{json}");
    for word in ["log_file", "log_file_max_size", "logtostderr"] {
        assert!(has(&json["mentions"], word), "{word} {json}");
    }
}
