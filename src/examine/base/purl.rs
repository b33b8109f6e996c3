//! `pkg:docker/...` package URLs, as `BuildKit` writes images into its provenance.

/// The image that a package URL names: `NAME[:TAG]` as docker would write it, and the digest.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Purl {
    pub name: String,
    pub digest: Option<String>,
}

/// Reads `pkg:docker/NAMESPACE/NAME@VERSION?QUALIFIERS`; `None` for other packages.
pub(super) fn read(url: &str) -> Option<Purl> {
    let rest = url.strip_prefix("pkg:docker/")?;
    let (rest, qualifiers) = rest.split_once('?').unwrap_or((rest, ""));
    let (path, version) = rest.rsplit_once('@').unwrap_or((rest, ""));
    let path = decode(path)?;
    let version = decode(version)?;
    let qualified = qualifiers.split('&').find_map(|pair| pair.strip_prefix("digest=")).and_then(decode);
    if version.starts_with("sha256:") {
        return Some(Purl { name: path, digest: Some(version) });
    }
    let name = if version.is_empty() { path } else { format!("{path}:{version}") };
    Some(Purl { name, digest: qualified })
}

/// Percent decoding; `None` on a broken escape or on bytes that are not text.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first == b'%' {
            let hex = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(hex, 16).ok()?);
            rest = tail.get(2..)?;
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_buildkit_writes() {
        for (url, name, digest) in [
            ("pkg:docker/debian@12?platform=linux%2Famd64", "debian:12", None),
            (
                "pkg:docker/gcr.io/distroless/static@nonroot?digest=sha256:ab",
                "gcr.io/distroless/static:nonroot",
                Some("sha256:ab"),
            ),
            ("pkg:docker/127.0.0.1%3A5000/a/b@v1", "127.0.0.1:5000/a/b:v1", None),
            ("pkg:docker/a/b@sha256%3Aab", "a/b", Some("sha256:ab")),
        ] {
            assert_eq!(read(url), Some(Purl { name: name.into(), digest: digest.map(Into::into) }), "{url}");
        }
    }

    #[test]
    fn other_packages_and_broken_escapes_are_nothing() {
        for url in ["pkg:deb/debian/bash@5", "https://x", "", "pkg:docker/a%", "pkg:docker/a%zz", "pkg:docker/%ff@1"] {
            assert_eq!(read(url), None, "{url}");
        }
    }
}
