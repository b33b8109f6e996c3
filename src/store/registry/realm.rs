//! Which token server a registry may send us, and our credentials, to.
//!
//! CVE-2026-48978 and its kin: a realm is chosen by the registry, so it must be https, or the very
//! place the registry is at, and must not point into a network that only we can reach.

use reqwest::Url;

use super::address::{Reach, same_authority, same_origin};

/// The realm as a URL that may be asked for tokens of `registry`; or why not.
pub(super) fn accept(registry: &Url, realm: &str) -> Result<Url, String> {
    if realm.len() > 4096 {
        return Err("the realm is longer than 4 KiB".to_owned());
    }
    let realm: Url = realm.parse().map_err(|_| "the realm is not a URL".to_owned())?;
    check(registry, &realm)?;
    Ok(realm)
}

/// The same rule for a URL, as needed at each redirect of a token request.
pub(super) fn check(registry: &Url, realm: &Url) -> Result<(), String> {
    if !matches!(realm.scheme(), "http" | "https") {
        return Err(format!("the realm is a `{}` URL", realm.scheme()));
    }
    if !realm.username().is_empty() || realm.password().is_some() {
        return Err("the realm has a user in it".to_owned());
    }
    if same_origin(registry, realm) {
        return Ok(());
    }
    let both_local = (Reach::of(registry), Reach::of(realm)) == (Reach::Loopback, Reach::Loopback);
    if Reach::of(realm) != Reach::Public && !both_local && !same_authority(registry, realm) {
        return Err("the realm is at a private or local address".to_owned());
    }
    let plain_here = registry.scheme() == "http" && (both_local || registry.host_str() == realm.host_str());
    if realm.scheme() == "http" && !plain_here {
        return Err("the realm is plain http".to_owned());
    }
    Ok(())
}

/// Whether the realm belongs to somebody else than the registry, as far as names tell.
pub(super) fn is_foreign(registry: &Url, realm: &Url) -> bool {
    let both_local = (Reach::of(registry), Reach::of(realm)) == (Reach::Loopback, Reach::Loopback);
    !both_local && owner(registry) != owner(realm)
}

/// The part of a host name that somebody registered: two labels, or three below names such as
/// `co.uk`. A list of all public suffixes would be exact; this only decides about a warning.
fn owner(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
    if host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok() {
        return host;
    }
    let labels: Vec<&str> = host.rsplit('.').collect();
    let kept = match labels[..] {
        [top, second, ..] if top.len() == 2 && second.len() <= 3 => 3,
        _ => 2,
    };
    labels.into_iter().take(kept).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_https_anywhere_public_and_the_registry_itself() {
        for (registry, realm) in [
            ("https://registry-1.docker.io/", "https://auth.docker.io/token"),
            ("https://a.io/", "https://b.io/token?x=y"),
            ("https://a.io:8443/", "https://a.io:8443/token"),
            ("http://127.0.0.1:5000/", "http://127.0.0.1:5000/token"),
            ("http://127.0.0.1:5000/", "http://127.0.0.1:5001/token"),
            ("http://localhost:5000/", "http://[::1]:5001/token"),
            ("http://10.0.0.1:5000/", "http://10.0.0.1:5000/token"),
            ("http://a.io/", "http://a.io:81/token"),
            ("http://a.io/", "https://b.io/token"),
        ] {
            assert!(accept(&registry.parse().unwrap(), realm).is_ok(), "{registry} {realm}");
        }
    }

    #[test]
    fn refuses_plain_http_private_addresses_and_odd_schemes() {
        for (registry, realm) in [
            ("https://a.io/", "http://a.io/token"),
            ("https://a.io/", "http://b.io/token"),
            ("http://a.io/", "http://b.io/token"),
            ("https://a.io/", "https://127.0.0.1/token"),
            ("https://a.io/", "https://localhost/token"),
            ("https://a.io/", "https://[::1]/token"),
            ("https://a.io/", "https://10.0.0.1/token"),
            ("https://a.io/", "https://169.254.169.254/token"),
            ("https://a.io/", "https://0.0.0.0/token"),
            ("https://a.io/", "https://2130706433/token"),
            ("https://a.io/", "https://0x7f000001/token"),
            ("https://a.io/", "https://0251.0376.0251.0376/token"),
            ("http://127.0.0.1:5000/", "http://169.254.169.254/token"),
            ("http://127.0.0.1:5000/", "http://0.0.0.0:5000/token"),
            ("http://127.0.0.1:5000/", "http://10.0.0.1/token"),
            ("http://127.0.0.1:5000/", "http://b.io/token"),
            ("http://10.0.0.1:5000/", "http://10.0.0.1:5001/token"),
            ("https://10.0.0.1/", "https://10.0.0.2/token"),
            ("https://a.io/", "file:///etc/passwd"),
            ("https://a.io/", "ftp://a.io/"),
            ("https://a.io/", "javascript:alert(1)"),
            ("https://a.io/", "https://user:pw@a.io/token"),
            ("https://a.io/", "token"),
            ("https://a.io/", ""),
        ] {
            assert!(accept(&registry.parse().unwrap(), realm).is_err(), "{registry} {realm}");
        }
    }

    #[test]
    fn knows_whose_a_realm_is() {
        for (registry, realm, foreign) in [
            ("https://registry-1.docker.io/", "https://auth.docker.io/token", false),
            ("https://registry.gitlab.com/", "https://gitlab.com/jwt/auth", false),
            ("https://nvcr.io/", "https://authn.nvidia.com/token", true),
            ("https://a.co.uk/", "https://b.co.uk/token", true),
            ("https://r.a.co.uk/", "https://t.a.co.uk/token", false),
            ("https://docker.io/", "https://docker.io.evil.io/", true),
            ("http://127.0.0.1:1/", "http://localhost:2/", false),
            ("https://1.2.3.4/", "https://1.2.3.5/", true),
        ] {
            assert_eq!(is_foreign(&registry.parse().unwrap(), &realm.parse().unwrap()), foreign, "{registry} {realm}");
        }
    }
}
