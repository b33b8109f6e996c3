//! Manifests before their parts: relied on where the registry names what it lacks, and nowhere else.

use super::*;
use crate::store::{Offer, PutUnder, Sink};

/// An image of two layers; its parts, the config last.
fn image() -> (Document, [Digest; 3]) {
    let config = Descriptor::of(MediaType::oci_config(), b"{}");
    let layers = [blob_of(b"one"), blob_of(b"two")];
    let object = serde_json::json!({"schemaVersion": 2, "mediaType": MediaType::oci_manifest().as_str(),
        "config": config.to_value(), "layers": [layers[0].to_value(), layers[1].to_value()]});
    let parts = [layers[0].digest, layers[1].digest, config.digest];
    (Document::read(object.to_string().into_bytes(), None).unwrap(), parts)
}

/// A registry that names `named` of each manifest, or takes it where it would name nothing, and that has `there`.
fn registry(named: Vec<Digest>, there: Vec<Digest>) -> FakeRegistry {
    FakeRegistry::start(move |seen, _| match seen.method.as_str() {
        "PUT" if named.is_empty() => {
            Reply::new(201).with("Location", "/x").with("Docker-Content-Digest", image().0.digest())
        }
        "PUT" => {
            let error = |digest: &Digest| format!(r#"{{"code":"MANIFEST_BLOB_UNKNOWN","detail":"{digest}"}}"#);
            let errors: Vec<String> = named.iter().map(error).collect();
            Reply::new(400).body(format!(r#"{{"errors":[{}]}}"#, errors.join(",")))
        }
        _ if there.iter().any(|digest| seen.target.ends_with(&digest.to_string())) => Reply::new(200),
        _ => Reply::new(404),
    })
}

/// Offers the image to five repositories, one after the other: what came of each, how many of its parts were lacking.
fn offer(fake: &FakeRegistry) -> Vec<String> {
    let rig = Rig::new();
    let one = |at: usize| {
        let sink = rig.registry.sink(&fake.image(&format!("out/a{at}:v1")));
        match sink.offer(sink.offer_wish(), &[(&image().0, PutUnder::Target)]).unwrap().remove(0) {
            Offer::NotMade => "-".to_owned(),
            Offer::Taken => "taken".to_owned(),
            Offer::Lacks(lacking) => lacking.len().to_string(),
        }
    };
    (0..5).map(one).collect()
}

#[test]
fn a_registry_that_names_what_it_lacks_is_relied_on_while_that_saves_requests() {
    let (_, [one, two, config]) = image();
    let nothing_there = registry(vec![one, two, config], vec![]);
    assert_eq!(offer(&nothing_there), ["-", "3", "3", "3", "-"], "new repositories are not asked for ever");
    let base_there = registry(vec![two, config], vec![one]);
    assert_eq!(offer(&base_there), ["-", "2", "2", "2", "2"]);
    let digest = image().0.digest().to_string();
    let puts: Vec<String> = base_there.lines().into_iter().filter(|line| line.starts_with("PUT")).collect();
    assert!(puts[0].ends_with(&digest), "nobody sees the first: {puts:?}");
    assert!(puts.len() == 4 && puts[1..].iter().all(|line| line.ends_with("/v1")), "{puts:?}");
}

#[test]
fn images_at_once_wait_for_the_one_that_finds_out() {
    let (_, [one, two, config]) = image();
    let fake = registry(vec![two, config], vec![one]);
    let rig = Rig::new();
    let offer = |at: usize| {
        let sink = rig.registry.sink(&fake.image(&format!("out/a{at}:v1")));
        sink.offer(sink.offer_wish(), &[(&image().0, PutUnder::Target)]).unwrap().remove(0)
    };
    assert_eq!(offer(0), Offer::NotMade, "one image alone");
    let offers: Vec<Offer> = std::thread::scope(|scope| {
        let started: Vec<_> = (1..9).map(|at| scope.spawn(move || offer(at))).collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(offers.iter().all(|offer| matches!(offer, Offer::Lacks(lacking) if lacking.len() == 2)), "{offers:?}");
    assert_eq!(
        fake.lines().iter().filter(|line| line.starts_with("HEAD")).count(),
        1,
        "one probed: {:?}",
        fake.lines()
    );
}

#[test]
fn a_registry_that_takes_manifests_without_their_parts_is_not_relied_on() {
    let (document, _) = image();
    let fake = registry(vec![], vec![]);
    assert_eq!(offer(&fake), ["-"; 5]);
    let digest = document.digest().to_string();
    let puts: Vec<String> = fake.lines().into_iter().filter(|line| line.starts_with("PUT")).collect();
    assert!(puts.len() == 3 && puts.iter().all(|line| line.ends_with(&digest)), "no tag is put: {puts:?}");
}

#[test]
fn a_registry_that_names_only_some_of_what_it_lacks_is_not_relied_on() {
    let (_, [one, two, config]) = image();
    for (named, there) in [
        (vec![one], vec![]),
        (vec![one], vec![two]),
        (vec![one, two], vec![]),
        // It may check configs alone.
        (vec![config], vec![one, two]),
    ] {
        let fake = registry(named.clone(), there.clone());
        assert_eq!(offer(&fake), ["-"; 5], "{named:?} {there:?}");
    }
}

#[test]
fn a_blob_that_a_repository_has_is_not_asked_for_again() {
    let fake = FakeRegistry::start(|_, _| Reply::new(201).with("Location", "/x"));
    let rig = Rig::new();
    let bytes = noise(100);
    let from = [fake.image("base/x:v1").name().clone()];
    let open = || Ok(Box::new(std::io::Cursor::new(noise(100))) as crate::store::Stream);
    let blob = crate::store::Blob { descriptor: &blob_of(&bytes), held_by: &from, open: &open };
    for (image, requests) in [("out/a:v1", 1), ("out/a:v2", 1), ("out/b:v1", 2)] {
        rig.registry.sink(&fake.image(image)).put_blob(&blob).unwrap();
        assert_eq!(fake.lines().len(), requests, "{image}: {:?}", fake.lines());
    }
}
