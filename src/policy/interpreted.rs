//! The rule about programs that an interpreter runs: the result must have it, in a version that their packages are for,
//! and it must be able to load their native extensions.

use crate::plan::{BringOffer, BringScene, Offering, Pass};
use crate::process::{Interpreted, InterpreterNow, ScriptLanguage, StuckExtension};
use crate::rules::{Finding, Level, Rule};
use layer::RootPath;

/// Extensions that have a finding of their own; the others are counted in the last.
const NAMED: usize = 10;

pub(super) fn judge(pass: &Pass) -> Vec<Finding> {
    let Some(interpreted) = &pass.startup.interpreted else { return Vec::new() };
    let misfit = match &interpreted.now {
        InterpreterNow::Gone => Some(needs_interpreter(interpreted)),
        InterpreterNow::There { .. } if interpreted.is_for_another_version() => Some(other_version(interpreted)),
        InterpreterNow::There { path, .. } => unseen_packages(interpreted, path),
    };
    // With another version none of them would be loaded.
    let extensions = if misfit.is_some() { &[][..] } else { interpreted.extensions.as_slice() };
    misfit.into_iter().chain(judge_extensions(pass, interpreted, extensions)).collect()
}

/// Whether [`judge`] says what another rule would say of a lost program.
pub(super) fn speaks_of_loss(pass: &Pass) -> bool {
    pass.startup.interpreted.as_ref().is_some_and(|interpreted| interpreted.now == InterpreterNow::Gone)
}

fn wanted(interpreted: &Interpreted) -> String {
    interpreted.language.interpreter(interpreted.version.as_deref())
}

fn needs_interpreter(interpreted: &Interpreted) -> Finding {
    let (word, wanted) = (interpreted.language.word(), wanted(interpreted));
    Finding::new(
        Rule::NeedsInterpreter,
        Level::Refuse,
        format!("this is a {word} program; it needs a base with {wanted}"),
    )
    .about(interpreted.interpreter.to_string())
    .evidence(match &interpreted.elsewhere {
        Some(path) => format!("the source runs it with {}, which the new base has at {path}", interpreted.interpreter),
        None => format!("the source runs it with {}, and the new base has none", interpreted.interpreter),
    })
    .fix(match &interpreted.elsewhere {
        Some(path) => format!("let the command, and a virtual environment where there is one, use {path}"),
        None => format!("choose a --base with {wanted}, such as {}", example(interpreted.language)),
    })
}

/// Packages that are where another interpreter of the same version does not look.
fn unseen_packages(interpreted: &Interpreted, path: &RootPath) -> Option<Finding> {
    let Interpreted { language, unseen, interpreter, .. } = interpreted;
    let site = unseen.as_ref()?;
    let (word, before) = (language.word(), interpreter);
    let message = format!("{path} of the new base does not find the packages of this {word} program in {site}");
    Some(
        Finding::new(Rule::NeedsInterpreter, Level::Refuse, message)
            .about(interpreter.to_string())
            .evidence(format!("{before} of the source looks there of itself"))
            .fix(format!("pass --env PYTHONPATH={site}, or choose a --base whose interpreter is {before}")),
    )
}

fn other_version(interpreted: &Interpreted) -> Finding {
    let (word, wanted) = (interpreted.language.word(), wanted(interpreted));
    let (path, version) = match &interpreted.now {
        InterpreterNow::There { path, version } => (path.to_string(), version.as_deref()),
        InterpreterNow::Gone => (String::new(), None),
    };
    let now = match version {
        Some(_) => interpreted.language.interpreter(version),
        None => "a version that could not be told".to_owned(),
    };
    let shown_by = interpreted.installed.as_ref().map_or_else(
        || format!("the source runs it with {}", interpreted.interpreter),
        |installed| format!("{installed} is for {wanted}"),
    );
    let message = format!("this is a {word} program for {wanted}, and {path} of the new base is {now}");
    Finding::new(Rule::NeedsInterpreter, Level::Refuse, message)
        .about(interpreted.interpreter.to_string())
        .evidence(shown_by)
        .fix(match version {
            Some(_) => format!("choose a --base with {wanted}, or build the image for {now}"),
            None => format!("choose a --base with {wanted}"),
        })
}

const fn example(language: ScriptLanguage) -> &'static str {
    match language {
        ScriptLanguage::Python => "gcr.io/distroless/python3-debian12, which has python3.11",
        ScriptLanguage::Node => "gcr.io/distroless/nodejs22-debian12, which has node 22",
        ScriptLanguage::Java => "gcr.io/distroless/java21-debian12, which has java 21",
        ScriptLanguage::Ruby => "the slim image of that version of ruby",
    }
}

/// One finding each, so that each can be allowed.
fn judge_extensions(pass: &Pass, interpreted: &Interpreted, stuck: &[StuckExtension]) -> Vec<Finding> {
    if stuck.is_empty() {
        return Vec::new();
    }
    let roots = pass.draft.layers.roots(&pass.subject);
    let scene = BringScene::new(&roots, &pass.draft.container, &pass.subject);
    let more = stuck.len().saturating_sub(NAMED);
    let evidence = if more > 0 { format!("{more} more of its extensions cannot be loaded") } else { String::new() };
    let named = stuck.iter().take(NAMED);
    named.map(|extension| stuck_extension(extension, interpreted, &scene).evidence(evidence.clone())).collect()
}

fn stuck_extension(extension: &StuckExtension, interpreted: &Interpreted, scene: &BringScene<'_>) -> Finding {
    let StuckExtension { path, missing, library } = extension;
    let offer: Option<BringOffer> = library.as_ref().and_then(|library| scene.offer(library, Offering::Package));
    let bring = offer.map_or_else(|| "choose a --base that has it".to_owned(), |offer| format!("pass {offer}"));
    let (word, missing) = (interpreted.language.word(), missing.in_place("the rebased image"));
    Finding::new(
        Rule::NeedsLibrary,
        Level::Refuse,
        format!("{path}, an extension of {word}, cannot be loaded: {missing}"),
    )
    .about(path.to_string())
    .fix(format!("{bring}, or pass --allow needs-library={path} if it is never loaded"))
}
