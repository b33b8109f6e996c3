//! `signed_by` in the policy: whose signatures count, and that nothing of an unsigned image is used.

use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{BUNDLE, VERIFYING, attached_bytes, attesting, cosign, key, listed, sign};
use crate::support::http;
use crate::support::invocation::Invocation;
use crate::support::recipe::Document;
use crate::support::registries::Registries;
use crate::support::skip::or_skip;
use crate::support::tar_layer::digest;
use crate::support::tools::newer;

/// A policy file that demands a signature by `key` of the images.
fn policy(registries: &Registries, images: &str, key_file: &str) -> PathBuf {
    let file = registries.sandbox.path(&format!("policy-{key_file}.yaml"));
    std::fs::write(&file, format!("signed_by:\n- images: ['{images}']\n  keys: ['{}']\n", key(key_file))).unwrap();
    file
}

fn rebase(registries: &Registries, policy: &PathBuf) -> Invocation {
    registries.rebase(&registries.target.name("out/app:v1"), "cache").arg("--policy").arg(policy)
}

fn bases(registries: &Registries) -> String {
    registries.source.name("base/*")
}

#[test]
fn a_base_that_is_not_signed_is_refused_before_a_layer_is_read() {
    let registries = or_skip!(Registries::one(1000));
    let policy_file = policy(&registries, &bases(&registries), "cosign.pub");
    let policy_file = &policy_file;
    registries.source.proxy.calm();
    let run = rebase(&registries, policy_file).arg("--json").run().refused();
    let findings = run.json()["platforms"][0]["findings"].to_string();
    let tag = registries.new_base.digest().replace(':', "-");
    for word in ["signature-missing", "no signature", &format!("{tag}.sig: not there"), "cosign.pub"] {
        assert!(findings.contains(word), "{word}: {findings}");
    }
    for layer in registries.new_base.layers() {
        assert_eq!(registries.source.proxy.count("GET", &layer), 0, "a layer of it was read");
    }
    assert_eq!(registries.target.registry.tag("out/app", "v1"), None);
    let source = registries.source.name("in/app:v1");
    let base = registries.source.name("base/new:v1");
    let words = ["plan", &source, "--base", &base, "--policy"];
    let run = registries.sandbox.underpin(words).arg(policy_file).run().refused();
    assert!(run.stdout.contains("signature-missing"), "{run}");
    let batch = registries.sandbox.path("batch.yaml");
    std::fs::write(
        &batch,
        format!("images:\n- source: {source}\n  base: {base}\n  target: {}\n", registries.target.name("out/b:v1")),
    )
    .unwrap();
    registries
        .sandbox
        .underpin(["batch"])
        .arg(&batch)
        .arg("--policy")
        .arg(policy_file)
        .run()
        .refused()
        .says("signature-missing");
    // An image that the pattern does not cover needs none.
    let other = policy(&registries, "registry.example/*", "ecdsa.pub");
    rebase(&registries, &other).run().ok();
}

#[test]
fn what_either_cosign_signs_is_accepted_for_its_key_and_digest_only() {
    let (cosign2, cosign3) = (or_skip!(newer("trixie/cosign", "cosign")), or_skip!(newer("sid/cosign", "cosign")));
    let old = ["sign", "--tlog-upload=false", "--allow-insecure-registry", "-y", "--key"];
    let new = ["sign", "--use-signing-config=false", "--tlog-upload=false", "--allow-insecure-registry", "-y", "--key"];
    for (program, words) in [(&cosign2, &old[..]), (&cosign3, &new[..])] {
        let registries = or_skip!(Registries::one(1000));
        let base = format!("{}@{}", registries.source.name("base/new"), registries.new_base.digest());
        let (ours, theirs) = (
            policy(&registries, &bases(&registries), "cosign.pub"),
            policy(&registries, &bases(&registries), "ecdsa.pub"),
        );
        rebase(&registries, &ours).run().refused();
        cosign(program, &registries.sandbox, &[words, &[&key("cosign.key"), &base]].concat()).unwrap();
        rebase(&registries, &ours).run().ok();
        rebase(&registries, &theirs).run().refused().says("it was made with another key");
        // The same signature says nothing about other bytes.
        let source = policy(&registries, &registries.source.name("in/*"), "cosign.pub");
        rebase(&registries, &source).run().refused().says("signature-missing");
    }
}

