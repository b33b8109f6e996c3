//! The registry client (OCI distribution-spec 1.1): the part of `store` that speaks HTTP.
//!
//! ```text
//! repository   the interface: Source and Sink of one repository
//!   manifest     manifests and indexes by tag and digest
//!   download     blobs down, resumed after a break
//!   upload       blobs up: found, mounted or sent;  chunks  where one PUT is too large
//! client       one call: way, credentials, redirects, tries
//!   retry        when a request is made again;      pace    all time constants
//!   host         TLS or not;                        address what is near
//!   redirect     where a registry may send us;      realm   which token server it may name
//!   challenge    WWW-Authenticate;                  token, token_request  Authorization values
//!   credentials  where they are looked for;         auth_file, helper     and how they are read
//! wire         one request: connections, time limits, counting
//!   lane         what requests to one host share;   body    bytes of an upload
//!   fault        why there is no answer;            failure from refusal to error
//! ../engine    the threads: all is blocking outside
//! ```

mod address;
mod auth_file;
mod body;
mod call;
mod challenge;
mod chunks;
mod client;
mod credentials;
mod download;
mod failure;
mod fault;
mod helper;
mod host;
mod lane;
mod manifest;
mod options;
mod pace;
mod realm;
mod redirect;
mod repository;
mod retry;
mod secret;
mod token;
mod token_request;
mod upload;
mod wire;

#[cfg(test)]
mod double;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use client::Client;
pub use credentials::Credentials;
pub use options::Options;
pub use pace::Pace;
pub use repository::Repository;
use repository::Role;
pub use secret::Secret;

use crate::error::Result;
use crate::oci::Reference;
use crate::store::engine::Engine;
use crate::store::{Notices, Traffic};

/// All registries of a run: connections, tokens, and what was learnt about hosts. Cheap to clone.
///
/// Nothing is asked, and no file with credentials is read, before an image is.
#[derive(Clone)]
pub struct Registry {
    engine: Arc<Engine>,
    client: Arc<Client>,
}

impl Registry {
    pub fn new(options: Options, traffic: Traffic, notices: Notices) -> Result<Self> {
        let client = Client::new(options, traffic, notices)?;
        Ok(Self { engine: Arc::new(Engine::new()?), client: Arc::new(client) })
    }

    /// The image as one to read.
    #[must_use]
    pub fn source(&self, reference: &Reference) -> Repository {
        Repository::new(&self.engine, &self.client, reference, Role::Source)
    }

    /// The image as one to write.
    #[must_use]
    pub fn sink(&self, reference: &Reference) -> Repository {
        Repository::new(&self.engine, &self.client, reference, Role::Sink)
    }
}
