//! The collector on a runtime that fails, hangs and changes its mind.

mod hostile;

use std::collections::HashMap;
use std::time::Duration;

use tempfile::TempDir;

use super::cri::{
    CriContainer as Container, CriImage as Image, FilesystemIdentifier, FilesystemUsage, ImageSpec, Nothing,
    UInt64Value,
};
use super::grpc::Method;
use super::testing::{Answer, FakeRuntime};
use super::*;
use crate::store::disk::LockWait;
use crate::store::gc::{GcPolicy, GcTarget, Protection};
use oci::Digest;
use oci::error::Kind;

const ALL_CALLS: [Method; 6] = [
    cri::LIST_IMAGES,
    cri::LIST_CONTAINERS,
    cri::STATUS,
    cri::IMAGE_FS_INFO,
    containerd::LIST_IMAGES,
    containerd::LIST_CONTAINERS,
];

/// A node with the images `a`, `b` and `c`, of 100 bytes each, and the directory of a cache.
struct Stage {
    testing: FakeRuntime,
    directory: TempDir,
}

fn hex(name: &str) -> String {
    Digest::of(name.as_bytes()).hex()
}

fn image(name: &str) -> Image {
    let repo_tags = vec![format!("registry.example/{name}:v1")];
    Image { id: hex(name), repo_tags, repo_digests: Vec::new(), size: 100, pinned: false }
}

fn used_by(names: &[&str]) -> cri::CriListContainersResponse {
    let container = |name: &&str| Container { id: (*name).to_owned(), image_id: hex(name), ..Container::default() };
    cri::CriListContainersResponse { containers: names.iter().map(container).collect() }
}

impl Stage {
    fn new() -> Self {
        let stage = Self { testing: FakeRuntime::start(), directory: tempfile::tempdir().unwrap() };
        let testing = &stage.testing;
        testing.says(cri::VERSION, &cri::VersionResponse { runtime_name: "double".into(), ..Default::default() });
        testing.says(cri::LIST_IMAGES, &cri::CriListImagesResponse { images: ["a", "b", "c"].map(image).into() });
        testing.says(cri::LIST_CONTAINERS, &used_by(&[]));
        testing.says(cri::STATUS, &cri::StatusResponse::default());
        testing.says(cri::CONTAINER_STATUS, &cri::ContainerStatusResponse::default());
        testing.says(cri::REMOVE_IMAGE, &Nothing {});
        let used_bytes = Some(UInt64Value { value: 300 });
        let fs_id = Some(FilesystemIdentifier { mountpoint: "/no/such/directory".into() });
        let disk = FilesystemUsage { timestamp: i64::MAX, fs_id, used_bytes };
        testing.says(cri::IMAGE_FS_INFO, &cri::ImageFsInfoResponse { image_filesystems: vec![disk] });
        stage
    }

    fn node(&self) -> ClusterNode {
        let deadlines =
            Deadlines { connect: Duration::from_secs(5), call: Duration::from_millis(500), ..Deadlines::default() };
        let runtime = Runtime::connect(&self.testing.endpoint(), deadlines).unwrap();
        ClusterNode { runtime, root: self.directory.path().to_owned(), notices: Notices::silent() }
    }

    fn collect(&self, target: GcTarget, protect: &[&str], pins: PinMode) -> Result<(NodePlan, NodeOutcome)> {
        let protect: Vec<String> = protect.iter().map(|entry| (*entry).to_owned()).collect();
        let protection = Protection::read(&protect, &[]).unwrap();
        let policy = GcPolicy { target, min_age: Duration::ZERO, max_age: None };
        self.node().collect(NodeRequest { protection: &protection, policy, pins }, LockWait::default())
    }

    /// What the runtime was told to remove.
    fn removed(&self) -> Vec<String> {
        let asked: Vec<cri::RemoveImageRequest> = self.testing.asked(cri::REMOVE_IMAGE);
        asked.into_iter().map(|request| request.image.unwrap().image).collect()
    }
}

fn names(taken: &[crate::store::gc::RemovedImage]) -> Vec<&str> {
    taken.iter().map(|taken| taken.reference.as_str()).collect()
}

