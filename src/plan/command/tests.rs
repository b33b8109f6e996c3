//! Commands of images without their shell: what they become, and what stands in the way.

use serde_json::{Value, json};

use super::*;
use crate::examine::testing::{Put, entry, fetched, layer, program};
use crate::plan::testing::pass;
use crate::plan::{CommandWords, KlogStyle, LogChoice, Pass};
use elf::{GoFacts, Linkage, Program, Script};
use layer::{Captured, Entry, EntryKind, LayerIndex};
use oci::testing::TestImage;

/// The answers for an image with this container and this layer of its own.
fn answers(container: Value, own: LayerIndex, new: LayerIndex, options: &RebaseOptions) -> Pass {
    let source = TestImage { container, ..TestImage::of(&["a", "app"]) };
    let mut subject = fetched(&source, &TestImage::of(&["a"]), &TestImage::of(&["n"]));
    let platform = &mut subject.platforms[0];
    (platform.old_layers, platform.layers) = (vec![layer("a").into()], vec![own.into()]);
    platform.base_layers = vec![new.into()];
    pass(subject, options)
}

/// The command where it was translated.
fn translated(container: Value, own: LayerIndex) -> Option<Vec<String>> {
    let facts = answers(container, own, layer("n"), &RebaseOptions::default());
    matches!(facts.draft.form.outcome, CommandOutcome::Translated).then(|| facts.draft.container.command.argv())
}

fn klog(packages: &[&str]) -> Program {
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let go = GoFacts { packages: own(packages), ..GoFacts::default() };
    let mentions = own(&["log_file", "log_file_max_size", "add_dir_header"]);
    Program { go: Some(go), mentions, ..program(Linkage::Static) }
}

fn app() -> LayerIndex {
    layer("app").with_program("app", klog(&["k8s.io/klog/v2.InitFlags"]))
}

fn moved(container: Value) -> Pass {
    answers(container, app(), layer("n"), &RebaseOptions::default())
}

/// Entrypoint and cmd afterwards.
fn command(facts: &Pass) -> (Value, Value) {
    (json!(facts.draft.container.command.entrypoint), json!(facts.draft.container.command.cmd))
}

/// Every file that is executed.
fn chain(pass: &Pass) -> Vec<String> {
    pass.startup.after.chain.iter().map(|executed| executed.path.to_string()).collect()
}

#[test]
fn a_shell_form_entrypoint_becomes_exec_form_and_loses_the_cmd_that_it_ignored() {
    let facts = moved(json!({"Entrypoint": ["/bin/sh", "-c", "exec /app --v=2 'a b'"], "Cmd": ["ignored"]}));
    assert_eq!(command(&facts), (json!(["/app", "--v=2", "a b"]), Value::Null));
    assert_eq!(facts.draft.form.cmd_cleared, Some(vec!["ignored".to_owned()]));
    assert!(facts.startup.after.runs());
}

#[test]
fn a_shell_form_cmd_stays_a_cmd() {
    let facts = moved(json!({"Cmd": ["/bin/sh", "-c", "exec /app --v=2"]}));
    assert_eq!(command(&facts), (Value::Null, json!(["/app", "--v=2"])));
}

#[test]
fn arguments_are_still_taken_from_cmd() {
    let facts = moved(json!({"Entrypoint": ["/bin/sh", "-c", "exec /app --v=2 \"$@\"", "--"], "Cmd": ["one", "two"]}));
    assert_eq!(command(&facts), (json!(["/app", "--v=2"]), json!(["one", "two"])));
    assert_eq!(facts.draft.form.cmd_cleared, None);
}

#[test]
fn variables_and_folder_go_into_the_config() {
    let facts = moved(json!({"Entrypoint": ["/bin/sh", "-c", "cd /srv && A=1 exec /app"], "Env": ["A=0", "B=2"]}));
    assert_eq!(facts.draft.container.members["Env"], json!(["B=2", "A=1"]));
    assert_eq!(facts.draft.container.members["WorkingDir"], json!("/srv"));
    assert_eq!(command(&facts).0, json!(["/app"]));
}

