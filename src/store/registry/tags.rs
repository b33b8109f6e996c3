//! The tags of a repository (distribution-spec, "Listing Tags"), page by page.
//!
//! The rule this file owns: the list is whole, or there is none. A page that leads elsewhere, in a circle, or on for
//! ever is an error, never the end of the list.

use std::collections::BTreeSet;

use reqwest::Method;
use reqwest::header::LINK;
use serde::Deserialize;

use super::client::{Call, RegistryAnswer, To, Want};
use super::http_error;
use super::referrers::next_page;
use super::repository::Repository;
use oci::Reference;
use oci::error::{Error, Kind, Result, excerpt};

/// Tags asked for at a time; registries may give fewer, or all of them.
const PAGE: usize = 1_000;
const PAGES: usize = 2_000;
/// More tags than this are not listed: about 10 MiB of names.
const TAG_LIMIT: usize = 100_000;
/// A page of so many of the longest tags.
const PAGE_LIMIT: u64 = 16 << 20;

#[derive(Deserialize)]
struct TagPage {
    /// Go writes `null` for a list without entries.
    tags: Option<Vec<String>>,
}

impl Repository {
    /// All tags, sorted, each once.
    pub(super) async fn list_tags(&self) -> Result<Vec<String>> {
        let mut call = self.call(Method::GET, &format!("/tags/list?n={PAGE}"));
        let mut tags = BTreeSet::new();
        for _ in 0..PAGES {
            call = call.want(Want::LimitedBody(PAGE_LIMIT));
            let answer = self.client().send(&call).await?;
            let known = tags.len();
            tags.extend(self.tag_page(&call, &answer)?);
            if tags.len() > TAG_LIMIT {
                return Err(endless(&call, "the repository has too many tags").fact("limit", TAG_LIMIT));
            }
            match next_page(&answer) {
                Some(_) if tags.len() == known => {
                    return Err(endless(&call, "the list of tags leads in a circle").fact("tags", known));
                }
                Some(next) => call = self.call_to(Method::GET, To::Place(next)),
                None if answer.headers.contains_key(LINK) => {
                    return Err(endless(&call, "the list of tags goes on where it cannot be followed"));
                }
                None => return Ok(tags.into_iter().collect()),
            }
        }
        Err(endless(&call, "the list of tags has too many pages").fact("pages", PAGES).fact("tags", tags.len()))
    }

    fn tag_page(&self, call: &Call<'_>, answer: &RegistryAnswer) -> Result<Vec<String>> {
        if !answer.status.is_success() {
            let what = "the registry does not list the tags of this repository";
            return Err(http_error::refused(&call.about(), answer, what));
        }
        let page: TagPage = serde_json::from_slice(&answer.body)
            .map_err(|error| call.about().error(Kind::Input, "the list of tags cannot be read").cause(error))?;
        let tags = page.tags.unwrap_or_default();
        match tags.iter().find(|tag| format!("{}:{tag}", self.name()).parse::<Reference>().is_err()) {
            Some(wrong) => {
                let error = call.about().error(Kind::Input, "the registry lists a tag that cannot be one");
                Err(error.fact("tag", excerpt(wrong, 200)))
            }
            None => Ok(tags),
        }
    }
}

fn endless(call: &Call<'_>, what: &str) -> Error {
    call.about().error(Kind::Input, what)
}
