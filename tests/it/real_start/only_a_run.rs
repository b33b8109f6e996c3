//! What only a run can decide, with programs as people have them: accepted by what files show, refused by a start, and
//! moved once the flags that the findings name are given. Each has a twin that needs nothing of the old base.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::assert_nothing_is_left;
use crate::hints::inventory::Pattern;
use crate::support::invocation::Invocation;
use crate::support::layouts::{Layouts, findings, old_base, upon};
use crate::support::programs::{Machine, c, libraries, prints};
use crate::support::skip::{Part, missing, need, or_skip};
use crate::support::tar_layer::{Entry, Layer, Pack, file, folder, program, symlink};
use crate::support::tools::newer;

const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// A program, its arguments, and what the old base and the image have of what it needs.
struct RunCase {
    program: Vec<u8>,
    arguments: &'static [&'static str],
    old: Vec<Entry>,
    own: Vec<Entry>,
    /// What the files do show is allowed.
    allowed: &'static [&'static str],
    /// Arguments that only the start has, as those of a pod.
    given: &'static [&'static str],
}

impl RunCase {
    fn new(program: Vec<u8>, arguments: &'static [&'static str]) -> Self {
        Self { program, arguments, old: Vec::new(), own: Vec::new(), allowed: &[], given: &[] }
    }

    fn old(self, old: Vec<Entry>) -> Self {
        Self { old, ..self }
    }

    fn own(self, own: Vec<Entry>) -> Self {
        Self { own, ..self }
    }

    fn allowed(self, allowed: &'static [&'static str]) -> Self {
        Self { allowed, ..self }
    }

    fn given(self, given: &'static [&'static str]) -> Self {
        Self { given, ..self }
    }

    fn layouts(&self) -> Layouts {
        let old = old_base(&[vec![folder("usr/bin/"), folder("usr/share/")], self.old.clone()].concat());
        let own = [vec![program("app", self.program.clone())], self.own.clone()].concat();
        let command: Vec<&str> = ["/app"].into_iter().chain(self.arguments.iter().copied()).collect();
        Layouts::on(&old, &upon(&old, [Layer::of(Pack::Gzip, &own)], json!({"Entrypoint": command})))
    }

    fn start(&self, layouts: &Layouts, out: &str) -> Invocation {
        let rebase = layouts.rebase(out).args(["--start=1", "--json"]).args(self.allowed);
        self.given.iter().fold(rebase, |rebase, word| rebase.args(["--start-arg", word]))
    }

    /// Nothing but a start refuses it, with this rule; what the findings then name makes it start.
    fn is_decided_by_a_run(&self, rule: &str) {
        let layouts = self.layouts();
        layouts.rebase("plain").args(self.allowed).run().ok();
        let started = self.start(&layouts, "out").run().refused().json();
        let found = findings(&started["platforms"][0]);
        assert!(found.contains(&format!("refuse {rule}")), "{rule}: {started:#}");
        assert!(!layouts.layout("out").exists(), "what is refused is not published");
        let flags = named_flags(&started["platforms"][0]);
        assert!(!flags.is_empty(), "{started:#}");
        let mended = self.start(&layouts, "mended").args(&flags).run().ok().json();
        assert_eq!(mended["platforms"][0]["started"]["result"]["outcome"], started_outcome(&started), "{mended:#}");
        assert_nothing_is_left(&layouts);
    }

    fn moves(&self) {
        let layouts = self.layouts();
        self.start(&layouts, "out").run().ok();
        assert_nothing_is_left(&layouts);
    }
}

fn started_outcome(report: &Value) -> Value {
    report["platforms"][0]["started"]["source"]["outcome"].clone()
}

/// What the findings about opened files say: `pass --bring /x, which adds 1 KiB; if …`.
const HINT: &str = "pass {}; if the program does without it, pass --allow opened-but-missing={path}";

