//! The rules about what a container needs to start beside its program: each fires on what it is
//! about, and stays silent on the twin.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::*;
use crate::examine::Fetched;
use crate::examine::testing::{Put, entry, fetched, layer, program};
use crate::plan::testing::pass;
use crate::plan::{DirectoryState, RebaseOptions};
use crate::rules::{Level, Rule};
use elf::{GoFacts, Linkage, Program, ProgramString, ProgramStrings, ReferredBy, Script, StartsOthers, Tool};
use layer::{Entry, EntryKind, LayerIndex};
use oci::testing::TestImage;
use start::link::testing::{defining, glibc, library, needing, using};

/// An image with these container settings: `old` and `new` are its bases, `own` is its layer.
fn image(container: Value, old: LayerIndex, own: LayerIndex, new: LayerIndex) -> Fetched {
    let source = TestImage { container, ..TestImage::of(&["a", "app"]) };
    let mut subject = fetched(&source, &TestImage::of(&["a"]), &TestImage::of(&["n"]));
    let platform = &mut subject.platforms[0];
    let app = own.with_program("app", program(Linkage::Static));
    (platform.old_layers, platform.layers, platform.base_layers) =
        (vec![old.into()], vec![app.into()], vec![new.into()]);
    subject
}

fn found(subject: Fetched) -> Vec<(Rule, Level)> {
    let findings = judge(&pass(subject, &RebaseOptions::default()), &[]);
    findings.iter().map(|finding| (finding.rule, finding.level)).collect()
}

fn evidence(subject: Fetched) -> String {
    let findings = judge(&pass(subject, &RebaseOptions::default()), &[]);
    findings.iter().map(|finding| finding.evidence.as_str()).collect::<Vec<_>>().join("\n")
}

fn distroless() -> LayerIndex {
    layer("n")
        .with_text(
            "etc/passwd",
            "root:x:0:0::/root:/sbin/nologin\nnonroot:x:65532:65532::/home/nonroot:/sbin/nologin\n",
        )
        .with_text("etc/group", "root:x:0:\nnonroot:x:65532:\n")
}

const BY_NAME: (Rule, Level) = (Rule::UserByName, Level::Warn);

#[test]
fn user_missing_only_when_nobody_knows_the_account() {
    let debian = || {
        layer("a")
            .with_text("etc/passwd", "root:x:0:0::/:\napp:x:1000:1000::/home/app:/bin/sh\nnobody:x:65534:65534::/:\n")
            .with_text("etc/group", "nogroup:x:65534:\napp:x:1000:\n")
    };
    let runs_as =
        |user: &str| found(image(json!({"Entrypoint": ["/app"], "User": user}), debian(), layer("app"), distroless()));
    for user in ["", "0", "65532:65532", "12345"] {
        assert_eq!(runs_as(user), [], "{user}");
    }
    for user in ["root", "nonroot", "nonroot:nonroot", "app", "nobody:nogroup", "nonroot:nogroup"] {
        assert_eq!(runs_as(user), [BY_NAME], "{user}");
    }
    let refusal = (Rule::UserMissing, Level::Refuse);
    assert_eq!(runs_as("ghost"), [refusal, BY_NAME]);
    assert_eq!(runs_as("nonroot:ghosts"), [refusal, BY_NAME]);
    assert_eq!(runs_as("1000:ghosts"), [refusal]);
}

#[test]
fn account_number() {
    let debian = |id: u32| layer("a").with_text("etc/passwd", &format!("nonroot:x:{id}:{id}::/:\n"));
    let moved =
        |id| found(image(json!({"Entrypoint": ["/app"], "User": "nonroot"}), debian(id), layer("app"), distroless()));
    let changed = (Rule::UserChanged, Level::Warn);
    assert_eq!(moved(1000), [changed, (Rule::AccountNumber, Level::Warn), BY_NAME]);
    assert_eq!(moved(65532), [BY_NAME]);
}

#[test]
fn workdir_missing_only_when_it_cannot_be_made() {
    let file = || layer("app").with_text("data", "x").with_link("link", "nowhere");
    for (folder, refuses) in [
        ("/", false),
        ("/new/folder", false),
        ("/data", true),
        ("/data/x", true),
        ("relative", true),
        ("/link", true),
        ("/../x", true),
    ] {
        let container = json!({"Entrypoint": ["/app"], "WorkingDir": folder});
        let found = found(image(container, layer("a"), file(), distroless()));
        let expected: &[(Rule, Level)] = if refuses { &[(Rule::WorkdirMissing, Level::Refuse)] } else { &[] };
        assert_eq!(found, expected, "{folder}");
    }
}

