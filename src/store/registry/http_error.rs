//! What goes wrong with a request: a refusal by the registry, or no usable answer at all; and the
//! error that says so with all facts.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::Value;

use super::client::{About, By, RegistryAnswer};
use super::url_policy::redacted;
use oci::error::{Error, Kind, excerpt};

/// What a registry says went wrong (distribution-spec, "Error Codes"). Bodies that are not in
/// that form are shown as they begin.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Complaint {
    pub(super) code: Option<String>,
    pub(super) message: Option<String>,
}

impl Complaint {
    pub(super) fn of(body: &[u8]) -> Self {
        let first = serde_json::from_slice::<Value>(body).ok();
        let first = first.as_ref().and_then(|value| value.get("errors")?.get(0));
        let text = |key: &str| first.and_then(|error| error.get(key)?.as_str()).map(|text| excerpt(text, 500));
        let (code, message) = (text("code"), text("message").filter(|text| !text.is_empty()));
        let message = message.or_else(|| beginning(body).filter(|_| code.is_none()));
        Self { code, message }
    }

    pub(super) fn is(&self, codes: &[&str]) -> bool {
        self.code.as_ref().is_some_and(|code| codes.iter().any(|wanted| code.eq_ignore_ascii_case(wanted)))
    }

    /// Whether code or message contain one of `phrases`, in any case.
    pub(super) fn mentions(&self, phrases: &[&str]) -> bool {
        let all = [&self.code, &self.message].into_iter().flatten().map(|text| text.to_lowercase());
        all.into_iter().any(|text| phrases.iter().any(|phrase| text.contains(phrase)))
    }
}

/// The first bytes of a body, for people; `None` where it is empty.
pub(super) fn beginning(body: &[u8]) -> Option<String> {
    let shown = String::from_utf8_lossy(body.get(..80).unwrap_or(body)).trim().to_owned();
    (!shown.is_empty()).then_some(shown)
}

/// The error for an answer that `what` could not go on with.
pub(super) fn refused(about: &About, answer: &RegistryAnswer, what: &str) -> Error {
    let complaint = Complaint::of(&answer.body);
    let kind = match answer.status {
        // A storage host behind a redirect knows nothing of our credentials.
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if answer.by == By::Registry => Kind::Auth,
        StatusCode::NOT_FOUND => Kind::Missing,
        _ => Kind::Network,
    };
    let about = About { request: format!("{} {}", about.method(), redacted(&answer.url)), ..about.clone() };
    let error = explained(about.error(kind, what), answer.status, answer.attempts, &complaint);
    if kind == Kind::Auth {
        error.hint(format!("check that you are logged in to {} and have permission to do this", about.registry))
    } else {
        error
    }
}

/// `error` with what is known of the answer.
pub(super) fn explained(error: Error, status: StatusCode, attempts: u32, complaint: &Complaint) -> Error {
    let error = error.fact("status", status);
    let error = match &complaint.code {
        Some(code) => error.fact("code", code),
        None => error,
    };
    let error = error.fact("attempts", attempts);
    match &complaint.message {
        Some(message) => error.cause(message),
        None => error,
    }
}

/// The error for a request without an answer.
pub(super) fn lost(about: &About, fault: RequestFault, attempts: u32) -> Error {
    let error = |what: &str| about.error(Kind::Network, what).fact("attempts", attempts);
    match fault {
        RequestFault::Final(error) => error,
        RequestFault::Certificate(text) if text.contains("CaUsedAsEndEntity") => {
            error("the registry's certificate is a CA certificate, which a server must not use")
                .cause(text)
                .hint("make it with basicConstraints=CA:FALSE, or allow this host with --insecure HOST")
        }
        RequestFault::Certificate(text) => error("the registry's certificate is not accepted")
            .cause(text)
            .hint("name the CA with --cacert FILE, or allow this host with --insecure HOST"),
        RequestFault::ClientCertificate(text) => {
            error("the registry demands a client certificate, which underpin does not have").cause(text)
        }
        RequestFault::UnknownHost(text) => error("there is no such host").cause(text),
        RequestFault::Unreachable(text) => error("the registry cannot be reached").cause(text),
        RequestFault::NotTls(text) => {
            error("the registry does not speak TLS, or closed the connection during the handshake")
                .cause(text)
                .hint("for a registry on plain HTTP pass --insecure HOST")
        }
        RequestFault::NoAnswer(text) => error("the connection to the registry was lost").cause(text),
        RequestFault::Timeout(text) => error("the registry is too slow").cause(text),
        RequestFault::BrokenBody(text) => error("the registry's answer was cut off").cause(text),
    }
}

// Why a request got no answer, and whether asking again can help.

/// A request that ended without a usable answer.
#[derive(Debug)]
pub(super) enum RequestFault {
    /// Ours to report as it is: asking again cannot help.
    Final(Error),
    /// The peer's certificate is not accepted.
    Certificate(String),
    /// The peer wants one of ours.
    ClientCertificate(String),
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

impl RequestFault {
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
            rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => {
                Self::Certificate(error.to_string())
            }
            // What a server complains of is the client's.
            rustls::Error::AlertReceived(
                Alert::CertificateRequired | Alert::BadCertificate | Alert::UnknownCA | Alert::AccessDenied,
            ) => Self::ClientCertificate(error.to_string()),
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
        !matches!(self, Self::Final(_) | Self::Certificate(_) | Self::ClientCertificate(_) | Self::UnknownHost(_))
    }

    /// Whether it never came to a request: there was no connection to send it on.
    pub(super) fn is_before_request(&self) -> bool {
        matches!(
            self,
            Self::Certificate(_)
                | Self::ClientCertificate(_)
                | Self::UnknownHost(_)
                | Self::Unreachable(_)
                | Self::NotTls(_)
        )
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::Final(error) => error.what().to_owned(),
            Self::Certificate(text)
            | Self::ClientCertificate(text)
            | Self::UnknownHost(text)
            | Self::Unreachable(text)
            | Self::NotTls(text)
            | Self::NoAnswer(text)
            | Self::Timeout(text)
            | Self::BrokenBody(text) => text.clone(),
        }
    }
}

impl From<Error> for RequestFault {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_registries_say_in_all_its_forms() {
        let complaint = |code: Option<&str>, message: Option<&str>| Complaint {
            code: code.map(str::to_owned),
            message: message.map(str::to_owned),
        };
        for (body, expected) in [
            (r#"{"errors":[{"code":"DENIED","message":"no"}]}"#, complaint(Some("DENIED"), Some("no"))),
            (r#"{"errors":[{"code":"A"},{"code":"B"}]}"#, complaint(Some("A"), None)),
            (r#"{"errors":[]}"#, complaint(None, Some(r#"{"errors":[]}"#))),
            (r#"{"errors":{"code":1}}"#, complaint(None, Some(r#"{"errors":{"code":1}}"#))),
            ("Too Many Requests\n", complaint(None, Some("Too Many Requests"))),
            ("", complaint(None, None)),
        ] {
            assert_eq!(Complaint::of(body.as_bytes()), expected, "{body}");
        }
        assert_eq!(Complaint::of(&[0xff; 200]).message.unwrap().chars().count(), 80);
    }
}
