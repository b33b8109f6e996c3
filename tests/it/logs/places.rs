//! All the other places a shell hides in, and the flags of those who know better.

use serde_json::{Value, json};

use super::programs::{klog_flag, parts, plain};
use super::{LOG, application, laid_out, of_rule, of_this_machine, shelled, shells, text};
use crate::support::fixtures;
use crate::support::layouts::{Layouts, findings};
use crate::support::skip::{need, or_skip};
use crate::support::tar_layer::{Layer, Pack, program};

fn words(container: &[String]) -> Vec<&str> {
    container.iter().map(String::as_str).collect()
}

#[test]
fn a_health_check_runs_without_its_shell() {
    or_skip!(parts());
    let app = [program("app", plain())];
    let config = |test: Value| json!({"Entrypoint": ["/app", "0"], "Env": [fixtures::PATH, "MODE=quiet"], "Healthcheck": {"Test": test, "Retries": 3}});
    let mut bash = config(json!(["CMD-SHELL", "/app 'is well' 0 &>/dev/null"]));
    bash["Shell"] = json!(["/bin/bash", "-o", "pipefail", "-c"]);
    let layouts = shelled(&app, &bash);
    layouts.rebase("out").run().ok();
    assert_eq!(layouts.container("out").config["Healthcheck"]["Test"], json!(["CMD", "/app", "is well", "0"]), "SHELL");
    for test in [
        json!(["CMD-SHELL", "/app 'is well' 0"]),
        json!(["CMD-SHELL", "exec /app 'is well' 0 >/dev/null 2>&1"]),
        json!(["CMD", "/bin/sh", "-c", "/app 'is well' 0"]),
        json!(["CMD-SHELL", "/app 'is well' 0 || exit 1"]),
        json!(["CMD-SHELL", "cd / && /app 'is well' 0 2>/dev/null || false"]),
    ] {
        let layouts = shelled(&app, &config(test.clone()));
        layouts.rebase("out").run().ok();
        let after = layouts.container("out");
        assert_eq!(
            after.config["Healthcheck"],
            json!({"Test": ["CMD", "/app", "is well", "0"], "Retries": 3}),
            "{test}"
        );
        let check = ["/app", "is well", "0"].map(str::to_owned);
        assert_eq!(after.execute(&check).stdout, "out [is well 0] quiet\n");
        assert_eq!(after.start().stdout, "out [0] quiet\n");
        layouts.verify("oci:out:v1").run().ok().says("verified");
    }
    for test in [json!(["CMD-SHELL", "/app 0 || exit 0"]), json!(["CMD-SHELL", "MODE=loud /app 0"])] {
        let layouts = shelled(&app, &config(test.clone()));
        let report = layouts.rebase("out").arg("--json").run().refused().json();
        assert_eq!(findings(&report["platforms"][0]), ["refuse healthcheck-shell"], "{test}");
        assert!(!layouts.layout("out").exists(), "a refusal writes nothing");
    }
}

#[test]
fn a_variable_is_refused_unless_its_value_is_frozen() {
    or_skip!(parts());
    let config = json!({
        "Cmd": ["/bin/sh", "-c", "exec /app --mode=$MODE \"${MODE}\" 0"], "Env": [fixtures::PATH, "MODE=quiet"],
    });
    let layouts = shelled(&[program("app", plain())], &config);
    layouts.rebase("out").run().refused().says("[needs-shell]").says("--freeze-env");
    assert!(!layouts.layout("out").exists(), "a refusal writes nothing");
    let report = layouts.rebase("out").args(["--freeze-env", "MODE", "--json"]).run().ok().json();
    assert_eq!(of_rule(&report, "env-frozen").len(), 1);
    let (before, after) = (layouts.container("app"), layouts.container("out"));
    assert_eq!(before.start(), after.start());
    assert_eq!(words(&after.command().1), ["/app", "--mode=quiet", "quiet", "0"]);
    layouts.verify("oci:out:v1").run().ok().says("verified");
    // Another variable does not help.
    layouts.rebase("other").args(["--freeze-env", "PATH"]).run().refused();
}

