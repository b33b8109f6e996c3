//! Programs in Python, JavaScript, Java and Ruby: which interpreter they need, and whether a base has it.

use std::slice::from_ref;

use serde_json::{Value, json};

use crate::support::debian::{Package, of_this_machine, system};
use crate::support::fixtures;
use crate::support::invocation::{Invocation, Run};
use crate::support::layouts::{Layouts, findings, old_base, upon};
use crate::support::programs::{Machine, c, prints};
use crate::support::recipe::Recipe;
use crate::support::skip::{Part, need, or_skip};
use crate::support::tar_layer::{Entry, Layer, Pack, file, program, symlink};

const AMD64: &str = "linux/amd64";

pub fn tool(path: &str) -> Entry {
    program(path, prints(Machine::Amd64, "of the base\n"))
}

/// An application on a system with these files, to be moved to the new base of the fixtures with those.
pub fn layouts(system: &[Entry], app: &[Entry], config: Value, base: &[Entry]) -> Layouts {
    let old = old_base(system);
    let mut new = fixtures::new_base(AMD64);
    new.layers.push(Layer::of(Pack::Gzip, base));
    Layouts::new(&upon(&old, [Layer::of(Pack::Gzip, app)], config).build(), &old.build(), &new.build())
}

fn refusals(run: &Run) -> Vec<(String, String)> {
    let report = run.json();
    let findings = report["platforms"][0]["findings"].as_array().unwrap().iter();
    let refused = findings.filter(|finding| finding["level"] == "refuse");
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    refused.map(|finding| (text(finding, "rule"), text(finding, "message"))).collect()
}

fn plan(layouts: &Layouts) -> Invocation {
    layouts.plan().arg("--json")
}

#[test]
fn a_program_says_which_interpreter_it_needs() {
    let env = json!([fixtures::PATH, "NODE_VERSION=20.11.1"]);
    let jvm = "usr/lib/jvm/java-17-openjdk-amd64/bin/java";
    let system = [
        tool("usr/bin/python3.11"),
        symlink("usr/bin/python3", "python3.11"),
        tool("usr/bin/env"),
        tool("usr/local/bin/node"),
        tool(jvm),
        symlink("usr/bin/java", &format!("/{jvm}")),
        tool("usr/bin/ruby3.1"),
        symlink("usr/bin/ruby", "ruby3.1"),
    ];
    let app = [
        program("app/run.py", "#!/usr/bin/env python3\nprint(1)\n"),
        file("app/x", "x"),
        symlink("venv/bin/python", "/usr/bin/python3"),
        program("venv/bin/serve", "#!/venv/bin/python\nprint(1)\n"),
        program("fluentd", "#!/usr/bin/ruby\nputs 1\n"),
    ];
    for (command, needs) in [
        (&["python3", "/app/x"][..], "this is a Python program; it needs a base with python3.11"),
        (&["/app/run.py"], "this is a Python program; it needs a base with python3.11"),
        (&["/venv/bin/serve"], "this is a Python program; it needs a base with python3.11"),
        (&["node", "/app/x"], "this is a Node.js program; it needs a base with node 20"),
        (&["java", "-jar", "/app/x"], "this is a Java program; it needs a base with java 17"),
        (&["/fluentd"], "this is a Ruby program; it needs a base with ruby3.1"),
    ] {
        let layouts = layouts(&system, &app, json!({"Env": env, "Entrypoint": command}), &[]);
        let run = plan(&layouts).run().refused();
        assert_eq!(refusals(&run), [("needs-interpreter".to_owned(), needs.to_owned())], "{run}");
    }
}

#[test]
fn what_is_installed_for_one_version_does_not_move_to_another() {
    let python = |version: &str| {
        [tool(&format!("usr/bin/python{version}")), symlink("usr/bin/python3", &format!("python{version}"))]
    };
    let config = json!({"Env": [fixtures::PATH], "Entrypoint": ["python3", "/app/x.py"]});
    let script = file("app/x.py", "print(1)\n");
    let package = file("usr/local/lib/python3.11/site-packages/a.py", "x");
    let extension = file("app/a.cpython-311-x86_64-linux-gnu.so", "x");
    for (app, base, expected) in [
        (vec![script.clone()], "3.11", None),
        (vec![script.clone(), package.clone()], "3.11", None),
        (vec![script.clone()], "3.12", None),
        (vec![script.clone(), package], "3.12", Some("site-packages/a.py is for python3.11")),
        (vec![script, extension], "3.12", Some("a.cpython-311-x86_64-linux-gnu.so is for python3.11")),
    ] {
        let layouts = layouts(&python("3.11"), &app, config.clone(), &python(base));
        let run = plan(&layouts).run();
        match expected {
            None => drop(run.ok()),
            Some(evidence) => {
                let run = run.refused();
                assert_eq!(refusals(&run)[0].0, "needs-interpreter", "{run}");
                assert!(run.stdout.contains(evidence), "{run}");
            }
        }
    }
}

