//! Each reason with a command that has it, and a twin that differs only in it and is translated.

use std::collections::BTreeSet;

use super::super::{CommandContext, Declared, ImageContext, Reason, Refusal, Verdict, translate};
use super::{container, image, words};

fn verdict(argv: &[&str], context: &CommandContext) -> Result<(), Box<Refusal>> {
    match translate(&words(argv), None, context) {
        Verdict::Refuse(refusal) => Err(refusal),
        Verdict::Translate(_) | Verdict::Unchanged(_) => Ok(()),
    }
}

/// Reason, script under `sh`, the text at the mark, the twin.
const SCRIPTS: &[(Reason, &str, &str, &str)] = &[
    (Reason::Arithmetic, "app $((1+1))", "$((1+1))", "app '$((1+1))'"),
    (Reason::Assignment, "A=1; app", "A=1", "export A=1; app"),
    (Reason::Assignment, "IFS=: app", "IFS=:", "IFX=: app"),
    (Reason::Assignment, "A=1 B=$A app", "$A", "A=1 B=A app"),
    (Reason::Assignment, "a=(b c) app", "(", "a='(b c)' app"),
    (Reason::Assignment, "A+=1 app", "A+=1", "'A+=1' app"),
    (Reason::Assignment, "export A=1; A+=1 app", "A+=1", "export A=1; app A+=1"),
    (Reason::Assignment, "A[0]=1 app", "A[0]=1", "'A[0]=1' app"),
    (Reason::Assignment, "PATH=/a: app", "app", "PATH=/a:/b app"),
    (Reason::Assignment, "export PATH=bin; exec app x", "app", "export PATH=bin; exec /app x"),
    (Reason::Assignment, "PATH= app", "app", "PATX= app"),
    (Reason::RuntimeVariable, "export A=1 B=$A; app", "$A", "export A=1; export B=$A; app"),
    (Reason::BackgroundJob, "app & wait", "&", "app '&' wait"),
    (Reason::BackgroundJob, "app &>>f", "&", "app >>f 2>&1"),
    (Reason::BraceExpansion, "app {a,b}", "{a,b}", "app '{a,b}'"),
    (Reason::BraceExpansion, "app {1..3}", "{1..3}", "app {1.3}"),
    (Reason::CommandSubstitution, "app $(date)", "$(date)", "app '$(date)'"),
    (Reason::CommandSubstitution, "app `date`", "`date`", "app \\`date\\`"),
    (Reason::CommandSubstitution, "app \"x$(date)\"", "$(date)", "app \"x\\$(date)\""),
    (Reason::Conditional, "if true; then app; fi", "if", "'if' true"),
    (Reason::Conditional, "case x in x) app;; esac", "case", "app case x in"),
    (Reason::Conditional, "[[ -d x ]]", "[[", "[ -d x ]"),
    (Reason::ControlCharacter, "app a\rb", "\r", "app 'a\rb'"),
    (Reason::ControlCharacter, "app '\u{1}'", "\u{1}", "app '\t'"),
    (Reason::Dialect, "app $'a'", "$", "app '$a'"),
    (Reason::Dialect, "app $A\\\nB", "$A\\\n", "app \\\nB"),
    (Reason::Dialect, "app \"$\\\nA\"", "$\\\n", "app \"\\\nA\""),
    (Reason::Dialect, "time app", "time", "exec app time"),
    (Reason::Dialect, "app >&f", ">&f", "app >&2"),
    (Reason::ExtraFd, "app 3>f", "3>f", "app 2>f"),
    (Reason::ExtraFd, "app 2>&-", "2>&-", "app 2>&1"),
    (Reason::ExtraFd, "app <>f", "<>f", "app >f"),
    (Reason::ExtraFd, "exec 3>f; app", "3>f", "exec 2>f; app"),
    (Reason::Function, "f() { app; }; f", "f(", "app 'f()'"),
    (Reason::Function, "function f { app; }", "function", "app function"),
    (Reason::Glob, "app *", "*", "app '*'"),
    (Reason::Glob, "app /a/b?", "?", "app http://b?"),
    (Reason::Glob, "app [a]", "[", "app [a"),
    (Reason::HereDocument, "app <<E\nx\nE", "<<", "app '<<E'"),
    (Reason::HereDocument, "app <<<x", "<<", "app '<<<x'"),
    (Reason::Incomplete, "", "", "app"),
    (Reason::Incomplete, "# app", "", "app #"),
    (Reason::Incomplete, "export A=1", "export A=1", "export A=1; app"),
    (Reason::InputRedirect, "app <&2", "<&2", "app >&2"),
    (Reason::InputRedirect, "app <f", "<f", "app </dev/null"),
    (Reason::Loop, "while true; do app; done", "while", "app while"),
    (Reason::Loop, "for i in a; do app; done", "for", "app for i in a"),
    (Reason::Loop, "app; until x; do y; done", "until", "app until"),
    (Reason::MultipleCommands, "a; b", ";", "a ';' b"),
    (Reason::MultipleCommands, "a && b", "&&", "cd /a && b"),
    (Reason::MultipleCommands, "a || b", "||", "a '||' b"),
    (Reason::MultipleCommands, "a\nb", "\n", "a \\\nb"),
    (Reason::MultipleCommands, "cd /a || b", "||", "cd /a && b"),
    (Reason::MultipleCommands, "app | tee f; b", ";", "app | tee f;"),
    (Reason::NestedShell, "bash -c app", "bash", "exec bashful -c app"),
    (Reason::NewlineSplitsCommand, "app\n  --flag", "--flag", "app \\\n  --flag"),
    (Reason::ParameterExpansion, "app ${A:-b}", "${A:-b}", "app '${A:-b}'"),
    (Reason::ParameterExpansion, "app \"${#A}\"", "${#A}", "app \"\\${#A}\""),
    (Reason::PartialRedirect, "app 2>&1 >>f", ">>f", "app >>f 2>&1"),
    (Reason::PartialRedirect, "app 1>&2 2>>f", "2>>f", "app 2>>f 1>&2"),
    (Reason::PartialRedirect, "app >>f 2>>g", "2>>g", "app >>f 2>>f"),
    (Reason::PartialRedirect, "app >f 2>f", "2>f", "app >f 2>&1"),
    (Reason::PartialRedirect, "app >f >g", ">g", "app >/dev/null >g"),
    (Reason::PartialRedirect, "app >f 2>/dev/stdout", "2>/dev/stdout", "app 2>/dev/stdout"),
    (Reason::PartialRedirect, "cd /a >f; app", ">f", "cd /a; app >f"),
    (Reason::Pipeline, "app | grep x", "|", "app | tee x"),
    (Reason::Pipeline, "app 2>&1 | tee a b", "tee a b", "app 2>&1 | tee a"),
    (Reason::Pipeline, "app | tee a/", "tee a/", "app | tee a/b"),
    (Reason::Pipeline, "app | tee -i a", "tee -i a", "app | tee -a a"),
    (Reason::Pipeline, "app >f | tee a", ">f", "app | tee a"),
    (Reason::Pipeline, "app 2>f | tee a", "2>f", "app 2>&1 | tee a"),
    (Reason::Pipeline, "exec 2>&1; app | tee a", "tee a", "exec 2>&1; app >a 2>&1"),
    (Reason::Pipeline, "app | tee a >/dev/null", "tee a >/dev/null", "app | tee a"),
    (Reason::Pipeline, "mkfifo /p; (tee a </p &); exec app >/p", "(", "mkfifo /p; (tee a </p &); exec app >/p 2>&1"),
    (Reason::PositionalParameters, "app $1", "$1", "app '$1'"),
    (Reason::PositionalParameters, "app \"$*\"", "$*", "app \"$@\""),
    (Reason::PositionalParameters, "app ''$@", "$@", "app '' $@"),
    (Reason::PositionalParameters, "app \"$@\"''", "$@", "app '' \"$@\""),
    (Reason::PositionalParameters, "app x\"$@\"", "$@", "app x \"$@\""),
    (Reason::PositionalParameters, "app x\"${@}\"", "${@}", "app x \"$@\""),
    (Reason::PositionalParameters, "app \"$@\" x", "\"$@\"", "app x \"$@\""),
    (Reason::PositionalParameters, "set -- a; app", "set -- a", "set -e; app"),
    (Reason::PositionalParameters, "set pipefail; app", "set pipefail", "set -o pipefail; app"),
    (Reason::ProcessSubstitution, "app < <(b)", "<", "app '<(b)'"),
    (Reason::RelativeDirectory, "cd a && app", "cd a", "cd /a && app"),
    (Reason::RelativeDirectory, "cd /a/.. && app", "cd /a/..", "cd /a/. && app"),
    (Reason::RelativeDirectory, "exec >f; cd /a; app", "cd /a", "exec >/f; cd /a; app"),
    (Reason::RelativeDirectory, "cd && app", "cd", "cd / && app"),
    (Reason::RelativeDirectory, "cd - && app", "cd -", "cd / && app"),
    (Reason::RuntimeVariable, "app $A", "$A", "app '$A'"),
    (Reason::RuntimeVariable, "app \"${A}\"", "${A}", "app \"\\${A}\""),
    (Reason::RuntimeVariable, "app $$", "$$", "app '$$'"),
    (Reason::RuntimeVariable, "app $PWD", "$PWD", "export PWX=a; app $PWX"),
    (Reason::RuntimeVariable, "export A='b c'; app $A", "$A", "export A='b c'; app \"$A\""),
    (Reason::ShellBuiltin, "exit 1", "exit", "exec true"),
    (Reason::ShellBuiltin, "wait", "wait", "await"),
    (Reason::ShellBuiltin, "echo -n x", "echo", "exec echo -n x"),
    (Reason::ShellBuiltin, "command app", "command", "commander app"),
    (Reason::ShellBuiltin, "eval app", "eval", "evaluate app"),
    (Reason::ShellBuiltin, "export; app", "export", "export A; app"),
    (Reason::ShellBuiltin, "set; app", "set", "set -e; app"),
    (Reason::ShellOption, "set -a; app", "set -a", "set -e; app"),
    (Reason::ShellOption, "exec -a b app", "-a", "exec app -a b"),
    (Reason::Source, ". /etc/x && app", ".", "./x app"),
    (Reason::Source, "source /etc/x; app", "source", "sources /etc/x"),
    (Reason::SpecialFile, "app >/dev/tty", ">/dev/tty", "app >/dev/null"),
    (Reason::SpecialFile, "app >/proc/1/fd/1", ">/proc/1/fd/1", "app >/dev/stdout"),
    (Reason::SpecialFile, "app >f/", ">f/", "app >f/g"),
    (Reason::SpecialFile, "app >''", ">''", "app >'a'"),
    (Reason::StatusMasking, "app || true", "|| true", "app '||' true"),
    (Reason::StatusMasking, "! app", "!", "app !"),
    (Reason::Subshell, "(app)", "(", "app '(app)'"),
    (Reason::Subshell, "{ app; }", "{", "app {"),
    (
        Reason::Subshell,
        "mkfifo /p; (tee a <p &); exec app >/p 2>&1",
        "(",
        "mkfifo /p; (tee a </p &); exec app >/p 2>&1",
    ),
    (Reason::SyntaxError, "app 'x", "'", "app 'x'"),
    (Reason::SyntaxError, "app &&", "&&", "app"),
    (Reason::SyntaxError, "; app", ";", "app ;"),
    (Reason::SyntaxError, "app )", ")", "app ')'"),
    (Reason::SyntaxError, "app >", ">", "app >f"),
    (Reason::SyntaxError, "then app", "then", "app then"),
    (Reason::TargetIsShellScript, "exec /run.sh", "/run.sh", "exec /run"),
    (Reason::TargetIsShellScript, "bash /run", "bash", "bashful /run"),
    (Reason::TildeExpansion, "app ~/x", "~/x", "app '~/x'"),
    (Reason::TildeExpansion, "A=~ app", "A=~", "A=a~ app"),
    (Reason::Trap, "trap x TERM; app", "trap", "app trap"),
    (Reason::Ulimit, "app && ulimit -n 1", "ulimit", "app ulimit"),
    (Reason::Umask, "umask 077; app", "umask", "app umask"),
    (Reason::Unreachable, "exec a && b", "&& b", "cd /a && exec b"),
    (Reason::Unreachable, "exec a\nb", "\nb", "exec a\n"),
];

