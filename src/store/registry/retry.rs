//! When a request is made again, and how long is waited before.
//!
//! The union of what the trusted clients retry: statuses that pass, lost connections, time-outs;
//! never a bad certificate or a name that does not exist.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use tokio::time::sleep;

use super::client::{About, RegistryAnswer};
use super::host_limits::HostLimits;
use super::http_client::HttpClient;
use super::http_error::{self, Complaint, RequestFault};
use super::timeouts::{ATTEMPTS, PATIENCE};
use oci::error::{Error, Kind, Result};

/// Longer than this is not a wait but a mistake.
const ABSURD: Duration = Duration::from_secs(366 * 24 * 3600);

pub(super) fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 429 | 499 | 500 | 502 | 503 | 504 | 522)
}

/// What `Retry-After` asks for: seconds or a date. `None` for what is past or makes no sense.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if text.bytes().all(|b| b.is_ascii_digit()) {
        Duration::from_secs(text.parse().ok()?)
    } else {
        httpdate::parse_http_date(text).ok()?.duration_since(now).ok()?
    };
    (!wait.is_zero() && wait < ABSURD).then_some(wait)
}

/// Counts the tries of one request.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    pub(super) made: u32,
}

impl Attempts {
    /// Notes an outcome, and waits where another try is worth it. `false`: this outcome is final.
    pub(super) async fn again(
        &mut self,
        http: &HttpClient,
        limits: &HostLimits,
        about: &About,
        outcome: &Result<RegistryAnswer, RequestFault>,
    ) -> Result<bool> {
        self.made += 1;
        let (why, asked) = match outcome {
            Ok(answer) if is_passing(answer.status) => {
                check_quota(about, answer, self.made)?;
                (answer.status.to_string(), retry_after(&answer.headers, now()))
            }
            Err(fault) if fault.is_worth_another_try() => (fault.text(), None),
            _ => return Ok(false),
        };
        if let (Some(wait), Ok(answer)) = (asked.filter(|wait| *wait > PATIENCE), outcome) {
            return Err(too_long(about, answer, wait, self.made));
        }
        if self.made >= ATTEMPTS {
            return Ok(false);
        }
        let pause = asked.unwrap_or_else(|| jitter(http.timeouts.ceiling(self.made)));
        announce(http, about, &why, pause, self.made);
        if outcome.is_ok() {
            // The host is in trouble, so all requests to it wait, not only this one.
            limits.rest(pause);
        }
        sleep(pause).await;
        Ok(true)
    }
}

/// Runs `operation` until its outcome is final. A final answer may still be a refusal.
pub(super) async fn persist(
    http: &HttpClient,
    limits: &HostLimits,
    about: &About,
    operation: impl AsyncFn() -> Result<RegistryAnswer, RequestFault>,
) -> Result<RegistryAnswer> {
    let mut attempts = Attempts::default();
    loop {
        limits.rested().await;
        let outcome = operation().await;
        if !attempts.again(http, limits, about, &outcome).await? {
            return match outcome {
                Ok(answer) => Ok(RegistryAnswer { attempts: attempts.made, ..answer }),
                Err(fault) => Err(http_error::lost(about, fault, attempts.made)),
            };
        }
    }
}

fn jitter(ceiling: Duration) -> Duration {
    ceiling.mul_f64(fastrand::f64())
}

fn announce(http: &HttpClient, about: &About, why: &str, pause: Duration, made: u32) {
    let line =
        format!("{}: {why}; trying again in {:.1} s ({} of {ATTEMPTS})", about.request, pause.as_secs_f32(), made + 1);
    // A long wait would look like a hang.
    if pause >= Duration::from_secs(5) {
        http.notices.warn(line);
    } else {
        http.notices.detail(line);
    }
}

/// Docker Hub's pull quota lasts for hours: waiting would not help.
fn check_quota(about: &About, answer: &RegistryAnswer, made: u32) -> Result<()> {
    let complaint = Complaint::of(&answer.body);
    if answer.status != StatusCode::TOO_MANY_REQUESTS || !complaint.mentions(&["pull rate limit"]) {
        return Ok(());
    }
    let error = about.error(Kind::Network, "the registry's pull quota is used up");
    let error = http_error::explained(error, answer.status, made, &complaint);
    Err(error.hint(format!("log in to {} for a larger quota, or try again in a few hours", about.registry)))
}

fn too_long(about: &About, answer: &RegistryAnswer, wait: Duration, made: u32) -> Error {
    let seconds = wait.as_secs();
    let error = about.error(Kind::Network, format!("the registry asks to wait for {seconds} s"));
    let error = http_error::explained(error, answer.status, made, &Complaint::of(&answer.body));
    error.hint(format!("try again at {}", httpdate::fmt_http_date(now() + wait)))
}

/// The last time, in the year 9987, to which any wait can be added and still be written as a date of HTTP.
const LAST_TIME: Duration = Duration::from_secs(253_000_000_000);

/// What `Retry-After` as a date is measured against.
#[expect(clippy::disallowed_methods, reason = "how long to wait never enters a result")]
fn now() -> SystemTime {
    writable(SystemTime::now())
}

/// A time that can be written as a date of HTTP, however wrong the clock of the machine is.
fn writable(time: SystemTime) -> SystemTime {
    time.clamp(UNIX_EPOCH, UNIX_EPOCH + LAST_TIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passing_statuses_are_the_union_of_the_trusted_clients() {
        let passing: Vec<u16> = (100..600).filter(|code| is_passing(StatusCode::from_u16(*code).unwrap())).collect();
        assert_eq!(passing, [408, 429, 499, 500, 502, 503, 504, 522]);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_in_the_future() {
        let now = httpdate::parse_http_date("Wed, 21 Oct 2026 07:28:00 GMT").unwrap();
        for (text, seconds) in [
            ("2", Some(2)),
            (" 120 ", Some(120)),
            ("3600", Some(3600)),
            ("Wed, 21 Oct 2026 07:28:03 GMT", Some(3)),
            ("Wed, 21 Oct 2026 07:27:00 GMT", None),
            ("Thu, 01 Jan 1970 00:00:00 GMT", None),
            ("0", None),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("abc", None),
            ("", None),
            ("99999999999", None),
            ("99999999999999999999", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            assert_eq!(retry_after(&headers, now), seconds.map(Duration::from_secs), "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn a_clock_that_is_far_off_is_written_as_some_date() {
        let year = Duration::from_secs(365 * 24 * 3600);
        for clock in [UNIX_EPOCH - 10 * year, UNIX_EPOCH, UNIX_EPOCH + 130 * year, UNIX_EPOCH + 9000 * year] {
            let date = httpdate::fmt_http_date(writable(clock) + ABSURD);
            assert!(httpdate::parse_http_date(&date).is_ok(), "{date}");
        }
    }

    #[test]
    fn jitter_stays_below_its_ceiling() {
        let ceiling = Duration::from_secs(1);
        assert!((0..100).all(|_| jitter(ceiling) <= ceiling));
    }
}
