//! Random manifests, read before and after by PyYAML: nothing but the commands that the report
//! names has changed, to what it says. Every line that is no part of a command is the same.

use std::fmt::Write as _;

use super::{read, write};
use crate::support::invocation::Sandbox;
use crate::support::skip::{missing, need, or_skip};

/// A small generator of numbers: the same manifests on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % sides as u64).unwrap()
    }

    fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.roll(list.len())]
    }
}

const SCRIPTS: &[&str] = &[
    "exec /app --v=2",
    "/app 'two words' \"it's\" -- yes 5",
    "cd /work && exec ./run --once",
    "A=1 B='x: y' /app #not",
    "export C=2; exec /app --json='{\"a\": [1]}'",
    "exec /app $POD \"$POD\" --lit='$5'",
    "exec /app | grep x",
    "a; b",
    "exec /app $UNKNOWN",
    "exec /app --long 0123456789 0123456789 é",
    "exec /app >>/var/log/a.log 2>&1",
    "# first\nset -e\nexec /app \\\n  --next",
];

/// One scalar in a style that can hold it, at this indentation.
fn scalar(dice: &mut Dice, text: &str, indent: usize, block: bool) -> String {
    let double = format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"));
    let pad = " ".repeat(indent + 2);
    match dice.roll(4) {
        0 if !text.contains('\n') => format!("'{}'", text.replace('\'', "''")),
        1 if block && !text.contains('\n') => format!(">-\n{pad}{text}"),
        2 if block => format!("|\n{pad}{}", text.replace('\n', &format!("\n{pad}"))),
        3 if !text.contains(['\n', ':', '#', '\'', '"', '{', '[', ',']) => text.to_owned(),
        _ => double,
    }
}

/// A list of words under a key, each line with a mark that it is part of a command.
fn list(dice: &mut Dice, key: &str, words: &[&str], indent: usize) -> String {
    let pad = " ".repeat(indent);
    if dice.roll(2) == 0 {
        let between = dice.of(&[", ", ",", &format!(",\n{pad}    ")]).to_owned();
        let items: Vec<String> = words.iter().map(|word| scalar(dice, word, indent, false)).collect();
        return format!("{pad}{key}: [{}]\n", items.join(&between));
    }
    let mut out = format!("{pad}{key}:{}\n", dice.of(&["", " # why"]));
    let inner = indent + 2 * dice.roll(2);
    for word in words {
        let text = scalar(dice, word, inner, true);
        let comment = if text.contains('\n') { "" } else { dice.of(&["", "", "  # said of it"]) };
        let above = dice.of(&["", "", "# above\n"]);
        let above = if above.is_empty() { String::new() } else { format!("{}{above}", " ".repeat(inner)) };
        let _ = writeln!(out, "{above}{}-{}{text}{comment}", " ".repeat(inner), dice.of(&[" ", " "]));
    }
    out
}

fn container(dice: &mut Dice, name: &str) -> String {
    let mut out = format!("  - name: {name}\n    image: a{}\n", dice.of(&["", " # image", ":v1"]));
    if dice.roll(2) == 0 {
        out += "    env:\n    - name: POD\n      valueFrom: {fieldRef: {fieldPath: metadata.name}}\n";
    }
    if dice.roll(4) == 0 {
        out += "    workingDir: /old\n";
    }
    let script = dice.of(SCRIPTS);
    match dice.roll(3) {
        0 => out += &list(dice, "command", &["/bin/sh", "-c", script], 4),
        1 => {
            out += &list(dice, "command", &["sh", "-c"], 4);
            out += &list(dice, "args", &[script], 4);
        }
        _ => out += &list(dice, "command", &["/app", "--plain", "yes: no"], 4),
    }
    if dice.roll(3) == 0 {
        let script = dice.of(SCRIPTS);
        out += "    livenessProbe:\n      exec:\n";
        out += &list(dice, "command", &["sh", "-c", script], 8);
        out += "      periodSeconds: 5   # often\n";
    }
    out + "    tty: true\n"
}

