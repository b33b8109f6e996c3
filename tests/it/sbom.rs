//! SBOMs, as SPDX 2.3 and CycloneDX 1.6: every document is validated by other people's tools, and what it says is held
//! against what the image was made of.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::debian::{by_hand, of_this_machine};
use crate::support::fixtures;
use crate::support::invocation::{Invocation, files_under};
use crate::support::layouts::{Layouts, upon};
use crate::support::programs::{GoCompiler, Machine, c, prints};
use crate::support::python;
use crate::support::recipe::{Dialect, Recipe, blob_path};
use crate::support::skip::{Part, need, or_skip};
use crate::support::tar_layer::{Entry, Layer, Pack, digest, file, program, symlink};
use crate::support::tools::tool;

const AMD64: &str = "linux/amd64";

/// Both validators, and every purl through the parser of its specification. Prints nothing if all is well.
const VALIDATE: &str = r#"
import json, sys
from packageurl import PackageURL
def spdx(path):
    from spdx_tools.spdx.parser.json.json_parser import parse_from_file
    from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
    for message in validate_full_spdx_document(parse_from_file(path)): print(message.validation_message)
    return [r["referenceLocator"] for p in json.load(open(path))["packages"] for r in p.get("externalRefs", [])]
def cyclonedx(path):
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator
    from cyclonedx.model.bom import Bom
    text = open(path).read()
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if error: print(error)
    document = json.loads(text)
    Bom.from_json(document).validate()
    return [c["purl"] for c in document["components"] if "purl" in c]
for path in sys.argv[1:]:
    for purl in spdx(path) if path.endswith("spdx") else cyclonedx(path):
        # The specification escapes a slash in a name or a value; this reader does not write it so.
        if PackageURL.from_string(purl).to_string() != purl.replace("%2F", "/"): print(purl)
"#;

/// The documents, which are valid.
fn valid<const N: usize>(paths: [PathBuf; N]) -> Part<[Value; N]> {
    python::need_fetched("cyclonedx")?;
    let said = python::run_fetched(VALIDATE, &paths).unwrap();
    assert_eq!(said, "", "{paths:?}\n{}", std::fs::read_to_string(&paths[0]).unwrap());
    Ok(paths.map(|path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()))
}

/// `--report` for both.
fn with_sboms(run: Invocation, name: &str) -> Invocation {
    run.args(["--report", &format!("spdx={name}.spdx"), "--report", &format!("cyclonedx={name}.cdx")])
}

/// Both documents of a rebase, and what is in them: purl, or the path of a file with its digest.
struct Documents {
    spdx: Value,
    cyclonedx: Value,
}

impl Documents {
    fn of(layouts: &Layouts, args: &[&str]) -> Part<Self> {
        with_sboms(layouts.rebase("out").args(args), "sbom").run().ok();
        Self::read(layouts, "sbom")
    }

    fn read(layouts: &Layouts, name: &str) -> Part<Self> {
        let [spdx, cyclonedx] = valid(["spdx", "cdx"].map(|end| layouts.layout(&format!("{name}.{end}"))))?;
        let documents = Self { spdx, cyclonedx };
        assert_eq!(documents.spdx_rows(), documents.cyclonedx_rows());
        Ok(documents)
    }

    fn spdx_rows(&self) -> BTreeSet<String> {
        let packages = self.spdx["packages"].as_array().unwrap().iter();
        let row = |package: &Value| match package["externalRefs"][0]["referenceLocator"].as_str() {
            Some(purl) => purl.to_owned(),
            None => format!(
                "{} {}",
                package["name"].as_str().unwrap(),
                package["checksums"][0]["checksumValue"].as_str().unwrap_or_default()
            ),
        };
        packages.filter(|package| package["SPDXID"] != "SPDXRef-Image").map(row).collect()
    }

    fn cyclonedx_rows(&self) -> BTreeSet<String> {
        let components = self.cyclonedx["components"].as_array().unwrap().iter();
        let row = |component: &Value| match component["purl"].as_str() {
            Some(purl) => purl.to_owned(),
            None => format!(
                "{} {}",
                component["name"].as_str().unwrap(),
                component["hashes"][0]["content"].as_str().unwrap_or_default()
            ),
        };
        components.map(row).collect()
    }

    fn has(&self, row: &str) -> bool {
        self.spdx_rows().contains(row)
    }

