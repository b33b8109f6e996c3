//! Which URLs underpin follows: redirects, upload locations and token servers that a registry names.
//!
//! They depend on what the host is: this machine, a private network, or the internet. Names are not
//! resolved: only literals and `localhost` are known to be local. The URL parser has already turned
//! decimal, octal and hex forms of IPv4 into the address they mean.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

/// How near a host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressReach {
    /// `localhost`, `127.0.0.0/8`, `::1`.
    Loopback,
    /// An address of a private network.
    Private,
    /// Link-local, unspecified and the like: metadata services live here, registries do not.
    Special,
    /// A name, or a public address.
    Public,
}

impl AddressReach {
    /// The reach of the host in `url`; a URL without a host leads nowhere.
    pub(super) fn of(url: &Url) -> Self {
        url.host_str().map_or(Self::Special, Self::of_host)
    }

    /// The reach of a host without its port, IPv6 in brackets or not.
    pub(super) fn of_host(host: &str) -> Self {
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Self::of_address(address);
        }
        let name = bare.strip_suffix('.').unwrap_or(bare).to_ascii_lowercase();
        if name == "localhost" || name.ends_with(".localhost") { Self::Loopback } else { Self::Public }
    }

    fn of_address(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::of_v4(v4),
            IpAddr::V6(v6) => embedded(v6).map_or_else(|| Self::of_v6(v6), Self::of_v4),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        let [a, b, ..] = address.octets();
        if address.is_loopback() {
            Self::Loopback
        } else if address.is_private() || (a == 100 && (64..128).contains(&b)) {
            Self::Private
        } else if a == 0 || address.is_link_local() || address.is_broadcast() || address.is_multicast() {
            Self::Special
        } else {
            Self::Public
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        if address.is_loopback() {
            Self::Loopback
        } else if address.is_unique_local() {
            Self::Private
        } else if address.is_unspecified() || address.is_unicast_link_local() || address.is_multicast() {
            Self::Special
        } else {
            Self::Public
        }
    }
}

/// The IPv4 address inside a mapped or translated IPv6 address.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
        }
        _ => None,
    }
}

/// Whether two URLs have the same scheme, host and port.
pub(super) fn same_origin(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme() && same_authority(one, other)
}

/// Whether two URLs have the same host and port.
pub(super) fn same_authority(one: &Url, other: &Url) -> bool {
    one.host_str() == other.host_str() && one.port_or_known_default() == other.port_or_known_default()
}

/// `url` fit for a message: without user, and with `?…` for a query, which may hold a signature.
pub(super) fn redacted(url: &Url) -> String {
    let mut shown = url.clone();
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    shown.set_fragment(None);
    let has_query = shown.query().is_some();
    shown.set_query(None);
    let text: String = shown.as_str().chars().take(300).collect();
    if has_query { format!("{text}?…") } else { text }
}

// Where a registry may send us: redirects of reads, and the `Location` of uploads.
//
// Credentials never travel along (see `client`); these rules are about what may be asked at all.
// A public registry must not make us talk to this machine or its network, and nobody may take us
// from TLS to plain HTTP.

pub(super) const MOST_HOPS: usize = 10;
const LONGEST_LOCATION: usize = 8 * 1024;

/// What the next request would do at the new place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Errand {
    /// Read a blob or manifest.
    Read,
    /// Send the bytes of a blob.
    Upload,
}

/// The place that `location` names, seen from `from`; or why we do not go there.
pub(super) fn follow_redirect(from: &Url, location: Option<&str>, errand: Errand) -> Result<Url, String> {
    let location = location.map(str::trim).filter(|text| !text.is_empty()).ok_or("the answer has no Location")?;
    if location.len() > LONGEST_LOCATION {
        return Err("its Location is longer than 8 KiB".to_owned());
    }
    let mut to = from.join(location).map_err(|_| "its Location is not a URL".to_owned())?;
    to.set_fragment(None);
    // A user in the URL would become an Authorization header.
    let _ = to.set_username("");
    let _ = to.set_password(None);
    check_redirect(from, &to, errand)?;
    Ok(to)
}

fn check_redirect(from: &Url, to: &Url, errand: Errand) -> Result<(), String> {
    if !matches!(to.scheme(), "http" | "https") || !to.has_host() {
        return Err(format!("it leads to a `{}` URL", to.scheme()));
    }
    if from.scheme() == "https" && to.scheme() == "http" {
        return Err("it leads from https to plain http".to_owned());
    }
    let allowed = same_authority(from, to)
        || matches!(
            (AddressReach::of(from), AddressReach::of(to), errand),
            (_, AddressReach::Public, _)
                | (AddressReach::Loopback, AddressReach::Loopback, _)
                | (AddressReach::Private, AddressReach::Private, _)
                | (AddressReach::Loopback, AddressReach::Private, Errand::Read)
        );
    if allowed { Ok(()) } else { Err("it leads to a private or local address".to_owned()) }
}

