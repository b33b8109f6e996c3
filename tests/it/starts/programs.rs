//! Programs of real compilers, started where they were built and where they were moved to. What
//! would not start there is refused, and nothing is written.

use crate::support::fixtures;
use crate::support::layouts::{Layouts, findings, old_base, upon};
use crate::support::programs::{c, go, libraries};
use crate::support::skip::{need, or_skip};
use crate::support::tar_layer::{Layer, Pack, program};

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
    for (name, bytes, line) in [
        ("gcc -static", c("gcc", &["-static"], C), "C, quiet\n"),
        ("gcc -static-pie", c("gcc", &["-static-pie"], C), "C, quiet\n"),
        ("musl-gcc -static", c("musl-gcc", &["-static"], C), "C, quiet\n"),
        ("go", go(GO, &[("GOARCH", "amd64")]), "Go, quiet\n"),
    ] {
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
    for (bytes, line) in
        [(c("gcc", &[], C), "C, quiet\n"), (go(CGO, &[("CGO_ENABLED", "1"), ("GOARCH", "amd64")]), "cgo, quiet\n")]
    {
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