#[test]
fn a_script_that_env_starts_is_given_to_the_interpreter_as_the_hint_says() {
    let python = [tool("usr/bin/python3.11"), symlink("usr/bin/python3", "python3.11")];
    let system = [&python[..], &[tool("usr/bin/env")]].concat();
    let app = [program("app/run.py", "#!/usr/bin/env python3\nprint(1)\n")];
    let config = json!({"Env": [fixtures::PATH], "Entrypoint": ["/app/run.py"]});
    let layouts = layouts(&system, &app, config, &python);
    let run = plan(&layouts).run().refused();
    assert_eq!(refusals(&run)[0].0, "not-a-binary", "{run}");
    let report = run.json();
    let fix = report["platforms"][0]["findings"][0]["fix"].as_str().unwrap();
    let words = fix.split('\'').nth(1).unwrap();
    plan(&layouts).args(["--entrypoint", words]).run().ok();
}

fn packages(names: &[&str]) -> Part<Vec<Package>> {
    names.iter().map(|name| of_this_machine(name)).collect()
}

/// What distroless' image for Python is made of.
const PYTHON: [&str; 7] = [
    "base-files",
    "libc6",
    "libexpat1",
    "zlib1g",
    "libpython3.11-minimal",
    "python3.11-minimal",
    "libpython3.11-stdlib",
];

/// An application with these files on Debian with Python, to be moved to a base with the same Python.
pub fn python(more: &[&str], app: &[Entry], command: &[&str]) -> Part<Layouts> {
    let accounts = [file("etc/passwd", "root:x:0:0:root:/root:/sbin/nologin\n"), file("etc/group", "root:x:0:\n")];
    let names: Vec<&str> = PYTHON.iter().chain(more).copied().collect();
    let mut files = system(&packages(&names)?);
    files.extend(accounts.clone());
    let old =
        Recipe { config: json!({"Env": [fixtures::PATH]}), ..Recipe::new(AMD64, vec![Layer::of(Pack::Gzip, &files)]) };
    let layers =
        packages(&PYTHON)?.iter().map(|package| Layer::of(Pack::Gzip, &package.unpacked())).collect::<Vec<_>>();
    let layers = layers.into_iter().chain([Layer::of(Pack::Gzip, &accounts)]).collect();
    let new = Recipe { config: json!({"Env": [fixtures::PATH]}), ..Recipe::new(AMD64, layers) };
    let config = json!({"Env": [fixtures::PATH], "Entrypoint": command});
    let app = upon(&old, [Layer::of(Pack::Gzip, app)], config);
    Ok(Layouts::new(&app.build(), &old.build(), &new.build()))
}

#[test]
fn a_python_program_moves_to_a_base_with_its_python_and_starts() {
    or_skip!(need(&["umoci", "runc"]));
    let app = [file("app/x.py", "import zlib, json\nprint(json.dumps({'hello': zlib.crc32(b'x')}))\n")];
    let layouts = or_skip!(python(&[], &app, &["python3.11", "/app/x.py"]));
    layouts.rebase("out").run().ok();
    let ended = layouts.container("out").start();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "{\"hello\": 2363233923}\n"), "{ended:?}");
}

#[test]
fn an_extension_whose_library_stays_behind_is_refused_and_moves_as_offered() {
    or_skip!(need(&["gcc"]));
    let extension = c("gcc", &["-shared", "-fPIC", "-Wl,--no-as-needed", "-l:libmnl.so.0"], "int PyInit_x;\n");
    let at = "usr/local/lib/python3.11/dist-packages/x.cpython-311-x86_64-linux-gnu.so";
    let app = [file("app/x.py", "print(1)\n"), file(at, extension)];
    let layouts = or_skip!(python(&["libmnl0"], &app, &["python3.11", "/app/x.py"]));
    let run = plan(&layouts).run().refused();
    let [(rule, message)] = &refusals(&run)[..] else { panic!("one refusal\n{run}") };
    assert!(rule == "needs-library" && message.contains("libmnl.so.0 is not in the rebased image"), "{run}");
    assert!(run.stdout.contains("pass --bring libmnl0, which adds "), "{run}");
    let report = plan(&layouts).args(["--bring", "libmnl0"]).run().ok().json();
    assert!(findings(&report["platforms"][0]).iter().all(|finding| !finding.contains("needs-library")), "{report}");
}

