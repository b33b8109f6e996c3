//! A blob on its way down: a reader that mends its own connection.
//!
//! After a break it resumes where it was, with `Range`. It promises the right number of bytes, not
//! the right bytes: whoever reads hashes, and opens the blob again when the digest is wrong.

use std::io::{self, Read};

use bytes::{Buf, Bytes};
use reqwest::header::{CONTENT_RANGE, RANGE};
use reqwest::{Method, Response, StatusCode};
use tokio::time::{sleep, timeout};

use super::client::{Call, RegistryAnswer, Want};
use super::http_client::RateMeter;
use super::http_error;
use super::http_error::RequestFault;
use super::repository::Repository;
use oci::Descriptor;
use oci::error::{Error, Kind, Result};

/// New connections that brought something, and those in a row that brought nothing.
const MOST_RECONNECTS: u32 = 100;
const MOST_STALLS: u32 = 3;
/// Times that a blob is sent again from its start, because the registry does not resume.
const MOST_RESTARTS: u32 = 2;

pub(super) struct Download {
    repository: Repository,
    of: Descriptor,
    /// The next byte to yield.
    next: u64,
    current: Option<Current>,
    history: History,
    /// The registry has shown that it does not understand `Range`.
    is_whole: bool,
    failed: Option<Error>,
}

/// An answer that is being read.
struct Current {
    response: Response,
    meter: RateMeter,
    /// Bytes still to come that were yielded before.
    skip: u64,
    piece: Bytes,
}

#[derive(Default)]
struct History {
    reconnects: u32,
    stalls: u32,
    restarts: u32,
    /// Where the last break was.
    at: u64,
    /// The last answer was complete as HTTP goes, but not as the descriptor goes.
    ended_early: bool,
}

impl Download {
    /// Opens the blob at byte `from`. The first request is made here, so that a blob that is not
    /// there is known at once; for an empty rest there is none.
    pub(super) fn open(repository: Repository, of: &Descriptor, from: u64) -> Result<Self> {
        let mut download = Self {
            repository,
            of: of.clone(),
            next: from.min(of.size),
            current: None,
            history: History { at: from, ..History::default() },
            is_whole: false,
            failed: None,
        };
        if download.next < download.of.size {
            download.run(async |download| download.connect().await)?;
        }
        Ok(download)
    }

    fn run<T>(&mut self, work: impl AsyncFnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let runtime = self.repository.runtime();
        runtime.run(work(self))
    }

    async fn connect(&mut self) -> Result<()> {
        loop {
            let is_ranged = self.next > 0 && !self.is_whole;
            let call = self.call(is_ranged);
            let mut answer = self.repository.client().send(&call).await?;
            let skip = match answer.status.as_u16() {
                200 => self.next,
                206 if is_ranged && resumes(&answer, self.next, self.of.size) => 0,
                206 | 400 | 416 if is_ranged => {
                    self.is_whole = true;
                    continue;
                }
                _ => return Err(refused(&call, &answer)),
            };
            if skip > 0 {
                self.count_restart(&call)?;
            }
            let Some(response) = answer.stream.take() else { return Err(refused(&call, &answer)) };
            self.current = Some(Current { response, meter: RateMeter::default(), skip, piece: Bytes::new() });
            return Ok(());
        }
    }

