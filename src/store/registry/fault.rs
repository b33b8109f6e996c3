//! Why a request got no answer, and whether asking again can help.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use crate::error::Error;

/// A request that ended without a usable answer.
#[derive(Debug)]
pub(super) enum Fault {
    /// Ours to report as it is: asking again cannot help.
    Final(Error),
    /// The peer's certificate is not accepted, or it does not accept ours.
    Certificate(String),
    /// There is no host of this name.
    UnknownHost(String),
    /// No connection came about.
    Unreachable(String),
    /// The peer answered the TLS handshake with something else.
    NotTls(String),
    /// The connection was lost before an answer, or the answer was not HTTP.
    NoAnswer(String),
    /// Nothing happened for too long.
    Timeout(String),
    /// The answer's body broke off.
    BrokenBody(String),
}

impl Fault {
    /// What a failed request of the HTTP stack means. The stack's own text may hold the URL with
    /// its signature, so only the innermost cause is kept.
    pub(super) fn of(error: &reqwest::Error) -> Self {
        let chain = chain(error);
        let text = chain.last().map_or_else(|| "unknown cause".to_owned(), ToString::to_string);
        let tls = chain.iter().find_map(|cause| cause.downcast_ref::<rustls::Error>());
        let cut = chain.iter().filter_map(|cause| cause.downcast_ref::<io::Error>()).any(is_cut);
        if let Some(tls) = tls {
            return Self::of_tls(tls);
        }
        if error.is_dns() {
            // EAI_AGAIN: the name server is in trouble, the name may well exist.
            return if text.contains("emporary") { Self::Unreachable(text) } else { Self::UnknownHost(text) };
        }
        if error.is_timeout() {
            return Self::Timeout("the connection was not made in time".to_owned());
        }
        match (error.is_connect(), cut) {
            (true, true) => Self::NotTls(text),
            (true, false) => Self::Unreachable(text),
            (false, _) => Self::NoAnswer(text),
        }
    }

    fn of_tls(error: &rustls::Error) -> Self {
        use rustls::AlertDescription as Alert;
        match error {
            rustls::Error::InvalidMessage(_) => Self::NotTls("the peer does not speak TLS".to_owned()),
            rustls::Error::InvalidCertificate(_)
            | rustls::Error::NoCertificatesPresented
            | rustls::Error::AlertReceived(
                Alert::CertificateRequired | Alert::BadCertificate | Alert::UnknownCA | Alert::AccessDenied,
            ) => Self::Certificate(error.to_string()),
            other => Self::Unreachable(other.to_string()),
        }
    }

    /// The body of an answer broke off with `error`.
    pub(super) fn of_body(error: &reqwest::Error) -> Self {
        Self::BrokenBody(chain(error).last().map_or_else(|| "it broke off".to_owned(), ToString::to_string))
    }

    pub(super) fn timeout(what: &str, after: Duration) -> Self {
        Self::Timeout(format!("{what} for {:.1} s", after.as_secs_f32()))
    }

    pub(super) fn is_worth_another_try(&self) -> bool {
        !matches!(self, Self::Final(_) | Self::Certificate(_) | Self::UnknownHost(_))
    }

    /// Whether it never came to a request: there was no connection to send it on.
    pub(super) fn is_before_request(&self) -> bool {
        matches!(self, Self::Certificate(_) | Self::UnknownHost(_) | Self::Unreachable(_) | Self::NotTls(_))
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::Final(error) => error.what().to_owned(),
            Self::Certificate(text)
            | Self::UnknownHost(text)
            | Self::Unreachable(text)
            | Self::NotTls(text)
            | Self::NoAnswer(text)
            | Self::Timeout(text)
            | Self::BrokenBody(text) => text.clone(),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

/// Whether a connection that stood was ended by the other side.
fn is_cut(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// All causes below `error`, outermost first. An `io::Error` hides what it wraps from `source`.
fn chain(error: &reqwest::Error) -> Vec<&(dyn StdError + 'static)> {
    const DEEPEST: usize = 32;
    let mut causes: Vec<&(dyn StdError + 'static)> = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next.filter(|_| causes.len() < DEEPEST) {
        causes.push(cause);
        let wrapped = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match wrapped {
            Some(inner) => Some(inner),
            None => cause.source(),
        };
    }
    causes
}
