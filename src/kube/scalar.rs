//! Words as scalars: which plain ones are text, and how a new word is written beside others.
//!
//! The rule it owns: a word is written so that readers of YAML 1.1 and 1.2 both get this text.

use std::fmt::Write as _;

use super::tree::{CollectionStyle, ScalarStyle};

/// The language of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Yaml,
    Json,
}

/// Words that some reader takes for null or for a truth value.
const NAMED: &[&str] = &["null", "true", "false", "yes", "no", "on", "off", "y", "n"];

/// Whether a plain scalar is a string to every reader.
pub(super) fn is_text(text: &str) -> bool {
    let is_named = NAMED.iter().any(|word| word.eq_ignore_ascii_case(text));
    !matches!(text, "" | "~" | "=" | "<<") && !is_named && !is_number(text) && !is_date(text)
}

fn is_number(text: &str) -> bool {
    let bare = text.strip_prefix(['+', '-']).unwrap_or(text);
    let lower = bare.to_ascii_lowercase().replace('_', "");
    if matches!(lower.as_str(), ".inf" | ".nan") {
        return true;
    }
    let prefixed = |prefix: &str, radix: u32| {
        lower.strip_prefix(prefix).is_some_and(|digits| !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix)))
    };
    if prefixed("0x", 16) || prefixed("0o", 8) || prefixed("0b", 2) {
        return true;
    }
    let begins = lower.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    is_sixty(&lower) || (begins && lower.parse::<f64>().is_ok())
}

/// Minutes and seconds of YAML 1.1: `1:30`.
fn is_sixty(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    let whole = text.split_once('.').map_or(text, |(whole, _)| whole);
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    whole.contains(':') && whole.split(':').all(digits) && fraction.chars().all(|c| c.is_ascii_digit())
}

/// `2001-01-01`, with or without a time.
fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let digits =
        |part: Option<&str>| part.is_some_and(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit()));
    text.len() >= 8
        && text.find('-') == Some(4)
        && digits(parts.next())
        && digits(parts.next())
        && parts.next().is_some_and(|day| day.starts_with(|c: char| c.is_ascii_digit()))
}

/// How the scalars around a new one are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScalarWriter {
    pub language: Language,
    pub style: ScalarStyle,
    pub layout: CollectionStyle,
}

impl ScalarWriter {
    /// `word` as it is written here.
    pub fn write(self, word: &str) -> String {
        match (self.language, self.style) {
            (Language::Json, _) | (_, ScalarStyle::Double) => double(word),
            (_, ScalarStyle::Single) => single(word).unwrap_or_else(|| double(word)),
            _ if is_plain(word, self.layout) => word.to_owned(),
            // Fewer escapes are easier to read.
            _ if word.contains(['"', '\\']) && !word.contains('\'') => single(word).unwrap_or_else(|| double(word)),
            _ => double(word),
        }
    }
}

/// Whether a plain scalar can hold it.
fn is_plain(word: &str, layout: CollectionStyle) -> bool {
    let is_indicator = |c: char| ",[]{}#&*!|>'\"%@`".contains(c);
    let is_odd_start = word.starts_with(is_indicator)
        || matches!(word, "-" | "?" | ":" | "---" | "...")
        || ["- ", "? ", ": "].iter().any(|start| word.starts_with(start));
    let breaks_off = word.contains(": ") || word.contains(" #") || word.ends_with(':');
    let in_flow = layout == CollectionStyle::Flow && word.contains([',', '[', ']', '{', '}', '?']);
    is_text(word)
        && !is_odd_start
        && !breaks_off
        && !in_flow
        && !word.starts_with(' ')
        && !word.ends_with(' ')
        && word.chars().all(|c| matches!(c, ' '..='~'))
}

fn single(word: &str) -> Option<String> {
    let is_printable = word.chars().all(|c| !c.is_control() && !is_odd(c));
    is_printable.then(|| format!("'{}'", word.replace('\'', "''")))
}

/// Escapes that JSON and YAML share.
fn double(word: &str) -> String {
    let mut out = String::from("\"");
    for c in word.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || is_odd(c) => drop(write!(out, "\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Characters that end lines or vanish for some readers.
fn is_odd(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_that_some_reader_takes_for_a_value_are_no_text() {
        for text in ["", "~", "null", "NULL", "True", "yes", "Off", "n", "1", "-1", "+1_000", "0x1F", "0o17", "0b1"] {
            assert!(!is_text(text), "{text}");
        }
        for text in
            ["1.5", ".5", "1e3", ".inf", "-.Inf", ".nan", "1:30", "190:20:30.15", "2001-01-01", "2001-1-1T00:00:00Z"]
        {
            assert!(!is_text(text), "{text}");
        }
        for text in
            ["sh", "-c", "--v=2", "1a", "0xZZ", "10m", "1.2.3", "a:b", "nully", "127.0.0.1:80", "inf", "nan", "v1"]
        {
            assert!(is_text(text), "{text}");
        }
    }

    #[test]
    fn new_words_are_written_as_their_neighbours_are() {
        let yaml = |style, layout| ScalarWriter { language: Language::Yaml, style, layout };
        for (word, block, flow, single, double) in [
            ("/app", "/app", "/app", "'/app'", "\"/app\""),
            ("--a=b,c", "--a=b,c", "\"--a=b,c\"", "'--a=b,c'", "\"--a=b,c\""),
            ("", "\"\"", "\"\"", "''", "\"\""),
            ("8080", "\"8080\"", "\"8080\"", "'8080'", "\"8080\""),
            ("a: b", "\"a: b\"", "\"a: b\"", "'a: b'", "\"a: b\""),
            ("a #b", "\"a #b\"", "\"a #b\"", "'a #b'", "\"a #b\""),
            ("{\"a\"}", "'{\"a\"}'", "'{\"a\"}'", "'{\"a\"}'", "\"{\\\"a\\\"}\""),
            ("it's", "it's", "it's", "'it''s'", "\"it's\""),
            ("a\nb", "\"a\\nb\"", "\"a\\nb\"", "\"a\\nb\"", "\"a\\nb\""),
            ("$(A)", "$(A)", "$(A)", "'$(A)'", "\"$(A)\""),
            ("\u{7f}é", "\"\\u007fé\"", "\"\\u007fé\"", "\"\\u007fé\"", "\"\\u007fé\""),
            ("-", "\"-\"", "\"-\"", "'-'", "\"-\""),
        ] {
            assert_eq!(yaml(ScalarStyle::Plain, CollectionStyle::Block).write(word), block);
            assert_eq!(yaml(ScalarStyle::Plain, CollectionStyle::Flow).write(word), flow);
            assert_eq!(yaml(ScalarStyle::Single, CollectionStyle::Block).write(word), single);
            assert_eq!(yaml(ScalarStyle::Double, CollectionStyle::Block).write(word), double);
            let json =
                ScalarWriter { language: Language::Json, style: ScalarStyle::Plain, layout: CollectionStyle::Flow }
                    .write(word);
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), word);
        }
    }
}
