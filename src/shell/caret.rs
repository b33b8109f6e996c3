//! The line of a script with a mark under the construct that a refusal is about.

use super::reason::Refusal;
use crate::error::printable;

/// How much of a long line is shown before and behind.
const BEFORE: usize = 50;
const BEHIND: usize = 40;
const LONGEST_MARK: usize = 30;

/// Two lines: the text, and the mark. `None` where there is nothing to point at.
#[must_use]
pub fn caret(refusal: &Refusal) -> Option<[String; 2]> {
    let (text, span) = (refusal.text.as_str(), refusal.span);
    if span.end <= span.start {
        return None;
    }
    let before = text.get(..span.start)?;
    let line = before.rfind('\n').map_or(0, |at| at + 1);
    let end = text.get(span.start..)?.find('\n').map_or(text.len(), |at| span.start + at);
    let front: Vec<char> = text.get(line..span.start)?.chars().collect();
    let marked = text.get(span.start..span.end.min(end))?;
    let rest: Vec<char> = text.get(span.start..end)?.chars().collect();
    let cut = front.len().saturating_sub(BEFORE);
    let front = shown(if cut > 0 { "..." } else { "" }, front.get(cut..)?);
    let kept = rest.get(..BEHIND.min(rest.len()))?;
    let tail = if kept.len() < rest.len() { "..." } else { "" };
    let width = printable(marked).chars().count().clamp(1, LONGEST_MARK);
    let mark = format!("{}{}", " ".repeat(front.chars().count()), "^".repeat(width));
    Some([format!("{front}{}{tail}", shown("", kept)), mark])
}

fn shown(start: &str, text: &[char]) -> String {
    format!("{start}{}", printable(&text.iter().collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::super::reason::{Reason, Span};
    use super::*;

    fn drawn(text: &str, start: usize, end: usize) -> Option<String> {
        let refusal = Refusal {
            reason: Reason::Glob,
            detail: String::new(),
            word: 0,
            span: Span::new(start, end),
            text: text.to_owned(),
        };
        caret(&refusal).map(|lines| lines.join("\n"))
    }

    #[test]
    fn the_mark_stands_under_the_construct() {
        for (text, start, end, expected) in [
            ("cp a* b", 4, 5, "cp a* b\n    ^"),
            ("x\ncp a* b\ny", 6, 7, "cp a* b\n    ^"),
            ("é | b", 3, 4, "é | b\n  ^"),
            ("a\tb|c", 3, 4, "a\\tb|c\n    ^"),
            ("a; b\nc", 3, 6, "a; b\n   ^"),
            ("a $(b)", 2, 6, "a $(b)\n  ^^^^"),
        ] {
            assert_eq!(drawn(text, start, end).as_deref(), Some(expected), "{text:?}");
        }
        let long = format!("{}|{}", "a".repeat(500), "b".repeat(500));
        let lines = drawn(&long, 500, 501).unwrap();
        assert!(lines.len() < 200 && lines.starts_with("...aaa") && lines.contains("b..."), "{lines}");
    }

    #[test]
    fn nothing_is_pointed_at_where_there_is_nothing() {
        assert_eq!(drawn("abc", 0, 0), None);
        assert_eq!(drawn("é", 1, 2), None);
        assert_eq!(drawn("a", 5, 9), None);
    }
}
