//! What real programs show of the tools they run and the libraries they load, each beside a twin
//! that names the same and does not.

use std::path::Path;

use serde_json::Value;

use super::compiled::{Go, OUTSIDE_OF_MODULES, sandbox_with};
use super::look;
use crate::support::invocation::Sandbox;
use crate::support::skip::{need, or_skip};

fn tools(sandbox: &Sandbox, file: &Path) -> Vec<String> {
    let (json, _) = look(sandbox, file);
    let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
    json["tools"].as_array().unwrap().iter().map(name).collect()
}

/// The tools of a Go program with this body of `main`, with symbols and without.
fn tools_of_go(go: &Go, imports: &str, body: &str) -> Vec<String> {
    let source = format!("package main\nimport ({imports})\nfunc main() {{ {body} }}\n");
    std::fs::write(go.sandbox.path("here").join("main.go"), source).unwrap();
    let [plain, stripped] = ["", "-s -w"].map(|flags| {
        let out = go.build(&[OUTSIDE_OF_MODULES], &[&format!("-ldflags={flags}"), "main.go"]);
        tools(&go.sandbox, &out)
    });
    assert_eq!(plain, stripped, "{body}");
    stripped
}

#[test]
fn a_go_program_that_runs_a_tool_shows_it() {
    or_skip!(need(&["go"]));
    let go = Go::new("");
    for (imports, body, expected) in [
        (
            r#""os/exec""#,
            r#"exec.Command("iptables", "-L").Run(); exec.Command("ip6tables").Run()"#,
            &["iptables", "ip6tables"][..],
        ),
        (r#""os/exec""#, r#"exec.Command("dnsmasq", "-k").Run(); exec.LookPath("kubectl")"#, &["dnsmasq", "kubectl"]),
        (r#""os/exec""#, r#"exec.Command("/sbin/conntrack", "-D").Run()"#, &["conntrack"]),
        (r#""os""#, r#"os.StartProcess("/usr/bin/mount", nil, nil)"#, &["mount"]),
        (r#""syscall""#, r#"syscall.Exec("/usr/local/bin/systemctl", nil, nil)"#, &["systemctl"]),
        // It runs something, and speaks of tools.
        (
            r#""os/exec"; "net/http""#,
            r#"exec.Command("./own").Run(); http.ListenAndServe("no iptables here, /sbin/mount is missing", nil);
               println("kubectl.kubernetes.io/last-applied", "iptables-save failed", "amount", "conntrack", "bridge-nf-call-iptables")"#,
            &[],
        ),
        // It names a tool, and cannot run anything.
        (r#""net/http""#, r#"http.ListenAndServe("iptables", nil); println("/sbin/ip6tables")"#, &[]),
    ] {
        assert_eq!(tools_of_go(&go, imports, body), expected, "{body}");
    }
}

#[test]
fn a_c_program_that_runs_a_tool_shows_it() {
    or_skip!(need(&["gcc", "musl-gcc"]));
    for (body, expected) in [
        (r#"system("iptables -t nat -L");"#, &["iptables"][..]),
        (r#"execlp("ebtables", "ebtables", a[1], NULL);"#, &["ebtables"]),
        (r#"execl("/sbin/ipset", "ipset", "list", NULL);"#, &["ipset"]),
        (r#"system("mount -a");"#, &["mount"]),
        ("mount(a[1], a[2], a[3], 0, 0); umount(a[1]);", &[]),
        (r#"puts("iptables is missing"); puts("no modprobe"); puts("/etc/dnsmasq"); puts("mount - see above");"#, &[]),
    ] {
        let includes = "#include <stdio.h>\n#include <stdlib.h>\n#include <sys/mount.h>\n#include <unistd.h>\n";
        let sandbox = sandbox_with("main.c", &format!("{includes}int main(int n, char **a) {{ {body} return 0; }}\n"));
        for (compiler, flag) in [("gcc", "-static"), ("gcc", "-static-pie"), ("gcc", "-O2"), ("musl-gcc", "-static")] {
            sandbox.program(compiler, ["-w", flag, "main.c", "-o", "out"]).run().ok();
            let out = sandbox.path("here").join("out");
            assert_eq!(tools(&sandbox, &out), expected, "{compiler} {flag} {body}");
        }
    }
}

#[test]
fn a_library_that_is_loaded_later_is_named_and_one_of_glibc_is_not() {
    or_skip!(need(&["gcc"]));
    let source =
        |name: &str| format!("#include <dlfcn.h>\nint main(void) {{ return dlopen(\"{name}\", RTLD_NOW) != 0; }}\n");
    for (name, expected) in [("libsystemd.so.0", &["libsystemd.so"][..]), ("libnss_dns.so.2", &[])] {
        let sandbox = sandbox_with("main.c", &source(name));
        sandbox.program("gcc", ["-w", "-static", "main.c", "-o", "out"]).run().ok();
        let (json, _) = look(&sandbox, &sandbox.path("here").join("out"));
        assert_eq!(json["libraries"], serde_json::json!(expected), "{name}");
    }
}
