//! What a host in a URL is: this machine, a private network, or the world.
//!
//! Names are not looked up: only literals and `localhost` are known to be near. The URL parser has
//! already turned decimal, octal and hex forms of IPv4 into the address they mean.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

/// How near a host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// `localhost`, `127.0.0.0/8`, `::1`.
    Loopback,
    /// An address of a private network.
    Private,
    /// Link-local, unspecified and the like: metadata services live here, registries do not.
    Special,
    /// A name, or a public address.
    Public,
}

impl Reach {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_what_is_near_in_every_spelling() {
        for (url, reach) in [
            ("http://localhost:5000/", Reach::Loopback),
            ("http://LOCALHOST./", Reach::Loopback),
            ("http://a.localhost/", Reach::Loopback),
            ("http://127.0.0.1/", Reach::Loopback),
            ("http://127.9.9.9/", Reach::Loopback),
            ("http://2130706433/", Reach::Loopback),
            ("http://0x7f000001/", Reach::Loopback),
            ("http://0177.0.0.1/", Reach::Loopback),
            ("http://127.1/", Reach::Loopback),
            ("http://[::1]/", Reach::Loopback),
            ("http://[::ffff:127.0.0.1]/", Reach::Loopback),
            ("http://10.1.2.3/", Reach::Private),
            ("http://192.168.0.1/", Reach::Private),
            ("http://172.16.0.1/", Reach::Private),
            ("http://100.64.0.1/", Reach::Private),
            ("http://[fd00::1]/", Reach::Private),
            ("http://[64:ff9b::a00:1]/", Reach::Private),
            ("http://169.254.169.254/", Reach::Special),
            ("http://2852039166/", Reach::Special),
            ("http://0xa9fea9fe/", Reach::Special),
            ("http://[::ffff:169.254.169.254]/", Reach::Special),
            ("http://0.0.0.0/", Reach::Special),
            ("http://[::]/", Reach::Special),
            ("http://[fe80::1]/", Reach::Special),
            ("http://8.8.8.8/", Reach::Public),
            ("http://[2001:4860::1]/", Reach::Public),
            ("http://localhost.evil.io/", Reach::Public),
            ("http://gcr.io/", Reach::Public),
        ] {
            assert_eq!(Reach::of(&url.parse().unwrap()), reach, "{url}");
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
}
