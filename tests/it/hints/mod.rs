//! Every hint leads somewhere: the situation that prints it is made, and what the hint says is done, word for word.
//! That resolves the situation, or leads to the next true step.
//!
//! `inventory` finds all hints in the sources, and holds that each of them is tried here or is on its list of those
//! that are not. Commands stand between backticks and are taken from what was printed; flags likewise.

pub mod inventory;

mod administration;
mod building;
mod command_line;
mod files;
mod machine;
mod nodes;
mod old_base;
mod places;
mod refusals;
mod registry;

mod bases;
mod engines;
mod outdated;
mod pods;
mod starts;

use crate::support::invocation::{Invocation, Run};
use inventory::{Pattern, flags_of};

/// A hint as it was printed. Whoever has one does what it says.
#[must_use = "a hint that nobody follows is not tried"]
pub struct Advice {
    text: String,
}

/// The hint of a run that the sources write as `written`.
pub fn advice(run: &Run, written: &str) -> Advice {
    let pattern = Pattern::of(written);
    let printed = [&run.stdout, &run.stderr].into_iter().flat_map(|text| text.lines());
    let hints = printed.filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("hint: ").or_else(|| line.strip_prefix("fix: "))
    });
    let found = hints.into_iter().find(|hint| pattern.matches(hint));
    let text = found.unwrap_or_else(|| panic!("no hint `{written}`\n{run}")).to_owned();
    Advice { text }
}

/// The same for a hint that is put together elsewhere: `key` is where, as the inventory names it.
pub fn computed_advice(run: &Run, written: &str, key: &str) -> Advice {
    assert!(key.starts_with("src/"), "{key}");
    advice(run, written)
}

impl Advice {
    /// The words of the command between backticks, with what the reader fills in; `underpin` itself aside.
    pub fn command(self, filled_in: &[(&str, &str)]) -> Vec<String> {
        let start = self.text.find("`underpin").unwrap_or_else(|| panic!("no command: {}", self.text));
        let command = &self.text[start + 1..];
        let end = command.rfind('`').unwrap_or_else(|| panic!("no end: {}", self.text));
        // A reason may have backticks in it; what follows a command has none.
        let end = if command[..end].contains("--reason") { end } else { command.find('`').unwrap() };
        let words = typed(&command[..end]);
        words.into_iter().skip(1).map(|word| filled(word, filled_in)).collect()
    }

    /// A flag with its value, as the hint writes it, with what the reader fills in.
    pub fn flags(self, written: &str, filled_in: &[(&str, &str)]) -> Vec<String> {
        assert!(self.text.contains(written), "no `{written}`: {}", self.text);
        assert!(flags_of(written).next().is_some(), "no flag: {written}");
        typed(written).into_iter().map(|word| filled(word, filled_in)).collect()
    }

    /// The flag that begins like this, with the value that was printed for it.
    pub fn flag(self, name: &str) -> Vec<String> {
        let rest = self.text.split(&format!("{name} ")).nth(1).unwrap_or_else(|| panic!("no {name}: {}", self.text));
        let value = typed(rest).into_iter().next().unwrap_or_else(|| panic!("no value of {name}: {}", self.text));
        vec![name.to_owned(), value.trim_end_matches([',', ';']).to_owned()]
    }

    /// What is to be done is no command of underpin's: the test does it next. `said` is the part that tells to.
    pub fn by_hand(self, said: &str) {
        assert!(self.text.contains(said), "nothing of `{said}`: {}", self.text);
    }
}

fn filled(word: String, filled_in: &[(&str, &str)]) -> String {
    filled_in.iter().fold(word, |word, (blank, value)| word.replace(blank, value))
}

/// The words that a shell would make of it.
fn typed(text: &str) -> Vec<String> {
    let script = format!("for word in {text}; do printf '%s\\n' \"$word\"; done");
    let out = std::process::Command::new("sh").args(["-fc", &script]).output().unwrap();
    // The rest of a sentence need not be a command line: its first word will do.
    let text = if out.status.success() { String::from_utf8(out.stdout).unwrap() } else { text.replacen(' ', "\n", 1) };
    text.lines().map(str::to_owned).collect()
}

/// The same command line again, with more.
pub fn again(run: impl Fn() -> Invocation, more: &[String]) -> Run {
    run().args(more).run()
}

#[test]
fn what_a_hint_says_is_taken_from_what_was_printed() {
    let advice = |text: &str| Advice { text: text.to_owned() };
    let command = advice("do it: `underpin exceptions FILE --add x --reason 'it'\\''s `so`'`");
    assert_eq!(command.command(&[("FILE", "l.md")]), ["exceptions", "l.md", "--add", "x", "--reason", "it's `so`"]);
    let both = || advice("`underpin inspect IMAGE` lists them; pass --old-base layers:N, or --user 1:2, or not");
    assert_eq!(both().command(&[("IMAGE", "oci:a:b")]), ["inspect", "oci:a:b"]);
    assert_eq!(both().flags("--old-base layers:N", &[("N", "2")]), ["--old-base", "layers:2"]);
    assert_eq!(both().flag("--user"), ["--user", "1:2"]);
    assert!(std::panic::catch_unwind(|| both().flags("--old-base REF", &[])).is_err());
}
