//! How much of a sweep is tried: a part in `scripts/test`, and all of it in `scripts/check`, which says so with
//! `UNDERPIN_SWEEP=whole`. A part of a list is the same every time and spread over the whole; where moments
//! are random, there are fewer. `scripts/parts` lists the tests that sweep, and a test holds the list (`skips`). This file is a module of each test
//! binary.

#![allow(dead_code)]

pub fn is_whole() -> bool {
    std::env::var("UNDERPIN_SWEEP").as_deref() == Ok("whole")
}

/// How often something is tried.
pub fn times<T>(part: T, whole: T) -> T {
    if is_whole() { whole } else { part }
}

/// Numbers from 0 to `count`, of which a part is at most `part`, spread evenly, with the first.
pub fn spread(count: usize, part: usize) -> impl Iterator<Item = usize> {
    (0..count).step_by(count.div_ceil(times(part, usize::MAX)).max(1))
}

/// Those of a list.
pub fn some<T>(list: Vec<T>, part: usize) -> Vec<T> {
    let step = list.len().div_ceil(times(part, usize::MAX)).max(1);
    list.into_iter().step_by(step).collect()
}

#[test]
fn a_part_is_spread_over_the_whole() {
    let expected: Vec<usize> = if is_whole() { (0..10).collect() } else { vec![0, 4, 8] };
    assert_eq!(spread(10, 3).collect::<Vec<_>>(), expected);
    assert_eq!(some((0..10).collect(), 3), expected);
    assert_eq!(spread(2, 3).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(spread(0, 3).count(), 0);
}
