//! The health check without its shell.

use serde_json::{Value, json};

use super::command::{Translator, working_dir};
use crate::process::Container;
use shell::{self, ExecCommand, ExitStatusUse, Note, Refusal, Verdict};

#[derive(Debug, Clone, Default)]
pub enum HealthOutcome {
    #[default]
    Unchanged,
    /// With notes on the words that were looked up among the files.
    Translated(Vec<Note>),
    Refused(Box<Refusal>),
}

/// Rewrites a shell-form test to exec form, where its shell is not in the rebased root.
pub(super) fn translate(container: &mut Container, translator: &Translator<'_>) -> HealthOutcome {
    let Some(argv) = argv(container) else { return HealthOutcome::Unchanged };
    if translator.starts_as_it_is(container, &argv) {
        return HealthOutcome::Unchanged;
    }
    match translator.meaning(container, &argv, ExitStatusUse::ZeroOrNot).0 {
        Verdict::Unchanged(_) if translator.is_stuck_script(container, &argv) => stuck(&argv),
        Verdict::Unchanged(_) => HealthOutcome::Unchanged,
        Verdict::Refuse(refusal) => HealthOutcome::Refused(refusal),
        Verdict::Translate(meaning) => match words(&meaning, container) {
            Some(words) if translator.is_stuck_script(container, &words) => stuck(&words),
            Some(words) => {
                set_test(container, words);
                let is_worth = |note: &Note| matches!(note, Note::WildcardUnmatched(_) | Note::WildcardKept(_));
                HealthOutcome::Translated(meaning.notes.into_iter().filter(is_worth).collect())
            }
            None => HealthOutcome::Refused(Box::new(shell::refuse_side_effects(&argv))),
        },
    }
}

fn stuck(argv: &[String]) -> HealthOutcome {
    HealthOutcome::Refused(Box::new(shell::refuse_script(argv)))
}

/// The words that a runtime executes for the test.
fn argv(container: &Container) -> Option<Vec<String>> {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let test = texts(container.members.get("Healthcheck")?.get("Test")?);
    let (kind, words) = test.split_first()?;
    match kind.as_str() {
        "CMD" => Some(words.to_vec()),
        "CMD-SHELL" => {
            let shell = container.members.get("Shell").map(texts).filter(|shell| !shell.is_empty());
            let shell = shell.unwrap_or_else(|| vec!["/bin/sh".to_owned(), "-c".to_owned()]);
            Some(shell.into_iter().chain(words.iter().cloned()).collect())
        }
        _ => None,
    }
}

/// A test has no variables of its own, and starts in the container's working directory. What it prints is kept by the
/// runtime, so a redirection to nowhere can go.
fn words(meaning: &ExecCommand, container: &Container) -> Option<Vec<String>> {
    let is_quiet = meaning.log.as_ref().is_none_or(|log| log.path == "/dev/null");
    let is_there = meaning.workdir.as_ref().is_none_or(|directory| *directory == working_dir(container));
    let is_plain = meaning.environment.is_empty() && is_there && is_quiet;
    is_plain.then(|| meaning.argv())
}

fn set_test(container: &mut Container, words: Vec<String>) {
    let test: Vec<Value> = std::iter::once("CMD".to_owned()).chain(words).map(Value::from).collect();
    if let Some(Value::Object(check)) = container.members.get_mut("Healthcheck") {
        check.insert("Test".to_owned(), json!(test));
    }
}
