//! Every command line of `testdata/commands.jsonl`: 78 of them with the right answer.

use serde_json::Value;

use super::super::logs::{Spelling, Strategy, apply};
use super::super::{
    CommandContext, Declared, ExecCommand, Frozen, ImageContext, Log, LogCopy, LogStreams, OpenMode, Programs, Verdict,
    translate,
};

fn rows() -> Vec<Value> {
    let text = include_str!("../../../../testdata/commands.jsonl");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|word| word.as_str().unwrap().to_owned()).collect()
}

fn context(row: &Value) -> CommandContext {
    let names = strings(&row["container_env_names"]).into_iter();
    let declared = names.map(|name| (name, Declared::OneWord)).collect();
    match (row["kind"].as_str(), row["where"].as_str()) {
        (Some("dockerfile"), _) => CommandContext::Image(ImageContext::default()),
        (_, Some("readinessProbe" | "livenessProbe")) => CommandContext::Probe { declared },
        (_, Some("preStop")) => CommandContext::Hook,
        _ => CommandContext::Container { declared, frozen: Frozen::default(), programs: Programs::Unknown },
    }
}

fn log(log: &Log) -> Value {
    serde_json::json!({
        "path": log.path,
        "append": log.open_mode == OpenMode::Append,
        "streams": match log.streams { LogStreams::Both => "both", LogStreams::Stdout => "stdout", LogStreams::Stderr => "stderr" },
        "tee": log.copy == LogCopy::AlsoStdout,
    })
}

/// What differs from an answer; empty where nothing does.
fn differences(verdict: &Verdict, answer: &Value) -> String {
    let expected = answer["verdict"].as_str().unwrap();
    match verdict {
        Verdict::Unchanged(_) if expected == "unchanged" => String::new(),
        Verdict::Refuse(refusal) if expected == "refuse" => match answer["reason"].as_str() {
            Some(reason) if reason != refusal.reason.word() => format!("{} for {reason}", refusal.reason.word()),
            _ => String::new(),
        },
        Verdict::Translate(exec) if expected == "translate" => translation(exec, answer),
        other => format!("{other:?}, expected {expected}"),
    }
}

fn translation(exec: &ExecCommand, answer: &Value) -> String {
    let environment: serde_json::Map<String, Value> =
        exec.environment.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    let default = |value: &Value, other: Value| if value.is_null() { other } else { value.clone() };
    let got = serde_json::json!([exec.argv(), environment, exec.workdir, exec.log.as_ref().map(log),]);
    let wanted = serde_json::json!([
        answer["argv"],
        default(&answer["env"], serde_json::json!({})),
        answer["workdir"],
        answer["log"],
    ]);
    if got == wanted { String::new() } else { format!("{got}, expected {wanted}") }
}

#[test]
fn every_answer_of_the_corpus_is_reached() {
    let (mut right, mut acceptable, mut wrong) = (0, 0, Vec::new());
    for row in rows().iter().filter(|row| !row["expected"].is_null()) {
        let verdict = translate(&strings(&row["argv"]), None, &context(row));
        let first = differences(&verdict, &row["expected"]);
        let others = row["expected"]["also_acceptable"].as_array();
        if first.is_empty() {
            right += 1;
        } else if others.into_iter().flatten().any(|other| differences(&verdict, other).is_empty()) {
            acceptable += 1;
        } else {
            wrong.push(format!("{}: {first}", row["id"]));
        }
    }
    println!("right {right}, acceptable {acceptable}, wrong {}", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(right + acceptable, 78);
}

#[test]
fn every_line_of_the_corpus_gets_a_verdict_that_can_be_shown() {
    let mut tally = [0; 3];
    for row in rows() {
        let argv = strings(&row["argv"]);
        match translate(&argv, None, &context(&row)) {
            Verdict::Unchanged(_) => tally[0] += 1,
            Verdict::Translate(exec) => {
                tally[1] += 1;
                assert!(!exec.program.is_empty(), "{argv:?}");
            }
            Verdict::Refuse(refusal) => {
                tally[2] += 1;
                let span = refusal.span;
                assert!(refusal.text.get(span.start..span.end).is_some(), "{argv:?} {refusal:?}");
                assert!(argv.contains(&refusal.text), "{argv:?}");
                assert!(!refusal.detail.is_empty());
                let _ = super::super::caret(&refusal);
            }
        }
    }
    println!("unchanged {}, translated {}, refused {}", tally[0], tally[1], tally[2]);
    assert_eq!(tally.iter().sum::<usize>(), 324);
}

/// What a shell needs is decided by the command alone: in no place may such a row be translated.
#[test]
fn rows_to_be_refused_are_never_translated_in_another_place() {
    // But for placeholders of templates, which only a manifest has.
    let is_refused =
        |row: &&Value| row["expected"]["verdict"] == "refuse" && row["expected"]["reason"] != "unrendered-template";
    for row in rows().iter().filter(is_refused) {
        let acceptable = row["expected"]["also_acceptable"].as_array().is_some();
        for context in [CommandContext::Image(ImageContext::default()), super::container(&[])] {
            let verdict = translate(&strings(&row["argv"]), None, &context);
            assert!(acceptable || !matches!(verdict, Verdict::Translate(_)), "{}: {verdict:?}", row["id"]);
        }
    }
}

#[test]
fn logs_get_where_the_corpus_says() {
    let mut seen = [0; 2];
    for row in rows() {
        let expected = &row["expected"];
        let (runner, klog) = (strings(&expected["runner_argv"]), strings(&expected["klog_argv"]));
        if runner.is_empty() {
            continue;
        }
        let Verdict::Translate(exec) = translate(&strings(&row["argv"]), None, &context(&row)) else { panic!() };
        let got = apply(&exec, &Strategy::Runner("/go-runner".to_owned())).unwrap();
        assert_eq!(got.argv, runner, "{}", row["id"]);
        seen[0] += 1;
        if klog.is_empty() {
            continue;
        }
        let spelling =
            if klog.iter().any(|word| word.starts_with("--log_file")) { Spelling::Underscore } else { Spelling::Dash };
        let mut got = apply(&exec, &Strategy::Klog(spelling)).unwrap().argv;
        // The corpus names the flags that differ between programs; this one always belongs to them.
        let always = ["--log-file-max-size=0", "--log_file_max_size=0"];
        got.retain(|word| !always.contains(&word.as_str()));
        assert_eq!(got, klog, "{}", row["id"]);
        seen[1] += 1;
    }
    assert_eq!(seen, [4, 3]);
}
