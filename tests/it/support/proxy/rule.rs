//! The script of the proxy: which request meets which fault.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::http::Answer;
use super::super::http::Headers;
use super::Seen;

/// How a connection ends before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// A reset, after what was sent has arrived.
    Rst,
    /// An orderly close.
    Fin,
    /// Silence until the client gives up.
    Stall,
}

/// Where in the response the cut comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Before the status line.
    Head,
    /// After so many bytes of the body.
    Body(u64),
}

type Answering = Arc<dyn Fn(&Seen) -> Answer + Send + Sync>;
type Changing = Arc<dyn Fn(&mut Headers) + Send + Sync>;
type Rewriting = Arc<dyn Fn(&mut String, &mut Headers) + Send + Sync>;
type Condition = Arc<dyn Fn(&Seen) -> bool + Send + Sync>;

/// What happens to a request that a rule matches. Unless it says otherwise, the request goes to
/// the registry and the fault is in the response.
#[derive(Clone)]
pub enum Action {
    Pass,
    Cut(At, Cut),
    /// Ends the connection after so many bytes of the request's body; the registry sees nothing.
    CutRequest(u64, Cut),
    /// An HTTP/1.0 body without a length, cut after so many bytes.
    CloseDelimited(u64),
    /// So many bytes of body each second.
    Rate(u64),
    /// Answered here; the registry sees nothing.
    Answer(Answer),
    AnswerWith(Answering),
    /// Flips every bit of one byte of the body.
    Corrupt(u64),
    /// So many bytes more than the registry sent, and a length that says so.
    Extra(u64),
    /// A body without a length that never ends.
    Endless,
    /// Changes the headers of the response.
    Response(Changing),
    /// Changes the request before the registry sees it.
    Request(Rewriting),
    /// The registry does the work, the client never hears of it.
    Swallow,
    /// The body is taken and thrown away, then the connection is reset.
    Lose,
    /// The request is taken, and nothing ever comes back.
    Hang,
    /// Runs after the registry answered and before the client hears it.
    Then(Arc<dyn Fn() + Send + Sync>),
}

impl Action {
    pub fn status(status: u16) -> Self {
        Self::Answer(Answer::new(status))
    }

    pub fn redirect(to: impl Into<String>) -> Self {
        Self::Answer(Answer::new(307).header("Location", to))
    }

    pub fn drop_header(name: &'static str) -> Self {
        Self::Response(Arc::new(move |headers| headers.remove(name)))
    }

    pub fn set_header(name: &'static str, value: impl Into<String>) -> Self {
        Self::set_headers([(name, value.into())])
    }

    pub fn set_headers<const N: usize>(all: [(&'static str, String); N]) -> Self {
        Self::Response(Arc::new(move |headers| {
            for (name, value) in &all {
                headers.set(name, value.clone());
            }
        }))
    }

    pub fn map_header(name: &'static str, map: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self::Response(Arc::new(move |headers| {
            if let Some(value) = headers.get(name).map(&map) {
                headers.set(name, value);
            }
        }))
    }

    /// The whole body with 200, whatever range was asked for.
    pub fn ignore_range() -> Self {
        Self::Request(Arc::new(|_, headers| headers.remove("range")))
    }

    pub fn answer_with(answer: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        Self::AnswerWith(Arc::new(answer))
    }

    pub fn then(run: impl Fn() + Send + Sync + 'static) -> Self {
        Self::Then(Arc::new(run))
    }
}

/// One line of the script: method, pattern, which of the matching requests, what to do.
#[derive(Clone)]
pub struct Rule {
    method: &'static str,
    pattern: String,
    when: Option<Condition>,
    hits: RangeInclusive<usize>,
    action: Action,
    met: Arc<AtomicUsize>,
}

/// A rule for requests with this method (`*`: any) whose path and query contain `pattern`.
/// A `*` in the pattern stands for anything. Matches once unless told otherwise.
pub fn on(method: &'static str, pattern: impl Into<String>) -> Rule {
    let pattern = pattern.into();
    Rule { method, pattern, when: None, hits: 1..=1, action: Action::Pass, met: Arc::default() }
}

impl Rule {
    /// The first `count` matching requests.
    pub fn times(self, count: usize) -> Self {
        Self { hits: 1..=count, ..self }
    }

    /// The matching request with this number, counted from 1.
    pub fn nth(self, nth: usize) -> Self {
        Self { hits: nth..=nth, ..self }
    }

    pub fn always(self) -> Self {
        Self { hits: 1..=usize::MAX, ..self }
    }

    /// Only requests that this is true of; others are not counted.
    pub fn when(self, when: impl Fn(&Seen) -> bool + Send + Sync + 'static) -> Self {
        Self { when: Some(Arc::new(when)), ..self }
    }

    pub fn does(self, action: Action) -> Self {
        Self { action, ..self }
    }

    /// The action for `request`, where this rule is for it. Counts the request.
    pub(super) fn action_for(&self, request: &Seen) -> Option<Action> {
        let fits = (self.method == "*" || self.method == request.method)
            && contains(&request.target, &self.pattern)
            && self.when.as_ref().is_none_or(|when| when(request));
        if !fits {
            return None;
        }
        let number = self.met.fetch_add(1, Ordering::Relaxed) + 1;
        self.hits.contains(&number).then(|| self.action.clone())
    }
}

/// Whether the parts of `pattern` between its stars stand in `text`, one after the other.
pub fn contains(text: &str, pattern: &str) -> bool {
    let mut rest = text;
    pattern.split('*').all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

#[test]
fn a_pattern_is_a_substring_with_stars() {
    for (text, pattern, yes) in [
        ("/v2/a/blobs/uploads/?mount=x&from=b", "/uploads/?mount=", true),
        ("/v2/a/manifests/v1", "/manifests/*", true),
        ("/v2/a/blobs/sha256:1", "/v2/*/blobs/sha256:", true),
        ("/v2/a/blobs/sha256:1", "/blobs/*/v2/", false),
        ("/anything", "", true),
    ] {
        assert_eq!(contains(text, pattern), yes, "{pattern} in {text}");
    }
}
