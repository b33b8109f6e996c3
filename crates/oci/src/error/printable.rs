//! Text from elsewhere, as people may see it: the one place that decides which characters are shown as escapes.
//!
//! The rule this file owns: nothing that an image, a registry or a file says can move a terminal's cursor, change the
//! order of what a person reads, or hide in it. A report calls [`printable`] on each value, because a line feed in a
//! value must not begin a line; whoever writes a finished text calls [`printable_lines`], or [`ascii_json`] for JSON,
//! so that a value somebody forgot is harmless, too.

use std::fmt::Write as _;

/// `text` with everything that is not seen as it is shown as an escape, line feeds included.
#[must_use]
pub fn printable(text: &str) -> String {
    escaped(text, |_| false)
}

/// The same for a text of several lines that is laid out already.
#[must_use]
pub fn printable_lines(text: &str) -> String {
    escaped(text, |c| matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, stays: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_deceptive(c) && !stays(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// A JSON document that means the same, where such characters are written as JSON's own escapes. Outside of its
/// strings JSON has none of them.
#[must_use]
pub fn ascii_json(document: &str) -> String {
    let mut out = String::with_capacity(document.len());
    for c in document.chars() {
        if is_deceptive(c) && !c.is_ascii_whitespace() {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Control characters; separators of lines and paragraphs; and what Unicode calls default-ignorable, which is not seen
/// at all: zero-width characters, marks and overrides of direction, tags, variation selectors, fillers; and what Unicode
/// calls no character, which no font has and XML forbids.
fn is_deceptive(c: char) -> bool {
    c.is_control()
        || is_noncharacter(c)
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The last two code points of each plane, and 32 more.
fn is_noncharacter(c: char) -> bool {
    u32::from(c) & 0xfffe == 0xfffe || matches!(c, '\u{fdd0}'..='\u{fdef}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_shown_and_what_is_seen_stays() {
        for hidden in [
            0x0, 0x7, 0xa, 0x1b, 0x7f, 0x85, 0x9b, 0xad, 0x61c, 0x200b, 0x200c, 0x200d, 0x200e, 0x200f, 0x2028, 0x2029,
            0x202a, 0x202e, 0x2060, 0x2066, 0x2069, 0xfdd0, 0xfeff, 0xfe0f, 0xfff9, 0xfffe, 0xffff, 0x1ffff, 0xe0001,
            0xe0041, 0xe007f, 0x10_ffff,
        ] {
            let text = format!("a{}b", char::from_u32(hidden).unwrap());
            let shown = printable(&text);
            assert!(shown.is_ascii() && shown.starts_with("a\\") && shown.ends_with('b'), "{hidden:x}: {shown}");
            let json: String = serde_json::from_str(&ascii_json(&serde_json::to_string(&text).unwrap())).unwrap();
            assert_eq!(json, text, "JSON stays the same data");
        }
        for plain in ["/usr/bin/app --v=2", "é ñ ß → … 中文 עברית العربية", "a\\b", "😀", "⚠"]
        {
            assert_eq!((printable(plain), printable_lines(plain)), (plain.to_owned(), plain.to_owned()));
        }
        assert_eq!(printable("a\n\tb"), "a\\n\\tb");
        assert_eq!(printable_lines("a\n\tb\rc"), "a\n\tb\\rc");
        assert_eq!(ascii_json("{\n\t\"a\": \"\u{e0041}\"\r\n}"), "{\n\t\"a\": \"\\udb40\\udc41\"\r\n}");
    }
}
