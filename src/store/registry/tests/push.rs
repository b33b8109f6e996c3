//! Writing: mounts, uploads and manifests, through every fault that passes.

use std::io::Cursor;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::store::registry::{Credentials, RegistryOptions};
use crate::store::{Blob, Delivery, Sink, Source, Stream};
use oci::RepositoryName;
use oci::error::{Error, Kind, Result};

const LARGE: usize = 300_000;

fn name(fake: &FakeRegistry, repository: &str) -> RepositoryName {
    fake.image(repository).name().clone()
}

fn put_blob(rig: &Rig, fake: &FakeRegistry, bytes: &[u8], held_by: &[RepositoryName]) -> Result<Delivery> {
    let open = || Ok(Box::new(Cursor::new(bytes.to_vec())) as Stream);
    let blob = Blob { descriptor: &blob_of(bytes), held_by, open: &open };
    rig.registry.sink(&fake.image("a/b:c")).put_blob(&blob)
}

/// A registry that takes uploads; `special` may answer first.
fn taking(special: impl Fn(&SeenRequest, usize) -> Option<Reply> + Send + Sync + 'static) -> FakeRegistry {
    let sessions = AtomicUsize::new(0);
    FakeRegistry::start(move |seen, nth| {
        special(seen, nth).unwrap_or_else(|| match seen.method.as_str() {
            "POST" => {
                let session = sessions.fetch_add(1, Ordering::Relaxed);
                Reply::new(202).with("Location", format!("/v2/a/b/blobs/uploads/{session}?_state=x%3D"))
            }
            "PATCH" => Reply::new(202).with("Location", &seen.target),
            "PUT" => Reply::new(201).with("Location", "/x"),
            _ => Reply::new(404),
        })
    })
}

fn short(lines: &[String]) -> Vec<String> {
    lines
        .iter()
        .map(|line| line.replace("/v2/a/b/blobs/", "").replace("sha256:", "").replace("sha256%3A", ""))
        .collect()
}

#[test]
fn a_large_blob_is_asked_for_and_sent_in_one_put() {
    let bytes = noise(LARGE);
    let hex = digest(&bytes).hex();
    let fake = taking(|_, _| None);
    let rig = Rig::new();
    assert_eq!(put_blob(&rig, &fake, &bytes, &[]).unwrap(), Delivery::Sent);
    assert_eq!(
        short(&fake.lines()),
        [format!("HEAD {hex}"), "POST uploads/".to_owned(), format!("PUT uploads/0?_state=x%3D&digest={hex}")]
    );
    let seen = fake.seen();
    assert_eq!((seen[1].header("content-length"), &seen[2].body), (Some("0"), &bytes));
    assert_eq!(rig.traffic.tally().bytes_up, LARGE as u64);
}

#[test]
fn a_small_or_empty_blob_is_not_asked_for() {
    for bytes in [&b"{}"[..], b""] {
        let fake = taking(|_, _| None);
        assert_eq!(put_blob(&Rig::new(), &fake, bytes, &[]).unwrap(), Delivery::Sent);
        assert_eq!((fake.count("HEAD"), fake.seen()[1].body.as_slice()), (0, bytes));
    }
}

#[test]
fn a_blob_that_is_there_is_not_sent() {
    let fake = taking(|seen, _| (seen.method == "HEAD").then(|| Reply::new(200)));
    let rig = Rig::new();
    let here = [name(&fake, "a/b")];
    assert_eq!(put_blob(&rig, &fake, &noise(LARGE), &[]).unwrap(), Delivery::AlreadyThere);
    assert_eq!(put_blob(&rig, &fake, b"{}", &here).unwrap(), Delivery::AlreadyThere);
    assert_eq!((fake.count("POST"), rig.traffic.tally().already_there), (0, 2));
}

