//! What becomes of layers in which a package manager was at work: dropped, filtered or kept, with
//! packages of this machine.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::debian::{Package, of_this_machine};
use crate::support::docker_registry::Registry;
use crate::support::layouts::{Layouts, fates, upon};
use crate::support::programs::{Machine, prints};
use crate::support::published::{self, Published};
use crate::support::recipe::{Recipe, blob_path, inflate};
use crate::support::skip::{Part, need, or_skip};
use crate::support::tar_layer::{CAPABILITY, Entry, Layer, Pack, file, folder, program, whiteout};
use crate::support::{fixtures, tools};

/// The paths of the application, without its folders.
const OWN: [&str; 3] = ["app", "opt/app/data", "opt/app/serve"];

struct Image {
    layouts: Layouts,
    recipe: Recipe,
    packages: [Package; 2],
}

/// An installation, another with the application's files among it, whiteouts of the old base, the
/// application.
fn image() -> Part<Image> {
    image_with(fixtures::app_config())
}

fn image_with(config: Value) -> Part<Image> {
    let packages = [of_this_machine("tzdata")?, of_this_machine("netbase")?];
    let own: [Entry; 4] = [
        folder("opt/"),
        folder("opt/app/").owned(1000, 1000),
        file("opt/app/data", "of the application\n").at(1_700_000_000),
        program("opt/app/serve", prints(Machine::Amd64, "serving\n")).xattr("security.capability", &CAPABILITY),
    ];
    let mixed: Vec<Entry> = packages[1].installed().into_iter().chain(own).collect();
    let old = fixtures::old_base("linux/amd64");
    let layers = [
        Layer::of(Pack::Gzip, &packages[0].installed()),
        Layer::of(Pack::Zstd, &mixed),
        Layer::of(Pack::Gzip, &[whiteout("usr/share/notes")]),
        Layer::of(Pack::Gzip, &[program("app", prints(Machine::Amd64, fixtures::LINE))]),
    ];
    let recipe = upon(&old, layers, config);
    Ok(Image { layouts: Layouts::on(&old, &recipe), recipe, packages })
}

fn layers_of(report: &Value) -> Vec<&Value> {
    let layers = report["platforms"][0]["layers"].as_array().unwrap().iter();
    layers.filter(|layer| !["stripped", "base"].contains(&layer["fate"].as_str().unwrap())).collect()
}

#[test]
fn the_plan_says_what_becomes_of_each_layer_and_names_the_packages() {
    let Image { layouts, packages: [tzdata, netbase], .. } = or_skip!(image());
    let report = layouts.plan().arg("--json").run().ok().json();
    assert_eq!(fates(&report), ["dropped", "filtered", "dropped", "kept"]);
    let layers = layers_of(&report);
    for (layer, package) in [(layers[0], &tzdata), (layers[1], &netbase)] {
        let leaves = &layer["leaves"][0];
        assert_eq!(leaves["what"], format!("package {} {}", package.name, package.version));
        assert_eq!(leaves["bytes"], package.bytes, "{leaves}");
        assert!(package.bytes > 1000 && package.files.len() > 5, "a real package");
    }
    assert_eq!(layers[1]["stays"]["entries"], 3, "two files and a folder of another user: {}", layers[1]);
    assert_eq!(layers[2]["leaves"], json!([{"what": "whiteouts of what is gone", "entries": 1, "bytes": 0}]));

    let text = layouts.plan().arg("-v").run().ok().stdout;
    for part in [
        &format!("- package tzdata {} (", tzdata.version),
        &format!("- package netbase {} (", netbase.version),
        "- package database (",
        "1 package, ",
        "= application (3 entries, ",
    ] {
        assert!(text.contains(part), "nothing of {part}:\n{text}");
    }
}

