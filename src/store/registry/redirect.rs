//! Where a registry may send us: redirects of reads, and the `Location` of uploads.
//!
//! Credentials never travel along (see `client`); these rules are about what may be asked at all.
//! A public registry must not make us talk to this machine or its network, and nobody may take us
//! from TLS to plain HTTP.

use reqwest::Url;

use super::address::{Reach, same_authority};

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
pub(super) fn follow(from: &Url, location: Option<&str>, errand: Errand) -> Result<Url, String> {
    let location = location.map(str::trim).filter(|text| !text.is_empty()).ok_or("the answer has no Location")?;
    if location.len() > LONGEST_LOCATION {
        return Err("its Location is longer than 8 KiB".to_owned());
    }
    let mut to = from.join(location).map_err(|_| "its Location is not a URL".to_owned())?;
    to.set_fragment(None);
    // A user in the URL would become an Authorization header.
    let _ = to.set_username("");
    let _ = to.set_password(None);
    check(from, &to, errand)?;
    Ok(to)
}

fn check(from: &Url, to: &Url, errand: Errand) -> Result<(), String> {
    if !matches!(to.scheme(), "http" | "https") || !to.has_host() {
        return Err(format!("it leads to a `{}` URL", to.scheme()));
    }
    if from.scheme() == "https" && to.scheme() == "http" {
        return Err("it leads from https to plain http".to_owned());
    }
    let allowed = same_authority(from, to)
        || matches!(
            (Reach::of(from), Reach::of(to), errand),
            (_, Reach::Public, _)
                | (Reach::Loopback, Reach::Loopback, _)
                | (Reach::Private, Reach::Private, _)
                | (Reach::Loopback, Reach::Private, Errand::Read)
        );
    if allowed { Ok(()) } else { Err("it leads to a private or local address".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(from: &str, location: &str, errand: Errand) -> Result<String, String> {
        follow(&from.parse().unwrap(), Some(location), errand).map(String::from)
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
        assert!(follow(&"https://a.io/".parse().unwrap(), None, Errand::Upload).is_err());
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
}
