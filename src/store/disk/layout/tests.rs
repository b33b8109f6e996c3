use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::process::Command;

use super::*;
use crate::store::disk::Layout;
use crate::store::disk::testing::{self, SampleImage, local, names};
use oci::error::Kind;

type Harm = fn(&Path, &SampleImage);
type Damage = fn(&Path);

/// Each row does one harm to a good layout; the good layout itself is the benign twin.
#[test]
fn refuses_hostile_layouts() {
    let rows: &[(&str, Kind, Harm)] = &[
        ("no marker", Kind::Input, |dir, _| fs::remove_file(dir.join("oci-layout")).unwrap()),
        ("version 2", Kind::Input, |dir, _| {
            fs::write(dir.join("oci-layout"), r#"{"imageLayoutVersion":"2.0.0"}"#).unwrap();
        }),
        ("version 1.0.", Kind::Input, |dir, _| {
            fs::write(dir.join("oci-layout"), r#"{"imageLayoutVersion":"1.0."}"#).unwrap();
        }),
        ("marker is a FIFO", Kind::Input, |dir, _| {
            fs::remove_file(dir.join("oci-layout")).unwrap();
            assert!(Command::new("mkfifo").arg(dir.join("oci-layout")).status().unwrap().success());
        }),
        ("no index.json", Kind::Input, |dir, _| fs::remove_file(dir.join("index.json")).unwrap()),
        ("index.json of 100 GB", Kind::Input, |dir, _| {
            File::options().write(true).open(dir.join("index.json")).unwrap().set_len(100 << 30).unwrap();
        }),
        ("index.json is a link", Kind::Input, |dir, _| {
            fs::rename(dir.join("index.json"), dir.join("other.json")).unwrap();
            symlink("other.json", dir.join("index.json")).unwrap();
        }),
        ("blobs is a link", Kind::Input, |dir, _| {
            fs::rename(dir.join("blobs"), dir.join("elsewhere")).unwrap();
            symlink("elsewhere", dir.join("blobs")).unwrap();
        }),
        ("blobs/sha256 is a link", Kind::Input, |dir, _| {
            fs::rename(dir.join("blobs/sha256"), dir.join("elsewhere")).unwrap();
            symlink("../elsewhere", dir.join("blobs/sha256")).unwrap();
        }),
        ("manifest is a link", Kind::Input, |dir, sample| {
            let path = testing::blob_path(dir, &sample.manifest.digest());
            fs::rename(&path, dir.join("m")).unwrap();
            symlink(dir.join("m"), path).unwrap();
        }),
        ("manifest is a directory", Kind::Input, |dir, sample| {
            let path = testing::blob_path(dir, &sample.manifest.digest());
            fs::remove_file(&path).unwrap();
            fs::create_dir(path).unwrap();
        }),
        ("layer is a FIFO", Kind::Input, |dir, sample| {
            let path = testing::blob_path(dir, &sample.layer.0.digest);
            fs::remove_file(&path).unwrap();
            assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        }),
        ("layer is missing", Kind::Input, |dir, sample| {
            fs::remove_file(testing::blob_path(dir, &sample.layer.0.digest)).unwrap();
        }),
        ("layer is cut", Kind::Integrity, |dir, sample| {
            fs::write(testing::blob_path(dir, &sample.layer.0.digest), "x").unwrap();
        }),
        ("manifest is changed", Kind::Integrity, |dir, sample| {
            let path = testing::blob_path(dir, &sample.manifest.digest());
            let text = fs::read_to_string(&path).unwrap();
            fs::write(path, text.replace("schemaVersion", "schemaversion")).unwrap();
        }),
    ];
    for (name, kind, harm) in rows {
        let dir = tempfile::tempdir().unwrap();
        let sample = SampleImage::new("layer");
        let local = testing::local(dir.path(), Some("v1"));
        sample.publish(&Layout::sink(&local, &Notices::silent()).unwrap());
        sample.check(&Layout::source(&local).unwrap());
        harm(dir.path(), &sample);
        let error = testing::read_all(|| Layout::source(&local), &sample).expect_err(name);
        assert_eq!(error.kind(), *kind, "{name}: {error}");
    }
}

#[test]
fn a_digest_picks_an_entry_or_any_manifest_among_the_blobs() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (SampleImage::new("one"), SampleImage::new("two"));
    let local = testing::local(dir.path(), Some("v1"));
    for sample in [&one, &two] {
        sample.publish(&Layout::sink(&local, &Notices::silent()).unwrap());
    }
    // The tag has moved on to `two`; `one` is a blob only.
    for sample in [&one, &two] {
        let pinned = LocalImage { digest: Some(sample.manifest.digest()), ..local.clone() };
        sample.check(&Layout::source(&pinned).unwrap());
    }
    let config = LocalImage { digest: Some(one.config.0.digest), ..local.clone() };
    assert_eq!(Layout::source(&config).unwrap().top().unwrap_err().kind(), Kind::Input);
}

#[test]
fn a_blob_is_read_from_the_middle() {
    let dir = tempfile::tempdir().unwrap();
    let sample = SampleImage::new("0123456789");
    let local = testing::local(dir.path(), None);
    sample.publish(&Layout::sink(&local, &Notices::silent()).unwrap());
    let source = Layout::source(&local).unwrap();
    for (from, expected) in [(0, "0123456789"), (4, "456789"), (10, ""), (99, "")] {
        let text = std::io::read_to_string(source.open(&sample.layer.0, from).unwrap()).unwrap();
        assert_eq!(text, expected);
    }
}

fn sink(dir: &Path, tag: Option<&str>) -> LayoutSink {
    Layout::sink(&local(dir, tag), &Notices::silent()).unwrap()
}

#[test]
fn what_is_written_is_read_back_and_a_second_run_sends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("out");
    let sample = SampleImage::new("layer");
    for tag in [Some("v1"), None] {
        let first = sink(&target, tag);
        assert_eq!(first.current().unwrap(), None);
        sample.publish(&first);
        sample.check(&Layout::source(&local(&target, tag)).unwrap());
    }
    let before = fs::read(target.join("index.json")).unwrap();
    let second = sink(&target, Some("v1"));
    assert_eq!(sample.put_blobs(&second).unwrap(), [Delivery::AlreadyThere; 2]);
    second.tag(&sample.manifest).unwrap();
    assert_eq!(fs::read(target.join("index.json")).unwrap(), before);
    assert_eq!(names(&target), ["blobs", "index.json", "oci-layout"]);
}

