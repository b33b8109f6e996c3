//! Signatures of every maker with a byte changed, on a real registry: none counts, for us and for those who make them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::signed_by::{attach, copy_published, notation, put_list, put_simple_signature, simple_signature};
use super::{BUNDLE, VERIFYING, attached_bytes, attesting, cosign, key, listed, sign};
use crate::support::recipe::push_blob;
use crate::support::registries::Registries;
use crate::support::skip::or_skip;
use crate::support::tar_layer::digest;
use crate::support::tools::newer;

const NOTARY: (&str, &str) = ("application/vnd.cncf.notary.signature", "application/jose+json");
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";

/// A bundle with one byte of what is signed, or of the signature, changed. cosign does not look at the rest; we do.
fn mutated_bundle(of: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bundle: Value = serde_json::from_slice(of).unwrap();
    let place = ["/dsseEnvelope/payload", "/dsseEnvelope/signatures/0/sig"][random.usize(..2)];
    let place = bundle.pointer_mut(place).unwrap();
    *place = STANDARD.encode(mutant(&STANDARD.decode(place.as_str().unwrap()).unwrap(), random)).into();
    bundle.to_string().into_bytes()
}

/// One byte is another one.
fn mutant(of: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = of.to_vec();
    let at = random.usize(..bytes.len());
    let before = bytes[at];
    while bytes[at] == before {
        bytes[at] = random.alphanumeric() as u8;
    }
    bytes
}

/// A manifest of cosign 2 in which the payload or the signature of each layer is a mutant.
fn mutated_simple(host: &str, repository: &str, of: &Value, random: &mut fastrand::Rng) -> Value {
    let layer = &of["layers"][0];
    let payload = attached_payload(host, layer);
    let layers = (0..12).map(|at| {
        let mut layer = layer.clone();
        if at % 2 == 0 {
            let bytes = mutant(&payload, random);
            push_blob(host, repository, &bytes);
            layer["digest"] = digest(&bytes).into();
        } else {
            let signature = STANDARD.decode(layer["annotations"][SIGNATURE].as_str().unwrap()).unwrap();
            layer["annotations"][SIGNATURE] = STANDARD.encode(mutant(&signature, random)).into();
        }
        layer
    });
    let layers: Vec<Value> = layers.collect();
    push_blob(host, repository, &payload);
    let config = crate::support::http::get(
        host,
        &format!("/v2/out/app/blobs/{}", of["config"]["digest"].as_str().unwrap()),
        &[],
    );
    push_blob(host, repository, &config.body);
    let mut manifest = of.clone();
    manifest["layers"] = json!(layers);
    manifest
}

fn attached_payload(host: &str, layer: &Value) -> Vec<u8> {
    let path = format!("/v2/out/app/blobs/{}", layer["digest"].as_str().unwrap());
    crate::support::http::get(host, &path, &[]).body
}

#[test]
fn fifty_mutated_signatures_of_every_maker_are_refused_by_all() {
    let registries = or_skip!(Registries::one(1000));
    let (cosign2, cosign3) = (or_skip!(newer("trixie/cosign", "cosign")), or_skip!(newer("sid/cosign", "cosign")));
    let program = or_skip!(newer("sid/notation", "notation"));
    let host = registries.target.registry.host();
    let image = registries.target.name("out/app:v1");
    let about = attesting(&registries, &image, &["--sign-key", &key("cosign.key")]).run().ok().digest();
    let pinned = registries.target.name(&format!("out/app@{about}"));
    sign(&cosign2, &cosign3, &registries.sandbox, &pinned);
    notation(&registries, &program, &["cert", "generate-test", "ours"]).unwrap();
    notation(&registries, &program, &["sign", "--insecure-registry", "--key", "ours", &pinned]).unwrap();
    let trust = json!({"version": "1.0", "trustPolicies": [{
        "name": "all", "registryScopes": ["*"], "signatureVerification": {"level": "strict"},
        "trustStores": ["ca:ours"], "trustedIdentities": ["*"],
    }]});
    std::fs::write(registries.sandbox.path("notation/notation/trustpolicy.json"), trust.to_string()).unwrap();

    // Ours, cosign's, notation's: in the order that they were attached in.
    let made: Vec<Vec<u8>> = listed(host, "out/app", &about)
        .iter()
        .map(|entry| attached_bytes(host, "out/app", entry["digest"].as_str().unwrap()))
        .collect();
    let [ours, theirs, envelope] = &made[..] else { panic!("{} statements", made.len()) };
    // Nobody signed the name of the program that signed.
    let envelope = String::from_utf8(envelope.clone()).unwrap();
    let envelope = envelope.replace(",\"io.cncf.notary.signingAgent\":\"notation-go/1.3.2\"", "");
    let simple = simple_signature(host, "out/app", &about);
    let mut random = fastrand::Rng::with_seed(50);

    let subject = copy_published(&registries, "intact/app");
    copy_published(&registries, "mutants/app");
    let intact = [((BUNDLE, BUNDLE), ours.as_slice()), ((BUNDLE, BUNDLE), theirs), (NOTARY, envelope.as_bytes())];
    let entries = intact.map(|(types, bytes)| attach(host, "intact/app", &subject, types, bytes));
    put_list(host, "intact/app", &subject, &entries);
    let mutants = intact.iter().flat_map(|intact| std::iter::repeat_n(intact, 18)).map(|(types, bytes)| {
        let mutant = if *types == NOTARY { mutant(bytes, &mut random) } else { mutated_bundle(bytes, &mut random) };
        attach(host, "mutants/app", &subject, *types, &mutant)
    });
    let mutants: Vec<Value> = mutants.collect();
    put_list(host, "mutants/app", &subject, &mutants);
    let mutated = mutated_simple(host, "mutants/app", &simple, &mut random);
    put_simple_signature(host, "mutants/app", &about, &mutated);
    // The intact one in the other repository needs its blobs, too.
    mutated_simple(host, "intact/app", &simple, &mut random);
    put_simple_signature(host, "intact/app", &about, &simple);

    let certificate = registries.sandbox.path("notation/notation/localkeys/ours.crt");
    let policy = registries.sandbox.path("policy.yaml");
    let images = format!("{}/**", registries.target.proxy.host());
    let keys = format!("['{}', '{}']", key("cosign.pub"), certificate.display());
    std::fs::write(&policy, format!("signed_by:\n- images: ['{images}']\n  keys: {keys}\n")).unwrap();
    for (repository, is_good) in [("intact/app", true), ("mutants/app", false)] {
        let image = registries.target.name(&format!("{repository}@{about}"));
        let plan = registries.sandbox.underpin(["plan", &image, "--base", &image, "--json", "--policy"]);
        let run = plan.arg(&policy).run();
        assert_eq!(run.stdout.contains("signature-missing"), !is_good, "{run}");
        let public = key("cosign.pub");
        let verify = [&["verify"][..], &VERIFYING, &[&public, &image]].concat();
        for program in [&cosign2, &cosign3] {
            let judged = cosign(program, &registries.sandbox, &verify);
            assert_eq!(judged.is_ok(), is_good, "{} {repository}: {judged:?}", program.display());
        }
        let judged = notation(&registries, &program, &["verify", "--insecure-registry", &image]);
        assert_eq!(judged.is_ok(), is_good, "notation {repository}: {judged:?}");
        if !is_good {
            let evidence = run.json()["platforms"][0]["findings"][0]["evidence"].to_string();
            let judged = evidence.matches("referrer sha256:").count();
            let simple = evidence.matches(".sig: ").count();
            assert_eq!((judged, simple), (mutants.len(), 12), "every one was looked at: {evidence}");
        }
    }
}
