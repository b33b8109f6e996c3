//! Who we are, and who gets to know: credentials, tokens, certificates.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::docker_registry::{Door, Registry};
use crate::support::http::Answer;
use crate::support::invocation::{Invocation, Run, Sandbox};
use crate::support::proxy::{Action, Proxy, on};
use crate::support::published;
use crate::support::skip::{Part, or_skip};
use crate::support::tls::{Authority, STRANGER, Validity};
use crate::support::token_server::{self, Field, Guarded, Guest, Manners, rebase_at};
use crate::support::tunnel::Tunnel;

const USER: &str = "ann";
const PASSWORD: &str = "CANARY-pa55word";

/// A registry with a password, behind a proxy.
struct Locked {
    _registry: Registry,
    back: Registry,
    proxy: Proxy,
    sandbox: Sandbox,
}

impl Locked {
    fn new() -> Part<Self> {
        let registry = Registry::with(&Door::Htpasswd { user: USER, password: PASSWORD })?;
        let back = registry.back_door();
        token_server::push_fixtures(back.host());
        let proxy = Proxy::before(registry.host());
        Ok(Self { _registry: registry, back, proxy, sandbox: Sandbox::new() })
    }

    fn rebase(&self) -> Invocation {
        rebase_at(&self.sandbox, &self.proxy.host(), &format!("{}/out/app:v1", self.proxy.host())).arg("-v")
    }

    fn write(&self, path: &str, value: &Value) {
        write(&self.sandbox.path(path), &value.to_string());
    }

    fn auths(&self, password: &str) -> Value {
        let basic = STANDARD.encode(format!("{USER}:{password}"));
        json!({"auths": {self.proxy.host(): {"auth": basic}}})
    }

