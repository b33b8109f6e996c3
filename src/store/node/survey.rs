//! A node as the collector sees it: its images with their names, what keeps each, and how long it has
//! been known. Pure: from what the runtime answered and what was recorded.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::containerd;
use super::cri::{self, FilesystemUsage};
use crate::store::disk::{ImageTimes, NodeRecord, Timestamp};
use crate::store::gc::{DiskSpace, GcTarget, HoldReason, ImageName, Inventory, StoredContent, StoredImage};
use oci::error::{Error, Result};
use oci::{Digest, Location};

/// More than any image has, so that no sum of what a runtime claims can overflow.
const LARGEST: u64 = 8 << 40;

/// What the runtime answered.
#[derive(Debug, Clone, Default)]
pub struct RuntimeAnswers {
    pub images: Vec<cri::CriImage>,
    /// containerd's references; `None` where it is another runtime.
    pub references: Option<Vec<containerd::ContainerdImage>>,
    /// What containers call their images.
    pub used: Vec<String>,
}

#[derive(Debug)]
pub struct Survey {
    /// One image by its id, which is its only part and has the size that the runtime says.
    pub inventory: Inventory,
    /// The ids as the runtime writes them.
    pub ids: BTreeMap<Digest, String>,
    /// By image, containerd's references that are not pinned; `None` where it is another runtime.
    pub unpinned: Option<BTreeMap<Digest, Vec<containerd::ContainerdImage>>>,
    /// The pinned ones, in use or not.
    pub pinned: BTreeSet<Digest>,
    pub record: NodeRecord,
}

impl Survey {
    pub fn new(answers: &RuntimeAnswers, endpoint: &str, known: Option<&NodeRecord>, now: Timestamp) -> Result<Self> {
        let record = NodeRecord {
            endpoint: endpoint.to_owned(),
            since: known.map_or(now, |known| known.since),
            collected: known.and_then(|known| known.collected),
            images: BTreeMap::new(),
        };
        let (inventory, ids) = (Inventory::default(), BTreeMap::new());
        let unpinned = answers.references.as_ref().map(|_| BTreeMap::new());
        let mut survey = Self { inventory, ids, unpinned, pinned: BTreeSet::new(), record };
        let references = answers.references.iter().flatten();
        let references: HashMap<&str, &containerd::ContainerdImage> =
            references.map(|one| (one.name.as_str(), one)).collect();
        let used = keys_of(&answers.used);
        for image in &answers.images {
            survey.add(image, &references, &used, known, now)?;
        }
        Ok(survey)
    }

    fn add(
        &mut self,
        image: &cri::CriImage,
        references: &HashMap<&str, &containerd::ContainerdImage>,
        used: &HashSet<String>,
        known: Option<&NodeRecord>,
        now: Timestamp,
    ) -> Result<()> {
        let digest = id(&image.id)?;
        let own = references_of(image, digest, references);
        let in_use = is_used(image.repo_tags.iter().chain(&image.repo_digests), digest, used);
        let is_pinned = image.pinned || own.iter().any(|reference| reference.is_pinned());
        let before = known.and_then(|known| known.images.get(&digest));
        let spell = ImageTimes {
            first_seen: came(&own, digest).or(before.map(|before| before.first_seen)).unwrap_or(now),
            last_use: if in_use { Some(now) } else { before.and_then(|before| before.last_use) },
        };
        let names: Vec<&String> = image.repo_tags.iter().chain(&image.repo_digests).collect();
        self.inventory.images.push(StoredImage {
            reference: names.first().map_or_else(|| digest.to_string(), |name| (*name).clone()),
            digest,
            names: names
                .iter()
                .map(|name| ImageName::written(name, references.get(name.as_str()).and_then(|it| it.leads_to())))
                .collect(),
            platforms: BTreeMap::new(),
            first_seen: spell.first_seen,
            last_use: spell.last_use,
            parts: BTreeSet::from([digest]),
            bytes: 0,
            hold: if in_use { Some(HoldReason::InUse) } else { is_pinned.then_some(HoldReason::Pinned) },
        });
        let contents = StoredContent { files: Vec::new(), bytes: image.size.min(LARGEST), touched: spell.first_seen };
        self.inventory.contents.insert(digest, contents);
        let unpinned = own.iter().filter(|reference| !reference.is_pinned());
        let unpinned = unpinned.map(|reference| (*reference).clone()).collect();
        self.unpinned.as_mut().map(|all| all.insert(digest, unpinned));
        self.record.images.insert(digest, spell);
        self.pinned.extend(is_pinned.then_some(digest));
        if self.ids.insert(digest, image.id.clone()).is_some() {
            return Err(Error::input("the runtime lists an image twice").fact("image", digest));
        }
        Ok(())
    }
}