#[test]
fn log_dir_missing_when_the_user_may_not_write() {
    let logs = |flag: &str, user: &str, mode: u32, volumes: Value| {
        let container = json!({"Entrypoint": ["/app", flag], "User": user, "Volumes": volumes});
        let own = layer("app").with(Entry { mode, ..entry("var/log/") });
        found(image(container, distroless(), own, distroless()))
    };
    let refusal = [(Rule::LogDirMissing, Level::Refuse)];
    assert_eq!(logs("--log-file=/var/log/app.log", "65532", 0o755, Value::Null), refusal);
    assert_eq!(logs("--log_file=/var/log/app.log", "65532:1", 0o775, Value::Null), refusal);
    assert_eq!(logs("--log-file=/app/app.log", "", 0o755, Value::Null), refusal, "below a file");
    for (flag, user, mode, volumes) in [
        ("--log-file=/var/log/app.log", "", 0o755, Value::Null),
        ("--log-file=/var/log/app.log", "65532", 0o777, Value::Null),
        ("--log-file=/var/log/app.log", "65532:0", 0o775, Value::Null),
        ("--log-file=/var/log/app.log", "65532", 0o755, json!({"/var/log": {}})),
        ("--log-file=/dev/stdout", "65532", 0o755, Value::Null),
        ("--log-file=/new/app.log", "65532", 0o755, Value::Null),
        ("--log-dir=/var/log", "65532", 0o755, Value::Null),
    ] {
        assert_eq!(logs(flag, user, mode, volumes), [], "{flag} {user} {mode:o}");
    }
}

#[test]
fn a_log_dir_that_is_made_belongs_to_the_user() {
    let container = json!({"Entrypoint": ["/app", "--log-file", "/new/logs/app.log"], "User": "65532:7"});
    let pass = pass(image(container, layer("a"), layer("app"), distroless()), &RebaseOptions::default());
    let added = &pass.draft.layers.added;
    assert_eq!(added.log_dir, DirectoryState::Made { path: "/new/logs".to_owned(), known: false });
    let owners: Vec<_> =
        added.layer.entries().map(|(entry, _)| (entry.path.to_string(), entry.uid, entry.gid)).collect();
    assert_eq!(owners, [("/new".to_owned(), 0, 0), ("/new/logs".to_owned(), 65532, 7)]);
}

/// A program with these strings.
fn naming(paths: &[&str], words: &[&str]) -> Program {
    let path = |text: &&str| ProgramString { text: (*text).to_owned(), offset: 0, by: ReferredBy::Code };
    let strings = ProgramStrings {
        paths: paths.iter().map(path).collect(),
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        command_words: Vec::new(),
        calls: Vec::new(),
        complete: true,
    };
    Program { strings, ..program(Linkage::Static) }
}

fn with_app(program: Program, old: LayerIndex, new: LayerIndex) -> Fetched {
    let mut subject = image(json!({"Entrypoint": ["/app"]}), old, layer("x"), new);
    subject.platforms[0].layers = vec![Arc::new(layer("app").with_program("app", program))];
    subject
}

