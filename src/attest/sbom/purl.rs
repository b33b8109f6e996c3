//! Package URLs (<https://github.com/package-url/purl-spec>): the name by which scanners and databases of
//! vulnerabilities know a package.

use std::fmt::Write as _;

/// `pkg:TYPE/NAMESPACE/NAME@VERSION?KEY=VALUE`; empty parts are left out.
#[derive(Debug, Clone, Default)]
pub struct Purl<'a> {
    pub kind: &'a str,
    /// Parted by `/`.
    pub namespace: &'a str,
    pub name: &'a str,
    pub version: &'a str,
    /// Written in the order of their keys.
    pub qualifiers: Vec<(&'a str, &'a str)>,
}

impl Purl<'_> {
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!("pkg:{}", self.kind);
        for part in self.namespace.split('/').filter(|part| !part.is_empty()).chain([self.name]) {
            out.push('/');
            escape(&mut out, part);
        }
        if !self.version.is_empty() {
            out.push('@');
            escape(&mut out, self.version);
        }
        let mut qualifiers: Vec<_> = self.qualifiers.iter().filter(|(_, value)| !value.is_empty()).collect();
        qualifiers.sort_unstable();
        for (at, (key, value)) in qualifiers.into_iter().enumerate() {
            let _ = write!(out, "{}{key}=", if at == 0 { '?' } else { '&' });
            escape(&mut out, value);
        }
        out
    }
}

/// Everything but letters, digits, `.`, `-`, `_`, `~` and `:` is written as `%XX`.
fn escape(out: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b".-_~:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purls_are_written_as_the_specification_has_them() {
        let deb = Purl {
            kind: "deb",
            namespace: "debian",
            name: "libstdc++6",
            version: "1:12.2.0-14+deb12u1~x",
            qualifiers: vec![("upstream", "gcc-12@12"), ("distro", "debian-12"), ("arch", "amd64"), ("empty", "")],
        };
        let go = Purl {
            kind: "golang",
            namespace: "github.com/BurntSushi",
            name: "toml",
            version: "v1.2.0",
            ..Purl::default()
        };
        let odd = Purl { kind: "apk", name: "a b/ü\n?#%", ..Purl::default() };
        for (purl, expected) in [
            (
                deb,
                "pkg:deb/debian/libstdc%2B%2B6@1:12.2.0-14%2Bdeb12u1~x?arch=amd64&distro=debian-12&upstream=gcc-12%4012",
            ),
            (go, "pkg:golang/github.com/BurntSushi/toml@v1.2.0"),
            (odd, "pkg:apk/a%20b%2F%C3%BC%0A%3F%23%25"),
        ] {
            assert_eq!(purl.text(), expected);
        }
    }
}
