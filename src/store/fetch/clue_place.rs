//! Which places a name inside an image may send us to.
//!
//! The name was written by whoever built the image. It must not make a release machine read its
//! own disk or knock at its own network on behalf of an image from the outside.

use std::net::IpAddr;

use crate::oci::Location;

/// Whether a clue found in an image at `source` may be followed to `clue`.
pub(super) fn may_follow(source: &Location, clue: &Location) -> bool {
    match (source, clue) {
        (Location::Registry(source), Location::Registry(clue)) => {
            is_public(clue.name().host()) || !is_public(source.name().host())
        }
        // What lies on our disk was put there by us.
        (_, Location::Registry(_)) => true,
        (source, clue) => source.local().is_some() && clue.local().is_some(),
    }
}

/// Whether a registry host is a name of the public network, as far as its spelling tells.
fn is_public(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let all_digits = name.chars().all(|c| c.is_ascii_hexdigit() || c == 'x' || c == '.')
        && name.starts_with(|c: char| c.is_ascii_digit());
    name != "localhost" && name.parse::<IpAddr>().is_err() && !all_digits && name.contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_from_outside_do_not_send_us_inside() {
        for (source, clue, allowed) in [
            ("gcr.io/a/b:c", "docker.io/library/debian:12", true),
            ("gcr.io/a/b:c", "169.254.169.254/x:y", false),
            ("gcr.io/a/b:c", "127.0.0.1:5000/x:y", false),
            ("gcr.io/a/b:c", "localhost:5000/x:y", false),
            ("gcr.io/a/b:c", "[::1]:5000/x:y", false),
            ("gcr.io/a/b:c", "oci:/etc:x", false),
            ("127.0.0.1:5000/a:b", "127.0.0.1:5001/x:y", true),
            ("127.0.0.1:5000/a:b", "oci:/srv:x", false),
            ("oci:a:b", "127.0.0.1:5001/x:y", true),
            ("oci:a:b", "oci-archive:base.tar", true),
        ] {
            assert_eq!(may_follow(&source.parse().unwrap(), &clue.parse().unwrap()), allowed, "{source} -> {clue}");
        }
    }
}
