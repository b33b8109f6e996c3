//! What became of manifests, for people.

use std::fmt::Write as _;

use super::{File, Mode, title};
use crate::error::printable;
use crate::kube::{Command, Outcome, Why};
use crate::shell::caret;

/// Everything that stays as it is and should not.
#[must_use]
pub fn refusals(files: &[File]) -> String {
    let mut out = String::new();
    for file in files {
        if let Ok(judged) = &file.result
            && let Some((why, at)) = &judged.refused
        {
            let _ = writeln!(out, "refused: {}:{}:{}: not a manifest yet", printable(&file.path), at.line, at.column);
            reason(&mut out, why);
        }
        for command in file.commands() {
            if let Outcome::Refused(why) = &command.outcome {
                let _ = writeln!(out, "refused: {}", head(file, command));
                reason(&mut out, why);
            }
        }
    }
    out
}

/// `file:line:column: Deployment/web, container app, command`.
fn head(file: &File, command: &Command) -> String {
    let at = command.position;
    format!("{}:{}:{}: {}", printable(&file.path), at.line, at.column, printable(&title(command)))
}

fn reason(out: &mut String, why: &Why) {
    let _ = writeln!(out, "  [{}] {}", why.rule, printable(&why.detail));
    for line in why.refusal.iter().filter_map(|refusal| caret(refusal)).flatten() {
        let _ = writeln!(out, "    {line}");
    }
    let _ = writeln!(out, "hint: {}", why.hint());
}

/// Everything there is to know about commands that change, or that stay for a reason.
#[must_use]
pub fn changes(files: &[File]) -> String {
    let mut out = String::new();
    for (file, command) in files.iter().flat_map(|file| file.commands().iter().map(move |command| (file, command))) {
        if let Outcome::Kept(why) = &command.outcome {
            let _ = writeln!(out, "note: {}", head(file, command));
            let _ = writeln!(out, "  [shell-kept] its shell is in the image: {}", printable(&why.detail));
        }
        if !command.remarks.is_empty() && !matches!(command.outcome, Outcome::Refused(_)) {
            let _ = writeln!(out, "note: {}", head(file, command));
            for remark in &command.remarks {
                let _ = writeln!(out, "  [{}] {}", remark.rule, printable(&remark.message));
            }
        }
    }
    out
}

/// One line.
#[must_use]
pub fn summary(files: &[File], mode: Mode) -> String {
    let count = |wanted: fn(&Outcome) -> bool| {
        files.iter().flat_map(File::commands).filter(|command| wanted(&command.outcome)).count()
    };
    let changed = count(|outcome| matches!(outcome, Outcome::Changed(_)));
    let refused = count(|outcome| matches!(outcome, Outcome::Refused(_)));
    let others = count(|outcome| matches!(outcome, Outcome::Unchanged | Outcome::Kept(_)));
    let done = if mode == Mode::Write { "translated" } else { "to translate" };
    format!("files {}, commands {changed} {done}, {refused} refused, {others} as they should be\n", files.len())
}
