//! The point of it all: what was rebased still starts.

use serde_json::{Value, json};

use crate::support::docker_registry::Registry;
use crate::support::invocation::Sandbox;
use crate::support::layouts::{Layouts, fates, findings, old_base, upon};
use crate::support::programs::{GoCompiler, c, go, known_go_compilers, libraries};
use crate::support::recipe::{Content, Dialect, Recipe, index};
use crate::support::skip::{need, or_skip};
use crate::support::tar_layer::{Entry, Layer, Pack, file, folder, program};
use crate::support::{fixtures, published, tools};

/// Rebases `app` between layouts and starts the result.
fn rebased_and_started(app: &Recipe) -> String {
    let sandbox = Sandbox::new();
    app.build().layout(&sandbox.path("app"), "v1");
    fixtures::old_base("linux/amd64").build().layout(&sandbox.path("old"), "v1");
    fixtures::new_base("linux/amd64").build().layout(&sandbox.path("new"), "v1");
    let at = |name: &str| format!("oci:{}:v1", sandbox.path(name).display());
    let args = ["rebase", &at("app"), "--base", &at("new"), "--old-base", &at("old"), "--to", &at("out"), "--no-cache"];
    sandbox.underpin(args).run().ok();
    tools::start(&sandbox.path("out"), "v1", &sandbox.path("bundle"))
}

#[test]
fn a_static_program_starts_on_the_new_base() {
    or_skip!(need(&["umoci", "runc"]));
    assert_eq!(rebased_and_started(&fixtures::app("linux/amd64", 1000)), fixtures::LINE);
}

#[test]
fn a_go_program_starts_on_the_new_base_and_sees_its_files() {
    or_skip!(need(&["umoci", "runc", "go"]));
    let source = r#"package main
import ("fmt"; "io/ioutil"; "os")
func main() { release, _ := ioutil.ReadFile("/etc/os-release"); fmt.Print(os.Args[1:], os.Getenv("MODE"), string(release)) }
"#;
    let mut app = fixtures::app("linux/amd64", 1000);
    app.layers[2] = Layer::of(Pack::Gzip, &[program("app", crate::support::programs::go(source, &[]))]);
    app.config["Cmd"] = json!(["--one", "two"]);
    assert_eq!(rebased_and_started(&app), "[--one two]quietID=newless\n");
}

#[test]
fn an_image_from_a_registry_starts_as_others_pull_it() {
    or_skip!(need(&["umoci", "runc", "skopeo"]));
    let registry = or_skip!(Registry::plain());
    let sandbox = Sandbox::new();
    crate::support::token_server::push_fixtures(registry.host());
    let to = format!("{}/out/app:v1", registry.host());
    crate::support::token_server::rebase_at(&sandbox, registry.host(), &to).run().ok();
    tools::skopeo_to_layout(&format!("docker://{to}"), &sandbox.path("pulled"), "v1");
    assert_eq!(tools::start(&sandbox.path("pulled"), "v1", &sandbox.path("bundle")), fixtures::LINE);
}

// Programs of real compilers, started where they were built and where they were moved to. What
// would not start there is refused, and nothing is written.