fn manifest(dice: &mut Dice, number: usize) -> String {
    let mut out = String::from(dice.of(&["", "# head\n", "---\n"]));
    for document in 0..=dice.roll(2) {
        if document > 0 {
            out += "---\n";
        }
        let _ = write!(
            out,
            "kind: Pod\nmetadata: {{name: p{number}-{document}}}   # odd:   spacing\nspec:\n  containers:\n"
        );
        for at in 0..=dice.roll(3) {
            out += &container(dice, &format!("c{at}"));
        }
        out += "  nodeSelector: {a:   \"b\"}\n\n";
    }
    if dice.roll(4) == 0 { out.replace('\n', "\r\n") } else { out }
}

/// Puts what the report says into the old value, and wants the new one.
const CHECK: &str = r#"
import json, sys, yaml
report = json.load(open("report.json"))
changed = 0
for file in report["files"]:
    name = file["path"].split("/")[-1]
    before = list(yaml.safe_load_all(open("before/" + name, newline="")))
    after = list(yaml.safe_load_all(open("after/" + name, newline="")))
    pods = {pod["metadata"]["name"]: pod for pod in before if pod}
    for command in file["commands"]:
        pod = pods[command["object"]["name"]]
        container = [c for c in pod["spec"]["containers"] if c["name"] == command["container"]][0]
        place = container if command["place"] == "command" else container[command["place"]]["exec"]
        assert command["before"] == (place.get("command") or []) + (place.get("args") or []), (name, command)
        if command["verdict"] != "translate":
            continue
        changed += 1
        place["command"] = command["command"]
        if "args" in place:
            place["args"] = command["args"]
        if command["workdir"]:
            place["workingDir"] = command["workdir"]
        if command["env"]:
            place["env"] = (place.get("env") or []) + [{"name": n, "value": v} for n, v in command["env"].items()]
    assert before == after, (name, before, after)
print(changed)
"#;

/// Lines that no edit may touch.
fn is_fixed(line: &str) -> bool {
    [
        "kind:",
        "metadata:",
        "spec:",
        "containers:",
        "- name: c",
        "image:",
        "tty:",
        "periodSeconds:",
        "nodeSelector:",
        "exec:",
        "#",
    ]
    .iter()
    .any(|word| line.trim_start().starts_with(word))
}

#[test]
fn random_manifests_change_only_where_the_report_says() {
    or_skip!(need(&["python3"]));
    let sandbox = Sandbox::new();
    if sandbox.program("python3", ["-c", "import yaml"]).run().code() != Some(0) {
        or_skip!(Err(missing("python3-yaml")));
    }
    let mut dice = Dice(7);
    let names: Vec<String> = (0..400).map(|number| format!("{number:03}.yaml")).collect();
    for (number, name) in names.iter().enumerate() {
        let text = manifest(&mut dice, number);
        write(&sandbox, &format!("before/{name}"), &text);
        write(&sandbox, &format!("after/{name}"), &text);
    }
    let kube = || sandbox.underpin(["kube", "--write", "--logs", "klog", "after", "-q"]);
    let run = kube().args(["--report", "json=report.json"]).run();
    assert_eq!(run.code(), Some(1), "some are refused\n{run}");
    let checked = sandbox.program("python3", ["-c", CHECK]).run().ok();
    assert!(checked.stdout.trim().parse::<usize>().unwrap() > 300, "{checked}");
    assert!(!run.stderr.contains("[cannot-edit]"), "{run}");
    for name in &names {
        let [before, after] = ["before", "after"].map(|folder| read(&sandbox, &format!("{folder}/{name}")));
        let fixed = |text: &str| {
            text.split_inclusive('\n').filter(|line| is_fixed(line)).map(str::to_owned).collect::<Vec<_>>()
        };
        let script_comments = |lines: Vec<String>| {
            lines
                .into_iter()
                .filter(|line| !line.contains("# first") && !line.contains("# said of it"))
                .collect::<Vec<_>>()
        };
        assert_eq!(script_comments(fixed(&after)), script_comments(fixed(&before)), "{name}");
        let tails = |text: &str| text.matches("# said of it").count() + text.matches("# why").count();
        assert_eq!(tails(&after), tails(&before), "{name}");
    }
    assert_eq!(kube().run().stdout, "", "a second run makes no edit");
}
