//! The registry client (OCI distribution-spec 1.1): the part of `store` that speaks HTTP.
//!
//! ```text
//! repository     the interface: Source and Sink of one repository
//!   manifest       manifests and indexes by tag and digest
//!   offer          manifests before their parts;     holdings  what repositories are known to have
//!   presence       whether the parts of an image are still there
//!   referrers      manifests about a manifest: the API, and the tag schema
//!   tags           the tags of a repository, page by page
//!   download       blobs down, resumed after a break
//!   upload         blobs up: found, mounted or sent, in chunks where one PUT is too large
//! client         one call: transport, credentials, redirects, attempts
//!   retry          when a request is made again;     timeouts  all time constants
//!   host           TLS or plain HTTP, per host
//!   url_policy     which redirects and token servers are followed
//!   challenge      WWW-Authenticate;                 token, token_request  Authorization values
//!   password_trial one request at a time until a password has proved good
//!   credentials    where they are looked for;        auth_file, credential_helper  how they are read
//! http_client    one request: connections, time limits, counting
//!   host_limits    what requests to one host share;  upload_body  bytes of an upload
//!   http_error     requests without an answer, and refusals, as errors
//! ```

mod auth_file;
mod challenge;
mod client;
mod credential_helper;
mod credentials;
mod download;
mod holdings;
mod host;
mod host_limits;
mod http_client;
mod http_error;
mod manifest;
mod offer;
mod password_trial;
mod presence;
mod referrers;
mod repository;
mod retry;
mod tags;
mod timeouts;
mod token;
mod token_request;
mod upload;
mod upload_body;
mod url_policy;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use client::Client;
pub use credentials::{Credentials, Secret};
pub use repository::Repository;
use repository::RepositoryRole;
pub use timeouts::Timeouts;

use crate::store::parallel::AsyncRuntime;
use crate::store::{Notices, Traffic};
use oci::error::Result;
use oci::{Digest, HostPattern, Reference, RepositoryName};

/// What the user decides about registries.
#[derive(Debug, Clone)]
pub struct RegistryOptions {
    /// `HOST` or `HOST:PORT` that may have any certificate, or plain HTTP.
    pub insecure: Vec<HostPattern>,
    /// Certificates, in PEM form, that are trusted beside the system's.
    pub cacert: Option<PathBuf>,
    /// Refuse every request.
    pub offline: bool,
    /// Requests to one host at a time.
    pub jobs: usize,
    /// Where to look for credentials.
    pub credentials: Credentials,
    pub timeouts: Timeouts,
}

impl Default for RegistryOptions {
    fn default() -> Self {
        Self {
            insecure: Vec::new(),
            cacert: None,
            offline: false,
            jobs: 4,
            credentials: Credentials::default(),
            timeouts: Timeouts::default(),
        }
    }
}

/// All registries of a run: connections, tokens, and what was learnt about hosts. Cheap to clone.
///
/// Nothing is asked, and no file with credentials is read, before an image is.
#[derive(Clone)]
pub struct Registry {
    runtime: Arc<AsyncRuntime>,
    client: Arc<Client>,
}

/// What a target named when the run began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyDigest {
    Nothing,
    Is(Digest),
    /// One request did not make it clear.
    Unclear,
}

/// An answer that is on its way. Dropped, it is not waited for.
pub struct PendingDigest(std::thread::JoinHandle<EarlyDigest>);

impl PendingDigest {
    /// Waits for the answer.
    #[must_use]
    pub fn wait(self) -> EarlyDigest {
        self.0.join().unwrap_or(EarlyDigest::Unclear)
    }
}

impl Registry {
    pub fn new(options: RegistryOptions, traffic: Traffic, notices: Notices) -> Result<Self> {
        let client = Client::new(options, traffic, notices)?;
        Ok(Self { runtime: Arc::new(AsyncRuntime::new()?), client: Arc::new(client) })
    }

    /// The image as one to read.
    #[must_use]
    pub fn source(&self, reference: &Reference) -> Repository {
        Repository::new(&self.runtime, &self.client, reference, RepositoryRole::Source)
    }

    /// Begins to ask what the image names now, for somebody who will mount blobs from `from` there.
    #[must_use]
    pub fn ask(&self, reference: &Reference, from: Vec<RepositoryName>) -> PendingDigest {
        let sink = self.sink(reference);
        PendingDigest(std::thread::spawn(move || sink.ask(&from)))
    }

    /// The image as one to write.
    #[must_use]
    pub fn sink(&self, reference: &Reference) -> Repository {
        Repository::new(&self.runtime, &self.client, reference, RepositoryRole::Sink)
    }
}
