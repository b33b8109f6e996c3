//! What becomes of layers: nothing of the application is lost, nothing of the old system goes along.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::examine::Fetched;
use crate::examine::testing::{Put, entry, fetched, layer, program};
use crate::plan::Pass;
use crate::plan::testing::pass;
use elf::Linkage;
use layer::{Entry, EntryKind, LayerIndex};
use oci::testing::TestImage;

/// An image whose layers above the old base are these.
fn image(container: Value, old: Vec<LayerIndex>, own: Vec<LayerIndex>) -> Fetched {
    let names = &["layer0", "layer1", "layer2"][..old.len() + own.len()];
    let source = TestImage { container, ..TestImage::of(names) };
    let mut subject = fetched(&source, &TestImage::of(&names[..old.len()]), &TestImage::of(&["n"]));
    let platform = &mut subject.platforms[0];
    platform.old_layers = old.into_iter().map(Arc::new).collect();
    platform.layers = own.into_iter().map(Arc::new).collect();
    let passwd = "root:x:0:0:root:/root:/sbin/nologin\n";
    let base = layer("n").with(Entry { mode: 0o750, ..entry("etc/") }).with_text("etc/passwd", passwd);
    platform.base_layers = vec![Arc::new(base.with_text("etc/group", "root:x:0:\nstaff:x:50:\n"))];
    subject
}

fn drafted(subject: Fetched, options: &RebaseOptions) -> Pass {
    pass(subject, options)
}

/// What becomes of each layer, in short: the paths of what a filtered one still has.
fn fates(facts: &Pass) -> Vec<String> {
    let fate = |layer: &OwnLayer| match &layer.becomes {
        Becomes::Kept => "kept".to_owned(),
        Becomes::Dropped => "dropped".to_owned(),
        Becomes::Filtered(new) => paths(new),
    };
    facts.draft.layers.own.iter().map(fate).collect()
}

fn paths(layer: &NewLayer) -> String {
    let path = |(entry, _): (&Entry, _)| match &entry.kind {
        EntryKind::Whiteout => format!("-{}", entry.path),
        EntryKind::Hardlink(target) => format!("{}={target}", entry.path),
        _ => entry.path.to_string(),
    };
    layer.entries().map(path).collect::<Vec<_>>().join(" ")
}

fn plain(own: Vec<LayerIndex>) -> Pass {
    drafted(image(json!({"Entrypoint": ["/app"]}), vec![layer("layer0")], own), &RebaseOptions::default())
}

/// A layer in which the package curl was installed.
fn with_curl(name: &str) -> LayerIndex {
    layer(name)
        .with(entry("usr/"))
        .with(entry("usr/bin/"))
        .with(entry("usr/bin/curl"))
        .with_text(
            "var/lib/dpkg/status",
            "Package: curl\nStatus: install ok installed\nVersion: 7.88.1-10\nArchitecture: amd64\n\n",
        )
        .with_text("var/lib/dpkg/info/curl.list", "/.\n/usr\n/usr/bin\n/usr/bin/curl\n")
        .with_text("var/log/dpkg.log", "x")
        .with_text("etc/ld.so.cache", "x")
}

#[test]
fn what_the_application_brought_is_kept_byte_for_byte() {
    let app = || {
        layer("layer1").with(entry("usr/")).with_program("app", program(Linkage::Static)).with_text("etc/app.conf", "")
    };
    assert_eq!(fates(&plain(vec![app()])), ["kept"]);
    assert_eq!(fates(&plain(vec![app().with(entry("data/"))])), ["kept"]);
}

#[test]
fn an_installation_is_dropped_and_its_packages_are_named() {
    let facts = plain(vec![with_curl("layer1"), layer("layer2").with_program("app", program(Linkage::Static))]);
    assert_eq!(fates(&facts), ["dropped", "kept"]);
    let leaving: Vec<&str> = facts.draft.layers.own[0].leaving.iter().map(|leaving| leaving.what.as_str()).collect();
    assert_eq!(leaving, ["package curl 7.88.1-10", "loader cache", "log of a package manager", "package database"]);
}

