//! Manifests as a whole.

mod corpus;
mod gce;
mod golden;
mod hostile;
mod images;
mod refusals;

use super::{KubeOptions, KubeOutcome, ManifestCommand, NoImages, RewrittenManifest, Template, rewrite};
use crate::plan::{KlogStyle, LogChoice};

fn options(logs: LogChoice) -> KubeOptions<'static> {
    KubeOptions { logs, klog_style: KlogStyle::Auto, template: Template::Rendered, images: &NoImages }
}

/// A pod with one container, whose members these lines are.
fn pod(lines: &str) -> String {
    let lines: String = lines.lines().flat_map(|line| ["    ", line, "\n"]).collect();
    format!("kind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: c\n{lines}")
}

fn rewritten(text: &str) -> RewrittenManifest {
    rewrite(text, &options(LogChoice::Auto)).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The rules that refused, and whether the text stayed as it was.
fn refused(text: &str, rewritten: &RewrittenManifest) -> Vec<&'static str> {
    if rewritten.commands.iter().all(|command| !matches!(command.outcome, KubeOutcome::Changed(_))) {
        assert_eq!(rewritten.text, text, "nothing changed, so the text is the same");
    }
    rewritten.commands.iter().filter_map(rule).collect()
}

fn rule(command: &ManifestCommand) -> Option<&'static str> {
    match &command.outcome {
        KubeOutcome::Refused(why) => Some(why.rule.id()),
        _ => None,
    }
}