#[test]
fn frozen_variables_are_written_in() {
    let container = || json!({"Entrypoint": ["/bin/sh", "-c", "exec /app --port=$PORT"], "Env": ["PORT=80"]});
    assert!(matches!(moved(container()).draft.form.outcome, CommandOutcome::Refused(_)));
    let options = RebaseOptions { freeze_env: vec!["PORT".to_owned()], ..RebaseOptions::default() };
    let facts = answers(container(), app(), layer("n"), &options);
    assert_eq!(command(&facts).0, json!(["/app", "--port=80"]));
    assert!(facts.draft.form.notes.contains(&Note::Frozen("PORT".to_owned())));
}

#[test]
fn what_needs_no_translation_is_left_alone() {
    for container in
        [json!({"Entrypoint": ["/app"], "Cmd": ["/bin/sh", "-c", "x"]}), json!({"Cmd": ["/app"]}), json!({})]
    {
        let facts = moved(container.clone());
        assert!(matches!(facts.draft.form.outcome, CommandOutcome::Unchanged), "{container}");
    }
    let shell = layer("n").with_program("bin/sh", program(Linkage::Static));
    let container = json!({"Entrypoint": ["/bin/sh", "-c", "a | b"]});
    let facts = answers(container, app(), shell, &RebaseOptions::default());
    assert!(matches!(facts.draft.form.outcome, CommandOutcome::Unchanged), "the new base has the shell");
}

fn logs(script: &str, program: Program, new: LayerIndex, logs: LogChoice) -> Pass {
    let options = RebaseOptions { logs, ..RebaseOptions::default() };
    let own = layer("app").with_program("app", program);
    answers(json!({"Entrypoint": ["/bin/sh", "-c", script]}), own, new, &options)
}

const BOTH: &str = "exec /app 1>>/var/log/app.log 2>&1";

fn runner() -> LayerIndex {
    layer("n").with_program("go-runner", program(Linkage::Static))
}

#[test]
fn auto_takes_klog_where_it_is_proven_then_a_runner_then_nothing() {
    let flags = ["--logtostderr=false", "--log_file=/var/log/app.log", "--log_file_max_size=0"];
    let klog_program = || klog(&["k8s.io/klog/v2.InitFlags"]);
    for new in [layer("n"), runner()] {
        let facts = logs(BOTH, klog_program(), new, LogChoice::Auto);
        let argv = facts.draft.container.command.argv();
        assert!(flags.iter().all(|flag| argv.iter().any(|word| word == flag)), "{argv:?}");
        assert_eq!((facts.draft.form.lead, facts.startup.after.chain.len()), (0, 1));
    }
    let facts = logs(BOTH, program(Linkage::Static), runner(), LogChoice::Auto);
    assert_eq!(facts.draft.container.command.argv(), ["/go-runner", "--log-file=/var/log/app.log", "/app"]);
    assert_eq!(chain(&facts), ["/go-runner", "/app"], "the runner is proven to start, too");
    let facts = logs(BOTH, program(Linkage::Static), layer("n"), LogChoice::Auto);
    assert!(matches!(facts.draft.form.outcome, CommandOutcome::NoLog(_)));
    assert_eq!(facts.draft.container.command.argv(), ["/bin/sh", "-c", BOTH], "nothing was changed");
}

#[test]
fn the_strategy_that_is_asked_for_is_taken_or_refused() {
    let facts = logs(BOTH, program(Linkage::Static), runner(), LogChoice::Klog);
    assert!(facts.draft.form.log.as_ref().unwrap().choice.unproven.is_some());
    let facts = logs(BOTH, klog(&["k8s.io/klog/v2.InitFlags"]), layer("n"), LogChoice::Runner);
    assert!(matches!(facts.draft.form.outcome, CommandOutcome::NoLog(_)), "there is no runner");
    let facts = logs(BOTH, program(Linkage::Static), layer("n"), LogChoice::Stdout);
    assert_eq!(facts.draft.container.command.argv(), ["/app"]);
    assert_eq!(facts.draft.form.log.as_ref().unwrap().path, "/var/log/app.log");
}

