//! klog writes the file that the shell wrote: the same lines in it, and the container's own output
//! as it was.

use serde_json::json;

use super::programs::{
    Component, glog, klog_beside_glog, klog_component, klog_flag, klog_flag_by, klog_normalised, klog_pflag,
    klog_without_flags, parts, runner,
};
use super::{HOME, LOG, laid_out, of_rule, shelled, shells, text};
use crate::support::fixtures;
use crate::support::layouts::{Layouts, fates, findings};
use crate::support::programs::{GoCompiler, known_go_compilers};
use crate::support::skip::or_skip;
use crate::support::tar_layer::{Layer, Pack, folder, program};
use crate::support::tools::Container;

/// The severities and messages of klog's lines, without times and places in the source.
fn lines(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let (head, message) = line.split_once("] ")?;
        let has_date = head.get(1..5).is_some_and(|date| date.bytes().all(|byte| byte.is_ascii_digit()));
        has_date.then(|| format!("{} {message}", &head[..1]))
    };
    text.lines().filter_map(line).collect()
}

fn expected(words: &str) -> Vec<String> {
    ["I starts", "W is careful", "E goes on"]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("I knows [{words}]")])
        .collect()
}

/// Where klog's lines are: in the file, on stdout, on stderr.
fn written(container: &Container) -> [Vec<String>; 3] {
    let ended = container.start();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    [lines(&container.read(LOG)), lines(&ended.stdout), lines(&ended.stderr)]
}

/// Moves with `--logs auto` and gives the container before and after.
fn moved(layouts: &Layouts) -> (Container, Container) {
    layouts.rebase("out").run().ok();
    (layouts.container("app"), layouts.container("out"))
}

const NOTHING: Vec<String> = Vec::new();

