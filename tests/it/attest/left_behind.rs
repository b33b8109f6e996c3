//! What was stated about the source is left behind, named in the report and in the provenance.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{BUNDLE, attached_bytes, attesting, cosign, key, listed, sign};
use crate::support::fixtures;
use crate::support::recipe::{Dialect, attest, index};
use crate::support::registries::Registries;
use crate::support::skip::or_skip;
use crate::support::tools::newer;

/// Type, and how it was found, of each input of the provenance that is a statement about the source.
fn named(registries: &Registries, repository: &str, attestation: &Value) -> BTreeSet<(String, String, String)> {
    let digest = attestation["digest"].as_str().unwrap();
    let statement = attached_bytes(registries.target.registry.host(), repository, digest);
    let statement: Value = serde_json::from_slice(&statement).unwrap();
    let inputs = statement["predicate"]["buildDefinition"]["resolvedDependencies"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let row = |it: &Value| (text(&it["mediaType"]), text(&it["annotations"]["found"]), text(&it["digest"]["sha256"]));
    inputs.iter().filter(|it| it["name"] == "source-referrer").map(row).collect()
}

/// Both cosigns sign and attest, and the older one attaches an SBOM.
#[test]
fn statements_of_either_cosign_about_the_source_are_named_with_type_and_digest() {
    let registries = or_skip!(Registries::one(1000));
    let (cosign2, cosign3) = (or_skip!(newer("trixie/cosign", "cosign")), or_skip!(newer("sid/cosign", "cosign")));
    let source = format!("{}@{}", registries.source.name("in/app"), registries.app.digest());
    sign(&cosign2, &cosign3, &registries.sandbox, &source);
    let predicate = registries.sandbox.path("predicate.json");
    std::fs::write(&predicate, r#"{"spdxVersion":"SPDX-2.3"}"#).unwrap();
    let predicate = predicate.to_str().unwrap();
    let made_with = ["--tlog-upload=false", "--allow-insecure-registry", "-y", "--key", &key("cosign.key")];
    let about = ["--type", "spdxjson", "--predicate", predicate, &source];
    cosign(&cosign2, &registries.sandbox, &[&["attest"], &made_with[..], &about].concat()).unwrap();
    let new = [&["attest", "--use-signing-config=false"], &made_with[..], &about].concat();
    cosign(&cosign3, &registries.sandbox, &new).unwrap();
    let sbom = ["attach", "sbom", "--allow-insecure-registry", "--type", "spdx", "--input-format", "json", "--sbom"];
    cosign(&cosign2, &registries.sandbox, &[&sbom[..], &[predicate, &source]].concat()).unwrap();

    let image = registries.target.name("out/app:v1");
    let report = attesting(&registries, &image, &["--attest", "provenance", "--json"]).run().ok().json();
    let named = named(&registries, "out/app", &report["attestations"][0]);
    let kinds: Vec<(&str, &str)> = named.iter().map(|(kind, found, _)| (kind.as_str(), found.as_str())).collect();
    assert_eq!(
        kinds,
        [
            ("application/vnd.dev.cosign.simplesigning.v1+json", "tag .sig"),
            (BUNDLE, "referrer"),
            (BUNDLE, "referrer"),
            ("application/vnd.dsse.envelope.v1+json", "tag .att"),
            ("text/spdx+json", "tag .sbom"),
        ]
    );
    let notes = report["platforms"][0]["findings"].to_string();
    for (kind, found, hex) in &named {
        assert!(notes.contains(&format!("{kind} sha256:{hex} ({found})")), "{kind} {found}: {notes}");
    }
    let tag = registries.app.digest().replace(':', "-");
    for suffix in ["sig", "att", "sbom"] {
        let there = registries.source.registry.tag("in/app", &format!("{tag}.{suffix}")).unwrap();
        assert!(named.iter().any(|(_, found, hex)| *found == format!("tag .{suffix}") && there.ends_with(hex)));
    }
    // None of them is about the result.
    let listed = listed(registries.target.registry.host(), "out/app", report["digest"].as_str().unwrap());
    assert_eq!(listed.len(), 1, "{listed:?}");
    // Whoever does not ask for statements is not told, and nobody is asked.
    registries.source.proxy.calm();
    let image = registries.target.name("signed/app:v1");
    attesting(&registries, &image, &["--sign-key", &key("cosign.key")]).run().ok();
    assert_eq!(registries.source.proxy.count("*", "in/app/manifests/sha256-"), 0);
}

/// `BuildKit` puts its attestations into the index of the image.
#[test]
fn attestation_manifests_inside_of_the_source_are_named() {
    let registries = or_skip!(Registries::one(1000));
    let app = fixtures::app("linux/amd64", 10).build();
    let of = app.digest();
    let attested = attest(&index(Dialect::Oci, &[("linux/amd64", app)]), &of, &json!({"_type": "x"}));
    attested.push(registries.source.registry.host(), "in/built", "v1");
    let name = |rest: &str| registries.source.name(rest);
    let words = ["rebase", &name("in/built:v1"), "--base", &name("base/new:v1"), "--old-base", &name("base/old:v1")];
    let to = registries.target.name("out/built:v1");
    let run = registries.sandbox.underpin(words).args(["--to", &to, "--attest", "provenance", "--json"]).hurried();
    let report = run.run().ok().json();
    let inside = attested.children.last().unwrap().digest();
    let expected = ("attestation-manifest".to_owned(), "index".to_owned(), inside["sha256:".len()..].to_owned());
    let statements = report["attestations"].as_array().unwrap();
    assert!(!statements.is_empty());
    for statement in statements {
        assert_eq!(named(&registries, "out/built", statement), [expected.clone()].into(), "{statement}");
    }
    assert!(report["platforms"][0]["findings"].to_string().contains(&inside), "{report}");
}
