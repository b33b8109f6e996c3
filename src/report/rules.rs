//! Rules explained: what `explain` prints, and the explanations that the other formats embed.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::rules::{Allowing, Family, Level, Rule};

/// Lines of text are at most this wide, as those of `--help` are.
const WIDTH: usize = 100;

/// All of one rule, for people.
#[must_use]
pub fn explained(rule: Rule) -> String {
    let row = rule.row();
    let mut out = format!("{rule} ({})\n\n", standing(rule));
    paragraph(&mut out, "", row.means);
    out.push('\n');
    paragraph(&mut out, "Why      ", row.why);
    for (at, line) in row.example.lines().enumerate() {
        let _ = writeln!(out, "{}{line}", if at == 0 { "Example  " } else { "         " });
    }
    paragraph(&mut out, "Fix      ", &fix_sentence(rule));
    out
}

/// Every rule by family, each with one sentence.
#[must_use]
pub fn listed() -> String {
    let width = Rule::all().map(|rule| rule.id().len()).max().unwrap_or(0);
    let mut out = String::new();
    for family in Family::ALL {
        let _ = writeln!(out, "{}:", family.title());
        for rule in Rule::of_family(family) {
            paragraph(&mut out, &format!("  {:width$}  ", rule.id()), first_sentence(rule.row().means));
        }
        out.push('\n');
    }
    out.push_str("`underpin explain RULE` says more about one of them.\n");
    out
}

/// The object of `docs/reports.md`. Keys may be added, never changed.
#[must_use]
pub fn rules_to_json(rules: impl Iterator<Item = Rule>) -> Value {
    let one = |rule: Rule| {
        let row = rule.row();
        json!({
            "rule": row.id,
            "family": row.family.word(),
            "title": row.family.title(),
            "levels": row.levels,
            "allow": row.allowing == Allowing::ByUser,
            "means": row.means,
            "why": row.why,
            "example": row.example,
            "fix": fix_sentence(rule),
        })
    };
    json!({"schema": "underpin.explain/v1", "rules": rules.map(one).collect::<Vec<_>>()})
}

/// Where to read on, once something was refused; nothing where nothing was.
#[must_use]
pub(super) fn explain_hint(refused: impl IntoIterator<Item = Rule>) -> String {
    let first = refused.into_iter().next();
    first.map(|rule| format!("hint: `underpin explain {rule}` says more\n")).unwrap_or_default()
}

/// What findings of the rule do: `refuse, warn; can be allowed`.
fn standing(rule: Rule) -> String {
    let row = rule.row();
    let levels = row.levels.iter().map(|level| level.word()).collect::<Vec<_>>().join(", ");
    match row.allowing {
        Allowing::ByUser => format!("{levels}; can be allowed with --allow {rule}"),
        Allowing::Never if row.levels.contains(&Level::Refuse) => format!("{levels}; cannot be allowed"),
        Allowing::Never => levels,
    }
}

/// The fix as a sentence of its own.
pub(super) fn fix_sentence(rule: Rule) -> String {
    let mut letters = rule.fix().chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

fn first_sentence(text: &str) -> &str {
    let end = text.find(". ").or_else(|| text.find(": ")).unwrap_or(text.len());
    text.get(..end).unwrap_or(text).trim_end_matches('.')
}

/// The text in lines, the first one after `lead`, the others below where it began.
fn paragraph(out: &mut String, lead: &str, text: &str) {
    let indent = lead.chars().count();
    let mut line = lead.to_owned();
    let mut is_empty = true;
    for word in text.split(' ') {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(out, "{line}");
            line = " ".repeat(indent);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    let _ = writeln!(out, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_fits_the_screen_and_a_minute() {
        for rule in Rule::all() {
            let text = explained(rule);
            assert!(text.lines().count() <= 20, "{text}");
            let is_wide = |line: &&str| line.chars().count() > WIDTH + 20;
            assert_eq!(text.lines().find(is_wide), None, "{rule}");
            for part in ["\nWhy      ", "\nExample  ", "\nFix      "] {
                assert!(text.contains(part), "{text}");
            }
        }
    }

    #[test]
    fn the_list_has_every_rule() {
        let list = listed();
        for rule in Rule::all() {
            assert!(list.contains(&format!("\n  {rule} ")), "{rule}\n{list}");
        }
    }

    #[test]
    fn text_is_broken_between_words_and_stays_below_its_beginning() {
        let mut out = String::new();
        paragraph(&mut out, "ab  ", &["word"; 30].join(" "));
        assert!(out.lines().all(|line| line.len() <= WIDTH) && out.contains("\n    word"), "{out}");
        assert_eq!(out.matches("word").count(), 30);
    }
}
