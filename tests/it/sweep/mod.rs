//! The attack that tries to make "proven" false: images that start, moved by the real binary, and started
//! again. One that was accepted and then starts worse is a failure, and so is an ordinary one that was refused.
//!
//! Every attack has a twin of the same name (up to the first `/`) that lacks just the fatal detail and must
//! move. `SWEEP_CASE=part-of-a-name` runs some of them.

// A family is a table of cases, however long.
#![allow(clippy::too_many_lines)]

mod bases;
mod case;
mod observation;
mod program;
mod verdict;

mod arguments;
mod carried;
mod command;
mod environment;
mod generated;
mod no_command;
mod packages;
mod permissions;
mod scripts;
mod seams;
mod tools;
mod users;
mod wrappers;

use case::{Case, Kind};

use crate::support::skip::{Part, need, or_skip};

fn can_start() -> Part<()> {
    need(&[
        "umoci",
        "runc",
        "musl-gcc",
        "gcc",
        "go",
        "ldd",
        "busybox",
        "mksh-static",
        "tini-static",
        "catatonit",
        "dumb-init",
        "gosu",
    ])
}

type Cases = fn() -> Vec<Case>;

/// All families and their cases.
fn families() -> Vec<(&'static str, Cases)> {
    vec![
        ("command", command::cases),
        ("users", users::cases),
        ("permissions", permissions::cases),
        ("environment", environment::cases),
        ("arguments", arguments::cases),
        ("scripts", scripts::cases),
        ("wrappers", wrappers::cases),
        ("no_command", no_command::cases),
        ("seams", seams::cases),
        ("packages", packages::cases),
        ("tools", tools::cases),
        ("carried", carried::cases),
        ("generated", generated::all),
    ]
}

macro_rules! sweeps {
    ($($test:ident $family:ident $($part:literal)?;)*) => {
        $(#[test]
        fn $test() {
            or_skip!(can_start());
            verdict::sweep(stringify!($family), &$family::cases($($part)?));
        })*
    };
}

sweeps! {
    a_moved_image_starts_its_command command;
    a_moved_image_keeps_its_user users;
    a_moved_image_may_do_what_it_might permissions;
    a_moved_image_keeps_its_variables environment;
    a_moved_image_finds_what_its_arguments_name arguments;
    a_moved_image_runs_its_scripts scripts;
    a_moved_image_starts_through_its_wrappers wrappers;
    an_image_without_a_command_starts_what_a_pod_asks_for no_command;
    a_moved_image_finds_the_files_of_its_own_layers seams;
    a_moved_image_misses_no_package packages;
    a_moved_image_misses_no_tool tools;
    a_moved_image_keeps_the_rest_of_its_config carried;
    an_image_of_combined_traits_starts_as_before generated 0;
    another_image_of_combined_traits_starts_as_before generated 1;
    a_third_image_of_combined_traits_starts_as_before generated 2;
    a_fourth_image_of_combined_traits_starts_as_before generated 3;
}

/// A start agrees with what the files show: nothing is accepted that is worse, and nothing ordinary is refused. Some of
/// the cases, always the same; all of them by hand: `SWEEP_START=1 scripts/test sweep`.
#[test]
fn a_real_start_refuses_no_ordinary_image_and_accepts_no_worse_one() {
    or_skip!(can_start());
    let mut random = fastrand::Rng::with_seed(17);
    for (family, cases) in families() {
        let mut cases = cases();
        random.shuffle(&mut cases);
        cases.truncate(2);
        verdict::sweep_with(family, &cases, verdict::RealStart::Yes);
    }
}

#[test]
fn every_attack_has_a_twin_that_must_move() {
    or_skip!(can_start());
    let pair = |case: &Case| case.name.split('/').next().unwrap().to_owned();
    for (family, cases) in families() {
        let cases = cases();
        let twins: Vec<String> = cases.iter().filter(|case| case.kind == Kind::Ordinary).map(pair).collect();
        let alone = cases.iter().filter(|case| case.kind == Kind::Attack && !twins.contains(&pair(case)));
        let alone: Vec<&str> = alone.map(|case| case.name.as_str()).collect();
        assert!(alone.is_empty(), "{family}: {alone:?}");
    }
}
