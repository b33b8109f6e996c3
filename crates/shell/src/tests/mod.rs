//! Tables over the whole of the module.

mod corpus;
mod hostile;
mod refusals;
mod translations;

use super::{CommandContext, Declared, Frozen, ImageContext, Programs, Verdict, translate};

fn words<S: AsRef<str>>(argv: &[S]) -> Vec<String> {
    argv.iter().map(|word| word.as_ref().to_owned()).collect()
}

fn image() -> CommandContext {
    CommandContext::Image(ImageContext::default())
}

/// A container that declares these names, each one plain word.
fn container(names: &[&str]) -> CommandContext {
    let declared = names.iter().map(|name| ((*name).to_owned(), Declared::OneWord)).collect();
    CommandContext::Container { declared, frozen: Frozen::default(), programs: Programs::Unknown }
}

/// `sh -c SCRIPT` in an image.
fn sh(script: &str) -> Verdict {
    translate(&words(&["sh", "-c", script]), None, &image())
}

fn bash(script: &str) -> Verdict {
    translate(&words(&["bash", "-c", script]), None, &image())
}
