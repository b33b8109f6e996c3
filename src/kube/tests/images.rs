//! What an image shows decides, where one was named.

use super::{KubeOptions, KubeOutcome, LogChoice, options, pod, rewrite, rule};
use crate::examine::Klog;
use crate::kube::{Images, ProgramFacts, ProgramQuery};
use shell::logs::Spelling;

/// An image with one program and what it shows.
struct One {
    has: &'static str,
    klog: Klog,
    runner: Option<&'static str>,
    entrypoint: &'static [&'static str],
}

impl Images for One {
    fn facts(&self, image: &str, query: &ProgramQuery<'_>) -> Option<ProgramFacts> {
        let missing = (query.program != self.has).then(|| "no such file".to_owned());
        (image == "i").then(|| ProgramFacts {
            image: "i@sha256:00".to_owned(),
            entrypoint: self.entrypoint.iter().map(|word| (*word).to_owned()).collect(),
            missing,
            mounted: None,
            klog: self.klog.clone(),
            runner: self.runner.map(str::to_owned),
        })
    }
}

const NOTHING: One = One { has: "/app", klog: Klog::Glog, runner: None, entrypoint: &["/app"] };

fn verdict(images: &One, logs: LogChoice, lines: &str) -> String {
    let rewritten = rewrite(&pod(&format!("image: i\n{lines}")), &KubeOptions { images, ..options(logs) }).unwrap();
    let [command] = rewritten.commands.as_slice() else { panic!() };
    match &command.outcome {
        KubeOutcome::Unchanged => "unchanged".to_owned(),
        KubeOutcome::Kept(_) => "kept".to_owned(),
        KubeOutcome::Refused(_) => rule(command).unwrap().to_owned(),
        KubeOutcome::Changed(changed) => [changed.command.clone(), changed.args.clone()].concat().join(" "),
    }
}

#[test]
fn the_log_strategy_is_proven_on_the_binary() {
    let logs = "command: [sh, -c, /app >>/l 2>&1]";
    let proven = One { klog: Klog::Proven(Spelling::Underscore), ..NOTHING };
    let runner = One { runner: Some("/go-runner"), ..NOTHING };
    let klog = "/app --logtostderr=false --log_file=/l --log_file_max_size=0";
    for (image, choice, expected) in [
        (&proven, LogChoice::Auto, klog),
        (&proven, LogChoice::Klog, klog),
        (&proven, LogChoice::Runner, "log-runner-missing"),
        (&runner, LogChoice::Auto, "/go-runner --log-file=/l /app"),
        (&runner, LogChoice::Runner, "/go-runner --log-file=/l /app"),
        (&runner, LogChoice::Klog, "uses-glog"),
        (&NOTHING, LogChoice::Auto, "log-strategy-open"),
        (&NOTHING, LogChoice::Stdout, "/app"),
        (&One { klog: Klog::Removed(String::new()), ..NOTHING }, LogChoice::Klog, "log-flag-removed"),
        (&One { klog: Klog::Unknown(String::new()), ..NOTHING }, LogChoice::Klog, "log-flag-unknown"),
    ] {
        assert_eq!(verdict(image, choice, logs), expected, "{choice:?}");
    }
}

#[test]
fn programs_that_the_image_lacks_are_refused() {
    for (lines, expected) in [
        ("command: [/app]", "unchanged"),
        ("command: [/other]", "entrypoint-missing"),
        ("command: [tini, --, /app]", "entrypoint-missing"),
        ("command: [$(WHICH)]", "unchanged"),
        ("command: [/other]\nvolumeMounts: [{name: x, mountPath: /other}]", "unchanged"),
        ("command: [sh, -c, exec /app]", "/app"),
        ("command: [sh, -c, exec cat]", "entrypoint-missing"),
        ("livenessProbe: {exec: {command: [curl, localhost]}}", "entrypoint-missing"),
        ("livenessProbe: {exec: {command: [/app, check]}}", "unchanged"),
        ("command: [sh, -c, a; b]", "multiple-commands"),
    ] {
        assert_eq!(verdict(&NOTHING, LogChoice::Auto, lines), expected, "{lines}");
    }
    let shell = One { has: "sh", ..NOTHING };
    assert_eq!(verdict(&shell, LogChoice::Auto, "command: [sh, -c, a; b]"), "kept");
}

#[test]
fn arguments_alone_are_a_command_where_the_image_has_no_entrypoint() {
    let args = "args: [sh, -c, exec /app -x]";
    assert_eq!(verdict(&NOTHING, LogChoice::Auto, args), "unchanged");
    assert_eq!(verdict(&One { entrypoint: &[], ..NOTHING }, LogChoice::Auto, args), "/app -x");
}

#[test]
fn a_script_that_the_image_can_run_needs_no_shell_around_it() {
    let script = One { has: "/script.sh", ..NOTHING };
    for (lines, expected) in [
        ("command: [/script.sh]", "kept"),
        ("command: [bash, -c, /script.sh]", "/script.sh"),
        ("command: [sh, -c, exec /script.sh --now]", "/script.sh --now"),
        ("command: [bash, -c, /other.sh]", "entrypoint-missing"),
        ("command: [bash, -c, exec /script.sh >>/l 2>&1]", "target-is-shell-script"),
        ("command: [bash, /script.sh]", "target-is-shell-script"),
    ] {
        assert_eq!(verdict(&script, LogChoice::Auto, lines), expected, "{lines}");
    }
}

#[test]
fn tools_and_logs_are_proven_on_the_image_and_it_is_not_asked_for_again() {
    let sleep = One { has: "sleep", ..NOTHING };
    assert_eq!(verdict(&sleep, LogChoice::Auto, "command: [sh, -c, sleep 5]"), "sleep 5");
    assert_eq!(verdict(&NOTHING, LogChoice::Auto, "command: [sh, -c, sleep 5]"), "entrypoint-missing");
    let text = pod("image: i\ncommand: [sh, -c, /app >>/l 2>&1]");
    let rewritten = rewrite(&text, &KubeOptions { images: &NOTHING, ..options(LogChoice::Auto) }).unwrap();
    let [command] = rewritten.commands.as_slice() else { panic!() };
    let KubeOutcome::Refused(why) = &command.outcome else { panic!("{command:?}") };
    assert!(!why.hint().contains("--image"), "{}", why.hint());
}
