//! What is translated, in all its parts.

use super::super::logs::{Strategy, apply};
use super::super::{
    CommandContext, Declared, ExitStatusUse, Frozen, GlobStart, ImageContext, LogCopy, LogStreams, Note, OpenMode,
    Programs, Reason, Surroundings, Trailing, Verdict, translate,
};
use super::{bash, container, image, sh, words};

/// `argv | NAME=value... | directory | log`, parts that are empty left out.
fn show(verdict: &Verdict) -> String {
    let Verdict::Translate(exec) = verdict else { return format!("{verdict:?}") };
    let mut parts = vec![exec.argv().join(" ")];
    parts.extend(exec.environment.iter().map(|(name, value)| format!("{name}={value}")));
    parts.extend(exec.workdir.iter().map(|directory| format!("in {directory}")));
    parts.extend(exec.log.iter().map(|log| {
        let open_mode = if log.open_mode == OpenMode::Append { ">>" } else { ">" };
        let streams = match log.streams {
            LogStreams::Both => "both",
            LogStreams::Stdout => "stdout",
            LogStreams::Stderr => "stderr",
        };
        let tee = if log.copy == LogCopy::AlsoStdout { " tee" } else { "" };
        format!("{streams}{tee}{open_mode}{}", log.path)
    }));
    parts.join(" | ")
}

fn notes(verdict: &Verdict) -> &[Note] {
    let Verdict::Translate(exec) = verdict else { panic!("{verdict:?}") };
    &exec.notes
}

#[test]
fn export_expands_every_word_before_it_sets_the_first() {
    let Verdict::Translate(exec) =
        translate(&words(&["sh", "-c", "export A=old; export A=new B=$A; exec /app \"$A\" \"$B\""]), None, &image())
    else {
        panic!("it can be translated")
    };
    assert_eq!(exec.program, ["/app", "new", "old"]);
    let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(exec.environment, [text("A", "new"), text("B", "old")]);
}

#[test]
fn words_variables_folders_and_comments() {
    for (script, expected) in [
        ("app", "app"),
        ("exec app;", "app"),
        ("\n\n# why\n  exec app # how\n\n", "app"),
        ("exec \\\n  app \\\n  -x", "app -x"),
        ("'app' \"a  b\" c\\ d ''", "app a  b c d "),
        ("app '$HOME' \"\\$HOME\" \\$HOME a$", "app $HOME $HOME $HOME a$"),
        ("A=1 B='2 3' app", "app | A=1 | B=2 3"),
        ("A=1 exec app B=2", "app B=2 | A=1"),
        ("A= app", "app | A="),
        ("export A=1 B=\"2 3\"\nexec app", "app | A=1 | B=2 3"),
        ("A=1; export A; exec app", "app | A=1"),
        ("export A=1; export A=2; app", "app | A=2"),
        ("export A=/x; export B=$A/y; exec $B/app \"$A\"", "/x/y/app /x | A=/x | B=/x/y"),
        ("export C; app", "app"),
        ("cd /a && app", "app | in /a"),
        ("cd /a; cd ./b && cd . && ./app", "./app | in /a/b"),
        ("set -e; cd /a\nexport A=1\nset -x +u\nexec app", "app | A=1 | in /a"),
        ("set -o errexit; app", "app"),
        ("set -f; app *", "app *"),
        ("app --u=http://x?y=1 --f=[a]", "app --u=http://x?y=1 --f=[a]"),
        ("app a[b c]d {} {a} a#b x=~", "app a[b c]d {} {a} a#b x=~"),
        ("exec echo -n hi", "echo -n hi"),
        ("echo hi", "echo hi"),
        ("[ -d /x ]", "[ -d /x ]"),
        ("app $@", "app"),
        ("\"if\" x", "if x"),
        ("app if then", "app if then"),
    ] {
        let got = show(&sh(script));
        // `x=~` is a tilde; the row above shows that the rest of it is not at fault.
        if script.contains("x=~") {
            assert_eq!(show(&sh(&script.replace(" x=~", ""))), expected.replace(" x=~", ""), "{script}");
            assert!(got.contains("TildeExpansion"), "{got}");
        } else {
            assert_eq!(got, expected, "{script}");
        }
    }
}

