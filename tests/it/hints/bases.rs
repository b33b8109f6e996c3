//! Hints about what a new base has, or lacks: interpreters, libraries, packages, signatures.

use std::slice::from_ref;

use serde_json::{Value, json};

use super::{advice, again, computed_advice};
use crate::attest::{key, sign};
use crate::interpreted::{layouts, python, tool};
use crate::support::fixtures;
use crate::support::invocation::{Invocation, Run};
use crate::support::layouts::Layouts;
use crate::support::programs::c;
use crate::support::recipe::Recipe;
use crate::support::registries::Registries;
use crate::support::skip::{need, or_skip};
use crate::support::tar_layer::{Entry, Layer, Pack, file, program, symlink};
use crate::support::tools::newer;

const AMD64: &str = "linux/amd64";

fn running(words: &[&str]) -> Value {
    json!({"Env": [fixtures::PATH], "Entrypoint": words})
}

/// Python in this version below a prefix, with its standard library.
fn python_in(prefix: &str, version: &str) -> Vec<Entry> {
    let library = file(&format!("{prefix}/lib/python{version}/os.py"), "x");
    vec![tool(&format!("{prefix}/bin/python{version}")), library]
}

/// Moves it to the base, which may be that of other layouts; a program of the base is another one than the source's.
fn moving<'a>(layouts: &'a Layouts, base: &'a str) -> impl Fn() -> Invocation + 'a {
    move || {
        let words = ["rebase", "oci:app:v1", "--old-base", "oci:old:v1", "--base", base, "--to", "oci:out:v1"];
        layouts.underpin(&words).args(["--no-cache", "--allow", "program-changed"])
    }
}

/// Puts a base with these files beside the others.
fn put_base(layouts: &Layouts, files: &[Entry]) -> &'static str {
    let mut base = fixtures::new_base(AMD64);
    base.layers.push(Layer::of(Pack::Gzip, files));
    base.build().layout(&layouts.layout("other"), "v1");
    "oci:other:v1"
}

fn needs_interpreter(layouts: &Layouts) -> Run {
    moving(layouts, "oci:new:v1")().run().refused().says("needs-interpreter")
}

/// Debian's Python for real: the program runs on the base that was chosen.
#[test]
fn of_a_base_without_the_interpreter() {
    or_skip!(need(&["umoci", "runc"]));
    let script = [file("app/x.py", "print('hello')\n")];
    let layouts = or_skip!(python(&[], &script, &["python3.11", "/app/x.py"]));
    let bare = put_base(&layouts, &[]);
    let run = moving(&layouts, bare)().run().refused().says("needs-interpreter");
    advice(&run, "choose a --base with {wanted}, such as {}").by_hand("choose a --base with python3.11, such as");
    moving(&layouts, "oci:new:v1")().run().ok();
    assert_eq!(layouts.start("out"), "hello\n");
}

#[test]
fn of_a_base_with_another_version_of_the_interpreter() {
    let (before, now) = (python_in("usr", "3.11"), python_in("usr", "3.12"));
    let link = |version: &str| symlink("usr/bin/python3", &format!("python{version}"));
    let with_link = |files: &[Entry], version: &str| [files, &[link(version)]].concat();
    let app = |version: &str| {
        let package = file(&format!("usr/local/lib/python{version}/dist-packages/a.py"), "x");
        [file("app/x.py", "import a\n"), package]
    };
    let config = running(&["python3", "/app/x.py"]);
    let (old, new) = (with_link(&before, "3.11"), with_link(&now, "3.12"));
    let other = layouts(&old, &app("3.11"), config.clone(), &new);
    let run = needs_interpreter(&other);
    let written = "choose a --base with {wanted}, or build the image for {now}";
    advice(&run, written).by_hand("choose a --base with python3.11");
    moving(&other, put_base(&other, &old))().run().ok();
    advice(&run, written).by_hand("build the image for python3.12");
    moving(&layouts(&old, &app("3.12"), config.clone(), &new), "oci:new:v1")().run().ok();

    // Nothing says which version this one is.
    let unknown = layouts(&old, &app("3.11"), config, &[tool("usr/bin/python3")]);
    advice(&needs_interpreter(&unknown), "choose a --base with {wanted}").by_hand("with python3.11");
    moving(&unknown, put_base(&unknown, &old))().run().ok();
}

#[test]
fn of_an_interpreter_at_another_path() {
    let (own, debian) = (python_in("usr/local", "3.11"), python_in("usr", "3.11"));
    let venv = |python: &str| {
        let settings = format!("home = {}\nversion = 3.11.2\n", python.rsplit_once('/').unwrap().0);
        [tool("venv/bin/python"), file("venv/pyvenv.cfg", settings), file("app/x.py", "print(1)\n")]
    };
    let path = |run: &Run| {
        let told = advice(run, "let the command, and a virtual environment where there is one, use {path}");
        told.text.rsplit(' ').next().unwrap().to_owned()
    };
    let script = [file("app/x.py", "print(1)\n")];
    let command = layouts(&own, &script, running(&["/usr/local/bin/python3.11", "/app/x.py"]), &debian);
    let words = json!([path(&needs_interpreter(&command)), "/app/x.py"]).to_string();
    moving(&command, "oci:new:v1")().args(["--entrypoint", &words]).run().ok();

    let in_venv = |python: &str| layouts(&own, &venv(python), running(&["/venv/bin/python", "/app/x.py"]), &debian);
    let python = path(&needs_interpreter(&in_venv("/usr/local/bin/python3.11")));
    moving(&in_venv(&python), "oci:new:v1")().run().ok();
}