#[test]
fn eight_writers_keep_eight_tags() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("out");
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let target = &target;
            scope.spawn(move || {
                SampleImage::new(&format!("layer {writer}")).publish(&sink(target, Some(&format!("t{writer}"))));
            });
        }
    });
    for writer in 0..8 {
        let source = Layout::source(&local(&target, Some(&format!("t{writer}")))).unwrap();
        SampleImage::new(&format!("layer {writer}")).check(&source);
    }
    assert_eq!(names(&target), ["blobs", "index.json", "oci-layout"]);
}

#[test]
fn wrong_bytes_leave_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let sample = SampleImage::new("layer");
    let sink = sink(dir.path(), None);
    for wrong in ["Layer", "laye", "layer!"] {
        let error = testing::put_blob(&sink, &sample.layer.0, wrong.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), Kind::Integrity, "{error}");
    }
    assert!(names(&dir.path().join("blobs/sha256")).is_empty());
    assert!(!dir.path().join("index.json").exists());
}

#[test]
fn a_damaged_blob_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let sample = SampleImage::new("layer");
    let sink = sink(dir.path(), None);
    sample.publish(&sink);
    for damage in ["LAYER", ""] {
        fs::write(testing::blob_path(dir.path(), &sample.layer.0.digest), damage).unwrap();
        assert_eq!(sample.put_blobs(&sink).unwrap(), [Delivery::AlreadyThere, Delivery::Sent]);
    }
    sample.check(&Layout::source(&local(dir.path(), None)).unwrap());
}

#[test]
fn a_part_that_is_lost_or_damaged_is_missing_whichever_it_is() {
    let sample = SampleImage::new("layer");
    for digest in [sample.config.0.digest, sample.layer.0.digest, sample.manifest.digest()] {
        let harms: [(&str, Damage); 4] = [
            ("gone", |path| fs::remove_file(path).unwrap()),
            ("cut", |path| fs::write(path, &fs::read(path).unwrap()[1..]).unwrap()),
            ("empty", |path| fs::write(path, "").unwrap()),
            ("changed", |path| {
                let mut bytes = fs::read(path).unwrap();
                bytes[0] ^= 1;
                fs::write(path, bytes).unwrap();
            }),
        ];
        for (harm, harms) in harms {
            let dir = tempfile::tempdir().unwrap();
            let sink = sink(dir.path(), Some("v1"));
            sample.publish(&sink);
            assert_eq!(sink.missing_parts(&sample.parts(), 1).unwrap(), []);
            harms(&testing::blob_path(dir.path(), &digest));
            assert_eq!(sink.missing_parts(&sample.parts(), 1).unwrap(), [digest], "{harm}");
            sample.publish(&sink);
            assert_eq!(sink.missing_parts(&sample.parts(), 1).unwrap(), [], "{harm}");
            sample.check(&Layout::source(&local(dir.path(), Some("v1"))).unwrap());
        }
    }
}

