//! The change of a manifest as a unified diff.

use similar::TextDiff;

use crate::error::printable;

/// Whether somebody looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// For programs: every byte as it is.
    Plain,
    /// For a terminal: nothing of the file moves its cursor.
    Safe,
    /// For a terminal that likes colours.
    Coloured,
}

const LINES_AROUND: usize = 3;

#[must_use]
pub fn unified(path: &str, before: &str, after: &str, paint: Paint) -> String {
    let diff = TextDiff::from_lines(before, after);
    let text =
        diff.unified_diff().context_radius(LINES_AROUND).header(&format!("a/{path}"), &format!("b/{path}")).to_string();
    match paint {
        Paint::Plain => text,
        Paint::Safe => text.lines().flat_map(|line| [shown(line), "\n".to_owned()]).collect(),
        Paint::Coloured => text.lines().map(coloured).collect(),
    }
}

fn shown(line: &str) -> String {
    line.split('\t').map(printable).collect::<Vec<_>>().join("\t")
}

fn coloured(line: &str) -> String {
    let colour = match line.as_bytes().first() {
        _ if line.starts_with("+++ ") || line.starts_with("--- ") => "1",
        Some(b'+') => "32",
        Some(b'-') => "31",
        Some(b'@') => "36",
        _ => return format!("{}\n", shown(line)),
    };
    format!("\u{1b}[{colour}m{}\u{1b}[0m\n", shown(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_colours_and_nothing_that_moves_its_cursor() {
        let plain = unified("f", "a\n\u{1b}x\n", "b\n\u{1b}x\n", Paint::Plain);
        assert_eq!(plain, "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+b\n \u{1b}x\n");
        let safe = unified("f", "a\n\u{1b}x\n", "b\n\u{1b}x\n", Paint::Safe);
        assert!(!safe.contains('\u{1b}') && safe.contains("-a\n+b\n"), "{safe}");
        let coloured = unified("f", "a\n\u{1b}x\n", "b\n\u{1b}x\n", Paint::Coloured);
        assert!(coloured.contains("\u{1b}[31m-a\u{1b}[0m\n\u{1b}[32m+b\u{1b}[0m\n \\u{1b}x\n"), "{coloured}");
    }
}