// Which token server a registry may send us, and our credentials, to.
//
// CVE-2026-48978 and its kin: a realm is chosen by the registry, so it must be https, or the very
// place the registry is at, and must not point into a network that only we can reach. On this machine
// every port may be somebody else's, so credentials go to another port only where the user has named it.

/// What a token server may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RealmTrust {
    /// The credentials for the registry.
    Credentials,
    /// Questions that anybody may ask.
    Nothing,
}

/// The realm as a URL that may be asked for tokens of `registry`, and what it may be shown; or why not. `is_named` tells
/// whether the user has named a host as one that may be unsafe.
pub(super) fn accept_realm(
    registry: &Url,
    realm: &str,
    is_named: impl Fn(&Url) -> bool,
) -> Result<(Url, RealmTrust), String> {
    if realm.len() > 4096 {
        return Err("the realm is longer than 4 KiB".to_owned());
    }
    let realm: Url = realm.parse().map_err(|_| "the realm is not a URL".to_owned())?;
    let trust = check_realm(registry, &realm, is_named)?;
    Ok((realm, trust))
}

/// What a URL may be shown, as needed also at each redirect of a token request.
pub(super) fn check_realm(registry: &Url, realm: &Url, is_named: impl Fn(&Url) -> bool) -> Result<RealmTrust, String> {
    if !matches!(realm.scheme(), "http" | "https") {
        return Err(format!("the realm is a `{}` URL", realm.scheme()));
    }
    if !realm.username().is_empty() || realm.password().is_some() {
        return Err("the realm has a user in it".to_owned());
    }
    let (here, there) = (AddressReach::of(registry), AddressReach::of(realm));
    if same_origin(registry, realm) || (there == AddressReach::Public && realm.scheme() == "https") {
        return Ok(RealmTrust::Credentials);
    }
    if there != AddressReach::Public && there != here && !same_authority(registry, realm) {
        return Err("the realm is at a private or local address".to_owned());
    }
    if realm.scheme() == "http" && registry.scheme() == "https" {
        return Err("the realm is plain http".to_owned());
    }
    // Somebody else's port, or plain http beyond the registry: only the user can know whose it is.
    match there {
        _ if is_named(realm) => Ok(RealmTrust::Credentials),
        AddressReach::Loopback => Ok(RealmTrust::Nothing),
        AddressReach::Public => Err("the realm is plain http".to_owned()),
        AddressReach::Private | AddressReach::Special => Err("the realm is at a private or local address".to_owned()),
    }
}