#[test]
fn only_201_is_a_mount_and_everything_else_is_an_upload() {
    let bytes = noise(100);
    let (blob, session) = ("/v2/a/b/blobs/sha256:0", "/v2/a/b/blobs/uploads/m");
    let in_odd_name = "/v2/a/blobs/uploads/b/blobs/sha256:0";
    // One that calls a session created has no blob yet.
    for (status, place) in [(201, blob), (201, in_odd_name), (201, session), (202, session)]
        .into_iter()
        .chain([400, 401, 403, 404, 405, 500].map(|status| (status, session)))
    {
        let fake =
            taking(move |seen, _| seen.target.contains("mount=").then(|| Reply::new(status).with("Location", place)));
        let rig = Rig::new();
        let delivery = put_blob(&rig, &fake, &bytes, &[name(&fake, "x/y"), name(&fake, "z")]).unwrap();
        let mounts = fake.lines().iter().filter(|line| line.contains("mount=")).count();
        let posts = fake.count("POST");
        match status {
            201 if place != session => {
                assert_eq!((delivery, posts, rig.traffic.tally().mounted), (Delivery::Mounted, 1, 1));
            }
            201 | 202 => {
                assert_eq!((delivery, posts, fake.count("PUT /v2/a/b/blobs/uploads/m")), (Delivery::Sent, 1, 1));
            }
            _ => assert_eq!((delivery, posts, fake.count("PUT")), (Delivery::Sent, 2, 1), "{status}"),
        }
        assert_eq!(mounts, 1, "{status}");
        let expected = format!("POST /v2/a/b/blobs/uploads/?mount={}&from=x/y", digest(&bytes));
        assert_eq!(fake.lines()[0], expected);
    }
}

#[test]
fn a_registry_that_has_no_time_to_mount_is_asked_again() {
    let fake = taking(|seen, nth| {
        let answer = if nth == 0 { Reply::new(429).with("Retry-After", "0") } else { Reply::new(201) };
        seen.target.contains("mount=").then_some(answer)
    });
    let delivery = put_blob(&Rig::new(), &fake, &noise(LARGE), &[name(&fake, "x/y")]).unwrap();
    assert_eq!((delivery, fake.count("POST"), fake.count("PUT")), (Delivery::Mounted, 2, 0));
}

#[test]
fn a_small_blob_goes_in_one_request_where_the_registry_takes_it_so() {
    let takes_whole = taking(|seen, _| seen.target.contains("uploads/?digest=").then(|| Reply::new(201)));
    let rig = Rig::new();
    for (bytes, requests) in [(&b"{}"[..], 1), (b"[]", 2)] {
        assert_eq!(put_blob(&rig, &takes_whole, bytes, &[]).unwrap(), Delivery::Sent);
        assert_eq!(takes_whole.seen().len(), requests);
        assert_eq!(takes_whole.seen()[requests - 1].body, bytes);
    }
    // One that does not opens a session, which is used, and is not tried again.
    let (opens, rig) = (taking(|_, _| None), Rig::new());
    for bytes in [&b"{}"[..], b"[]"] {
        put_blob(&rig, &opens, bytes, &[]).unwrap();
    }
    let [first, second] = [&b"{}"[..], b"[]"].map(|bytes| digest(bytes).hex());
    assert_eq!(
        short(&opens.lines()),
        [
            format!("POST uploads/?digest={first}"),
            format!("PUT uploads/0?_state=x%3D&digest={first}"),
            "POST uploads/".to_owned(),
            format!("PUT uploads/1?_state=x%3D&digest={second}"),
        ]
    );
}

#[test]
fn nothing_is_mounted_from_another_host() {
    let fake = taking(|_, _| None);
    let other = "other.example/x/y".parse::<oci::Reference>().unwrap().name().clone();
    put_blob(&Rig::new(), &fake, b"{}", &[other]).unwrap();
    assert!(fake.lines().iter().all(|line| !line.contains("mount=")));
}

#[test]
fn a_put_that_breaks_is_asked_about_and_sent_again_in_a_new_session() {
    let bytes = noise(LARGE);
    for taken in [0, LARGE / 2, LARGE - 1] {
        let fake = taking(move |seen, _| seen.target.contains("uploads/0?").then(|| Reply::new(201).taking(taken)));
        assert_eq!(put_blob(&Rig::new(), &fake, &bytes, &[]).unwrap(), Delivery::Sent, "{taken}");
        let methods: Vec<String> = fake.seen().iter().map(|seen| seen.method.clone()).collect();
        assert_eq!(methods, ["HEAD", "POST", "PUT", "HEAD", "POST", "PUT"], "{taken}");
        assert_eq!(fake.seen()[5].body, bytes);
    }
}

