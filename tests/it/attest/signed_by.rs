//! `signed_by` in the policy: whose signatures count, and that nothing of an unsigned image is used.

use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{BUNDLE, VERIFYING, attached_bytes, attesting, cosign, key, listed, sign};
use crate::support::http;
use crate::support::invocation::Invocation;
use crate::support::recipe::{Dialect, Document, push_blob};
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

/// notation, with a configuration of its own.
pub fn notation(registries: &Registries, program: &Path, args: &[&str]) -> Result<String, String> {
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
    for form in ["cose", "jws"] {
        sign(form).unwrap();
        demanding("ours").ok();
        demanding("theirs").refused().says("it was made with another key");
        put_list(registries.source.registry.host(), "base/new", &registries.new_base.top.descriptor(), &[]);
        demanding("ours").refused().says("no signature");
    }
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
    let subject = copy_published(registries, repository);
    let entry = attach(host, repository, &subject, (BUNDLE, BUNDLE), bundle);
    put_list(host, repository, &subject, &[entry]);
}

/// The published image `out/app:v1` in another repository; yields its descriptor.
pub fn copy_published(registries: &Registries, repository: &str) -> Value {
    let (host, image) = (registries.target.registry.host(), registries.published("out/app", "v1"));
    let manifest = Document::new(&image.media_type, &image.only().manifest);
    assert_eq!(manifest.digest(), image.digest);
    let blobs = image.only().manifest["layers"].as_array().unwrap().iter().chain([&image.only().manifest["config"]]);
    for blob in blobs {
        let path = format!("/v2/{repository}/blobs/uploads/?mount={}&from=out/app", blob["digest"].as_str().unwrap());
        assert_eq!(http::ask("POST", host, &path, &[], b"").unwrap().status, 201);
    }
    put(host, repository, &manifest, &image.digest);
    manifest.descriptor()
}

/// Puts a document under a tag or a digest.
pub fn put(host: &str, repository: &str, document: &Document, tag: &str) {
    let headers = [("Content-Type", document.media_type.as_str())];
    let reply =
        http::ask("PUT", host, &format!("/v2/{repository}/manifests/{tag}"), &headers, &document.bytes).unwrap();
    assert_eq!(reply.status, 201, "{}", reply.text());
}

/// Puts a manifest about `subject`, with these bytes as its layer; yields its entry in a list.
pub fn attach(
    host: &str,
    repository: &str,
    subject: &Value,
    (artifact_type, layer_type): (&str, &str),
    bytes: &[u8],
) -> Value {
    for bytes in [bytes, b"{}"] {
        push_blob(host, repository, bytes);
    }
    let descriptor =
        |media_type: &str, bytes: &[u8]| json!({"mediaType": media_type, "digest": digest(bytes), "size": bytes.len()});
    let of_manifest = Dialect::Oci.manifest();
    let attached = Document::new(
        of_manifest,
        &json!({
            "schemaVersion": 2, "mediaType": of_manifest, "artifactType": artifact_type, "subject": subject,
            "config": descriptor("application/vnd.oci.empty.v1+json", b"{}"), "layers": [descriptor(layer_type, bytes)],
        }),
    );
    put(host, repository, &attached, &attached.digest());
    let mut entry = attached.descriptor();
    entry["artifactType"] = artifact_type.into();
    entry
}

/// The list of what is about `subject`, as a registry without the API has it.
pub fn put_list(host: &str, repository: &str, subject: &Value, entries: &[Value]) {
    let list = json!({"schemaVersion": 2, "mediaType": Dialect::Oci.index(), "manifests": entries});
    let list = Document::new(Dialect::Oci.index(), &list);
    put(host, repository, &list, &subject["digest"].as_str().unwrap().replace(':', "-"));
}

/// What cosign 2 put under the tag of a digest.
pub fn simple_signature(host: &str, repository: &str, digest: &str) -> Value {
    let path = format!("/v2/{repository}/manifests/{}.sig", digest.replace(':', "-"));
    http::get(host, &path, &[("Accept", Dialect::Oci.manifest())]).json()
}

/// A manifest under the tag that cosign 2 looks at for a digest.
pub fn put_simple_signature(host: &str, repository: &str, digest: &str, manifest: &Value) {
    let manifest = Document::new(Dialect::Oci.manifest(), manifest);
    put(host, repository, &manifest, &format!("{}.sig", digest.replace(':', "-")));
}