#[test]
fn needs_tool() {
    let with = |name: &str| layer(name).with_program("usr/sbin/iptables", program(Linkage::Static));
    let by_path = || naming(&["/usr/sbin/iptables"], &[]);
    let refusal = [(Rule::NeedsTool, Level::Refuse)];
    assert_eq!(found(with_app(by_path(), with("a"), layer("n"))), refusal);
    assert!(evidence(with_app(by_path(), with("a"), layer("n"))).contains("/usr/sbin/iptables"));
    assert_eq!(found(with_app(by_path(), layer("a"), layer("n"))), [], "the source never had it");
    assert_eq!(found(with_app(by_path(), with("a"), with("n"))), [], "the new base has it, too");
    let never = Program { starts: StartsOthers::Never, ..by_path() };
    assert_eq!(found(with_app(never, with("a"), layer("n"))), [(Rule::NeedsFile, Level::Warn)], "it runs nothing");
    let by_word = || naming(&[], &["iptables"]);
    assert_eq!(found(with_app(by_word(), with("a"), layer("n"))), [(Rule::NeedsTool, Level::Warn)]);
    let mut by_call = by_word();
    by_call.strings.calls = vec!["iptables".to_owned()];
    assert_eq!(found(with_app(by_call, with("a"), layer("n"))), refusal);
    let package = "k8s.io/kubernetes/pkg/util/iptables".to_owned();
    let runs = vec![Tool { name: "iptables".to_owned(), package }];
    let by_package = Program { runs, ..by_word() };
    assert_eq!(found(with_app(by_package, with("a"), layer("n"))), refusal);
    // kube-controller-manager: code for mounts that it never does, and a shell in the command of a pod.
    let tool = |name: &str, package: &str| Tool { name: name.to_owned(), package: package.to_owned() };
    let runs = vec![tool("iptables", "k8s.io/mount-utils")];
    let mut in_package = Program { runs, ..by_word() };
    in_package.strings.calls = vec!["iptables".to_owned()];
    let told = [(Rule::NeedsTool, Level::Warn)];
    assert_eq!(found(with_app(in_package, with("a"), layer("n"))), told, "the call is in the package");
    let shell = || layer("a").with_program("bin/sh", program(Linkage::Static));
    let go = |calls: &[&str]| {
        let mut program = Program { go: Some(GoFacts::default()), ..naming(&["/bin/sh"], &[]) };
        program.strings.calls = calls.iter().map(|call| (*call).to_owned()).collect();
        program
    };
    assert_eq!(found(with_app(go(&[]), shell(), layer("n"))), told, "for somebody else");
    assert_eq!(found(with_app(go(&["/bin/sh"]), shell(), layer("n"))), refusal, "started by its own code");
    for (word, expected) in [("--hook=id", &told[..]), ("--logtostderr=false", &[]), ("--now=true", &[])] {
        let old = ["bin/id", "bin/false", "bin/true"].iter();
        let old = old.fold(layer("a"), |layer, path| layer.with_program(path, program(Linkage::Static)));
        let container = json!({"Entrypoint": ["/app", word]});
        assert_eq!(found(image(container, old, layer("app"), layer("n"))), expected, "{word}");
    }
    let common = naming(&[], &["mount"]);
    let mount = layer("a").with_program("usr/bin/mount", program(Linkage::Static));
    assert_eq!(found(with_app(common, mount, layer("n"))), [], "a word of other meanings");
}

#[test]
fn needs_file() {
    let with = |name: &str| layer(name).with_text("etc/base.conf", "x");
    let told = [(Rule::NeedsFile, Level::Warn)];
    assert_eq!(found(with_app(naming(&["/etc/base.conf"], &[]), with("a"), layer("n"))), told);
    assert_eq!(found(with_app(naming(&["/etc/base.conf"], &[]), with("a"), with("n"))), []);
    let command =
        |word: &str, new: LayerIndex| found(image(json!({"Entrypoint": ["/app", word]}), with("a"), layer("app"), new));
    let refusal = [(Rule::NeedsFile, Level::Refuse)];
    for word in ["--config=/etc/base.conf", "/etc/base.conf", "@/etc/base.conf", "etc/base.conf"] {
        assert_eq!(command(word, layer("n")), refusal, "{word}");
        assert_eq!(command(word, with("n")), [], "{word}");
    }
    assert_eq!(command("--config=/etc/other.conf", layer("n")), [], "the source never had it");
    let variable = |value: &str| {
        let container = json!({"Entrypoint": ["/app"], "Env": [value]});
        found(image(container, with("a"), layer("app"), layer("n")))
    };
    assert_eq!(variable("CONFIG=/etc/base.conf"), refusal);
    assert_eq!(variable("PATH=/etc/base.conf:/bin"), [], "a list to search");
}

#[test]
fn needs_library() {
    let loads = |old: LayerIndex, new: LayerIndex| found(with_app(naming(&[], &["libsystemd.so.0"]), old, new));
    let with = |name: &str| layer(name).with_text("usr/lib/x86_64-linux-gnu/libsystemd.so.0", "");
    assert_eq!(loads(with("a"), layer("n")), [(Rule::NeedsLibrary, Level::Refuse)]);
    assert_eq!(loads(layer("a"), layer("n")), []);
    assert_eq!(loads(with("a"), with("n")), []);
}

#[test]
fn needs_library_is_what_the_loader_cannot_open_for_the_program() {
    let app = || Program { strings: naming(&[], &["libp.so.1"]).strings, ..needing(&[]) };
    let base = |name: &str| layer(name).with_program("lib/ld.so", glibc());
    let plugin = |name: &str| {
        base(name)
            .with_program("lib/libp.so.1", library("libp.so.1", &["libq.so.1"]))
            .with_program("lib/libq.so.1", library("libq.so.1", &[]))
    };
    let loads = |old: LayerIndex, new: LayerIndex| found(with_app(app(), old, new));
    let refusal = [(Rule::NeedsLibrary, Level::Refuse)];
    assert_eq!(loads(plugin("a"), base("n")), refusal);
    assert_eq!(loads(plugin("a"), plugin("n")), []);
    let alone = || base("n").with_program("lib/libp.so.1", library("libp.so.1", &["libq.so.1"]));
    assert_eq!(loads(plugin("a"), alone()), refusal, "it cannot be loaded there");
    assert_eq!(loads(base("a"), base("n")), [], "the source could not load it either");
}

