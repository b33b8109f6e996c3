//! Colours: the one place that has them.
//!
//! Finished lines are painted by the word that they begin with, so that no text depends on colour: without it every
//! word is still there.

use std::io::IsTerminal;

use clap::ValueEnum;

/// When the text for people is coloured
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set or the terminal is a dumb one
    #[default]
    Auto,
    Always,
    Never,
}

impl ColorChoice {
    /// What the words of a command line ask for, where they could not be parsed.
    pub(super) fn among(words: impl Iterator<Item = String>) -> Self {
        let words: Vec<String> = words.take_while(|word| word != "--").collect();
        let joined = words.iter().filter_map(|word| word.strip_prefix("--color="));
        let apart = words.windows(2).filter(|pair| matches!(pair, [flag, _] if flag == "--color"));
        let given = joined.chain(apart.filter_map(|pair| pair.get(1).map(String::as_str))).next_back();
        given.and_then(|word| Self::from_str(word, false).ok()).unwrap_or_default()
    }

    pub(super) fn for_stream(self, stream: &impl IsTerminal) -> Paint {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = || std::env::var_os("TERM").is_none_or(|terminal| terminal == "dumb");
        match self {
            Self::Always => Paint::Coloured,
            Self::Auto if stream.is_terminal() && !is_set("NO_COLOR") && !is_dumb() => Paint::Coloured,
            Self::Auto | Self::Never => Paint::Plain,
        }
    }
}

impl From<ColorChoice> for clap::ColorChoice {
    fn from(choice: ColorChoice) -> Self {
        match choice {
            ColorChoice::Auto => Self::Auto,
            ColorChoice::Always => Self::Always,
            ColorChoice::Never => Self::Never,
        }
    }
}

/// Whether what goes to a stream has colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paint {
    Plain,
    Coloured,
}

const BAD: &str = "1;31";
const ODD: &str = "1;33";
const GOOD: &str = "1;32";
const ASIDE: &str = "36";

/// The words that lines begin with, without a colon: verdicts, and what a line is.
const WORDS: [(&str, &[&str]); 4] = [
    (BAD, &["error", "refused", "failed"]),
    (ODD, &["warning", "excepted", "to-change", "interrupted"]),
    (GOOD, &["rebased", "verified", "passed", "started", "copied", "translated", "changed", "unchanged"]),
    (ASIDE, &["hint", "cause", "note"]),
];
/// The levels of findings.
const LEVELS: [(&str, &[&str]); 3] = [(BAD, &["refuse"]), (ODD, &["warn", "excepted"]), (ASIDE, &["note"])];

impl Paint {
    /// A text of finished lines.
    pub(super) fn text(self, text: &str) -> String {
        self.lines(text, marked)
    }

    /// A unified diff.
    pub(super) fn diff(self, text: &str) -> String {
        self.lines(text, |line| Some((line, diff_colour(line)?)))
    }

    fn lines<'t>(self, text: &'t str, mark: impl Fn(&'t str) -> Option<(&'t str, &'static str)>) -> String {
        if self == Self::Plain {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len() + 64);
        for line in text.split_inclusive('\n') {
            let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
            match mark(line).and_then(|(part, colour)| Some((line.split_once(part)?, part, colour))) {
                Some(((front, rest), part, colour)) => {
                    out.extend([front, "\u{1b}[", colour, "m", part, "\u{1b}[0m", rest, end]);
                }
                None => out.extend([line, end]),
            }
        }
        out
    }
}

/// The part of a line that says what it is about, and its colour.
fn marked(line: &str) -> Option<(&str, &'static str)> {
    let in_table = |word: &str, table: &[(&'static str, &[&str])]| {
        table.iter().find(|(_, words)| words.contains(&word)).map(|(colour, _)| *colour)
    };
    if let Some(finding) = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')) {
        let (level, _) = finding.split_once(" [")?;
        return in_table(level, &LEVELS).map(|colour| (level, colour));
    }
    let word = line.split(' ').next().unwrap_or_default();
    if let Some(colour) = in_table(word.trim_end_matches(':'), &WORDS) {
        return Some((word, colour));
    }
    // A row of a table has its verdict in the second column.
    let (_, cells) = line.split_once("  ").filter(|(name, _)| !name.is_empty())?;
    let word = cells.trim_start().split("  ").next()?;
    in_table(word, &WORDS).map(|colour| (word, colour))
}

fn diff_colour(line: &str) -> Option<&'static str> {
    match line.as_bytes().first() {
        _ if line.starts_with("+++ ") || line.starts_with("--- ") => Some("1"),
        Some(b'+') => Some("32"),
        Some(b'-') => Some("31"),
        Some(b'@') => Some("36"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text with colours as `<31>word<0>`.
    fn seen(text: &str) -> String {
        Paint::Coloured.text(text).replace("\u{1b}[", "<").replace('m', ">").replace("<0>", "</>")
    }

    #[test]
    fn verdicts_and_levels_have_colours_and_every_word_is_still_there() {
        for (line, expected) in [
            ("error: no", "<1;31>error:</> no"),
            ("hint: a", "<36>hint:</> a"),
            ("rebased  oci:r:a", "<1;32>rebased</>  oci:r:a"),
            ("  refuse [needs-root] error: x", "  <1;31>refuse</> [needs-root] error: x"),
            ("  warn [a] b", "  <1;33>warn</> [a] b"),
            ("oci:a  refused  3 B", "oci:a  <1;31>refused</>  3 B"),
            ("refusedly refused", "refusedly refused"),
            ("  layers    1 kept", "  layers    1 kept"),
            ("         error: evidence of an i-age", "         error: evidence of an i-age"),
            ("a refused b", "a refused b"),
            ("", ""),
        ] {
            assert_eq!(seen(line), expected);
            assert_eq!(Paint::Plain.text(line), line);
        }
        assert_eq!(seen("note: a\n\nerror: b\n"), "<36>note:</> a\n\n<1;31>error:</> b\n");
    }

    #[test]
    fn a_diff_has_the_colours_of_its_lines() {
        let text = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n";
        let painted = Paint::Coloured.diff(text);
        assert!(painted.contains("\u{1b}[31m-a\u{1b}[0m\n\u{1b}[32m+b\u{1b}[0m\n c\n"), "{painted:?}");
        assert_eq!(Paint::Plain.diff(text), text);
    }

    #[test]
    fn the_choice_is_read_from_words_that_make_no_sense_otherwise() {
        let among = |line: &str| ColorChoice::among(line.split(' ').map(str::to_owned));
        assert_eq!(among("underpin plan --color never --x"), ColorChoice::Never);
        assert_eq!(among("underpin --color=always --x"), ColorChoice::Always);
        assert_eq!(among("underpin translate -- --color never"), ColorChoice::Auto);
        assert_eq!(among("underpin --color"), ColorChoice::Auto);
    }
}
