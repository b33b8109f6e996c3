//! Tokens: how they are asked for, and whom.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::{Locked, PASSWORD, USER, silent_about_secrets, write};
use crate::support::http::Answer;
use crate::support::proxy::{Action, on};
use crate::support::published;
use crate::support::skip::or_skip;
use crate::support::token_server::{Field, Guarded, Guest, Manners};

#[test]
fn tokens_are_asked_for_with_the_password_and_the_right_scopes() {
    let guest = Guest::Basic { user: USER.to_owned(), password: PASSWORD.to_owned() };
    for field in [Field::Token, Field::AccessToken] {
        let manners = Manners { guest: guest.clone(), field, ..Manners::default() };
        let guarded = or_skip!(Guarded::new(manners));
        let basic = STANDARD.encode(format!("{USER}:{PASSWORD}"));
        let auths = json!({"auths": {guarded.proxy.host(): {"auth": basic}}});
        write(&guarded.sandbox.path("home/.docker/config.json"), &auths.to_string());
        let run = silent_about_secrets(guarded.rebase(&guarded.name("out/app:v1")).arg("-v").run()).ok();
        assert!(published::registry(guarded.back.host(), "out/app", "v1").is_ok(), "{run}");
        let scopes = guarded.tokens.scopes();
        assert!(scopes.contains(&"repository:in/app:pull".to_owned()), "{scopes:?}");
        assert!(scopes.contains(&"repository:out/app:pull,push".to_owned()), "{scopes:?}");
        let basics = guarded.proxy.seen().iter().filter(|seen| is_basic(seen)).count();
        assert_eq!(basics, 0, "the password goes to the token server alone");
        // Layers come from repositories of the same registry: they are mounted.
        assert!(guarded.proxy.count("POST", "?mount=") >= 3, "{run}");
    }
}

fn is_basic(seen: &crate::support::proxy::Seen) -> bool {
    seen.headers.get("authorization").is_some_and(|value| value.to_lowercase().starts_with("basic"))
}

#[test]
fn an_identity_token_is_exchanged_by_post() {
    let guest = Guest::Identity("CANARY-identity".to_owned());
    let guarded = or_skip!(Guarded::new(Manners { guest, field: Field::AccessToken, ..Manners::default() }));
    let auths = json!({"auths": {guarded.proxy.host(): {"auth": STANDARD.encode("00000000-0000-0000-0000-000000000000:"), "identitytoken": "CANARY-identity"}}});
    write(&guarded.sandbox.path("home/.docker/config.json"), &auths.to_string());
    silent_about_secrets(guarded.rebase(&guarded.layout("out")).arg("-v").run()).ok();
    assert!(guarded.tokens.seen().iter().all(|request| request.method == "POST"));
    let wrong = or_skip!(Guarded::new(Manners { guest: Guest::Identity("other".to_owned()), ..Manners::default() }));
    let auths = auths.to_string().replace(&guarded.proxy.host(), &wrong.proxy.host());
    write(&wrong.sandbox.path("home/.docker/config.json"), &auths);
    silent_about_secrets(wrong.rebase(&wrong.layout("out")).arg("-v").run()).fails("authentication");
}

#[test]
fn a_realm_that_leads_inside_gets_nothing() {
    let locked = or_skip!(Locked::new());
    locked.write("home/.docker/config.json", &locked.auths(PASSWORD));
    for realm in
        ["http://169.254.169.254/token", "http://2852039166/token", "file:///etc/passwd", "ftp://example.org/t"]
    {
        let challenge = format!("Bearer realm=\"{realm}\",service=\"x\"");
        let answer = Answer::new(401).header("WWW-Authenticate", challenge);
        locked.proxy.script([on("*", "").always().does(Action::Answer(answer))]);
        let run = silent_about_secrets(locked.rebase().limit(std::time::Duration::from_secs(20)).run());
        assert!(matches!(run.kind().as_deref(), Some("authentication" | "network")), "{realm}\n{run}");
        assert_eq!(run.code(), Some(2), "{realm}\n{run}");
    }
}