#[test]
fn what_libc_opens_for_a_function_is_warned_about() {
    let app = |function: &str| using(needing(&["libc.so.6"]), &[function]);
    let libc = |symbols: &[&str]| defining(library("libc.so.6", &[]), symbols);
    let base =
        |name: &str, libc: Program| layer(name).with_program("lib/ld.so", glibc()).with_program("lib/libc.so.6", libc);
    let old = || {
        let libc = libc(&["getaddrinfo", "iconv_open"]);
        let services = base("a", libc).with_program("lib/libnss_dns.so.2", library("libnss_dns.so.2", &[]));
        services.with_text("usr/lib/gconv/gconv-modules", "")
    };
    let plain = || libc(&["getaddrinfo", "iconv_open"]);
    let warning = [(Rule::NeedsLibrary, Level::Warn)];
    for (function, new, expected) in [
        ("getaddrinfo", base("n", plain()), &warning[..]),
        ("getaddrinfo", base("n", libc(&["getaddrinfo@@GLIBC_2.34"])), &[]),
        ("iconv_open", base("n", plain()), &warning),
        ("iconv_open", base("n", plain()).with_text("usr/lib/gconv/gconv-modules", ""), &[]),
    ] {
        assert_eq!(found(with_app(app(function), old(), new)), expected, "{function}");
    }
}

#[test]
fn dynamic_helper() {
    let dynamic = || needing(&["libc.so.6"]);
    let script = || Program {
        script: Some(Script { interpreter: "/bin/sh".to_owned(), argument: None }),
        ..program(Linkage::Script)
    };
    let brings = |helper: Program, mode: u32, new: LayerIndex| {
        let mut own = layer("app").with_program("opt/helper", helper);
        own.entries[0].mode = mode;
        found(image(json!({"Entrypoint": ["/app", "--helper=/opt/helper"]}), layer("a"), own, new))
    };
    let unnamed = layer("app").with_program("opt/helper", dynamic());
    let unnamed = found(image(json!({"Entrypoint": ["/app"]}), layer("a"), unnamed, layer("n")));
    assert_eq!(unnamed, [(Rule::DynamicHelper, Level::Warn)], "nothing names it");
    let refusal = [(Rule::DynamicHelper, Level::Refuse)];
    assert_eq!(brings(dynamic(), 0o755, layer("n")), refusal);
    assert_eq!(brings(script(), 0o755, layer("n")), refusal);
    assert_eq!(brings(dynamic(), 0o644, layer("n")), [], "not executable");
    assert_eq!(brings(program(Linkage::StaticPie), 0o755, layer("n")), []);
    assert_eq!(brings(program(Linkage::SharedObject), 0o755, layer("n")), []);
    let libc =
        || layer("n").with_program("lib/ld.so", glibc()).with_program("lib/libc.so.6", library("libc.so.6", &[]));
    assert_eq!(brings(dynamic(), 0o755, libc()), [], "the new base has all it needs");
    let loader = || layer("n").with_program("lib/ld.so", glibc());
    assert_eq!(brings(dynamic(), 0o755, loader()), refusal, "a library is missing");
    let other = || loader().with_text("lib/libc.so.6", "");
    assert_eq!(brings(dynamic(), 0o755, other()), refusal, "it is no library");
    let shell = || layer("n").with_program("bin/sh", program(Linkage::Static));
    assert_eq!(brings(script(), 0o755, shell()), []);
    let shell = || layer("n").with_program("bin/sh", needing(&["libc.so.6"]));
    assert_eq!(brings(script(), 0o755, shell()), refusal, "the shell cannot start");
    let shell = || libc().with_program("bin/sh", needing(&["libc.so.6"]));
    assert_eq!(brings(script(), 0o755, shell()), []);
}

