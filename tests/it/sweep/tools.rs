//! Programs that call what only the old root had, and programs that merely speak of it.

use super::bases::{debian, distroless};
use super::case::{Case, attack, ordinary};
use super::program::{doing, tagged};
use crate::support::programs::{GoCompiler, known_go_compilers};
use crate::support::tar_layer::{file, folder, program};

pub fn cases() -> Vec<Case> {
    let go = known_go_compilers();
    [c_programs(), helpers(), go.iter().flat_map(go_programs).collect()].concat()
}

fn does(case: Case, code: &str) -> Case {
    case.only([program("app", doing(code))])
}

fn c_programs() -> Vec<Case> {
    let tool = || {
        debian().with([
            program("usr/sbin/dnsmasq", tagged("dnsmasq")),
            folder("opt/vendor/"),
            program("opt/vendor/frob", tagged("frob")),
        ])
    };
    vec![
        does(attack("calls-by-path"), "act(\"hook\", \"/usr/sbin/dnsmasq\")").old(tool()),
        does(attack("calls-by-path/odd-place"), "act(\"hook\", \"/opt/vendor/frob\")").old(tool()),
        does(attack("calls-by-path/bin-link"), "act(\"hook\", \"/bin/hostname\")"),
        does(ordinary("calls-by-path"), "act(\"hook\", \"/usr/sbin/dnsmasq\")")
            .files([folder("usr/sbin/"), program("usr/sbin/dnsmasq", tagged("dnsmasq"))]),
        does(ordinary("calls-by-path/of-the-new-base"), "act(\"hook\", \"/usr/sbin/dnsmasq\")")
            .old(tool())
            .new_base(distroless().with([program("usr/sbin/dnsmasq", tagged("dnsmasq"))])),
        // In C nothing shows that a word is passed to `exec`.
        does(attack("calls-by-name"), "act(\"hook\", \"dnsmasq\")").old(tool()).warned(["dnsmasq"]),
        does(ordinary("calls-by-name/in-a-message"), "say(\"dnsmasq is not running here\")").old(tool()),
        does(ordinary("calls-by-name"), "act(\"hook\", \"dnsmasq\")")
            .files([folder("usr/sbin/"), program("usr/sbin/dnsmasq", tagged("dnsmasq"))]),
        does(attack("calls-a-shell"), "if (system(\"/usr/bin/id >/dev/null\")) worst = 7"),
        does(ordinary("calls-a-shell"), "say(\"no shell\")"),
        does(attack("reads-data-of-the-base"), "act(\"config\", \"/usr/share/base/data\")")
            .warned(["/usr/share/base/data"]),
        does(ordinary("reads-data-of-the-base"), "act(\"config\", \"/usr/share/own/data\")")
            .files([folder("usr/share/own/"), file("usr/share/own/data", "x")]),
        does(ordinary("reads-data-of-the-base/both"), "act(\"config\", \"/etc/ssl/certs/ca-certificates.crt\")"),
        does(attack("writes-into-a-directory-of-the-base"), "act(\"data-dir\", \"/var/lib/base\")")
            .old(debian().with([folder("var/lib/base/")])),
        does(ordinary("writes-into-a-directory-of-the-base"), "act(\"data-dir\", \"/var/lib/own\")")
            .files([folder("var/lib/own/")]),
        does(attack("account-in-the-code"), "act(\"run-as\", \"www-data\")"),
        does(ordinary("account-in-the-code"), "act(\"run-as\", \"nobody\")"),
    ]
}

/// Programs of the application that the program starts.
fn helpers() -> Vec<Case> {
    let calls = |name: &str| format!("act(\"hook\", \"{name}\")");
    vec![
        attack("helper-that-calls").only([
            program("app", doing(&calls("/opt/helper"))),
            program("opt/helper", doing("act(\"hook\", \"/usr/bin/id\")")),
        ]),
        ordinary("helper-that-calls").only([
            program("app", doing(&calls("/opt/helper"))),
            program("opt/helper", doing("act(\"hook\", \"/opt/third\")")),
            program("opt/third", tagged("third")),
        ]),
        attack("helper-that-is-a-script")
            .only([program("app", doing(&calls("/opt/helper"))), program("opt/helper", "#!/bin/sh\nexit 0\n")]),
        ordinary("helper-that-is-a-script")
            .only([program("app", doing(&calls("/opt/helper"))), program("opt/helper", "#!/bin/sh\nexit 0\n")])
            .new_base(super::bases::with_shell()),
    ]
}

/// Go keeps its strings in one piece, without ends.
fn go_programs(compiler: &GoCompiler) -> Vec<Case> {
    let source = |body: &str| {
        format!(
            "package main\nimport (\"fmt\"; \"os\"; \"os/exec\")\nfunc run(name string) {{ err := exec.Command(name).Run(); if err == nil {{ fmt.Println(\"did hook \" + name + \": ok 0\") }} else {{ fmt.Println(\"did hook \" + name + \": failed\"); os.Exit(7) }} }}\nfunc read(name string) {{ _, err := os.ReadFile(name); if err == nil {{ fmt.Println(\"did config \" + name + \": ok\") }} else {{ fmt.Println(\"did config \" + name + \": failed\"); os.Exit(7) }} }}\nfunc main() {{ fmt.Println(\"observed go\"); _ = run; _ = read; {body} }}\n"
        )
    };
    let does = |case: Case, body: &str| {
        let name = format!("{}/{}", case.name, compiler.version());
        Case { name, ..case }.only([program("app", compiler.build(&source(body), &[], &[]))])
    };
    let called = |name: &str| {
        format!(
            "if exec.Command(\"{name}\").Run() == nil {{ fmt.Println(\"did hook {name}: ok 0\") }} else {{ os.Exit(7) }}"
        )
    };
    let tool = || debian().with([folder("usr/sbin/"), program("usr/sbin/dnsmasq", tagged("dnsmasq"))]);
    vec![
        does(attack("go-calls/by-path"), "run(\"/usr/sbin/dnsmasq\")").old(tool()),
        // Through a function of its own, which is not inlined, a name is no more than a word.
        does(attack("go-calls/by-name/passed-on"), "run(\"dnsmasq\")").old(tool()).warned(["dnsmasq"]),
        does(attack("go-calls/by-name"), &called("dnsmasq")).old(tool()),
        does(attack("go-calls/common-word"), &called("id")),
        does(ordinary("go-calls/in-a-message"), "fmt.Println(\"dnsmasq metrics are served at /usr/sbin\")").old(tool()),
        does(ordinary("go-calls/own"), "run(\"/opt/own\")").files([program("opt/own", tagged("own"))]),
        does(attack("go-reads"), "read(\"/usr/share/base/data\")").warned(["/usr/share/base/data"]),
        does(ordinary("go-reads"), "read(\"/etc/passwd\")"),
    ]
}