#[test]
fn every_construct_has_its_reason_and_its_twin_is_translated() {
    let mut wrong = Vec::new();
    for (reason, script, mark, twin) in SCRIPTS {
        match verdict(&["sh", "-c", script], &image()) {
            Err(refusal) if refusal.reason == *reason => {
                let marked = refusal.text.get(refusal.span.start..refusal.span.end);
                if marked != Some(mark) {
                    wrong.push(format!("{script:?} is marked at {marked:?}, not {mark:?}"));
                }
                assert_eq!((refusal.word, refusal.text.as_str()), (2, *script));
            }
            other => wrong.push(format!("{script:?}: {other:?}")),
        }
        if let Err(refusal) = verdict(&["sh", "-c", twin], &image()) {
            wrong.push(format!("twin {twin:?}: {refusal:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Reason, command, the twin; in an image.
const COMMANDS: &[(Reason, &[&str], &[&str])] = &[
    (Reason::DeadArguments, &["sh", "-c", "app", "x"], &["sh", "-c", "app", "app"]),
    (Reason::DeadArguments, &["sh", "-c", "app \"$@\"", "x"], &["sh", "-c", "app \"$@\"", "app", "x"]),
    (Reason::RuntimeVariable, &["env", "B=1", "sh", "-c", "app $A"], &["env", "A=1", "sh", "-c", "app $A"]),
    (Reason::Assignment, &["env", "IFS=x", "sh", "-c", "app"], &["env", "IFX=x", "sh", "-c", "app"]),
    (Reason::Dialect, &["bash", "-c", "app &>1"], &["bash", "-c", "app &>l"]),
    (Reason::DeadArguments, &["sh", "-c", "app", "--", "x"], &["sh", "-c", "app \"$@\"", "--", "x"]),
    (Reason::PositionalParameters, &["sh", "-c", "app $@", "--", "x"], &["sh", "-c", "app $@", "--"]),
    (Reason::Incomplete, &["sh", "-c"], &["sh", "-c", "app"]),
    (Reason::Incomplete, &[], &["app"]),
    (Reason::ShellOption, &["sh", "-lc", "app"], &["sh", "-ec", "app"]),
    (Reason::ShellOption, &["bash", "-i", "-c", "app"], &["bash", "-x", "-c", "app"]),
    (Reason::ShellOption, &["dash", "-c", "set -o pipefail; app"], &["sh", "-c", "set -o pipefail; app"]),
    (Reason::TargetIsShellScript, &["sh", "run"], &["run"]),
    (Reason::TargetIsShellScript, &["./run.sh", "a"], &["./run", "a"]),
    (Reason::UnknownShell, &["zsh", "-c", "app"], &["bash", "-c", "app"]),
    (Reason::ProcessSubstitution, &["bash", "-c", "app >(b)"], &["bash", "-c", "app '>(b)'"]),
    (Reason::Arithmetic, &["bash", "-c", "app $[1]"], &["bash", "-c", "app '$[1]'"]),
    (Reason::Pipeline, &["bash", "-c", "app |& cat"], &["bash", "-c", "app |& tee f"]),
    (Reason::ExtraFd, &["bash", "-c", "app {x}>f"], &["bash", "-c", "app {x} >f"]),
];

#[test]
fn every_form_of_command_has_its_reason_and_its_twin_is_accepted() {
    for (reason, argv, twin) in COMMANDS {
        assert_eq!(verdict(argv, &image()).map_err(|refusal| refusal.reason), Err(*reason), "{argv:?}");
        assert_eq!(verdict(twin, &image()), Ok(()), "{twin:?}");
    }
}

#[test]
fn places_refuse_what_they_cannot_expand() {
    let probe = CommandContext::Probe { declared: [("A".to_owned(), Declared::OneWord)].into() };
    let frozen = [("BASH_ENV".to_owned(), "/x".to_owned())].into();
    let file = CommandContext::Image(ImageContext { frozen, ..ImageContext::default() });
    for (reason, script, context) in [
        (Reason::ProbeVariable, "app $A", &probe),
        (Reason::ProbeVariable, "app $B", &probe),
        (Reason::ProbeVariable, "app $(A)", &probe),
        (Reason::RuntimeVariable, "app $A", &CommandContext::Hook),
        (Reason::CommandSubstitution, "app $(A)", &CommandContext::Hook),
        (Reason::CommandSubstitution, "app $(B)", &container(&["A"])),
        (Reason::CommandSubstitution, "app $$(A)", &container(&["A"])),
        (Reason::RuntimeVariable, "app $B", &container(&["A"])),
        (Reason::RuntimeVariable, "app $X$(A)", &container(&["A", "X"])),
        (Reason::RuntimeVariable, "app $$$(A)", &container(&["A"])),
        (Reason::RuntimeVariable, "app \\$(A)", &container(&["A"])),
        (Reason::RuntimeVariable, "$A x", &container(&["A"])),
        (Reason::RuntimeVariable, "$(A)=/x/y app", &container(&["A"])),
        (Reason::RuntimeVariable, "app $(A)>f", &container(&["A"])),
        (Reason::RuntimeVariable, "app 1$(A)>f", &container(&["A"])),
        (Reason::RuntimeVariable, "cd /$A && app", &container(&["A"])),
        (Reason::Assignment, "export A=1; app $(A)", &container(&["A"])),
        (Reason::Assignment, "A=x$A app", &container(&["A"])),
        (Reason::Assignment, "export A=x$A; app", &container(&["A"])),
        (Reason::Assignment, "export A=1; app >>/l/$(A)", &container(&["A"])),
        (Reason::ShellBuiltin, "echo $A", &container(&["A"])),
        (Reason::UnrenderedTemplate, "app {{x}}", &container(&[])),
        (Reason::UnrenderedTemplate, "app '{{x}}'", &probe),
        (Reason::UnrenderedTemplate, "app {{x}}", &CommandContext::Hook),
        (Reason::Source, "app", &file),
    ] {
        let shell = if reason == Reason::Source { "bash" } else { "sh" };
        let got = verdict(&[shell, "-c", script], context).map_err(|refusal| refusal.reason);
        assert_eq!(got, Err(reason), "{script}");
    }
    assert_eq!(verdict(&["sh", "-c", "app"], &file), Ok(()), "only bash reads it");
}

#[test]
fn a_variable_that_is_set_anew_is_not_referred_to_by_words_passed_on() {
    let argv = |word| ["sh", "-c", "A=1 exec app \"$@\"", "--", word];
    let context = container(&["A", "B"]);
    assert_eq!(verdict(&argv("$(A)"), &context).map_err(|refusal| refusal.reason), Err(Reason::Assignment));
    assert_eq!(verdict(&argv("$(B)"), &context), Ok(()));
    assert_eq!(verdict(&argv("$(A)"), &image()), Ok(()), "nobody expands it there");
    for script in ["export A=1 B=$A; app", "export B=$A A=1; app", "export A=$A:x; app"] {
        let refused = verdict(&["sh", "-c", script], &context).map_err(|refusal| refusal.reason);
        assert_eq!(refused, Err(Reason::Assignment), "{script}");
    }
    assert_eq!(verdict(&["sh", "-c", "export C=1 D=$A; app"], &context), Ok(()));
}

/// Each doubles the one before: 40 of them would be a terabyte, and as many empty ones no less.
#[test]
fn variables_that_double_each_other_are_refused_at_once() {
    for start in ["x", "''", "$B"] {
        let doubled =
            |times: usize| format!("export B=1; export A={start}; {}app \"$A\"", "export A=\"$A$A\"; ".repeat(times));
        let refusal = verdict(&["sh", "-c", &doubled(40)], &image()).unwrap_err();
        assert_eq!(refusal.reason, Reason::TooLong, "{start}");
        assert!(verdict(&["sh", "-c", &doubled(3)], &image()).is_ok(), "{start}");
    }
    let many = format!("export A={}; app {}", "x".repeat(1000), "$A ".repeat(20_000));
    assert_eq!(verdict(&["sh", "-c", &many], &image()).unwrap_err().reason, Reason::TooLong);
}

/// A reason without a case here could no longer be told from a mistake.
#[test]
fn every_reason_has_a_case() {
    let cases: BTreeSet<Reason> =
        SCRIPTS.iter().map(|(reason, ..)| *reason).chain(COMMANDS.iter().map(|(reason, ..)| *reason)).collect();
    // Tried in `places_refuse_what_they_cannot_expand`, `script`, `source` and `logs`.
    let elsewhere =
        [Reason::ProbeVariable, Reason::NotText, Reason::TooLong, Reason::LogFlags, Reason::UnrenderedTemplate];
    let missing: Vec<&Reason> =
        Reason::ALL.iter().filter(|reason| !cases.contains(reason) && !elsewhere.contains(reason)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