#[test]
fn dashes_are_not_taken_for_proven_where_names_are_not_normalised() {
    let unproven = |packages: &[&str], klog_style| {
        let options = RebaseOptions { klog_style, ..RebaseOptions::default() };
        let own = layer("app").with_program("app", klog(packages));
        let facts = answers(json!({"Entrypoint": ["/bin/sh", "-c", BOTH]}), own, layer("n"), &options);
        facts.draft.form.log.unwrap().choice.unproven.is_some()
    };
    let (plain, normalised) = (["k8s.io/klog.InitFlags"], ["k8s.io/klog.InitFlags", "WordSepNormalizeFunc"]);
    assert!(unproven(&plain, KlogStyle::Dash));
    assert!(!unproven(&plain, KlogStyle::Underscore));
    assert!(!unproven(&normalised, KlogStyle::Dash) && !unproven(&normalised, KlogStyle::Underscore));
}

#[test]
fn only_stdout_in_the_file_is_a_runners_work() {
    let klog_program = klog(&["k8s.io/klog/v2.InitFlags"]);
    let facts = logs("exec /app >>/var/log/app.log", klog_program, runner(), LogChoice::Auto);
    assert_eq!(facts.draft.container.command.argv().first().map(String::as_str), Some("/go-runner"));
}

#[test]
fn the_log_folder_is_made_for_what_the_shell_wrote() {
    let facts = logs(BOTH, klog(&["k8s.io/klog/v2.InitFlags"]), layer("n"), LogChoice::Auto);
    let made = facts.draft.layers.added.layer.entries().map(|(entry, _)| entry.path.to_string()).collect::<Vec<_>>();
    assert_eq!(made, ["/var", "/var/log"]);
}

/// The layer with a script at `run.sh`.
fn with_script(text: &str) -> LayerIndex {
    let interpreter = text.lines().next().unwrap().trim_start_matches("#!").to_owned();
    let script = Program { script: Some(Script { interpreter, argument: None }), ..program(Linkage::Script) };
    let mut layer = app().with_program("run.sh", script);
    let content = text.as_bytes().to_vec();
    layer.entries[1] = Entry { kind: EntryKind::File { size: content.len() as u64 }, ..entry("run.sh") };
    layer.captured.push(Captured { entry: 1, content });
    layer
}

#[test]
fn an_entrypoint_script_is_read_and_translated() {
    let script = "#!/bin/sh\n# starts it\nset -e\nexec /app --v=4 \"$@\" 1>>/var/log/app.log 2>&1\n";
    let container = json!({"Entrypoint": ["/run.sh"], "Cmd": ["--cloud=x"]});
    let facts = answers(container, with_script(script), layer("n"), &RebaseOptions::default());
    let (entrypoint, cmd) = command(&facts);
    assert_eq!((&entrypoint[0], &entrypoint[1], cmd), (&json!("/app"), &json!("--v=4"), json!(["--cloud=x"])));
    assert_eq!(
        (facts.draft.form.script.as_deref(), facts.startup.helpers.len()),
        (Some("/run.sh"), 0),
        "it is no helper any more"
    );
    let container = json!({"Entrypoint": ["/app"]});
    let facts = answers(container, with_script(script), layer("n"), &RebaseOptions::default());
    assert_eq!((facts.draft.form.script, facts.startup.helpers.len()), (None, 1), "one that was not read is a helper");
    let container = json!({"Entrypoint": ["/run.sh"]});
    let facts = answers(
        container,
        with_script("#!/bin/sh\nfor i in 1; do /app; done\n"),
        layer("n"),
        &RebaseOptions::default(),
    );
    assert!(matches!(facts.draft.form.outcome, CommandOutcome::Refused(ref why) if why.reason == shell::Reason::Loop));
}

#[test]
fn an_init_goes_with_the_old_base_and_stays_where_the_image_has_it() {
    let container = || json!({"Entrypoint": ["/usr/bin/tini", "--"], "Cmd": ["/app", "x"]});
    let facts = moved(container());
    assert_eq!((command(&facts), facts.draft.form.init_dropped.len()), ((Value::Null, json!(["/app", "x"])), 2));
    let own = app().with_program("usr/bin/tini", program(Linkage::Static));
    let facts = answers(container(), own, layer("n"), &RebaseOptions::default());
    assert_eq!((facts.draft.form.init_dropped.len(), facts.draft.form.lead), (0, 2));
    assert!(facts.startup.helpers.is_empty(), "what is started first is no helper");
    assert_eq!(chain(&facts), ["/usr/bin/tini", "/app"]);
}