const C: &str = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { printf(\"C, %s\\n\", getenv(\"MODE\")); }\n";
const GO: &str =
    "package main\nimport \"os\"\nfunc main() { os.Stdout.WriteString(\"Go, \" + os.Getenv(\"MODE\") + \"\\n\") }\n";
const CGO: &str = r#"package main
// #include <stdlib.h>
import "C"
import "os"
func main() { os.Stdout.WriteString("cgo, " + C.GoString(C.getenv(C.CString("MODE"))) + "\n") }
"#;

fn layer_of(bytes: &[u8]) -> [Layer; 1] {
    [Layer::of(Pack::Gzip, &[program("app", bytes)])]
}

#[test]
fn a_static_program_prints_after_the_move_what_it_printed_before() {
    or_skip!(need(&["umoci", "runc", "gcc", "musl-gcc", "go"]));
    let in_c = [("gcc", "-static"), ("gcc", "-static-pie"), ("musl-gcc", "-static")];
    let in_c = in_c.map(|(compiler, flag)| (format!("{compiler} {flag}"), c(compiler, &[flag], C), "C, quiet\n"));
    let in_go = known_go_compilers().into_iter().map(|compiler| {
        (compiler.version().to_owned(), compiler.build(GO, &[("GOARCH", "amd64")], &[]), "Go, quiet\n")
    });
    for (name, bytes, line) in in_c.into_iter().chain(in_go) {
        let old = fixtures::old_base("linux/amd64");
        let layouts = Layouts::on(&old, &upon(&old, layer_of(&bytes), fixtures::app_config()));
        assert_eq!(layouts.start("app"), line, "{name} before");
        layouts.rebase("out").run().ok();
        assert_eq!(layouts.start("out"), line, "{name} after");
    }
}

#[test]
fn a_dynamic_program_starts_on_its_old_base_and_is_refused() {
    or_skip!(need(&["umoci", "runc", "gcc", "go", "ldd"]));
    let with_c =
        |compiler: GoCompiler| (compiler.build(CGO, &[("CGO_ENABLED", "1"), ("GOARCH", "amd64")], &[]), "cgo, quiet\n");
    let in_go = known_go_compilers().into_iter().map(with_c);
    for (bytes, line) in [(c("gcc", &[], C), "C, quiet\n")].into_iter().chain(in_go) {
        let old = old_base(&libraries(&bytes));
        let layouts = Layouts::on(&old, &upon(&old, layer_of(&bytes), fixtures::app_config()));
        assert_eq!(layouts.start("app"), line);
        let report = layouts.rebase("out").arg("--json").run().refused().json();
        let platform = &report["platforms"][0];
        assert_eq!(findings(platform), ["refuse dynamic-binary"]);
        assert_eq!(platform["binaries"][0]["linkage"], "dynamic");
        let evidence = platform["findings"][0]["evidence"].as_str().unwrap();
        assert!(evidence.contains("ld-linux-x86-64.so.2") && evidence.contains("libc.so.6"), "{evidence}");
        assert!(!layouts.layout("out").exists(), "a refusal writes nothing");
    }
}

// What a process finds when it starts: its user, its groups, its folders. The same after the move
// as before it, also where only the old base had them.

/// Says who it is, where it is, and whether it can write its log.
const WHO: &str = r#"package main
import ("fmt"; "os"; "os/user"; "strconv"; "strings")
func main() {
    folder, err := os.Getwd()
    fmt.Println("folder", folder, err)
    groups, err := os.Getgroups()
    fmt.Println("numbers", os.Getuid(), os.Getgid(), groups, err)
    account, err := user.LookupId(strconv.Itoa(os.Getuid()))
    if err == nil { fmt.Println("account", account.Username, account.HomeDir, os.Getenv("HOME")) } else { fmt.Println(err) }
    group, err := user.LookupGroupId(strconv.Itoa(os.Getgid()))
    if err == nil { fmt.Println("group", group.Name) } else { fmt.Println(err) }
    for _, word := range os.Args {
        if strings.HasPrefix(word, "--log-file=") {
            _, err := os.Create(strings.TrimPrefix(word, "--log-file="))
            fmt.Println("log", err)
        }
    }
    _, err = os.Create("scratch")
    fmt.Println("scratch", err)
}
"#;

fn old_base_with_app() -> Recipe {
    old_base(&[
        file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\ngames:x:5:60::/:\napp:x:1000:1001:App:/srv/app:/bin/sh\n"),
        file("etc/group", "root:x:0:\naudio:x:29:games,app\ngames:x:60:\napp:x:1001:\nother:x:1002:games\n"),
        folder("srv/"),
        folder("srv/app/").owned(1000, 1001).mode(0o750),
        folder("var/"),
        folder("var/log/"),
        folder("var/log/app/").owned(0, 1001).mode(0o775),
    ])
}

fn app(old: &Recipe, files: &[Entry], user: &str) -> Recipe {
    let files: Vec<Entry> = [program("app", go(WHO, &[]))].into_iter().chain(files.iter().cloned()).collect();
    let config = json!({
        "Entrypoint": ["/app"], "Cmd": ["--log-file=/var/log/app/x.log"], "User": user, "WorkingDir": "/srv/app",
        "Env": [fixtures::PATH],
    });
    upon(old, [Layer::of(Pack::Gzip, &files)], config)
}

/// Starts before and after the move; gives what was printed both times and the report.
fn moved(layouts: &Layouts) -> (String, String, Value) {
    let before = layouts.start("app");
    let report = layouts.rebase("out").arg("--json").run().ok().json();
    (before, layouts.start("out"), report)
}

#[test]
fn accounts_and_folders_of_the_old_base_are_brought_along() {
    or_skip!(need(&["umoci", "runc", "go"]));
    let old = old_base_with_app();
    // With a group named, runtimes leave out the groups that list the user.
    for (user, groups) in [("app:app", "[]"), ("app", "[29]")] {
        let layouts = Layouts::on(&old, &app(&old, &[], user));
        let (before, after, report) = moved(&layouts);
        assert_eq!(before, after);
        let expected = format!(
            "folder /srv/app <nil>\nnumbers 1000 1001 {groups} <nil>\naccount app /srv/app /srv/app\ngroup app\n\
             log <nil>\nscratch <nil>\n"
        );
        assert_eq!(after, expected);
        assert_eq!(fates(&report), ["kept", "added"]);
        assert_eq!(findings(&report["platforms"][0]), ["warn user-by-name"]);
        let read = |path: &str| std::fs::read_to_string(layouts.bundle("out").join("rootfs").join(path)).unwrap();
        assert_eq!(
            read("etc/passwd"),
            "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532::/home/nonroot:/sbin/nologin\n\
             app:x:1000:1001:App:/srv/app:/bin/sh\n"
        );
        assert_eq!(read("etc/group"), "root:x:0:\nnonroot:x:65532:\napp:x:1001:\naudio:x:29:app\n");
        assert_eq!(read("etc/os-release"), "ID=newless\n");
        layouts.verify("oci:out:v1").run().ok().says("verified");
    }
}

#[test]
fn a_user_by_number_with_its_own_folders_needs_no_added_layer() {
    or_skip!(need(&["umoci", "runc", "go"]));
    let old = fixtures::old_base("linux/amd64");
    let own = [folder("srv/app/").owned(65532, 65532), folder("var/log/app/").owned(65532, 65532)];
    let layouts = Layouts::on(&old, &app(&old, &own, "65532:65532"));
    let (_, after, report) = moved(&layouts);
    assert_eq!(fates(&report), ["kept"]);
    // The new base has an account of this number, with a home.
    assert_eq!(findings(&report["platforms"][0]), ["warn env-lost"]);
    let expected = "folder /srv/app <nil>\nnumbers 65532 65532 [] <nil>\naccount nonroot /home/nonroot /home/nonroot\n\
                    group nonroot\nlog <nil>\nscratch <nil>\n";
    assert_eq!(after, expected);
}

// One index for five machines, with a Go program for each.

const GO_HELLO: &str = "package main\nfunc main() { println(\"hello\") }\n";
/// Platform, and the words that Go and the report have for its machine.
const FIVE: [(&str, &str); 5] = [
    ("linux/amd64", "amd64"),
    ("linux/arm64", "arm64"),
    ("linux/arm/v7", "arm"),
    ("linux/ppc64le", "ppc64le"),
    ("linux/s390x", "s390x"),
];

fn layer_for(machine: &str) -> Layer {
    let bytes = go(GO_HELLO, &[("GOARCH", machine), ("GOARM", "7")]);
    Layer::of(Pack::Gzip, &[program("app", bytes)])
}

fn app_for(platform: &str, layer: &Layer) -> Content {
    upon(&fixtures::old_base(platform), [layer.clone()], fixtures::app_config()).build()
}

fn on_five(image: impl Fn(&str) -> Content) -> Content {
    index(Dialect::Oci, &FIVE.map(|(platform, _)| (platform, image(platform))))
}

#[test]
fn an_index_of_five_machines_moves_and_one_wrong_program_stops_it() {
    or_skip!(need(&["go"]));
    let layers = FIVE.map(|(_, machine)| layer_for(machine));
    let place = |platform: &str| FIVE.iter().position(|(name, _)| *name == platform).unwrap();
    let stage_of = |choose: &dyn Fn(&str) -> usize| {
        let apps = on_five(|platform| app_for(platform, &layers[choose(platform)]));
        let (old, new) = (on_five(|on| fixtures::old_base(on).build()), on_five(|on| fixtures::new_base(on).build()));
        Layouts::new(&apps, &old, &new)
    };

    let layouts = stage_of(&place);
    let report = layouts.rebase("out").arg("--json").run().ok().json();
    let published = published::layout(&layouts.layout("out"), "v1").unwrap();
    for (at, (platform, machine)) in FIVE.into_iter().enumerate() {
        let (told, image) = (&report["platforms"][at], &published.images[at]);
        assert_eq!((told["platform"].as_str(), image.platform.as_str()), (Some(platform), platform));
        assert_eq!(told["binaries"][0]["machine"], machine);
        assert_eq!(image.layers[..2], fixtures::new_base(platform).build().layers());
        assert_eq!(image.layers[2..], [layers[at].digest()]);
    }

    // The program of ppc64le where that of s390x should be.
    let layouts = stage_of(&|platform| if platform == "linux/s390x" { 3 } else { place(platform) });
    let report = layouts.rebase("out").arg("--json").run().refused().json();
    let said: Vec<Vec<String>> = report["platforms"].as_array().unwrap().iter().map(findings).collect();
    // Whether a program of the last three names HOME, which the new base sets to another value, cannot be read.
    let home = "warn env-lost";
    let expected: [&[&str]; 5] = [&[], &[], &[home], &[home], &["refuse wrong-machine", home]];
    assert_eq!(said, expected);
    assert!(!layouts.layout("out").exists(), "a refusal writes nothing");
}
