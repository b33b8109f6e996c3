//! The images an index leads to, and which of them were asked for. An image is only read when
//! its platform is wanted.

use serde_json::{Map, Value};

use super::images::Loader;
use crate::examine::LeftBehind;
use crate::store::parallel;
use oci::error::{Error, Result};
use oci::{Document, DocumentKind, EntryRole, Image, Index, IndexEntry, Platform};

/// Indexes inside indexes inside indexes are where it ends.
const DEPTH_LIMIT: usize = 3;

/// One platform's image with the entry that led to it.
#[derive(Debug, Clone)]
pub(super) struct Listed {
    pub platform: Platform,
    pub image: Image,
    pub entry: Option<Map<String, Value>>,
    pub entry_annotations: Map<String, Value>,
    pub index_annotations: Map<String, Value>,
    /// Attestations that say they are about this image.
    pub attestations: Vec<IndexEntry>,
}

/// Everything a document leads to.
pub(super) struct Listing {
    entries: Vec<ListedEntry>,
    others: Vec<IndexEntry>,
    annotations: Map<String, Value>,
}

/// An image that is there; `image` where it had to be read to know its platform.
struct ListedEntry {
    platform: Platform,
    child: Option<IndexEntry>,
    image: Option<Image>,
}

impl Listing {
    /// Lists what `top` leads to.
    pub fn read(loader: &Loader<'_>, top: &Document) -> Result<Self> {
        if top.kind() == DocumentKind::Manifest {
            let image = loader.image(top.clone())?;
            let entry = ListedEntry { platform: image.config.platform().clone(), child: None, image: Some(image) };
            return Ok(Self { entries: vec![entry], others: Vec::new(), annotations: Map::new() });
        }
        let mut children = Vec::new();
        flatten(loader, top, 1, &mut children)?;
        let (images, others): (Vec<IndexEntry>, Vec<IndexEntry>) =
            children.into_iter().partition(|child| matches!(child.role, EntryRole::Image(_)));
        let entries = images.into_iter().map(|child| ListedEntry::new(loader, child)).collect::<Result<Vec<_>>>()?;
        check_unambiguous(&entries)?;
        Ok(Self { entries, others, annotations: Index::read(top)?.annotations })
    }

    /// The images for the platforms asked for, in the order of the index; all of them where none
    /// was asked for.
    pub fn choose(&self, loader: &Loader<'_>, asked: &[Platform]) -> Result<Vec<Listed>> {
        if let Some(missing) =
            asked.iter().find(|asked| !self.entries.iter().any(|entry| asked.accepts(&entry.platform)))
        {
            return Err(self.lacks(missing));
        }
        let wanted =
            |entry: &&ListedEntry| asked.is_empty() || asked.iter().any(|asked| asked.accepts(&entry.platform));
        let chosen: Vec<&ListedEntry> = self.entries.iter().filter(wanted).collect();
        if chosen.is_empty() {
            return Err(Error::input("the index has no image for any platform"));
        }
        parallel::map(&chosen, loader.jobs, |entry| self.load(loader, entry))
    }

    /// How many images there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The image for exactly this platform.
    pub fn find(&self, loader: &Loader<'_>, platform: &Platform) -> Result<Option<Listed>> {
        let mut found = self.entries.iter().filter(|entry| platform.accepts(&entry.platform));
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => Err(Error::input(format!("the index has two images for {platform}"))),
            (Some(entry), None) => self.load(loader, entry).map(Some),
            (None, _) => Ok(None),
        }
    }

    /// What stands beside the images and describes bytes that will change.
    pub fn left_behind(&self) -> Vec<LeftBehind> {
        let left = |child: &IndexEntry| match child.role {
            EntryRole::Attestation(of) => LeftBehind { what: "an attestation", digest: child.descriptor.digest, of },
            _ => LeftBehind { what: "an entry that is not an image", digest: child.descriptor.digest, of: None },
        };
        self.others.iter().map(left).collect()
    }

    fn load(&self, loader: &Loader<'_>, entry: &ListedEntry) -> Result<Listed> {
        let image = match (&entry.image, &entry.child) {
            (Some(image), _) => image.clone(),
            (None, Some(child)) => loader.image(loader.document(&child.descriptor)?)?,
            (None, None) => return Err(Error::input("the index has an entry without a manifest")),
        };
        let about = EntryRole::Attestation(Some(image.digest()));
        Ok(Listed {
            platform: entry.platform.clone(),
            entry: entry.child.as_ref().and_then(|child| child.descriptor.platform_object.clone()),
            entry_annotations: entry
                .child
                .as_ref()
                .map(|child| child.descriptor.annotations.clone())
                .unwrap_or_default(),
            index_annotations: self.annotations.clone(),
            attestations: self.others.iter().filter(|other| other.role == about).cloned().collect(),
            image,
        })
    }

    fn lacks(&self, asked: &Platform) -> Error {
        let there: Vec<String> = self.entries.iter().map(|entry| entry.platform.to_string()).collect();
        Error::input(format!("the image has no platform {asked}")).fact("there are", there.join(", "))
    }
}

impl ListedEntry {
    fn new(loader: &Loader<'_>, child: IndexEntry) -> Result<Self> {
        if let Some(platform) = child.descriptor.platform.clone() {
            return Ok(Self { platform, child: Some(child), image: None });
        }
        let image = loader.image(loader.document(&child.descriptor)?)?;
        Ok(Self { platform: image.config.platform().clone(), child: Some(child), image: Some(image) })
    }
}

fn flatten(loader: &Loader<'_>, document: &Document, depth: usize, into: &mut Vec<IndexEntry>) -> Result<()> {
    if depth > DEPTH_LIMIT {
        return Err(
            Error::input(format!("indexes are nested more than {DEPTH_LIMIT} deep")).fact("index", document.digest())
        );
    }
    for child in Index::read(document)?.children {
        if child.role == EntryRole::Nested {
            flatten(loader, &loader.document(&child.descriptor)?, depth + 1, into)?;
        } else {
            into.push(child);
        }
    }
    Ok(())
}

fn check_unambiguous(entries: &[ListedEntry]) -> Result<()> {
    let mut seen = std::collections::HashSet::new();
    match entries.iter().find(|entry| !seen.insert(&entry.platform)) {
        Some(twin) => Err(Error::input(format!("the index has two images for {}", twin.platform))),
        None => Ok(()),
    }
}