    /// What CycloneDX says that this purl or file leads to, as names.
    fn depends(&self, name: &str) -> Vec<&str> {
        let components = self.cyclonedx["components"].as_array().unwrap();
        let id = |name: &str| components.iter().find(|it| it["name"] == name).map(|it| it["bom-ref"].as_str().unwrap());
        let of = id(name).unwrap_or_else(|| panic!("nothing of {name}"));
        let row = self.cyclonedx["dependencies"].as_array().unwrap().iter().find(|row| row["ref"] == of);
        let on = row.and_then(|row| row["dependsOn"].as_array()).into_iter().flatten();
        let name = |id: &Value| components.iter().find(|it| it["bom-ref"] == *id).unwrap()["name"].as_str().unwrap();
        on.map(name).collect()
    }
}

fn row_of(path: &str, bytes: &[u8]) -> String {
    format!("/{path} {}", digest(bytes).trim_start_matches("sha256:"))
}

fn config() -> Value {
    json!({"Env": [fixtures::PATH], "Entrypoint": ["/app"]})
}

/// An application with these files, on a distroless base with packages of this machine.
fn on_distroless(app: &[Entry]) -> Part<Layouts> {
    let release = [
        file("etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n"),
        file("etc/passwd", "root:x:0:0:root:/root:/sbin/nologin\n"),
        file("etc/group", "root:x:0:\n"),
    ];
    let packages = [of_this_machine("libstdc++6")?, of_this_machine("netbase")?];
    let layers = packages.iter().map(|package| Layer::of(Pack::Gzip, &package.unpacked()));
    let new = Recipe::new(AMD64, layers.chain([Layer::of(Pack::Gzip, &release)]).collect());
    let old = fixtures::old_base(AMD64);
    Ok(Layouts::new(&upon(&old, [Layer::of(Pack::Gzip, app)], config()).build(), &old.build(), &new.build()))
}

#[test]
fn packages_and_files_are_listed_with_purls_and_digests() {
    let app = prints(Machine::Amd64, fixtures::LINE);
    let files = [
        program("app", app.clone()),
        file("srv/data ü", "data"),
        file("srv/empty", ""),
        program("srv/run.sh", "#!/bin/sh\n"),
        symlink("srv/link", "data"),
    ];
    let layouts = or_skip!(on_distroless(&files));
    let documents = or_skip!(Documents::of(&layouts, &["--allow", "dynamic-helper"]));
    let (cpp, netbase) = (or_skip!(of_this_machine("libstdc++6")), or_skip!(of_this_machine("netbase")));
    let escaped = |version: &str| version.replace('+', "%2B");
    let expected = [
        format!("pkg:deb/debian/libstdc%2B%2B6@{}?arch=amd64&distro=debian-12&upstream=gcc-12", escaped(&cpp.version)),
        format!("pkg:deb/debian/netbase@{}?arch=all&distro=debian-12", escaped(&netbase.version)),
        row_of("app", &app),
        row_of("srv/data ü", b"data"),
        row_of("srv/empty", b""),
        row_of("srv/run.sh", b"#!/bin/sh\n"),
    ];
    assert_eq!(documents.spdx_rows(), expected.into_iter().collect());
    let spdx = &documents.spdx;
    let manifest = layouts.underpin(&["inspect", "oci:out:v1", "--json"]).run().ok().json();
    let hex = manifest["platforms"][0]["digest"].as_str().unwrap().trim_start_matches("sha256:").to_owned();
    assert_eq!(spdx["documentNamespace"], format!("https://underpin.dev/spdx/sha256/{hex}"));
    assert_eq!(documents.cyclonedx["metadata"]["component"]["version"], format!("sha256:{hex}"));
}

