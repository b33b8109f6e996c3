use std::fs;
use std::path::Path;

use serde_json::Value;

use super::*;
use crate::store::Source;
use crate::store::disk::testing::{self, SampleImage, TarBuilder, local, names};
use crate::store::disk::{DockerArchive, OciArchive};
use oci::error::Kind;
use oci::{MediaType, json};

const FLAVORS: [Flavor; 2] = [Flavor::Oci, Flavor::Docker];

fn sink(path: &Path, flavor: Flavor, tag: Option<&str>) -> Result<ArchiveSink> {
    ArchiveSink::new(&local(path, tag), flavor, &Notices::silent())
}

fn source(path: &Path, flavor: Flavor, tag: Option<&str>) -> Box<dyn Source> {
    let local = local(path, tag);
    match flavor {
        Flavor::Oci => Box::new(OciArchive::source(&local).unwrap()),
        Flavor::Docker => Box::new(DockerArchive::source(&local).unwrap()),
    }
}

#[test]
fn what_is_written_is_read_back_with_its_digest_and_twice_gives_the_same_bytes() {
    for flavor in FLAVORS {
        for tag in [Some("v1"), None] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a.tar");
            let sample = SampleImage::new("layer");
            sample.publish(&sink(&path, flavor, tag).unwrap());
            sample.check(&*source(&path, flavor, tag));
            sample.check(&*source(&path, flavor, None));
            let first = fs::read(&path).unwrap();
            let again = sink(&path, flavor, tag).unwrap();
            assert_eq!(sample.put_blobs(&again).unwrap(), [Delivery::AlreadyThere; 2]);
            again.tag(&sample.manifest).unwrap();
            assert!(fs::read(&path).unwrap() == first, "{flavor:?} {tag:?}");
            assert_eq!(names(dir.path()), ["a.tar"]);
        }
    }
}

#[test]
fn a_pinned_location_finds_its_image_after_the_tag_has_moved() {
    for flavor in FLAVORS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        let (one, two) = (SampleImage::new("one"), SampleImage::new("two"));
        one.publish(&sink(&path, flavor, Some("v1")).unwrap());
        two.publish(&sink(&path, flavor, Some("v1")).unwrap());
        two.check(&*source(&path, flavor, Some("v1")));
        let pinned = LocalImage { digest: Some(one.manifest.digest()), ..local(&path, Some("v1")) };
        match flavor {
            Flavor::Oci => one.check(&OciArchive::source(&pinned).unwrap()),
            Flavor::Docker => one.check(&DockerArchive::source(&pinned).unwrap()),
        }
    }
}

#[test]
fn images_of_two_names_with_one_tag_stand_in_one_docker_archive() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tar");
    let publish = |text: &str, tag| {
        SampleImage::new(text).publish(&DockerArchive::sink(&local(&path, Some(tag)), &Notices::silent()).unwrap());
    };
    let holds = |tag, text: &str| SampleImage::new(text).check(&*source(&path, Flavor::Docker, Some(tag)));
    let (a, b, bare) = ("r.example/a:v1", "docker.io/library/b:v1", "docker.io/library/underpin:v1");
    publish("first", a);
    publish("one", a);
    publish("two", b);
    publish("three", "v1");
    publish("four", bare);
    for (tag, text) in [(a, "one"), (b, "two"), (bare, "four")] {
        holds(tag, text);
    }
    let ambiguous = DockerArchive::source(&local(&path, Some("v1"))).unwrap().top().unwrap_err();
    assert!(ambiguous.to_string().contains("full name"), "{ambiguous}");
    let archive = TarReader::open(&path).unwrap().unwrap();
    let index = archive.open(INDEX).unwrap().unwrap().bytes(1 << 20, INDEX).unwrap();
    let index: Value = serde_json::from_slice(&index).unwrap();
    let name = |entry: &Value| entry["annotations"][CONTAINERD_NAME].as_str().unwrap().to_owned();
    let names: Vec<String> = index["manifests"].as_array().unwrap().iter().map(name).collect();
    assert_eq!(names, [a, b, bare]);
}

#[test]
fn eight_writers_keep_eight_tags() {
    for flavor in FLAVORS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    let sample = SampleImage::new(&format!("layer {writer}"));
                    sample.publish(&sink(path, flavor, Some(&format!("t{writer}"))).unwrap());
                });
            }
        });
        for writer in 0..8 {
            SampleImage::new(&format!("layer {writer}")).check(&*source(&path, flavor, Some(&format!("t{writer}"))));
        }
        assert_eq!(names(dir.path()), ["a.tar"]);
    }
}

#[test]
fn wrong_bytes_are_refused_and_do_not_spoil_the_archive() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tar");
    let sample = SampleImage::new("layer");
    let sink = sink(&path, Flavor::Oci, None).unwrap();
    for wrong in ["Layer", "laye", "layer and much more"] {
        let error = testing::put_blob(&sink, &sample.layer.0, wrong.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), Kind::Integrity, "{error}");
    }
    assert!(!path.exists());
    sample.publish(&sink);
    sample.check(&*source(&path, Flavor::Oci, None));
}

#[test]
fn a_damaged_blob_of_the_old_archive_is_sent_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tar");
    let sample = SampleImage::new("a layer to find in the file");
    sample.publish(&sink(&path, Flavor::Oci, None).unwrap());
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(7).position(|window| window == b"a layer").unwrap();
    bytes[at] = b'A';
    fs::write(&path, bytes).unwrap();
    let again = sink(&path, Flavor::Oci, None).unwrap();
    assert_eq!(sample.put_blobs(&again).unwrap(), [Delivery::AlreadyThere, Delivery::Sent]);
    again.tag(&sample.manifest).unwrap();
    sample.check(&*source(&path, Flavor::Oci, None));
}

