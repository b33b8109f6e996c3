//! Placeholders in a command: they may stand where it is known how many words they are.

use super::template::{Hidden, Stands};
use super::why::{Remark, Why};
use crate::policy::Rule;
use crate::shell::{ExecCommand, Reason};

const PART: &str = "stands for several words, and is part of one here";

/// Refuses a command in which a placeholder could change what is started.
pub(super) fn check(hidden: &Hidden, before: &[String], exec: &ExecCommand) -> Result<(), Why> {
    let refuse = |placeholder: &str, detail: &str| {
        Err(Why::new(Rule::Shell(Reason::UnrenderedTemplate), format!("{placeholder} {detail}")))
    };
    for word in before {
        for (range, placeholder, stands) in hidden.within(word) {
            let front = word.get(..range.start).and_then(|text| text.chars().next_back());
            let back = word.get(range.end..).and_then(|text| text.chars().next());
            match stands {
                Stands::Unknown => {
                    return refuse(placeholder, "is no placeholder of which is known what it stands for");
                }
                Stands::Several if front.iter().chain(&back).any(|c| !c.is_whitespace()) => {
                    return refuse(placeholder, PART);
                }
                Stands::Several | Stands::OneWord => {}
            }
        }
    }
    let values = exec.environment.iter().map(|(_, value)| value);
    let others = values.chain(&exec.workdir).chain(exec.log.iter().map(|log| &log.path));
    let several = |word: &String| hidden.within(word).into_iter().find(|(_, _, stands)| *stands == Stands::Several);
    if let Some((_, placeholder, _)) = others.chain(&exec.init).find_map(several) {
        return refuse(placeholder, PART);
    }
    let is_part = |word: &&String| several(word).is_some_and(|(range, ..)| range != (0..word.len()));
    if let Some((_, placeholder, _)) = exec.program.iter().find(is_part).and_then(several) {
        return refuse(placeholder, PART);
    }
    match exec.program.first().map(|word| hidden.within(word)).unwrap_or_default().first() {
        Some((_, placeholder, _)) => refuse(placeholder, "decides which program is started"),
        None => Ok(()),
    }
}

/// What a list of words that becomes an item asks of whoever fills it in.
pub(super) fn remarks(hidden: &Hidden, exec: &ExecCommand) -> Vec<Remark> {
    let several = exec.program.iter().flat_map(|word| hidden.within(word));
    let several = several.filter(|(_, _, stands)| *stands == Stands::Several).map(|(_, placeholder, _)| {
        let message =
            format!("{placeholder} stood for several words: what fills it in must give one item of the list for each");
        Remark::new(Rule::PlaceholderIsList, message)
    });
    several.collect()
}