#[test]
fn an_answer_that_was_lost_costs_a_head_and_no_second_upload() {
    let bytes = noise(LARGE);
    let fake = taking(|seen, nth| match seen.method.as_str() {
        "PUT" => Some(Reply::new(201).end(End::NoAnswer)),
        "HEAD" if nth > 0 => Some(Reply::new(200)),
        _ => None,
    });
    assert_eq!(put_blob(&Rig::new(), &fake, &bytes, &[]).unwrap(), Delivery::Sent);
    assert_eq!((fake.count("PUT"), fake.count("HEAD"), fake.count("POST")), (1, 2, 1));
}

#[test]
fn lost_sessions_and_passing_faults_of_a_put_are_survived() {
    for (status, times) in [(404, 1), (416, 1), (500, 3), (502, 3), (503, 3), (429, 1)] {
        let count = AtomicUsize::new(0);
        let fake = taking(move |seen, _| {
            let is_faulty = seen.method == "PUT" && count.fetch_add(1, Ordering::Relaxed) < times;
            is_faulty.then(|| Reply::new(status).body(r#"{"errors":[{"code":"BLOB_UPLOAD_UNKNOWN"}]}"#))
        });
        assert_eq!(put_blob(&Rig::new(), &fake, b"{}", &[]).unwrap(), Delivery::Sent, "{status}");
        assert_eq!((fake.count("PUT"), fake.count("HEAD"), fake.count("POST")), (times + 1, times, times + 1));
    }
}

#[test]
fn a_registry_that_never_takes_a_blob_is_told_after_six_tries() {
    let fake = taking(|seen, _| (seen.method == "PUT").then(|| Reply::new(500)));
    let error = put_blob(&Rig::new(), &fake, b"{}", &[]).unwrap_err();
    assert_eq!((error.kind(), fake.count("PUT")), (Kind::Network, 6));
}

#[test]
fn what_the_registry_says_about_the_bytes_is_believed() {
    let body = r#"{"errors":[{"code":"DIGEST_INVALID","message":"no"}]}"#;
    let fake = taking(move |seen, _| (seen.method == "PUT").then(|| Reply::new(400).body(body)));
    let error = put_blob(&Rig::new(), &fake, b"{}", &[]).unwrap_err();
    assert_eq!((error.kind(), fake.count("PUT")), (Kind::Integrity, 1));
}

#[test]
fn a_source_that_fails_is_told_as_it_is_and_not_tried_again() {
    let fake = taking(|_, _| None);
    let rig = Rig::new();
    let sink = rig.registry.sink(&fake.image("a/b:c"));
    let bytes = noise(LARGE);
    let short = || Ok(Box::new(Cursor::new(vec![0_u8; 10])) as Stream);
    let closed = || Err(Error::integrity("SOURCE"));
    let opens: [&(dyn Fn() -> Result<Stream> + Sync); 2] = [&short, &closed];
    for open in opens {
        let blob = Blob { descriptor: &blob_of(&bytes), held_by: &[], open };
        let error = sink.put_blob(&blob).unwrap_err();
        assert_eq!(error.kind(), Kind::Integrity, "{error}");
    }
    assert!(fake.count("POST") == 2 && fake.count("PUT") <= 1);
}

#[test]
fn a_blob_goes_from_one_registry_to_another_through_faults_on_both_sides() {
    let bytes = noise(LARGE);
    let served = bytes.clone();
    let from = FakeRegistry::start(move |seen, nth| match nth {
        0 => ranged(seen, &served).end(End::CutAt(1000)),
        _ => ranged(seen, &served),
    });
    let to = taking(|seen, _| seen.target.contains("uploads/0?").then(|| Reply::new(201).taking(LARGE / 2)));
    let rig = Rig::new();
    let source = rig.registry.source(&from.image("x/y:z"));
    let descriptor = blob_of(&bytes);
    let open = || source.open(&descriptor, 0);
    let blob = Blob { descriptor: &descriptor, held_by: &[], open: &open };
    assert_eq!(rig.registry.sink(&to.image("a/b:c")).put_blob(&blob).unwrap(), Delivery::Sent);
    assert_eq!(to.seen().last().unwrap().body, bytes);
}

#[test]
fn many_blobs_go_up_and_down_at_one_host_without_waiting_for_each_other() {
    let bytes = noise(LARGE);
    let served = bytes.clone();
    let fake = taking(move |seen, _| (seen.method == "GET").then(|| ranged(seen, &served)));
    let rig = Rig::new();
    let (source, sink) = (rig.registry.source(&fake.image("x/y:z")), rig.registry.sink(&fake.image("a/b:c")));
    let descriptor = blob_of(&bytes);
    let open = || source.open(&descriptor, 0);
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                let blob = Blob { descriptor: &descriptor, held_by: &[], open: &open };
                assert_eq!(sink.put_blob(&blob).unwrap(), Delivery::Sent);
            });
        }
    });
}

