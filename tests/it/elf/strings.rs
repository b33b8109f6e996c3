//! Which strings real programs refer to: what every compiler makes of the same source, for every machine and
//! way to build that matters, beside a twin that has the same text inside other strings only.

use elf::{Probe, Program, ReferredBy, StartsOthers};

use crate::support::programs::{GoCompiler, c, go_compilers, rust};
use crate::support::skip::{need, or_skip};
use crate::support::sweep;

fn probe(bytes: &[u8]) -> Program {
    let mut probe = Probe::new(bytes.len() as u64);
    bytes.chunks(100_000).for_each(|piece| probe.feed(piece));
    probe.finish()
}

fn paths(program: &Program) -> Vec<&str> {
    program.strings.paths.iter().map(|path| path.text.as_str()).collect()
}

/// Every way in which Go refers to a string, each with a text of its own.
const REFERS: &str = r#"package main

import ("fmt"; "os"; "os/exec")

var global = "/opt/tool/global"
var list = []string{"systemctl", "try-restart"}
var table = map[string]string{"zfs-key": "/sbin/zpool", "btrfs-key": "mkfs.btrfs"}

type pair struct { name, path string; number int }

//go:noinline
func fill(p *pair) { p.name = "pointed-at"; p.path = "/pointed/path" }

//go:noinline
func many(a int, b string, c int, d string) { fmt.Println(a, b, c, d) }

func choose(one bool) string { if one { return "mercurial" }; return "subversion" }

func main() {
	exec.Command("git", "git-status").Run()
	exec.Command("/usr/sbin/dnsmasq", "-k").Run()
	exec.LookPath("iptables")
	os.Getenv("MY_HOME")
	p := &pair{}
	fill(p)
	many(3, "modprobe", 9, "ethtool")
	args := []string{"--wait"}
	if len(os.Args) > 2 { args = append(args, "ipset-restore", "/sbin/ipset") }
	cmd := exec.Cmd{Path: "/bin/udevadm", Args: []string{"udevadm", "settle-all"}}
	cmd.Run()
	fmt.Println(global, list, table, choose(len(os.Args) > 1), p, args)
	fmt.Println("gitignored", "/usr/sbin/dnsmasq-not", "iptables is not available", "unsystemctl")
	exec.Command("sh", "-c", "nft -f rules").Run()
}
"#;

const WORDS: [&str; 19] = [
    "MY_HOME",
    "btrfs-key",
    "ethtool",
    "git",
    "git-status",
    "gitignored",
    "ipset-restore",
    "iptables",
    "mercurial",
    "mkfs.btrfs",
    "modprobe",
    "pointed-at",
    "settle-all",
    "subversion",
    "systemctl",
    "try-restart",
    "udevadm",
    "unsystemctl",
    "zfs-key",
];
const PATHS: [&str; 7] = [
    "/bin/udevadm",
    "/opt/tool/global",
    "/pointed/path",
    "/sbin/ipset",
    "/sbin/zpool",
    "/usr/sbin/dnsmasq",
    "/usr/sbin/dnsmasq-not",
];

/// The same text, and nothing of it is a string of its own.
const SPEAKS: &str = r#"package main

import ("fmt"; "os"; "os/exec")

func main() {
	exec.Command(os.Args[1]).Run()
	fmt.Println("no git, mercurial or subversion: iptables, modprobe and ethtool are missing", "a/usr/sbin/dnsmasq")
	fmt.Println("gitmercurialsubversion", "xMY_HOMEx", "see /sbin/zpool", "systemctl-try-restart", "(udevadm)")
}
"#;

/// What each way to build adds to the command.
const WAYS: [(&str, &[&str]); 5] = [
    ("plain", &[]),
    ("stripped", &["-ldflags=-s -w"]),
    ("trimmed", &["-trimpath", "-ldflags=-s -w"]),
    ("guided", &["-pgo=main.pgo"]),
    ("pie", &["-buildmode=pie"]),
];

fn built(compiler: &GoCompiler, machine: &str, source: &str, flags: &[&str]) -> Program {
    probe(&compiler.build(source, &[("GOARCH", machine)], flags))
}

/// Go 1.19 has no profile-guided builds.
fn can(compiler: &GoCompiler, way: &str) -> bool {
    way != "guided" || !compiler.version().starts_with("go1.19")
}

