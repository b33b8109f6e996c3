//! Each rule fires on what it is about, and stays silent on the twin.

mod startup;

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::examine::base::Sureness;
use crate::examine::testing::{Put as _, entry, fetched, layer};
use crate::examine::{Fetched, LeftBehind};
use crate::plan::testing::pass;
use crate::plan::{OnMissing, RebaseOptions};
use crate::rules::{Level, Rule};
use elf::{Language, Linkage, Program, Script};
use layer::{Captured, Entry, EntryKind};
use oci::Digest;
use oci::testing::TestImage;
use start::link::testing::{defining, glibc, library, needing, using};

fn moving(container: Value) -> Fetched {
    let source = TestImage { container, ..TestImage::of(&["a", "app"]) };
    fetched(&source, &TestImage::of(&["a"]), &TestImage::of(&["n"]))
}

fn plain() -> Fetched {
    moving(json!({"Entrypoint": ["/app"]}))
}

fn found(subject: Fetched) -> Vec<(Rule, Level)> {
    let findings = judge(&pass(subject, &RebaseOptions::default()), &[]);
    findings.iter().map(|finding| (finding.rule, finding.level)).collect()
}

#[test]
fn a_plain_image_gives_no_finding() {
    assert_eq!(found(plain()), []);
}

/// The plain image with another program at `/app`.
fn with_program(change: impl FnOnce(&mut Program)) -> Fetched {
    let mut subject = plain();
    let layer = Arc::make_mut(&mut subject.platforms[0].layers[0]);
    change(&mut layer.programs[0].program);
    subject
}

#[test]
fn entrypoint_missing() {
    let refusal = [(Rule::EntrypointMissing, Level::Refuse)];
    assert_eq!(found(moving(json!({"Entrypoint": ["/gone"]}))), refusal);
    assert_eq!(found(moving(json!({"Entrypoint": ["app"], "Env": ["PATH=/bin"]}))), refusal);
    assert_eq!(found(moving(json!({"Entrypoint": ["app"], "Env": ["PATH=/bin:/"]}))), []);
    assert_eq!(found(moving(json!({"Entrypoint": ["./app"]}))), []);
    let mut subject = plain();
    Arc::make_mut(&mut subject.platforms[0].layers[0]).entries[0].mode = 0o644;
    assert_eq!(found(subject), refusal);
}

/// The plain image with a dynamic program at `/app`, onto a base with these files.
fn dynamic_on(app: Program, base: &[(&str, Program)]) -> Vec<crate::rules::Finding> {
    let mut subject = with_program(|program| *program = app);
    let base = base.iter().fold(layer("n"), |base, (path, file)| base.with_program(path, file.clone()));
    subject.platforms[0].base_layers = vec![base.into()];
    judge(&pass(subject, &RebaseOptions::default()), &[])
}

#[test]
fn layer_odd_where_packages_cannot_be_read() {
    let with = |path: &str| {
        let mut subject = plain();
        Arc::make_mut(&mut subject.platforms[0].layers[0]).entries.push(entry(path));
        subject
    };
    for path in ["var/lib/rpm/rpmdb.sqlite", "usr/lib/sysimage/rpm/Packages.db", "var/lib/rpm/Packages"] {
        let findings = judge(&pass(with(path), &RebaseOptions::default()), &[]);
        let [finding] = &findings[..] else { panic!("{path}: {findings:?}") };
        assert_eq!((finding.rule, finding.level), (Rule::LayerOdd, Level::Warn), "{path}");
        assert!(finding.evidence.contains(&format!("/{path} cannot be read")), "{path}: {}", finding.evidence);
    }
    assert_eq!(found(with("var/lib/rpm/app.db")), []);
}