#[test]
fn a_mixed_layer_is_filtered() {
    let mixed = with_curl("layer1").with_text("usr/bin/own", "x").with_text("opt/data", "x");
    assert_eq!(fates(&plain(vec![mixed])), ["/opt/data /usr /usr/bin /usr/bin/own"]);
}

#[test]
fn the_root_of_a_filtered_image_has_all_of_the_application() {
    let mixed = with_curl("layer1").with_program("app", program(Linkage::Static)).with_link("l", "app");
    let facts = plain(vec![mixed]);
    assert!(facts.startup.after.runs(), "{:?}", facts.startup.after);
}

#[test]
fn whiteouts_of_what_is_gone_go_with_it() {
    let lower = || layer("layer1").with_text("opt/data", "x");
    assert_eq!(fates(&plain(vec![lower(), layer("layer2").without("usr/bin/old")])), ["kept", "dropped"]);
    assert_eq!(fates(&plain(vec![lower(), layer("layer2").without("opt/data")])), ["kept", "kept"]);
    assert_eq!(
        fates(&plain(vec![lower(), layer("layer2").without("etc/passwd")])),
        ["kept", "kept"],
        "of the new base"
    );
    let both = layer("layer2").without("usr/bin/old").without("opt/data").with_text("app", "x");
    assert_eq!(fates(&plain(vec![lower(), both])), ["kept", "/app -/opt/data"]);
    let opaque = |path: &str| layer("layer2").with(Entry { kind: EntryKind::Opaque, ..entry(path) });
    assert_eq!(fates(&plain(vec![lower(), opaque("opt")])), ["kept", "kept"]);
    assert_eq!(fates(&plain(vec![lower(), opaque("srv")])), ["kept", "dropped"]);
}

#[test]
fn account_files_are_the_old_bases_unless_there_is_none() {
    let own =
        || layer("x").with_text("etc/passwd", "app:x:1000:1000::/:\n").with_program("app", program(Linkage::Static));
    assert_eq!(fates(&plain(vec![own()])), ["/app"]);
    let scratch = image(json!({"Entrypoint": ["/app"]}), Vec::new(), vec![own()]);
    assert_eq!(fates(&drafted(scratch, &RebaseOptions::default())), ["kept"]);
}

#[test]
fn what_cannot_be_rewritten_is_kept_whole_and_noted() {
    let kind = EntryKind::Hardlink(RootPath::new("usr/lib/lower").unwrap());
    let sparse = Entry { sparse: true, ..entry("opt/disk") };
    for odd in [Entry { kind, ..entry("opt/link") }, sparse] {
        let facts = plain(vec![with_curl("layer1").with(odd)]);
        assert_eq!(fates(&facts), ["kept"]);
        let notes = &facts.draft.layers.notes;
        assert!(notes.len() == 1 && notes[0].contains("is kept whole"), "{notes:?}");
    }
}

fn keep(path: &str) -> RebaseOptions {
    RebaseOptions { keep: vec![RootPath::new(path).unwrap()], ..RebaseOptions::default() }
}

fn added(facts: &Pass) -> String {
    paths(&facts.draft.layers.added.layer)
}

#[test]
fn kept_paths_stay_and_come_out_of_the_old_base() {
    let subject = || {
        let old = layer("layer0")
            .with(entry("usr/"))
            .with_program("usr/sbin/tool", program(Linkage::Static))
            .with_link("sbin", "usr/sbin");
        image(json!({"Entrypoint": ["/app"]}), vec![old], vec![with_curl("layer1")])
    };
    assert_eq!(fates(&drafted(subject(), &keep("usr/bin/curl"))), ["/usr /usr/bin /usr/bin/curl"]);
    assert_eq!(added(&drafted(subject(), &keep("usr/bin/curl"))), "");
    assert_eq!(added(&drafted(subject(), &keep("sbin/tool"))), "/sbin /usr /usr/sbin /usr/sbin/tool");
    let missing = drafted(subject(), &keep("no/such"));
    assert_eq!(missing.draft.layers.keep_missing, [RootPath::new("no/such").unwrap()]);
}

