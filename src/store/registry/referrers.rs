//! Manifests about a manifest (distribution-spec 1.1, "Listing Referrers"), and the tag schema where a registry has no
//! such API.
//!
//! The rule this file owns: what was attached is in the list when this says so. A registry without the API keeps the
//! list under a tag that every writer replaces: after writing it is read again, and repaired where another writer's
//! list took its place. Without conditional requests it cannot be made perfect, only right again.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::Duration;

use reqwest::header::{ACCEPT, HeaderName, LINK};
use reqwest::{Method, Url};
use tokio::time::sleep;

use super::client::{Call, RegistryAnswer, To, Want};
use super::repository::Repository;
use super::url_policy::same_origin;
use crate::attest::Attachment;
use crate::store::publish::Publication;
use crate::store::{Blob, ImageParts, Stream, parallel};
use oci::error::{Error, Kind, Result};
use oci::{
    DOCUMENT_LIMIT, Descriptor, Digest, Document, MediaType, REFERRER_LIMIT, Referrer, ReferrerList, fallback_tag,
    too_many,
};

pub(super) const SUBJECT: HeaderName = HeaderName::from_static("oci-subject");
const FILTERS_APPLIED: HeaderName = HeaderName::from_static("oci-filters-applied");
/// Pages of one list.
const PAGES: usize = 100;
/// Times that the list under the tag is written before other writers win.
const REPAIRS: u32 = 6;
/// Transfers at once.
const JOBS: usize = 4;
/// What go-containerregistry writes into a list for an artifact with an empty config, whatever its type is.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// Who keeps the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeper {
    /// The registry, from the `subject` of what it is given.
    Registry,
    /// Whoever writes, under a tag.
    Tag,
}

struct ListedReferrers {
    list: ReferrerList,
    keeper: Keeper,
}

impl Repository {
    /// The manifests that are about `subject`. With a filter those of that type, and those whose type the list does not say.
    pub(super) async fn list_referrers(&self, subject: Digest, filter: Option<&str>) -> Result<Vec<Referrer>> {
        let listed = self.listed(subject, filter).await?.list.only(|entry| is_wanted(entry, filter));
        match listed.entries() {
            entries if entries.len() <= REFERRER_LIMIT => Ok(entries.to_vec()),
            entries => Err(too_many(entries.len())),
        }
    }

    async fn listed(&self, subject: Digest, filter: Option<&str>) -> Result<ListedReferrers> {
        if !self.host().lacks_referrers(self.name().repository())
            && let Some(list) = self.by_api(subject, filter).await?
        {
            return Ok(ListedReferrers { list, keeper: Keeper::Registry });
        }
        Ok(ListedReferrers { list: self.by_tag(subject).await?, keeper: Keeper::Tag })
    }

    /// All pages of the list; `None` where the registry does not have the API.
    async fn by_api(&self, subject: Digest, filter: Option<&str>) -> Result<Option<ReferrerList>> {
        let mut path = format!("/referrers/{subject}");
        if let Some(filter) = filter {
            let _ = write!(path, "?artifactType={}", filter.replace('+', "%2B"));
        }
        let mut call = self.call(Method::GET, &path);
        let mut all = ReferrerList::empty();
        for page in 0..PAGES {
            call = call.header(ACCEPT, MediaType::oci_index().as_str()).want(Want::LimitedBody(DOCUMENT_LIMIT));
            let answer = match self.client().send(&call).await {
                // Some registries deny what they do not know; the tag below tells whether we may read at all.
                Err(error) if error.kind() == Kind::Auth && page == 0 => return Ok(None),
                outcome => outcome?,
            };
            let Some(list) = self.page(&call, &answer, subject)? else {
                return if page == 0 { Ok(None) } else { Err(broken(&call, &answer)) };
            };
            let is_filtered = answer.text(FILTERS_APPLIED).is_some_and(|applied| applied.contains("artifactType"));
            if filter.is_some() && !is_filtered {
                self.client().http.notices.detail(format!("{}: not filtered by the registry", call.about().request));
            }
            // What is not asked for does not count, however much of it there is.
            let list = list.only(|entry| is_wanted(entry, filter));
            let count = all.entries().len() + list.entries().len();
            if count > REFERRER_LIMIT {
                return Err(too_many(count));
            }
            all.add(list.entries());
            match next_page(&answer) {
                Some(next) => call = self.call_to(Method::GET, To::Place(next)),
                None => return Ok(Some(all)),
            }
        }
        Err(too_many(all.entries().len()).fact("pages", PAGES))
    }