#[test]
fn healthcheck_needs_its_program() {
    let checked = |test: Value| {
        found(image(
            json!({"Entrypoint": ["/app"], "Healthcheck": {"Test": test}}),
            layer("a"),
            layer("app"),
            layer("n"),
        ))
    };
    let refusal = [(Rule::HealthcheckShell, Level::Refuse)];
    assert_eq!(checked(json!(["CMD-SHELL", "curl -f http://x || exit 1"])), refusal);
    assert_eq!(checked(json!(["CMD", "curl", "-f", "http://x"])), refusal);
    assert_eq!(checked(json!(["CMD", "/app", "health"])), []);
    assert_eq!(checked(json!(["NONE"])), []);
    let dynamic = needing(&[]);
    let probes = |new: LayerIndex| {
        let container = json!({"Entrypoint": ["/app"], "Healthcheck": {"Test": ["CMD", "/probe"]}});
        found(image(container, layer("a"), layer("app").with_program("probe", dynamic.clone()), new))
    };
    let cannot_start = (Rule::HealthcheckShell, Level::Refuse);
    assert!(probes(layer("n")).contains(&cannot_start), "its loader is not there");
    assert!(!probes(layer("n").with_program("lib/ld.so", glibc())).contains(&cannot_start));
}

#[test]
fn shadows_and_removes_what_the_new_base_has() {
    let on = |own: LayerIndex| found(image(json!({"Entrypoint": ["/app"]}), layer("a"), own, distroless()));
    assert_eq!(on(layer("app").with_text("etc/passwd", "root:x:0:0::/:\n")), [], "never the old base's accounts");
    assert_eq!(on(layer("app").with_text("etc/nsswitch.conf", "x")), []);
    let base = || layer("n").with_text("etc/nsswitch.conf", "").with(entry("etc/"));
    let meets = |own: LayerIndex| found(image(json!({"Entrypoint": ["/app"]}), layer("a"), own, base()));
    assert_eq!(meets(layer("app").with_text("etc/nsswitch.conf", "x")), [(Rule::ShadowsBase, Level::Warn)]);
    assert_eq!(meets(layer("app").with(entry("etc/"))), [], "folders are merged");
    assert_eq!(meets(layer("app").without("etc/nsswitch.conf")), [(Rule::RemovesBase, Level::Warn)]);
    assert_eq!(meets(layer("app").without("etc/other")), [], "gone with the old base");
}

#[test]
fn link_dangling_only_when_it_led_somewhere() {
    let old = || layer("a").with_text("usr/share/zoneinfo/UTC", "");
    let on = |target: &str| {
        let own = layer("app").with_link("opt/zone", target);
        found(image(json!({"Entrypoint": ["/app"]}), old(), own, layer("n")))
    };
    assert_eq!(on("/usr/share/zoneinfo/UTC"), [(Rule::LinkDangling, Level::Warn)]);
    assert_eq!(on("/never/there"), []);
    assert_eq!(on("../app"), []);
}

#[test]
fn layer_broken_by_a_hard_link_into_the_old_base() {
    let linked = |target: &str| {
        let kind = EntryKind::Hardlink(layer::RootPath::new(target).unwrap());
        let own = layer("app").with(entry("opt/first")).with(Entry { kind, ..entry("opt/second") });
        found(image(json!({"Entrypoint": ["/app"]}), layer("a").with(entry("bin/tool")), own, layer("n")))
    };
    assert_eq!(linked("bin/tool"), [(Rule::LayerBroken, Level::Refuse)]);
    assert_eq!(linked("opt/first"), []);
}

#[test]
fn an_inherited_working_directory_stays_and_one_of_the_new_base_is_told() {
    let moved = |program: &str, own: &str, new: &str| {
        let source = TestImage {
            container: json!({"Entrypoint": [program], "WorkingDir": own}),
            ..TestImage::of(&["a", "app"])
        };
        let old = TestImage { container: json!({"WorkingDir": "/old"}), ..TestImage::of(&["a"]) };
        let new = TestImage { container: json!({"WorkingDir": new}), ..TestImage::of(&["n"]) };
        found(fetched(&source, &old, &new))
    };
    assert_eq!(moved("/app", "/old", "/"), []);
    assert_eq!(moved("./app", "/", "/home"), []);
    let unset = |program: &str, new: &str| {
        let source = TestImage { container: json!({"Entrypoint": [program]}), ..TestImage::of(&["a", "app"]) };
        let new = TestImage { container: json!({"WorkingDir": new}), ..TestImage::of(&["n"]) };
        found(fetched(&source, &TestImage::of(&["a"]), &new))
    };
    let told = (Rule::WorkdirChanged, Level::Warn);
    assert_eq!(unset("/app", "/home"), [told]);
    assert_eq!(unset("/app", "/"), []);
    assert_eq!(unset("./app", "/home"), [(Rule::EntrypointMissing, Level::Refuse), told]);
}
