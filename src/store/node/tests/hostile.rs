//! A runtime that means harm: whatever comes over its socket ends the collection or changes nothing, within bounds of time
//! and memory.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Instant;

use super::*;
use crate::store::node::grpc::ENTRY_LIMIT;

/// A field of bytes.
fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![tag << 3 | 2];
    prost::encoding::encode_varint(bytes.len() as u64, &mut out);
    [out, bytes.to_vec()].concat()
}

/// The most memory that this process has had, in MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

/// What a collection of everything comes to when `method` is answered so. Nothing may have been removed if it fails.
fn collected(method: Method, answer: Answer) -> Result<(NodePlan, NodeOutcome)> {
    let stage = Stage::new();
    stage.testing.answers(method, &[answer]);
    let deadlines = Deadlines { call: Duration::from_secs(20), ..Deadlines::default() };
    let runtime = Runtime::connect(&stage.testing.endpoint(), deadlines)?;
    let node = ClusterNode { runtime, root: stage.directory.path().to_owned(), notices: Notices::silent() };
    let protection = Protection::read(&[], &[]).unwrap();
    let policy = GcPolicy { target: GcTarget::Size(0), min_age: Duration::ZERO, max_age: None };
    let request = NodeRequest { protection: &protection, policy, pins: PinMode::Leave };
    let outcome = node.collect(request, LockWait::default());
    assert!(outcome.is_ok() || stage.removed().is_empty(), "{:?}", stage.removed());
    outcome
}

#[test]
fn lists_without_end_are_left_before_they_take_memory() {
    let empty = [0x0a, 0x00];
    let many = |count: usize| Answer::Message(empty.repeat(count));
    for method in [cri::LIST_IMAGES, cri::LIST_CONTAINERS, containerd::LIST_IMAGES, containerd::LIST_CONTAINERS] {
        for count in [ENTRY_LIMIT + 1, (16 << 20) / 2] {
            let error = collected(method, many(count)).unwrap_err();
            assert!(error.to_string().contains("more than 100000 entries"), "{error}");
        }
    }
    // Names of one image, each of two bytes.
    for tag in [2, 3] {
        let names = [tag << 3 | 2, 0x00].repeat((16 << 20) / 2 - 100);
        let image = [field(1, hex("a").as_bytes()), names].concat();
        let error = collected(cri::LIST_IMAGES, Answer::Message(field(1, &image))).unwrap_err();
        assert!(error.to_string().contains("names that no image has"), "{error}");
    }
    let long = "a".repeat(5000);
    for image in [Image { id: long.clone(), ..image("a") }, Image { repo_tags: vec![long], ..image("a") }] {
        let list = cri::CriListImagesResponse { images: vec![image] };
        let error = collected(cri::LIST_IMAGES, Answer::Message(prost::Message::encode_to_vec(&list))).unwrap_err();
        assert!(error.to_string().len() < 1000, "{error}");
    }
    assert!(peak() < 600, "{} MiB", peak());
}

