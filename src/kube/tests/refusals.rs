//! What is left as it is, each with a twin that is rewritten.

use super::{KubeOptions, KubeOutcome, LogChoice, Template, options, pod, refused, rewrite, rewritten};
use crate::kube::{KubeRefusal, Position};
use crate::rules::{Family, Level, Rule};

#[test]
fn each_rule_fires_and_its_twin_does_not() {
    for (rule, lines, twin) in [
        ("not-words", "command: [sh, -c, 1]", "command: [sh, -c, \"exec 1\"]"),
        ("entrypoint-unknown", "args: [sh, -c, exec /app]", "command: [sh, -c, exec /app]"),
        ("entrypoint-unknown", "args: [sh, -c, a; b]", "command: [sh]\nargs: [-c, exec /app]"),
        (
            "env-taken",
            "env: [{name: A, value: x}]\ncommand: [sh, -c, A=1 /app]",
            "env: [{name: B, value: x}]\ncommand: [sh, -c, A=1 /app]",
        ),
        (
            "env-taken",
            "command: [sh, -c, A=1 /app]\nlivenessProbe: {exec: {command: [/app, $(A)]}}",
            "command: [sh, -c, A=1 /app]\nlivenessProbe: {exec: {command: [/app, $(B)]}}",
        ),
        ("log-strategy-open", "command: [sh, -c, /app >>/l 2>&1]", "command: [sh, -c, /app >/dev/null 2>&1]"),
        ("tool-unproven", "command: [sh, -c, exec sleep 5]", "command: [sh, -c, exec /app/sleep 5]"),
        ("tool-unproven", "command: [sh, -c, /bin/cat /x]", "command: [sh, -c, /opt/cat /x]"),
        (
            "tool-unproven",
            "lifecycle: {preStop: {exec: {command: [sh, -c, sleep 15]}}}",
            "lifecycle: {preStop: {exec: {command: [sh, -c, /app drain]}}}",
        ),
        (
            "tool-unproven",
            "command: [sh, -c, exec /bin/mount /x]",
            "volumeMounts: [{name: v, mountPath: /bin}]\ncommand: [sh, -c, exec /bin/mount /x]",
        ),
        ("multiple-commands", "command: [sh, -c, a; b]", "command: [sh, -c, b]"),
        ("unrendered-template", "command: [sh, -c, 'exec /app {{params}}']", "command: [sh, -c, exec /app params]"),
        (
            "runtime-variable",
            "env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k, optional: true}}}]\ncommand: [sh, -c, '/app \"$A\"']",
            "env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]\ncommand: [sh, -c, '/app \"$A\"']",
        ),
        (
            "probe-variable",
            "env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]\nlivenessProbe: {exec: {command: [sh, -c, /app $A]}}",
            "env: [{name: A, value: x}]\nlivenessProbe: {exec: {command: [sh, -c, /app $A]}}",
        ),
        (
            "runtime-variable",
            "env: [{name: A, value: x}]\nlifecycle: {preStop: {exec: {command: [sh, -c, /app $A]}}}",
            "lifecycle: {preStop: {exec: {command: [sh, -c, /app A]}}}",
        ),
        (
            "extra-fd",
            "readinessProbe: {exec: {command: [sh, -c, cd /x && exec /app]}}",
            "readinessProbe: {exec: {command: [sh, -c, exec /app 2>/dev/null]}}",
        ),
        ("cannot-edit", "command: [sh, # which\n  -c, exec /app]", "command: [sh,\n  -c, exec /app]"),
        ("cannot-edit", "command: [&a sh, -c, exec /app]", "command: [sh, -c, exec /app]"),
        ("cannot-edit", "command:\n- sh\n- -c\n- | # a comment\n  exec /app", "command:\n- sh\n- -c\n- |\n  exec /app"),
        (
            "shared-by-alias",
            "command: &sh [sh, -c]\nargs: [exec /app]\nlivenessProbe: {exec: {command: *sh}}",
            "command: &sh [sh, -c]\nargs: [exec /app]",
        ),
    ] {
        let text = pod(lines);
        let rules = refused(&text, &rewritten(&text));
        assert!(rules.contains(&rule), "{rule} {rules:?}\n{text}");
        let text = pod(twin);
        let rewritten = rewritten(&text);
        assert_eq!(refused(&text, &rewritten), [""; 0], "{rule}\n{text}");
        assert_ne!(rewritten.text, text, "{rule}");
    }
}

#[test]
fn every_rule_is_in_the_manual() {
    let manual = include_str!("../../../docs/kube.md");
    let refuses = |rule: &Rule| rule.row().levels == [Level::Refuse];
    let shared = [Rule::EntrypointMissing, Rule::LogFlagRemoved, Rule::LogFlagUnknown, Rule::UsesGlog];
    for rule in Rule::of_family(Family::Manifest).filter(refuses).chain(shared) {
        let row = format!("| `{rule}` | {} |", KubeRefusal::new(rule, "").hint());
        assert!(manual.contains(&row), "{row}");
    }
}

#[test]
fn a_list_that_is_used_elsewhere_too_stays() {
    let text = "kind: Widget\nexample: &cmd [sh, -c, exec /app]\nspec:\n  containers:\n  - {name: a, command: *cmd}\n";
    assert_eq!(refused(text, &rewritten(text)), ["shared-by-alias"]);
    let two = "kind: Pod\nspec:\n  containers:\n  - {name: a, command: &sh [sh, -c], args: [exec /a]}\n  - {name: b, command: *sh, args: [exec /b]}\n";
    assert_eq!(refused(two, &rewritten(two)), ["shared-by-alias"; 2]);
    let same = "kind: Pod\nspec:\n  containers:\n  - {name: a, command: &sh [sh, -c], args: [exec /a]}\n  - {name: b, command: *sh, args: [exec /a -x]}\n";
    assert!(rewritten(same).text.contains("command: &sh [/a], args: []"), "{}", rewritten(same).text);
}