/// What is said of packages, in every format for people.
#[test]
fn of_an_image_that_is_refused_nothing_has_left() {
    let piped = json!({"Entrypoint": ["/bin/sh", "-c", "/app | cat"], "Env": [fixtures::PATH]});
    let (stays, moves) = (or_skip!(image_with(piped)), or_skip!(image()));
    let written = ["text", "markdown", "html"].map(|format| (format, format!("report.{format}")));
    let flags = written.iter().flat_map(|(format, file)| ["--report".to_owned(), format!("{format}={file}")]);
    let flags: Vec<String> = flags.collect();
    let said = |layouts: &Layouts, code: i32| {
        let run = layouts.plan().args(&flags).run();
        assert_eq!(run.code(), Some(code), "{run}");
        let files = written.iter().map(|(_, file)| std::fs::read_to_string(layouts.layout(file)).unwrap());
        let all = [run.stdout].into_iter().chain(files);
        // A page has a style, too.
        all.map(|text| text.split("</head>").last().unwrap().to_lowercase()).collect::<Vec<String>>()
    };
    let is_done = |text: &str| ["1 left", "left:", ">leaves<"].iter().any(|word| text.contains(word));
    for text in said(&stays.layouts, 1) {
        assert!(text.contains("would leave") && !is_done(&text), "{text}");
    }
    for text in said(&moves.layouts, 0) {
        assert!(!text.contains("would leave") && is_done(&text), "{text}");
    }
    let report = stays.layouts.plan().arg("--json").run().json();
    assert_eq!(report["platforms"][0]["packages"]["left"].as_array().map(Vec::len), Some(1), "{report}");
}