    fn succeeds(&self, run: Run) {
        let run = silent_about_secrets(run).ok();
        let published = published::registry(self.back.host(), "out/app", "v1").unwrap();
        assert_eq!(published.digest, run.digest(), "{run}");
    }
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// No secret, in no form that it travels in, is in anything the run said.
fn silent_about_secrets(run: Run) -> Run {
    let basic = STANDARD.encode(format!("{USER}:{PASSWORD}"));
    for secret in ["CANARY", basic.as_str(), "eyJ"] {
        assert!(!run.stdout.contains(secret) && !run.stderr.contains(secret), "{secret} was printed\n{run}");
    }
    run
}

// Certificates: whose word counts.

/// A registry with a certificate that only the test's authority vouches for.
fn with_certificate(authority: &Authority) -> Part<(Registry, Registry, Sandbox)> {
    let registry = Registry::with(&Door::Tls(&authority.leaf(Validity::Now)))?;
    let back = registry.back_door();
    token_server::push_fixtures(back.host());
    Ok((registry, back, Sandbox::new()))
}

#[test]
fn a_certificate_is_checked_unless_told_otherwise() {
    let authority = Authority::new();
    let (registry, back, sandbox) = or_skip!(with_certificate(&authority));
    let tunnel = Tunnel::connect(registry.host());
    let host = format!("{STRANGER}:5000");
    let rebase = |tag: &str| {
        let proxy = format!("http://{}", tunnel.host());
        rebase_at(&sandbox, &host, &format!("{host}/out/app:{tag}")).env("HTTPS_PROXY", proxy)
    };
    rebase("none").run().fails("network").says("certificate");
    assert_eq!(back.tag("out/app", "none"), None);
    let run = rebase("known").arg("--cacert").arg(authority.file()).run().ok();
    assert_eq!(back.tag("out/app", "known"), Some(run.digest()));
    let run = rebase("insecure").args(["--insecure", &host]).run().ok();
    assert_eq!(back.tag("out/app", "insecure"), Some(run.digest()));
    rebase("other").args(["--insecure", "registry.test:1"]).run().fails("network").says("certificate");
    let stranger = Authority::new();
    rebase("stranger").arg("--cacert").arg(stranger.file()).run().fails("network").says("certificate");
}

#[test]
fn a_registry_on_this_machine_needs_no_flag() {
    let authority = Authority::new();
    let (registry, back, sandbox) = or_skip!(with_certificate(&authority));
    let rebase = |tag: &str| rebase_at(&sandbox, registry.host(), &format!("{}/out/app:{tag}", registry.host()));
    let run = rebase("loopback").run().ok();
    assert_eq!(back.tag("out/app", "loopback"), Some(run.digest()));
    // Who names an authority wants it to be asked.
    let stranger = Authority::new();
    rebase("stranger").arg("--cacert").arg(stranger.file()).run().fails("network").says("certificate");
}

#[test]
fn an_authority_file_that_is_none_is_an_error() {
    let authority = Authority::new();
    let (registry, _back, sandbox) = or_skip!(with_certificate(&authority));
    write(&sandbox.path("bad.pem"), "not a certificate");
    for file in ["bad.pem", "missing.pem"] {
        let to = format!("{}/out/app:v1", registry.host());
        let run = rebase_at(&sandbox, registry.host(), &to).arg("--cacert").arg(sandbox.path(file)).run();
        assert_eq!(run.code(), Some(2), "{run}");
        run.says(file);
    }
}

// Tokens: how they are asked for, and whom.

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

#[test]
fn a_token_server_at_another_port_of_this_machine_must_be_named() {
    let guest = Guest::Basic { user: USER.to_owned(), password: PASSWORD.to_owned() };
    let guarded = or_skip!(Guarded::new(Manners { guest, ..Manners::default() }));
    let basic = STANDARD.encode(format!("{USER}:{PASSWORD}"));
    let auths = json!({"auths": {guarded.proxy.host(): {"auth": basic}}});
    write(&guarded.sandbox.path("home/.docker/config.json"), &auths.to_string());
    let run = silent_about_secrets(guarded.rebase_unnamed(&guarded.layout("out")).run()).fails("authentication");
    let named = format!("--insecure {}", guarded.tokens.host());
    let run = run.says("credentials are not sent").says(&named);
    assert!(guarded.tokens.seen().is_empty(), "{run}");
    guarded.rebase_unnamed(&guarded.layout("out")).args(named.split(' ')).run().ok();
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

// Passwords: where they are found, and where they never go.

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
fn a_helper_gets_the_variables_that_it_works_with_and_no_others() {
    let locked = or_skip!(Locked::new());
    let seen = locked.sandbox.path("seen");
    let answer = json!({"ServerURL": locked.proxy.host(), "Username": USER, "Secret": PASSWORD});
    let script = format!("env > {}; printf '%s' '{answer}'", seen.display());
    let given = [("AWS_PROFILE", "build"), ("OUR_HELPERS", "mine"), ("LC_ALL", "C"), ("https_proxy", "")];
    let kept = [("COSIGN_PASSWORD", "CANARY"), ("SIGNING_KEY", "CANARY"), ("NPM_TOKEN", "CANARY")];
    let invocation = helper(&locked, &script).env("UNDERPIN_HELPER_ENV", "OUR_HELPERS COSIGN_PASSWORD");
    let invocation =
        given.iter().chain(&kept).fold(invocation, |invocation, (name, value)| invocation.env(name, value));
    locked.succeeds(invocation.run());
    let seen = std::fs::read_to_string(seen).unwrap();
    assert!(!seen.contains("CANARY"), "{seen}");
    for (name, value) in given {
        assert!(seen.lines().any(|line| line == format!("{name}={value}")), "{name}: {seen}");
    }
    assert!(seen.contains("HOME=") && seen.contains("PATH="), "{seen}");
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
    // Source, both bases and target are asked for together, and none of them is asked again.
    assert!(locked.proxy.seen().len() <= 8, "{} requests\n{run}", locked.proxy.seen().len());
    let shown = locked.proxy.seen().iter().filter(|seen| is_basic(seen)).count();
    assert!((1..=2).contains(&shown), "a wrong password that is sent {shown} times locks accounts\n{run}");
}

#[test]
fn a_token_server_that_refuses_a_password_is_not_asked_by_every_request() {
    let guest = Guest::Basic { user: USER.to_owned(), password: PASSWORD.to_owned() };
    let guarded = or_skip!(Guarded::new(Manners { guest, ..Manners::default() }));
    let basic = STANDARD.encode(format!("{USER}:CANARY-wrong"));
    let auths = json!({"auths": {guarded.proxy.host(): {"auth": basic}}});
    write(&guarded.sandbox.path("home/.docker/config.json"), &auths.to_string());
    let run = silent_about_secrets(guarded.rebase(&guarded.name("out/app:v1")).run()).fails("authentication");
    assert!((1..=2).contains(&guarded.tokens.seen().len()), "{:?}\n{run}", guarded.tokens.scopes());
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
