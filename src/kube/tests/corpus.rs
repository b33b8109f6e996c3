//! The real command lines of `testdata/commands.jsonl` that stood in manifests: in a manifest they
//! get the verdict that `shell` gives them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{KubeOutcome, LogChoice, options, rewrite};
use crate::kube::tools::is_of_a_base;
use shell::{CommandContext, Declared, Frozen, Programs, Verdict, translate};

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// The row's command in a manifest, and its place as the shell knows it.
fn manifest(row: &Value) -> (Value, CommandContext) {
    let names = strings(&row["container_env_names"]);
    let entry = |name: &String| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}});
    let env: Vec<Value> = names.iter().map(entry).collect();
    let declared: BTreeMap<String, Declared> = names.into_iter().map(|name| (name, Declared::OneWord)).collect();
    let mut container = json!({"name": "c", "image": "i", "env": env});
    let context = match row["where"].as_str() {
        Some(probe @ ("readinessProbe" | "livenessProbe")) => {
            container[probe] = json!({"exec": {"command": row["argv"]}});
            CommandContext::Probe { declared }
        }
        Some("preStop") => {
            container["lifecycle"] = json!({"preStop": {"exec": {"command": row["argv"]}}});
            CommandContext::Hook
        }
        _ => {
            container["command"] = row["argv"].clone();
            CommandContext::Container { declared, frozen: Frozen::default(), programs: Programs::Unknown }
        }
    };
    (json!({"kind": "Pod", "spec": {"containers": [container]}}), context)
}

#[test]
fn commands_get_the_verdict_of_the_shell_and_the_words_of_its_translation() {
    let text = include_str!("../../../testdata/commands.jsonl");
    let (mut rows, mut changed) = (0, 0);
    for row in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        if row["kind"] != "manifest" {
            continue;
        }
        rows += 1;
        let (manifest, context) = manifest(&row);
        let argv = strings(&row["argv"]);
        let verdict = translate(&argv, None, &context);
        // The same value is JSON in one line, JSON in many lines, and YAML.
        for text in
            [manifest.to_string(), serde_json::to_string_pretty(&manifest).unwrap(), format!("# y\n{manifest}\n")]
        {
            let rewritten = rewrite(&text, &options(LogChoice::Stdout)).unwrap();
            let [command] = rewritten.commands.as_slice() else { panic!("{text}") };
            match (&verdict, &command.outcome) {
                (Verdict::Unchanged(_), KubeOutcome::Unchanged) => assert_eq!(rewritten.text, text),
                (Verdict::Refuse(expected), KubeOutcome::Refused(why)) => {
                    assert_eq!(why.rule.id(), expected.reason.word(), "{text}");
                    assert_eq!(rewritten.text, text);
                }
                (Verdict::Translate(exec), KubeOutcome::Changed(became)) => {
                    assert_eq!(became.command, exec.argv(), "{text}");
                    assert_eq!(became.environment, exec.environment, "{text}");
                    changed += 1;
                }
                // In these places a command has no surroundings of its own.
                (Verdict::Translate(exec), KubeOutcome::Refused(why)) => {
                    let is_alone = exec.environment.is_empty() && exec.workdir.is_none();
                    assert!(
                        why.rule.id() == "env-taken"
                            || why.rule.id() == "tool-unproven" && is_of_a_base(&exec.argv()[0])
                            || (!is_alone || exec.log.is_some())
                                && !matches!(context, CommandContext::Container { .. }),
                        "{text}\n{why:?}"
                    );
                }
                other => panic!("{text}\n{other:?}"),
            }
        }
    }
    println!("{rows} rows, {changed} changed texts");
    assert!(rows > 100 && changed >= 99, "{rows} {changed}");
}