#[test]
fn redirections_count_in_their_order() {
    for (script, expected) in [
        ("app >>f", "app | stdout>>f"),
        ("app >f", "app | stdout>f"),
        ("app >|f", "app | stdout>f"),
        ("app 1>>/f 2>&1", "app | both>>/f"),
        ("app 1>>/f -x 2>&1 -y", "app -x -y | both>>/f"),
        (">>/f app 2>&1", "app | both>>/f"),
        ("app >>f 2>>f", "app | both>>f"),
        ("app 2>>f 1>&2", "app | both>>f"),
        ("app 2>f", "app | stderr>f"),
        ("app 2>&1 | tee f", "app | both tee>f"),
        ("app 2>&1 | tee -a /f", "app | both tee>>/f"),
        ("exec app | tee -a f;", "app | stdout tee>>f"),
        ("app 2>&1", "app"),
        ("app >&2", "app"),
        ("app >/dev/null", "app | stdout>/dev/null"),
        ("app >/dev/null 2>&1", "app | both>/dev/null"),
        ("app >/dev/null >>f 2>&1", "app | both>>f"),
        ("app </dev/null", "app"),
        ("app >/dev/stdout 2>/dev/stderr", "app"),
        ("exec >>f 2>&1; exec app", "app | both>>f"),
        ("exec 2>&1\nexec app >>f", "PartialRedirect"),
        ("mkfifo /tmp/pipe; (tee -a /f < /tmp/pipe & ) ; exec app -x > /tmp/pipe 2>&1", "app -x | both tee>>/f"),
    ] {
        let got = show(&sh(script));
        assert!(got == expected || (expected == "PartialRedirect" && got.contains(expected)), "{script}: {got}");
    }
    for (script, expected) in [
        ("app &>f", "app | both>f"),
        ("app &>>f", "app | both>>f"),
        ("app >&f", "app | both>f"),
        ("app |& tee -a f", "app | both tee>>f"),
    ] {
        assert_eq!(show(&bash(script)), expected, "{script}");
    }
}

#[test]
fn arguments_after_the_script_are_used_or_missed() {
    for (argv, expected) in [
        (&["sh", "-c", "exec app \"$@\"", "--", "a", "b c"][..], "app a b c"),
        (&["sh", "-c", "exec app \"${@}\"", "app"], "app"),
        (&["sh", "-c", "exec app", "sh"], "app"),
        (&["tini", "--", "env", "A=1", "sh", "-c", "B=2 app"], "tini -- app | A=1 | B=2"),
        (&["env", "A=1", "sh", "-c", "A=2 app"], "app | A=2"),
        (&["env", "A=1", "sh", "-c", "app $A"], "app 1 | A=1"),
        (&["bash", "-euo", "pipefail", "-c", "app"], "app"),
        (&["dash", "-c", "app {a,b}"], "app {a,b}"),
    ] {
        assert_eq!(show(&translate(&words(argv), None, &image())), expected, "{argv:?}");
    }
}

#[test]
fn a_container_refers_to_its_variables() {
    let context = container(&["A", "B"]);
    let run = |script: &str| translate(&words(&["sh", "-c", script]), None, &context);
    for (script, expected) in [
        ("app $A", "app $(A)"),
        ("app --x=\"$A-${B}\"", "app --x=$(A)-$(B)"),
        ("app $(A)", "app $(A)"),
        ("app 'x$(A)'", "app x$(A)"),
        ("app '$$(A)' '$$x'", "app $$(A) $x"),
        ("C=$A app", "app | C=$(A)"),
        ("app x$(A)>f", "app x$(A) | stdout>f"),
        ("app $(A) >f", "app $(A) | stdout>f"),
        ("/bin/$A x", "/bin/$(A) x"),
        ("app >>/l/$(A).log 2>&1", "app | both>>/l/$(A).log"),
    ] {
        assert_eq!(show(&run(script)), expected, "{script}");
    }
    let passed = words(&["sh", "-c", "app \"$@\" -z", "--", "$(A)", "$$x"]);
    assert_eq!(show(&translate(&passed, None, &context)), "app $(A) $$x -z", "the kubelet reads them again");
}

#[test]
fn values_decide_what_may_stand_without_quotes() {
    let run = |declared: &Declared, script: &str, probe: bool| {
        let declared = [("A".to_owned(), declared.clone())].into();
        let context = if probe {
            CommandContext::Probe { declared }
        } else {
            CommandContext::Container { declared, frozen: Frozen::default(), programs: Programs::Unknown }
        };
        matches!(translate(&words(&["sh", "-c", script]), None, &context), Verdict::Translate(_))
    };
    let literal = |value: &str| Declared::Literal(value.to_owned());
    for (declared, bare, quoted, bare_probe, quoted_probe) in [
        (literal("10.0.0.1"), true, true, true, true),
        (literal("a b"), false, true, false, true),
        (literal(""), false, true, false, true),
        (literal("*"), false, true, false, true),
        (Declared::OneWord, true, true, false, false),
        (Declared::Unknown, false, true, false, false),
    ] {
        let got = [("app $A", false), ("app \"$A\"", false), ("app $A", true), ("app \"$A\"", true)]
            .map(|(script, probe)| run(&declared, script, probe));
        assert_eq!(got, [bare, quoted, bare_probe, quoted_probe], "{declared:?}");
    }
}