/// Every path below a folder that is no folder itself.
fn files_of(root: &Path) -> BTreeSet<String> {
    let files = crate::support::invocation::files_under(root);
    files.iter().map(|path| path.strip_prefix(root).unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn the_result_has_the_new_base_and_the_application_and_nothing_else() {
    or_skip!(need(&["umoci", "runc", "skopeo", "getcap"]));
    let Image { layouts, .. } = or_skip!(image());
    layouts.rebase("out").run().ok();
    let copied = format!("oci:{}:v1", layouts.layout("out").display());
    tools::skopeo_to_layout(&copied, &layouts.layout("copy"), "v1");
    tools::unpack(&layouts.layout("copy"), "v1", &layouts.bundle("copy"));
    let root = layouts.bundle("copy").join("rootfs");
    let base = ["etc/group", "etc/os-release", "etc/passwd"];
    assert_eq!(files_of(&root), OWN.iter().chain(&base).map(|path| (*path).to_owned()).collect());
    assert_eq!(std::fs::read(root.join("opt/app/data")).unwrap(), b"of the application\n");
    let capability = tools::tool("getcap", &[root.join("opt/app/serve").to_str().unwrap()]).stdout;
    assert!(String::from_utf8_lossy(&capability).contains("cap_net_bind_service=ep"), "{capability:?}");
    let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(root.join("opt/app")).unwrap());
    assert_eq!(owner, 1000);
    assert_eq!(tools::run(&layouts.bundle("copy")), fixtures::LINE);
}

/// The tar of the filtered layer: the first above the two of the base.
fn filtered(layout: &Path, published: &Published) -> Vec<u8> {
    inflate(&std::fs::read(layout.join(blob_path(&published.only().layers[2]))).unwrap())
}

#[test]
fn a_filtered_layer_has_the_time_that_was_set_and_what_pax_says() {
    let Image { layouts, .. } = or_skip!(image());
    for (out, epoch) in [("plain", None), ("set", Some("1234567890"))] {
        let run = layouts.rebase(out);
        epoch.into_iter().fold(run, |run, epoch| run.env("SOURCE_DATE_EPOCH", epoch)).run().ok();
        let published = published::layout(&layouts.layout(out), "v1").unwrap();
        let bytes = filtered(&layouts.layout(out), &published);
        let mut found = Vec::new();
        for entry in tar::Archive::new(&bytes[..]).entries().unwrap() {
            let mut entry = entry.unwrap();
            assert_eq!(entry.header().mtime().unwrap(), epoch.map_or(0, |epoch| epoch.parse().unwrap()));
            let path = entry.path().unwrap().to_string_lossy().trim_end_matches('/').to_owned();
            let pax = entry.pax_extensions().unwrap().into_iter().flatten().map(Result::unwrap);
            let xattrs: Vec<Vec<u8>> = pax.map(|pax| pax.value_bytes().to_vec()).collect();
            found.push((path, entry.header().uid().unwrap(), xattrs));
        }
        let entry = |path: &str, uid, xattrs: &[[u8; 20]]| {
            (path.to_owned(), uid, xattrs.iter().map(|value| value.to_vec()).collect::<Vec<_>>())
        };
        let expected = [
            entry("opt", 0, &[]),
            entry("opt/app", 1000, &[]),
            entry("opt/app/data", 0, &[]),
            entry("opt/app/serve", 0, &[CAPABILITY]),
        ];
        assert_eq!(found, expected, "{epoch:?}");
        layouts.verify(&format!("oci:{out}:v1")).run().ok();
    }
}

#[test]
fn a_filtered_image_has_the_same_digest_however_it_was_made() {
    let Image { layouts, .. } = or_skip!(image());
    let expected = layouts.rebase("out").run().ok().digest();
    let cache = layouts.sandbox.path("cache");
    let cached = |out: &str| layouts.rebase_unnamed(out).args(["--old-base", "oci:old:v1", "--cache"]).arg(&cache);
    for (name, run) in [
        ("one-job", layouts.rebase("one-job").args(["--jobs", "1"])),
        ("eight-jobs", layouts.rebase("eight-jobs").args(["--jobs", "8"])),
        ("cold", cached("cold")),
        ("warm", cached("warm")),
        ("warm-one-job", cached("warm-one-job").args(["--jobs", "1"])),
    ] {
        assert_eq!(run.run().ok().digest(), expected, "{name}");
        assert_eq!(published::layout(&layouts.layout(name), "v1").unwrap().digest, expected, "{name}");
    }
    layouts.verify("oci:out:v1").run().ok().says("verified");
    let again = layouts.rebase("out").arg("--json").run().ok().json();
    assert_eq!((&again["outcome"], &again["targets"][0]["digest"]), (&json!("unchanged"), &json!(expected)));
}

#[test]
fn a_filtered_image_is_the_same_from_a_registry_and_verified_there() {
    let Image { layouts, recipe, .. } = or_skip!(image());
    let registry = or_skip!(Registry::plain());
    recipe.build().push(registry.host(), "in/app", "v1");
    fixtures::old_base("linux/amd64").build().push(registry.host(), "base/old", "v1");
    fixtures::new_base("linux/amd64").build().push(registry.host(), "base/new", "v1");
    let at = |rest: &str| format!("{}/{rest}:v1", registry.host());
    let (source, base, old, to) = (at("in/app"), at("base/new"), at("base/old"), at("out/app"));
    let rebase = || layouts.underpin(&["rebase", &source, "--base", &base, "--old-base", &old, "--to", &to, "--json"]);
    assert_eq!(rebase().arg("--no-cache").run().ok().json()["outcome"], "rebased");
    layouts.rebase("out").run().ok();
    let (here, there) = (
        published::layout(&layouts.layout("out"), "v1").unwrap(),
        published::registry(registry.host(), "out/app", "v1").unwrap(),
    );
    assert_eq!(here.only().config_digest, there.only().config_digest);
    assert_eq!(here.only().layers, there.only().layers);
    assert_eq!(here.only().layers.len(), 4, "two of the base, the filtered one, the application");
    layouts.verify(&to).run().ok().says("verified");
    assert_eq!(rebase().run().ok().json()["outcome"], "unchanged");
}

/// What package managers do not write themselves is somebody's, wherever it is.
#[test]
fn files_beside_those_of_package_managers_stay() {
    let tzdata = or_skip!(of_this_machine("tzdata"));
    let own = [
        file("etc/apt/sources.list.d/my.list", "deb http://mirror.example ./\n"),
        file("var/cache/apt/my.bin", "mine"),
        file("var/lib/rpm/app.db", "mine"),
    ];
    let old = fixtures::old_base("linux/amd64");
    let app = Layer::of(Pack::Gzip, &[program("app", prints(Machine::Amd64, fixtures::LINE))]);
    for (layer, fate) in [
        (own.to_vec(), "kept"),
        (tzdata.installed().into_iter().chain(own.clone()).collect(), "filtered"),
        (tzdata.installed(), "dropped"),
    ] {
        let recipe = upon(&old, [Layer::of(Pack::Gzip, &layer), app.clone()], fixtures::app_config());
        let layouts = Layouts::on(&old, &recipe);
        let report = layouts.plan().arg("--json").run().ok().json();
        assert_eq!(fates(&report), [fate, "kept"]);
        let stays = &layers_of(&report)[0]["stays"]["entries"];
        assert_eq!(*stays == 3, fate == "filtered", "{report}");
    }
}
