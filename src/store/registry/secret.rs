//! A secret that cannot be printed by accident: passwords, tokens, `Authorization` values.

use std::fmt;

use reqwest::header::HeaderValue;

/// Text that `Debug` and `Display` show as `***`. Whoever needs it says so: [`Secret::reveal`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }

    /// `bytes` with the secret made unreadable: servers may repeat what they were sent.
    pub(super) fn scrub(&self, bytes: Vec<u8>) -> Vec<u8> {
        // Of an `Authorization` value, the scheme is no secret.
        let bare = self.0.split_once(' ').map_or(self.0.as_str(), |(_, parameter)| parameter);
        let text = String::from_utf8_lossy(&bytes);
        if bare.len() < 4 || !text.contains(bare) { bytes } else { text.replace(bare, "***").into_bytes() }
    }

    /// The secret as the value of a header, marked so that no log of the HTTP stack shows it.
    /// `None` where it holds bytes that a header cannot.
    pub(super) fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&self.0).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_stars_only() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "*** *** Some(***)");
        assert!(!format!("{:?}", secret.header()).contains("hunter2"));
    }

    #[test]
    fn is_scrubbed_from_what_a_server_repeats() {
        let scrubbed = Secret::new("Bearer hunter2").scrub(b"bad token hunter2!".to_vec());
        assert_eq!(scrubbed, b"bad token ***!");
        assert_eq!(Secret::new("a").scrub(b"\xffabc".to_vec()), b"\xffabc");
    }

    #[test]
    fn a_secret_with_a_line_feed_is_no_header() {
        assert!(Secret::new("a\nX-Evil: 1").header().is_none());
    }
}
