//! The list of what is about an image: with the API, without it, with registries that only nearly have it, and with other
//! writers at the same time.

use serde_json::json;

use super::{BUNDLE, attesting, key, listed};
use crate::support::http::{self, Answer};
use crate::support::proxy::{Action, Proxy, on};
use crate::support::registries::Registries;
use crate::support::skip::or_skip;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// docker-registry has no referrers API and answers 404; others answer otherwise.
#[test]
fn a_registry_that_only_nearly_has_the_api_gets_the_tag() {
    let registries = or_skip!(Registries::one(1000));
    let host = registries.target.registry.host().to_owned();
    for (at, answer) in [
        Answer::new(404),
        Answer::new(405),
        Answer::new(401),
        Answer::new(400),
        Answer::new(200).header("Content-Type", "text/html").body("<html>"),
        Answer::json(200, &json!({})),
    ]
    .into_iter()
    .enumerate()
    {
        let repository = format!("quirk{at}/app");
        registries.target.proxy.script([on("GET", "/referrers/").always().does(Action::Answer(answer))]);
        let run =
            attesting(&registries, &registries.target.name(&format!("{repository}:v1")), &["--attest", "provenance"])
                .run()
                .ok();
        assert_eq!(listed(&host, &repository, &run.digest()).len(), 1, "answer {at}\n{run}");
    }
}

/// Some registries take the path for that of the manifest itself.
#[test]
fn the_subject_itself_is_not_a_list() {
    let registries = or_skip!(Registries::one(1000));
    let host = registries.target.registry.host().to_owned();
    let expected = registries.expected().to_owned();
    let manifest = crate::support::tools::skopeo_raw(&format!("{host}/out/expected@{expected}"));
    let answer = Answer::new(200).header("Content-Type", "application/vnd.oci.image.manifest.v1+json").body(manifest);
    registries.target.proxy.script([on("GET", "/referrers/").always().does(Action::Answer(answer))]);
    attesting(&registries, &registries.target.name("same/app:v1"), &["--attest", "provenance"]).run().ok();
    assert_eq!(listed(&host, "same/app", &expected).len(), 1);
}

/// With the API the registry keeps the list, if it says so; if it does not, it is looked at again.
#[test]
fn a_registry_with_the_api_keeps_the_list_itself() {
    let registries = or_skip!(Registries::one(1000));
    let host = registries.target.registry.host().to_owned();
    let digest = registries.expected().to_owned();
    let empty = || {
        Answer::json(200, &json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": []}))
            .header("Content-Type", INDEX)
    };
    let api = || on("GET", "/referrers/").always().does(Action::Answer(empty()));
    let says = Action::set_header("OCI-Subject", digest.clone());
    // Only the statement's manifest is put by a digest that is not a layer's or the image's own tag.
    registries.target.proxy.script([api(), on("PUT", "/manifests/sha256:").always().does(says)]);
    let words = ["--attest", "provenance"];
    attesting(&registries, &registries.target.name("api/app:v1"), &words).run().ok();
    assert_eq!(registries.target.proxy.count("PUT", "/manifests/sha256-"), 0, "no tag is needed");
    assert!(listed(&host, "api/app", &digest).is_empty());
    registries.target.proxy.script([api()]);
    let run = attesting(&registries, &registries.target.name("mute/app:v1"), &words).run();
    assert_eq!((run.code(), run.digest()), (Some(2), digest), "{run}");
    assert!(run.stderr.contains("does not list it"), "{run}");
}

/// A list in pages, filtered or not.
#[test]
fn pages_are_followed_on_the_same_registry_only() {
    let registries = or_skip!(Registries::one(1000));
    let digest = registries.expected().to_owned();
    let words = ["--attest", "provenance", "--json"];
    let first = attesting(&registries, &registries.target.name("tag/app:v1"), &words).run().ok().json();
    let statement = first["attestations"][0]["digest"].clone();
    let entry = json!({"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": statement, "size": 1, "artifactType": "application/vnd.in-toto+json"});
    let page = |entries: serde_json::Value| {
        Answer::json(200, &json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}))
            .header("Content-Type", INDEX)
    };
    let next = format!("</v2/pages/app/referrers/{digest}?last=1>; rel=\"next\"");
    let image = registries.target.name("pages/app:v1");
    // What is listed is also there.
    attesting(&registries, &image, &words).run().ok();
    registries.target.proxy.script([
        on("GET", "/v2/pages/app/referrers/*last=1").always().does(Action::Answer(page(json!([entry])))),
        on("GET", "/v2/pages/app/referrers/").always().does(Action::Answer(page(json!([])).header("Link", next))),
    ]);
    let run = attesting(&registries, &image, &words).run().ok();
    assert_eq!(run.json()["attestations"][0]["change"], "already-there", "found on the second page\n{run}");
    // A page elsewhere is not gone to, so what is on it is not there.
    let elsewhere = Proxy::before(registries.target.registry.host());
    elsewhere.script([on("GET", "/referrers/").always().does(Action::Answer(page(json!([entry]))))]);
    let next = format!("<http://{}/v2/pages/app/referrers/{digest}?last=1>; rel=\"next\"", elsewhere.host());
    let first = page(json!([])).header("Link", next);
    let says = Action::set_header("OCI-Subject", digest);
    registries.target.proxy.script([
        on("GET", "/referrers/").always().does(Action::Answer(first)),
        on("PUT", "/manifests/sha256:").always().does(says),
    ]);
    let run = attesting(&registries, &image, &words).run().ok();
    assert_eq!(run.json()["attestations"][0]["change"], "written", "{run}");
    assert_eq!(elsewhere.seen().len(), 0);
}

