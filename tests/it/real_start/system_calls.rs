//! Which system calls a program in the sandbox may make: none that Docker's and containerd's default profiles do not
//! allow, and enough for ordinary programs.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use super::rootless::{self, Lent, as_user, can_start};
use super::{assert_nothing_is_left, start_in, start_of};
use crate::support::layouts::Layouts;
use crate::support::programs::{GoCompiler, c};
use crate::support::recipe::Recipe;
use crate::support::skip::{need, or_skip};
use crate::support::starting::CAPABILITIES;
use crate::support::tar_layer::{Entry, Layer, Pack, program, symlink};
use crate::support::tools::newer_directory;

const CALLS: &str = include_str!("calls.c");

/// An image of the program that tries them all.
pub(super) fn trying_calls(user: &str) -> Layouts {
    let calls = program("calls", c("cc", &["-static", "-O1", "-w"], CALLS));
    image(&[calls], json!({"Entrypoint": ["/calls"], "User": user}))
}

fn image(files: &[Entry], config: Value) -> Layouts {
    let app = Recipe { config, ..Recipe::new("linux/amd64", vec![Layer::of(Pack::Gzip, files)]) };
    Layouts::on(&app, &app)
}

#[test]
fn every_call_that_an_attack_needs_is_denied() {
    or_skip!(can_start());
    for user in ["0", "1234"] {
        for by_root in [true, false] {
            let layouts = trying_calls(user);
            let start = ["start", "oci:app:v1", "--no-cache", "--seconds", "1", "--json"];
            if !by_root {
                rootless::open_to_user(&layouts);
            }
            let start = if by_root { start_in(&layouts) } else { as_user(&layouts, Lent::Yes, &start) };
            let report = start.run().ok().json();
            assert_eq!(start_of(&report)["stdout"], json!(["tried"]), "{user}: {report:#}");
            assert_nothing_is_left(&layouts);
        }
    }
}

/// The filter that a runtime is told: a script in its place keeps it.
fn our_filter() -> Value {
    let layouts = image(&[program("app", "x")], json!({"Entrypoint": ["/app"]}));
    let (script, kept) = (layouts.sandbox.path("runtime"), layouts.sandbox.path("config.json"));
    let text = format!(
        "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = --bundle ] && cp \"$2/config.json\" {}; shift; done; exit 1\n",
        kept.display()
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let start = ["start", "oci:app:v1", "--no-cache", "--runtime"];
    layouts.underpin(&start).arg(&script).run().fails("local-io");
    let config: Value = serde_json::from_slice(&std::fs::read(kept).unwrap()).unwrap();
    let filter = config["linux"]["seccomp"].clone();
    assert_eq!(filter["defaultAction"], "SCMP_ACT_ERRNO");
    filter
}

fn words(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().map(|word| word.as_str().unwrap()).collect()
}

/// The calls that a filter allows, each with its conditions: as an engine resolves them for a container with the
/// capabilities that it gives by default.
fn allowed(filter: &Value) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for rule in filter["syscalls"].as_array().unwrap() {
        let (with, without) = (&rule["includes"], &rule["excludes"]);
        let is_ours = words(&with["caps"]).iter().all(|name| CAPABILITIES.contains(name))
            && (with["arches"].is_null() || words(&with["arches"]).contains(&"amd64"))
            && !words(&without["caps"]).iter().any(|name| CAPABILITIES.contains(name))
            && !words(&without["arches"]).contains(&"amd64");
        if is_ours && rule["action"] == "SCMP_ACT_ALLOW" {
            for name in words(&rule["names"]) {
                let conditions = rule["args"].as_array().filter(|args| !args.is_empty());
                all.entry(name.to_owned()).or_default().extend(conditions.map(|args| json!(args).to_string()));
            }
        }
    }
    all
}