#[test]
fn a_program_that_the_image_installed_as_a_package_is_brought_as_offered() {
    or_skip!(need(&["umoci", "runc"]));
    let names = ["libc6", "libmnl0", "libnfnetlink0", "libnetfilter-conntrack3"];
    let base = or_skip!(packages(&names));
    let new: Vec<Entry> = base.iter().flat_map(Package::unpacked).collect();
    let conntrack = or_skip!(of_this_machine("conntrack"));
    let old = old_base(&system(&base));
    let config = json!({"Env": [fixtures::PATH], "Entrypoint": ["conntrack", "--version"]});
    let app = upon(&old, [Layer::of(Pack::Gzip, &conntrack.installed())], config);
    let mut recipe = fixtures::new_base(AMD64);
    recipe.layers.push(Layer::of(Pack::Gzip, &new));
    let layouts = Layouts::new(&app.build(), &old.build(), &recipe.build());
    let run = plan(&layouts).run().refused();
    assert_eq!(
        refusals(&run),
        [("entrypoint-missing".to_owned(), "the program conntrack is not in the rebased image".to_owned())]
    );
    assert!(run.stdout.contains("pass --bring conntrack, which adds "), "{run}");
    layouts.rebase("out").args(["--bring", "conntrack"]).run().ok();
    let ended = layouts.container("out").start();
    assert!(ended.stdout.starts_with("conntrack v1."), "{ended:?}");
}

fn evidence(run: &Run) -> String {
    let report = run.json();
    let findings = report["platforms"][0]["findings"].as_array().unwrap().clone();
    let found = findings.iter().find(|finding| finding["level"] == "refuse");
    found.map_or(String::new(), |finding| format!("{} {}", finding["evidence"], finding["fix"]))
}

#[test]
fn a_virtual_environment_needs_the_python_that_it_was_made_with() {
    let python = |prefix: &str, version: &str| {
        let library = file(&format!("{prefix}/lib/python{version}/os.py"), "x");
        vec![tool(&format!("{prefix}/bin/python{version}")), library]
    };
    let venv = |python: Entry| {
        let settings = "home = /usr/bin\nversion = 3.11.2\n";
        vec![python, file("venv/pyvenv.cfg", settings), file("app/x.py", "print(1)\n")]
    };
    let (linked, copied) = (symlink("venv/bin/python", "/usr/bin/python3.11"), tool("venv/bin/python"));
    let same_path = [python("usr", "3.12"), vec![symlink("usr/bin/python3.11", "python3.12")]].concat();
    for (app, base, message, shown_by) in [
        (venv(linked.clone()), python("usr", "3.11"), "", ""),
        (venv(copied.clone()), python("usr", "3.11"), "", ""),
        (venv(linked.clone()), python("usr", "3.12"), "it needs a base with python3.11", "and the new base has none"),
        (venv(linked.clone()), same_path, "of the new base is python3.12", "/venv/pyvenv.cfg is for python3.11"),
        (venv(linked), python("opt", "3.11"), "it needs a base with python3.11", "and the new base has none"),
        (venv(copied.clone()), vec![], "it needs a base with python3.11", "and the new base has none"),
        (
            venv(copied),
            python("usr/local", "3.11"),
            "it needs a base with python3.11",
            "which the new base has at /usr/local/bin/python3.11",
        ),
    ] {
        let config = json!({"Env": [fixtures::PATH], "Entrypoint": ["/venv/bin/python", "/app/x.py"]});
        let run = plan(&layouts(&python("usr", "3.11"), &app, config, &base)).run();
        let said = refusals(&run).first().map_or(String::new(), |(_, message)| message.clone());
        assert_eq!(said.is_empty(), message.is_empty(), "{run}");
        assert!(said.contains(message) && evidence(&run).contains(shown_by), "{message}, {shown_by}\n{run}");
    }
}

/// Python's own images install into `/usr/local`, and Debian's Python does not look there for `site-packages`.
#[test]
fn packages_where_the_python_of_the_base_does_not_look_are_refused_and_move_as_the_hint_says() {
    let config = json!({"Env": [fixtures::PATH], "Entrypoint": ["python3.11", "/app/x.py"]});
    let (own, debian) = (tool("usr/local/bin/python3.11"), tool("usr/bin/python3.11"));
    let site = |name: &str| file(&format!("usr/local/lib/python3.11/site-packages/{name}"), "x");
    let script = file("app/x.py", "import flask\n");
    let case = |python: &Entry, package: Entry, base: &Entry| {
        layouts(from_ref(python), &[script.clone(), package], config.clone(), from_ref(base))
    };
    let is_refused = |layouts: &Layouts| {
        let run = plan(layouts).args(["--allow", "program-changed"]).run();
        refusals(&run).iter().any(|(rule, message)| rule == "needs-interpreter" && message.contains("does not find"))
    };
    assert!(!is_refused(&case(&own, site("flask/app.py"), &own)));
    assert!(!is_refused(&case(&own, site("pip/main.py"), &debian)));
    assert!(!is_refused(&case(&debian, file("usr/local/lib/python3.11/dist-packages/a.py", "x"), &debian)));
    let layouts = case(&own, site("flask/app.py"), &debian);
    assert!(is_refused(&layouts));
    let run = plan(&layouts).run().refused();
    let fix = evidence(&run);
    let variable = fix.split("--env ").nth(1).unwrap().split(',').next().unwrap();
    assert_eq!(variable, "PYTHONPATH=/usr/local/lib/python3.11/site-packages", "{run}");
    let run = plan(&layouts).args(["--env", variable]).run();
    assert!(refusals(&run).iter().all(|(rule, _)| rule != "needs-interpreter"), "{run}");
}

