//! Manifests that are meant to do harm: refused, or read in bounded memory and time.

use std::fmt::Write as _;

use super::{options, pod, rewrite, rewritten};
use crate::kube::yaml::MOST_NODES;
use crate::plan::LogChoice;
use oci::error::Kind;

fn error(text: &str) -> String {
    let error =
        rewrite(text, &options(LogChoice::Auto)).err().unwrap_or_else(|| panic!("{}", text.get(..200).unwrap_or(text)));
    assert_eq!(error.kind(), Kind::Input);
    error.to_string()
}

#[test]
fn what_two_readers_would_read_differently_is_an_error() {
    for (text, expected) in [
        ("kind: Pod\nspec:\n  a: 1\n  a: 2\n", "a key appears twice"),
        ("{\"kind\": \"Pod\", \"kind\": \"Job\"}", "a key appears twice"),
        ("kind: Pod\nspec:\n\t- a\n", "a YAML line is indented with a tab"),
        ("kind: Pod\n? [a, b]\n: c\n", "a key of the manifest is not a plain string"),
        ("kind: Pod\nspec: *nowhere\n", "not valid YAML"),
        ("a: &a [*a]\n", "an alias is inside the value that it refers to"),
        ("kind: [\n", "not valid YAML"),
        ("{\"kind\": \"Pod\",}x", "not valid JSON"),
    ] {
        let error = error(text);
        assert!(error.contains(expected) && error.contains("line"), "{error}");
    }
}

#[test]
fn depth_has_a_limit_in_every_style() {
    for text in [
        format!("a: {}{}", "[".repeat(10_000), "]".repeat(10_000)),
        format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000)),
        format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000)),
        format!("{}x", "- ".repeat(10_000)),
        (0..3_000).flat_map(|depth| [" ".repeat(depth), "a:\n".to_owned()]).collect(),
    ] {
        error(&text);
    }
}

#[test]
fn aliases_are_not_written_out() {
    let mut text = "kind: Widget\na0: &a0 [x, x]\n".to_owned();
    for level in 1..60 {
        let before = level - 1;
        writeln!(text, "a{level}: &a{level} [*a{before}, *a{before}, *a{before}, *a{before}]").unwrap();
    }
    text += "spec: {containers: [{name: a, command: [sh, -c, exec /app], env: *a59}]}\n";
    let rewritten = rewritten(&text);
    assert!(rewritten.text.contains("command: [/app]"), "a command beside a bomb is translated");
    let mut merges = "kind: Pod\nm0: &m0 {x: y}\n".to_owned();
    for level in 1..200 {
        writeln!(merges, "m{level}: &m{level} {{<<: [*m{}, *m{}]}}", level - 1, level - 1).unwrap();
    }
    judged_ok(&format!("{merges}spec: {{<<: *m199}}\n"));
    let shared = "kind: List\nitems:\n".to_owned()
        + "- &p {kind: Pod, spec: {containers: &c [{name: a}]}}\n"
        + &"- {kind: Pod, spec: {containers: *c}}\n".repeat(500);
    judged_ok(&shared);
}

fn judged_ok(text: &str) {
    assert_eq!(rewritten(text).text, text);
}

#[test]
fn many_values_and_long_scalars_are_bounded() {
    let many = format!("a: [{}]\n", "1,".repeat(MOST_NODES + 1));
    assert!(error(&many).contains("too many values"));
    let long = pod(&format!("command: [sh, -c, \"exec /app {}\"]", "a".repeat(4 << 20)));
    let rewritten = rewritten(&long);
    assert!(rewritten.is_refused() || rewritten.text.contains("[/app, "));
}

#[test]
fn many_containers_that_share_a_list_are_looked_at_once_each() {
    let shared = "- {name: b, command: *c}\n".repeat(3_000);
    let text = format!(
        "kind: Pod\nspec:\n  containers:\n  - {{name: a, command: &c [sh, -c, exec /app]}}\n{}",
        shared.replace("- {", "  - {")
    );
    let rewritten = rewritten(&text);
    assert!(rewritten.text.contains("&c [/app]"), "all of them want the same");
}

#[test]
fn tags_and_odd_bytes_change_nothing() {
    for lines in [
        "command: [sh, -c, !!python/object/apply:os.system [x]]",
        "command: [sh, -c, !!binary ZXhlYyAvYXBw]",
        "command: !!set {sh, -c, a}",
        "command: sh -c exec",
        "command: [sh, -c, 5]",
        "command: [[sh], -c, exec /app]",
        "command: null",
        "args: ~",
        "command:",
        "command: []",
        "livenessProbe: {exec: {command: {a: b}}}",
        "livenessProbe: {exec: []}",
        "env: 7\ncommand: [/app]",
    ] {
        judged_ok(&pod(lines));
    }
    for text in [
        "",
        "\n",
        "---\n---\n",
        "x",
        "[]",
        "null",
        "kind: Pod",
        "kind: [Pod]\nspec: 1\n",
        "{}",
        "kind: List\nitems: 5\n",
    ] {
        judged_ok(text);
    }
}