/// A certificate of notation, which the sandbox's notation signs with.
fn notation(registries: &Registries, program: &Path, args: &[&str]) -> Result<String, String> {
    let home = registries.sandbox.path("notation");
    let out = Command::new(program).args(args).env("XDG_CONFIG_HOME", &home).env("HOME", &home).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    if out.status.success() { Ok(text(out.stdout)) } else { Err(text(out.stderr)) }
}

#[test]
fn what_notation_signs_is_accepted_for_its_certificate() {
    let program = or_skip!(newer("sid/notation", "notation"));
    let registries = or_skip!(Registries::one(1000));
    for name in ["ours", "theirs"] {
        notation(&registries, &program, &["cert", "generate-test", name]).unwrap();
    }
    let base = format!("{}@{}", registries.source.name("base/new"), registries.new_base.digest());
    let demanding = |name: &str| {
        let certificate = registries.sandbox.path("notation").join(format!("notation/localkeys/{name}.crt"));
        let file = registries.sandbox.path(&format!("{name}.yaml"));
        let text = format!("signed_by:\n- images: ['{}']\n  keys: ['{}']\n", bases(&registries), certificate.display());
        std::fs::write(&file, text).unwrap();
        rebase(&registries, &file).run()
    };
    demanding("ours").refused();
    let sign = |form: &str| {
        notation(
            &registries,
            &program,
            &["sign", "--insecure-registry", "--key", "ours", "--signature-format", form, &base],
        )
    };
    sign("cose").unwrap();
    demanding("ours").refused().says("COSE envelopes are not supported");
    sign("jws").unwrap();
    demanding("ours").ok();
    demanding("theirs").refused().says("it was made with another key");
}

#[test]
fn check_asks_for_the_signature_of_the_image_and_of_its_base() {
    let registries = or_skip!(Registries::one(1000));
    let (cosign2, cosign3) = (or_skip!(newer("trixie/cosign", "cosign")), or_skip!(newer("sid/cosign", "cosign")));
    let policy = policy(&registries, &registries.source.name("in/*"), "cosign.pub");
    let check = || {
        let words =
            ["check", &registries.source.name("in/app:v1"), "--allow-base", &registries.source.name("base/old")];
        let known = ["--known-base", &registries.source.name("base/old:v1"), "--policy"].map(str::to_owned);
        registries.sandbox.underpin(words).args(known).arg(&policy).run()
    };
    let run = check().refused();
    assert!(run.stdout.contains("signature-missing"), "{run}");
    sign(
        &cosign2,
        &cosign3,
        &registries.sandbox,
        &format!("{}@{}", registries.source.name("in/app"), registries.app.digest()),
    );
    check().ok();
}

