//! Line and column of a byte, as people and editors count them: both from one, columns in characters.

use super::tree::{Kind, Node, Style};
use crate::error::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl Position {
    #[must_use]
    pub fn of(text: &str, at: usize) -> Self {
        let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
        let line = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let column = text.get(line..at).map_or(0, |part| part.chars().count());
        let breaks = before.split(|byte| *byte == b'\n').count();
        Self { line: breaks, column: column + 1 }
    }

    /// The error with this place among its facts.
    pub(super) fn on(self, error: Error) -> Error {
        error.fact("line", self.line).fact("column", self.column)
    }
}

/// Positions of many bytes of one text, without counting its lines anew for each.
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub fn new(text: &'a str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self { text, starts: std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect() }
    }

    pub fn position(&self, at: usize) -> Position {
        let line = self.starts.partition_point(|start| *start <= at).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or(0);
        let column = self.text.get(start..at).map_or(0, |part| part.chars().count());
        Position { line, column: column + 1 }
    }
}

/// The byte of the manifest that byte `at` of a scalar's text comes from; the beginning of the
/// scalar where that is not plain to see.
pub(super) fn within(source: &str, node: &Node, at: usize) -> usize {
    let Kind::Scalar { text, style } = &node.kind else { return node.range.start };
    let start = node.range.start;
    match style {
        Style::Plain if source.get(node.range.clone()) == Some(text) => start + at,
        Style::Single | Style::Double
            if source.get(start + 1..node.range.end.saturating_sub(1)) == Some(text.as_str()) =>
        {
            start + 1 + at
        }
        Style::Literal => literal(source, start, text, at).unwrap_or(start),
        _ => start,
    }
}

/// In a literal block each line of the text is one of the manifest, behind the same indentation.
fn literal(source: &str, start: usize, text: &str, at: usize) -> Option<usize> {
    let line_start = source.get(..start)?.rfind('\n')? + 1;
    let indentation = start - line_start;
    if text.starts_with([' ', '\n']) {
        return None;
    }
    let before = text.get(..at)?;
    let line = before.matches('\n').count();
    let column = before.len() - before.rfind('\n').map_or(0, |end| end + 1);
    let mut begins = line_start;
    for _ in 0..line {
        begins += source.get(begins..)?.find('\n')? + 1;
    }
    let found = begins + indentation + column;
    let wanted = text.get(at..)?.chars().next();
    (source.get(found..)?.chars().next() == wanted).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_and_in_characters() {
        for (text, at, line, column) in [("", 0, 1, 1), ("a\nbc", 3, 2, 2), ("é x", 3, 1, 3), ("a\r\nb", 3, 2, 1)] {
            assert_eq!(Position::of(text, at), Position { line, column }, "{text:?}");
        }
        assert_eq!(Position::of("a\n", 99).line, 2, "behind the end");
    }
}