#[test]
fn the_same_result_has_the_same_documents_wherever_and_whenever_it_is_made() {
    let layouts = or_skip!(on_distroless(&[program("app", prints(Machine::Amd64, fixtures::LINE)), file("data", "x")]));
    let run = |out: &str, cache: &[&str]| {
        let args = ["rebase", "oci:app:v1", "--base", "oci:new:v1", "--old-base", "oci:old:v1", "--to"];
        with_sboms(layouts.underpin(&args).arg(format!("oci:{out}:v1")).args(cache), out).run().ok();
        ["spdx", "cdx"].map(|end| std::fs::read(layouts.layout(&format!("{out}.{end}"))).unwrap())
    };
    let first = run("one", &["--no-cache"]);
    let cache = ["--cache", "cache"];
    // An index that was made without digests is in the cache.
    layouts
        .underpin(&["rebase", "oci:app:v1", "--base", "oci:new:v1", "--to", "oci:plain:v1", "--old-base", "oci:old:v1"])
        .args(cache)
        .run()
        .ok();
    assert_eq!(run("two", &cache), first);
    assert_eq!(run("three", &cache), first, "all from the cache");
    let planned = layouts.plan().args(["--report", "spdx=planned.spdx"]);
    planned.run().ok();
    assert_eq!(std::fs::read(layouts.layout("planned.spdx")).unwrap(), first[0]);
    let text = String::from_utf8(first[0].clone()).unwrap();
    assert!(text.contains("\"created\":\"2020-01-02T03:04:05Z\""), "the time of the source: {text}");
    let dated = with_sboms(layouts.rebase("dated"), "dated").env("SOURCE_DATE_EPOCH", "1700000000");
    dated.run().ok();
    let documents = or_skip!(Documents::read(&layouts, "dated"));
    assert_eq!(documents.spdx["creationInfo"]["created"], "2023-11-14T22:13:20Z");
    assert_eq!(documents.cyclonedx["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
}

#[test]
fn several_platforms_need_a_file_each() {
    let layouts = Layouts::new(
        &fixtures::on_three(Dialect::Oci, |platform| fixtures::app(platform, 10)),
        &fixtures::on_three(Dialect::Oci, fixtures::old_base),
        &fixtures::on_three(Dialect::Oci, fixtures::new_base),
    );
    with_sboms(layouts.rebase("out"), "sbom").run().fails("usage").says("{platform}");
    assert!(!layouts.layout("out").exists() && !layouts.layout("sbom.spdx").exists(), "nothing is published");
    with_sboms(layouts.rebase("one").args(["--platform", AMD64]), "sbom").run().ok();
    or_skip!(Documents::read(&layouts, "sbom"));
    let report = with_sboms(layouts.rebase("out").arg("--json"), "sbom-{platform}").run().ok().json();
    for platform in report["platforms"].as_array().unwrap() {
        let name = format!("sbom-{}", platform["platform"].as_str().unwrap().replace('/', "-"));
        let documents = or_skip!(Documents::read(&layouts, &name));
        assert_eq!(documents.cyclonedx["metadata"]["component"]["version"], platform["digest"]);
    }
}

#[test]
fn a_batch_writes_a_document_for_each_image_that_it_moves() {
    let layouts = or_skip!(on_distroless(&[program("app", prints(Machine::Amd64, fixtures::LINE))]));
    let batch = "defaults:\n  base: oci:new:v1\n  old_base: oci:old:v1\nimages:\n\
         - source: oci:app:v1\n  target: oci:out:v1\n- source: oci:app:v1\n  target: oci:other:v1\n  env: [A=b]\n";
    std::fs::write(layouts.layout("images.yaml"), batch).unwrap();
    let run =
        |name: &str| layouts.underpin(&["batch", "images.yaml", "--no-cache", "--report", &format!("spdx={name}")]);
    run("sbom-{platform}").run().fails("usage").says("{digest}");
    std::fs::create_dir(layouts.layout("sboms")).unwrap();
    run("sboms/{digest}.spdx").run().ok();
    let files = files_under(&layouts.layout("sboms"));
    assert_eq!(files.len(), 2, "{files:?}");
    or_skip!(valid([files[0].clone(), files[1].clone()]));
}

#[test]
fn other_commands_and_refused_images_have_no_sbom() {
    let layouts = or_skip!(on_distroless(&[program("app", prints(Machine::Arm64, fixtures::LINE))]));
    layouts
        .underpin(&["inspect", "oci:app:v1", "--report", "spdx=x"])
        .run()
        .fails("usage")
        .says("rebase, plan and batch");
    with_sboms(layouts.rebase("out"), "sbom").run().refused();
    assert!(!layouts.layout("sbom.spdx").exists());
    layouts.rebase("out").args(["--report", "spdx=gone/sbom"]).run().fails("usage").says("directory");
}

#[test]
fn packages_that_cannot_be_read_are_no_shorter_list() {
    let new = Recipe::new(AMD64, vec![Layer::of(Pack::Gzip, &[file("var/lib/rpm/rpmdb.sqlite", "x")])]);
    let old = fixtures::old_base(AMD64);
    let layouts = Layouts::new(&fixtures::app(AMD64, 10).build(), &old.build(), &new.build());
    with_sboms(layouts.rebase("out"), "sbom").run().fails("input").says("/var/lib/rpm/rpmdb.sqlite");
    assert!(!layouts.layout("out").exists(), "nothing is published");
    layouts.rebase("out").run().ok();
}

#[test]
fn modules_of_go_programs_are_listed_with_their_versions() {
    or_skip!(need(&["go"]));
    let app = GoCompiler::usual().build("package main\nfunc main() { println(\"x\") }\n", &[], &[]);
    let layouts = or_skip!(on_distroless(&[program("app", app.clone())]));
    let documents = or_skip!(Documents::of(&layouts, &[]));
    assert!(documents.has(&row_of("app", &app)));
    let stdlib: Vec<String> =
        documents.spdx_rows().into_iter().filter(|row| row.starts_with("pkg:golang/stdlib@1.")).collect();
    assert_eq!(stdlib.len(), 1, "{:?}", documents.spdx_rows());
    assert!(documents.depends("/app").contains(&"stdlib"));
}

#[test]
fn crates_of_rust_programs_that_were_built_with_cargo_auditable_are_listed() {
    or_skip!(need(&["objcopy", "gcc"]));
    let list = r#"{"packages":[{"name":"app","version":"0.1.0","source":"local","dependencies":[1,2],"root":true},
        {"name":"libc","version":"0.2.155","source":"crates.io"},{"name":"cc","version":"1.0.0","source":"crates.io","kind":"build"}]}"#;
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(at("program"), c("gcc", &["-static"], "int main(void) { return 0; }\n")).unwrap();
    let pack =
        "import sys, zlib; open(sys.argv[1], 'wb').write(zlib.compress(sys.argv[2].replace('\\n', '').encode()))";
    python::run(pack, &[at("list"), list.to_owned()]).unwrap();
    tool("objcopy", &["--add-section", &format!(".dep-v0={}", at("list")), &at("program"), &at("audited")]);
    let app = std::fs::read(at("audited")).unwrap();
    let layouts = or_skip!(on_distroless(&[program("app", app.clone())]));
    let documents = or_skip!(Documents::of(&layouts, &[]));
    assert!(
        documents.has("pkg:cargo/libc@0.2.155") && documents.has(&row_of("app", &app)),
        "{:?}",
        documents.spdx_rows()
    );
    assert!(
        !documents.spdx_rows().iter().any(|row| row.contains("cargo/app") || row.contains("/cc@")),
        "{:?}",
        documents.spdx_rows()
    );
    assert_eq!(documents.depends("app"), ["libc"]);
}