#[test]
fn nothing_is_allowed_that_dockers_default_profile_does_not_allow() {
    let package = or_skip!(newer_directory("trixie/golang-github-docker-docker-dev"));
    let file = package.join("usr/share/gocode/src/github.com/docker/docker/profiles/seccomp/default.json");
    let shipped: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let ours = our_filter();
    assert_eq!(
        (&ours["defaultAction"], &ours["defaultErrnoRet"]),
        (&shipped["defaultAction"], &shipped["defaultErrnoRet"])
    );
    assert_eq!(ours["architectures"], json!(["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]));
    let (ours, theirs) = (allowed(&ours), allowed(&shipped));
    let taken: BTreeSet<&str> = theirs.keys().filter(|name| !ours.contains_key(*name)).map(String::as_str).collect();
    let expected = [
        "clock_adjtime",
        "clock_adjtime64",
        "name_to_handle_at",
        "process_vm_readv",
        "process_vm_writev",
        "ptrace",
        "socketcall",
    ];
    assert_eq!(taken, BTreeSet::from(expected));
    for (name, conditions) in &ours {
        let theirs = theirs.get(name).unwrap_or_else(|| panic!("{name} is allowed by us only"));
        // Ours are of another form, and fewer.
        assert!(name == "socket" || conditions == theirs, "{name}: {conditions:?} {theirs:?}");
    }
    assert_eq!(ours["socket"].len(), 5);
}

#[test]
fn nothing_is_allowed_that_containerds_default_profile_does_not_name() {
    let package = or_skip!(newer_directory("trixie/golang-github-containerd-containerd-dev"));
    let file = package.join("usr/share/gocode/src/github.com/containerd/containerd/contrib/seccomp/seccomp_default.go");
    let code = std::fs::read_to_string(file).unwrap();
    let named: BTreeSet<&str> = code.split('"').skip(1).step_by(2).collect();
    let ours = allowed(&our_filter());
    let only_ours: Vec<&String> = ours.keys().filter(|name| !named.contains(name.as_str())).collect();
    assert_eq!(only_ours, Vec::<&String>::new());
}

/// The programs of this machine, on their own libraries, which the image sees by the links of a merged `/usr`.
#[test]
fn ordinary_programs_start_with_threads_sockets_and_children() {
    or_skip!(need(&["runc", "cc", "python3", "node"]));
    let python = "import threading, socket, subprocess, asyncio, multiprocessing, tempfile, ssl, time\n\
        server = socket.create_server(('', 8080))\n\
        threads = [threading.Thread(target=time.sleep, args=(0.1,)) for _ in range(50)]\n\
        [t.start() for t in threads]; [t.join() for t in threads]\n\
        socket.create_connection(('127.0.0.1', 8080)); socket.socketpair(); tempfile.TemporaryFile()\n\
        print(subprocess.check_output(['/bin/sh', '-c', 'echo child; id -u']).decode().split())\n\
        asyncio.run(asyncio.sleep(0.01))\n\
        with multiprocessing.Pool(2) as pool: print(pool.map(abs, [-1, -2]))\n\
        time.sleep(60)";
    let node = "require('http').createServer().listen(8080); require('fs').readFile('/etc/hosts', () => \
        console.log(require('child_process').execSync('echo child').toString()))";
    let links = ["bin", "sbin", "lib", "lib64"].map(|name| symlink(name, &format!("usr/{name}")));
    for (command, lines) in [
        (["/usr/bin/python3", "-uc", python], json!(["['child', '0']", "[1, 2]"])),
        (["/usr/bin/node", "-e", node], json!(["child"])),
    ] {
        if !Path::new(command[0]).exists() {
            continue;
        }
        let layouts = image(&links, json!({"Entrypoint": command}));
        let run = layouts.underpin(&["start", "oci:app:v1", "--no-cache", "--seconds", "5", "--json"]);
        let report = run.args(["--start-mount", "/usr:/usr"]).run().ok().json();
        let start = start_of(&report);
        assert_eq!((&start["ports"], &start["stdout"]), (&json!([8080]), &lines), "{report:#}");
        assert_nothing_is_left(&layouts);
    }
}

#[test]
fn a_go_program_starts_with_goroutines_and_sockets() {
    or_skip!(need(&["runc", "go"]));
    let source = "package main\nimport (\"fmt\"; \"net\"; \"os\"; \"sync\"; \"time\")\nfunc main() {\n\
        var group sync.WaitGroup\nfor n := 0; n < 200; n++ { group.Add(1); go func() { defer group.Done(); os.ReadFile(\"/proc/self/status\") }() }\n\
        group.Wait()\nif _, err := net.Listen(\"tcp\", \":8080\"); err != nil { panic(err) }\n\
        fmt.Println(\"ready\")\ntime.Sleep(time.Minute) }\n";
    let built = GoCompiler::usual().build(source, &[("CGO_ENABLED", "0")], &[]);
    let layouts = image(&[program("app", built)], json!({"Entrypoint": ["/app"]}));
    let report = start_in(&layouts).run().ok().json();
    let start = start_of(&report);
    assert_eq!((&start["ports"], &start["stdout"]), (&json!([8080]), &json!(["ready"])), "{report:#}");
    assert_nothing_is_left(&layouts);
}