#[test]
fn an_init_and_a_runner_are_both_proven_to_start() {
    let own = layer("app").with_program("app", program(Linkage::Static));
    let own = own.with_program("tini", program(Linkage::Static));
    let new = layer("n").with_program("go-runner", program(Linkage::Dynamic));
    let container = json!({"Entrypoint": ["/tini", "--", "/bin/sh", "-c", BOTH]});
    let facts = answers(container, own, new, &RebaseOptions::default());
    assert_eq!(chain(&facts), ["/tini", "/go-runner", "/app"]);
}

#[test]
fn flags_in_cmd_that_would_undo_klogs_are_refused() {
    let script = "exec /app \"$@\" >>/var/log/app.log 2>&1";
    let stuck = |cmd: &[&str]| {
        let container = json!({"Entrypoint": ["/bin/sh", "-c", script, "--"], "Cmd": cmd});
        moved(container).draft.form.is_stuck()
    };
    for cmd in ["--logtostderr=true", "-logtostderr", "--alsologtostderr", "--log_dir=/x", "--log-file=/x"] {
        assert!(stuck(&["--v=2", cmd]), "{cmd}");
    }
    for cmd in ["--v=2", "--logging-format=text", "logtostderr", "--stderrthreshold=INFO"] {
        assert!(!stuck(&[cmd]), "{cmd}");
    }
    assert!(!stuck(&["--", "--logtostderr"]), "no flag behind the end of flags");
}

#[test]
fn a_shell_is_not_extracted_unless_it_is_kept() {
    let own = || app().with_program("bin/sh", program(Linkage::Static));
    let container = || json!({"Entrypoint": ["/bin/sh", "-c", BOTH]});
    let extracting = |keep: &[&str]| RebaseOptions {
        extract: true,
        keep: keep.iter().map(|path| path.parse().unwrap()).collect(),
        ..RebaseOptions::default()
    };
    let shell = layer("n").with_program("bin/sh", program(Linkage::Static));
    for (options, new, translated) in [
        (extracting(&[]), layer("n"), true),
        (extracting(&["/bin/sh"]), layer("n"), false),
        (extracting(&[]), shell, false),
        (RebaseOptions::default(), layer("n"), false),
    ] {
        let facts = answers(container(), own(), new, &options);
        assert_eq!(
            matches!(facts.draft.form.outcome, CommandOutcome::Translated),
            translated,
            "{:?}",
            facts.draft.form.outcome
        );
    }
}

#[test]
fn the_user_may_say_the_command() {
    let options = RebaseOptions {
        entrypoint: Some(CommandWords(vec!["/app".to_owned()])),
        cmd: Some(CommandWords(Vec::new())),
        ..RebaseOptions::default()
    };
    let container = json!({"Entrypoint": ["/bin/sh", "-c", "a | b"], "Cmd": ["x"]});
    let facts = answers(container, app(), layer("n"), &options);
    assert_eq!(command(&facts), (json!(["/app"]), Value::Null));
}

#[test]
fn a_health_check_becomes_exec_form() {
    let checked = |test: Value| moved(json!({"Entrypoint": ["/app"], "Healthcheck": {"Test": test, "Retries": 3}}));
    let facts = checked(json!(["CMD-SHELL", "/app health >/dev/null 2>&1"]));
    assert_eq!(facts.draft.container.members["Healthcheck"], json!({"Test": ["CMD", "/app", "health"], "Retries": 3}));
    let facts = checked(json!(["CMD", "/bin/sh", "-c", "exec /app health"]));
    assert_eq!(facts.draft.container.members["Healthcheck"]["Test"], json!(["CMD", "/app", "health"]));
    for refused in
        ["/app health || exit 0", "/app health || true", "A=1 /app health", "cd /srv && /app", "/app | tee x"]
    {
        let facts = checked(json!(["CMD-SHELL", refused]));
        assert!(matches!(facts.draft.form.health, HealthOutcome::Refused(_)), "{refused}");
    }
    for same in ["/app health", "/app health || exit 1", "/app health 2>/dev/null || false;", "cd / && /app health"] {
        let facts = checked(json!(["CMD-SHELL", same]));
        assert_eq!(facts.draft.container.members["Healthcheck"]["Test"], json!(["CMD", "/app", "health"]), "{same}");
    }
    assert!(matches!(checked(json!(["NONE"])).draft.form.health, HealthOutcome::Unchanged));
}