/// What is asked for by its type is looked at by its type, whether or not the registry heeds the filter.
#[test]
fn a_list_is_filtered_by_the_registry_or_by_us() {
    let registries = or_skip!(Registries::one(1000));
    let base = registries.source.name("base/new");
    let digest = registries.new_base.digest();
    let policy = registries.sandbox.path("policy.yaml");
    std::fs::write(&policy, format!("signed_by:\n- images: ['{base}']\n  keys: ['{}']\n", key("cosign.pub"))).unwrap();
    let foreign = format!("sha256:{}", "0".repeat(64));
    let entry = |digest: &str, kind: &str| json!({"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest, "size": 1, "artifactType": kind});
    for (kind, is_read) in [("application/x", 0), (BUNDLE, 1)] {
        let list = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry(&foreign, kind)]});
        let list = Answer::json(200, &list).header("Content-Type", INDEX);
        registries.source.proxy.script([on("GET", "/referrers/").always().does(Action::Answer(list))]);
        let run = registries.rebase(&registries.target.name("out/app:v1"), "cache").arg("--policy").arg(&policy).run();
        assert_ne!(run.code(), Some(0), "{run}");
        let asked = registries.source.proxy.matching("GET", &format!("/referrers/{digest}"));
        assert!(
            asked
                .iter()
                .all(|seen| seen.target.contains("artifactType=application/vnd.dev.sigstore.bundle.v0.3%2Bjson")),
            "{asked:?}"
        );
        assert_eq!((asked.len(), registries.source.proxy.count("GET", &foreign)), (1, is_read), "{kind}\n{run}");
    }
}

/// Several writers at once: every statement is in the list at the end.
#[test]
fn writers_at_the_same_time_keep_each_others_statements() {
    let registries = or_skip!(Registries::one(1000));
    let (digest, statements) = write_at_once(&registries);
    assert_eq!(listed(registries.target.registry.host(), "many/app", &digest).len(), statements);
    let registries = or_skip!(Registries::with_referrers_api(1000));
    let (digest, statements) = write_at_once(&registries);
    let list = http::get(registries.target.registry.host(), &format!("/v2/many/app/referrers/{digest}"), &[]).json();
    assert_eq!(list["manifests"].as_array().unwrap().len(), statements, "{list}");
    assert!(listed(registries.target.registry.host(), "many/app", &digest).is_empty(), "no tag is needed");
}

/// Signs one image with three keys at once; yields its digest and the number of signatures.
fn write_at_once(registries: &Registries) -> (String, usize) {
    let image = registries.target.name("many/app:v1");
    let digest = registries.rebase(&image, "cache").run().ok().digest();
    let keys = ["ecdsa.pem", "ed25519.pem", "cosign.key"];
    let running: Vec<_> = keys
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let key = key(name);
            let invocation = registries.rebase(&image, &format!("cache-{at}")).args(["--sign-key", key.as_str()]);
            // At the pace of real life: what is hurried elsewhere is the wait for other writers.
            invocation.env("COSIGN_PASSWORD", "secret").env("UNDERPIN_TEST_PACE", "1").start()
        })
        .collect();
    for run in running {
        run.finish().ok();
    }
    (digest, keys.len())
}

/// Another writer replaces the list between our write and our look at it.
#[test]
fn a_list_that_another_writer_replaced_is_repaired() {
    let registries = or_skip!(Registries::one(1000));
    let digest = registries.expected().to_owned();
    let tag = digest.replace(':', "-");
    let theirs = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": []});
    let lost = Answer::json(200, &theirs).header("Content-Type", INDEX);
    // The first look finds nothing, the second somebody else's list, the third is the truth.
    registries.target.proxy.script([on("GET", format!("/manifests/{tag}")).nth(2).does(Action::Answer(lost))]);
    attesting(&registries, &registries.target.name("lost/app:v1"), &["--attest", "provenance"]).run().ok();
    assert_eq!(registries.target.proxy.count("PUT", &format!("/manifests/{tag}")), 2);
    assert_eq!(listed(registries.target.registry.host(), "lost/app", &digest).len(), 1);
}

/// The image is published by then, so whoever asked must be told what and that.
#[test]
fn an_image_whose_statement_cannot_be_attached_is_still_named() {
    let registries = or_skip!(Registries::one(1000));
    let tag = registries.expected().replace(':', "-");
    registries
        .target
        .proxy
        .script([on("PUT", format!("/manifests/{tag}")).always().does(Action::Answer(Answer::new(403)))]);
    let target = registries.target.name("denied/app:v1");
    let run = attesting(&registries, &target, &["--attest", "provenance"]).run();
    assert_eq!(run.code(), Some(2), "{run}");
    assert_eq!(run.digest(), registries.expected(), "{run}");
    assert!(run.stderr.contains("error: ") && run.stderr.contains("published"), "{run}");
}
