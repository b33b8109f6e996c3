//! A command that a message tells its reader to run.
//!
//! The rule this file owns: what is printed between the backticks can be pasted into a shell as it is, but for words
//! in capitals (`TARGET`, `FILE`), which stand for what only the reader knows.

use std::fmt;

/// `underpin` with its words, each of which reaches it as one argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine(Vec<String>);

impl CommandLine {
    #[must_use]
    pub fn underpin(command: &str) -> Self {
        Self(vec!["underpin".to_owned(), command.to_owned()])
    }

    #[must_use]
    pub fn arg(mut self, word: impl fmt::Display) -> Self {
        self.0.push(word.to_string());
        self
    }

    /// A flag with its value.
    #[must_use]
    pub fn flag(self, name: &str, value: impl fmt::Display) -> Self {
        self.arg(name).arg(value)
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(|word| typed_word(word)).collect();
        write!(f, "`{}`", words.join(" "))
    }
}

/// A word as it is typed in a shell.
#[must_use]
pub fn typed_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_can_be_typed() {
        let command = CommandLine::underpin("rebase").arg("oci:my images:v1").flag("--base", "a.io/b@sha256:0");
        assert_eq!(command.to_string(), "`underpin rebase 'oci:my images:v1' --base a.io/b@sha256:0`");
        let quotes = CommandLine::underpin("exceptions").flag("--reason", "it isn't; $HOME `id`");
        assert_eq!(quotes.to_string(), r"`underpin exceptions --reason 'it isn'\''t; $HOME `id`'`");
        assert_eq!(typed_word(""), "''");
    }
}