#[test]
fn an_image_has_its_values_written_in() {
    let frozen = [("A".to_owned(), "x".to_owned()), ("B".to_owned(), "a b".to_owned())].into();
    let context = CommandContext::Image(ImageContext { frozen, ..ImageContext::default() });
    let run = |script: &str| translate(&words(&["sh", "-c", script]), None, &context);
    assert_eq!(show(&run("exec ./$A --b=\"$B\"")), "./x --b=a b");
    assert!(notes(&run("app $A")).contains(&Note::Frozen("A".to_owned())));
    assert!(matches!(run("app $B"), Verdict::Refuse(_)), "the shell would split it");
    assert!(matches!(run("app $C"), Verdict::Refuse(_)));
}

#[test]
fn what_changes_is_noted() {
    for (script, expected) in [
        ("exec app", &[Note::ArgumentsReachProgram][..]),
        ("app", &[Note::BecomesFirstProcess, Note::ArgumentsReachProgram]),
        ("exec app \"$@\"", &[]),
        ("set -x; exec app \"$@\"", &[Note::TraceDropped]),
        ("set -o pipefail; exec app \"$@\"", &[Note::PipefailAssumed]),
        ("exec app \"$@\" 2>&1", &[Note::MergeDropped]),
        ("exec app \"$@\" </dev/null", &[Note::InputFromNothing]),
        ("cd /a; exec app \"$@\"", &[Note::DirectoryMustExist("/a".to_owned())]),
        ("app \"$@\" | tee f", &[Note::StatusOfTee, Note::BecomesFirstProcess]),
    ] {
        let argv = words(&["sh", "-c", script, "--"]);
        assert_eq!(notes(&translate(&argv, None, &image())), expected, "{script}");
    }
}

#[test]
fn arguments_given_later_reach_the_program_only_where_they_did() {
    let trailing = |argv: &[&str]| match translate(&words(argv), None, &image()) {
        Verdict::Translate(exec) => exec.trailing,
        other => panic!("{other:?}"),
    };
    assert_eq!(trailing(&["sh", "-c", "app \"$@\"", "--"]), Trailing::Passed);
    assert_eq!(trailing(&["sh", "-c", "app \"$@\""]), Trailing::Ignored, "the first of them would be $0");
    assert_eq!(trailing(&["sh", "-c", "app", "--"]), Trailing::Ignored);
}

#[test]
fn without_a_log_every_strategy_leaves_the_words_alone() {
    let Verdict::Translate(exec) = sh("app 2>&1") else { panic!() };
    for strategy in [Strategy::Stdout, Strategy::Runner("/r".to_owned())] {
        assert_eq!(apply(&exec, &strategy).unwrap().argv, ["app"]);
    }
    let Verdict::Translate(exec) = translate(&words(&["tini", "sh", "-c", "app >f 2>&1"]), None, &image()) else {
        panic!()
    };
    let runner = apply(&exec, &Strategy::Runner("/r".to_owned())).unwrap();
    assert_eq!(runner.argv.join(" "), "tini /r --log-file=f app", "the wrapper stays in front");
    let stdout = apply(&exec, &Strategy::Stdout).unwrap();
    assert_eq!((stdout.argv.join(" ").as_str(), stdout.notes.len()), ("tini app", 1));
}

#[test]
fn commands_without_a_shell_stay() {
    for argv in [&["/app", "$X", "*"][..], &["tini", "--", "/app"], &["env", "A=b", "/app"]] {
        assert_eq!(translate(&words(argv), None, &image()), Verdict::Unchanged(Vec::new()), "{argv:?}");
    }
    let probe = CommandContext::Hook;
    assert!(matches!(translate(&words(&["x.sh"]), None, &probe), Verdict::Unchanged(notes) if notes.len() == 1));
}

/// In an image that starts in /srv and has these variables.
fn known(variables: &[&str], status: ExitStatusUse) -> CommandContext {
    let variables = variables.iter().map(|name| (*name).to_owned()).collect();
    let surroundings = Surroundings::Known { working_dir: "/srv".to_owned(), variables };
    CommandContext::Image(ImageContext { surroundings, status, ..ImageContext::default() })
}

