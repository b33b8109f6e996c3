//! Moves an image with the real binary, starts it before and after, and says whether that is as it must be.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::case::{Case, Found, Kind};
use super::observation::{Difference, Observation, differences};
use crate::support::invocation::{Run, Sandbox};
use crate::support::starting::Bundle;
use crate::support::sweep;

/// Names a part of the cases' names; only those are run.
const ONLY: &str = "SWEEP_CASE";

/// The rules that may warn of something that the program merely mentions.
const LOST_RULES: &[&str] = &["needs-file", "needs-tool", "packages-left", "dynamic-helper", "link-dangling"];

/// Whether underpin starts source and result itself before it publishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RealStart {
    Yes,
    No,
}

impl RealStart {
    /// All cases with a start by hand: `SWEEP_START=1`.
    fn asked_for() -> Self {
        if std::env::var_os("SWEEP_START").is_some() { Self::Yes } else { Self::No }
    }
}

/// How a case ended that is as it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Refused,
    Moved,
}

/// Runs all cases, and fails with those that are not as they must be.
pub fn sweep(family: &str, cases: &[Case]) {
    sweep_with(family, cases, RealStart::asked_for());
}

pub fn sweep_with(family: &str, cases: &[Case], start: RealStart) {
    let wanted = std::env::var(ONLY).unwrap_or_default();
    // A case that is asked for by name is tried, whatever part of the sweep it is.
    let all: Vec<&Case> = if wanted.is_empty() { pairs(cases) } else { cases.iter().collect() };
    let cases: Vec<&Case> =
        all.into_iter().filter(|case| format!("{family}/{}", case.name).contains(&wanted)).collect();
    let results = judged(&cases, start);
    let mut failures = Vec::new();
    for (case, result) in cases.iter().zip(results) {
        let name = format!("{family}/{} ({:?})", case.name, case.kind);
        match result {
            Ok((outcome, said)) => println!("ok   {name}: {outcome:?} {said}"),
            Err(why) => failures.push(format!("{name}: {why}")),
        }
    }
    let count = failures.len();
    assert!(failures.is_empty(), "{count} of {} cases of {family} fail:\n\n{}\n", cases.len(), failures.join("\n"));
}

/// Of a part of a sweep every third attack, with its twins.
fn pairs(cases: &[Case]) -> Vec<&Case> {
    let every = sweep::times(3, 1);
    let name = |case: &Case| case.name.split('/').next().unwrap().to_owned();
    let mut names: Vec<String> = cases.iter().map(name).collect();
    names.dedup();
    let tried: BTreeSet<&String> = names.iter().step_by(every).collect();
    cases.iter().filter(|case| tried.contains(&name(case))).collect()
}

/// Some at once: what takes time is other processes.
fn judged(cases: &[&Case], start: RealStart) -> Vec<Result<(Outcome, String), String>> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(vec![None; cases.len()]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let at = cases.iter().position(|other| std::ptr::eq(*other, *case)).unwrap();
                    let result = std::panic::catch_unwind(|| judge(case, start));
                    let result = result.unwrap_or_else(|_| Err("the test itself panicked, see above".to_owned()));
                    results.lock().unwrap()[at] = Some(result);
                }
            });
        }
    });
    results.into_inner().unwrap().into_iter().map(Option::unwrap).collect()
}

/// The source, its move and its result in a place of their own.
struct Trial {
    sandbox: Sandbox,
}

impl Trial {
    fn new(case: &Case) -> Self {
        let trial = Self { sandbox: Sandbox::new() };
        for (name, recipe) in [("app", case.recipe()), ("old", case.old.recipe()), ("new", case.new.recipe())] {
            recipe.build().layout(&trial.layout(name), "v1");
        }
        trial
    }

    fn layout(&self, name: &str) -> PathBuf {
        self.sandbox.path("here").join(name)
    }

    fn rebase(&self, case: &Case, start: RealStart) -> Run {
        let old = match case.found {
            Found::Flag => "--old-base",
            Found::Known => "--known-base",
        };
        let fixed = ["rebase", "oci:app:v1", "--base", "oci:new:v1", "--to", "oci:out:v1", old, "oci:old:v1"];
        self.sandbox
            .underpin(fixed)
            .args(["--no-cache", "--offline", "--json"])
            .args(&case.flags)
            .args(start_flags(case, start))
            .run()
    }

