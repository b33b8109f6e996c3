//! Puts each pair to both sides, and fails with those that they tell differently.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::pair::{Outcome, Pair};
use crate::support::sweep;
use crate::{model, real};

/// Names a part of the pairs' names; only those are compared.
const ONLY: &str = "MODEL_PAIR";
/// How many of a family are compared in a part of the sweep.
const PART: usize = 25;

pub fn compare(pairs: &[Pair]) {
    let wanted = std::env::var(ONLY).unwrap_or_default();
    let pairs: Vec<&Pair> = pairs.iter().filter(|pair| pair.name.contains(&wanted)).collect();
    // Those that are asked for by name are compared, whatever part of the sweep they are.
    let pairs = if wanted.is_empty() { sweep::some(pairs, PART) } else { pairs };
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(pair) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = std::panic::catch_unwind(|| judge(pair));
                    let result = result.unwrap_or_else(|_| Err("the test itself panicked, see above".to_owned()));
                    if let Err(why) = result {
                        failures.lock().unwrap().push(format!("{}: {why}", pair.name));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    assert!(failures.is_empty(), "{} of {} differ:\n\n{}\n", failures.len(), pairs.len(), failures.join("\n"));
}

fn judge(pair: &Pair) -> Result<(), String> {
    let directory = tempfile::tempdir().unwrap();
    let (model, real) = (model::outcome(pair), real::outcome(pair, directory.path()));
    let shown = || format!("{} {:?}\n  model {model:?}\n  runc  {real:?}", pair.config, pair.caution);
    match (&model, &real, pair.caution) {
        (Outcome::Fails(..), Outcome::Runs(_), Some(_)) => Ok(()),
        (_, _, Some(_)) => Err(format!("no caution is needed: {}", shown())),
        (Outcome::Runs(one), Outcome::Runs(other), None) if one == other => Ok(()),
        (Outcome::Fails(one, _), Outcome::Fails(other, _), None) if one == other => Ok(()),
        (Outcome::Runs(_), Outcome::Fails(..), None) => Err(format!("THE MODEL IS TOO BOLD: {}", shown())),
        (Outcome::Fails(..), Outcome::Runs(_), None) => Err(format!("the model is too cautious: {}", shown())),
        _ => Err(shown()),
    }
}
