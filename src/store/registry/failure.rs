//! From a registry's refusal to an error with everything in it.

use reqwest::StatusCode;
use serde_json::Value;

use super::address::redacted;
use super::call::{About, Answer, By};
use super::fault::Fault;
use crate::error::{Error, Kind};

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
        let text = |key: &str| first.and_then(|error| error.get(key)?.as_str()).map(|text| clipped(text, 500));
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

fn clipped(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// The error for an answer that `what` could not go on with.
pub(super) fn refused(about: &About, answer: &Answer, what: &str) -> Error {
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
        error.hint(format!("check that you are logged in to {} and may do this there", about.registry))
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
pub(super) fn lost(about: &About, fault: Fault, attempts: u32) -> Error {
    let error = |what: &str| about.error(Kind::Network, what).fact("attempts", attempts);
    match fault {
        Fault::Final(error) => error,
        Fault::Certificate(text) if text.contains("CaUsedAsEndEntity") => {
            error("the registry's certificate is that of a CA, which no server may have")
                .cause(text)
                .hint("make it with basicConstraints=CA:FALSE, or allow this host with --insecure HOST")
        }
        Fault::Certificate(text) => error("the registry's certificate is not accepted")
            .cause(text)
            .hint("name the CA with --cacert FILE, or allow this host with --insecure HOST"),
        Fault::UnknownHost(text) => error("there is no such host").cause(text),
        Fault::Unreachable(text) => error("the registry cannot be reached").cause(text),
        Fault::NotTls(text) => error("the registry does not speak TLS, or breaks it off")
            .cause(text)
            .hint("for a registry on plain HTTP pass --insecure HOST"),
        Fault::NoAnswer(text) => error("the connection to the registry was lost").cause(text),
        Fault::Timeout(text) => error("the registry is too slow").cause(text),
        Fault::BrokenBody(text) => error("the answer of the registry broke off").cause(text),
    }
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