    fn start(&self, name: &str, case: &Case) -> Observation {
        let bundle = match Bundle::unpack(&self.layout(name), &self.sandbox.path(&format!("bundle-{name}"))) {
            Ok(bundle) => bundle,
            Err(why) => return Observation::failed(&why),
        };
        Observation::of(&bundle.start(&case.given.clone().unwrap_or_else(|| bundle.command())))
    }
}

fn start_flags(case: &Case, start: RealStart) -> Vec<String> {
    let words = case.given.iter().flatten().flat_map(|word| ["--start-arg".to_owned(), word.clone()]);
    match start {
        // All of them end by themselves; on a busy machine that takes more than a second.
        RealStart::Yes => ["--start=10".to_owned()].into_iter().chain(words).collect(),
        RealStart::No => Vec::new(),
    }
}

/// What came of it in a few words, or what is wrong.
pub fn judge(case: &Case, start: RealStart) -> Result<(Outcome, String), String> {
    let trial = Trial::new(case);
    let before = trial.start("app", case);
    if before.code != Some(case.code) || before.programs.is_empty() || !before.all_done() {
        return Err(format!("the case is broken, the source does not start as intended: {before:#?}"));
    }
    let run = trial.rebase(case, start);
    match run.code() {
        Some(0) => accepted(case, &trial, &before, &run.json()),
        Some(1) if case.kind == Kind::Attack => Ok((Outcome::Refused, told(&run.json(), "refuse"))),
        Some(1) => Err(format!("an ordinary image is refused: {}", told(&run.json(), "refuse"))),
        _ => Err(format!("underpin could not do its work\n{run}")),
    }
}

fn accepted(case: &Case, trial: &Trial, before: &Observation, report: &Value) -> Result<(Outcome, String), String> {
    let after = trial.start("out", case);
    let found = differences(before, &after, &case.noticed_variables());
    let (excused, wrong): (Vec<_>, Vec<_>) = found.iter().partition(|one| is_excused(one, case, report));
    if wrong.is_empty() {
        let note = if excused.is_empty() { String::new() } else { format!("with warnings {}", told(report, "warn")) };
        return Ok((Outcome::Moved, note));
    }
    let wrong: Vec<String> = wrong.into_iter().map(described).collect();
    let warned = match told(report, "warn") {
        none if none.is_empty() => "without a word".to_owned(),
        warnings => format!("with warnings {warnings}"),
    };
    Err(format!("accepted and worse, {warned}:\n    {}", wrong.join("\n    ")))
}

fn described(difference: &Difference) -> String {
    match difference {
        Difference::Worse(what) | Difference::Changed { what, .. } | Difference::Lost { how: what, .. } => what.clone(),
    }
}

/// Whether the report has a warning about this very thing.
fn is_excused(difference: &Difference, case: &Case, report: &Value) -> bool {
    let mut warnings = findings(report, "warn");
    match difference {
        Difference::Worse(_) => false,
        Difference::Changed { rules, word, .. } => warnings.any(|finding| {
            rules.contains(&finding["rule"].as_str().unwrap()) && finding.to_string().contains(word.as_str())
        }),
        Difference::Lost { what, .. } => {
            let is_about = |finding: &&Value| LOST_RULES.contains(&finding["rule"].as_str().unwrap());
            let mut warnings = warnings.filter(is_about);
            case.warned.contains(what) && warnings.any(|finding| finding.to_string().contains(what.as_str()))
        }
    }
}

fn findings<'r>(report: &'r Value, level: &'r str) -> impl Iterator<Item = &'r Value> {
    let all = report["platforms"][0]["findings"].as_array().into_iter().flatten();
    all.filter(move |finding| finding["level"] == level)
}

/// The rules of one level and what they say.
fn told(report: &Value, level: &str) -> String {
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let one = |finding: &Value| format!("[{}: {}]", text(finding, "rule"), text(finding, "message"));
    findings(report, level).map(one).collect::<Vec<_>>().join(" ")
}
