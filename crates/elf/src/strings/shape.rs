//! What a string could name, judged by its own bytes and nothing else.

/// The longest word that can name a program, a variable or a library.
const LONGEST_WORD: usize = 64;

/// What a string could name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StringShape<'a> {
    /// An absolute path, or the one that begins a command line.
    Path(&'a str),
    Word(&'a str),
    /// The first word of a line of several.
    CommandWord(&'a str),
}

impl<'a> StringShape<'a> {
    /// `None` for what names nothing: text, formats, data.
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        let is_path = bytes.first() == Some(&b'/');
        let is_part = |byte: u8| is_of_word(byte) || (is_path && b"/@:,~=".contains(&byte));
        let end = bytes.iter().position(|byte| !is_part(*byte)).unwrap_or(bytes.len());
        let (head, rest) = bytes.split_at_checked(end)?;
        if !rest.is_empty() && !is_rest_of_line(rest) {
            return None;
        }
        let text = || std::str::from_utf8(head).ok();
        match is_path {
            true if head.len() > 1 => text().map(Self::Path),
            false if is_word(head) && rest.is_empty() => text().map(Self::Word),
            false if is_word(head) => text().map(Self::CommandWord),
            _ => None,
        }
    }
}

/// Of bytes that a word may have: whether it begins as one, and is as long as one.
fn is_word(bytes: &[u8]) -> bool {
    let begins = bytes.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    begins && (2..=LONGEST_WORD).contains(&bytes.len())
}

pub(super) fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'+' | b'-')
}

/// A blank, and something that can be printed.
fn is_rest_of_line(rest: &[u8]) -> bool {
    let is_text = |byte: &u8| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\t' | b'\n');
    rest.first() == Some(&b' ') && rest.iter().all(is_text) && rest.iter().any(u8::is_ascii_graphic)
}

#[cfg(test)]
mod tests {
    use super::StringShape::{CommandWord, Path, Word};
    use super::*;

    #[test]
    fn a_string_names_a_path_a_word_a_command_or_nothing() {
        for (text, expected) in [
            ("/sbin/ip", Some(Path("/sbin/ip"))),
            ("/sbin/ip -6 addr", Some(Path("/sbin/ip"))),
            ("/etc/ssl/certs", Some(Path("/etc/ssl/certs"))),
            ("/", None),
            ("/proc/%d/stat", None),
            ("/a\tb", None),
            ("git", Some(Word("git"))),
            ("mkfs.ext4", Some(Word("mkfs.ext4"))),
            ("iptables-save", Some(Word("iptables-save"))),
            ("g++", Some(Word("g++"))),
            ("MY_HOME", Some(Word("MY_HOME"))),
            ("_x", Some(Word("_x"))),
            ("x", None),
            ("-k", None),
            (".so", None),
            ("a/b", None),
            ("iptables -w", Some(CommandWord("iptables"))),
            ("iptables ", None),
            ("iptables  \n", None),
            ("sh -c 'a | b'\n", Some(CommandWord("sh"))),
            ("open %s: %v", Some(CommandWord("open"))),
            ("no\u{a0}blank", None),
            ("caf\u{e9} au lait", None),
            (" x y", None),
            ("", None),
        ] {
            assert_eq!(StringShape::of(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!(StringShape::of(b"ab\xff"), None);
        assert_eq!(StringShape::of(b"ab cd\x01"), None);
        assert_eq!(StringShape::of("a".repeat(65).as_bytes()), None);
        assert!(StringShape::of("a".repeat(64).as_bytes()).is_some());
    }
}