#[test]
fn messages_of_another_shape_end_it() {
    let shapes: [(&str, Vec<u8>); 14] = [
        ("a number for a list", vec![0x08, 0x01]),
        ("fixed64 for a list", [&[0x09][..], &[0; 8]].concat()),
        ("fixed32 for a list", [&[0x0d][..], &[0; 4]].concat()),
        ("a group", vec![0x0b, 0x0c]),
        ("a group that only ends", vec![0x0c]),
        ("a group that never ends", vec![0x0b]),
        ("groups in groups", vec![0x0b; 100_000]),
        ("wire type 6", vec![0x0e]),
        ("wire type 7", vec![0x0f]),
        ("field 0", vec![0x02, 0x00]),
        ("a key without end", vec![0xff; 11]),
        ("a length without end", [&[0x0a][..], &[0xff; 11]].concat()),
        ("a length beyond the end", vec![0x0a, 0x7f]),
        ("not UTF-8", field(1, &field(1, &[0xff, 0xfe]))),
    ];
    for (name, bytes) in &shapes {
        for method in [cri::LIST_IMAGES, cri::LIST_CONTAINERS] {
            let error = collected(method, Answer::Message(bytes.clone())).unwrap_err();
            assert!(error.to_string().contains(method.path), "{name}: {error}");
        }
    }
    // What is not known is skipped, however deep it is.
    let deep = (0..1000).fold(Vec::new(), |inner, _| field(15, &inner));
    assert!(collected(cri::LIST_CONTAINERS, Answer::Message(deep)).is_ok());
    let framed =
        |flag: u8, length: u32, bytes: &[u8]| Answer::Raw([&[flag][..], &length.to_be_bytes(), bytes].concat());
    for (name, answer) in [
        ("compressed, which nobody asked for", framed(1, 0, &[])),
        ("an unknown flag", framed(7, 0, &[])),
        ("shorter than it says", framed(0, 100, b"x")),
        ("longer than is read", framed(0, u32::MAX, b"x")),
        ("a frame that is cut", Answer::Raw(vec![0, 0])),
        ("no message", Answer::Raw(Vec::new())),
        ("a status that does not exist", Answer::Status(99)),
    ] {
        assert!(collected(cri::LIST_IMAGES, answer).is_err(), "{name}");
    }
}

#[test]
fn ids_that_are_none_are_told_and_ids_that_are_twice_end_it() {
    let upper = hex("a").to_uppercase();
    let prefixed = format!("sha256:{}", hex("a"));
    let odd: [&[&str]; 12] = [
        &["\x1b[2J\x1b]0;x\x07"],
        &["a\nremoved  everything"],
        &["\u{202e}\u{0}"],
        &["sha512:00"],
        &["--all"],
        &["*"],
        &["../../etc/passwd"],
        &[&upper],
        &[&hex("a")[..63]],
        &[&format!("{}0", hex("a"))],
        &[&hex("a"), &prefixed],
        &[&prefixed, &prefixed],
    ];
    for ids in odd {
        let images = ids.iter().map(|id| Image { id: (*id).to_owned(), ..image("a") }).collect();
        let list = prost::Message::encode_to_vec(&cri::CriListImagesResponse { images });
        let error = collected(cri::LIST_IMAGES, Answer::Message(list)).unwrap_err();
        assert_eq!(error.kind(), Kind::Input, "{ids:?}: {error}");
    }
}

#[test]
fn numbers_that_cannot_be_are_bounded() {
    let disk = |timestamp, value| FilesystemUsage { timestamp, fs_id: None, used_bytes: Some(UInt64Value { value }) };
    for timestamp in [i64::MIN, -1, 0, i64::MAX] {
        for disks in
            [vec![disk(timestamp, u64::MAX); 3], vec![disk(timestamp, 0)], vec![], vec![FilesystemUsage::default()]]
        {
            let says_nothing = disks.iter().any(|disk| disk.used_bytes.is_none()) || disks.is_empty();
            let answer = cri::ImageFsInfoResponse { image_filesystems: disks };
            let outcome = collected(cri::IMAGE_FS_INFO, Answer::Message(prost::Message::encode_to_vec(&answer)));
            assert_eq!(outcome.is_err(), says_nothing);
        }
    }
    for seconds in [i64::MIN, -1, 0, i64::MAX] {
        for nanos in [i32::MIN, -1, 999_999_999, i32::MAX] {
            let created_at = Some(containerd::ProtoTimestamp { seconds, nanos });
            let reference =
                containerd::ContainerdImage { name: "registry.example/a:v1".into(), created_at, ..Default::default() };
            let answer = containerd::ContainerdListImagesResponse { images: vec![reference] };
            let stage = Stage::new();
            stage.testing.says(containerd::LIST_IMAGES, &answer);
            stage.testing.says(containerd::LIST_CONTAINERS, &Nothing {});
            stage.collect(GcTarget::Size(0), &[], PinMode::Leave).unwrap();
        }
    }
    let images = vec![Image { size: u64::MAX, ..image("a") }; 1];
    let list = prost::Message::encode_to_vec(&cri::CriListImagesResponse { images });
    assert_eq!(collected(cri::LIST_IMAGES, Answer::Message(list)).unwrap().1.removed.len(), 1);
}