#[test]
fn those_who_know_better_say_the_command_and_it_is_still_proven() {
    or_skip!(parts());
    let config = json!({"Entrypoint": ["/bin/sh", "-c", "/app 0 | grep -v probe"], "Cmd": ["x"], "Env": [fixtures::PATH, "MODE=quiet"]});
    let layouts = shelled(&[program("app", plain())], &config);
    layouts.rebase("out").run().refused().says("[needs-shell]");
    layouts.rebase("out").args(["--entrypoint", r#"["/app"]"#, "--cmd", r#"["said", "0"]"#]).run().ok();
    let after = layouts.container("out");
    assert_eq!(after.start().stdout, "out [said 0] quiet\n");
    assert_eq!((words(&after.command().0), words(&after.command().1)), (vec!["/app"], vec!["said", "0"]));
    layouts.verify("oci:out:v1").run().ok().says("verified");
    let run = layouts.rebase("none").args(["--entrypoint", r#"["/no/such"]"#, "--cmd", "[]"]).run();
    run.refused().says("[entrypoint-missing]");
    layouts.rebase("none").args(["--entrypoint", "/app"]).run().fails("usage");
    assert!(!layouts.layout("none").exists(), "a refusal writes nothing");
}

#[test]
fn an_init_stays_where_it_is_there_and_goes_where_it_is_not() {
    or_skip!(parts());
    or_skip!(need(&["tini-static"]));
    let tini = program("tini", of_this_machine("tini-static"));
    let app = program("app", klog_flag());
    let config = json!({"Entrypoint": ["/tini", "--", "/bin/sh", "-c", "exec /app --v=2 >>/var/log/app.log 2>&1"]});
    let flags = ["--logtostderr=false", "--log_file=/var/log/app.log", "--log_file_max_size=0"];
    let old = shells(std::slice::from_ref(&tini));
    for (layouts, lead) in
        [(shelled(&[app.clone(), tini], &config), vec!["/tini", "--"]), (laid_out(&old, &[app], &config), vec![])]
    {
        let report = layouts.rebase("out").arg("--json").run().ok().json();
        let (before, after) = (layouts.container("app"), layouts.container("out"));
        let expected: Vec<&str> = lead.iter().copied().chain(["/app", "--v=2"]).chain(flags).collect();
        assert_eq!(words(&after.command().0), expected);
        for container in [before, after] {
            assert_eq!(container.start().code, Some(0));
            assert!(container.read(LOG).contains("] knows []\n"));
        }
        let notes: String = of_rule(&report, "pid1-changes").iter().map(|note| text(note, "message")).collect();
        assert_eq!(notes.contains("without an init"), lead.is_empty(), "{notes}");
    }
}

#[test]
fn a_shell_in_the_new_base_goes_on_doing_its_work() {
    or_skip!(parts());
    let entrypoint = json!(["/bin/sh", "-c", "/app 0 2>&1 | cat >>/tmp/app.log; exit 3"]);
    let config = json!({"Entrypoint": entrypoint, "Cmd": ["ignored"], "Env": [fixtures::PATH, "MODE=quiet"]});
    let old = shells(&[]);
    let mut new = fixtures::new_base("linux/amd64");
    let busybox = of_this_machine("busybox");
    new.layers.push(Layer::of(Pack::Gzip, &[program("bin/sh", busybox.clone()), program("bin/cat", busybox)]));
    let app = application(&old, &[program("app", plain())], &config);
    let layouts = Layouts::new(&app.build(), &old.build(), &new.build());
    let report = layouts.rebase("out").arg("--json").run().ok().json();
    let after = layouts.container("out");
    assert_eq!((&after.config["Entrypoint"], &after.config["Cmd"]), (&entrypoint, &json!(["ignored"])));
    assert_eq!(report["platforms"][0]["logs"]["strategy"], "none");
    assert_eq!(after.start().code, Some(3));
    assert_eq!(after.read("/tmp/app.log"), "out [0] quiet\nerr\n");
}

/// What both say when they are started, the words that the result has, and its config.
fn both(layouts: &Layouts) -> (String, String, Vec<String>, Value) {
    let (before, after) = (layouts.container("app"), layouts.container("out"));
    let words = [after.command().0, after.command().1].concat();
    (before.start().stdout, after.start().stdout, words, after.config.clone())
}

#[test]
fn wildcards_that_match_nothing_stay_and_those_that_match_are_refused() {
    or_skip!(parts());
    let files = || [program("srv/app", plain()), program("srv/a.conf", "x")];
    for (script, expected) in [
        (
            "exec ./app *.yaml [b-d].conf 'x*' --u=http://h?a=1 0",
            Some("out [*.yaml [b-d].conf x* --u=http://h?a=1 0] quiet\n"),
        ),
        ("exec ./app *.conf 0", None),
        ("exec ./app /etc/host* 0", None),
    ] {
        let config =
            json!({"Cmd": ["/bin/sh", "-c", script], "WorkingDir": "/srv", "Env": [fixtures::PATH, "MODE=quiet"]});
        let layouts = shelled(&files(), &config);
        let Some(expected) = expected else {
            layouts.rebase("out").run().refused().says("[needs-shell]").says("(glob)");
            continue;
        };
        let report = layouts.rebase("out").arg("--json").run().ok().json();
        let warnings = of_rule(&report, "shell-removed").into_iter().filter(|finding| finding["level"] == "warn");
        assert_eq!(warnings.count(), 2, "{report}");
        let (before, after, ..) = both(&layouts);
        assert_eq!((before.as_str(), after.as_str()), (expected, expected), "{script}");
        layouts.verify("oci:out:v1").run().ok().says("verified");
    }
}

#[test]
fn a_relative_directory_is_where_it_was() {
    or_skip!(parts());
    let config = json!({"Cmd": ["/bin/sh", "-c", "cd sub && exec ./app here 0"], "WorkingDir": "/srv", "Env": [fixtures::PATH, "MODE=quiet"]});
    let layouts = shelled(&[program("srv/sub/app", plain())], &config);
    layouts.rebase("out").run().ok();
    let (before, after, words, config) = both(&layouts);
    assert_eq!((before, words), (after, ["./app", "here", "0"].map(str::to_owned).to_vec()));
    assert_eq!(config["WorkingDir"], "/srv/sub");
}

/// A template of the program's own is no placeholder of anybody else's.
#[test]
fn braces_in_a_finished_image_are_not_a_template() {
    or_skip!(parts());
    let script = "exec /app -o go-template='{{.x}}' 0";
    let layouts = shelled(
        &[program("app", plain())],
        &json!({"Cmd": ["/bin/sh", "-c", script], "Env": [fixtures::PATH, "MODE=quiet"]}),
    );
    layouts.rebase("out").run().ok();
    let (before, after, words, _) = both(&layouts);
    assert_eq!((before, words[2].as_str()), (after, "go-template={{.x}}"));
}

#[test]
fn what_a_container_starts_with_can_be_set_and_is_recorded() {
    or_skip!(parts());
    let config = json!({"Entrypoint": ["/app", "0"], "Env": [fixtures::PATH, "MODE=quiet"], "Healthcheck": {"Test": ["CMD-SHELL", "/app 0 | grep out"]}});
    let layouts = shelled(&[program("app", plain())], &config);
    layouts.rebase("out").run().refused().says("[healthcheck-shell]");
    let flags = ["--user", "65532:65532", "--workdir", "/tmp", "--env", "MODE=loud", "--env", "A=1=2"];
    let flags = flags.into_iter().chain(["--healthcheck", r#"["/app", "0"]"#]);
    layouts.rebase("out").args(flags).run().ok();
    let after = layouts.container("out");
    assert_eq!((&after.config["User"], &after.config["WorkingDir"]), (&json!("65532:65532"), &json!("/tmp")));
    assert_eq!(after.config["Healthcheck"]["Test"], json!(["CMD", "/app", "0"]));
    assert_eq!(after.start().stdout, "out [0] loud\n");
    let environment = after.config["Env"].to_string();
    assert!(environment.contains("A=1=2") && !environment.contains("quiet"), "{environment}");
    layouts.verify("oci:out:v1").run().ok().says("verified");
    layouts.rebase("none").args(["--healthcheck", "none"]).run().ok();
    assert_eq!(layouts.container("none").config["Healthcheck"], json!({"Test": ["NONE"]}));
    for wrong in [["--workdir", "tmp"], ["--env", "A"], ["--healthcheck", "/app"]] {
        layouts.rebase("wrong").args(wrong).run().fails("usage");
    }
    // Set or not, what it names must be there.
    layouts.rebase("wrong").args(["--healthcheck", r#"["/no/such"]"#]).run().refused().says("/no/such");
    layouts
        .rebase("wrong")
        .args(["--user", "nobody-knows", "--healthcheck", "none"])
        .run()
        .refused()
        .says("nobody-knows");
}
