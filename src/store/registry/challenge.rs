//! The `WWW-Authenticate` header (RFC 9110, section 11): which ways in a registry offers.

use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};

/// Longer headers are not read: nobody needs them, and the parser should not be worth attacking.
const LONGEST: usize = 16 * 1024;

/// One way to be let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    Bearer(Bearer),
    Basic,
}

/// Where a token is to be had, and for what.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Bearer {
    pub(super) realm: String,
    pub(super) service: Option<String>,
    pub(super) scopes: Vec<String>,
}

/// The challenge to answer: the first Bearer with a realm, else Basic. Unknown schemes are skipped.
pub(super) fn choose(headers: &HeaderMap) -> Option<Challenge> {
    let values = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    let offers: Vec<Offer> = values.filter(|value| value.len() <= LONGEST).flat_map(offers).collect();
    let bearer = offers.iter().find_map(Offer::bearer).map(Challenge::Bearer);
    bearer.or_else(|| offers.iter().any(|offer| offer.is("basic")).then_some(Challenge::Basic))
}

/// A scheme with its parameters, as written.
#[derive(Debug, Default)]
struct Offer {
    scheme: String,
    parameters: Vec<(String, String)>,
}

impl Offer {
    fn is(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    fn bearer(&self) -> Option<Bearer> {
        let realm = self.get("realm").filter(|_| self.is("bearer"))?.to_owned();
        let scopes = self.get("scope").unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        Some(Bearer { realm, service: self.get("service").map(str::to_owned), scopes })
    }
}

/// All offers in one header value. A comma separates parameters as well as offers; a word that is
/// not followed by `=` begins an offer.
fn offers(value: &str) -> Vec<Offer> {
    let mut offers: Vec<Offer> = Vec::new();
    let mut rest = value;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let (word, after) = token(rest);
        if word.is_empty() {
            return offers;
        }
        let Some(value) = after.trim_start().strip_prefix('=') else {
            offers.push(Offer { scheme: word.to_owned(), ..Offer::default() });
            rest = after;
            continue;
        };
        let (value, after) = parameter(value.trim_start());
        if let Some(offer) = offers.last_mut() {
            offer.parameters.push((word.to_owned(), value));
        }
        rest = after;
    }
}

/// The word at the start of `text`, and what follows it.
fn token(text: &str) -> (&str, &str) {
    let end = text.find([' ', '\t', ',', '=', '"']).unwrap_or(text.len());
    text.split_at(end)
}

/// The value at the start of `text`, quoted or bare. A quote that is never closed ends with the text.
fn parameter(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return (value.to_owned(), rest);
    };
    let mut value = String::new();
    let mut chars = quoted.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => value.extend(chars.next()),
            c => value.push(c),
        }
    }
    (value, chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(values: &[&str]) -> Option<Challenge> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WWW_AUTHENTICATE, value.parse().unwrap());
        }
        choose(&headers)
    }

    #[allow(clippy::unnecessary_wraps)]
    fn bearer(realm: &str, service: Option<&str>, scopes: &[&str]) -> Option<Challenge> {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        Some(Challenge::Bearer(Bearer { realm: realm.to_owned(), service: service.map(str::to_owned), scopes }))
    }

    #[test]
    fn reads_what_registries_send() {
        let hub = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:library/debian:pull""#;
        let pull = "repository:library/debian:pull";
        assert_eq!(chosen(&[hub]), bearer("https://auth.docker.io/token", Some("registry.docker.io"), &[pull]));
        for (value, expected) in [
            (r#"bearer REALM="https://a/t", Service = "s""#, bearer("https://a/t", Some("s"), &[])),
            (r#"Bearer realm="https://a/t",scope="aws""#, bearer("https://a/t", None, &["aws"])),
            (r#"Bearer scope="a b  c",realm=https://a/t"#, bearer("https://a/t", None, &["a", "b", "c"])),
            (r#"Bearer realm="https://a/?x=1,2",error="in \"x\", y""#, bearer("https://a/?x=1,2", None, &[])),
            (r#"Bearer scope="repository:a:pull,push",realm="r""#, bearer("r", None, &["repository:a:pull,push"])),
            (r#"Basic realm="x", Bearer realm="y""#, bearer("y", None, &[])),
            (r#"Negotiate, Bearer realm="y", Basic realm="x""#, bearer("y", None, &[])),
            (r#"Basic realm="says ""#, Some(Challenge::Basic)),
            ("basic", Some(Challenge::Basic)),
            (r#"Basic realm="Bearer realm=evil""#, Some(Challenge::Basic)),
            ("Digest realm=\"x\"", None),
            ("Bearer service=\"x\"", None),
            ("", None),
            (",,=,\"", None),
        ] {
            assert_eq!(chosen(&[value]), expected, "{value}");
        }
    }

    #[test]
    fn several_headers_are_one_list_and_bearer_goes_first() {
        assert_eq!(chosen(&["Basic realm=\"x\"", "Bearer realm=\"y\""]), bearer("y", None, &[]));
    }

    #[test]
    fn a_huge_header_is_not_read() {
        assert_eq!(chosen(&[&format!("Bearer realm=\"{}\"", "a".repeat(LONGEST))]), None);
    }
}