/// Names are claims of the runtime: they can keep an image, and never make another one go.
#[test]
fn a_name_that_is_claimed_keeps_and_removes_nothing_else() {
    let stage = Stage::new();
    let mut images = ["a", "b", "c"].map(image);
    images[0].repo_tags = vec!["quay.io/protected:v1".into(), hex("b"), format!("sha256:{}", hex("c")), String::new()];
    stage.testing.says(cri::LIST_IMAGES, &cri::CriListImagesResponse { images: images.into() });
    stage.testing.says(cri::LIST_CONTAINERS, &used_by(&["c"]));
    let (_, outcome) = stage.collect(GcTarget::Size(0), &["host:quay.io"], PinMode::Leave).unwrap();
    assert_eq!(names(&outcome.removed), ["registry.example/b:v1"]);
    assert_eq!(stage.removed(), [hex("b")], "by its own id, and nothing else");
}

#[test]
fn a_status_that_is_no_configuration_ends_it() {
    for (config, is_fine) in [
        ("{}", true),
        (r#"{"sandboxImage":null,"x":[{}]}"#, true),
        (r#"{"sandboxImage":7}"#, false),
        (r#"{"sandboxImage":"a","sandboxImage":"b"}"#, false),
        ("[]", false),
        ("{} {}", false),
        ("", false),
        (&"[".repeat(1 << 20), false),
    ] {
        let info = HashMap::from([("config".to_owned(), config.to_owned())]);
        let answer = prost::Message::encode_to_vec(&cri::StatusResponse { info });
        assert_eq!(collected(cri::STATUS, Answer::Message(answer)).is_ok(), is_fine, "{config:.60}");
    }
}

#[test]
fn an_answer_that_trickles_is_left_in_time_and_so_are_many_of_them() {
    let stage = Stage::new();
    stage.testing.answers(cri::LIST_IMAGES, &[Answer::Stall([&[0][..], &(1_u32 << 20).to_be_bytes(), b"x"].concat())]);
    let error = stage.collect(GcTarget::Any, &[], PinMode::Leave).unwrap_err();
    assert!(error.to_string().contains("did not answer in time"), "{error}");
    // A call for each container, each within its time, but not all of them.
    let stage = Stage::new();
    stage.testing.says(cri::LIST_CONTAINERS, &used_by(&["a", "b", "c"]));
    let deadlines = Deadlines { containers: Duration::ZERO, ..Deadlines::default() };
    let runtime = Runtime::connect(&stage.testing.endpoint(), deadlines).unwrap();
    let node = ClusterNode { runtime, ..stage.node() };
    let error = node.survey().unwrap_err();
    assert!(error.to_string().contains("takes too long"), "{error}");
}

/// One frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// Whatever connects is sent `first`, and then `more` for as long as it listens.
fn flood(mut socket: UnixStream, first: &[u8], more: &[u8]) {
    let mut reading = socket.try_clone().unwrap();
    std::thread::spawn(move || std::io::copy(&mut reading, &mut std::io::sink()));
    let chunk = more.repeat((64 << 10) / more.len().max(1) + 1);
    let sent = socket.write_all(first);
    while sent.is_ok() && !more.is_empty() && socket.write_all(&chunk).is_ok() {}
    // Without more to say, it stays.
    let _ = socket.read(&mut [0]);
}

/// How a runtime fares that talks like this.
fn flooded(first: Vec<u8>, more: Vec<u8>) -> Error {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            let (first, more) = (first.clone(), more.clone());
            std::thread::spawn(move || flood(socket, &first, &more));
        }
    });
    let deadlines =
        Deadlines { connect: Duration::from_secs(1), call: Duration::from_secs(1), containers: Duration::from_secs(1) };
    let endpoint = path.display().to_string().parse().unwrap();
    Runtime::connect(&endpoint, deadlines).err().unwrap()
}

