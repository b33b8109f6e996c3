//! Text of an image, as text of a page.

use oci::error::printable;

/// `text` for the inside of an element or a quoted attribute: text from an image stays text. What is not seen as it is
/// is shown as an escape.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// The same with the line feeds that we set ourselves, as in the caret below a command.
pub(super) fn escaped_lines(text: &str) -> String {
    text.split('\n').map(escaped).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_of_an_image_becomes_markup() {
        assert_eq!(escaped("<a href=\"x\">'&'"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;");
        assert_eq!(escaped("a\u{0}\u{1b}[m\nb\u{ffff}"), "a\\u{0}\\u{1b}[m\\nb\\u{ffff}");
        assert_eq!(escaped_lines("a<\n^"), "a&lt;\n^");
    }
}