    /// The list of one answer; `None` where the answer is none, which is how registries say that they lack the API.
    fn page(&self, call: &Call<'_>, answer: &RegistryAnswer, subject: Digest) -> Result<Option<ReferrerList>> {
        match answer.status.as_u16() {
            200 => {}
            // Denied to these credentials, perhaps not to others.
            401 | 403 => return Ok(None),
            400..=499 | 501 => {
                self.host().note_without_referrers(self.name().repository());
                return Ok(None);
            }
            _ => return Err(broken(call, answer)),
        }
        // A registry that takes the path for another one answers with the subject itself, or with a page of its own.
        if Digest::of(&answer.body) == subject {
            return Ok(None);
        }
        let Ok(document) = self.read(answer.body.clone(), None) else { return Ok(None) };
        ReferrerList::read(&document).map_err(|error| error.fact("request", call.about().request))
    }

    /// The list under the tag; an empty one where there is none.
    async fn by_tag(&self, subject: Digest) -> Result<ReferrerList> {
        let document = self.tagged(&fallback_tag(&subject)).await?;
        let list = document.map(|document| ReferrerList::read(&document)).transpose()?.flatten();
        Ok(list.unwrap_or_else(ReferrerList::empty))
    }

    /// What another tag of the repository leads to, where it is there.
    pub(super) async fn tagged(&self, tag: &str) -> Result<Option<Document>> {
        match self.fetch(tag, None).await {
            Ok(fetched) => self.read(fetched.bytes, fetched.declared.as_ref()).map(Some),
            Err(error) if error.kind() == Kind::Missing => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Attaches what is not attached yet; yields what was written. About an image that was put a moment ago nothing is
    /// looked up first: hardly anybody can have stated anything about it, and what is put twice is there once.
    pub(super) fn attach_all(&self, attachments: &[Attachment], image: Publication) -> Result<Vec<Digest>> {
        let groups = by_subject(attachments);
        let known = match image {
            Publication::Written => Vec::new(),
            Publication::AlreadyThere => self.lists(&groups)?,
        };
        let is_listed = |new: &&&Attachment| known.iter().any(|listed| listed.list.has(&new.manifest.digest()));
        let all: Vec<&Attachment> = attachments.iter().collect();
        let lost = self.lost(all.iter().filter(is_listed).copied())?;
        let missing: Vec<&Attachment> =
            all.into_iter().filter(|new| !is_listed(&new) || lost.contains(&new.manifest.digest())).collect();
        let Some(first) = missing.first() else { return Ok(Vec::new()) };
        let blobs: Vec<_> = std::iter::once(&first.config).chain(missing.iter().map(|new| &new.layer)).collect();
        let runtime = self.runtime();
        parallel::map(&blobs, JOBS, |(of, bytes)| self.put_small(of, bytes))?;
        let answers = parallel::map(&missing, JOBS, |new| runtime.run(self.put_referrer(new)))?;
        let unlisted = missing.iter().zip(answers).filter(|(_, keeping)| *keeping == ListKeeping::Unsaid);
        let unlisted = by_subject(unlisted.map(|(new, _)| *new));
        let listed = self.lists(&unlisted)?;
        let unlisted: Vec<_> = unlisted.iter().zip(listed).collect();
        parallel::map(&unlisted, JOBS, |((subject, new), listed)| {
            runtime.run(self.settle_list(*subject, new, listed))
        })?;
        Ok(missing.iter().map(|new| new.manifest.digest()).collect())
    }

    /// Those of the listed statements of which something is gone.
    fn lost<'a>(&self, listed: impl Iterator<Item = &'a Attachment>) -> Result<HashSet<Digest>> {
        let listed: Vec<&Attachment> = listed.collect();
        let Some(first) = listed.first() else { return Ok(HashSet::new()) };
        let manifests: Vec<Descriptor> = listed.iter().map(|new| new.manifest.descriptor()).collect();
        // The config is the same for all.
        let blobs = std::iter::once(&first.config).chain(listed.iter().map(|new| &new.layer));
        let blobs = blobs.map(|(of, _)| of.clone()).collect();
        let parts = ImageParts { top: first.manifest.descriptor(), children: manifests, blobs };
        let missing = self.missing(&parts, JOBS)?;
        let is_lost = |new: &&&Attachment| {
            let digests = [new.manifest.digest(), new.config.0.digest, new.layer.0.digest];
            digests.iter().any(|digest| missing.contains(digest))
        };
        Ok(listed.iter().filter(is_lost).map(|new| new.manifest.digest()).collect())
    }

    /// The lists of several subjects. The first answer tells whether there is an API to ask for the others.
    fn lists(&self, groups: &[(Digest, Vec<&Attachment>)]) -> Result<Vec<ListedReferrers>> {
        let runtime = self.runtime();
        let read = |(subject, _): &(Digest, Vec<&Attachment>)| runtime.run(self.listed(*subject, None));
        let Some((first, others)) = groups.split_first() else { return Ok(Vec::new()) };
        let mut lists = vec![read(first)?];
        lists.extend(parallel::map(others, JOBS, read)?);
        Ok(lists)
    }

    fn put_small(&self, of: &Descriptor, bytes: &[u8]) -> Result<()> {
        let open = || Ok(Box::new(std::io::Cursor::new(bytes.to_vec())) as Stream);
        self.runtime().run(self.deliver_new(&Blob { descriptor: of, held_by: &[], open: &open }))
    }

    /// Puts the manifest; the registry says whether it put it into the list of its subject.
    async fn put_referrer(&self, new: &Attachment) -> Result<ListKeeping> {
        let answer = self.put_answered(&new.manifest, &new.manifest.digest().to_string()).await?;
        let is_listed = answer.text(SUBJECT).is_some_and(|subject| subject.trim() == new.subject.to_string());
        Ok(if is_listed { ListKeeping::Done } else { ListKeeping::Unsaid })
    }

    /// Makes sure that the list, as it is after they were put, has these.
    async fn settle_list(&self, subject: Digest, new: &[&Attachment], listed: &ListedReferrers) -> Result<()> {
        let referrers: Vec<Referrer> = new.iter().map(|new| new.referrer()).collect();
        let lost = referrers.iter().find(|referrer| !listed.list.has(&referrer.descriptor.digest));
        match (listed.keeper, lost) {
            (_, None) => Ok(()),
            (Keeper::Tag, Some(_)) => self.add_under_tag(subject, &referrers, listed.list.clone()).await,
            (Keeper::Registry, Some(lost)) => {
                Err(Error::new(Kind::Network, "the registry took a statement about the image, but does not list it")
                    .fact("registry", self.name().host())
                    .fact("image", format!("{}@{subject}", self.name()))
                    .fact("statement", lost.descriptor.digest))
            }
        }
    }

    /// The list was read right before it is written, so that what another writer puts in between is lost for a moment only:
    /// its next look finds it missing. So does ours.
    async fn add_under_tag(&self, subject: Digest, new: &[Referrer], mut list: ReferrerList) -> Result<()> {
        let tag = fallback_tag(&subject);
        for round in 1..=REPAIRS {
            list.add(new);
            self.put_manifest(&list.document()?, &tag).await?;
            // Whoever read the list before this one was written writes within moments, if at all.
            sleep(self.moment(round)).await;
            list = self.by_tag(subject).await?;
            if new.iter().all(|referrer| list.has(&referrer.descriptor.digest)) {
                return Ok(());
            }
            let notice = format!("{}:{tag} was overwritten by another writer, adding to it again", self.name());
            self.client().http.notices.detail(notice);
        }
        Err(Error::new(Kind::Conflict, "other writers keep overwriting the list of statements about the image")
            .fact("tag", format!("{}:{tag}", self.name()))
            .hint("run again: what is attached already is not sent twice"))
    }

    /// Longer with each round, and never the same for two writers.
    fn moment(&self, round: u32) -> Duration {
        let least = self.client().http.timeouts.settle / 8;
        least + least.mul_f32(fastrand::f32()) * round
    }
}

/// Whether an entry is of that type, or of one that the list does not say.
fn is_wanted(entry: &Referrer, filter: Option<&str>) -> bool {
    filter.is_none_or(|filter| ["", EMPTY, filter].contains(&entry.artifact_type.as_str()))
}

/// Whether the registry said that it put a manifest into the list of its subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListKeeping {
    Done,
    Unsaid,
}

fn by_subject<'a>(attachments: impl IntoIterator<Item = &'a Attachment>) -> Vec<(Digest, Vec<&'a Attachment>)> {
    let mut groups: Vec<(Digest, Vec<&Attachment>)> = Vec::new();
    for attachment in attachments {
        match groups.iter_mut().find(|(subject, _)| *subject == attachment.subject) {
            Some((_, group)) => group.push(attachment),
            None => groups.push((attachment.subject, vec![attachment])),
        }
    }
    groups
}

/// Where the list goes on, on the same registry.
pub(super) fn next_page(answer: &RegistryAnswer) -> Option<Url> {
    let link = answer.text(LINK)?;
    let (target, rest) = link.trim().strip_prefix('<')?.split_once('>')?;
    let is_next = rest.split(';').any(|part| part.trim().replace('"', "").eq_ignore_ascii_case("rel=next"));
    let url = answer.url.join(target).ok().filter(|_| is_next)?;
    same_origin(&answer.url, &url).then_some(url)
}

fn broken(call: &Call<'_>, answer: &RegistryAnswer) -> Error {
    super::http_error::refused(&call.about(), answer, "the registry does not list what is attached to the image")
}
