//! What runc does with a pair.

use std::path::Path;

use crate::pair::{Observed, Outcome, Pair, Stage};
use crate::support::starting::Bundle;
use crate::support::tools::Ended;

pub fn outcome(pair: &Pair, directory: &Path) -> Outcome {
    let layout = directory.join("layout");
    pair.image().layout(&layout, "v1");
    match Bundle::unpack(&layout, &directory.join("bundle")) {
        Ok(bundle) => seen(&bundle.start(&bundle.command())),
        // umoci refuses what runc would: a variable without a name.
        Err(why) if why.contains("image.Config.Env") => Outcome::Fails(Stage::Exec, why),
        Err(why) => Outcome::Fails(Stage::User, why),
    }
}

fn seen(ended: &Ended) -> Outcome {
    let lines: Vec<&str> = ended.stdout.lines().collect();
    if !lines.iter().any(|line| line.starts_with("observed ")) {
        return Outcome::Fails(stage(&ended.stderr), ended.stderr.trim().to_owned());
    }
    let fact = |name: &str| lines.iter().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned();
    // The effective one, which a set-user-ID program has from its file, is not the model's to say.
    let real = |name: &str| fact(name).split(' ').next().unwrap().to_owned();
    let variables = lines.iter().filter_map(|line| line.strip_prefix("env ")?.split_once('='));
    // A shell sets these for what it starts; no pair does.
    let variables = variables.filter(|(name, _)| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    Outcome::Runs(Box::new(Observed {
        uid: real("fact uid "),
        gid: real("fact gid "),
        groups: fact("fact groups ").split(' ').filter(|id| !id.is_empty()).map(str::to_owned).collect(),
        cwd: fact("fact cwd "),
        env: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        exe: fact("exe "),
    }))
}

/// By runc's words.
fn stage(stderr: &str) -> Stage {
    let has = |words: &[&str]| words.iter().any(|word| stderr.contains(word));
    match () {
        () if has(&["unable to setup user"]) => Stage::User,
        () if has(&["Cwd must be an absolute path", "chdir to cwd", "mkdir", "mkdirall"]) => Stage::WorkingDir,
        () if has(&["runc run failed", "unable to start container process"]) => Stage::Exec,
        () if stderr.starts_with("exec ") => Stage::Exec,
        () => Stage::Behind,
    }
}