#[test]
fn what_underpin_signs_it_accepts_and_a_changed_byte_neither_does_cosign() {
    let registries = or_skip!(Registries::one(1000));
    let cosign3 = or_skip!(newer("sid/cosign", "cosign"));
    let host = registries.target.registry.host().to_owned();
    let image = registries.target.name("out/app:v1");
    let run = attesting(&registries, &image, &["--sign-key", &key("cosign.key")]).run().ok();
    let entry = listed(&host, "out/app", &run.digest())[0].clone();
    let bundle = attached_bytes(&host, "out/app", entry["digest"].as_str().unwrap());
    let subject = registries.published("out/app", "v1");
    let policy = policy(&registries, &format!("{}/**", registries.target.proxy.host()), "cosign.pub");
    // The image as a source that must be signed; its own base is covered, too, so all are put through one pattern.
    let accepted = |repository: &str| {
        let source = registries.target.name(&format!("{repository}@{}", subject.digest));
        let run = registries
            .sandbox
            .underpin(["plan", &source, "--base", &source, "--policy"])
            .arg(&policy)
            .arg("--json")
            .run();
        !run.stdout.contains("signature-missing")
    };
    let verifies = |repository: &str| {
        let image = registries.target.name(&format!("{repository}@{}", subject.digest));
        cosign(&cosign3, &registries.sandbox, &[&["verify"][..], &VERIFYING, &[&key("cosign.pub"), &image]].concat())
            .is_ok()
    };
    let tampered = |change: &dyn Fn(&mut Value)| {
        let mut value: Value = serde_json::from_slice(&bundle).unwrap();
        change(&mut value);
        value.to_string().into_bytes()
    };
    let flip = |text: &mut Value, at: usize| {
        let mut bytes = STANDARD.decode(text.as_str().unwrap()).unwrap();
        bytes[at] ^= 1;
        *text = STANDARD.encode(bytes).into();
    };
    let cases: [(&str, Vec<u8>, bool); 6] = [
        ("intact", bundle.clone(), true),
        ("payload", tampered(&|it| flip(&mut it["dsseEnvelope"]["payload"], 90)), false),
        ("signature", tampered(&|it| flip(&mut it["dsseEnvelope"]["signatures"][0]["sig"], 20)), false),
        ("type", tampered(&|it| it["dsseEnvelope"]["payloadType"] = "text/plain".into()), false),
        ("none", tampered(&|it| it["dsseEnvelope"]["signatures"] = json!([])), false),
        ("kind", tampered(&|it| it["mediaType"] = "application/json".into()), false),
    ];
    for (name, bytes, good) in cases {
        let repository = format!("tampered/{name}");
        copy_with(&registries, &host, &repository, &bytes);
        assert_eq!((accepted(&repository), verifies(&repository)), (good, good), "{name}");
    }
}

/// The published image in another repository, with one bundle about it.
fn copy_with(registries: &Registries, host: &str, repository: &str, bundle: &[u8]) {
    let image = registries.published("out/app", "v1");
    let manifest = Document::new(&image.media_type, &image.only().manifest);
    assert_eq!(manifest.digest(), image.digest);
    let blobs = image.only().manifest["layers"].as_array().unwrap().iter().chain([&image.only().manifest["config"]]);
    for blob in blobs {
        let (name, from) = (blob["digest"].as_str().unwrap(), "out/app");
        http::ask("POST", host, &format!("/v2/{repository}/blobs/uploads/?mount={name}&from={from}"), &[], b"")
            .unwrap();
    }
    let put = |document: &Document, tag: &str| {
        let headers = [("Content-Type", document.media_type.as_str())];
        let reply =
            http::ask("PUT", host, &format!("/v2/{repository}/manifests/{tag}"), &headers, &document.bytes).unwrap();
        assert_eq!(reply.status, 201, "{}", reply.text());
    };
    put(&manifest, &image.digest);
    for bytes in [bundle, b"{}"] {
        let reply = http::ask("POST", host, &format!("/v2/{repository}/blobs/uploads/"), &[], b"").unwrap();
        let place = reply.headers.get("location").unwrap().replacen(&format!("http://{host}"), "", 1);
        let reply = http::ask("PUT", host, &format!("{place}&digest={}", digest(bytes)), &[], bytes).unwrap();
        assert_eq!(reply.status, 201, "{}", reply.text());
    }
    let descriptor =
        |media_type: &str, bytes: &[u8]| json!({"mediaType": media_type, "digest": digest(bytes), "size": bytes.len()});
    let of_manifest = "application/vnd.oci.image.manifest.v1+json";
    let attached = Document::new(
        of_manifest,
        &json!({
            "schemaVersion": 2, "mediaType": of_manifest, "artifactType": BUNDLE,
            "config": descriptor("application/vnd.oci.empty.v1+json", b"{}"), "layers": [descriptor(BUNDLE, bundle)],
            "subject": descriptor(&image.media_type, &manifest.bytes),
        }),
    );
    put(&attached, &attached.digest());
    let mut entry = attached.descriptor();
    entry["artifactType"] = BUNDLE.into();
    let of_index = "application/vnd.oci.image.index.v1+json";
    let list = Document::new(of_index, &json!({"schemaVersion": 2, "mediaType": of_index, "manifests": [entry]}));
    put(&list, &image.digest.replace(':', "-"));
}
