//! Reading: manifests and blobs, through every fault that passes.

use std::io::Read;
use std::time::{Duration, Instant};

use super::*;
use crate::store::Source;
use crate::store::registry::RegistryOptions;
use oci::error::{Error, Kind, Result};

fn read_all(rig: &Rig, fake: &FakeRegistry, bytes: &[u8]) -> Result<Vec<u8>> {
    let mut stream = rig.registry.source(&fake.image("a/b:c")).open(&blob_of(bytes), 0)?;
    let mut got = Vec::new();
    stream.read_to_end(&mut got).map_err(|error| Error::from_stream(error, "other"))?;
    Ok(got)
}

fn fact<'a>(error: &'a Error, name: &str) -> &'a str {
    error.facts().iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value.as_str())
}

#[test]
fn a_manifest_takes_one_request_with_all_four_types() {
    let fake = FakeRegistry::start(|_, _| manifest_reply());
    let rig = Rig::new();
    let top = rig.registry.source(&fake.image("a/b:c")).top().unwrap();
    assert_eq!(top.bytes(), manifest());
    assert_eq!(fake.lines(), ["GET /v2/a/b/manifests/c"]);
    let seen = &fake.seen()[0];
    let accepted = seen.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("accept")).count();
    assert_eq!((accepted, seen.header("accept-encoding"), seen.header("referer")), (4, Some("identity"), None));
    let tally = rig.traffic.tally();
    assert_eq!((tally.requests, tally.bytes_down), (1, manifest().len() as u64));
}

#[test]
fn a_passing_status_is_asked_again() {
    for status in [408, 429, 499, 500, 502, 503, 504, 522] {
        let fake = FakeRegistry::start(move |_, nth| if nth == 0 { Reply::new(status) } else { manifest_reply() });
        assert!(Rig::new().registry.source(&fake.image("a/b:c")).top().is_ok(), "{status}");
        assert_eq!(fake.count("GET"), 2, "{status}");
    }
}

#[test]
fn five_faults_are_survived_and_the_sixth_is_told() {
    for (faults, requests) in [(5, 6), (6, 6)] {
        let fake = FakeRegistry::start(move |_, nth| if nth < faults { Reply::new(503) } else { manifest_reply() });
        let outcome = Rig::new().registry.source(&fake.image("a/b:c")).top();
        assert_eq!((outcome.is_ok(), fake.count("GET")), (faults == 5, requests));
        if let Err(error) = outcome {
            assert_eq!((error.kind(), fact(&error, "attempts")), (Kind::Network, "6"));
            assert_eq!(fact(&error, "image"), format!("{}/a/b:c", fake.host));
            assert_eq!(fact(&error, "request"), format!("GET http://{}/v2/a/b/manifests/c", fake.host));
            assert!(fact(&error, "status").starts_with("503"), "{error}");
        }
    }
}

#[test]
fn connections_that_are_lost_before_an_answer_are_made_again() {
    let fake = FakeRegistry::start(|seen, nth| match (seen.target.ends_with("/c"), nth) {
        (true, 0) => Reply::new(404),
        (false, 0) => manifest_reply().end(End::NoAnswer),
        (false, 1) => manifest_reply().end(End::CutAt(7)),
        (false, 2) => manifest_reply().end(End::StallAt(7)),
        _ => manifest_reply(),
    });
    let rig = Rig::new();
    assert_eq!(rig.registry.source(&fake.image("a/b:c")).top().unwrap_err().kind(), Kind::Missing);
    assert!(rig.registry.source(&fake.image("a/b:d")).top().is_ok());
    assert_eq!(fake.count("GET /v2/a/b/manifests/d"), 4);
}

#[test]
fn retry_after_is_waited_for() {
    let fake = FakeRegistry::start(|_, nth| match nth {
        0 => Reply::new(429).with("Retry-After", "1"),
        _ => manifest_reply(),
    });
    let started = Instant::now();
    assert!(Rig::new().registry.source(&fake.image("a/b:c")).top().is_ok());
    assert!(started.elapsed() >= Duration::from_secs(1));
}

