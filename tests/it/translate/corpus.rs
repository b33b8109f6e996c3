//! The command lines of the corpus under real shells, their programs and files moved to a scratch.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use super::comparison::{Scratch, kubelet, same};
use crate::support::invocation::Sandbox;
use crate::support::skip::{need, or_skip};

fn rows() -> Vec<Value> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/commands.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|word| word.as_str().unwrap().to_owned()).collect()
}

fn translate(sandbox: &Sandbox, row: &Value, argv: &[String]) -> Value {
    let mut flags = vec!["translate".to_owned(), "--json".to_owned()];
    if row["kind"] == "manifest" {
        let place = match row["where"].as_str() {
            Some("readinessProbe" | "livenessProbe") => "probe",
            Some("preStop") => "hook",
            _ => "command",
        };
        flags.push(format!("--kube={place}"));
        flags.extend(strings(&row["container_env_names"]).into_iter().flat_map(|name| ["--env".to_owned(), name]));
    }
    let run = sandbox.underpin(flags).arg("--").args(argv).run();
    assert!(matches!(run.code(), Some(0 | 1)), "{run}");
    run.json()
}

/// The command with its program, folder and log moved to the scratch, where each is named once.
fn moved(argv: &[String], answer: &Value, scratch: &Scratch) -> Option<(Vec<String>, Option<PathBuf>)> {
    let mut argv = argv.to_vec();
    let script = argv.iter_mut().find(|word| word.contains(' ') || word.contains('/') && !word.ends_with("sh"))?;
    let mut put = |from: &str, to: PathBuf| {
        if script.matches(from).count() != 1 {
            return None;
        }
        *script = script.replace(from, &to.display().to_string());
        Some(to)
    };
    if let Some(folder) = answer["workdir"].as_str() {
        put(folder, scratch.path("work/sub"))?;
    }
    let log = match answer["log"]["path"].as_str() {
        Some(path) => Some(put(path, scratch.path("log/l"))?),
        None => None,
    };
    let program = answer["argv"][0].as_str()?;
    if program.contains('/') {
        put(program, scratch.path("bin/program"))?;
    }
    Some((argv, log))
}

#[test]
fn translated_rows_run_as_the_shells_run_them() {
    or_skip!(need(&["dash", "bash"]));
    let sandbox = Sandbox::new();
    let (mut compared, mut translated) = (0, 0);
    for row in rows() {
        let argv = strings(&row["argv"]);
        let answer = translate(&sandbox, &row, &argv);
        // These are started by the shell itself; there is no program to put a stub in place of.
        let builtin = answer["notes"].to_string().contains("builtin-becomes-program");
        if answer["verdict"] != "translate" || builtin {
            continue;
        }
        translated += 1;
        let program = answer["argv"][0].as_str().unwrap();
        let mut scratch = Scratch::new(&[program.rsplit('/').next().unwrap(), "program"]);
        let Some((argv, log)) = moved(&argv, &answer, &scratch) else { continue };
        let variables: BTreeMap<String, String> = strings(&row["container_env_names"])
            .into_iter()
            .map(|name| (name.clone(), format!("value-of-{name}")))
            .collect();
        scratch.environment.extend(variables.clone());
        let mut answer = translate(&sandbox, &row, &argv);
        assert_eq!(answer["verdict"], "translate", "{argv:?}");
        let expand = |word: &str| if row["kind"] == "manifest" { kubelet(word, &variables) } else { word.to_owned() };
        answer["argv"] = strings(&answer["argv"]).iter().map(|word| expand(word)).collect();
        for value in answer["env"].as_object_mut().unwrap().values_mut() {
            *value = expand(value.as_str().unwrap()).into();
        }
        let started: Vec<String> = argv.iter().map(|word| expand(word)).collect();
        // Not busybox, which would run its own `rm` and `chmod` in place of the stubs.
        for shell in scratch.shells(&argv[0], &["dash", "bash"]) {
            let original = scratch.original(&shell, &started, log.as_deref());
            let direct = scratch.translated(&answer, log.as_deref());
            if let Err(difference) = same(&original, &direct, &answer) {
                panic!("{started:?} under {}\n{difference}", shell.display());
            }
        }
        compared += 1;
    }
    println!("{compared} of {translated} translated rows were compared");
    assert!(compared >= 50, "{compared} of {translated}");
}