#[test]
fn a_relative_directory_is_seen_from_the_working_directory() {
    for (workdir, script, directory) in [
        ("/srv", "cd sub && exec /app", Some("/srv/sub")),
        ("/srv", "cd ./sub/x && exec /app", Some("/srv/sub/x")),
        ("", "cd sub && exec /app", Some("/sub")),
        ("/srv", "cd /a && cd b && exec /app", Some("/a/b")),
        ("/srv", "cd .. && exec /app", None),
        ("/srv", "cd -P sub && exec /app", None),
    ] {
        let facts = moved(json!({"Entrypoint": ["/bin/sh", "-c", script], "WorkingDir": workdir}));
        let is_translated = matches!(facts.draft.form.outcome, CommandOutcome::Translated);
        assert_eq!(is_translated, directory.is_some(), "{script}");
        if let Some(directory) = directory {
            assert_eq!(facts.draft.container.members["WorkingDir"], directory, "{script}");
        }
    }
    let searched = json!({"Cmd": ["/bin/sh", "-c", "cd sub && /app"], "Env": ["CDPATH=/x"]});
    assert_eq!(translated(searched, app()), None, "the shell looks in /x first");
}

#[test]
fn wildcards_are_kept_where_they_match_no_file_of_source_or_result() {
    let own = || {
        let mut own = app();
        own.entries.push(entry("srv/a.conf"));
        own
    };
    for (word, kept) in
        [("*.yaml", true), ("*.conf", false), ("[bc].conf", true), ("[a].conf", false), ("a?conf", false)]
    {
        let container = json!({"Cmd": ["/bin/sh", "-c", format!("exec /app {word}")], "WorkingDir": "/srv"});
        let argv = translated(container, own());
        assert_eq!(argv, kept.then(|| vec!["/app".to_owned(), word.to_owned()]), "{word}");
    }
    let container = json!({"Cmd": ["/bin/sh", "-c", "exec /app /etc/n*"]});
    assert!(translated(container.clone(), own()).is_some());
    let new = layer("n").with_program("etc/new", program(Linkage::Static));
    let facts = answers(container, own(), new, &RebaseOptions::default());
    assert!(matches!(facts.draft.form.outcome, CommandOutcome::Refused(ref why) if why.reason == Reason::Glob));
}

#[test]
fn a_shell_that_starts_a_script_is_read_like_the_script() {
    let script = "#!/bin/sh\nset -e\nexport MODE=$LEVEL\nexec /app --v=4 \"$@\"\n";
    let own = || with_script(script);
    for (command, expected) in [
        ("LEVEL=1 ./run.sh", Some("/app --v=4")),
        ("export LEVEL=1; exec /run.sh a 'b c'", Some("/app --v=4 a b c")),
        ("LEVEL=1 /run.sh | grep x", None),
        ("/run.sh", None),
    ] {
        let argv = translated(json!({"Cmd": ["/bin/sh", "-c", command]}), own());
        assert_eq!(argv.map(|argv| argv.join(" ")).as_deref(), expected, "{command}");
    }
    let container = json!({"Entrypoint": ["/bin/sh", "-c", "LEVEL=x ./run.sh one"], "Cmd": ["ignored"]});
    let facts = answers(container, own(), layer("n"), &RebaseOptions::default());
    assert_eq!(command(&facts), (json!(["/app", "--v=4", "one"]), Value::Null));
    assert_eq!(facts.draft.container.members["Env"], json!(["LEVEL=x", "MODE=x"]));
    assert_eq!(facts.draft.form.script.as_deref(), Some("/run.sh"));
    let passing = "LEVEL=x ./run.sh one \"$@\"";
    let container = json!({"Entrypoint": ["/bin/sh", "-c", passing, "--"], "Cmd": ["two", "three"]});
    let facts = answers(container, own(), layer("n"), &RebaseOptions::default());
    assert_eq!(command(&facts), (json!(["/app", "--v=4", "one"]), json!(["two", "three"])));
    let twice = with_script("#!/bin/sh\nexec /app >>/var/log/b 2>&1\n");
    let container = json!({"Cmd": ["/bin/sh", "-c", "./run.sh >>/var/log/a 2>&1"]});
    assert_eq!(translated(container, twice), None, "the output goes to two places");
}