/// `--bring /x` and `--keep /x`, as the findings about opened files have them.
fn named_flags(platform: &Value) -> Vec<String> {
    let all = platform["findings"].as_array().unwrap().iter();
    let fixes = all.filter(|finding| finding["rule"] == "opened-but-missing").map(|finding| {
        let fix = finding["fix"].as_str().unwrap();
        assert!(Pattern::of(HINT).matches(fix), "{fix}");
        fix.strip_prefix("pass ").and_then(|fix| fix.split([',', ';']).next()).unwrap_or_else(|| panic!("{finding:#}"))
    });
    let mut flags: Vec<&str> = fixes.collect();
    flags.sort_unstable();
    flags.dedup();
    flags.iter().flat_map(|flag| flag.split(' ').map(str::to_owned)).collect()
}

fn of_host(path: &str) -> Entry {
    let bytes = std::fs::read(Path::new("/").join(path)).unwrap();
    if path.contains(".so") { program(path, bytes) } else { file(path, bytes) }
}

/// What a static program of glibc loads its modules with.
fn loader_and_libc() -> Vec<Entry> {
    let names = ["libc.so.6", "ld-linux-x86-64.so.2"].map(|name| of_host(&format!("{LIBRARIES}/{name}")));
    let links = [symlink("lib64", "usr/lib64"), folder("usr/lib64/")];
    let loader = symlink("usr/lib64/ld-linux-x86-64.so.2", "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2");
    [vec![symlink("lib", "usr/lib")], links.to_vec(), vec![loader], names.to_vec()].concat()
}

fn has_glibc() -> Part<()> {
    need(&["runc", "gcc"])?;
    let path = Path::new("/").join(LIBRARIES).join("gconv/ISO8859-15.so");
    if path.exists() { Ok(()) } else { Err(missing("the modules of glibc")) }
}

const NOTES: &str = r#"
#include <fcntl.h>
#include <unistd.h>
int main(int count, char **word) { open(count > 1 ? "/own-notes" : "/usr/share/notes", O_RDONLY); for (;;) pause(); }
"#;

/// What UPX makes of a program: none of its strings can be read.
pub fn packed(of: &[u8]) -> Part<Vec<u8>> {
    let upx = newer("trixie/upx-ucl", "upx-ucl")?;
    let suite: PathBuf = upx.ancestors().nth(4).unwrap().to_owned();
    let libraries =
        ["libc6", "libstdc++6", "libgcc-s1"].map(|name| suite.join(name).join(LIBRARIES).display().to_string());
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("program"), place.path().join("packed"));
    std::fs::write(&from, of).unwrap();
    crate::support::tools::tool("chmod", &["755", from.to_str().unwrap()]);
    let loader = suite.join("libc6").join(LIBRARIES).join("ld-linux-x86-64.so.2");
    let mut command = std::process::Command::new(loader);
    command.arg("--library-path").arg(libraries.join(":")).arg(&upx).arg("-q").arg("-o").arg(&to).arg(&from);
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    Ok(std::fs::read(to).unwrap())
}

#[test]
fn a_packed_program_is_decided_by_a_run() {
    or_skip!(need(&["runc", "gcc"]));
    let plain = c("gcc", &["-static", "-O1"], NOTES);
    let packed = or_skip!(packed(&plain));
    let contains = |bytes: &[u8]| bytes.windows(12).any(|part| part == b"/share/notes");
    assert!(contains(&plain) && !contains(&packed));
    // That it is packed is a refusal of its own; whoever allows it has nothing but a start.
    let case = |arguments| RunCase::new(packed.clone(), arguments).allowed(&["--allow", "packed-binary=/app"]);
    case(&[]).old(vec![file("usr/share/notes", "x")]).is_decided_by_a_run("opened-but-missing");
    case(&["own"]).own(vec![file("own-notes", "x")]).moves();
}

const LOADS: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **word) {
    if (!dlopen(word[1], RTLD_NOW)) { fprintf(stderr, "%s\n", dlerror()); return 4; }
    puts("loaded");
    return 0;
}
"#;