/// The id of an image: the digest of its config, which CRI-O writes without `sha256:`.
fn id(text: &str) -> Result<Digest> {
    let hex = text.strip_prefix("sha256:").unwrap_or(text);
    Digest::from_hex(hex).map_err(|_| {
        Error::input("the runtime lists an image whose id is not a digest")
            .fact("image", text.chars().take(100).collect::<String>())
    })
}

/// The references that containerd keeps for the image: by tag, by digest and by id.
fn references_of<'a>(
    image: &cri::CriImage,
    digest: Digest,
    references: &HashMap<&str, &'a containerd::ContainerdImage>,
) -> Vec<&'a containerd::ContainerdImage> {
    let id = digest.to_string();
    let names: BTreeSet<&String> = image.repo_tags.iter().chain(&image.repo_digests).chain([&image.id, &id]).collect();
    names.into_iter().filter_map(|name| references.get(name.as_str()).copied()).collect()
}

/// When the image came. A tag may be older than the image it leads to now, so the reference by id
/// counts, or else the newest.
fn came(references: &[&containerd::ContainerdImage], digest: Digest) -> Option<Timestamp> {
    let id = digest.to_string();
    let by_id = references.iter().find(|reference| reference.name == id).and_then(|one| one.created());
    by_id.or_else(|| references.iter().filter_map(|reference| reference.created()).max())
}

fn is_used<'a>(names: impl IntoIterator<Item = &'a String>, digest: Digest, used: &HashSet<String>) -> bool {
    names.into_iter().flat_map(|name| keys(name)).chain([digest.to_string()]).any(|key| used.contains(&key))
}

fn keys_of(used: &[String]) -> HashSet<String> {
    used.iter().flat_map(|name| keys(name)).collect()
}

/// Everything that a name of an image may be compared by: as written, as an id, as a full reference.
fn keys(name: &str) -> Vec<String> {
    let mut keys = vec![name.to_owned()];
    keys.extend(id(name).ok().map(|digest| digest.to_string()));
    let location = name.parse::<Location>().ok();
    // Where there is a digest, it decides, and not the tag beside it.
    keys.extend(location.map(|it| it.digest().map_or_else(|| it.without_digest(), |digest| it.by_digest(digest))));
    keys
}

// How much room the images of a node take, as its runtime says, and how much of it is too much.

#[derive(Debug, Clone)]
pub struct Usage(pub Vec<FilesystemUsage>);

impl Usage {
    /// Where the images lie. The kubelet asks the first of several disks too.
    #[must_use]
    pub fn directory(&self) -> Option<PathBuf> {
        let id = self.0.first()?.fs_id.as_ref()?;
        (!id.mountpoint.is_empty()).then(|| PathBuf::from(&id.mountpoint))
    }

    pub fn total(&self) -> Result<u64> {
        let used = self.0.iter().map(|disk| disk.used_bytes.as_ref().map(|used| used.value));
        let total = used.reduce(|one, two| Some(one?.saturating_add(two?))).flatten();
        total.ok_or_else(|| {
            Error::input("the runtime of the node does not report how much space images take")
                .hint("use --high and --low, or --max-age")
        })
    }

    /// Whether it says that it was measured before `moment`: a runtime looks only every few seconds.
    #[must_use]
    pub fn is_older_than(&self, moment: Timestamp) -> bool {
        let times = self.0.iter().filter_map(|disk| u64::try_from(disk.timestamp).ok()).filter(|time| *time > 0);
        times.map(|time| Timestamp::of(UNIX_EPOCH + Duration::from_nanos(time))).any(|measured| measured < moment)
    }

