//! What a Go program says about how it was built: Go's build info, as the linker leaves it in a
//! program (`debug/buildinfo`), and the list of modules in it (`runtime/debug.ParseBuildInfo`).
//!
//! Build info is 16 bytes of header: a magic string, the size of a pointer, flags. From Go 1.18 on,
//! two strings follow at offset 32, each after its length; before, two pointers to strings followed
//! at offset 16. Module info is text: lines of a word and its columns, separated by tabs.

use serde::{Deserialize, Serialize};

use super::patterns::BUILD_INFO;

/// Facts of a Go program. Builds outside of a module (`GOPATH`) name no modules, old ones no
/// version: `packages` is what remains even of a stripped program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoFacts {
    /// The toolchain's, as it says it: `go1.19.8`.
    pub version: Option<String>,
    /// The path of the main package.
    pub path: Option<String>,
    /// The path of the main module.
    pub module: Option<String>,
    /// The version of the main module; `(devel)` where it was built outside of version control.
    pub module_version: Option<String>,
    /// Path and version of every other module. Of a replaced one: its own path, and the version
    /// of what it was replaced with, after that one's path where it has another.
    pub modules: Vec<(String, String)>,
    /// The settings of the build, such as `CGO_ENABLED`.
    pub settings: Vec<(String, String)>,
    /// Known packages, and functions, whose names are in the function table.
    pub packages: Vec<String>,
}

impl GoFacts {
    /// Whether it was built without cgo: then it loads no library.
    #[must_use]
    pub fn is_without_cgo(&self) -> bool {
        self.settings.iter().any(|(name, value)| name == "CGO_ENABLED" && value == "0")
    }
}

/// The header together with what always follows it.
pub(super) const HEAD: usize = 32;
/// It begins at a multiple of this.
pub(super) const ALIGNMENT: u64 = 16;

const LONGEST_VERSION: usize = 256;

/// The two forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BuildInfoForm {
    /// The strings follow.
    Inline,
    /// Addresses of two string headers, each an address and a length.
    Pointers { version: u64, modules: u64, pointer: Pointer },
}

/// How an address is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pointer {
    pub size: usize,
    is_big: bool,
}

impl Pointer {
    /// The address at the beginning of `bytes`, and what follows it.
    pub fn read(self, bytes: &[u8]) -> Option<(u64, &[u8])> {
        let (address, rest) = bytes.split_at_checked(self.size)?;
        let digit = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        let value = if self.is_big { address.iter().fold(0, digit) } else { address.iter().rev().fold(0, digit) };
        Some((value, rest))
    }
}

impl BuildInfoForm {
    /// The form that the header states, if this is one.
    pub fn read(head: &[u8]) -> Option<Self> {
        let rest = head.strip_prefix(BUILD_INFO)?;
        let (&[size, flags], rest) = rest.split_first_chunk::<2>()?;
        if flags & 2 != 0 {
            return Some(Self::Inline);
        }
        let pointer = Pointer { size: usize::from(size), is_big: flags & 1 != 0 };
        if !matches!(pointer.size, 4 | 8) {
            return None;
        }
        let (version, rest) = pointer.read(rest)?;
        let (modules, _) = pointer.read(rest)?;
        Some(Self::Pointers { version, modules, pointer })
    }
}

/// A string that follows, which may be cut where it is longer than what is kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BuildInfoText<'a> {
    Whole(&'a [u8]),
    Cut,
}

/// Version and module info of the inline form; `bytes` begin with the header.
pub(super) fn read_inline(bytes: &[u8]) -> Option<(String, BuildInfoText<'_>)> {
    let (version, rest) = string(bytes.get(HEAD..)?)?;
    let BuildInfoText::Whole(version) = version else { return None };
    let modules = string(rest).map_or(BuildInfoText::Cut, |(modules, _)| modules);
    Some((parse_version(version)?, modules))
}

/// A string after its length, and what follows it.
fn string(bytes: &[u8]) -> Option<(BuildInfoText<'_>, &[u8])> {
    let (length, rest) = varint(bytes)?;
    let split = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
    Some(split.map_or((BuildInfoText::Cut, &[]), |(text, rest)| (BuildInfoText::Whole(text), rest)))
}

/// Go's `encoding/binary.Uvarint`.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().take(9).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(at + 1..)?));
        }
    }
    None
}

/// A version is one line of text, and begins as all of them do: a program that only contains the magic string
/// of build info, as this one does, has other bytes behind it.
pub(super) fn parse_version(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let is_named = text.starts_with("go") || text.starts_with("devel");
    let fits = (1..=LONGEST_VERSION).contains(&text.len()) && !text.chars().any(char::is_control);
    (is_named && fits).then(|| text.to_owned())
}

/// Length of the marker on each side of the text.
const MARK: usize = 16;

/// The text between its markers. `None` where there is none, as in builds outside of a module.
pub(super) fn between_marks(info: &[u8]) -> Option<&str> {
    let text = info.get(MARK..info.len().checked_sub(MARK)?)?;
    // The check that Go makes: the text ends with a line feed.
    text.ends_with(b"\n").then(|| std::str::from_utf8(text).ok())?
}

