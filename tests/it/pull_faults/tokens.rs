//! Tokens that run out or never come. To a layout, so that only pulls need tokens.

use crate::support::http::Answer;
use crate::support::proxy::{Action, on};
use crate::support::published;
use crate::support::skip::or_skip;
use crate::support::token_server::{Field, Guarded, Manners, app_layer, huge};

#[test]
fn a_token_that_runs_out_in_mid_pull_is_renewed_once() {
    let guarded = or_skip!(Guarded::new(Manners::default()));
    let expected = guarded.rebase(&guarded.layout("first")).run().ok().digest();
    let usual = guarded.tokens.seen().len();
    let expired = guarded.tokens.expired("in/app", "pull");
    guarded.proxy.script([on("GET", format!("/blobs/{}", app_layer())).does(Action::Answer(expired))]);
    let run = guarded.rebase(&guarded.layout("second")).run().ok();
    assert_eq!(run.digest(), expected, "{run}");
    assert_eq!(guarded.tokens.seen().len(), usual + 1, "exactly one new token\n{run}");
    assert_eq!(published::layout(&guarded.sandbox.path("second"), "v1").unwrap().digest, expected);
}

#[test]
fn a_token_server_that_fails_twice_is_asked_again() {
    let failures = vec![Answer::new(503), Answer::new(503)];
    let guarded = or_skip!(Guarded::new(Manners { failures, ..Manners::default() }));
    guarded.rebase(&guarded.layout("out")).run().ok();
}

#[test]
fn a_token_of_256_mib_is_not_read() {
    let failures = vec![huge(256 << 20); 20];
    let guarded = or_skip!(Guarded::new(Manners { failures, ..Manners::default() }));
    let run = guarded.rebase(&guarded.layout("out")).run().fails("input");
    assert!(run.peak < 64 * 1024, "{run}");
}

#[test]
fn a_reply_without_a_token_is_an_authentication_error() {
    let guarded = or_skip!(Guarded::new(Manners { field: Field::Nowhere, ..Manners::default() }));
    guarded.rebase(&guarded.layout("out")).run().fails("authentication");
    assert!(!guarded.sandbox.path("out").exists());
}