#[test]
fn a_refusal_points_at_the_construct() {
    for (lines, line, column) in [
        ("command: [sh, -c, \"exec /app | grep x\"]", 7, 34),
        ("command:\n- sh\n- -c\n- exec /app | grep x", 10, 17),
        ("command:\n- sh\n- -c\n- |\n  set -e\n  exec /app | grep x", 12, 17),
        // Where the text was folded or escaped, the item is pointed at.
        ("command:\n- sh\n- -c\n- \"exec /app \\\"a\\\" | grep x\"", 10, 7),
    ] {
        let text = pod(lines);
        let rewritten = rewritten(&text);
        let [command] = rewritten.commands.as_slice() else { panic!() };
        assert!(matches!(&command.outcome, KubeOutcome::Refused(why) if why.refusal.is_some()), "{text}");
        assert_eq!(command.position, Position { line, column }, "{text}");
    }
}

#[test]
fn templates_are_refused_by_name_and_kept_only_where_they_are_known() {
    for text in
        ["kind: Pod\nspec: {{ .Values.spec }}\n", "{{- if .Values.x }}\nkind: Pod\n{{- end }}\n", "{\"a\": {{x}}}"]
    {
        let rewritten = rewritten(text);
        let (why, _) = rewritten.refused.as_ref().unwrap_or_else(|| panic!("{text}"));
        assert!(why.detail.contains("{{"), "{}", why.detail);
        assert_eq!(rewritten.text, text);
    }
    let salt = KubeOptions { template: Template::Salt, ..options(LogChoice::Stdout) };
    for (script, expected) in [
        ("exec /app {{params}}", None),
        ("exec /app --n={{ hostname }}", None),
        ("exec /app {{unheard_of}}", Some("unrendered-template")),
        ("exec /app --x={{params}}", Some("unrendered-template")),
        ("exec /app '{{params}}'", Some("unrendered-template")),
        ("exec {{ hostname }}", Some("unrendered-template")),
        ("exec /app >>/var/{{params}} 2>&1", Some("unrendered-template")),
        ("P={{params}} exec /app", Some("unrendered-template")),
    ] {
        let text = pod(&format!("command: [sh, -c, \"{script}\"]"));
        let rewritten = rewrite(&text, &salt).unwrap();
        assert_eq!(refused(&text, &rewritten).first().copied(), expected, "{script}");
    }
}

#[test]
fn words_are_shared_out_as_they_were() {
    for (lines, expected) in [
        ("command: [sh, -c]\nargs: [exec /app -a -b]", "command: [/app]\nargs: [-a, -b]"),
        ("command: [sh]\nargs: [-c, exec /app]", "command: [/app]\nargs: []"),
        ("command:\n- sh\n- -c\nargs:\n- exec /app\ntty: true", "command:\n- /app\nargs: []\ntty: true"),
        ("command: [tini, --, sh, -c, exec /app]", "command: [tini, --, /app]"),
        ("command: [sh, -c, 'exec \"$@\"', --, /app, -a]", "command: [/app, -a]"),
        ("command:\n- sh\n- -c\n- exec \"$@\"\n- --\n- /app\n- -a", "command:\n- /app\n- -a"),
        ("args: null\ncommand: [sh, -c, exec /app]", "args: null\ncommand: [/app]"),
        ("args: []\ncommand: [sh, -c, exec /app]", "args: []\ncommand: [/app]"),
    ] {
        assert_eq!(rewritten(&pod(lines)).text, pod(expected));
    }
}

#[test]
fn a_log_that_is_on_no_volume_is_noted() {
    let runner = options(LogChoice::Runner);
    for (mounts, expected) in
        [("[]", true), ("[{name: l, mountPath: /var/log}]", false), ("[{name: l, mountPath: /var/log/a.log}]", false)]
    {
        let text = pod(&format!("command: [sh, -c, /app >>/var/log/a.log 2>&1]\nvolumeMounts: {mounts}"));
        let rewritten = rewrite(&text, &runner).unwrap();
        let is_noted = rewritten.commands[0].notes.iter().any(|note| note.rule == Rule::LogNotMounted);
        assert_eq!(is_noted, expected, "{mounts}");
        let is_assumed = rewritten.commands[0].notes.iter().any(|note| note.rule == Rule::RunnerAssumed);
        assert!(is_assumed, "nobody looked into the image");
    }
}

#[test]
fn hints_do_not_offer_what_was_done() {
    let hint = |text: &str, options: &KubeOptions<'_>| {
        let rewritten = rewrite(text, options).unwrap();
        let of_file = rewritten.refused.map(|(why, _)| why.hint());
        let of_command = rewritten.commands.first().and_then(|command| match &command.outcome {
            KubeOutcome::Refused(why) => Some(why.hint()),
            _ => None,
        });
        of_file.or(of_command).unwrap()
    };
    let salt = KubeOptions { template: Template::Salt, ..options(LogChoice::Auto) };
    for text in [pod("command: [sh, -c, 'exec /app {{ .Values.x }}']"), "a: [{{ x }}: }\n".to_owned()] {
        assert!(hint(&text, &options(LogChoice::Auto)).contains("--template salt"), "{text}");
        assert!(!hint(&text, &salt).contains("--template"), "{text}");
    }
}