/// The program and its own libraries are the image's; the library that its argument names is the old base's.
#[test]
fn a_library_that_an_argument_names_is_decided_by_a_run() {
    or_skip!(need(&["runc", "gcc", "ldd"]));
    let loads = c("gcc", &["-O1"], LOADS);
    let plugin = c("gcc", &["-shared", "-fPIC"], "int answer(void) { return 42; }");
    let case = || RunCase::new(loads.clone(), &["libplugin.so"]);
    let there = |path: &str| program(path, plugin.clone());
    case()
        .old(vec![folder("usr/lib/"), there("usr/lib/libplugin.so")])
        .own(libraries(&loads))
        .is_decided_by_a_run("start-failed");
    case().own([libraries(&loads), vec![there("usr/lib/libplugin.so")]].concat()).moves();
}

const CONVERTS: &str = r#"
#include <iconv.h>
#include <stdio.h>
int main(int count, char **word) {
    if (iconv_open(word[1], "UTF-8") == (iconv_t)-1) { perror(word[1]); return 4; }
    puts("converts");
    return 0;
}
"#;

#[test]
fn a_character_set_of_static_glibc_is_decided_by_a_run() {
    or_skip!(has_glibc());
    let converts = c("gcc", &["-static", "-O1"], CONVERTS);
    let modules =
        ["gconv/gconv-modules.cache", "gconv/ISO8859-15.so"].map(|name| of_host(&format!("{LIBRARIES}/{name}")));
    let old = [loader_and_libc(), modules.to_vec()].concat();
    RunCase::new(converts.clone(), &["ISO-8859-15"]).old(old).is_decided_by_a_run("start-failed");
    RunCase::new(converts, &["UCS-2"]).moves();
}

const LOOKS_UP: &str = r#"
#include <pwd.h>
#include <stdio.h>
#include <unistd.h>
int main(void) { puts(getpwnam("app") ? "known" : "unknown"); for (;;) pause(); }
"#;

#[test]
fn a_name_service_of_static_glibc_is_decided_by_a_run() {
    or_skip!(has_glibc());
    let looks_up = c("gcc", &["-static", "-O1", "-w"], LOOKS_UP);
    let accounts = || file("etc/passwd", "root:x:0:0::/:/x\napp:x:7:7::/:/x\n");
    let module = of_host(&format!("{LIBRARIES}/libnss_compat.so.2"));
    let services = file("etc/nsswitch.conf", "passwd: compat\n");
    RunCase::new(looks_up.clone(), &[])
        .old([loader_and_libc(), vec![module]].concat())
        .own(vec![accounts(), services])
        .is_decided_by_a_run("opened-but-missing");
    RunCase::new(looks_up, &[]).own(vec![accounts(), file("etc/nsswitch.conf", "passwd: files\n")]).moves();
}

const RUNS: &str = r"
#include <stdio.h>
#include <unistd.h>
int main(int count, char **word) { execvp(word[1], word + 1); perror(word[1]); return 127; }
";

#[test]
fn a_program_that_an_argument_names_is_decided_by_a_run() {
    or_skip!(need(&["runc", "gcc"]));
    let runs = c("gcc", &["-static", "-O1"], RUNS);
    let tool = |path: &str| program(path, prints(Machine::Amd64, "tool\n"));
    let case = || RunCase::new(runs.clone(), &[]).given(&["some-tool"]);
    case().old(vec![tool("usr/bin/some-tool")]).is_decided_by_a_run("start-failed");
    case().own(vec![tool("usr/bin/some-tool")]).moves();
    // The kernel tells the file, and not the link by which it was found.
    let box_of_tools = |links: &[&str]| {
        let links = links.iter().map(|name| symlink(&format!("usr/bin/{name}"), "tools"));
        [tool("usr/bin/tools")].into_iter().chain(links).collect::<Vec<Entry>>()
    };
    case().old(box_of_tools(&["some-tool"])).is_decided_by_a_run("start-failed");
    case().old(box_of_tools(&["other", "some-tool"])).is_decided_by_a_run("start-failed");
    let layouts = case().old(box_of_tools(&["a", "b", "c", "d", "some-tool"])).layouts();
    case().start(&layouts, "out").run().refused().says("--bring with the name that it is opened by: it has 6");
    case().start(&layouts, "out").args(["--bring", "some-tool"]).run().ok();
}