fn extracted(subject: Fetched, keep: &[&str]) -> (String, Pass) {
    let keep = keep.iter().map(|path| RootPath::new(path).unwrap()).collect();
    let facts = drafted(subject, &RebaseOptions { extract: true, keep, ..RebaseOptions::default() });
    (paths(facts.draft.layers.extracted.as_ref().unwrap()), facts)
}

#[test]
fn extract_takes_the_program_its_links_and_the_applications_data() {
    let squashed = with_curl("layer0")
        .with_program("opt/v1/app", program(Linkage::Static))
        .with_link("usr/bin/start", "/opt/current/app")
        .with_link("opt/current", "v1")
        .with_text("etc/app.conf", "x")
        .with(Entry { kind: EntryKind::Hardlink(RootPath::new("opt/v1/app").unwrap()), ..entry("opt/v1/second") });
    let (paths, facts) = extracted(image(json!({"Entrypoint": ["/usr/bin/start"]}), Vec::new(), vec![squashed]), &[]);
    assert_eq!(
        paths,
        "/etc /etc/app.conf /opt /opt/current /opt/v1 /opt/v1/app /opt/v1/second=/opt/v1/app /usr /usr/bin /usr/bin/start"
    );
    let moved = &facts.draft.layers;
    assert_eq!((fates(&facts), moved.notes.len()), (vec!["dropped".to_owned()], 0));
    let etc = moved.extracted.as_ref().unwrap().entries().next().unwrap().0;
    assert_eq!(etc.mode, 0o750, "folders that the new base has keep its attributes");
}

#[test]
fn extract_without_a_package_database_takes_the_program_and_what_was_named() {
    let unknown = |mark: &str| {
        let layer = layer("layer0")
            .with_program("app", program(Linkage::Static))
            .with_text("data/a", "")
            .with_text("data/b/c", "")
            .with_text(mark, "");
        image(json!({"Entrypoint": ["/app"]}), Vec::new(), vec![layer.with_text("lib/libc.so", "")])
    };
    let left =
        |pass: &Pass| -> Vec<String> { pass.draft.layers.left_unknown.iter().map(ToString::to_string).collect() };
    let (paths, pass) = extracted(unknown("etc/os-release"), &[]);
    assert_eq!(
        (paths.as_str(), left(&pass)),
        ("/app", vec!["/data/a".into(), "/data/b/c".into(), "/lib/libc.so".into()])
    );
    let (paths, pass) = extracted(unknown("etc/os-release"), &["data"]);
    assert_eq!((paths.as_str(), left(&pass)), ("/app /data /data/a /data/b /data/b/c", vec!["/lib/libc.so".into()]));
    // Where there is no system, all is the application's.
    let (paths, pass) = extracted(unknown("etc/app.conf"), &[]);
    assert_eq!(paths, "/app /data /data/a /data/b /data/b/c /etc /etc/app.conf /lib /lib/libc.so");
    assert_eq!(left(&pass), [""; 0]);
}

#[test]
fn packages_that_leave_are_named_with_the_files_that_the_result_lacks() {
    let leaving = |layers: Vec<LayerIndex>| -> Vec<String> {
        let pass = plain(layers);
        let roots = pass.draft.layers.roots(&pass.subject);
        let packages = pass.draft.layers.leaving_packages(&pass.facts, &roots);
        packages.iter().map(|package| format!("{} {} {:?}", package.name, package.version, package.files)).collect()
    };
    let curl = leaving(vec![with_curl("layer1")]);
    assert_eq!(curl.len(), 1);
    assert!(curl[0].starts_with("curl ") && curl[0].contains("usr/bin/curl"), "{curl:?}");
    let replaced = layer("layer2").with_program("usr/bin/curl", program(Linkage::Static));
    assert_eq!(leaving(vec![with_curl("layer1"), replaced]), [""; 0], "the application has its own");
    assert_eq!(leaving(vec![with_curl("layer1"), layer("layer2").without("usr/bin/curl")]), [""; 0], "removed again");
    assert_eq!(leaving(vec![layer("layer1").with_text("opt/data", "x")]), [""; 0]);
}

