//! Tokens that run out while an image is published.

use crate::support::proxy::{Action, on};
use crate::support::published;
use crate::support::skip::or_skip;
use crate::support::token_server::{Guarded, Manners};

#[test]
fn a_token_that_runs_out_is_renewed_once_wherever_it_happens() {
    let guarded = or_skip!(Guarded::new(Manners::default()));
    let expected = guarded.rebase(&guarded.name("out/usual:v1")).run().ok().digest();
    let usual = guarded.tokens.seen().len();
    for (number, (method, pattern)) in
        [("POST", "/blobs/uploads/"), ("PUT", "/blobs/uploads/"), ("PUT", "/manifests/")].into_iter().enumerate()
    {
        let repository = format!("out/t{number}");
        let expired = guarded.tokens.expired(&repository, "pull,push");
        let answered = on(method, format!("/{repository}{pattern}")).when(|seen| seen.has("authorization"));
        guarded.proxy.script([answered.does(Action::Answer(expired))]);
        let run = guarded.rebase(&guarded.name(&format!("{repository}:v1"))).run().ok();
        assert_eq!(run.digest(), expected, "{run}");
        assert_eq!(guarded.tokens.seen().len(), usual + 1, "{method} {pattern}: one new token\n{run}");
        assert_eq!(published::registry(guarded.back.host(), &repository, "v1").unwrap().digest, expected);
    }
}
