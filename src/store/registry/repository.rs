//! A repository in a registry as a place that images come from and go to.

use std::sync::Arc;

use reqwest::Method;
use reqwest::header::HeaderMap;

use super::EarlyDigest;
use super::client::{Call, Client, FAILURE_LIMIT, To, Want};
use super::download::Download;
use super::host::Host;
use super::http_client::Payload;
use super::token::TokenScope;
use crate::attest::Attachment;
use crate::store::parallel::AsyncRuntime;
use crate::store::publish::Publication;
use crate::store::{Blob, Delivery, ImageParts, Offer, OfferWish, PutUnder, Sink, Source, Stream};
use oci::error::{Error, Result};
use oci::{Descriptor, Digest, Document, Reference, Referrer, RepositoryName};

/// What we want to do in a repository; tokens are asked for accordingly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RepositoryRole {
    Source,
    Sink,
}

/// A repository, with the image in it that a reference names.
#[derive(Clone)]
pub struct Repository {
    runtime: Arc<AsyncRuntime>,
    client: Arc<Client>,
    host: Arc<Host>,
    reference: Reference,
    role: RepositoryRole,
}

impl Repository {
    pub(super) fn new(
        runtime: &Arc<AsyncRuntime>,
        client: &Arc<Client>,
        reference: &Reference,
        role: RepositoryRole,
    ) -> Self {
        Self {
            runtime: Arc::clone(runtime),
            client: Arc::clone(client),
            host: client.host(reference.name().host()),
            reference: reference.clone(),
            role,
        }
    }

    pub(super) fn runtime(&self) -> Arc<AsyncRuntime> {
        Arc::clone(&self.runtime)
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    pub(super) fn name(&self) -> &RepositoryName {
        self.reference.name()
    }

    /// A call to `/v2/NAME` and what follows.
    pub(super) fn call<'a>(&self, method: Method, below: &str) -> Call<'a> {
        self.call_to(method, To::Path(format!("/v2/{}{below}", self.name().repository())))
    }

    pub(super) fn call_to<'a>(&self, method: Method, to: To) -> Call<'a> {
        Call {
            host: Arc::clone(&self.host),
            name: self.name().clone(),
            image: self.reference.to_string(),
            method,
            to,
            headers: HeaderMap::new(),
            payload: Payload::Nothing,
            scope: match self.role {
                RepositoryRole::Source => TokenScope::pull(self.name()),
                RepositoryRole::Sink => TokenScope::push(self.name()),
            },
            want: Want::LimitedBody(FAILURE_LIMIT),
        }
    }

    /// What the target names now, asked early, and once.
    pub(super) fn ask(&self, from: &[RepositoryName]) -> EarlyDigest {
        let asked = self.runtime.run(async { Ok(self.resolve_early(&self.target(), from).await) });
        asked.unwrap_or(EarlyDigest::Unclear)
    }

    /// The tag or digest that the target is put under.
    pub(super) fn target(&self) -> String {
        self.reference.effective_tag().map_or_else(|| self.reference.target(), str::to_owned)
    }
}

impl Source for Repository {
    fn top(&self) -> Result<Document> {
        self.runtime.run(async {
            let expected = self.reference.digest();
            let fetched = self.fetch(&self.reference.target(), expected).await?;
            self.read(fetched.bytes, fetched.declared.as_ref())
        })
    }

    fn document(&self, of: &Descriptor) -> Result<Document> {
        self.runtime.run(async {
            let fetched = self.fetch(&of.digest.to_string(), Some(of.digest)).await?;
            if fetched.bytes.len() as u64 != of.size {
                return Err(Error::integrity("the manifest does not have the size in its descriptor")
                    .fact("registry", self.host.name())
                    .fact("image", format!("{}@{}", self.name(), of.digest))
                    .fact("size", of.size)
                    .fact("got", fetched.bytes.len()));
            }
            if let Some(declared) = fetched.declared.filter(|declared| *declared != of.media_type) {
                return Err(Error::input("the index and the registry give different media types")
                    .fact("registry", self.host.name())
                    .fact("image", format!("{}@{}", self.name(), of.digest))
                    .fact("index", &of.media_type)
                    .fact("transport", declared));
            }
            self.read(fetched.bytes, Some(&of.media_type))
        })
    }

    fn open(&self, of: &Descriptor, from: u64) -> Result<Stream> {
        Ok(Box::new(Download::open(self.clone(), of, from)?))
    }

    fn repository(&self) -> Option<&RepositoryName> {
        Some(self.name())
    }

    fn referrers(&self, subject: Digest, filter: Option<&str>) -> Result<Vec<Referrer>> {
        self.runtime.run(self.list_referrers(subject, filter))
    }

    fn tagged(&self, tag: &str) -> Result<Option<Document>> {
        self.runtime.run(self.tagged(tag))
    }

    fn tags(&self) -> Result<Vec<String>> {
        self.runtime.run(self.list_tags())
    }
}

impl Sink for Repository {
    fn current(&self) -> Result<Option<Digest>> {
        self.runtime.run(self.resolve(&self.target()))
    }

    fn missing_parts(&self, parts: &ImageParts, jobs: usize) -> Result<Vec<Digest>> {
        self.missing(parts, jobs)
    }

    fn put_blob(&self, blob: &Blob<'_>) -> Result<Delivery> {
        let delivery = self.runtime.run(self.deliver(blob))?;
        let traffic = &self.client.http.traffic;
        match delivery {
            Delivery::AlreadyThere => traffic.already_there(),
            Delivery::Mounted => traffic.mounted(),
            Delivery::Sent => {}
        }
        Ok(delivery)
    }

    fn offer_wish(&self) -> OfferWish {
        self.host.holdings.wish(self.name())
    }

    fn offer(&self, wish: OfferWish, manifests: &[(&Document, PutUnder)]) -> Result<Vec<Offer>> {
        let offers = self.runtime.run(self.offer_all(wish, manifests));
        if wish == OfferWish::Probe {
            self.host.holdings.end_probe(self.name());
        }
        offers
    }

    fn put_document(&self, document: &Document) -> Result<()> {
        self.runtime.run(self.put_manifest(document, &document.digest().to_string()))
    }

    fn tag(&self, top: &Document) -> Result<()> {
        self.runtime.run(self.put_tag(top, &self.target()))
    }

    fn attach(&self, attachments: &[Attachment], image: Publication) -> Result<Vec<Digest>> {
        self.attach_all(attachments, image)
    }
}