#[test]
fn a_runtime_that_is_not_containerd_is_collected_over_cri_alone() {
    let stage = Stage::new();
    let mut images = ["a", "b", "c", "d"].map(image);
    images[1].pinned = true;
    stage.testing.says(cri::LIST_IMAGES, &cri::CriListImagesResponse { images: images.into() });
    stage.testing.says(cri::LIST_CONTAINERS, &used_by(&["c"]));
    let config = HashMap::from([("config".to_owned(), r#"{"sandboxImage":"registry.example/d:v1"}"#.to_owned())]);
    stage.testing.says(cri::STATUS, &cri::StatusResponse { info: config });
    let (plan, outcome) = stage.collect(GcTarget::Size(0), &[], PinMode::Leave).unwrap();
    assert_eq!(names(&outcome.removed), ["registry.example/a:v1"]);
    assert_eq!((plan.selection.in_use, plan.selection.pinned), (2, 1));
    assert_eq!(stage.removed(), [hex("a")], "by the id as the runtime writes it");
    let error = stage.collect(GcTarget::Size(0), &["registry.example/b:v1"], PinMode::Set).unwrap_err();
    assert!(error.to_string().contains("only containerd's images can be pinned"), "{error}");
    assert_eq!(stage.removed().len(), 1, "nothing more");
}

#[test]
fn an_answer_that_fails_or_is_not_understood_stops_it_before_the_first_removal() {
    // A message that says it is longer than it is.
    let cut = Answer::Message(vec![0x0a, 0x7f]);
    for method in ALL_CALLS {
        for answer in [Answer::Status(2), Answer::Status(14), cut.clone()] {
            let stage = Stage::new();
            stage.testing.answers(method, std::slice::from_ref(&answer));
            let error = stage.collect(GcTarget::Size(0), &[], PinMode::Leave).unwrap_err();
            assert_eq!(error.kind(), Kind::Network, "{method:?} {answer:?}: {error}");
            assert!(error.to_string().contains(method.path), "{error}");
            assert_eq!(stage.removed(), Vec::<String>::new(), "{method:?} {answer:?}");
        }
    }
    let odd = |id: &str| Image { id: id.to_owned(), ..image("a") };
    for images in [vec![odd("")], vec![odd("sha256:short")], vec![odd("../x")], vec![image("a"), image("a")]] {
        let stage = Stage::new();
        stage.testing.says(cri::LIST_IMAGES, &cri::CriListImagesResponse { images });
        assert_eq!(stage.collect(GcTarget::Size(0), &[], PinMode::Leave).unwrap_err().kind(), Kind::Input);
        assert!(stage.removed().is_empty());
    }
    let stage = Stage::new();
    let config = HashMap::from([("config".to_owned(), "{".to_owned())]);
    stage.testing.says(cri::STATUS, &cri::StatusResponse { info: config });
    stage.collect(GcTarget::Size(0), &[], PinMode::Leave).unwrap_err();
    assert!(stage.removed().is_empty());
}

#[test]
fn images_that_are_mounted_as_volumes_are_in_use() {
    let stage = Stage::new();
    stage.testing.says(cri::LIST_CONTAINERS, &used_by(&["c"]));
    let image = Some(ImageSpec { image: "registry.example/a:v1".to_owned() });
    let mounts = vec![cri::Mount::default(), cri::Mount { image }];
    let status = Some(cri::ContainerStatus { mounts });
    stage.testing.says(cri::CONTAINER_STATUS, &cri::ContainerStatusResponse { status });
    let (plan, outcome) = stage.collect(GcTarget::Size(0), &[], PinMode::Leave).unwrap();
    assert_eq!(names(&outcome.removed), ["registry.example/b:v1"]);
    assert_eq!(plan.selection.in_use, 2);
    let asked: Vec<cri::ContainerStatusRequest> = stage.testing.asked(cri::CONTAINER_STATUS);
    assert!(asked.iter().all(|request| request.container_id == "c"), "{asked:?}");
    // A container that is gone uses nothing; one that cannot be asked stops it.
    stage.testing.answers(cri::CONTAINER_STATUS, &[Answer::Status(5)]);
    assert_eq!(stage.collect(GcTarget::Size(0), &[], PinMode::Leave).unwrap().0.selection.in_use, 1);
    stage.testing.answers(cri::CONTAINER_STATUS, &[Answer::Status(2)]);
    let before = stage.removed().len();
    stage.collect(GcTarget::Size(0), &[], PinMode::Leave).unwrap_err();
    assert_eq!(stage.removed().len(), before);
}

#[test]
fn what_came_into_use_meanwhile_is_spared() {
    let stage = Stage::new();
    let looks = [used_by(&[]), used_by(&["b"])].map(|look| Answer::Message(prost::Message::encode_to_vec(&look)));
    stage.testing.answers(cri::LIST_CONTAINERS, &looks);
    let (_, outcome) = stage.collect(GcTarget::Size(0), &[], PinMode::Leave).unwrap();
    assert_eq!(names(&outcome.spared), ["registry.example/b:v1"]);
    assert_eq!(stage.removed(), [hex("a"), hex("c")]);
    // Or pinned, or has got a name that is protected.
    let stage = Stage::new();
    let mut images = ["a", "b", "c"].map(image);
    let first = cri::CriListImagesResponse { images: images.clone().into() };
    images[0].pinned = true;
    images[2].repo_tags.push("quay.io/c:v1".into());
    let looks_at_images = [first, cri::CriListImagesResponse { images: images.into() }];
    let looks_at_images = looks_at_images.map(|look| Answer::Message(prost::Message::encode_to_vec(&look)));
    stage.testing.answers(cri::LIST_IMAGES, &looks_at_images);
    let (_, outcome) = stage.collect(GcTarget::Size(0), &["host:quay.io"], PinMode::Leave).unwrap();
    assert_eq!(names(&outcome.spared), ["registry.example/a:v1", "registry.example/c:v1"]);
    assert_eq!(stage.removed(), [hex("b")]);
    // A second look that fails removes nothing at all.
    let stage = Stage::new();
    stage.testing.answers(cri::LIST_CONTAINERS, &[looks[0].clone(), Answer::Status(2)]);
    stage.collect(GcTarget::Size(0), &[], PinMode::Leave).unwrap_err();
    assert!(stage.removed().is_empty());
}

#[test]
fn what_was_removed_and_what_was_not_is_named() {
    let done = Answer::Message(Vec::new());
    let refused = Answer::Status(2);
    let lost = Answer::Status(14);
    for (answers, asked, left) in [
        (vec![Answer::Status(5), done.clone()], 3, &[][..]),
        (vec![refused, done.clone()], 3, &["a"]),
        (vec![done.clone(), lost], 2, &["b", "c"]),
        (vec![done, Answer::Hang], 2, &["b", "c"]),
    ] {
        let stage = Stage::new();
        stage.testing.answers(cri::REMOVE_IMAGE, &answers);
        let result = stage.collect(GcTarget::Size(0), &[], PinMode::Leave);
        assert_eq!(stage.removed().len(), asked, "{answers:?}");
        let Err(error) = result else {
            assert!(left.is_empty(), "{answers:?}");
            continue;
        };
        let facts = |word: &str| -> Vec<String> {
            let facts = error.facts().iter().filter(|(name, _)| *name == word);
            facts.map(|(_, value)| value["registry.example/".len()..][..1].to_owned()).collect()
        };
        assert_eq!(facts("not removed"), left, "{error}");
        assert_eq!(facts("removed").len(), 3 - left.len(), "{error}");
        assert!(!error.causes().is_empty(), "{error}");
    }
}

#[test]
fn a_runtime_that_hangs_or_talks_without_end_is_left() {
    let stage = Stage::new();
    stage.testing.answers(cri::LIST_IMAGES, &[Answer::Hang]);
    let error = stage.collect(GcTarget::Any, &[], PinMode::Leave).unwrap_err();
    assert!(error.to_string().contains("did not answer in time"), "{error}");
    stage.testing.answers(cri::LIST_IMAGES, &[Answer::Message(vec![0; (16 << 20) + 1])]);
    let node = ClusterNode {
        runtime: Runtime::connect(&stage.testing.endpoint(), Deadlines::default()).unwrap(),
        ..stage.node()
    };
    assert!(node.survey().unwrap_err().to_string().contains("OutOfRange"));
    let endpoint = stage.testing.endpoint();
    drop(stage);
    assert_eq!(Runtime::connect(&endpoint, Deadlines::default()).err().unwrap().kind(), Kind::Network);
}

#[test]
fn room_is_asked_of_the_disk_only_where_it_is_wanted() {
    let stage = Stage::new();
    let error = stage.collect(GcTarget::Disk { high: 85, low: 80 }, &[], PinMode::Leave).unwrap_err();
    assert!(error.to_string().contains("/no/such/directory") && error.to_string().contains("--max-size"), "{error}");
    for target in [GcTarget::Disk { high: 100, low: 100 }, GcTarget::Any, GcTarget::Size(300)] {
        assert!(stage.collect(target, &[], PinMode::Leave).unwrap().1.removed.is_empty(), "{target:?}");
    }
    // 101 bytes are too many: two images of 100.
    assert_eq!(stage.collect(GcTarget::Size(199), &[], PinMode::Leave).unwrap().1.removed.len(), 2);
    stage.testing.says(cri::IMAGE_FS_INFO, &cri::ImageFsInfoResponse::default());
    assert!(stage.collect(GcTarget::Size(0), &[], PinMode::Leave).is_err(), "it does not say how much");
    assert!(stage.collect(GcTarget::Disk { high: 1, low: 0 }, &[], PinMode::Leave).is_err(), "nor where");
    stage.collect(GcTarget::Any, &[], PinMode::Leave).unwrap();
}

#[test]
fn a_pin_that_fails_ends_it_before_the_first_removal() {
    let stage = Stage::new();
    let reference = |name: &str| containerd::ContainerdImage {
        name: format!("registry.example/{name}:v1"),
        target: Some(containerd::ContainerdDescriptor {
            digest: Digest::of(b"manifest").to_string(),
            ..Default::default()
        }),
        ..Default::default()
    };
    stage.testing.says(
        containerd::LIST_IMAGES,
        &containerd::ContainerdListImagesResponse { images: ["a", "b"].map(reference).into() },
    );
    stage.testing.says(containerd::LIST_CONTAINERS, &containerd::ContainerdListContainersResponse::default());
    stage.testing.answers(containerd::UPDATE_IMAGE, &[Answer::Message(Vec::new()), Answer::Status(7)]);
    let error = stage.collect(GcTarget::Size(0), &["regex:/[ab]:"], PinMode::Set).unwrap_err();
    for (word, name) in
        [("pinned", "registry.example/a:v1"), ("not pinned", "registry.example/b:v1"), ("removed", "nothing")]
    {
        assert!(error.facts().contains(&(word, name.to_owned())), "{error}");
    }
    assert!(stage.removed().is_empty());
    let asked: Vec<containerd::UpdateImageRequest> = stage.testing.asked(containerd::UPDATE_IMAGE);
    assert!(asked.iter().all(|request| request.image.as_ref().unwrap().target.is_some()), "containerd 1.7 crashes");
    // One that is gone meanwhile needs no pin.
    stage.testing.answers(containerd::UPDATE_IMAGE, &[Answer::Status(5)]);
    let (_, outcome) = stage.collect(GcTarget::Size(0), &["regex:/[ab]:"], PinMode::Set).unwrap();
    assert_eq!(names(&outcome.removed), ["registry.example/c:v1"]);
}

#[test]
fn use_is_remembered_and_age_counts_only_when_it_is_known() {
    let stage = Stage::new();
    let node = stage.node();
    stage.testing.says(cri::LIST_CONTAINERS, &used_by(&["b"]));
    stage.collect(GcTarget::Any, &[], PinMode::Leave).unwrap();
    let spec = ImageSpec { image: "registry.example/a:v1".into() };
    let container = Container { image: Some(spec), ..Container::default() };
    stage.testing.says(cri::LIST_CONTAINERS, &cri::CriListContainersResponse { containers: vec![container] });
    stage.collect(GcTarget::Any, &[], PinMode::Leave).unwrap();
    stage.testing.says(cri::LIST_CONTAINERS, &used_by(&[]));
    let protection = Protection::default();
    let order = |max_age| {
        let policy = GcPolicy { target: GcTarget::Size(0), min_age: Duration::ZERO, max_age };
        NodeRequest { protection: &protection, policy, pins: PinMode::Leave }
    };
    // Never seen in use, then used first, then used last.
    let plan = node.plan(order(None)).unwrap();
    assert_eq!(
        names(&plan.selection.images),
        ["registry.example/c:v1", "registry.example/b:v1", "registry.example/a:v1"]
    );
    let any = |max_age| NodeRequest {
        policy: GcPolicy { target: GcTarget::Any, ..order(Some(max_age)).policy },
        ..order(None)
    };
    assert!(node.plan(any(Duration::from_secs(3600))).unwrap().selection.images.is_empty());
    // As if the node had been looked at since 1970.
    let mut record = plan.survey.record.clone();
    record.since = Timestamp::from_seconds(1);
    record.images.values_mut().for_each(|spell| spell.first_seen = Timestamp::from_seconds(1));
    record.write(stage.directory.path()).unwrap();
    assert_eq!(names(&node.plan(any(Duration::from_secs(3600))).unwrap().selection.images), ["registry.example/c:v1"]);
    // What is gone is forgotten.
    stage.testing.says(cri::LIST_IMAGES, &cri::CriListImagesResponse { images: vec![image("a")] });
    assert_eq!(node.survey().unwrap().record.images.len(), 1);
}