#[test]
fn where_the_image_is_known_more_is_translated() {
    let known = known(&[], ExitStatusUse::Exact);
    for (script, alone, expected) in [
        ("cd a && app", None, "app | in /srv/a"),
        ("cd ./a/ && app", None, "app | in /srv/a/"),
        ("cd . && app", None, "app | in /srv"),
        ("cd /b && cd c && app", Some("app | in /b/c"), "app | in /b/c"),
        ("app *.x a?b [c]", None, "app *.x a?b [c]"),
        ("app *'*'\"?\"", None, "app **?"),
        ("./run.sh a", None, "./run.sh a"),
        ("app -o '{{.x}}'", Some("app -o {{.x}}"), "app -o {{.x}}"),
    ] {
        let argv = words(&["sh", "-c", script]);
        assert_eq!(show(&translate(&argv, None, &known)), expected, "{script}");
        let got = sh(script);
        match alone {
            Some(expected) => assert_eq!(show(&got), expected, "{script}"),
            None => assert!(matches!(got, Verdict::Refuse(_)), "{script}"),
        }
    }
    for script in
        ["cd .. && app", "cd - && app", "cd '' && app", "app >*", "export A=*; app", "cd * && app", "app [a/b]"]
    {
        let verdict = translate(&words(&["sh", "-c", script]), None, &known);
        assert!(matches!(verdict, Verdict::Refuse(_)), "{script}: {verdict:?}");
    }
}

#[test]
fn words_with_wildcards_are_given_to_be_looked_up() {
    let context = known(&[], ExitStatusUse::Exact);
    let globs = |script: &str| match translate(&words(&["sh", "-c", script]), None, &context) {
        Verdict::Translate(exec) => exec.globs.into_iter().map(|glob| (glob.text, glob.start)).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let at = |directory: &str| GlobStart::WorkingDir(directory.to_owned());
    assert_eq!(globs("app *"), [("*".to_owned(), at("/srv"))]);
    assert_eq!(globs("cd a; app b/*"), [("b/*".to_owned(), at("/srv/a"))]);
    assert_eq!(globs("app /a/? '*'"), [("/a/?".to_owned(), GlobStart::Root)]);
    assert_eq!(
        globs("A=x; export A; app $A* --f=*"),
        [("x*".to_owned(), at("/srv")), ("--f=*".to_owned(), at("/srv"))]
    );
    assert_eq!(globs("set -f; app *"), []);
}

#[test]
fn a_status_that_only_says_whether_it_failed_can_be_replaced_by_another() {
    let check = known(&[], ExitStatusUse::ZeroOrNot);
    for (script, is_same) in [
        ("app x || exit 1", true),
        ("app x || exit 255;", true),
        ("app x || exit\n", true),
        ("app x || false", true),
        ("app x || exit 0", false),
        ("app x || exit 256", false),
        ("app x || exit -1", false),
        ("app x || exit $A", false),
        ("app x || true", false),
        ("app x || exit 1 >f", false),
        ("app x || exit 1 || exit 0", false),
        ("app x && exit 1", false),
        ("app x; exit 1", false),
        ("app x | exit 1", false),
    ] {
        let argv = words(&["sh", "-c", script]);
        let probe = CommandContext::Probe { declared: [].into() };
        for context in [&check, &probe] {
            let verdict = translate(&argv, None, context);
            assert_eq!(matches!(verdict, Verdict::Translate(_)), is_same, "{script}: {verdict:?}");
        }
        assert!(matches!(sh(script), Verdict::Refuse(_)), "as a command: {script}");
    }
}

#[test]
fn what_repeats_itself_is_bounded() {
    let doubled: String = (0..40).map(|_| "A=$A$A; ").collect();
    let script = format!("A=x; {doubled}export A; app");
    let (many, long) = (format!("app {}", "\"$@\" ".repeat(1000)), "x".repeat(5000));
    let arguments = ["sh", "-c", &many, "--", &long];
    for context in [image(), container(&[]), known(&[], ExitStatusUse::Exact)] {
        let verdict = translate(&words(&["sh", "-c", &script]), None, &context);
        assert!(matches!(verdict, Verdict::Refuse(ref refusal) if refusal.reason == Reason::TooLong), "{verdict:?}");
        let verdict = translate(&words(&arguments), None, &context);
        assert!(matches!(verdict, Verdict::Refuse(_)), "{verdict:?}");
    }
    let once = ["sh", "-c", "app \"$@\"", "--", &long];
    assert!(matches!(translate(&words(&once), None, &container(&[])), Verdict::Translate(_)));
    let deep = format!("cd /a; {} app", "cd b; ".repeat(5000));
    assert!(matches!(sh(&deep), Verdict::Refuse(refusal) if refusal.reason == Reason::TooLong));
}