/// Where the shell stays, nobody looks at what the program behind it gets.
fn with_home(refusal: &'static str, args: &[&str]) -> Vec<&'static str> {
    if args.contains(&"klog") { vec![refusal, HOME] } else { vec![refusal] }
}

/// klog copies its errors to stderr.
fn errors() -> Vec<String> {
    vec!["E goes on".to_owned()]
}

#[test]
fn the_file_has_the_same_lines_whatever_the_shell_and_the_redirection() {
    or_skip!(parts());
    let app = klog_flag();
    for shell in [
        vec!["/bin/sh", "-c", "exec /app --v=2 1>>/var/log/app.log 2>&1"],
        vec!["/bin/sh", "-c", "exec /app --v=2 >>/var/log/app.log 2>&1"],
        vec!["/bin/sh", "-ec", "exec /app --v=2 >>/var/log/app.log 2>>/var/log/app.log"],
        vec!["/bin/bash", "-c", "exec /app --v=2 &>>/var/log/app.log"],
        vec!["/bin/bash", "-euo", "pipefail", "-c", "/app --logtostderr --v=2 2>>/var/log/app.log"],
        vec!["/bin/busybox", "sh", "-c", "exec /app --v=2 >/var/log/app.log 2>&1"],
    ] {
        let layouts = shelled(&[program("app", app.clone())], &json!({"Entrypoint": shell}));
        let (before, after) = moved(&layouts);
        assert_eq!(written(&before), [expected(""), NOTHING, NOTHING], "{shell:?} before");
        assert_eq!(written(&after), [expected(""), NOTHING, errors()], "{shell:?} after");
        let flags = "/app --v=2 --logtostderr=false --log_file=/var/log/app.log --log_file_max_size=0";
        assert_eq!(after.command().0.join(" "), flags, "{shell:?}");
    }
}

#[test]
fn a_second_start_appends() {
    or_skip!(parts());
    let shell = ["/bin/sh", "-c", "exec /app --v=2 one two >>/var/log/app.log 2>&1"];
    let layouts = shelled(&[program("app", klog_flag())], &json!({"Entrypoint": shell}));
    let (before, after) = moved(&layouts);
    for container in [before, after] {
        container.start();
        assert_eq!(written(&container)[0], [expected("one two"), expected("one two")].concat());
    }
}

#[test]
fn what_went_through_tee_is_in_the_file_and_in_the_containers_log() {
    or_skip!(parts());
    let app = klog_flag();
    for script in ["/app --v=2 2>&1 | tee -a /var/log/app.log", "exec /app --v=2 2>&1 | tee /var/log/app.log"] {
        let layouts = shelled(&[program("app", app.clone())], &json!({"Cmd": ["/bin/sh", "-c", script]}));
        let (before, after) = moved(&layouts);
        assert_eq!(written(&before), [expected(""), expected(""), NOTHING], "{script} before");
        // klog copies to stderr; the runtime keeps both streams.
        assert_eq!(written(&after), [expected(""), NOTHING, expected("")], "{script} after");
        assert_eq!(after.command().0, [""; 0], "a CMD stays a CMD");
    }
}

/// Both spellings are tried on each program: what the binary shows is what it takes.
#[test]
fn flags_are_spelled_as_the_program_takes_them() {
    or_skip!(parts());
    let shell = json!({"Entrypoint": ["/bin/sh", "-c", "exec /app --v=2 x >>/var/log/app.log 2>&1"]});
    let programs = |compiler: &GoCompiler| {
        let version = compiler.version();
        [
            (format!("flag, {version}"), klog_flag_by(compiler), "--log_file", false),
            (format!("pflag, {version}"), klog_pflag(compiler), "--log_file", false),
            (format!("pflag, normalised, {version}"), klog_normalised(compiler), "--log-file", true),
        ]
    };
    for (name, app, flag, takes_dashes) in known_go_compilers().iter().flat_map(programs) {
        let layouts = shelled(&[program("app", app)], &shell);
        let (before, after) = moved(&layouts);
        let entrypoint = after.command().0;
        assert!(entrypoint.contains(&format!("{flag}={LOG}")), "{name}: {entrypoint:?}");
        assert_eq!(written(&before)[0], written(&after)[0], "{name}");
        assert_eq!(written(&after)[0].len(), 8, "{name}");
        let dashed = ["--klog-style", "dash", "--allow", "log-flag-unknown"];
        layouts.rebase("dashed").args(dashed).run().ok();
        let dashed = layouts.container("dashed");
        dashed.start();
        assert_eq!(lines(&dashed.read(LOG)).len(), if takes_dashes { 4 } else { 0 }, "{name}");
        layouts.verify("oci:dashed:v1").run().ok().says("verified");
        let without_leave = layouts.rebase("refused").args(["--klog-style", "dash", "--json"]).run();
        assert_eq!(without_leave.code(), Some(i32::from(!takes_dashes)), "{without_leave}");
    }
}

#[test]
fn a_program_that_never_registers_the_flags_is_not_given_them() {
    or_skip!(parts());
    let shell = json!({"Entrypoint": ["/bin/sh", "-c", "exec /app >>/var/log/app.log 2>&1"]});
    let programs = |compiler: &GoCompiler| {
        [
            (klog_without_flags(compiler), "does not register", Some(0)),
            (klog_beside_glog(compiler), "glog beside klog", Some(2)),
        ]
    };
    for (app, why, code) in known_go_compilers().iter().flat_map(programs) {
        let layouts = shelled(&[program("app", app)], &shell);
        assert_eq!(written(&layouts.container("app"))[0], ["I starts"], "{why}");
        for args in [vec!["--json"], vec!["--json", "--logs", "klog"]] {
            let report = layouts.rebase("out").args(&args).run().refused().json();
            assert_eq!(findings(&report["platforms"][0]), with_home("refuse log-flag-unknown", &args), "{why}");
            assert!(text(of_rule(&report, "log-flag-unknown")[0], "evidence").contains(why), "{report}");
        }
        assert!(!layouts.layout("out").exists(), "a refusal writes nothing");
        // Whoever insists gets them, and sees what comes of it: nothing in the file.
        layouts.rebase("out").args(["--logs", "klog", "--allow", "log-flag-unknown"]).run().ok();
        let container = layouts.container("out");
        assert_eq!((container.start().code, lines(&container.read(LOG))), (code, NOTHING), "{why}");
    }
}

#[test]
fn the_log_folder_is_made_for_its_user_and_only_where_the_user_could_write() {
    or_skip!(parts());
    let app = [program("app", klog_flag())];
    let script = "exec /app --v=2 >>/var/log/app/app.log 2>&1";
    let config = json!({"Entrypoint": ["/bin/sh", "-c", script], "User": "65532:65532"});
    let own = shells(&[folder("var/log/app/").owned(65532, 65532).mode(0o750)]);
    let layouts = laid_out(&own, &app, &config);
    let (before, after) = moved(&layouts);
    for container in [&before, &after] {
        assert_eq!(container.start().code, Some(0));
        assert_eq!(lines(&container.read("/var/log/app/app.log")), expected(""));
        assert_eq!(container.owner("/var/log/app"), (65532, 65532, 0o750));
        assert_eq!(container.owner("/var/log"), (0, 0, 0o755));
        assert_eq!(container.owner("/var/log/app/app.log").0, 65532);
    }
    // The twin: nobody could write there before, and nobody can afterwards.
    let closed = laid_out(&shells(&[folder("var/log/app/")]), &app, &config);
    assert_ne!(closed.container("app").start().code, Some(0));
    let report = closed.rebase("out").arg("--json").run().refused().json();
    assert_eq!(findings(&report["platforms"][0]), [HOME, "refuse log-dir-missing"]);
}

/// A file without a folder is in the one that the container starts in.
#[test]
fn a_relative_file_is_where_it_was() {
    or_skip!(parts());
    let config = json!({"Entrypoint": ["/bin/sh", "-c", "exec /app --v=2 >>app.log 2>&1"], "WorkingDir": "/srv"});
    let layouts = shelled(&[program("app", klog_flag()), folder("srv/")], &config);
    let (before, after) = moved(&layouts);
    for container in [before, after] {
        assert_eq!(container.start().code, Some(0));
        assert_eq!(lines(&container.read("/srv/app.log")), expected(""));
    }
}

#[test]
fn what_is_extracted_logs_as_well() {
    or_skip!(parts());
    let shell = json!({"Entrypoint": ["/bin/sh", "-c", "exec /app --v=2 >>/var/log/app.log 2>&1"]});
    let layouts = shelled(&[program("app", klog_flag())], &shell);
    let report = layouts.rebase("out").args(["--extract", "--json"]).run().ok().json();
    assert_eq!(report["platforms"][0]["logs"]["strategy"], "klog");
    assert_eq!(written(&layouts.container("out")), [expected(""), NOTHING, errors()]);
    let notes: String = of_rule(&report, "shell-removed").iter().map(|note| text(note, "message")).collect();
    assert!(notes.contains("every 5 seconds") && notes.contains("errors go to the container's log"), "{notes}");
    assert!(!layouts.bundle("out").join("rootfs/bin/sh").exists(), "the shell is not taken along");
    layouts.verify("oci:out:v1").run().ok().says("verified");
}

#[test]
fn a_log_folder_of_the_application_needs_no_added_layer() {
    or_skip!(parts());
    let shell = json!({"Entrypoint": ["/bin/sh", "-c", "exec /app >>/logs/a 2>&1"]});
    for (files, expected) in [
        (vec![program("app", klog_flag()), folder("logs/")], vec!["kept"]),
        (vec![program("app", klog_flag())], vec!["kept", "added"]),
    ] {
        let report = shelled(&files, &shell).rebase("out").arg("--json").run().ok().json();
        assert_eq!(fates(&report), expected);
        assert_eq!(report["platforms"][0]["logs"], json!({"strategy": "klog", "file": "/logs/a"}));
    }
}

#[test]
fn a_threshold_that_was_asked_for_stays() {
    or_skip!(parts());
    let shell =
        json!({"Entrypoint": ["/bin/sh", "-c", "exec /app --stderrthreshold=FATAL --v=2 >>/var/log/app.log 2>&1"]});
    let layouts = shelled(&[program("app", klog_flag())], &shell);
    let (_, after) = moved(&layouts);
    assert!(after.command().0.contains(&"--stderrthreshold=FATAL".to_owned()));
    assert_eq!(written(&after), [expected(""), NOTHING, NOTHING]);
}

/// Programs of Kubernetes' own library, built as its releases were: without modules. Of the three that have it, the last
/// takes klog's flags no more, and shows it.
#[test]
fn components_show_their_flags_without_a_list_of_modules() {
    or_skip!(parts());
    let shell = json!({"Entrypoint": ["/bin/sh", "-c", "exec /app --v=2 >>/var/log/app.log 2>&1"]});
    let components = [
        (Component::Normalised, Some("--log-file")),
        (Component::Dashed, Some("--log-file")),
        (Component::WithoutFlags, None),
    ];
    let compilers = known_go_compilers();
    for (compiler, (component, flag)) in compilers.iter().flat_map(|compiler| components.map(|of| (compiler, of))) {
        let layouts = shelled(&[program("app", klog_component(component, compiler))], &shell);
        let Some(flag) = flag else {
            let report = layouts.rebase("out").arg("--json").run().refused().json();
            assert_eq!(findings(&report["platforms"][0]), ["refuse log-flag-unknown"]);
            assert!(text(of_rule(&report, "log-flag-unknown")[0], "evidence").contains("logs/klogflags"));
            layouts.rebase("out").args(["--logs", "klog", "--allow", "log-flag-unknown"]).run().ok();
            assert_eq!(layouts.container("out").start().code, Some(2), "an unknown flag");
            continue;
        };
        let (before, after) = moved(&layouts);
        assert!(after.command().0.contains(&format!("{flag}={LOG}")), "{component:?}");
        assert_eq!(written(&before)[0], written(&after)[0], "{component:?}");
        assert_eq!(written(&after)[0].len(), 8, "{component:?}");
    }
}

// glog cannot be given the name of a file: refused with the choices there are, each of which works.

const SCRIPT: &str = "exec /app --logtostderr >>/var/log/app.log 2>&1";

#[test]
fn a_glog_program_is_refused_with_three_choices_and_moves_with_those_that_fit() {
    or_skip!(parts());
    for compiler in known_go_compilers() {
        refused_with_three_choices(&glog(&compiler));
    }
}

fn refused_with_three_choices(app: &[u8]) {
    let layouts = shelled(&[program("app", app)], &json!({"Entrypoint": ["/bin/sh", "-c", SCRIPT]}));
    let before = layouts.container("app");
    assert_eq!(before.start().code, Some(0));
    assert!(before.read(LOG).contains("] starts\n") && before.read(LOG).contains("] goes on\n"));

    for args in [vec!["--json"], vec!["--json", "--logs", "klog"], vec!["--json", "--logs", "runner"]] {
        let report = layouts.rebase("out").args(&args).run().refused().json();
        assert_eq!(findings(&report["platforms"][0]), with_home("refuse uses-glog", &args), "{args:?}");
        let fix = text(of_rule(&report, "uses-glog")[0], "fix");
        for choice in ["--logs klog", "--logs runner", "--log-runner", "--logs stdout"] {
            assert!(fix.contains(choice), "{args:?}: {fix}");
        }
    }
    assert!(!layouts.layout("out").exists(), "a refusal writes nothing");

    layouts.rebase("out").args(["--logs", "stdout"]).run().ok();
    let after = layouts.container("out");
    assert_eq!(after.command().0, ["/app", "--logtostderr"]);
    let ended = after.start();
    assert!(ended.stderr.contains("] starts\n") && ended.stderr.contains("] goes on\n"), "{ended:?}");
    assert!(!after.has(LOG), "nobody writes the file");
    layouts.verify("oci:out:v1").run().ok().says("verified");

    let mut new = fixtures::new_base("linux/amd64");
    new.layers.push(Layer::of(Pack::Gzip, &[program("go-runner", runner(&[]))]));
    new.build().layout(&layouts.layout("new"), "v1");
    layouts.rebase("run").run().ok();
    let after = layouts.container("run");
    after.start();
    assert!(after.read(LOG).contains("] starts\n") && after.read(LOG).contains("] goes on\n"));
}