#[test]
fn an_entry_that_describes_its_image_wrongly_is_put_right() {
    for (from, to) in [("\"size\":", "\"size\":1"), ("image.manifest.v1+json", "image.index.v1+json")] {
        let dir = tempfile::tempdir().unwrap();
        let (sample, sink) = (SampleImage::new("layer"), sink(dir.path(), Some("v1")));
        sample.publish(&sink);
        let index = dir.path().join("index.json");
        let text = fs::read_to_string(&index).unwrap();
        fs::write(&index, text.replace(from, to)).unwrap();
        assert_eq!(sink.current().unwrap(), Some(sample.manifest.digest()));
        assert_eq!(sink.missing_parts(&sample.parts(), 1).unwrap(), [sample.manifest.digest()]);
        sample.publish(&sink);
        assert_eq!(fs::read_to_string(&index).unwrap(), text);
    }
}

#[test]
fn the_next_writer_removes_what_a_killed_one_left() {
    let dir = tempfile::tempdir().unwrap();
    let sample = SampleImage::new("layer");
    let orphan = ".underpin-4000000-0123456789abcdef";
    fs::write(dir.path().join(orphan), "half a marker").unwrap();
    sample.publish(&sink(dir.path(), None));
    fs::write(dir.path().join("blobs/sha256").join(orphan), "half a blob").unwrap();
    fs::write(dir.path().join(orphan), "half an index").unwrap();
    sample.publish(&sink(dir.path(), None));
    assert_eq!(names(dir.path()), ["blobs", "index.json", "oci-layout"]);
    assert_eq!(names(&dir.path().join("blobs/sha256")).len(), 3);
}

#[test]
fn refuses_targets_that_it_would_spoil() {
    type Make<'a> = &'a dyn Fn(&Path);
    let sample = SampleImage::new("layer");
    let rows: [(&str, Make); 5] = [
        ("other files", &|dir| fs::write(dir.join("thesis.txt"), "x").unwrap()),
        ("bad index.json", &|dir| {
            sample.publish(&sink(dir, None));
            fs::write(dir.join("index.json"), "{").unwrap();
        }),
        ("a file", &|dir| {
            fs::remove_dir(dir).unwrap();
            fs::write(dir, "x").unwrap();
        }),
        ("version 2", &|dir| fs::write(dir.join("oci-layout"), r#"{"imageLayoutVersion":"2.0.0"}"#).unwrap()),
        ("marker is a link", &|dir| std::os::unix::fs::symlink("/etc/passwd", dir.join("oci-layout")).unwrap()),
    ];
    for (name, make) in rows {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        fs::create_dir(&target).unwrap();
        make(&target);
        let error = Layout::sink(&local(&target, Some("v1")), &Notices::silent()).err().expect(name);
        assert_eq!(error.kind(), Kind::Input, "{name}: {error}");
    }
    let dir = tempfile::tempdir().unwrap();
    let deep = Layout::sink(&local(&dir.path().join("no/such"), None), &Notices::silent()).unwrap();
    assert_eq!(sample.put_blobs(&deep).unwrap_err().kind(), Kind::Io);
    assert!(names(dir.path()).is_empty());
}

#[test]
fn blobs_that_would_go_through_a_link_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (target, elsewhere) = (dir.path().join("out"), dir.path().join("elsewhere"));
    let sample = SampleImage::new("layer");
    sample.publish(&sink(&target, None));
    fs::create_dir(&elsewhere).unwrap();
    fs::remove_dir_all(target.join("blobs")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, target.join("blobs")).unwrap();
    assert_eq!(sample.put_blobs(&sink(&target, None)).unwrap_err().kind(), Kind::Input);
    assert!(names(&elsewhere).is_empty());
}

#[test]
fn a_target_with_a_digest_takes_only_that_image() {
    let dir = tempfile::tempdir().unwrap();
    let (right, wrong) = (SampleImage::new("right"), SampleImage::new("wrong"));
    let pinned = LocalImage { digest: Some(right.manifest.digest()), ..local(dir.path(), Some("v1")) };
    let sink = Layout::sink(&pinned, &Notices::silent()).unwrap();
    assert_eq!(sink.tag(&wrong.manifest).unwrap_err().kind(), Kind::Integrity);
    right.publish(&sink);
}
