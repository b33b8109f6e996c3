//! Statements about a result, and signatures: what other people's tools make of ours, and we of theirs.

mod budget;
mod referrers;
mod signed_by;
mod typed_password;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::http;
use crate::support::invocation::{Invocation, Sandbox};
use crate::support::layouts::Layouts;
use crate::support::python;
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
fn attesting(registries: &Registries, to: &str, flags: &[&str]) -> Invocation {
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
    for flags in [&["--attest", "provenance"][..], &["--attest", "provenance", "--sign-key", &key("ed25519.pem")]] {
        attesting(&registries, &image, flags).run().ok();
    }
    let old_base = registries.source.name("base/old:v1");
    let verify = |image: &str| registries.sandbox.underpin(["verify", image, "--old-base", &old_base, "--json"]).run();
    let verified = verify(&image).ok().json();
    let attested = verified["attestations"].as_array().unwrap();
    assert_eq!(attested.len(), 2, "signed and not");
    assert!(attested.iter().all(|it| it["differences"] == serde_json::json!([])), "{attested:?}");
    // The same statement, but for one word.
    let host = registries.target.registry.host();
    let plain = attested.iter().map(|it| it["digest"].as_str().unwrap());
    let statements = plain.map(|digest| String::from_utf8(attached_bytes(host, "out/app", digest)).unwrap());
    let statement = statements.into_iter().find(|text| text.contains("predicateType")).unwrap();
    let forged = statement.replace("\"format\":\"2\"", "\"format\":\"3\"");
    assert_ne!(statement, forged);
    let file = registries.sandbox.path("forged.json");
    std::fs::write(&file, forged).unwrap();
    let oras = or_skip!(newer("sid/oras", "oras"));
    let words = [
        "attach",
        "--plain-http",
        "--disable-path-validation",
        "--artifact-type",
        "application/vnd.in-toto+json",
        &image,
    ];
    let layer = format!("{}:application/vnd.in-toto+json", file.display());
    let out = Command::new(oras).args(words).arg(layer).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let run = verify(&image).refused();
    assert!(
        run.stdout.contains("buildDefinition.internalParameters.format: expected \\\"2\\\", got \\\"3\\\""),
        "{run}"
    );
}

/// What was stated about the source is left behind, named in the report and in the provenance.
#[test]
fn statements_about_the_source_are_named_and_left_behind() {
    let registries = or_skip!(Registries::one(1000));
    let (cosign2, cosign3) = (or_skip!(newer("trixie/cosign", "cosign")), or_skip!(newer("sid/cosign", "cosign")));
    let source = format!("{}@{}", registries.source.name("in/app"), registries.app.digest());
    sign(&cosign2, &cosign3, &registries.sandbox, &source);
    let image = registries.target.name("out/app:v1");
    let run = attesting(&registries, &image, &["--attest", "provenance", "--json"]).run().ok();
    let report = run.json();
    let notes = report["platforms"][0]["findings"].to_string();
    assert!(
        notes.contains("attestation-dropped") && notes.contains(BUNDLE) && notes.contains("simplesigning"),
        "{notes}"
    );
    let digest = report["attestations"][0]["digest"].as_str().unwrap();
    let statement: Value =
        serde_json::from_slice(&attached_bytes(registries.target.registry.host(), "out/app", digest)).unwrap();
    let inputs = statement["predicate"]["buildDefinition"]["resolvedDependencies"].as_array().unwrap();
    let left: Vec<&Value> = inputs.iter().filter(|it| it["name"] == "source-referrer").collect();
    assert_eq!(left.len(), 2, "{inputs:?}");
    assert!(
        listed(registries.target.registry.host(), "out/app", report["digest"].as_str().unwrap())
            .iter()
            .all(|it| it["digest"] == digest)
    );
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
