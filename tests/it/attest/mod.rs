//! Statements about a result, and signatures: what other people's tools make of ours, and we of theirs.

mod budget;
mod left_behind;
mod mutants;
mod referrers;
mod signed_by;
mod typed_password;

use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::support::http;
use crate::support::invocation::{Invocation, Sandbox};
use crate::support::layouts::Layouts;
use crate::support::python;
use crate::support::recipe::{Dialect, Recipe, blob_path};
use crate::support::registries::Registries;
use crate::support::skip::or_skip;
use crate::support::tools::newer;
use crate::support::{fixtures, published};

const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const PROVENANCE: &str = "https://slsa.dev/provenance/v1";
const SIGNATURE: &str = "https://sigstore.dev/cosign/sign/v1";

/// A key of `testdata/attest`; the password of cosign's is `secret`.
pub fn key(name: &str) -> String {
    format!("{}/testdata/attest/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The rebase with flags that attach something.
pub fn attesting(registries: &Registries, to: &str, flags: &[&str]) -> Invocation {
    registries.rebase(to, "cache").args(flags).env("COSIGN_PASSWORD", "secret")
}

/// cosign, offline and with a key.
fn cosign(program: &Path, home: &Sandbox, args: &[&str]) -> Result<String, String> {
    let out = Command::new(program)
        .args(args)
        .env("COSIGN_PASSWORD", "secret")
        .env("HOME", home.path("home"))
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    if out.status.success() { Ok(text(out.stdout)) } else { Err(text(out.stderr)) }
}

const VERIFYING: [&str; 3] = ["--insecure-ignore-tlog=true", "--allow-insecure-registry", "--key"];

/// The list under the tag of a digest, as docker-registry has it.
fn listed(host: &str, repository: &str, digest: &str) -> Vec<Value> {
    let tag = digest.replace(':', "-");
    let reply = http::get(
        host,
        &format!("/v2/{repository}/manifests/{tag}"),
        &[("Accept", "application/vnd.oci.image.index.v1+json")],
    );
    reply.json()["manifests"].as_array().cloned().unwrap_or_default()
}

/// The bytes of the layer of an attached manifest.
fn attached_bytes(host: &str, repository: &str, digest: &str) -> Vec<u8> {
    let accept = [("Accept", "application/vnd.oci.image.manifest.v1+json")];
    let manifest = http::get(host, &format!("/v2/{repository}/manifests/{digest}"), &accept).json();
    let blob = manifest["layers"][0]["digest"].as_str().unwrap();
    http::get(host, &format!("/v2/{repository}/blobs/{blob}"), &[]).body
}

#[test]
fn cosign_accepts_what_underpin_signs_and_oras_finds_it() {
    let registries = or_skip!(Registries::one(1000));
    let (cosign3, oras) = (or_skip!(newer("sid/cosign", "cosign")), or_skip!(newer("sid/oras", "oras")));
    for (name, public, other) in [
        ("cosign.key", "cosign.pub", "ecdsa.pub"),
        ("ecdsa.pem", "ecdsa.pub", "cosign.pub"),
        ("ecdsa-sec1.pem", "ecdsa.pub", "ed25519.pub"),
        ("ed25519.pem", "ed25519.pub", "ecdsa.pub"),
    ] {
        let image = registries.target.name(&format!("{}/app:v1", name.replace('.', "-")));
        attesting(&registries, &image, &["--attest", "provenance", "--sign-key", &key(name)]).run().ok();
        let check = |command: &str, public: &str, more: &[&str]| {
            let public = key(public);
            let args = [&[command][..], &VERIFYING, &[&public], more, &[&image]].concat();
            cosign(&cosign3, &registries.sandbox, &args)
        };
        check("verify", public, &[]).unwrap_or_else(|why| panic!("{name}: {why}"));
        let attestation = check("verify-attestation", public, &["--type", "slsaprovenance1"]);
        assert!(attestation.unwrap_or_else(|why| panic!("{name}: {why}")).contains("payload"));
        assert!(check("verify", other, &[]).is_err(), "{name}: another key");
        assert!(check("verify-attestation", other, &["--type", "slsaprovenance1"]).is_err(), "{name}: another key");
        let found =
            Command::new(&oras).args(["discover", "--plain-http", "--format", "json", &image]).output().unwrap();
        let found = String::from_utf8(found.stdout).unwrap();
        for wanted in [BUNDLE, PROVENANCE, SIGNATURE] {
            assert!(found.contains(wanted), "{wanted}: {found}");
        }
    }
}

/// cosign 3 reads bundles as they come, cosign 2.5 where it is told to, as attestations only, and with roots that it does not
/// need for a key.
#[test]
fn both_cosigns_accept_every_statement_by_its_type() {
    let registries = or_skip!(Registries::one(1000));
    let (cosign2, cosign3) = (or_skip!(newer("trixie/cosign", "cosign")), or_skip!(newer("sid/cosign", "cosign")));
    let image = registries.target.name("out/app:v1");
    let flags = ["--attest", "provenance", "--attest", "sbom", "--sign-key", &key("cosign.key")];
    attesting(&registries, &image, &flags).run().ok();
    let roots = registries.sandbox.path("roots.json");
    std::fs::write(&roots, r#"{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}"#).unwrap();
    let told = ["--new-bundle-format", "--trusted-root", roots.to_str().unwrap()];
    for (program, form) in [(&cosign2, &told[..]), (&cosign3, &[])] {
        let check = |command: &str, public: &str, more: &[&str]| {
            let public = key(public);
            let args = [&[command][..], form, &VERIFYING, &[&public], more, &[&image]].concat();
            cosign(program, &registries.sandbox, &args)
        };
        for (kind, predicate) in [
            ("slsaprovenance1", PROVENANCE),
            ("spdxjson", "https://spdx.dev/Document"),
            ("cyclonedx", "https://cyclonedx.org/bom"),
            (SIGNATURE, SIGNATURE),
        ] {
            let said = check("verify-attestation", "cosign.pub", &["--type", kind]);
            let said = said.unwrap_or_else(|why| panic!("{} {kind}: {why}", program.display()));
            let payloads: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let statement = STANDARD.decode(payloads[0]["payload"].as_str().unwrap()).unwrap();
            let statement: Value = serde_json::from_slice(&statement).unwrap();
            assert_eq!((payloads.len(), &statement["predicateType"]), (1, &predicate.into()), "{said}");
            check("verify-attestation", "ecdsa.pub", &["--type", kind]).unwrap_err();
        }
        check("verify-attestation", "cosign.pub", &["--type", "vuln"]).unwrap_err();
    }
}

#[test]
fn a_second_run_attaches_nothing_and_signing_costs_little() {
    let registries = or_skip!(Registries::one(1000));
    let proxy = &registries.target.proxy;
    let count = |repository: &str, flags: &[&str]| {
        proxy.calm();
        let image = registries.target.name(&format!("{repository}:v1"));
        let run = attesting(&registries, &image, &[flags, &["--json"]].concat()).run().ok();
        (proxy.seen().len(), run.json())
    };
    count("warm/app", &[]);
    let (plain, report) = count("plain/app", &[]);
    assert_eq!(proxy.count("*", "/referrers/") + proxy.count("*", "/manifests/sha256-"), 0, "not asked for, not asked");
    assert!(report["attestations"].is_null());
    let provenance = ["--attest", "provenance"];
    let signed = ["--attest", "provenance", "--sign-key", &key("cosign.key")];
    let (attested, _) = count("attested/app", &provenance);
    let (with_key, report) = count("signed/app", &signed);
    let statements = report["attestations"].as_array().unwrap().len();
    assert_eq!(statements, 2);
    assert!(plain < attested && with_key - attested <= 2 * statements, "{plain} {attested} {with_key}");
    let (_, again) = count("signed/app", &signed);
    assert_eq!(again["outcome"], "unchanged");
    assert_eq!(proxy.count("PUT", "/") + proxy.count("POST", "/"), 0, "a second run writes nothing");
    let changes: Vec<&Value> = again["attestations"].as_array().unwrap().iter().map(|it| &it["change"]).collect();
    assert_eq!(changes, ["already-there", "already-there"]);
    let same = |report: &Value| {
        report["attestations"].as_array().unwrap().iter().map(|it| it["digest"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(same(&report), same(&again), "the same bytes");
}

/// What was attached without a key, read by the library of the statement's own authors.
#[test]
fn every_statement_is_an_in_toto_statement() {
    or_skip!(python::need_fetched("in_toto_attestation"));
    let registries = or_skip!(Registries::one(1000));
    let image = registries.target.name("out/app:v1");
    let run = attesting(&registries, &image, &["--attest", "provenance", "--json"]).run().ok();
    let (host, report) = (registries.target.registry.host(), run.json());
    let attested = report["attestations"][0]["digest"].as_str().unwrap();
    let statement = attached_bytes(host, "out/app", attested);
    let file = registries.sandbox.path("statement.json");
    std::fs::write(&file, &statement).unwrap();
    let script = r#"
import sys, json
from google.protobuf import json_format
from in_toto_attestation.v1.statement import Statement
import in_toto_attestation.v1.statement_pb2 as spb
import in_toto_attestation.predicates.provenance.v1.provenance_pb2 as ppb
value = json.load(open(sys.argv[1]))
statement = Statement.copy_from_pb(json_format.ParseDict(value, spb.Statement()))
statement.validate()
provenance = json_format.ParseDict(value["predicate"], ppb.Provenance())
assert provenance.build_definition.build_type and provenance.run_details.builder.id
print("valid")
"#;
    assert_eq!(python::run_fetched(script, &[&file]).unwrap_or_else(|why| panic!("{why}")).trim(), "valid");
    let value: Value = serde_json::from_slice(&statement).unwrap();
    let digest = report["digest"].as_str().unwrap();
    assert_eq!(value["subject"][0]["digest"]["sha256"].as_str().unwrap(), &digest["sha256:".len()..]);
    let definition = &value["predicate"]["buildDefinition"];
    let inputs: Vec<(&str, String)> = definition["resolvedDependencies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["name"].as_str().unwrap(), format!("sha256:{}", it["digest"]["sha256"].as_str().unwrap())))
        .collect();
    let expected = [
        ("source", registries.app.digest()),
        ("base", registries.new_base.digest()),
        ("old-base", registries.old_base.digest()),
    ];
    assert_eq!(inputs, expected);
    assert!(!String::from_utf8(statement).unwrap().contains("2026"), "no time in it");
}

/// Every statement about an image of three platforms, signed and not, is one to its authors' library, and its document to
/// those of its own.
#[test]
fn every_document_about_every_platform_is_valid() {
    or_skip!(python::need_fetched("in_toto_attestation"));
    or_skip!(python::need_fetched("cyclonedx"));
    let three = |recipe: fn(&str) -> Recipe| fixtures::on_three(Dialect::Oci, recipe);
    let app = three(|platform| fixtures::app(platform, 100));
    let layouts = Layouts::new(&app, &three(fixtures::old_base), &three(fixtures::new_base));
    let all = ["--attest", "provenance", "--attest", "sbom", "--json"];
    let mut files = Vec::new();
    for (out, signing) in [("plain", &[][..]), ("signed", &["--sign-key", &key("ecdsa.pem")])] {
        let report = layouts.rebase(out).args(all).args(signing).run().ok().json();
        for attested in report["attestations"].as_array().unwrap() {
            let blob =
                |digest: &Value| std::fs::read(layouts.layout(out).join(blob_path(digest.as_str().unwrap()))).unwrap();
            let manifest: Value = serde_json::from_slice(&blob(&attested["digest"])).unwrap();
            let mut bytes = blob(&manifest["layers"][0]["digest"]);
            if !signing.is_empty() {
                let bundle: Value = serde_json::from_slice(&bytes).unwrap();
                bytes = STANDARD.decode(bundle["dsseEnvelope"]["payload"].as_str().unwrap()).unwrap();
            }
            files.push(layouts.sandbox.path(&format!("{out}-{}.json", files.len())));
            std::fs::write(files.last().unwrap(), bytes).unwrap();
        }
    }
    // The index and three manifests have provenance; each manifest two SBOMs; with a key all four are signed.
    assert_eq!(files.len(), (4 + 6) + (4 + 6 + 4));
    let script = r#"
import collections, json, sys
from google.protobuf import json_format
from in_toto_attestation.v1.statement import Statement
import in_toto_attestation.v1.statement_pb2 as spb
import in_toto_attestation.predicates.provenance.v1.provenance_pb2 as ppb
from spdx_tools.spdx.parser.json.json_parser import parse_from_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
kinds = collections.Counter()
for path in sys.argv[1:]:
    value = json.load(open(path))
    kind, predicate = value["predicateType"], value["predicate"]
    kinds[kind] += 1
    # A signature has an empty predicate, as cosign's own have; this library takes that for none at all.
    if predicate == {}: value["predicate"] = {"any": 1}
    Statement.copy_from_pb(json_format.ParseDict(value, spb.Statement())).validate()
    json.dump(predicate, open(path + ".json", "w"))
    if kind == "https://slsa.dev/provenance/v1":
        provenance = json_format.ParseDict(predicate, ppb.Provenance())
        assert provenance.build_definition.build_type and provenance.run_details.builder.id
    elif kind == "https://spdx.dev/Document":
        assert not validate_full_spdx_document(parse_from_file(path + ".json")), path
    elif kind == "https://cyclonedx.org/bom":
        assert not JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(predicate)), path
    else:
        assert kind == "https://sigstore.dev/cosign/sign/v1" and predicate == {}, kind
print(sorted(kinds.values()))
"#;
    let said = python::run_fetched(script, &files).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(said.trim(), "[4, 6, 6, 8]");
}

/// Three writers at once to one place on the disk.
#[test]
fn writers_at_the_same_time_keep_each_others_statements_on_disk() {
    let layouts = Layouts::new(
        &fixtures::app("linux/amd64", 100).build(),
        &fixtures::old_base("linux/amd64").build(),
        &fixtures::new_base("linux/amd64").build(),
    );
    for place in ["oci:out:v1", "oci-archive:out.tar:v1"] {
        let words = ["rebase", "oci:app:v1", "--base", "oci:new:v1", "--old-base", "oci:old:v1", "--no-cache", "--to"];
        let rebase = || layouts.underpin(&words).arg(place).env("COSIGN_PASSWORD", "secret");
        rebase().run().ok();
        let keys = ["ecdsa.pem", "ed25519.pem", "cosign.key"];
        let running: Vec<_> = keys.map(|name| rebase().args(["--sign-key", &key(name)]).start()).into_iter().collect();
        for run in running {
            run.finish().ok();
        }
        for name in keys {
            let again = rebase().args(["--sign-key", &key(name), "--json"]).run().ok().json();
            assert_eq!(again["attestations"][0]["change"], "already-there", "{place} {name}");
        }
    }
}

#[test]
fn layouts_and_archives_keep_statements_beside_the_image() {
    let layouts = Layouts::new(
        &fixtures::app("linux/amd64", 100).build(),
        &fixtures::old_base("linux/amd64").build(),
        &fixtures::new_base("linux/amd64").build(),
    );
    let key = key("ed25519.pem");
    let to = |target: &str| {
        let words =
            ["rebase", "oci:app:v1", "--base", "oci:new:v1", "--old-base", "oci:old:v1", "--no-cache", "--to", target];
        layouts.underpin(&words).args(["--attest", "provenance", "--sign-key", &key, "--json"]).run()
    };
    for place in ["oci:out", "oci-archive:out.tar"] {
        let rebase = || to(&format!("{place}:v1")).ok().json();
        let (first, second) = (rebase(), rebase());
        assert_eq!((&first["outcome"], &second["outcome"]), (&"rebased".into(), &"unchanged".into()), "{place}");
        assert_eq!(first["attestations"][0]["digest"], second["attestations"][0]["digest"]);
        // The image is still the only one.
        layouts.underpin(&["inspect", place]).run().ok();
    }
    let out = layouts.layout("out");
    assert_eq!(
        published::layout(&out, "v1").unwrap().digest,
        published::oci_archive(&layouts.layout("out.tar"), "v1").unwrap().digest
    );
    let run = to("docker-archive:out.docker:v1").says("docker archive");
    assert_eq!((run.code(), run.kind().as_deref()), (Some(2), Some("usage")), "{run}");
    let oras = or_skip!(newer("sid/oras", "oras"));
    let found = Command::new(oras)
        .args(["discover", "--oci-layout", "--format", "json"])
        .arg(format!("{}:v1", out.display()))
        .output()
        .unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    assert!(found.contains(BUNDLE) && found.contains(PROVENANCE) && found.contains(SIGNATURE), "{found}");
}

#[test]
fn a_key_that_cannot_be_used_stops_the_run_before_anything_is_written() {
    let registries = or_skip!(Registries::one(1000));
    let image = registries.target.name("out/app:v1");
    let with = |key: &str, password: &str| {
        registries.rebase(&image, "cache").args(["--sign-key", key]).env("COSIGN_PASSWORD", password).run()
    };
    let run = with(&key("cosign.key"), "not-the-password").fails("usage");
    assert!(!run.stderr.contains("not-the-password") && run.stderr.contains("COSIGN_PASSWORD"), "{run}");
    with(&key("cosign.pub"), "secret").fails("usage").says("no private key");
    with("/no/such/key", "secret").fails("local-io");
    assert_eq!(registries.target.registry.tag("out/app", "v1"), None, "nothing was published");
}

/// `verify` makes the provenance again, and compares it with the attached one.
#[test]
fn verify_holds_the_attached_provenance_against_the_derived_one() {
    let registries = or_skip!(Registries::one(1000));
    let image = registries.target.name("out/app:v1");
    let all = ["--attest", "provenance", "--attest", "sbom"];
    for flags in [&all[..], &[&all[..], &["--sign-key", &key("ed25519.pem")]].concat()] {
        attesting(&registries, &image, flags).run().ok();
    }
    let old_base = registries.source.name("base/old:v1");
    let verify = |image: &str| registries.sandbox.underpin(["verify", image, "--old-base", &old_base, "--json"]).run();
    let verified = verify(&image).ok().json();
    let attested = verified["attestations"].as_array().unwrap();
    assert_eq!(attested.len(), 6, "provenance and two SBOMs, signed and not");
    assert!(attested.iter().all(|it| it["differences"] == serde_json::json!([])), "{attested:?}");
    // The same statements, but for one word each: every one is told from the true one.
    let oras = or_skip!(newer("sid/oras", "oras"));
    let host = registries.target.registry.host();
    let plain = attested.iter().map(|it| it["digest"].as_str().unwrap());
    let statements: Vec<String> = plain
        .map(|digest| String::from_utf8(attached_bytes(host, "out/app", digest)).unwrap())
        .filter(|text| text.contains("predicateType"))
        .collect();
    for (from, to, expected) in [
        (
            "\"format\":\"2\"",
            "\"format\":\"3\"",
            "buildDefinition.internalParameters.format: expected \\\"2\\\", got \\\"3\\\"",
        ),
        ("\"versionInfo\":\"sha256:", "\"versionInfo\":\"sha512:", "packages[0].versionInfo: expected"),
        ("\"type\":\"file\"", "\"type\":\"data\"", "components[0].type: expected \\\"file\\\", got \\\"data\\\""),
    ] {
        let statement = statements.iter().find(|text| text.contains(from)).unwrap();
        attach(&oras, &registries, &image, &statement.replacen(from, to, 1));
        let run = verify(&image).refused();
        assert!(run.stdout.contains(expected), "{expected}\n{run}");
    }
    let words = ["verify", &image, "--old-base", &old_base];
    registries.sandbox.underpin(words).run().refused().says("not true of it");
    // Somebody else's SBOM is none of our business.
    let other = registries.target.name("other/app:v1");
    registries.rebase(&other, "cache").run().ok();
    let theirs = statements.iter().find(|text| text.contains("Tool: underpin-")).unwrap();
    attach(
        &oras,
        &registries,
        &other,
        &theirs.replace("Tool: underpin-", "Tool: other-").replace("sha256:", "sha512:"),
    );
    assert_eq!(verify(&other).ok().json()["attestations"], Value::Null);
}

/// Attaches an in-toto statement that nobody signed.
fn attach(oras: &Path, registries: &Registries, image: &str, statement: &str) {
    let file = registries.sandbox.path("statement.json");
    std::fs::write(&file, statement).unwrap();
    let words =
        ["attach", "--plain-http", "--disable-path-validation", "--artifact-type", "application/vnd.in-toto+json"];
    let layer = format!("{}:application/vnd.in-toto+json", file.display());
    let out = Command::new(oras).args(words).arg(image).arg(layer).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

/// Signs with both cosigns: the tag of old, and a referrer.
pub fn sign(cosign2: &Path, cosign3: &Path, home: &Sandbox, image: &str) {
    let old = ["sign", "--tlog-upload=false", "--allow-insecure-registry", "-y", "--key", &key("cosign.key"), image];
    cosign(cosign2, home, &old).unwrap();
    let new = [
        "sign",
        "--use-signing-config=false",
        "--tlog-upload=false",
        "--allow-insecure-registry",
        "-y",
        "--key",
        &key("cosign.key"),
        image,
    ];
    cosign(cosign3, home, &new).unwrap();
}