#[test]
fn licences_of_apk_are_expressions_that_hold() {
    let stanza =
        |name: &str, licence: &str| format!("P:{name}\nV:1-r0\nA:x86_64\nL:{licence}\no:src\nF:usr/bin\nR:{name}\n\n");
    let licences = [
        "MIT",
        "GPL-2.0-only AND (BSD-3-Clause OR Own)",
        "Public Domain",
        "custom:\u{fc}",
        "MIT AND",
        "GPL-2.0-only WITH x",
    ];
    let names: Vec<String> = (0..licences.len()).map(|at| format!("tool{at}")).collect();
    let database: String = names.iter().zip(licences).map(|(name, licence)| stanza(name, licence)).collect();
    let mut files =
        vec![file("lib/apk/db/installed", database), file("etc/os-release", "ID=alpine\nVERSION_ID=3.19.1\n")];
    files.extend(names.iter().map(|name| program(&format!("usr/bin/{name}"), "x")));
    let new = Recipe::new(AMD64, vec![Layer::of(Pack::Gzip, &files)]);
    let old = fixtures::old_base(AMD64);
    let layouts = Layouts::new(&fixtures::app(AMD64, 10).build(), &old.build(), &new.build());
    let documents = or_skip!(Documents::of(&layouts, &[]));
    assert!(
        documents.has("pkg:apk/alpine/tool0@1-r0?arch=x86_64&distro=alpine-3.19.1&upstream=src"),
        "{:?}",
        documents.spdx_rows()
    );
    let declared = |name: &str| {
        let packages = documents.spdx["packages"].as_array().unwrap();
        packages.iter().find(|package| package["name"] == name).unwrap()["licenseDeclared"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        (declared("tool0"), declared("tool1")),
        ("MIT".into(), "GPL-2.0-only AND (BSD-3-Clause OR LicenseRef-Own)".into())
    );
    assert!(declared("tool2").starts_with("LicenseRef-Public-Domain"));
}

#[test]
fn what_is_brought_and_extracted_is_listed_too() {
    let tool = by_hand("tool", &[("usr/bin/tool", "x")]);
    let old = crate::support::layouts::old_base(&[tool.installed(), vec![file("etc/extra", "extra")]].concat());
    let app = program("app", prints(Machine::Amd64, fixtures::LINE));
    let layouts = Layouts::on(&old, &upon(&old, [Layer::of(Pack::Gzip, &[app])], config()));
    let documents = or_skip!(Documents::of(&layouts, &["--bring", "tool", "--keep", "/etc/extra"]));
    let rows = documents.spdx_rows();
    assert!(rows.iter().any(|row| row.starts_with("pkg:deb/") && row.contains("/tool@1.0-1?arch=amd64")), "{rows:?}");
    assert!(documents.has(&row_of("etc/extra", b"extra")), "{rows:?}");
    assert!(!rows.iter().any(|row| row.contains("status.d")), "{rows:?}");
}

#[test]
fn hostile_images_have_documents_that_hold() {
    let long = "a".repeat(300);
    let status = format!(
        "Package: a\u{1b}[31m\nStatus: install ok installed\nVersion: 1\n\nPackage: {long}\nStatus: install ok installed\n\n\
         Package: good\nStatus: install ok installed\nVersion: <script>&\"'\nArchitecture: ../../etc\nSource: x ((((\n\n\
         Package: good\nStatus: install ok installed\nVersion: 2\n\nPackage: ../x\nStatus: install ok installed\nVersion: @?#%\n"
    );
    let mut files = vec![file("var/lib/dpkg/status", status), file("etc/os-release", "ID=\"a b\"\nVERSION_ID=$(x)\n")];
    files.push(file("var/lib/dpkg/status.d/odd", b"Package: \xff\xfe\nVersion: 1\n".to_vec()));
    let new = Recipe::new(AMD64, vec![Layer::of(Pack::Gzip, &files)]);
    let old = fixtures::old_base(AMD64);
    let app = [
        program("app", prints(Machine::Amd64, fixtures::LINE)),
        file("srv/a\"\\\u{7f}\nb", "x"),
        file("srv/\u{202e}", "y"),
    ];
    let layouts =
        Layouts::new(&upon(&old, [Layer::of(Pack::Gzip, &app)], config()).build(), &old.build(), &new.build());
    let documents = or_skip!(Documents::of(&layouts, &[]));
    assert!(documents.spdx_rows().iter().any(|row| row.contains("/good@")), "{:?}", documents.spdx_rows());
}

#[test]
fn attached_documents_are_those_of_the_files_and_are_attached_once() {
    let layouts = or_skip!(on_distroless(&[program("app", prints(Machine::Amd64, fixtures::LINE))]));
    let attested = |change: &str| {
        let run = with_sboms(layouts.rebase("out").args(["--attest", "sbom", "--json"]), "sbom").run().ok();
        python::holds("report", &run.stdout);
        let report = run.json();
        let list = report["attestations"].as_array().unwrap().clone();
        assert!(list.iter().all(|row| row["change"] == change && row["subject"] == report["digest"]), "{report}");
        list
    };
    let first = attested("written");
    let types: Vec<&str> = first.iter().map(|row| row["predicate_type"].as_str().unwrap()).collect();
    assert_eq!(types, ["https://spdx.dev/Document", "https://cyclonedx.org/bom"]);
    let blob = |digest: &Value| -> Value {
        let path = layouts.layout("out").join(blob_path(digest.as_str().unwrap()));
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    };
    let documents = or_skip!(Documents::read(&layouts, "sbom"));
    for (row, document) in first.iter().zip([&documents.spdx, &documents.cyclonedx]) {
        let statement = blob(&blob(&row["digest"])["layers"][0]["digest"]);
        assert_eq!((&statement["predicate"], &statement["predicateType"]), (document, &row["predicate_type"]));
    }
    assert_eq!(attested("already-there").len(), 2);
}