#[test]
fn a_wait_without_sense_is_a_normal_one() {
    for wait in ["-1", "abc", "99999999999999999999", "Thu, 01 Jan 1970 00:00:00 GMT"] {
        let fake = FakeRegistry::start(move |_, nth| match nth {
            0 => Reply::new(429).with("Retry-After", wait),
            _ => manifest_reply(),
        });
        assert!(Rig::new().registry.source(&fake.image("a/b:c")).top().is_ok(), "{wait}");
    }
}

#[test]
fn a_wait_that_is_too_long_fails_at_once_and_says_when() {
    let fake = FakeRegistry::start(|_, _| Reply::new(429).with("Retry-After", "3600"));
    let error = Rig::new().registry.source(&fake.image("a/b:c")).top().unwrap_err();
    assert_eq!((error.kind(), fake.count("GET")), (Kind::Network, 1));
    assert!(error.what().contains("3600 s") && error.hints()[0].contains("GMT"), "{error}");
}

#[test]
fn a_pull_quota_is_not_waited_for() {
    let body = r#"{"errors":[{"code":"TOOMANYREQUESTS","message":"You have reached your pull rate limit."}]}"#;
    let fake = FakeRegistry::start(move |_, _| Reply::new(429).body(body));
    let error = Rig::new().registry.source(&fake.image("a/b:c")).top().unwrap_err();
    assert_eq!((fake.count("GET"), fact(&error, "code")), (1, "TOOMANYREQUESTS"));
    assert!(error.hints()[0].contains("log in"), "{error}");
}

#[test]
fn a_manifest_with_another_digest_is_fetched_again_and_then_refused() {
    let asked = digest(b"other");
    for wrong in [1, 2, 3] {
        let fake = FakeRegistry::start(move |_, nth| {
            let good = manifest_reply().with("Docker-Content-Digest", digest(&manifest()));
            let bad = Reply::new(200).body(b"{}").with("Docker-Content-Digest", digest(&manifest()));
            if nth < wrong { bad } else { good }
        });
        let image = fake.image(&format!("a/b@{}", digest(&manifest())));
        let outcome = Rig::new().registry.source(&image).top();
        assert_eq!(outcome.is_ok(), wrong < 3, "{wrong}");
    }
    let fake = FakeRegistry::start(|_, _| manifest_reply());
    let error = Rig::new().registry.source(&fake.image(&format!("a/b@{asked}"))).top().unwrap_err();
    assert_eq!((error.kind(), fake.count("GET")), (Kind::Integrity, 3));
    assert_eq!(fact(&error, "expected"), asked.to_string());
    assert_eq!(fact(&error, "got"), digest(&manifest()).to_string());
}

#[test]
fn a_header_that_contradicts_the_digest_asked_for_is_refused_but_ignored_for_a_tag() {
    let fake = FakeRegistry::start(|_, _| manifest_reply().with("Docker-Content-Digest", digest(b"lie")));
    let rig = Rig::new();
    let pinned = fake.image(&format!("a/b@{}", digest(&manifest())));
    assert_eq!(rig.registry.source(&pinned).top().unwrap_err().kind(), Kind::Integrity);
    assert_eq!(rig.registry.source(&fake.image("a/b:c")).top().unwrap().digest(), digest(&manifest()));
}

