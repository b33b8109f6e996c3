//! Manifests as a whole.

mod corpus;
mod golden;
mod hostile;
mod images;
mod refusals;

use super::{Command, Judged, NoImages, Options, Outcome, Template, judge};
use crate::examine::{KlogStyle, LogChoice};

fn options(logs: LogChoice) -> Options<'static> {
    Options { logs, klog_style: KlogStyle::Auto, template: Template::Rendered, images: &NoImages }
}

/// A pod with one container, whose members these lines are.
fn pod(lines: &str) -> String {
    let lines: String = lines.lines().flat_map(|line| ["    ", line, "\n"]).collect();
    format!("kind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: c\n{lines}")
}

fn judged(text: &str) -> Judged {
    judge(text, &options(LogChoice::Auto)).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The rules that refused, and whether the text stayed as it was.
fn refused(text: &str, judged: &Judged) -> Vec<&'static str> {
    if judged.commands.iter().all(|command| !matches!(command.outcome, Outcome::Changed(_))) {
        assert_eq!(judged.text, text, "nothing changed, so the text is the same");
    }
    judged.commands.iter().filter_map(rule).collect()
}

fn rule(command: &Command) -> Option<&'static str> {
    match &command.outcome {
        Outcome::Refused(why) => Some(why.rule.id()),
        _ => None,
    }
}
