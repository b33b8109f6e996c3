//! What became of manifests, as SARIF 2.1.0: one result for each refusal and, where changes should
//! have been made already, for each change.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{File, Mode, title};
use crate::kube::{Outcome, Position};

/// The rule of a change that should have been made.
const CHANGE: &str = "shell-form";

#[must_use]
pub fn to_sarif(files: &[File], mode: Mode) -> Value {
    let results: Vec<Value> = files.iter().flat_map(|file| of_file(file, mode)).collect();
    let rules: BTreeSet<&str> = results.iter().filter_map(|result| result["ruleId"].as_str()).collect();
    let rules: Vec<Value> = rules.iter().map(|rule| json!({"id": rule})).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "underpin",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn of_file(file: &File, mode: Mode) -> Vec<Value> {
    let start = Position { line: 1, column: 1 };
    let judged = match &file.result {
        Ok(judged) => judged,
        Err(error) => return vec![result(file, "unreadable", "error", error.what(), start)],
    };
    let whole = judged.refused.iter().map(|(why, at)| result(file, why.rule.word(), "error", &why.detail, *at));
    let commands = judged.commands.iter().filter_map(|command| {
        let say = |what: &str| format!("{}: {what}", title(command));
        match &command.outcome {
            Outcome::Refused(why) => Some(result(file, why.rule.word(), "error", &say(&why.detail), command.position)),
            Outcome::Changed(_) if mode == Mode::Check => Some(result(
                file,
                CHANGE,
                "warning",
                &say("a shell starts the program, and it need not"),
                command.position,
            )),
            _ => None,
        }
    });
    whole.chain(commands).collect()
}

fn result(file: &File, rule: &str, level: &str, message: &str, at: Position) -> Value {
    json!({
        "ruleId": rule,
        "level": level,
        "message": {"text": message},
        "locations": [{"physicalLocation": {
            "artifactLocation": {"uri": uri(&file.path)},
            "region": {"startLine": at.line, "startColumn": at.column},
        }}],
    })
}

/// A path as a relative URI.
fn uri(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    path.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_uris() {
        assert_eq!(uri("a/b c%é.yaml"), "a/b%20c%25%C3%A9.yaml");
    }
}