#[test]
fn a_registry_that_finds_the_put_too_large_gets_chunks() {
    let bytes = noise((9 << 20) + 5);
    for (minimum, chunks) in [("", 3), ("6291456", 2)] {
        let fake = taking(move |seen, nth| match seen.method.as_str() {
            "PUT" if nth == 0 && seen.header("content-length") != Some("0") => Some(Reply::new(413)),
            "POST" => Some(
                Reply::new(202)
                    .with("Location", format!("/v2/a/b/blobs/uploads/{nth}?s=1"))
                    .with("OCI-Chunk-Min-Length", minimum),
            ),
            "PATCH" => Some(Reply::new([200, 201, 202, 204][nth % 4]).with("Location", &seen.target)),
            _ => None,
        });
        assert_eq!(put_blob(&Rig::new(), &fake, &bytes, &[]).unwrap(), Delivery::Sent);
        let patches: Vec<SeenRequest> = fake.seen().into_iter().filter(|seen| seen.method == "PATCH").collect();
        assert_eq!(patches.len(), chunks);
        assert_eq!(patches.iter().flat_map(|seen| seen.body.clone()).collect::<Vec<u8>>(), bytes);
        let end = patches[0].body.len() - 1;
        assert_eq!(patches[0].header("content-range"), Some(format!("0-{end}").as_str()));
        assert!(fake.lines().last().unwrap().contains("&digest="));
    }
}

#[test]
fn a_chunk_out_of_step_begins_a_new_session() {
    let bytes = noise((4 << 20) + 5);
    let fake = taking(move |seen, _| match (seen.method.as_str(), seen.target.contains("uploads/1?")) {
        ("PUT", _) if seen.header("content-length") != Some("0") => Some(Reply::new(413)),
        ("PATCH", true) if seen.header("content-range").unwrap().starts_with("4194304") => Some(Reply::new(416)),
        _ => None,
    });
    assert_eq!(put_blob(&Rig::new(), &fake, &bytes, &[]).unwrap(), Delivery::Sent);
    assert_eq!((fake.count("POST"), fake.count("PATCH")), (3, 4));
}

