//! Text without the users and passwords that people, files and servers put into URLs and references.
//!
//! The rule this file owns: `USER:PASSWORD@HOST` is shown as `***@HOST` in whatever is said to a person or a report. An
//! [`Error`](super::Error) passes everything it is given through [`redacted`], so that no caller can forget it. Where it
//! is not clear what is a password, more is hidden than need be.

/// How a digest begins, or the word that stands for one in a hint: what follows `@` is no host then.
const DIGESTS: [&str; 7] = ["sha256:", "sha512:", "sha384:", "sha1:", "md5:", "blake3:", "DIGEST"];
/// Words before a colon that are not a user.
const TRANSPORTS: [&str; 5] = ["oci", "oci-archive", "docker-archive", "docker-daemon", "containers-storage"];

const HIDDEN: &str = "***";

/// `text` with `***` in place of everything before the host of a URL or reference.
#[must_use]
pub fn redacted(text: &str) -> String {
    if !text.contains('@') {
        return text.to_owned();
    }
    let is_end = |c: char| c.is_whitespace() || "\"'`<>".contains(c);
    text.split_inclusive(is_end).map(redacted_word).collect()
}

/// The beginning of a text that may hold a password. Cutting it first would leave a part of the password, and no `@`
/// to know it by.
#[must_use]
pub fn excerpt(text: &str, most: usize) -> String {
    let text = redacted(text);
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

fn redacted_word(word: &str) -> String {
    let is_host = |(at, _): &(usize, &str)| {
        let after = word.get(at + 1..).unwrap_or_default();
        !DIGESTS.iter().any(|digest| after.starts_with(digest))
    };
    // A password may have an `@` in it: the last one counts.
    let Some((at, _)) = word.rmatch_indices('@').find(is_host) else { return word.to_owned() };
    let (before, host) = word.split_at(at);
    match before.split_once("://") {
        Some((scheme, user)) if is_user_of_url(user) => format!("{scheme}://{HIDDEN}{host}"),
        Some(_) => word.to_owned(),
        None => user_start(before).map_or_else(
            || word.to_owned(),
            |start| format!("{}{HIDDEN}{host}", before.get(..start).unwrap_or_default()),
        ),
    }
}

/// Whether what is between `://` and `@` is a user, or a host with a path in which there is an `@`.
fn is_user_of_url(text: &str) -> bool {
    let Some((authority, _)) = text.split_once(['/', '?', '#']) else { return true };
    let port = authority.rsplit_once(':').map(|(_, port)| port);
    authority.contains('@')
        || port.is_some_and(|port| !port.ends_with(']') && !port.bytes().all(|b| b.is_ascii_digit()))
}

/// Where `USER:PASSWORD` begins in what is before an `@`, if it is one. A path is not: a user has no slash.
fn user_start(before: &str) -> Option<usize> {
    let colon = before.find(':').or_else(|| before.to_ascii_lowercase().find("%3a"))?;
    let start = before.get(..colon)?.rfind(['=', '(', '[', '{', ',', ';']).map_or(0, |at| at + 1);
    let user = before.get(start..colon)?;
    if TRANSPORTS.contains(&user) {
        return user_start(before.get(colon + 1..)?).map(|start| colon + 1 + start);
    }
    (!user.contains('/')).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_passwords_are_hidden() {
        for (given, shown) in [
            ("user:secret@host/repo", "***@host/repo"),
            ("user:secret@host:5000/repo:tag", "***@host:5000/repo:tag"),
            ("user:secret@host", "***@host"),
            (":secret@host", "***@host"),
            ("user%3Asecret@host", "***@host"),
            ("user:sec/ret@host/repo", "***@host/repo"),
            ("user:s@cret@host/repo", "***@host/repo"),
            ("user:secret@host/repo@sha256:00", "***@host/repo@sha256:00"),
            ("https://user:secret@host/x", "https://***@host/x"),
            ("https://secret@host/x", "https://***@host/x"),
            ("https://secret:x-oauth-basic@host/x", "https://***@host/x"),
            ("https://user:sec/ret@host/x", "https://***@host/x"),
            ("https://user:s@c/ret@host/x", "https://***@host/x"),
            ("http://user:secret@[::1]:3128", "http://***@[::1]:3128"),
            ("docker://user:secret@host/x:y", "docker://***@host/x:y"),
            ("docker-daemon:user:secret@host/x", "docker-daemon:***@host/x"),
            ("--to=user:secret@host/x", "--to=***@host/x"),
            ("proxy \"http://user:secret@proxy:3128/\" failed", "proxy \"http://***@proxy:3128/\" failed"),
            ("error for url (https://user:secret@host/x): timed out", "error for url (https://***@host/x): timed out"),
            ("a user:secret@host b https://u:secret@h", "a ***@host b https://***@h"),
        ] {
            assert_eq!(redacted(given), shown);
            assert!(!shown.contains("secret"));
            assert_eq!(redacted(shown), shown, "twice is once");
        }
    }

    #[test]
    fn what_has_no_password_is_shown_as_it_is() {
        for plain in [
            "gcr.io/distroless/static:nonroot@sha256:e3b0",
            "debian:12@sha256:00",
            "localhost:5000/a@sha512:00",
            "oci:dir:tag@sha256:00",
            "oci-archive:a@b.tar:tag@sha256:00",
            "/lib/systemd/system/getty@tty1.service",
            "/a:b/c@d",
            "someone@example.com",
            "git@github.com:org/repo.git",
            "k8s.io/klog@v1.0.0",
            "https://github.com/org/repo/x.yml@refs/heads/main",
            "https://registry.example:5000/@scope/pkg",
            "containers-storage:[vfs@/a+/b]app:v1",
            "gcr.io/app:v1@latest",
            "--known-base NAME:TAG@DIGEST",
            "10:30 a@b",
            "@",
        ] {
            assert_eq!(redacted(plain), plain);
        }
    }

    #[test]
    fn a_password_is_hidden_before_a_text_is_cut() {
        let long = format!("user:{}@host/repo", "secret".repeat(100));
        assert_eq!(excerpt(&long, 300), "***@host/repo");
        assert_eq!(excerpt("ábcd", 2), "áb…");
        assert_eq!(excerpt("áb", 2), "áb");
    }
}