#[test]
fn of_packages_where_the_interpreter_does_not_look() {
    let (own, debian) = (python_in("usr/local", "3.11"), python_in("usr", "3.11"));
    let app = [file("app/x.py", "x"), file("usr/local/lib/python3.11/site-packages/flask/app.py", "x")];
    let layouts = layouts(&own, &app, running(&["python3.11", "/app/x.py"]), &debian);
    let run = needs_interpreter(&layouts);
    let written = "pass --env PYTHONPATH={site}, or choose a --base whose interpreter is {before}";
    again(moving(&layouts, "oci:new:v1"), &advice(&run, written).flag("--env")).ok();
    advice(&run, written).by_hand("choose a --base whose interpreter is /usr/local/bin/python3.11");
    moving(&layouts, put_base(&layouts, &own))().run().ok();
}

/// What else is in ENTRYPOINT or CMD stays.
#[test]
fn of_a_script_whose_env_the_new_base_does_not_have() {
    let python = [python_in("usr", "3.11"), vec![symlink("usr/bin/python3", "python3.11")]].concat();
    let system = [&python[..], &[tool("usr/bin/env")]].concat();
    let app = [program("app/run.py", "#!/usr/bin/env python3\nprint(1)\n")];
    for (entrypoint, cmd, flag) in [
        (json!(["/app/run.py", "serve"]), json!(["--port=1", "it's"]), "--entrypoint"),
        (Value::Null, json!(["/app/run.py", "serve", "--port=1", "it's"]), "--cmd"),
    ] {
        let config = json!({"Env": [fixtures::PATH], "Entrypoint": entrypoint, "Cmd": cmd});
        let layouts = layouts(&system, &app, config, &python);
        let run = moving(&layouts, "oci:new:v1")().run().refused().says("not-a-binary");
        let flags = advice(&run, "start the interpreter that the new base has: {flag}").flag(flag);
        again(moving(&layouts, "oci:new:v1"), &flags).ok();
        let out = &layouts.underpin(&["inspect", "oci:out:v1", "--json"]).run().ok().json()["platforms"][0];
        let words = [&out["entrypoint"], &out["cmd"]].into_iter().filter_map(Value::as_array).flatten();
        let words: Vec<&str> = words.map(|word| word.as_str().unwrap()).collect();
        assert_eq!(words, ["/usr/bin/python3.11", "/app/run.py", "serve", "--port=1", "it's"]);
    }
}

#[test]
fn of_an_extension_whose_library_stays_behind() {
    or_skip!(need(&["gcc"]));
    let extension = c("gcc", &["-shared", "-fPIC", "-Wl,--no-as-needed", "-l:libmnl.so.0"], "int PyInit_x;\n");
    let at = "usr/local/lib/python3.11/dist-packages/x.cpython-311-x86_64-linux-gnu.so";
    let app = [file("app/x.py", "print(1)\n"), file(at, extension)];
    let layouts = or_skip!(python(&["libmnl0"], &app, &["python3.11", "/app/x.py"]));
    let run = moving(&layouts, "oci:new:v1")().run().refused().says("needs-library");
    let written = "{bring}, or pass --allow needs-library={path} if it is never loaded";
    for flag in ["--bring", "--allow"] {
        again(moving(&layouts, "oci:new:v1"), &advice(&run, written).flag(flag)).ok();
    }
}

#[test]
fn of_an_sbom_of_a_base_whose_packages_cannot_be_read() {
    let layer = Layer::of(Pack::Gzip, &[file("var/lib/rpm/rpmdb.sqlite", "x")]);
    let (app, old) = (fixtures::app(AMD64, 10).build(), fixtures::old_base(AMD64).build());
    let layouts = Layouts::new(&app, &old, &Recipe::new(AMD64, vec![layer]).build());
    let sbom = |base: &str| moving(&layouts, base)().args(["--report", "spdx=sbom.json"]).run();
    let run = sbom("oci:new:v1").fails("input");
    let written = "leave the SBOM out, or take a base whose packages are those of dpkg or apk";
    advice(&run, written).by_hand("leave the SBOM out");
    moving(&layouts, "oci:new:v1")().run().ok();
    advice(&run, written).by_hand("take a base whose packages are those of dpkg");
    let status = "Package: a\nStatus: install ok installed\nVersion: 1\nArchitecture: amd64\n";
    sbom(put_base(&layouts, from_ref(&file("var/lib/dpkg/status.d/a", status)))).ok();
}

#[test]
fn of_a_base_that_is_not_signed() {
    let (cosign2, cosign3) = (or_skip!(newer("trixie/cosign", "cosign")), or_skip!(newer("sid/cosign", "cosign")));
    let registries = or_skip!(Registries::one(1000));
    let policy = |images: &str| {
        let text = format!("signed_by:\n- images: ['{images}']\n  keys: ['{}']\n", key("cosign.pub"));
        std::fs::write(registries.sandbox.path("here/policy.yaml"), text).unwrap();
        registries.rebase(&registries.target.name("out/app:v1"), "cache").args(["--policy", "policy.yaml"]).run()
    };
    let bases = registries.source.name("base/*");
    let run = policy(&bases).refused();
    let written = "sign the image with one of these keys (`cosign sign --key`), use one that is signed, or correct `signed_by` in the policy file";
    let told = |part: &str| computed_advice(&run, written, "src/run.rs: Rule::SignatureMissing.fix()").by_hand(part);
    told("correct `signed_by` in the policy file");
    policy("registry.example/*").ok();
    told("`cosign sign --key`");
    let base = format!("{}@{}", registries.source.name("base/new"), registries.new_base.digest());
    sign(&cosign2, &cosign3, &registries.sandbox, &base);
    policy(&bases).ok();
}