#[test]
fn an_upload_elsewhere_gets_the_bytes_but_no_authorization() {
    let storage = taking(|_, _| None);
    let place = format!("http://{}/upload?sig=CANARY#frag", storage.host);
    let fake = taking(move |seen, _| match (seen.method.as_str(), seen.header("authorization")) {
        (_, None) => Some(Reply::new(401).with("WWW-Authenticate", "Basic realm=\"x\"")),
        ("POST", _) => Some(Reply::new(202).with("Location", &place)),
        _ => None,
    });
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("auth.json");
    std::fs::write(&path, format!(r#"{{"auths":{{"{}":{{"username":"u","password":"p"}}}}}}"#, fake.host)).unwrap();
    let credentials = Credentials { registry_auth_file: Some(path), ..Credentials::default() };
    let rig = Rig::with(RegistryOptions { credentials, ..RegistryOptions::default() });
    assert_eq!(put_blob(&rig, &fake, b"{}", &[]).unwrap(), Delivery::Sent);
    let seen = storage.seen();
    assert_eq!((seen.len(), seen[0].header("authorization"), seen[0].body.as_slice()), (1, None, &b"{}"[..]));
    assert!(seen[0].target.starts_with("/upload?sig=CANARY&digest=sha256"));
}

#[test]
fn a_location_that_is_not_safe_gets_no_data() {
    let long = format!("/{}", "x".repeat(9000));
    for location in ["", "http://10.0.0.1/u", "http://169.254.169.254/u", "ftp://127.0.0.1/u", &long] {
        let named = location.to_owned();
        let fake = taking(move |seen, _| (seen.method == "POST").then(|| Reply::new(202).with("Location", &named)));
        let error = put_blob(&Rig::new(), &fake, b"{}", &[]).unwrap_err();
        assert_eq!((error.kind(), fake.count("PUT"), error.causes().len()), (Kind::Network, 0, 1), "{location}");
    }
    let fake = taking(|seen, _| (seen.method == "POST").then(|| Reply::new(202)));
    assert_eq!(put_blob(&Rig::new(), &fake, b"{}", &[]).unwrap_err().kind(), Kind::Network);
}

#[test]
fn a_token_that_expires_is_renewed_at_every_step() {
    for expired in ["POST", "PUT /v2/a/b/blobs", "PUT /v2/a/b/manifests"] {
        let tokens = AtomicUsize::new(0);
        let refused = AtomicUsize::new(0);
        let fake = taking(move |seen, _| {
            if seen.target.starts_with("/token") {
                let token = tokens.fetch_add(1, Ordering::Relaxed) + 1;
                return Some(Reply::new(200).body(format!(r#"{{"token":"t{token}"}}"#)));
            }
            let newest = format!("Bearer t{}", tokens.load(Ordering::Relaxed));
            let expires = seen.line().starts_with(expired) && refused.fetch_add(1, Ordering::Relaxed) == 0;
            if expires || seen.header("authorization") != Some(newest.as_str()) {
                let realm = format!(r#"Bearer realm="http://{}/token""#, seen.header("host").unwrap());
                return Some(Reply::new(401).with("WWW-Authenticate", realm));
            }
            let accepted = Reply::new(201).with("Docker-Content-Digest", digest(&manifest())).with("Location", "/x");
            seen.target.contains("manifests").then_some(accepted)
        });
        let rig = Rig::new();
        let sink = rig.registry.sink(&fake.image("a/b:c"));
        sink.put_document(&document()).unwrap();
        assert_eq!(put_blob(&rig, &fake, &noise(LARGE), &[]).unwrap(), Delivery::Sent);
        sink.tag(&document()).unwrap();
        let expected = if expired.ends_with("manifests") { 1 } else { 2 };
        assert_eq!(fake.count("GET /token"), expected, "{expired}");
    }
}

fn accepted() -> Reply {
    Reply::new(201).with("Docker-Content-Digest", digest(&manifest())).with("Location", "/v2/x")
}

#[test]
fn a_manifest_is_put_by_digest_or_tag_with_its_type() {
    let fake = FakeRegistry::start(|_, _| accepted());
    let rig = Rig::new();
    rig.registry.sink(&fake.image("a/b:c")).put_document(&document()).unwrap();
    rig.registry.sink(&fake.image("a/b:c")).tag(&document()).unwrap();
    rig.registry.sink(&fake.image(&format!("a/b@{}", digest(&manifest())))).tag(&document()).unwrap();
    let by_digest = format!("PUT /v2/a/b/manifests/{}", digest(&manifest()));
    assert_eq!(fake.lines(), [by_digest.clone(), "PUT /v2/a/b/manifests/c".to_owned(), by_digest]);
    let seen = &fake.seen()[0];
    assert_eq!((seen.header("content-type"), seen.body.clone()), (Some(document().media_type().as_str()), manifest()));
}

#[test]
fn a_registry_that_does_not_say_what_it_took_is_asked() {
    for (reply, stored, kind) in [
        (Reply::new(201), manifest(), None),
        (Reply::new(201).with("Docker-Content-Digest", digest(&manifest())), manifest(), None),
        (Reply::new(201).with("Location", "/x"), b"{}".to_vec(), Some(Kind::Integrity)),
        (accepted(), Vec::new(), None),
        (Reply::new(201).with("Docker-Content-Digest", digest(b"lie")), manifest(), Some(Kind::Integrity)),
    ] {
        let fake = FakeRegistry::start(move |seen, _| match seen.method.as_str() {
            "PUT" => reply.clone(),
            _ => Reply::new(200).body(stored.clone()),
        });
        let outcome = Rig::new().registry.sink(&fake.image("a/b:c")).tag(&document());
        assert_eq!(outcome.as_ref().err().map(Error::kind), kind, "{outcome:?}");
    }
}

#[test]
fn a_refused_manifest_is_told_with_its_reason() {
    let of = |code: &str, message: &str| format!(r#"{{"errors":[{{"code":"{code}","message":"{message}"}}]}}"#);
    for (status, body, kind) in [
        (412, of("PRECONDITION", "Failed"), Kind::Conflict),
        (400, of("TAG_INVALID", "The image tag 'c' is IMMUTABLE"), Kind::Conflict),
        (403, of("DENIED", "tag cannot be overwritten"), Kind::Conflict),
        (403, of("DENIED", "no"), Kind::Auth),
        (415, of("UNSUPPORTED", "no"), Kind::Input),
        (400, of("MANIFEST_INVALID", "unknown type"), Kind::Input),
        (413, "too big".to_owned(), Kind::Input),
        (500, String::new(), Kind::Network),
    ] {
        let fake = FakeRegistry::start(move |seen, _| match seen.method.as_str() {
            "PUT" => Reply::new(status).body(body.clone()),
            _ => Reply::new(200).with("Docker-Content-Digest", digest(b"other")),
        });
        let error = Rig::new().registry.sink(&fake.image("a/b:c")).tag(&document()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.facts().iter().any(|(key, value)| *key == "status" && value.starts_with(&status.to_string())));
    }
}

#[test]
fn an_immutable_tag_that_is_right_already_is_no_conflict() {
    let fake = FakeRegistry::start(|seen, _| match seen.method.as_str() {
        "PUT" => Reply::new(412),
        _ => Reply::new(200).with("Docker-Content-Digest", digest(&manifest())),
    });
    assert!(Rig::new().registry.sink(&fake.image("a/b:c")).tag(&document()).is_ok());
}

#[test]
fn blobs_that_are_not_seen_yet_are_waited_for_three_times() {
    for unseen in [1, 3, 4] {
        let unknown = Reply::new(400).body(r#"{"errors":[{"code":"MANIFEST_BLOB_UNKNOWN"}]}"#);
        let fake = FakeRegistry::start(move |_, nth| if nth < unseen { unknown.clone() } else { accepted() });
        let outcome = Rig::new().registry.sink(&fake.image("a/b:c")).tag(&document());
        assert_eq!((outcome.is_ok(), fake.count("PUT")), (unseen < 4, unseen.min(3) + 1));
    }
}

#[test]
fn the_current_digest_is_a_head_or_else_a_get() {
    let known = || Reply::new(200).with("Docker-Content-Digest", digest(b"x"));
    for (head, get, expected, gets) in [
        (known(), 500, Some(digest(b"x")), 0),
        (Reply::new(404), 500, None, 0),
        (Reply::new(401), 500, None, 0),
        (Reply::new(200), 200, Some(digest(&manifest())), 1),
        (Reply::new(405), 200, Some(digest(&manifest())), 1),
        (Reply::new(403), 200, Some(digest(&manifest())), 1),
        (Reply::new(403), 404, None, 1),
        (Reply::new(400), 403, None, 1),
        (Reply::new(500), 401, None, 1),
    ] {
        let shown = format!("{head:?} {get}");
        let fake = FakeRegistry::start(move |seen, _| match seen.method.as_str() {
            "HEAD" => head.clone(),
            _ => Reply::new(get).body(manifest()),
        });
        let current = Rig::new().registry.sink(&fake.image("a/b:c")).current().unwrap();
        assert_eq!((current, fake.count("GET")), (expected, gets), "{shown}");
    }
}
