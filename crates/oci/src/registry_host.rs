//! The host of a registry, in the one form that everything compares.
//!
//! The rule this file owns: hosts that the HTTP client would ask in the same way are equal, however they were written.
//! Upper case, zeros before a port, IPv6 in its many forms, IPv4 inside IPv6, `:443` and the other names of Docker Hub
//! are gone once a host is parsed; what was written cannot be had back, so nothing can compare it. What the client would
//! turn into another host (`127.1`, a dot at the end) is refused instead.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::error::{Error, Result};

/// Docker Hub, as people name it.
pub(super) const HUB: &str = "docker.io";
/// Names under which Docker Hub answers, too.
const HUB_ALIASES: [&str; 2] = ["index.docker.io", "registry-1.docker.io"];

/// `HOST[:PORT]` in canonical form; Docker Hub is `docker.io`.
///
/// `:443` is left out, because a registry is asked over https. Only this machine is asked over plain HTTP first, where
/// no port means 80: there the port stays as it was given.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegistryHost(String);

/// Ports that need not be written, in https or in plain HTTP.
const DEFAULT_PORTS: [u16; 2] = [443, 80];

impl RegistryHost {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The host without its port, IPv6 in brackets.
    #[must_use]
    pub fn name(&self) -> &str {
        self.split().0
    }

    /// The port, where it is not the one of https.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.split().1
    }

    fn split(&self) -> (&str, Option<u16>) {
        split_port(&self.0).unwrap_or((&self.0, None))
    }

    #[must_use]
    pub fn is_docker_hub(&self) -> bool {
        self.0 == HUB
    }

    /// Whether it is the host of this name, in any spelling of it.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        name.parse::<Self>().is_ok_and(|other| *self == other)
    }

    /// Whether it is this machine, as far as the name tells.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        is_loopback(self.name())
    }

    /// The address, where the host is one and not a name.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        address(self.name())
    }

    /// The host without a port that a registry may have by default. In plain HTTP, `HOST:80` is `HOST`: whoever must not
    /// take one registry for two compares this.
    #[must_use]
    pub fn without_default_port(&self) -> Self {
        match self.split() {
            (name, Some(port)) if DEFAULT_PORTS.contains(&port) => Self(name.to_owned()),
            _ => self.clone(),
        }
    }

    /// Everything that the host may be called in a pattern, itself first.
    #[must_use]
    pub fn spellings(&self) -> Vec<String> {
        let bare = self.without_default_port();
        let aliases: &[&str] = if bare.is_docker_hub() { &HUB_ALIASES } else { &[] };
        let mut all = vec![self.0.clone()];
        for name in std::iter::once(bare.as_str()).chain(aliases.iter().copied()) {
            all.push(name.to_owned());
            let ports = DEFAULT_PORTS.iter().filter(|_| bare.port().is_none());
            all.extend(ports.map(|port| format!("{name}:{port}")));
        }
        all
    }

    /// The canonical form of `given`, or why it is not a host.
    pub(super) fn read(given: &str) -> Result<Self, &'static str> {
        if given.contains('@') {
            return Err("a registry is named without a user or password (`docker login` stores them)");
        }
        let (name, port) = split_port(given)?;
        let name = canonical_name(name)?;
        let port = port.filter(|port| *port != 443 || is_loopback(&name));
        Ok(Self(match port {
            None if HUB_ALIASES.contains(&&*name) => HUB.to_owned(),
            None => name,
            Some(port) => format!("{name}:{port}"),
        }))
    }
}

/// Host and port as they are written.
fn split_port(given: &str) -> Result<(&str, Option<u16>), &'static str> {
    const WRONG: &str = "the port is not a number from 1 to 65535";
    let end = match given.strip_prefix('[') {
        Some(rest) => rest.find(']').ok_or("an IPv6 host ends with ]")? + 2,
        None => given.find(':').unwrap_or(given.len()),
    };
    let (name, port) = given.split_at(end);
    if port.is_empty() {
        return Ok((name, None));
    }
    let digits = port.strip_prefix(':').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit())).ok_or(WRONG)?;
    match digits.parse::<u16>() {
        Ok(number @ 1..) => Ok((name, Some(number))),
        _ => Err(WRONG),
    }
}

fn canonical_name(name: &str) -> Result<String, &'static str> {
    if let Some(rest) = name.strip_prefix('[') {
        let address: Ipv6Addr = rest.trim_end_matches(']').parse().map_err(|_| "the host is not an IPv6 address")?;
        // To connect to it is to connect to the IPv4 address.
        return Ok(address.to_ipv4_mapped().map_or_else(|| format!("[{address}]"), |address| address.to_string()));
    }
    if name.ends_with('.') {
        return Err("a host name has no dot at its end");
    }
    if !name.split('.').all(is_label) {
        return Err("a host name may have only letters, digits, dots and dashes (write other names in punycode)");
    }
    if ends_in_number(name) && name.parse::<Ipv4Addr>().is_err() {
        return Err("an IPv4 address is four decimal numbers from 0 to 255");
    }
    Ok(name.to_ascii_lowercase())
}

fn is_label(label: &str) -> bool {
    !label.is_empty()
        && label.len() <= 63
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// What URLs take for an IPv4 address: `127.1`, `2130706433`, `0x7f.0.0.1` and so on.
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    last.bytes().all(|b| b.is_ascii_digit()) || hex.is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn is_loopback(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost") || address(name).is_some_and(|address| address.is_loopback())
}

fn address(name: &str) -> Option<IpAddr> {
    name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name).parse().ok()
}