#[test]
fn layer_odd_where_an_edited_file_of_a_package_looks_like_the_packages() {
    let installed = |edited_at: i64| {
        let mut subject = plain();
        let layer = Arc::make_mut(&mut subject.platforms[0].layers[0]);
        let database = [
            ("var/lib/dpkg/status", "Package: p\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\n"),
            ("var/lib/dpkg/info/p.list", "/.\n/etc\n/etc/p.conf\n"),
        ];
        for (path, text) in database {
            layer.captured.push(Captured { entry: layer.entries.len(), content: text.as_bytes().to_vec() });
            layer.entries.push(Entry { kind: EntryKind::File { size: text.len() as u64 }, ..entry(path) });
        }
        layer.entries.push(Entry { mtime: edited_at, ..entry("etc/p.conf") });
        let findings = judge(&pass(subject, &RebaseOptions::default()), &[]);
        findings.into_iter().filter(|finding| finding.rule == Rule::LayerOdd).collect::<Vec<_>>()
    };
    let [flat] = &installed(0)[..] else { panic!("no warning") };
    assert_eq!(flat.level, Level::Warn);
    assert!(flat.message.ends_with("leaves with the package") && flat.fix.contains("--keep"), "{flat:?}");
    assert_eq!(installed(5), [], "the time tells that it was edited, and it stays");
}

#[test]
fn dynamic_binary() {
    for linkage in [Linkage::Static, Linkage::StaticPie] {
        assert_eq!(found(with_program(|program| program.linkage = linkage)), [], "{linkage:?}");
    }
    let over_the_limit = |program: Program| {
        let dynamic = program.dynamic.as_ref().map(|facts| Arc::new(facts.without_symbols()));
        Program { dynamic, notes: vec!["too many of them".to_owned()], ..program }
    };
    let base = [("lib/ld.so", glibc()), ("lib/libc.so.6", defining(library("libc.so.6", &[]), &["f@@GLIBC_2.1"]))];
    let app = |symbol: &str| using(needing(&["libc.so.6"]), &[symbol]);
    for (app, base, expected) in [
        (app("f@GLIBC_2.1:libc.so.6"), &base[..], None),
        (app("f"), &base, None),
        (
            app("f@GLIBC_2.9:libc.so.6"),
            &base,
            Some("/app cannot start: libc.so.6 in the rebased image does not have version GLIBC_2.9 (needed by /app)"),
        ),
        (app("g"), &base, Some("/app cannot start: no library in the rebased image defines g (needed by /app)")),
        (app("f"), &base[..1], Some("/app cannot start: libc.so.6 is not in the rebased image (needed by /app)")),
        (
            app("f"),
            &base[1..],
            Some("/app cannot start: its interpreter /lib/ld.so is not in the rebased image (needed by /app)"),
        ),
        (
            Program { dynamic: None, ..app("f") },
            &base,
            Some("/app is not proven to start: /app has no dynamic section that could be read"),
        ),
        (
            over_the_limit(app("f")),
            &base,
            Some("/app is not proven to start: /app has symbols that could not be read: too many of them"),
        ),
    ] {
        let findings = dynamic_on(app, base);
        let messages: Vec<&str> = findings.iter().map(|finding| finding.message.as_str()).collect();
        assert_eq!(messages, expected.into_iter().collect::<Vec<_>>());
        assert!(findings.iter().all(|finding| finding.rule == Rule::DynamicBinary && finding.level == Level::Refuse));
    }
    let pass = pass(with_program(|program| *program = app("f")), &RebaseOptions::default());
    let finding = &judge(&pass, &["dynamic-binary=/app".parse().unwrap()])[0];
    assert_eq!(finding.evidence, "needs interpreter /lib/ld.so; libraries libc.so.6");
    assert_eq!(finding.level, Level::Excepted);
}

#[test]
fn the_fix_speaks_the_language_of_the_program() {
    for (language, expected) in [
        (Language::Go, "build it with CGO_ENABLED=0, or choose a --base that has /lib/ld.so"),
        (
            Language::Rust,
            "build it with `-C target-feature=+crt-static` or for a musl target, or choose a --base that has /lib/ld.so",
        ),
        (Language::Other, "link it with -static-pie, or choose a --base that has /lib/ld.so"),
    ] {
        let findings = dynamic_on(Program { language, ..needing(&[]) }, &[]);
        assert_eq!(findings[0].fix, expected);
    }
}

#[test]
fn wrong_machine() {
    let subject = with_program(|program| program.machine = Some("amd64".to_owned()));
    assert_eq!(found(subject), [(Rule::WrongMachine, Level::Refuse)]);
}