    fn call(&self, is_ranged: bool) -> Call<'static> {
        let path = format!("/blobs/{}", self.of.digest);
        let call = self.repository.call(Method::GET, &path).want(Want::Stream);
        if is_ranged { call.header(RANGE, &format!("bytes={}-", self.next)) } else { call }
    }

    fn count_restart(&mut self, call: &Call<'_>) -> Result<()> {
        self.history.restarts += 1;
        if self.history.restarts <= MOST_RESTARTS {
            return Ok(());
        }
        if self.history.ended_early {
            return Err(self.given_up(None));
        }
        let what = "the registry cuts downloads off and does not resume them";
        Err(call.about().error(Kind::Network, what).fact("blob", self.of.digest).fact("restarts", MOST_RESTARTS))
    }

    /// Makes the next piece available, through as many connections as it takes.
    async fn advance(&mut self) -> Result<()> {
        loop {
            let Some(current) = &mut self.current else {
                self.connect().await?;
                continue;
            };
            match self.repository.client().http.piece(&mut current.response, &mut current.meter).await {
                Ok(Some(piece)) => {
                    current.take(piece);
                    if !current.piece.is_empty() {
                        return Ok(());
                    }
                }
                Ok(None) => self.mend(None).await?,
                Err(fault) => self.mend(Some(fault)).await?,
            }
        }
    }

    /// Notes a break, and waits where the last connection brought nothing. `None`: the body ended
    /// early, but as if that were its end.
    async fn mend(&mut self, fault: Option<RequestFault>) -> Result<()> {
        self.current = None;
        let history = &mut self.history;
        if self.next > history.at {
            history.stalls = 0;
        } else {
            history.stalls += 1;
        }
        history.reconnects += 1;
        history.at = self.next;
        history.ended_early = fault.is_none();
        let http = &self.repository.client().http;
        if history.stalls >= MOST_STALLS || history.reconnects > MOST_RECONNECTS {
            return Err(self.given_up(fault));
        }
        let why = fault.map_or_else(|| "it ended early".to_owned(), |fault| fault.text());
        let (blob, at, size) = (self.of.digest, self.next, self.of.size);
        http.notices.detail(format!("blob {blob} broke off at byte {at} of {size}: {why}; resuming"));
        if history.stalls > 0 {
            sleep(http.timeouts.ceiling(history.stalls).mul_f64(fastrand::f64())).await;
        }
        Ok(())
    }

    fn given_up(&self, fault: Option<RequestFault>) -> Error {
        let about = self.call(false).about();
        let error = match fault {
            Some(fault) => http_error::lost(&about, fault, self.history.reconnects),
            None => about
                .error(Kind::Integrity, "the blob is shorter than its descriptor says")
                .fact("attempts", self.history.reconnects),
        };
        error.fact("blob", self.of.digest).fact("size", self.of.size).fact("got", self.next)
    }

    /// All bytes are yielded: there must be no more.
    async fn end(&mut self) -> Result<()> {
        let Some(mut current) = self.current.take() else { return Ok(()) };
        let http = &self.repository.client().http;
        let is_over = current.piece.is_empty()
            && match timeout(http.timeouts.linger, http.piece(&mut current.response, &mut current.meter)).await {
                Ok(Ok(Some(more))) => more.is_empty(),
                // Whatever happens after the last byte does not matter.
                Ok(Ok(None) | Err(_)) | Err(_) => true,
            };
        if is_over {
            return Ok(());
        }
        let about = self.call(false).about();
        Err(about
            .error(Kind::Integrity, "the blob is longer than its descriptor says")
            .fact("blob", self.of.digest)
            .fact("size", self.of.size))
    }

    fn try_read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.next == self.of.size {
            return self.run(async |download| download.end().await).map(|()| 0);
        }
        if self.current.as_ref().is_none_or(|current| current.piece.is_empty()) {
            self.run(async |download| download.advance().await)?;
        }
        let left = usize::try_from(self.of.size - self.next).unwrap_or(usize::MAX);
        let Some(current) = &mut self.current else { return Ok(0) };
        let count = current.piece.len().min(buffer.len()).min(left);
        if let Some(room) = buffer.get_mut(..count) {
            current.piece.copy_to_slice(room);
        }
        self.next += count as u64;
        Ok(count)
    }
}

impl Current {
    /// Takes a piece, less what was yielded before.
    fn take(&mut self, mut piece: Bytes) {
        let known = usize::try_from(self.skip).unwrap_or(usize::MAX).min(piece.len());
        piece.advance(known);
        self.skip -= known as u64;
        self.piece = piece;
    }
}

impl Read for Download {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if let Some(error) = &self.failed {
            return Err(error.clone().into());
        }
        self.try_read(buffer).map_err(|error| {
            self.failed = Some(error.clone());
            error.into()
        })
    }
}

fn refused(call: &Call<'_>, answer: &RegistryAnswer) -> Error {
    let what = match answer.status {
        StatusCode::NOT_FOUND => "the registry does not have this blob",
        _ => "the registry does not serve this blob",
    };
    http_error::refused(&call.about(), answer, what)
}

/// Whether a 206 goes on exactly at byte `at` of a blob of `size` bytes.
fn resumes(answer: &RegistryAnswer, at: u64, size: u64) -> bool {
    answer
        .text(CONTENT_RANGE)
        .and_then(content_range)
        .is_some_and(|(start, total)| start == at && total.is_none_or(|total| total == size))
}

/// Start and total size of `bytes START-END/TOTAL`; the total may be `*`.
fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.trim().strip_prefix("bytes")?.trim_start().split_once('/')?;
    let (start, end) = range.split_once('-')?;
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let (start, end) = (number(start)?, number(end)?);
    let total = if total.trim() == "*" { None } else { Some(number(total)?) };
    (start <= end && total.is_none_or(|total| end < total)).then_some((start, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges_are_read_strictly() {
        for (text, expected) in [
            ("bytes 5-9/10", Some((5, Some(10)))),
            (" bytes  5-9/* ", Some((5, None))),
            ("bytes 5-10/10", None),
            ("bytes 9-5/10", None),
            ("bytes */10", None),
            ("bytes 5-9", None),
            ("5-9/10", None),
            ("bytes -5-9/10", None),
            ("bytes 99999999999999999999-9/10", None),
            ("", None),
        ] {
            assert_eq!(content_range(text), expected, "{text}");
        }
    }
}