/// Whether the realm belongs to somebody else than the registry, as far as names tell.
pub(super) fn is_foreign_realm(registry: &Url, realm: &Url) -> bool {
    let both_local =
        (AddressReach::of(registry), AddressReach::of(realm)) == (AddressReach::Loopback, AddressReach::Loopback);
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
    fn knows_what_is_near_in_every_spelling() {
        for (url, reach) in [
            ("http://localhost:5000/", AddressReach::Loopback),
            ("http://LOCALHOST./", AddressReach::Loopback),
            ("http://a.localhost/", AddressReach::Loopback),
            ("http://127.0.0.1/", AddressReach::Loopback),
            ("http://127.9.9.9/", AddressReach::Loopback),
            ("http://2130706433/", AddressReach::Loopback),
            ("http://0x7f000001/", AddressReach::Loopback),
            ("http://0177.0.0.1/", AddressReach::Loopback),
            ("http://127.1/", AddressReach::Loopback),
            ("http://[::1]/", AddressReach::Loopback),
            ("http://[::ffff:127.0.0.1]/", AddressReach::Loopback),
            ("http://10.1.2.3/", AddressReach::Private),
            ("http://192.168.0.1/", AddressReach::Private),
            ("http://172.16.0.1/", AddressReach::Private),
            ("http://100.64.0.1/", AddressReach::Private),
            ("http://[fd00::1]/", AddressReach::Private),
            ("http://[64:ff9b::a00:1]/", AddressReach::Private),
            ("http://169.254.169.254/", AddressReach::Special),
            ("http://2852039166/", AddressReach::Special),
            ("http://0xa9fea9fe/", AddressReach::Special),
            ("http://[::ffff:169.254.169.254]/", AddressReach::Special),
            ("http://0.0.0.0/", AddressReach::Special),
            ("http://[::]/", AddressReach::Special),
            ("http://[fe80::1]/", AddressReach::Special),
            ("http://8.8.8.8/", AddressReach::Public),
            ("http://[2001:4860::1]/", AddressReach::Public),
            ("http://localhost.evil.io/", AddressReach::Public),
            ("http://gcr.io/", AddressReach::Public),
        ] {
            assert_eq!(AddressReach::of(&url.parse().unwrap()), reach, "{url}");
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let url = |text: &str| text.parse::<Url>().unwrap();
        assert!(same_origin(&url("https://a/x"), &url("https://A:443/y")));
        for other in ["http://a/", "https://a:8443/", "https://b/", "http://a:443/"] {
            assert!(!same_origin(&url("https://a/"), &url(other)), "{other}");
        }
    }

    #[test]
    fn queries_users_and_fragments_are_not_shown() {
        let url: Url = "https://u:CANARY@s3.example/b/c?X-Amz-Signature=CANARY#CANARY".parse().unwrap();
        assert_eq!(redacted(&url), "https://s3.example/b/c?…");
        assert_eq!(redacted(&"https://a/v2/x".parse().unwrap()), "https://a/v2/x");
    }

    fn to(from: &str, location: &str, errand: Errand) -> Result<String, String> {
        follow_redirect(&from.parse().unwrap(), Some(location), errand).map(String::from)
    }

    #[test]
    fn follows_every_form_of_location() {
        let from = "https://a.io/v2/x/blobs/uploads/";
        for (location, expected) in [
            ("/v2/x/blobs/uploads/1?_state=q%3D%3D&b=c", "https://a.io/v2/x/blobs/uploads/1?_state=q%3D%3D&b=c"),
            ("https://a.io/u", "https://a.io/u"),
            ("https://b.io/u#frag", "https://b.io/u"),
            ("https://u:p@b.io/u", "https://b.io/u"),
            ("1", "https://a.io/v2/x/blobs/uploads/1"),
            ("?_state=x", "https://a.io/v2/x/blobs/uploads/?_state=x"),
            ("//b.io/u", "https://b.io/u"),
        ] {
            for errand in [Errand::Read, Errand::Upload] {
                assert_eq!(to(from, location, errand).as_deref(), Ok(expected), "{location}");
            }
        }
    }

    #[test]
    fn refuses_places_that_a_registry_must_not_send_us_to() {
        let long = format!("/{}", "a".repeat(LONGEST_LOCATION));
        for location in [
            "http://a.io/u",
            "http://b.io/u",
            "file:///etc/passwd",
            "ftp://b.io/",
            "javascript:alert(1)",
            "data:text/plain,x",
            "https://127.0.0.1/u",
            "https://localhost/u",
            "https://[::1]/u",
            "https://10.0.0.1/u",
            "https://169.254.169.254/latest/meta-data",
            "https://2852039166/",
            "https://0x7f.1/",
            "https://0.0.0.0/",
            "https:///",
            "",
            "  ",
            &long,
        ] {
            for errand in [Errand::Read, Errand::Upload] {
                assert!(to("https://a.io/v2/", location, errand).is_err(), "{location}");
            }
        }
        assert!(follow_redirect(&"https://a.io/".parse().unwrap(), None, Errand::Upload).is_err());
    }

    #[test]
    fn near_registries_may_lead_to_near_places_but_never_to_metadata() {
        let local = "http://127.0.0.1:5000/v2/";
        assert!(to(local, "http://127.0.0.1:5001/u", Errand::Upload).is_ok());
        assert!(to(local, "http://localhost:5001/u", Errand::Read).is_ok());
        assert!(to(local, "https://b.io/u", Errand::Upload).is_ok());
        assert!(to(local, "http://10.0.0.1/u", Errand::Read).is_ok());
        assert!(to(local, "http://10.0.0.1/u", Errand::Upload).is_err());
        assert!(to(local, "http://169.254.169.254/u", Errand::Read).is_err());
        assert!(to("http://10.0.0.5:5000/v2/", "http://10.0.0.6/u", Errand::Read).is_ok());
        assert!(to("http://10.0.0.5:5000/v2/", "http://127.0.0.1/u", Errand::Read).is_err());
    }

    fn accepted(registry: &str, realm: &str, named: &[&str]) -> Result<RealmTrust, String> {
        let is_named = |url: &Url| {
            let authority = format!("{}:{}", url.host_str().unwrap(), url.port_or_known_default().unwrap());
            named.contains(&authority.as_str())
        };
        accept_realm(&registry.parse().unwrap(), realm, is_named).map(|(_, trust)| trust)
    }

    #[test]
    fn accepts_https_anywhere_public_and_the_registry_itself() {
        for (registry, realm) in [
            ("https://registry-1.docker.io/", "https://auth.docker.io/token"),
            ("https://a.io/", "https://b.io/token?x=y"),
            ("https://a.io:8443/", "https://a.io:8443/token"),
            ("http://127.0.0.1:5000/", "http://127.0.0.1:5000/token"),
            ("http://127.0.0.1:5000/", "https://b.io/token"),
            ("http://10.0.0.1:5000/", "http://10.0.0.1:5000/token"),
            ("http://a.io/", "https://b.io/token"),
        ] {
            assert_eq!(accepted(registry, realm, &[]), Ok(RealmTrust::Credentials), "{registry} {realm}");
        }
    }

    /// Another port of this machine may be another user's.
    #[test]
    fn another_port_of_this_machine_is_shown_credentials_only_where_it_is_named() {
        for (registry, realm, named) in [
            ("http://127.0.0.1:5000/", "http://127.0.0.1:5001/token", "127.0.0.1:5001"),
            ("http://127.0.0.1:5000/", "https://127.0.0.1:5001/token", "127.0.0.1:5001"),
            ("https://127.0.0.1:5000/", "https://127.0.0.1:5001/token", "127.0.0.1:5001"),
            ("http://localhost:5000/", "http://[::1]:5001/token", "[::1]:5001"),
            ("http://localhost:5000/", "http://127.0.0.1:5000/token", "127.0.0.1:5000"),
        ] {
            assert_eq!(accepted(registry, realm, &[]), Ok(RealmTrust::Nothing), "{registry} {realm}");
            assert_eq!(accepted(registry, realm, &["127.0.0.1:1"]), Ok(RealmTrust::Nothing), "{registry} {realm}");
            assert_eq!(accepted(registry, realm, &[named]), Ok(RealmTrust::Credentials), "{registry} {realm}");
        }
    }

    /// What a user has named for another reason does not let a registry far away reach it.
    #[test]
    fn a_named_host_is_a_realm_of_its_neighbours_only() {
        for (registry, realm, named, is_accepted) in [
            ("http://a.io/", "http://a.io:81/token", "a.io:81", true),
            ("http://10.0.0.1:5000/", "http://10.0.0.1:5001/token", "10.0.0.1:5001", true),
            ("http://10.0.0.1:5000/", "http://10.0.0.2:5001/token", "10.0.0.2:5001", true),
            ("https://a.io/", "http://127.0.0.1:5001/token", "127.0.0.1:5001", false),
            ("https://a.io/", "https://127.0.0.1:5001/token", "127.0.0.1:5001", false),
            ("https://a.io/", "https://10.0.0.1:5001/token", "10.0.0.1:5001", false),
            ("https://a.io/", "http://b.io:80/token", "b.io:80", false),
            ("https://127.0.0.1:5000/", "http://127.0.0.1:5001/token", "127.0.0.1:5001", false),
            ("http://127.0.0.1:5000/", "http://169.254.169.254:80/token", "169.254.169.254:80", false),
        ] {
            assert!(accepted(registry, realm, &[]) != Ok(RealmTrust::Credentials), "{registry} {realm}");
            let with_name = accepted(registry, realm, &[named]);
            assert_eq!(with_name == Ok(RealmTrust::Credentials), is_accepted, "{registry} {realm}: {with_name:?}");
        }
    }

    #[test]
    fn refuses_plain_http_private_addresses_and_odd_schemes() {
        for (registry, realm) in [
            ("https://a.io/", "http://a.io/token"),
            ("https://a.io/", "http://b.io/token"),
            ("http://a.io/", "http://b.io/token"),
            ("http://a.io/", "http://a.io:81/token"),
            ("https://a.io/", "https://127.0.0.1/token"),
            ("https://a.io/", "https://localhost/token"),
            ("https://a.io/", "https://[::1]/token"),
            ("https://a.io/", "https://10.0.0.1/token"),
            ("https://a.io/", "https://169.254.169.254/token"),
            ("https://a.io/", "https://0.0.0.0/token"),
            ("https://a.io/", "https://2130706433/token"),
            ("https://a.io/", "https://0x7f000001/token"),
            ("https://a.io/", "https://0251.0376.0251.0376/token"),
            ("https://127.0.0.1:5000/", "http://127.0.0.1:5000/token"),
            ("https://127.0.0.1:5000/", "http://127.0.0.1:5001/token"),
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
            assert!(accepted(registry, realm, &[]).is_err(), "{registry} {realm}");
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
            assert_eq!(
                is_foreign_realm(&registry.parse().unwrap(), &realm.parse().unwrap()),
                foreign,
                "{registry} {realm}"
            );
        }
    }
}