fn check_refers(program: &Program, what: &str) {
    let has = |word: &&str| program.strings.words.iter().any(|known| known == word);
    let missing: Vec<&&str> = WORDS.iter().filter(|word| !has(word)).collect();
    assert!(missing.is_empty(), "{what}: no {missing:?} in {:?}", program.strings.words);
    let missing: Vec<&&str> = PATHS.iter().filter(|path| !paths(program).contains(path)).collect();
    assert!(missing.is_empty(), "{what}: no {missing:?} in {:?}", paths(program));
    assert!(program.strings.complete, "{what}");
    assert_eq!(program.starts, StartsOthers::Able, "{what}");
    // What the functions that start programs are given, also where they are inlined.
    assert_eq!(program.strings.calls, ["/usr/sbin/dnsmasq", "git", "iptables", "sh"], "{what}");
    let commands = &program.strings.command_words;
    assert!(["iptables", "nft"].iter().all(|word| commands.iter().any(|known| known == word)), "{what}: {commands:?}");
    // What begins or ends like one of them is another one of them.
    let of_test = |text: &str| WORDS.contains(&text) || PATHS.contains(&text);
    let near = |text: &&str| {
        let parts = ["iptables", "systemctl", "dnsmasq", "mercurial", "subversion", "modprobe", "udevadm", "zpool"];
        let is_near = text.starts_with("git") || parts.iter().any(|part| text.contains(part));
        is_near && !of_test(text)
    };
    let fused: Vec<&str> =
        program.strings.words.iter().map(String::as_str).chain(paths(program)).filter(near).collect();
    assert!(fused.is_empty(), "{what}: {fused:?}");
    assert!(["is", "not", "available"].iter().all(|word| !has(word)), "{what}");
}

fn check_speaks(program: &Program, what: &str) {
    let words = WORDS.iter().filter(|word| !word.starts_with("git-") && !word.starts_with("un"));
    for word in words {
        assert!(!program.strings.words.iter().any(|known| known == word), "{what}: {word}");
    }
    assert!(PATHS.iter().all(|path| !paths(program).contains(path)), "{what}: {:?}", paths(program));
    assert!(program.strings.calls.is_empty(), "{what}: {:?}", program.strings.calls);
}

#[test]
fn go_programs_show_the_strings_they_refer_to_whatever_built_them() {
    let compilers = or_skip!(go_compilers());
    for compiler in compilers {
        for machine in sweep::times(&["amd64"][..], &["amd64", "arm64"]) {
            for (way, flags) in
                WAYS.into_iter().take(sweep::times(2, WAYS.len())).filter(|(way, _)| can(&compiler, way))
            {
                let what = format!("{} {machine} {way}", compiler.version());
                check_refers(&built(&compiler, machine, REFERS, flags), &what);
            }
            let what = format!("{} {machine}", compiler.version());
            check_speaks(&built(&compiler, machine, SPEAKS, &[]), &what);
        }
    }
}

#[test]
fn code_that_cannot_be_read_is_no_proof_that_a_string_is_not_used() {
    let compilers = or_skip!(go_compilers());
    for machine in sweep::some(vec!["s390x", "arm", "ppc64le", "riscv64", "386"], 1) {
        let program = built(&compilers[0], machine, REFERS, &[]);
        assert!(!program.strings.complete, "{machine}");
        // What data refers to is exact, and paths begin visibly.
        for word in ["systemctl", "try-restart"] {
            assert!(program.strings.words.iter().any(|known| known == word), "{machine} {word}");
        }
        let global = program.strings.paths.iter().find(|path| path.text == "/opt/tool/global");
        assert_eq!(global.unwrap().by, ReferredBy::Data, "{machine}");
        let begins = |path: &&&str| paths(&program).iter().any(|known| known.starts_with(**path));
        assert_eq!(["/usr/sbin/dnsmasq", "/sbin/ipset"].iter().filter(begins).count(), 2, "{machine}");
    }
}

#[test]
fn a_go_program_that_starts_nothing_says_so() {
    for compiler in or_skip!(go_compilers()) {
        let source = "package main\nimport \"net/http\"\nfunc main() { http.ListenAndServe(\"iptables\", nil) }\n";
        let program = built(&compiler, "amd64", source, &[]);
        assert_eq!(program.starts, StartsOthers::Never, "{}", compiler.version());
        assert!(program.strings.words.iter().any(|word| word == "iptables"));
    }
}

const C_REFERS: &str = r#"#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static const char *const tools[] = {"modprobe", "/sbin/ethtool", 0};
struct { const char *name; int length; } table[] = {{"ebtables-save", 8}, {"x-long", 2}};
int main(int n, char **a) {
	if (n > 5) execl("/usr/sbin/dnsmasq", "dnsmasq", "-k", (char *) 0);
	if (n > 4) execlp("systemctl", "systemctl", a[1], (char *) 0);
	if (n > 3) puts(getenv("MY_HOME"));
	if (n > 2) puts("iptables is not available");
	puts("xen-udevadm"); puts(n > 8 ? "udevadm" : "none-of-them");
	return puts(tools[n]) + puts(table[n].name) + table[n].length;
}
"#;