#[test]
fn what_is_no_manifest_is_refused_with_what_it_is() {
    let cases: [(Reply, &str); 4] = [
        (Reply::new(200).with("Content-Type", "text/html; charset=utf-8").body("<html>Sign in"), "<html>Sign in"),
        (Reply::new(200).body(vec![b' '; (4 << 20) + 1]), "4194304"),
        (Reply::new(200).body(vec![b' '; 65536]).end(End::Endless), "4194304"),
        (Reply::new(200).with("Content-Type", MediaType::oci_index()).body(manifest()), "media type"),
    ];
    for (reply, told) in cases {
        let fake = FakeRegistry::start(move |_, _| reply.clone());
        let error = Rig::new().registry.source(&fake.image("a/b:c")).top().unwrap_err();
        assert_eq!(error.kind(), Kind::Input, "{error}");
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[test]
fn a_broken_blob_is_resumed_where_it_broke() {
    let bytes = noise(200_000);
    for at in [1, 512, 100_000, 199_999] {
        let served = bytes.clone();
        let fake = FakeRegistry::start(move |seen, nth| match nth {
            0 => Reply::new(200).body(served.clone()).end(End::CutAt(at)),
            _ => ranged(seen, &served),
        });
        assert_eq!(read_all(&Rig::new(), &fake, &bytes).unwrap(), bytes, "{at}");
        let seen = fake.seen();
        assert_eq!((seen.len(), seen[1].header("range")), (2, Some(format!("bytes={at}-").as_str())));
    }
}

#[test]
fn a_blob_that_brought_nothing_is_asked_for_without_range() {
    for end in [End::CutAt(0), End::StallAt(0)] {
        let bytes = noise(1000);
        let served = bytes.clone();
        let fake = FakeRegistry::start(move |seen, nth| match nth {
            0 => ranged(seen, &served).end(end),
            _ => ranged(seen, &served),
        });
        assert_eq!(read_all(&Rig::new(), &fake, &bytes).unwrap(), bytes);
        assert!(fake.seen().iter().all(|seen| seen.header("range").is_none()) && fake.count("GET") == 2);
    }
}

#[test]
fn breaks_with_progress_may_be_many() {
    let bytes = noise(40 * 1000);
    let served = bytes.clone();
    let fake = FakeRegistry::start(move |seen, _| {
        let reply = ranged(seen, &served);
        if seen.header("range") == Some("bytes=39000-") { reply } else { reply.end(End::CutAt(1000)) }
    });
    assert_eq!(read_all(&Rig::new(), &fake, &bytes).unwrap(), bytes);
    assert_eq!(fake.count("GET"), 40);
}

#[test]
fn a_break_at_the_same_byte_for_ever_is_told() {
    let bytes = noise(1000);
    let served = bytes.clone();
    let fake = FakeRegistry::start(move |seen, _| match seen.header("range") {
        None => ranged(seen, &served).end(End::CutAt(500)),
        Some(_) => ranged(seen, &served).end(End::CutAt(0)),
    });
    let error = read_all(&Rig::new(), &fake, &bytes).unwrap_err();
    assert_eq!((error.kind(), fake.count("GET"), fact(&error, "got")), (Kind::Network, 4, "500"));
}

#[test]
fn a_body_whose_end_is_told_by_closing_is_measured_by_the_descriptor() {
    let bytes = noise(1000);
    let served = bytes.clone();
    let fake = FakeRegistry::start(move |seen, nth| match nth {
        0 => Reply::new(200).body(&served[..500]).end(End::ByClose),
        _ => ranged(seen, &served),
    });
    assert_eq!(read_all(&Rig::new(), &fake, &bytes).unwrap(), bytes);
    assert_eq!(fake.seen()[1].header("range"), Some("bytes=500-"));
}

#[test]
fn registries_that_do_not_resume_are_read_again_from_the_start_but_not_for_ever() {
    let bytes = noise(100_000);
    for refusal in [200, 400, 416] {
        let served = bytes.clone();
        let fake = FakeRegistry::start(move |seen, nth| match (nth, seen.header("range"), refusal) {
            (0, ..) => Reply::new(200).body(served.clone()).end(End::CutAt(50_000)),
            (_, Some(_), 400 | 416) => Reply::new(refusal),
            _ => Reply::new(200).body(served.clone()),
        });
        assert_eq!(read_all(&Rig::new(), &fake, &bytes).unwrap(), bytes, "{refusal}");
    }
    let served = bytes.clone();
    let fake =
        FakeRegistry::start(move |_, nth| Reply::new(200).body(served.clone()).end(End::CutAt(10_000 * (nth + 1))));
    assert_eq!(read_all(&Rig::new(), &fake, &bytes).unwrap_err().kind(), Kind::Network);
    assert_eq!(fake.count("GET"), 4);
}

#[test]
fn a_206_for_another_place_is_not_believed() {
    let bytes = noise(1000);
    let served = bytes.clone();
    let fake = FakeRegistry::start(move |seen, nth| match (nth, seen.header("range")) {
        (0, _) => ranged(seen, &served).end(End::CutAt(500)),
        (_, Some(_)) => Reply::new(206).with("Content-Range", "bytes 400-999/1000").body(&served[400..]),
        (_, None) => Reply::new(200).body(served.clone()),
    });
    assert_eq!(read_all(&Rig::new(), &fake, &bytes).unwrap(), bytes);
}

#[test]
fn a_blob_that_is_too_long_is_refused_after_its_size() {
    let bytes = noise(1000);
    let mut longer = bytes.clone();
    longer.push(0);
    for end in [End::Clean, End::ByClose, End::Endless] {
        let served = longer.clone();
        let fake = FakeRegistry::start(move |_, _| Reply::new(200).body(served.clone()).end(end));
        let error = read_all(&Rig::new(), &fake, &bytes).unwrap_err();
        assert_eq!((error.kind(), fake.count("GET")), (Kind::Integrity, 1), "{end:?}");
    }
}

#[test]
fn a_blob_that_is_too_short_is_refused() {
    let bytes = noise(1000);
    let served = bytes[..900].to_vec();
    let fake = FakeRegistry::start(move |seen, _| match seen.header("range") {
        None => Reply::new(200).body(served.clone()),
        Some(_) => Reply::new(416),
    });
    assert_eq!(read_all(&Rig::new(), &fake, &bytes).unwrap_err().kind(), Kind::Integrity);
}

#[test]
fn an_offset_is_asked_for_and_the_end_needs_no_request() {
    let bytes = noise(1000);
    let served = bytes.clone();
    let fake = FakeRegistry::start(move |seen, _| ranged(seen, &served));
    let rig = Rig::new();
    let source = rig.registry.source(&fake.image("a/b:c"));
    let mut got = Vec::new();
    source.open(&blob_of(&bytes), 1000).unwrap().read_to_end(&mut got).unwrap();
    source.open(&blob_of(&bytes), 5000).unwrap().read_to_end(&mut got).unwrap();
    assert!(got.is_empty() && fake.lines().is_empty());
    source.open(&blob_of(&bytes), 900).unwrap().read_to_end(&mut got).unwrap();
    assert_eq!((got, fake.seen()[0].header("range")), (bytes[900..].to_vec(), Some("bytes=900-")));
}

#[test]
fn a_blob_that_is_not_there_is_known_when_it_is_opened() {
    let fake = FakeRegistry::start(|_, _| Reply::new(404).body(r#"{"errors":[{"code":"BLOB_UNKNOWN"}]}"#));
    let error = read_all(&Rig::new(), &fake, b"x").unwrap_err();
    assert_eq!((error.kind(), fact(&error, "code")), (Kind::Missing, "BLOB_UNKNOWN"));
}

#[test]
fn offline_nothing_is_asked() {
    let fake = FakeRegistry::start(|_, _| manifest_reply());
    let rig = Rig::with(RegistryOptions { offline: true, ..RegistryOptions::default() });
    let error = rig.registry.source(&fake.image("a/b:c")).top().unwrap_err();
    assert!(error.kind() == Kind::Network && error.what().starts_with("offline: "), "{error}");
    assert!(fake.lines().is_empty());
}

#[test]
fn blobs_of_several_threads_come_at_once() {
    let bytes = noise(300_000);
    let served = bytes.clone();
    let fake = FakeRegistry::start(move |seen, _| ranged(seen, &served));
    let rig = Rig::new();
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| assert_eq!(read_all(&rig, &fake, &bytes).unwrap(), bytes));
        }
    });
    assert_eq!(rig.traffic.tally().requests, 12);
}