#[test]
fn a_layer_without_a_package_manager_is_kept_whole() {
    for path in [
        "etc/apt/sources.list.d/my.list",
        "var/lib/rpm/app.db",
        "var/cache/apt/my.bin",
        "var/lib/dpkg/app/state",
        "var/log/dpkg.log",
        "etc/ld.so.cache",
    ] {
        assert_eq!(fates(&plain(vec![layer("x").with_text(path, "mine")])), ["kept"], "{path}");
    }
    // Beside an installation, what is not the package manager's own file stays.
    let mixed =
        with_curl("x").with_text("etc/apt/sources.list.d/my.list", "mine").with_text("var/lib/apt/lists/lock", "");
    assert_eq!(fates(&plain(vec![mixed])), ["/etc/apt/sources.list.d/my.list"]);
}

/// The account files that the added layer has.
fn accounts(user: &str, passwd: &str, group: &str) -> Vec<String> {
    let old = layer("layer0").with_text("etc/passwd", passwd).with_text("etc/group", group);
    let own = layer("layer1").with_program("app", program(Linkage::Static));
    let facts =
        drafted(image(json!({"Entrypoint": ["/app"], "User": user}), vec![old], vec![own]), &RebaseOptions::default());
    let files = facts.draft.layers.added.accounts.files.iter();
    files.map(|(which, content)| format!("{} {}", which.path(), String::from_utf8_lossy(content))).collect()
}

#[test]
fn accounts_are_the_new_bases_and_what_the_user_needs() {
    let passwd = "root:x:0:0::/:\ngames:x:5:60::/:\napp:x:1000:1001:App:/home/app:/bin/bash\n";
    let group = "games:x:60:app\napp:x:1001:other\nstaff:x:50:app,x\naudio:x:29:x\n";
    assert_eq!(
        accounts("app", passwd, group),
        [
            "/etc/passwd root:x:0:0:root:/root:/sbin/nologin\napp:x:1000:1001:App:/home/app:/bin/bash\n",
            "/etc/group root:x:0:\nstaff:x:50:app\napp:x:1001:\ngames:x:60:app\n",
        ]
    );
    assert_eq!(accounts("1000", passwd, group).len(), 2, "a number that the source has a name for");
    assert_eq!(accounts("4711", passwd, group), [""; 0]);
    assert_eq!(accounts("root:audio", passwd, group), ["/etc/group root:x:0:\nstaff:x:50:\naudio:x:29:\n"]);
    assert_eq!(accounts("root", "", ""), [""; 0]);
}

#[test]
fn the_added_layer_leaves_folders_as_the_new_base_has_them() {
    let old =
        layer("layer0").with_text("etc/passwd", "app:x:1000:1000::/:\n").with(Entry { uid: 1000, ..entry("srv/") });
    let own = layer("layer1").with_program("app", program(Linkage::Static));
    let container = json!({"Entrypoint": ["/app"], "User": "app", "WorkingDir": "/srv/deep"});
    let facts = drafted(image(container, vec![old], vec![own]), &RebaseOptions::default());
    let layer = &facts.draft.layers.added.layer;
    let entries: Vec<_> = layer.entries().map(|(entry, _)| (entry.path.to_string(), entry.mode, entry.uid)).collect();
    let expected = [("/etc", 0o750, 0), ("/etc/passwd", 0o644, 0), ("/srv", 0o755, 1000), ("/srv/deep", 0o755, 0)];
    assert_eq!(entries, expected.map(|(path, mode, uid)| (path.to_owned(), mode, uid)));
}
