//! What people see: colours, progress, the first call, and what is said when a run is interrupted.

use std::time::Duration;

use crate::support::fixtures;
use crate::support::invocation::Sandbox;
use crate::support::layouts::Layouts;
use crate::support::proxy::{Action, on};
use crate::support::registries::Registries;
use crate::support::skip::or_skip;
use crate::support::terminal::drawn_lines;

const ESCAPE: char = '\u{1b}';

#[test]
fn alone_it_names_three_commands_and_where_help_is() {
    let sandbox = Sandbox::new();
    let (code, seen) = sandbox.underpin::<&str>([]).at_terminal(80);
    assert_eq!(code, Some(2), "{seen}");
    let lines = drawn_lines(&seen);
    assert!(lines.len() < 10, "{seen}");
    let named: Vec<&String> = lines.iter().filter(|line| line.starts_with("  underpin ")).collect();
    assert_eq!(named.len(), 3, "{seen}");
    for line in named {
        let command = line.split_whitespace().nth(1).unwrap();
        sandbox.underpin([command, "--help"]).run().ok();
    }
    assert!(seen.contains("underpin --help"), "{seen}");
    let run = sandbox.underpin::<&str>([]).run();
    assert_eq!((run.code(), run.stdout.as_str()), (Some(2), ""), "stdout carries data only\n{run}");
}

#[test]
fn colours_are_for_terminals_that_want_them_and_files_never_have_any() {
    let layouts = Layouts::on(&fixtures::old_base("linux/amd64"), &fixtures::app("linux/amd64", 10));
    let has_colours = |seen: &str| seen.contains(ESCAPE);
    let (code, seen) = layouts.rebase("one").at_terminal(80);
    assert!(code == Some(0) && seen.contains("\u{1b}[1;32mrebased\u{1b}[0m"), "{seen}");
    let (_, seen) = layouts.underpin(&["inspect", "oci:none:v1"]).at_terminal(80);
    assert!(seen.contains("\u{1b}[1;31merror:\u{1b}[0m"), "{seen}");
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let command = layouts.underpin(&["inspect", "oci:none:v1"]);
        // `at_terminal` names a terminal that has colours.
        let (_, seen) = match name {
            "TERM" => layouts
                .sandbox
                .program("/usr/bin/env", ["TERM=dumb", &crate::support::invocation::binary(), "inspect", "oci:none:v1"])
                .at_terminal(80),
            _ => command.env(name, value).at_terminal(80),
        };
        assert!(!has_colours(&seen) && seen.contains("error: "), "{name}: {seen}");
    }
    let (_, seen) = layouts.underpin(&["inspect", "oci:none:v1", "--color", "never"]).at_terminal(80);
    assert!(!has_colours(&seen), "{seen}");
    let (_, seen) =
        layouts.underpin(&["inspect", "oci:none:v1", "--color", "always"]).env("NO_COLOR", "1").at_terminal(80);
    assert!(has_colours(&seen), "the flag is the last word: {seen}");
    let run = layouts.underpin(&["inspect", "oci:none:v1"]).run().fails("not-found");
    assert!(!has_colours(&run.stderr), "{run}");
    let report = ["--color", "always", "--report", "text=report.txt", "--json"];
    let run = layouts.rebase("two").args(report).run().ok();
    assert!(has_colours(&run.stderr) && !has_colours(&run.stdout), "{run}");
    assert!(!has_colours(&std::fs::read_to_string(layouts.layout("report.txt")).unwrap()));
    // A line of the command line that cannot be read follows the same rules.
    for (args, expected) in
        [(["plan", "--color=always", "--nonsense"], true), (["plan", "--color=never", "--nonsense"], false)]
    {
        let run = layouts.underpin(&args).run();
        assert_eq!((run.code(), has_colours(&run.stderr)), (Some(2), expected), "{run}");
    }
}

/// Slow enough to be watched.
fn slowly(registries: &Registries) {
    registries.source.proxy.script([on("GET", "/blobs/").always().does(Action::Rate(400_000))]);
}

#[test]
fn progress_fits_eighty_columns_with_amounts_rate_and_time_left() {
    let registries = or_skip!(Registries::two(700_000));
    let trial = registries.trial();
    slowly(&registries);
    let (code, seen) = trial.invocation().at_terminal(80);
    assert_eq!(code, Some(0), "{seen}");
    let bars: Vec<String> = drawn_lines(&seen).into_iter().filter(|line| line.starts_with("layer ")).collect();
    assert!(bars.iter().any(|line| line.contains("KiB of") && line.contains("/s")), "{seen:?}");
    // One that fills its line is followed by the next without a line feed; one that is too long would go on in it.
    let pieces = bars.iter().flat_map(|line| {
        let line: Vec<char> = line.chars().collect();
        line.chunks(80).map(String::from_iter).collect::<Vec<String>>()
    });
    let wrapped: Vec<String> = pieces.filter(|piece| !piece.starts_with("layer ")).collect();
    assert!(wrapped.is_empty(), "{wrapped:#?}\n{bars:#?}");
    assert!(bars.iter().any(|line| line.trim_end().ends_with('s')), "the time that is left: {bars:#?}");
    assert!(!seen.contains("warning"), "{seen}");
}

#[test]
fn on_a_pipe_a_long_transfer_says_so_and_quiet_does_not() {
    let registries = or_skip!(Registries::two(700_000));
    let told = |quiet: &[&str]| {
        let trial = registries.trial();
        slowly(&registries);
        let run = trial.invocation().args(quiet).run().ok();
        assert!(!run.stderr.contains(ESCAPE), "{run}");
        run.stderr.lines().filter(|line| line.starts_with("layer ") && line.contains(" of ")).count()
    };
    assert!(told(&[]) > 0, "ten seconds are divided by 20 here, and it takes longer");
    assert_eq!(told(&["-q"]), 0);
}

#[test]
fn an_interrupted_run_says_what_is_published() {
    let registries = or_skip!(Registries::two(1000));
    registries.expected();
    let layouts = Layouts::on(&fixtures::old_base("linux/amd64"), &fixtures::app("linux/amd64", 10));
    let target = registries.target.name("out/interrupted:v1");
    let interrupted = |first: &[&str], method: &'static str, path: &'static str| {
        registries.target.proxy.script([on(method, path).always().does(Action::Hang)]);
        let seen = registries.target.proxy.seen().len();
        let running = layouts.rebase("ignored").args(first).args(["-t", &target]).start();
        let until = std::time::Instant::now() + Duration::from_secs(30);
        while registries.target.proxy.seen().len() == seen
            || !registries.target.proxy.wait_for(method, path, Duration::from_secs(30))
        {
            assert!(std::time::Instant::now() < until, "it never got there");
        }
        running.signal(libc::SIGINT);
        let run = running.finish();
        assert_eq!(run.code(), Some(130), "{run}");
        run
    };
    // The layout `ignored` is the first target, and has the image by now.
    let run = interrupted(&[], "POST", "/blobs/uploads/");
    let line = run.stderr.lines().find(|line| line.starts_with("interrupted: ")).unwrap_or_else(|| panic!("{run}"));
    assert!(
        line.starts_with("interrupted: published oci:ignored:v1@sha256:") && line.ends_with("and nothing else"),
        "{run}"
    );
    // The second time it is there already, and this run has published nothing.
    interrupted(&[], "POST", "/blobs/uploads/").says("interrupted: nothing was published");
    // The last request is under way: nobody can know.
    let run = interrupted(&[], "PUT", "/manifests/");
    assert!(run.stderr.contains("was just being published, and may be"), "{run}");
}
