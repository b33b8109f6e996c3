//! The bytes around the name of a tool, and so whether the tool is meant.
//!
//! C ends every string with a NUL. Go puts strings side by side, those of one length together, so
//! that nothing marks where one ends: there a word counts unless it visibly goes on, as in
//! `bridge-nf-call-iptables is disabled` or `netlink/ipset_linux.go`. What the two neighbours of a
//! true word end and begin with is left to chance, and a few are missed for it.

/// Bytes after a word that say whether it goes on.
pub(super) const AFTER: usize = 3;
/// The longest directory before a word that is read.
const DIRECTORY: usize = 64;

/// Every way in which a name was seen so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an observation, and all combinations occur")]
pub(super) struct StringUses {
    /// In a program whose strings have an end: the whole string, or a command line with a flag.
    pub ended_word: bool,
    pub ended_line: bool,
    pub ended_path: bool,
    /// In a program whose strings have none.
    pub loose_word: bool,
    pub loose_path: bool,
}

impl StringUses {
    /// Looks around a word; `after` has [`AFTER`] bytes, or fewer at the end of the file.
    pub fn see(&mut self, before: &[u8], after: &[u8]) {
        let is_whole = after.first().is_none_or(|byte| *byte == 0);
        let is_line = matches!(after, [b' ', b'-', flag, ..] if !flag.is_ascii_whitespace());
        let (outside, directory) = before_directory(before);
        if outside.is_none_or(|byte| byte == 0) {
            self.ended_word |= directory.is_empty() && is_whole;
            self.ended_line |= directory.is_empty() && is_line;
            self.ended_path |= holds_programs(directory) && (is_whole || is_line);
        }
        if let Some(rest) = KNOWN.iter().find_map(|directory| before.strip_suffix(*directory)) {
            let is_next = after.first() == Some(&b'/');
            self.loose_path |= !leads_to_path(rest) && (is_next || !goes_on(after));
        } else {
            self.loose_word |= leaves_open(before) && !goes_on(after);
        }
    }
}

/// A path right after another string cannot be separated from it, so only these are accepted there.
const KNOWN: [&[u8]; 6] = [b"/usr/local/sbin/", b"/usr/local/bin/", b"/usr/sbin/", b"/usr/bin/", b"/sbin/", b"/bin/"];

/// What `before` ends with that may be a directory, and the byte before that.
fn before_directory(before: &[u8]) -> (Option<u8>, &[u8]) {
    let near = before.get(before.len().saturating_sub(DIRECTORY)..).unwrap_or(before);
    let is_directory = near.last() == Some(&b'/');
    let is_outside = |byte: &u8| !is_directory || !is_path(*byte);
    match near.iter().rposition(is_outside) {
        Some(at) => (near.get(at).copied(), near.get(at + 1..).unwrap_or_default()),
        None => (before.get(..before.len() - near.len()).and_then(<[u8]>::last).copied(), near),
    }
}

fn is_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/._-".contains(&byte)
}

fn holds_programs(directory: &[u8]) -> bool {
    directory.starts_with(b"/") && (directory.ends_with(b"/bin/") || directory.ends_with(b"/sbin/"))
}

/// Whether `before` can be the end of another string. Every Go program has `cs` with blanks up to the
/// length of `dnsmasq`, and before Go 1.20 that precedes it; text has one blank at a time.
fn leaves_open(before: &[u8]) -> bool {
    match before {
        [.., b' ', b' '] => true,
        [.., byte] => byte.is_ascii_graphic() && !b"./_-`'\"(<,*$\\#@|".contains(byte),
        [] => false,
    }
}

/// Whether `before` is text about a path. A path begins visibly, so other strings may end
/// in anything else.
fn leads_to_path(before: &[u8]) -> bool {
    before.last().is_none_or(|byte| b" `'\"(=|<\0".contains(byte))
}

/// Whether a word goes on. `iptables-save` does; `--wait` is another string.
fn goes_on(after: &[u8]) -> bool {
    match after {
        [b'-', b'-', ..] => false,
        [byte, ..] => !byte.is_ascii_graphic() || b"./_-`'\"():,;*\\@|".contains(byte),
        [] => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(before: &str, after: &str) -> Vec<&'static str> {
        let mut seen = StringUses::default();
        seen.see(before.as_bytes(), after.as_bytes());
        let StringUses { ended_word, ended_line, ended_path, loose_word, loose_path } = seen;
        let all = [
            (ended_word, "word"),
            (ended_line, "line"),
            (ended_path, "path"),
            (loose_word, "loose word"),
            (loose_path, "loose path"),
        ];
        all.into_iter().filter(|(is_so, _)| *is_so).map(|(_, name)| name).collect()
    }

    #[test]
    fn strings_with_an_end_are_whole_or_command_lines() {
        for (before, after, expected) in [
            ("x\0", "\0x", &["word"][..]),
            ("", "", &["word"]),
            ("x\0", " -L\0", &["line"]),
            ("x\0", " - lists", &[]),
            ("x\0", " is not there", &[]),
            ("x\0", "-save\0", &[]),
            ("no ", "\0", &[]),
            ("a", "\0", &[]),
            ("x\0/sbin/", "\0", &["path"]),
            ("x\0/opt/tools/bin/", " -L\0", &["path"]),
            ("x\0/etc/", "\0", &[]),
            ("x\0bin/", "\0", &[]),
            ("x\0see /sbin/", "\0", &[]),
            ("x\0/sbin/", "s.conf\0", &[]),
        ] {
            assert_eq!(seen(before, after), expected, "{before:?} {after:?}");
        }
    }

    #[test]
    fn strings_without_an_end_count_unless_they_visibly_go_on() {
        for (before, after, expected) in [
            ("cgocheckdeadlock", "no anode", &["loose word"][..]),
            ("tlsrsakexunknown%dBigEndian", "--version", &["loose word"]),
            ("execwaitOwnerUID=", "CPUShares", &["loose word"]),
            ("complexcpuprofcs     ", "fields.", &["loose word"]),
            ("    ", "  list and change", &[]),
            ("WARNING: bridge-nf-call-", " is disabled", &[]),
            ("github.com/coreos/go-iptables/", ".init", &[]),
            ("netlink/", "_linux.go", &[]),
            ("deadlock", "-save", &[]),
            ("allocated block", " currently", &[]),
            ("unable to locate ", "deadlock", &[]),
            ("\x0b", "AddDel\0", &[]),
            ("\0", "deadlock", &[]),
            ("deadlock/usr/sbin/", "/usr/bin", &["loose path"]),
            ("deadlock/usr/sbin/", "noanode", &["loose path"]),
            ("deadlock/sbin/", "noanode", &["loose path"]),
            ("ExecStartPost=/usr/bin/", " daemon-reload", &[]),
            ("see /usr/bin/", "deadlock", &[]),
            ("program |/bin/", "| takes", &[]),
            ("-thread limit\n/sbin/", "GC assist wait", &["loose path"]),
            ("deadlock/etc/", "noanode", &[]),
        ] {
            assert_eq!(seen(before, after), expected, "{before:?} {after:?}");
        }
    }
}