    /// How much has to go.
    pub fn excess(&self, target: GcTarget) -> Result<u64> {
        let unasked = DiskSpace { capacity: 0, available: 0 };
        let disk = |directory: &Path| {
            DiskSpace::of(directory)
                .map_err(|error| error.hint("set the largest size of the images instead: --max-size"))
        };
        match (target, self.directory()) {
            // Down to 100 percent is how to say that nothing shall be collected.
            (GcTarget::Any | GcTarget::Disk { low: 100, .. }, _) => Ok(0),
            (GcTarget::Size(_), _) => Ok(target.excess(self.total()?, unasked)),
            (GcTarget::Disk { .. }, Some(directory)) => Ok(target.excess(0, disk(&directory)?)),
            (GcTarget::Disk { .. }, None) => {
                Err(Error::input("the runtime of the node does not report where its images are")
                    .hint("set the largest size of the images instead: --max-size"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_of(name: &str) -> String {
        Digest::of(name.as_bytes()).to_string()
    }

    fn image(name: &str, tags: &[&str], digests: &[String]) -> cri::CriImage {
        let repo_tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        cri::CriImage { id: id_of(name), repo_tags, repo_digests: digests.to_vec(), size: 100, pinned: false }
    }

    fn survey(answers: &RuntimeAnswers, known: Option<&NodeRecord>) -> Survey {
        Survey::new(answers, "unix:///x", known, Timestamp::from_seconds(1_000)).unwrap()
    }

    #[test]
    fn a_container_may_call_its_image_by_any_name() {
        let (one, two) = (id_of("manifest of one"), id_of("manifest of two"));
        let images = vec![
            image("one", &["docker.io/library/app:latest"], &[format!("docker.io/library/app@{one}")]),
            image("two", &[], &[format!("docker.io/library/app@{two}")]),
            image("three", &[], &[]),
        ];
        let bare = id_of("three").replace("sha256:", "");
        let both = format!("app:latest@{two}");
        for (used, expected) in [
            ("docker.io/library/app:latest", &["one"][..]),
            ("app", &["one"]),
            ("app:v2", &[]),
            (&format!("docker.io/library/app@{two}"), &["two"]),
            // The tag may have moved; the digest has not.
            (&both, &["two"]),
            (&id_of("three"), &["three"]),
            (&bare, &["three"]),
            ("docker.io/library/other:latest", &[]),
            ("", &[]),
        ] {
            let answers = RuntimeAnswers { images: images.clone(), used: vec![used.to_owned()], references: None };
            let survey = survey(&answers, None);
            let in_use = survey.inventory.images.iter().filter(|image| image.hold == Some(HoldReason::InUse));
            let in_use: Vec<String> = in_use.map(|image| image.digest.to_string()).collect();
            assert_eq!(in_use, expected.iter().map(|name| id_of(name)).collect::<Vec<_>>(), "{used}");
        }
    }

    #[test]
    fn an_image_is_as_old_as_its_id_and_not_as_its_tag() {
        let reference = |name: &str, seconds| containerd::ContainerdImage {
            name: name.to_owned(),
            created_at: Some(containerd::ProtoTimestamp { seconds, nanos: 0 }),
            ..containerd::ContainerdImage::default()
        };
        let seen = |references, known: Option<u64>| {
            let answers = RuntimeAnswers {
                images: vec![image("one", &["a.io/x:v1", "a.io/y:v1"], &[])],
                references,
                used: Vec::new(),
            };
            let spell = |at| ImageTimes { first_seen: Timestamp::from_seconds(at), last_use: None };
            let known = known.map(|at| NodeRecord {
                endpoint: "unix:///x".to_owned(),
                since: Timestamp::from_seconds(1),
                collected: None,
                images: [(Digest::of(b"one"), spell(at)), (Digest::of(b"gone"), spell(at))].into(),
            });
            let survey = survey(&answers, known.as_ref());
            assert_eq!(survey.record.images.len(), 1, "what is gone is forgotten");
            survey.inventory.images[0].first_seen.seconds()
        };
        let tags = vec![reference("a.io/x:v1", 5), reference("a.io/y:v1", 7)];
        let by_id = [tags.clone(), vec![reference(&id_of("one"), 6)]].concat();
        assert_eq!(seen(Some(by_id), Some(3)), 6);
        assert_eq!(seen(Some(tags), Some(3)), 7, "else as its newest name");
        assert_eq!(seen(Some(vec![reference("a.io/x:v1", -1)]), Some(3)), 3, "else as it is remembered");
        assert_eq!(seen(None, Some(3)), 3);
        assert_eq!(seen(None, None), 1_000, "else as of now");
    }

    #[test]
    fn a_size_that_no_image_has_cannot_overflow() {
        let images = ["one", "two"].map(|name| cri::CriImage { size: u64::MAX, ..image(name, &[], &[]) }).into();
        let survey = survey(&RuntimeAnswers { images, ..RuntimeAnswers::default() }, None);
        assert_eq!(survey.inventory.total(), 2 * LARGEST);
    }
}