#[test]
fn an_interpreter_at_another_path_is_named_and_can_be_started_there() {
    let config = json!({"Env": [fixtures::PATH], "Entrypoint": ["/usr/local/bin/python3.11", "/app/x.py"]});
    let (own, debian) = (tool("usr/local/bin/python3.11"), tool("usr/bin/python3.11"));
    let layouts = layouts(from_ref(&own), &[file("app/x.py", "print(1)\n")], config, from_ref(&debian));
    let run = plan(&layouts).run().refused();
    assert_eq!(refusals(&run)[0].0, "needs-interpreter", "{run}");
    assert!(evidence(&run).contains("use /usr/bin/python3.11"), "{run}");
    plan(&layouts).args(["--entrypoint", r#"["/usr/bin/python3.11", "/app/x.py"]"#]).run().ok();
}

#[test]
fn the_release_file_says_which_java_it_is() {
    let java = |version: &str| {
        [
            tool("opt/java/openjdk/bin/java"),
            file("opt/java/openjdk/release", format!("IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"{version}\"\n")),
        ]
    };
    let config = json!({"Env": [fixtures::PATH], "Entrypoint": ["/opt/java/openjdk/bin/java", "-jar", "/app/x.jar"]});
    for (base, message) in [
        ("17.0.9", None),
        ("21", None),
        (
            "11.0.2",
            Some("this is a Java program for java 17, and /opt/java/openjdk/bin/java of the new base is java 11"),
        ),
        (
            "1.8.0_392",
            Some("this is a Java program for java 17, and /opt/java/openjdk/bin/java of the new base is java 8"),
        ),
    ] {
        let layouts = layouts(&java("17.0.9"), &[file("app/x.jar", "x")], config.clone(), &java(base));
        let run = plan(&layouts).run();
        let said: Vec<(String, String)> = refusals(&run);
        let expected: Vec<_> =
            message.map(|text| ("needs-interpreter".to_owned(), text.to_owned())).into_iter().collect();
        assert_eq!(said, expected, "{run}");
    }
}

#[test]
fn a_library_that_java_loads_is_checked() {
    or_skip!(need(&["musl-gcc"]));
    let library = |name: &str, flags: &[&str], source: &str| {
        let soname = format!("-Wl,-soname,{name}");
        c("musl-gcc", &[&["-shared", "-fPIC", soname.as_str()], flags].concat(), source)
    };
    let directory = tempfile::tempdir().unwrap();
    let own = library("libown.so", &[], "int own(void) { return 42; }\n");
    std::fs::write(directory.path().join("libown.so"), &own).unwrap();
    let at = format!("-L{}", directory.path().display());
    let jni =
        library("libjni.so", &[&at, "-Wl,--no-as-needed", "-lown"], "int own(void); int f(void) { return own(); }\n");
    let loader = program("lib/ld-musl-x86_64.so.1", std::fs::read("/lib/ld-musl-x86_64.so.1").unwrap());
    let java = program("usr/bin/java", c("musl-gcc", &[], "int main(void) { return 0; }\n"));
    let with = [loader.clone(), java.clone(), file("usr/lib/libown.so", own)];
    let app = [file("app/x.jar", "x"), file("app/libjni.so", jni)];
    let config = json!({"Env": [fixtures::PATH], "Entrypoint": ["java", "-jar", "/app/x.jar"]});
    plan(&layouts(&with, &app, config.clone(), &with)).run().ok();
    let run = plan(&layouts(&with, &app, config, &[loader, java])).run().refused();
    let [(rule, message)] = &refusals(&run)[..] else { panic!("one refusal\n{run}") };
    let expected = "/app/libjni.so, an extension of Java, cannot be loaded: libown.so is not in the rebased image";
    assert!(rule == "needs-library" && message.starts_with(expected), "{run}");
}