#[test]
fn not_a_binary() {
    let refusal = [(Rule::NotABinary, Level::Refuse)];
    for linkage in [Linkage::Other, Linkage::SharedObject] {
        assert_eq!(found(with_program(|program| program.linkage = linkage)), refusal, "{linkage:?}");
    }
    let mut text = plain();
    Arc::make_mut(&mut text.platforms[0].layers[0]).programs.clear();
    assert_eq!(found(text), refusal);
    for (interpreter, expected) in [("/bin/sh", &refusal[..]), ("/own", &[])] {
        let script = with_program(|program| {
            (program.linkage, program.machine) = (Linkage::Script, None);
            program.script = Some(Script { interpreter: interpreter.to_owned(), argument: None });
        });
        assert_eq!(found(script), expected, "{interpreter}");
    }
}

#[test]
fn old_base_unknown_and_unproven() {
    for (sure, layers, expected) in [
        (Sureness::Proven, 1, vec![]),
        (Sureness::Likely, 1, vec![(Rule::OldBaseUnproven, Level::Warn)]),
        (Sureness::Likely, 0, vec![]),
        (Sureness::Unknown, 0, vec![(Rule::OldBaseUnknown, Level::Refuse)]),
    ] {
        let mut subject = plain();
        let old = &mut subject.platforms[0].old_base;
        (old.sure, old.layers) = (sure, layers);
        assert_eq!(found(subject), expected);
    }
    let mut subject = plain();
    subject.platforms[0].old_base.notes.push("a clue led nowhere".to_owned());
    subject.platforms[0].old_base.warnings.push("a name does not fit".to_owned());
    assert_eq!(found(subject), [(Rule::BaseNameIgnored, Level::Warn), (Rule::OldBaseUnproven, Level::Note)]);
}

#[test]
fn files_that_may_be_the_applications_are_not_thrown_away_on_a_guess() {
    let with = |sure: Sureness, path: &str| {
        let mut subject = plain();
        let platform = &mut subject.platforms[0];
        platform.old_base.sure = sure;
        platform.old_layers = vec![Arc::new(layer("a").with(entry(path)))];
        found(subject)
    };
    let doubted = (Rule::OldBaseUnproven, Level::Warn);
    assert_eq!(with(Sureness::Likely, "data/model"), [doubted, (Rule::BaseUnprovenFiles, Level::Refuse)]);
    assert_eq!(with(Sureness::Likely, "etc/os-release"), [doubted]);
    assert_eq!(with(Sureness::Likely, "data/"), [doubted]);
    assert_eq!(with(Sureness::Likely, "app"), [doubted], "the application's own file is in its place");
    assert_eq!(with(Sureness::Proven, "data/model"), []);
}

#[test]
fn cmd_changes_meaning() {
    let on_tini = |entrypoint: &[&str]| {
        let container = json!({"Entrypoint": entrypoint, "Cmd": ["/app"]});
        let old = TestImage { container: json!({"Entrypoint": ["/tini"]}), ..TestImage::of(&["a"]) };
        fetched(&TestImage { container, ..TestImage::of(&["a", "app"]) }, &old, &TestImage::of(&["n"]))
    };
    assert_eq!(found(on_tini(&["/tini"])), [(Rule::CmdChangesMeaning, Level::Warn)]);
    assert_eq!(found(on_tini(&["/own"])), []);
}

#[test]
fn config_odd() {
    assert_eq!(found(moving(json!({"User": "4294967296"}))), [(Rule::ConfigOdd, Level::Warn)]);
    assert_eq!(found(moving(json!({"User": "65532"}))), []);
}

#[test]
fn label_dropped() {
    assert_eq!(found(moving(json!({"Labels": {"cdi.k8s.io/x": ""}}))), [(Rule::LabelDropped, Level::Warn)]);
    assert_eq!(found(moving(json!({"Labels": {"a": ""}}))), []);
}

#[test]
fn attestation_dropped() {
    let mut left = plain();
    let digest = Digest::of(b"statement");
    left.platforms[0].left_behind.push(LeftBehind { what: "an attestation", digest, of: None });
    assert_eq!(found(left), [(Rule::AttestationDropped, Level::Note)]);
    assert_eq!(found(plain()), []);
}

#[test]
fn platform_missing() {
    let mut image = plain().subject;
    assert!(missing_platforms(&image, OnMissing::Refuse).is_empty());
    image.missing.push("linux/s390x".parse().unwrap());
    for (on_missing, level) in [(OnMissing::Refuse, Level::Refuse), (OnMissing::Skip, Level::Warn)] {
        let missing = missing_platforms(&image, on_missing);
        assert_eq!((missing.len(), missing[0].findings[0].level), (1, level));
    }
}