/// Adds what the text says to `facts`. Lines that say nothing known are passed over, as Go does.
pub(super) fn read_modules(text: &str, facts: &mut GoFacts) {
    for line in text.lines() {
        let mut columns = line.split('\t');
        let word = columns.next().unwrap_or_default();
        let (first, second) = (columns.next().unwrap_or_default(), columns.next().unwrap_or_default());
        match word {
            "path" => facts.path = Some(first.to_owned()),
            "mod" => {
                facts.module = Some(first.to_owned());
                facts.module_version = Some(second.to_owned()).filter(|version| !version.is_empty());
            }
            "dep" => facts.modules.push((first.to_owned(), second.to_owned())),
            "=>" => replace(facts, first, second),
            "build" => facts.settings.extend(setting(first)),
            _ => {}
        }
    }
}

/// `=>` is about the line before it. The main module cannot be replaced.
fn replace(facts: &mut GoFacts, path: &str, version: &str) {
    if let Some((own, of)) = facts.modules.last_mut() {
        *of = if own == path { version.to_owned() } else { format!("{path} {version}").trim_end().to_owned() };
    }
}

/// `NAME=VALUE`; the value is quoted where it has unusual characters.
fn setting(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    let quoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let value = quoted.map_or_else(|| value.to_owned(), |inner| inner.replace("\\\"", "\"").replace("\\\\", "\\"));
    Some((name.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(size: u8, flags: u8, rest: &[u8]) -> Vec<u8> {
        [BUILD_INFO, &[size, flags], rest].concat()
    }

    #[test]
    fn the_header_tells_the_form() {
        let le64 = [0x1000_u64.to_le_bytes(), 0x2000_u64.to_le_bytes()].concat();
        let be32 = [0x1000_u32.to_be_bytes(), 0x2000_u32.to_be_bytes()].concat();
        let pointers = |size, is_big| {
            Some(BuildInfoForm::Pointers { version: 0x1000, modules: 0x2000, pointer: Pointer { size, is_big } })
        };
        for (bytes, expected) in [
            (head(8, 2, &[0; 16]), Some(BuildInfoForm::Inline)),
            (head(0, 2, &[]), Some(BuildInfoForm::Inline)),
            (head(8, 0, &le64), pointers(8, false)),
            (head(4, 1, &be32), pointers(4, true)),
            (head(3, 0, &le64), None),
            (head(8, 0, &le64[..15]), None),
            (b"\xff Go buildinf;".to_vec(), None),
            (vec![], None),
        ] {
            assert_eq!(BuildInfoForm::read(&bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn inline_strings_are_whole_or_cut_and_never_wrong() {
        let info = |strings: &[u8]| [head(8, 2, &[0; 16]).as_slice(), strings].concat();
        let go = "go1.19.8".to_owned();
        for (strings, expected) in [
            (b"\x08go1.19.8\x03abc\0\0".as_slice(), Some((go.clone(), BuildInfoText::Whole(&b"abc"[..])))),
            (b"\x08go1.19.8\0", Some((go.clone(), BuildInfoText::Whole(&b""[..])))),
            (b"\x08go1.19.8\xff\x01abc", Some((go.clone(), BuildInfoText::Cut))),
            (b"\x08go1.19.8\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", Some((go, BuildInfoText::Cut))),
            (b"\x08go1.19", None),
            (b"\x02\xff\xfe\0", None),
            (b"\x02\x1b[\0", None),
            (b"\0\0", None),
            (b"", None),
        ] {
            let bytes = info(strings);
            assert_eq!(read_inline(&bytes), expected, "{strings:?}");
        }
    }

    const TEXT: &str = "path\tk8s.io/app/cmd/app\nmod\tk8s.io/app\t(devel)\t\n\
        dep\tk8s.io/klog/v2\tv2.80.1\th1:atnLQ1\ndep\tk8s.io/api\tv0.0.0\n=>\t./staging/api\t(devel)\t\n\
        dep\tgolang.org/x/sys\tv0.1.0\th1:x\n=>\tgolang.org/x/sys\tv0.2.0\th1:y\nnonsense\nbuild\t-compiler=gc\n\
        build\tCGO_ENABLED=0\nbuild\t-ldflags=\"-s -X \\\"a=b\\\"\"\nbuild\tbroken\n";

    #[test]
    fn the_lines_become_facts() {
        let mut facts = GoFacts::default();
        read_modules(TEXT, &mut facts);
        let pair = |(a, b): (&str, &str)| (a.to_owned(), b.to_owned());
        assert_eq!(facts.path.as_deref(), Some("k8s.io/app/cmd/app"));
        assert_eq!(facts.module.as_deref(), Some("k8s.io/app"));
        assert_eq!(facts.module_version.as_deref(), Some("(devel)"));
        let modules =
            [("k8s.io/klog/v2", "v2.80.1"), ("k8s.io/api", "./staging/api (devel)"), ("golang.org/x/sys", "v0.2.0")];
        assert_eq!(facts.modules, modules.map(pair));
        assert_eq!(
            facts.settings,
            [("-compiler", "gc"), ("CGO_ENABLED", "0"), ("-ldflags", "-s -X \"a=b\"")].map(pair)
        );
    }

    #[test]
    fn text_counts_only_between_whole_marks() {
        let framed = |text: &str| [&[1; 16], text.as_bytes(), &[2; 16]].concat();
        assert_eq!(between_marks(&framed("path\tx\n")), Some("path\tx\n"));
        for bytes in
            [framed("path\tx"), framed(""), vec![], vec![b'\n'; 31], [&[1; 16], &b"\xff\n"[..], &[2; 16]].concat()]
        {
            assert_eq!(between_marks(&bytes), None, "{bytes:?}");
        }
    }
}