#[test]
fn floods_of_frames_end_in_an_error_in_time() {
    let settings = frame(4, 0, 0, &[]);
    let with = |frames: &[u8]| [&settings[..], frames].concat();
    // `:status: 200`, and `:status: 100` without an index.
    let (ok, proceed) = ([0x88], [0x08, 3, b'1', b'0', b'0']);
    let header = [&[0x00, 1, b'x', 100][..], &[b'v'; 100]].concat();
    // One header of 4000 bytes that is put into the table, and then named a thousand times.
    let bomb = [&ok[..], &[0x40, 1, b'x', 0x7f, 0xa1, 0x1e], &[b'v'; 4000], &[0xbe; 10_000]].concat();
    let answered = with(&frame(1, 4, 1, &ok));
    let cases: Vec<(&str, Vec<u8>, Vec<u8>)> = vec![
        ("settings", settings.clone(), settings.clone()),
        ("settings that change", settings.clone(), frame(4, 0, 0, &[0, 1, 0, 0, 16, 0])),
        ("settings of another length", settings.clone(), frame(4, 0, 0, &[0; 5])),
        ("acknowledgements", settings.clone(), frame(4, 1, 0, &[])),
        ("pings", settings.clone(), frame(6, 0, 0, &[0; 8])),
        ("pongs", settings.clone(), frame(6, 1, 0, &[0; 8])),
        ("windows", settings.clone(), frame(8, 0, 0, &[0, 0, 0, 1])),
        ("windows that overflow", settings.clone(), frame(8, 0, 0, &[0x7f, 0xff, 0xff, 0xff])),
        ("windows of nothing", settings.clone(), frame(8, 0, 0, &[0; 4])),
        ("resets", settings.clone(), frame(3, 0, 1, &[0, 0, 0, 8])),
        ("resets of streams that are not there", settings.clone(), frame(3, 0, 101, &[0, 0, 0, 8])),
        ("goodbyes", settings.clone(), frame(7, 0, 0, &[0; 8])),
        ("priorities", settings.clone(), frame(2, 0, 1, &[0; 5])),
        ("unknown frames", settings.clone(), frame(0xee, 0, 0, &[0; 1000])),
        ("continuations", with(&frame(1, 0, 1, &ok)), frame(9, 0, 1, &header)),
        ("continuations of nothing", with(&frame(1, 0, 1, &ok)), frame(9, 0, 1, &[])),
        ("answers that are not final", settings.clone(), frame(1, 4, 1, &proceed)),
        ("headers after headers", settings.clone(), frame(1, 4, 1, &ok)),
        ("headers that unpack", with(&frame(1, 4, 1, &bomb)), Vec::new()),
        ("empty data", answered.clone(), frame(0, 0, 1, &[])),
        ("padding", answered.clone(), frame(0, 8, 1, &[&[255][..], &[0; 255]].concat())),
        ("data of another stream", answered.clone(), frame(0, 0, 3, b"x")),
        ("pushes", settings.clone(), frame(5, 4, 1, &[0, 0, 0, 2, 0x88])),
        ("a frame of 16 MiB", with(&[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]), vec![0]),
        ("headers of a stream that it opens", settings.clone(), frame(1, 4, 2, &ok)),
        ("garbage", Vec::new(), vec![0xff]),
        ("HTTP/1.1", Vec::new(), b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_vec()),
        ("silence", Vec::new(), Vec::new()),
        ("settings, and then silence", settings.clone(), Vec::new()),
    ];
    let began = Instant::now();
    // A few at once: each of them keeps a processor busy.
    for some in cases.chunks(4) {
        std::thread::scope(|scope| {
            for (name, first, more) in some {
                scope.spawn(move || {
                    let error = flooded(first.clone(), more.clone());
                    assert_eq!(error.kind(), Kind::Network, "{name}: {error}");
                    assert!(error.to_string().len() < 2000, "{name}: {error}");
                });
            }
        });
    }
    assert!(began.elapsed() < Duration::from_secs(120), "{:?}", began.elapsed());
    assert!(peak() < 400, "{} MiB", peak());
}