impl FromStr for RegistryHost {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        Self::read(given).map_err(|why| Error::usage(format!("not a registry host: {why}")).fact("host", given))
    }
}

impl fmt::Display for RegistryHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RegistryHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A host, on one port or on all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    /// Without a port.
    host: RegistryHost,
    port: Option<u16>,
}

impl HostPattern {
    /// Whether the host is meant. One without a port is asked on 443; this machine on 80, too.
    #[must_use]
    pub fn covers(&self, host: &RegistryHost) -> bool {
        let is_asked = |port: u16| match host.port() {
            Some(own) => own == port,
            None => port == 443 || (port == 80 && host.is_loopback()),
        };
        self.host.name() == host.name() && self.port.is_none_or(is_asked)
    }
}

impl FromStr for HostPattern {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        let refuse = |why: &str| Error::usage(format!("not a registry host: {why}")).fact("host", given);
        let (name, port) = split_port(given).map_err(refuse)?;
        Ok(Self { host: RegistryHost::read(name).map_err(refuse)?, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(given: &str) -> RegistryHost {
        given.parse().unwrap_or_else(|error| panic!("{given}: {error}"))
    }

    #[test]
    fn one_registry_has_one_form() {
        for (given, canonical) in [
            ("gcr.io", "gcr.io"),
            ("GCR.IO", "gcr.io"),
            ("gcr.io:443", "gcr.io"),
            ("Gcr.io:0443", "gcr.io"),
            ("gcr.io:00000000443", "gcr.io"),
            ("gcr.io:80", "gcr.io:80"),
            ("gcr.io:05000", "gcr.io:5000"),
            ("docker.io:443", "docker.io"),
            ("index.docker.io", "docker.io"),
            ("Registry-1.Docker.IO:0443", "docker.io"),
            ("docker.io:5000", "docker.io:5000"),
            ("LocalHost:5000", "localhost:5000"),
            ("localhost", "localhost"),
            ("localhost:443", "localhost:443"),
            ("localhost:80", "localhost:80"),
            ("127.0.0.1:0443", "127.0.0.1:443"),
            ("[::1]:5000", "[::1]:5000"),
            ("[0:0:0:0:0:0:0:1]:5000", "[::1]:5000"),
            ("[::0001]:05000", "[::1]:5000"),
            ("[FD00::A]", "[fd00::a]"),
            ("[fd00::a]:443", "[fd00::a]"),
            ("[::ffff:127.0.0.1]:5000", "127.0.0.1:5000"),
            ("[::FFFF:7f00:1]:5000", "127.0.0.1:5000"),
            ("[::ffff:8.8.8.8]:443", "8.8.8.8"),
            ("XN--MNCHEN-3YA.example", "xn--mnchen-3ya.example"),
        ] {
            let host = host(given);
            assert_eq!(host.to_string(), canonical, "{given}");
            assert_eq!(self::host(canonical), host, "the canonical form is its own");
            assert!(host.is(given) && host.spellings().contains(&canonical.to_owned()), "{given}");
        }
    }

    #[test]
    fn what_is_asked_elsewhere_or_nowhere_is_refused() {
        for (given, why) in [
            ("gcr.io.", "dot at its end"),
            ("gcr.io.:443", "dot at its end"),
            ("127.0.0.1.", "dot at its end"),
            ("127.1", "four decimal numbers"),
            ("2130706433:5000", "four decimal numbers"),
            ("0x7f000001:5000", "four decimal numbers"),
            ("0X7F.1", "four decimal numbers"),
            ("0177.0.0.1", "four decimal numbers"),
            ("127.0.0.01", "four decimal numbers"),
            ("a.0x", "four decimal numbers"),
            ("1.2.3.256", "four decimal numbers"),
            ("gcr.io:", "port"),
            ("gcr.io:0", "port"),
            ("gcr.io:+443", "port"),
            ("gcr.io:65979", "port"),
            ("gcr.io:443:443", "port"),
            ("gcr.io:４４３", "port"),
            ("[::1", "ends with ]"),
            ("[::1]5000", "port"),
            ("[fe80::1%eth0]", "IPv6"),
            ("user:secret@gcr.io", "user or password"),
            ("", "letters"),
            ("ＧＣＲ.io", "letters"),
            ("gcr。io", "letters"),
            ("gcr%2eio", "letters"),
        ] {
            let error = given.parse::<RegistryHost>().unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("secret"), "{given}: {error}");
        }
    }

    #[test]
    fn a_pattern_of_hosts_is_one_port_or_all() {
        for (pattern, host, covered) in [
            ("corp.example", "corp.example:8443", true),
            ("CORP.example", "corp.example", true),
            ("corp.example:443", "corp.example", true),
            ("corp.example:0443", "corp.example", true),
            ("corp.example:443", "corp.example:8443", false),
            ("corp.example:80", "corp.example", false),
            ("corp.example:80", "corp.example:80", true),
            ("corp.example:5000", "corp.example", false),
            ("corp.example", "corp.example.evil", false),
            ("index.docker.io", "docker.io", true),
            ("localhost:80", "localhost", true),
            ("[0:0:0::1]:5000", "[::1]:5000", true),
            ("[::ffff:10.0.0.1]", "10.0.0.1:5000", true),
        ] {
            let pattern: HostPattern = pattern.parse().unwrap();
            assert_eq!(pattern.covers(&self::host(host)), covered, "{pattern:?} {host}");
        }
        for wrong in ["corp.example.", "http://corp.example", "corp.example/x", "*", ""] {
            assert!(wrong.parse::<HostPattern>().is_err(), "{wrong}");
        }
    }
}