#[test]
fn c_programs_show_whole_strings_and_the_ends_that_code_points_to() {
    or_skip!(need(&["gcc", "musl-gcc"]));
    for (compiler, flags) in [
        ("gcc", &["-static", "-O0"][..]),
        ("gcc", &["-static", "-O2"]),
        ("gcc", &["-static-pie", "-O2"]),
        ("gcc", &["-O2"]),
        ("gcc", &["-O2", "-no-pie"]),
        ("gcc", &["-O2", "-s", "-Wl,-z,noseparate-code"]),
        ("musl-gcc", &["-static", "-O2", "-s"]),
    ] {
        let program = probe(&c(compiler, &[&["-w"], flags].concat(), C_REFERS));
        let what = format!("{compiler} {flags:?}");
        let has = |word: &&&str| program.strings.words.iter().any(|known| known == **word);
        let words = ["MY_HOME", "dnsmasq", "ebtables-save", "modprobe", "systemctl", "udevadm", "xen-udevadm"];
        let missing: Vec<&&str> = words.iter().filter(|word| !has(word)).collect();
        assert!(missing.is_empty(), "{what}: no {missing:?}");
        for path in ["/usr/sbin/dnsmasq", "/sbin/ethtool"] {
            assert!(paths(&program).contains(&path), "{what}: {path}");
        }
        let others = ["iptables", "not", "ebtables", "x-", "xen-", "puts", "__libc_start_main"];
        assert_eq!(others.iter().filter(has).collect::<Vec<_>>(), Vec::<&&str>::new(), "{what}");
        assert!(program.strings.command_words.iter().any(|word| word == "iptables"), "{what}");
        assert!(program.strings.complete, "{what}");
        assert_eq!(program.starts, StartsOthers::Able, "{what}");
    }
}

#[test]
fn a_c_program_that_hands_lines_to_a_shell_says_so() {
    or_skip!(need(&["gcc", "musl-gcc"]));
    let source =
        |call: &str| format!("#include <stdio.h>\n#include <stdlib.h>\nint main(void) {{ return {call} != 0; }}\n");
    for (compiler, flag) in [("gcc", "-static"), ("gcc", "-static-pie"), ("gcc", "-O2"), ("musl-gcc", "-static")] {
        for call in [r#"system("iptables -L")"#, r#"popen("iptables -L", "r")"#] {
            let program = probe(&c(compiler, &[flag], &source(call)));
            assert_eq!(program.starts, StartsOthers::Shell, "{compiler} {flag} {call}");
            assert!(program.strings.command_words.iter().any(|word| word == "iptables"), "{compiler} {flag}");
        }
        let program = probe(&c(compiler, &[flag], &source(r#"puts("/bin/sh runs -c sh")"#)));
        assert_eq!(program.starts, StartsOthers::Able, "{compiler} {flag}");
    }
}

#[test]
fn busybox_starts_none_of_the_tools_that_it_names_and_a_program_that_speaks_of_it_may() {
    or_skip!(need(&["busybox", "gcc"]));
    let busybox = crate::support::skip::find("busybox").unwrap();
    assert_eq!(probe(&std::fs::read(busybox).unwrap()).starts, StartsOthers::Never);
    let source =
        "#include <stdio.h>\nint main(void) { puts(\"BusyBox v1.35.0 is not installed\"); return puts(\"cat\"); }\n";
    assert_eq!(probe(&c("gcc", &["-static"], source)).starts, StartsOthers::Able);
}

#[test]
fn rust_programs_show_strings_with_their_length() {
    or_skip!(need(&["rustc"]));
    let source = r#"use std::process::Command;
static LIST: [&str; 2] = ["systemctl", "try-restart"];
fn main() {
    let _ = Command::new("git").arg("git-status").status();
    let _ = Command::new("/usr/sbin/dnsmasq").status();
    println!("{:?}", std::env::var("MY_HOME"));
    println!("{}", LIST[std::env::args().count() % 2]);
    println!("gitignored iptables is not available");
}
"#;
    for flags in [
        &[][..],
        &["-O"],
        &["-O", "-Cstrip=symbols"],
        &["-O", "-Crelocation-model=static"],
        &["-O", "-Ctarget-feature=+crt-static"],
    ] {
        let program = probe(&rust(flags, source));
        for word in ["git", "git-status", "MY_HOME", "systemctl", "try-restart"] {
            assert!(program.strings.words.iter().any(|known| known == word), "{flags:?}: {word}");
        }
        assert!(paths(&program).contains(&"/usr/sbin/dnsmasq"), "{flags:?}");
        let fused = program.strings.words.iter().chain(program.strings.paths.iter().map(|path| &path.text));
        let fused: Vec<&String> = fused.filter(|text| text.contains("git") || text.contains("dnsmasq")).collect();
        assert_eq!(fused, ["git", "git-status", "/usr/sbin/dnsmasq"], "{flags:?}");
        assert!(program.strings.complete, "{flags:?}");
    }
}
