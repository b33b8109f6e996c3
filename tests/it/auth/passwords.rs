//! Passwords: where they are found, and where they never go.

use std::os::unix::fs::PermissionsExt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Locked, PASSWORD, USER, silent_about_secrets, write};
use crate::support::http::Answer;
use crate::support::invocation::Invocation;
use crate::support::proxy::{Action, Proxy, on};
use crate::support::skip::or_skip;
use crate::support::token_server;

#[test]
fn a_password_is_found_where_docker_keeps_it() {
    let locked = or_skip!(Locked::new());
    locked.write("home/.docker/config.json", &locked.auths(PASSWORD));
    locked.succeeds(locked.rebase().run());
}

#[test]
fn a_password_is_found_where_docker_config_says() {
    let locked = or_skip!(Locked::new());
    locked.write("elsewhere/config.json", &locked.auths(PASSWORD));
    locked.succeeds(locked.rebase().env("DOCKER_CONFIG", locked.sandbox.path("elsewhere")).run());
}

#[test]
fn a_password_is_found_where_podman_keeps_it() {
    let locked = or_skip!(Locked::new());
    locked.write("auth.json", &locked.auths(PASSWORD));
    locked.succeeds(locked.rebase().env("REGISTRY_AUTH_FILE", locked.sandbox.path("auth.json")).run());
    locked.write("run/containers/auth.json", &locked.auths(PASSWORD));
    locked.succeeds(locked.rebase().env("XDG_RUNTIME_DIR", locked.sandbox.path("run")).run());
}

/// A credential helper on the PATH.
fn helper(locked: &Locked, script: &str) -> Invocation {
    let file = locked.sandbox.path("bin/docker-credential-rig");
    write(&file, &format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    locked.write("home/.docker/config.json", &json!({"credHelpers": {locked.proxy.host(): "rig"}}));
    let path = format!("{}:{}", locked.sandbox.path("bin").display(), std::env::var("PATH").unwrap());
    locked.rebase().env("PATH", path)
}

#[test]
fn a_credential_helper_is_asked_for_its_host() {
    let locked = or_skip!(Locked::new());
    let asked = locked.sandbox.path("asked");
    let answer = json!({"ServerURL": locked.proxy.host(), "Username": USER, "Secret": PASSWORD});
    let script = format!("echo \"$1\" >> {0}; cat >> {0}; printf '%s' '{answer}'", asked.display());
    locked.succeeds(helper(&locked, &script).run());
    let asked = std::fs::read_to_string(asked).unwrap();
    assert!(asked.starts_with("get\n") && asked.contains(&locked.proxy.host()), "{asked}");
}

#[test]
fn a_helper_that_fails_is_named_and_what_it_said_is_not_shown() {
    let locked = or_skip!(Locked::new());
    let run = helper(&locked, &format!("echo {PASSWORD}; echo {PASSWORD} >&2; exit 1")).run();
    silent_about_secrets(run).fails("authentication").says("docker-credential-rig");
}

#[test]
fn a_helper_with_a_path_for_a_name_is_not_run() {
    let locked = or_skip!(Locked::new());
    for name in ["../bin/rig", "rig/../rig", "rig;x", "", "RIG", "rig\n"] {
        locked.write("home/.docker/config.json", &json!({"credHelpers": {locked.proxy.host(): name}}));
        let run = locked.rebase().run();
        assert_eq!((run.code(), run.kind().as_deref()), (Some(2), Some("authentication")), "{name:?}\n{run}");
    }
}

#[test]
fn a_wrong_password_is_an_authentication_error() {
    let locked = or_skip!(Locked::new());
    locked.write("home/.docker/config.json", &locked.auths("CANARY-wrong"));
    let run = silent_about_secrets(locked.rebase().run()).fails("authentication").says(&locked.proxy.host());
    assert!(locked.proxy.seen().len() <= 6, "{} requests\n{run}", locked.proxy.seen().len());
}

#[test]
fn no_password_at_all_is_an_authentication_error() {
    let locked = or_skip!(Locked::new());
    locked.rebase().run().fails("authentication").says(&locked.proxy.host());
}

#[test]
fn a_password_for_a_host_that_looks_alike_is_not_used() {
    let locked = or_skip!(Locked::new());
    let host = locked.proxy.host();
    let basic = STANDARD.encode(format!("{USER}:{PASSWORD}"));
    let alike = [format!("{host}0"), format!("x{host}"), format!("{host}.evil.io"), "127.0.0.1".to_owned()];
    let auths: Value = alike.iter().map(|key| (key.clone(), json!({"auth": basic}))).collect();
    locked.write("home/.docker/config.json", &json!({"auths": auths}));
    locked.rebase().run().fails("authentication");
    assert!(locked.proxy.seen().iter().all(|seen| !seen.has("authorization")), "a password was tried");
}

#[test]
fn a_file_that_is_broken_is_named() {
    let locked = or_skip!(Locked::new());
    write(&locked.sandbox.path("home/.docker/config.json"), "{\"auths\": ");
    locked.rebase().run().fails("authentication").says("config.json");
}

#[test]
fn a_redirect_to_another_host_goes_without_the_password() {
    let locked = or_skip!(Locked::new());
    locked.write("home/.docker/config.json", &locked.auths(PASSWORD));
    let other = Proxy::before(locked.back.host());
    let layer = crate::support::fixtures::app_layer("linux/amd64", token_server::PAYLOAD).digest();
    let away = format!("http://localhost:{}/v2/in/app/blobs/{layer}?X-Amz-Signature=CANARY-signature", other.port());
    let authorised = on("GET", format!("/blobs/{layer}")).when(|seen| seen.has("authorization")).always();
    locked.proxy.script([authorised.does(Action::redirect(away))]);
    locked.succeeds(locked.rebase().run());
    assert_eq!(other.count("GET", "/blobs/"), 1);
    assert!(other.seen().iter().all(|seen| !seen.has("authorization")), "the password went to another host");
    // The same where the other host wants to know who we are.
    for challenge in ["Basic realm=\"x\"".to_owned(), format!("Bearer realm=\"http://{}/token\"", other.host())] {
        other.script([on("*", "")
            .always()
            .does(Action::Answer(Answer::new(401).header("WWW-Authenticate", challenge)))]);
        let run = silent_about_secrets(locked.rebase().run());
        assert_eq!(run.code(), Some(2), "{run}");
        assert!(other.seen().iter().all(|seen| !seen.has("authorization")), "the password went to another host");
    }
}