#[test]
fn variables_that_change_the_shell_are_objected_to() {
    for (variable, shell, is_translated) in [
        ("BASH_ENV=/x", "bash", false),
        ("BASH_ENV=/x", "dash", true),
        ("SHELLOPTS=noglob", "sh", false),
        ("BASH_FUNC_app%%=() { :; }", "bash", false),
        ("POSIX=1", "bash", true),
    ] {
        let container = json!({"Cmd": [shell, "-c", "exec /app"], "Env": [variable]});
        assert_eq!(translated(container, app()).is_some(), is_translated, "{variable} {shell}");
    }
}

#[test]
fn the_user_may_set_what_the_container_starts_with() {
    let options = RebaseOptions {
        user: Some("65532:65532".to_owned()),
        workdir: Some("/srv".parse().unwrap()),
        env: vec!["A=2".parse().unwrap()],
        healthcheck: Some(r#"["/app", "health"]"#.parse().unwrap()),
        ..RebaseOptions::default()
    };
    let container = json!({"Entrypoint": ["/app"], "Env": ["A=1", "B=1"], "User": "0", "Healthcheck": {"Test": ["CMD-SHELL", "x | y"], "Retries": 2}});
    let facts = answers(container, app(), layer("n"), &options);
    let members = &facts.draft.container.members;
    assert_eq!(
        (&members["User"], &members["WorkingDir"], &members["Env"]),
        (&json!("65532:65532"), &json!("/srv"), &json!(["B=1", "A=2"]))
    );
    assert_eq!(members["Healthcheck"], json!({"Test": ["CMD", "/app", "health"], "Retries": 2}));
    assert!(matches!(facts.draft.form.health, HealthOutcome::Unchanged));
}

#[test]
fn a_script_that_is_inlined_can_be_left_out() {
    let script = "#!/bin/sh\nexec /app \"$@\"\n";
    let dropping = |path: &str| RebaseOptions { drop: vec![path.parse().unwrap()], ..RebaseOptions::default() };
    let container = || json!({"Entrypoint": ["/run.sh"]});
    let facts = answers(container(), with_script(script), layer("n"), &dropping("/run.sh"));
    assert_eq!(command(&facts).0, json!(["/app"]));
    assert!(facts.draft.layers.drop_missing.is_empty());
    let roots = facts.draft.layers.roots(&facts.subject);
    assert!(
        roots.rebased.get(&"/run.sh".parse().unwrap()).is_none()
            && roots.rebased.get(&"/app".parse().unwrap()).is_some()
    );
    let facts = answers(container(), with_script(script), layer("n"), &dropping("/ran.sh"));
    assert_eq!(facts.draft.layers.drop_missing.len(), 1, "nothing of that name");
}

#[test]
fn a_health_check_that_is_a_script_is_read_or_refused() {
    let checked = |script: &str, test: Value| {
        let container = json!({"Entrypoint": ["/app"], "Healthcheck": {"Test": test}});
        let facts = answers(container, with_script(script), layer("n"), &RebaseOptions::default());
        let is_refused = matches!(facts.draft.form.health, HealthOutcome::Refused(_));
        (!is_refused).then(|| facts.draft.container.members["Healthcheck"]["Test"].clone())
    };
    for test in [json!(["CMD", "/run.sh"]), json!(["CMD-SHELL", "./run.sh || exit 1"])] {
        let health = checked("#!/bin/sh\nexec /app health\n", test.clone());
        assert_eq!(health, Some(json!(["CMD", "/app", "health"])), "{test}");
        assert_eq!(checked("#!/bin/sh\nx | y\n", test.clone()), None, "{test}");
        assert_eq!(checked("#!/usr/bin/python3\nprint()\n", test.clone()), None, "{test}");
    }
}