/// Another image in the base's own repository is signed by whom the policy trusts, in each way, and its signatures are put
/// where those of the base would be. Each is refused for what it is, by every command.
#[test]
fn signatures_of_another_image_or_of_another_kind_are_refused_by_name() {
    let (cosign2, cosign3) = (or_skip!(newer("trixie/cosign", "cosign")), or_skip!(newer("sid/cosign", "cosign")));
    let program = or_skip!(newer("sid/notation", "notation"));
    let registries = or_skip!(Registries::one(1000));
    let (host, repository) = (registries.source.registry.host(), "base/new");
    let (base, other) = (registries.new_base.digest(), registries.old_base.digest());
    registries.old_base.push(host, repository, "other");
    let other_image = format!("{}@{other}", registries.source.name(repository));
    sign(&cosign2, &cosign3, &registries.sandbox, &other_image);
    notation(&registries, &program, &["cert", "generate-test", "ours"]).unwrap();
    notation(&registries, &program, &["sign", "--insecure-registry", "--key", "ours", &other_image]).unwrap();
    let certificate = registries.sandbox.path("notation/notation/localkeys/ours.crt");
    let policy = registries.sandbox.path("policy.yaml");
    let keys = format!("['{}', '{}']", key("cosign.pub"), certificate.display());
    std::fs::write(&policy, format!("signed_by:\n- images: ['{}']\n  keys: {keys}\n", bases(&registries))).unwrap();
    let refused = |reason: &str| rebase(&registries, &policy).run().refused().says(reason);

    let theirs = simple_signature(host, repository, &other);
    put_simple_signature(host, repository, &base, &theirs);
    refused(&format!("it is about another digest: {other}"));
    let mut of_another_type = theirs;
    of_another_type["layers"][0]["mediaType"] = "text/plain".into();
    put_simple_signature(host, repository, &base, &of_another_type);
    refused("it signs another type of payload: \"text/plain\"");

    let subject = registries.new_base.top.descriptor();
    let lists = listed(host, repository, &other);
    let (notary, jws) = ("application/vnd.cncf.notary.signature", "application/jose+json");
    let bytes = |at: usize| attached_bytes(host, repository, lists[at]["digest"].as_str().unwrap());
    let (bundle, envelope) = (bytes(0), bytes(1));
    let in_place = |types: (&str, &str), bytes: &[u8]| {
        put_list(host, repository, &subject, &[attach(host, repository, &subject, types, bytes)]);
    };
    in_place((BUNDLE, BUNDLE), &bundle);
    refused(&format!("it is about another digest: {other}"));
    let text = String::from_utf8(bundle).unwrap().replace("application/vnd.in-toto+json", "text/plain");
    in_place((BUNDLE, BUNDLE), text.as_bytes());
    refused("it signs another type of payload: \"text/plain\"");
    in_place((notary, jws), &envelope);
    refused(&format!("it is about another digest: {other}"));

    // Who attests something about an image has not signed it.
    put_list(host, repository, &subject, &[]);
    let predicate = registries.sandbox.path("predicate.json");
    std::fs::write(&predicate, "{}").unwrap();
    let words = ["attest", "--use-signing-config=false", "--tlog-upload=false", "--allow-insecure-registry", "-y"];
    let more = ["--type", "https://example.com/flaws", "--predicate", predicate.to_str().unwrap(), "--key"];
    let image = format!("{}@{base}", registries.source.name(repository));
    cosign(&cosign3, &registries.sandbox, &[&words[..], &more, &[&key("cosign.key"), &image]].concat()).unwrap();
    refused("it is a statement of another type: \"https://example.com/flaws\"");

    // The same in every command.
    let (source, base) = (registries.source.name("in/app:v1"), registries.source.name("base/new:v1"));
    let batch = registries.sandbox.path("batch.yaml");
    let target = registries.target.name("out/b:v1");
    std::fs::write(&batch, format!("images:\n- {{source: '{source}', base: '{base}', target: '{target}'}}\n")).unwrap();
    let batch = batch.to_str().unwrap();
    for words in [&["plan", &source, "--base", &base][..], &["batch", batch], &["check", &base, "--allow-base", &base]]
    {
        let run = registries.sandbox.underpin(words).arg("--policy").arg(&policy).run().refused();
        let said = format!("{}{}", run.stdout, run.stderr);
        assert!(said.contains("signature-missing") && said.contains("https://example.com/flaws"), "{run}");
    }
}

/// Notation signs with a certificate that ends a moment later.
#[test]
fn a_signature_is_refused_when_its_certificate_has_expired() {
    let program = or_skip!(newer("sid/notation", "notation"));
    let registries = or_skip!(Registries::one(1000));
    let home = registries.sandbox.path("notation/notation");
    std::fs::create_dir_all(&home).unwrap();
    let end = std::time::SystemTime::now() + std::time::Duration::from_secs(4);
    let (key, certificate) = (home.join("short.key"), home.join("short.crt"));
    let pair = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    for (kind, value) in [
        (rcgen::DnType::CommonName, "short"),
        (rcgen::DnType::CountryName, "US"),
        (rcgen::DnType::StateOrProvinceName, "WA"),
        (rcgen::DnType::OrganizationName, "Notary"),
    ] {
        params.distinguished_name.push(kind, value);
    }
    params.key_usages = vec![rcgen::KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::CodeSigning];
    params.not_after = end.into();
    std::fs::write(&key, pair.serialize_pem()).unwrap();
    std::fs::write(&certificate, params.self_signed(&pair).unwrap().pem()).unwrap();
    let keys = json!({"default": "short", "keys": [{"name": "short", "keyPath": key, "certPath": certificate}]});
    std::fs::write(home.join("signingkeys.json"), keys.to_string()).unwrap();
    let base = format!("{}@{}", registries.source.name("base/new"), registries.new_base.digest());
    notation(&registries, &program, &["sign", "--insecure-registry", "--key", "short", &base]).unwrap();
    let policy = registries.sandbox.path("policy.yaml");
    let text = format!("signed_by:\n- images: ['{}']\n  keys: ['{}']\n", bases(&registries), certificate.display());
    std::fs::write(&policy, text).unwrap();
    let left = end.duration_since(std::time::SystemTime::now()).unwrap_or_default();
    std::thread::sleep(left + std::time::Duration::from_secs(1));
    rebase(&registries, &policy).run().refused().says("it is not valid now: its certificate is valid from");
}
