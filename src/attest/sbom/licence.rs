//! Licences as SPDX expressions. A package's own text is one only if every name in it is on SPDX's list; a name that
//! is not gets a `LicenseRef-` with the text that the package has for it.

use std::collections::BTreeMap;

/// Names of SPDX's list that packages use. One that is missing here becomes a `LicenseRef-`: less handy, never wrong.
const KNOWN: &str = " 0BSD AFL-2.1 AGPL-3.0-only AGPL-3.0-or-later Apache-1.1 Apache-2.0 Artistic-1.0 Artistic-1.0-Perl Artistic-2.0 \
    BSD-1-Clause BSD-2-Clause BSD-3-Clause BSD-4-Clause BSL-1.0 BlueOak-1.0.0 CC-BY-3.0 CC-BY-4.0 CC-BY-SA-3.0 CC-BY-SA-4.0 \
    CC0-1.0 CDDL-1.0 CPL-1.0 EPL-1.0 EPL-2.0 EUPL-1.2 FSFAP FTL GFDL-1.2-or-later GFDL-1.3-or-later GPL-1.0-only \
    GPL-1.0-or-later GPL-2.0-only GPL-2.0-or-later GPL-3.0-only GPL-3.0-or-later HPND ICU IJG ISC LGPL-2.0-only \
    LGPL-2.0-or-later LGPL-2.1-only LGPL-2.1-or-later LGPL-3.0-only LGPL-3.0-or-later LPPL-1.3c Libpng MIT MIT-0 MPL-1.1 \
    MPL-2.0 NCSA NTP OFL-1.1 OLDAP-2.8 OpenSSL PHP-3.01 PSF-2.0 PostgreSQL Python-2.0 Ruby SGI-B-2.0 Sleepycat TCL \
    UPL-1.0 Unicode-3.0 Unicode-DFS-2016 Unlicense Vim W3C WTFPL X11 ZPL-2.1 Zlib bzip2-1.0.6 curl libpng-2.0 libtiff ";
const EXCEPTIONS: &str = " Autoconf-exception-3.0 Bison-exception-2.2 Classpath-exception-2.0 GCC-exception-3.1 \
    LLVM-exception Linux-syscall-note OpenSSL-exception openvpn-openssl-exception ";
/// Longer texts are no expressions.
const LONGEST: usize = 256;

/// An expression, and what it says of names that SPDX does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Licence {
    pub expression: String,
    /// By `LicenseRef-NAME`.
    pub references: BTreeMap<String, String>,
}

impl Licence {
    /// What the text of a package means; all of it is one name where it is no expression.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() {
            return None;
        }
        let read = (text.len() <= LONGEST).then(|| Parser::read(text)).flatten();
        Some(read.unwrap_or_else(|| {
            let name = reference(text);
            Self { expression: name.clone(), references: BTreeMap::from([(name, text.to_owned())]) }
        }))
    }
}

/// `LicenseRef-` and what SPDX allows in it; the digest tells two texts apart that look alike then.
fn reference(text: &str) -> String {
    let plain: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).take(64).collect();
    if plain == text {
        return format!("LicenseRef-{plain}");
    }
    let digest = oci::Digest::of(text.as_bytes()).short();
    format!("LicenseRef-{}-{digest}", plain.trim_matches('-'))
}

/// `(MIT OR Apache-2.0) AND GPL-2.0-only WITH Linux-syscall-note`
struct Parser<'a> {
    words: std::iter::Peekable<std::vec::IntoIter<&'a str>>,
    licence: Licence,
    open: usize,
}

impl<'a> Parser<'a> {
    fn read(text: &'a str) -> Option<Licence> {
        let mut words = Vec::new();
        for word in text.split_ascii_whitespace() {
            let mut rest = word;
            while let Some(at) = rest.find(['(', ')']) {
                words.extend([rest.get(..at)?, rest.get(at..=at)?]);
                rest = rest.get(at + 1..)?;
            }
            words.push(rest);
        }
        words.retain(|word| !word.is_empty());
        let licence = Licence { expression: String::new(), references: BTreeMap::new() };
        let mut parser = Self { words: words.into_iter().peekable(), licence, open: 0 };
        parser.whole()?;
        Some(parser.licence)
    }

    /// Terms with operators between them, until nothing is left.
    fn whole(&mut self) -> Option<()> {
        loop {
            self.term()?;
            while self.words.next_if_eq(&")").is_some() {
                self.open = self.open.checked_sub(1)?;
                self.licence.expression.push(')');
            }
            match self.words.next() {
                None => return (self.open == 0).then_some(()),
                Some(operator @ ("AND" | "OR")) => {
                    self.licence.expression.push(' ');
                    self.licence.expression.push_str(operator);
                    self.licence.expression.push(' ');
                }
                Some(_) => return None,
            }
        }
    }

    /// A name, perhaps with an exception, after any brackets.
    fn term(&mut self) -> Option<()> {
        while self.words.next_if_eq(&"(").is_some() {
            self.open += 1;
            self.licence.expression.push('(');
        }
        let name = self.words.next().filter(|word| !matches!(*word, ")" | "AND" | "OR" | "WITH"))?;
        if is_in(KNOWN, name) {
            self.licence.expression.push_str(name);
        } else {
            let reference = reference(name);
            self.licence.expression.push_str(&reference);
            self.licence.references.insert(reference, name.to_owned());
        }
        if self.words.next_if_eq(&"WITH").is_some() {
            // An exception to a licence that SPDX does not have is no expression.
            let exception = self.words.next().filter(|word| is_in(EXCEPTIONS, word) && is_in(KNOWN, name))?;
            self.licence.expression.push_str(" WITH ");
            self.licence.expression.push_str(exception);
        }
        Some(())
    }
}

fn is_in(list: &str, name: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_packages_write_becomes_an_expression_that_holds() {
        for (text, expected, references) in [
            ("MIT", "MIT", vec![]),
            ("GPL-2.0-only AND (MIT OR BSD-3-Clause)", "GPL-2.0-only AND (MIT OR BSD-3-Clause)", vec![]),
            ("GPL-2.0-only WITH Linux-syscall-note", "GPL-2.0-only WITH Linux-syscall-note", vec![]),
            ("Public-Domain", "LicenseRef-Public-Domain", vec!["Public-Domain"]),
            ("MIT AND Own", "MIT AND LicenseRef-Own", vec!["Own"]),
        ] {
            let licence = Licence::read(text).unwrap();
            assert_eq!(licence.expression, expected);
            assert_eq!(licence.references.values().map(String::as_str).collect::<Vec<_>>(), references, "{text}");
        }
        assert_eq!(Licence::read("  "), None);
    }

    #[test]
    fn what_is_no_expression_is_one_name() {
        let long = "(".repeat(500);
        for text in ["MIT GPL", "AND", "(MIT", "MIT)", "MIT WITH x", "()", "GPL\u{fc}", long.as_str()] {
            let licence = Licence::read(text).unwrap();
            assert_eq!(licence.references.get(&licence.expression).map(String::as_str), Some(text), "{licence:?}");
            let is_plain = licence.expression.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
            assert!(is_plain && licence.expression.len() < 100, "{licence:?}");
        }
    }
}