#[test]
fn a_part_that_is_damaged_is_missing_and_what_docker_reads_is_looked_at_too() {
    let sample = SampleImage::new("a layer to find in the file");
    for flavor in FLAVORS {
        for (mark, digest) in [
            ("a layer to", sample.layer.0.digest),
            ("\"architecture\"", sample.config.0.digest),
            ("dev.underpin.test", sample.manifest.digest()),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a.tar");
            sample.publish(&sink(&path, flavor, Some("v1")).unwrap());
            let whole = fs::read(&path).unwrap();
            assert_eq!(sink(&path, flavor, Some("v1")).unwrap().missing_parts(&sample.parts(), 1).unwrap(), []);
            let at = whole.windows(mark.len()).position(|window| window == mark.as_bytes()).unwrap();
            let mut bytes = whole.clone();
            bytes[at + 1] ^= 1;
            fs::write(&path, bytes).unwrap();
            let sink = sink(&path, flavor, Some("v1")).unwrap();
            assert_eq!(sink.missing_parts(&sample.parts(), 1).unwrap(), [digest], "{flavor:?} {mark}");
            sample.publish(&sink);
            assert!(fs::read(&path).unwrap() == whole, "{flavor:?} {mark}");
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tar");
    sample.publish(&sink(&path, Flavor::Docker, Some("v1")).unwrap());
    let text = fs::read(&path).unwrap();
    let at = text.windows(13).position(|window| window == b"\"underpin:v1\"").unwrap();
    let mut other = text.clone();
    other[at + 11] = b'2';
    fs::write(&path, other).unwrap();
    let docker = sink(&path, Flavor::Docker, Some("v1")).unwrap();
    assert_eq!(docker.missing_parts(&sample.parts(), 1).unwrap(), [sample.manifest.digest()]);
}

#[test]
fn an_unfinished_archive_leaves_no_trace_and_orphans_go() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tar");
    fs::write(dir.path().join(".underpin-4000000-0123456789abcdef"), "half").unwrap();
    let unfinished = sink(&path, Flavor::Oci, None).unwrap();
    SampleImage::new("layer").put_blobs(&unfinished).unwrap();
    drop(unfinished);
    assert!(names(dir.path()).is_empty(), "{:?}", names(dir.path()));
}

#[test]
fn refuses_files_that_it_would_spoil() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tar");
    let marker = || TarBuilder::new().file(MARKER, MARKER_BYTES);
    let index = br#"{"schemaVersion":2,"manifests":[]}"#;
    for (name, bytes, flavor) in [
        ("text", b"my thesis".repeat(100), Flavor::Oci),
        ("another tar", TarBuilder::new().file("a", b"x").finish(), Flavor::Oci),
        ("bad index", marker().file(INDEX, b"{").finish(), Flavor::Oci),
        ("docker archive", marker().file(INDEX, index).file(DOCKER_MANIFEST, b"[]").finish(), Flavor::Oci),
        ("OCI archive", marker().file(INDEX, index).finish(), Flavor::Docker),
    ] {
        fs::write(&path, &bytes).unwrap();
        let error = sink(&path, flavor, None).err().expect(name);
        assert_eq!(error.kind(), Kind::Input, "{name}: {error}");
        assert!(fs::read(&path).unwrap() == bytes, "{name} was changed");
    }
    assert!(sink(dir.path(), Flavor::Oci, None).is_err());
    fs::write(&path, "").unwrap();
    SampleImage::new("layer").publish(&sink(&path, Flavor::Oci, None).unwrap());
}

#[test]
fn an_archive_is_read_through_a_link_and_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let (path, link) = (dir.path().join("a.tar"), dir.path().join("link.tar"));
    SampleImage::new("one").publish(&sink(&path, Flavor::Oci, Some("one")).unwrap());
    std::os::unix::fs::symlink("a.tar", &link).unwrap();
    let refused = sink(&link, Flavor::Oci, Some("two")).err().unwrap();
    assert!(refused.to_string().contains("symbolic link"), "{refused}");
    SampleImage::new("one").check(&*source(&link, Flavor::Oci, Some("one")));
}

#[test]
fn an_index_goes_into_an_oci_archive_only() {
    let dir = tempfile::tempdir().unwrap();
    let sample = SampleImage::new("layer");
    let index = json::write(&serde_json::json!({
        "schemaVersion": 2, "mediaType": MediaType::oci_index().as_str(),
        "manifests": [sample.manifest.descriptor().to_value()],
    }));
    let index = Document::read(index, None).unwrap();
    for flavor in FLAVORS {
        let path = dir.path().join(format!("{flavor:?}.tar"));
        let sink = sink(&path, flavor, None).unwrap();
        sample.put_blobs(&sink).unwrap();
        let outcome = sink.put_document(&sample.manifest).and_then(|()| sink.tag(&index));
        match flavor {
            Flavor::Oci => {
                outcome.unwrap();
                let source = source(&path, flavor, None);
                assert_eq!(source.top().unwrap().digest(), index.digest());
                source.document(&sample.manifest.descriptor()).unwrap();
            }
            Flavor::Docker => {
                assert_eq!(outcome.unwrap_err().kind(), Kind::Input);
                assert_eq!(sink.tag(&index).unwrap_err().kind(), Kind::Input);
                assert!(!path.exists());
            }
        }
    }
}
