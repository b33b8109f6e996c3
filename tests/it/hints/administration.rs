//! Hints about what is done at a registry or by who runs it: the registry is what the message is about, then it is set
//! right as the hint says, with the tools that people use for it.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::{advice, again};
use crate::attest::attesting;
use crate::store::Setup;
use crate::support::docker_registry::{Door, Registry};
use crate::support::fixtures;
use crate::support::http::Answer;
use crate::support::invocation::{Run, Sandbox};
use crate::support::layouts::Layouts;
use crate::support::proxy::{Action, Proxy, Seen, on};
use crate::support::registries::Registries;
use crate::support::skip::{need, or_skip};
use crate::support::tls::{Authority, Leaf, STRANGER, Validity};
use crate::support::token_server::{Guarded, Guest, Manners, push_fixtures, rebase_at};
use crate::support::tools::tool;
use crate::support::tunnel::Tunnel;

const AUTH: &str = "auth.json";

/// Logs in as people do, and keeps it where skopeo and podman do.
fn log_in(sandbox: &Sandbox, host: &str, password: &str) {
    let words = ["login", "--tls-verify=false", "--username", "ann", "--password", password, host, "--authfile"];
    sandbox.program("skopeo", words).arg(sandbox.path(AUTH)).run().ok();
}

/// An image that somebody looks at who may be logged in.
fn inspect(guarded: &Guarded) -> Run {
    let inspect = guarded.sandbox.underpin(["inspect", &guarded.name("in/app:v1"), "--no-cache"]);
    let inspect = inspect.args(["--insecure", &guarded.tokens.host()]);
    inspect.env("REGISTRY_AUTH_FILE", guarded.sandbox.path(AUTH)).hurried().run()
}

fn ann() -> Guest {
    Guest::Basic { user: "ann".to_owned(), password: "secret".to_owned() }
}

#[test]
fn of_a_token_server_that_gives_no_token() {
    or_skip!(need(&["skopeo"]));
    let guarded = or_skip!(Guarded::new(Manners { guest: ann(), ..Manners::default() }));
    let (sandbox, host) = (&guarded.sandbox, guarded.proxy.host());
    let inspect = || inspect(&guarded);
    let run = inspect().fails("authentication");
    advice(&run, "log in to {registry}: no credentials are stored for it").by_hand(&host);
    log_in(sandbox, &host, "secret");
    inspect().ok();

    let password = "changed".to_owned();
    guarded.tokens.behave(Manners { guest: Guest::Basic { user: "ann".to_owned(), password }, ..Manners::default() });
    let run = inspect().fails("authentication");
    advice(&run, "log in to {registry} again: the stored credentials may be out of date").by_hand(&host);
    log_in(sandbox, &host, "changed");
    inspect().ok();
}

/// Whether the request is made with a token that was given to nobody in particular.
fn is_anonymous(seen: &Seen) -> bool {
    let token = seen.headers.get("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let claims = token.map(|token| URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap());
    claims.is_some_and(|claims| serde_json::from_slice::<Value>(&claims).unwrap()["sub"] == "")
}

#[test]
fn of_a_quota_that_is_used_up() {
    or_skip!(need(&["skopeo"]));
    let guarded = or_skip!(Guarded::new(Manners::default()));
    let quota = Answer::error(429, "TOOMANYREQUESTS", "You have reached your pull rate limit.");
    guarded.proxy.script([on("*", "/manifests/").when(is_anonymous).always().does(Action::Answer(quota))]);
    let (sandbox, host) = (&guarded.sandbox, guarded.proxy.host());
    let inspect = || inspect(&guarded);
    let run = inspect().fails("network");
    advice(&run, "log in to {} for a larger quota, or try again in a few hours").by_hand(&host);
    log_in(sandbox, &host, "secret");
    inspect().ok();
    std::fs::remove_file(sandbox.path(AUTH)).unwrap();
    guarded.proxy.calm();
    inspect().ok();
}

#[test]
fn of_a_registry_that_asks_for_an_hour() {
    let registries = or_skip!(Registries::two(10));
    let trial = registries.trial();
    let busy = Answer::error(503, "UNAVAILABLE", "maintenance").header("Retry-After", "3600");
    registries.source.proxy.script([on("*", "/in/app/").always().does(Action::Answer(busy))]);
    let run = trial.fails(trial.run(), "network");
    let hint = run.stderr.lines().find_map(|line| line.strip_prefix("hint: try again at "));
    let then = httpdate::parse_http_date(hint.unwrap_or_else(|| panic!("{run}"))).unwrap();
    let wait = then.duration_since(SystemTime::now()).unwrap();
    assert!(wait <= Duration::from_secs(3600) && wait > Duration::from_secs(3500), "{wait:?}\n{run}");
    // An hour later.
    advice(&run, "try again at {}").by_hand("try again");
    registries.calm();
    trial.gives_the_expected_image(trial.run());
}

/// A credential helper as clouds have them: it fails until its own tool has logged in.
const HELPER: &str = r#"#!/bin/sh
case $1 in
login) echo '{"Username": "ann", "Secret": "secret"}' > "$HOME/stored" ;;
get) cat "$HOME/stored" 2> /dev/null || { echo "the session has expired"; exit 1; } ;;
esac
"#;

#[test]
fn of_a_cache_that_others_can_write_to() {
    let setup = or_skip!(Setup::new(1000));
    let open = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(setup.cache.parent().unwrap(), 0o755);
    open(&setup.cache, 0o777);
    let inspect = |flags: &[String]| {
        let image = setup.name("in/app:v1");
        setup.registries.sandbox.underpin(["inspect", &image]).args(flags).hurried().run()
    };
    let named = ["--cache".to_owned(), setup.cache.display().to_string()];
    let run = inspect(&named).fails("usage");
    let written = "choose a directory of your own with --cache, or pass --no-cache";
    inspect(&advice(&run, written).flags("--no-cache", &[])).ok();
    let written = "if everything in it is yours, run `chmod go-w {word}`, and then {verify}";
    let verify = advice(&run, written).command(&[]);
    let chmod = ["go-w".to_owned(), setup.cache.display().to_string()];
    setup.registries.sandbox.program("chmod", chmod).run().ok();
    setup.registries.sandbox.underpin(verify).run().ok();
    inspect(&named).ok();
}

#[test]
fn of_a_credential_helper_that_fails() {
    let registry = or_skip!(Registry::with(&Door::Htpasswd { user: "ann", password: "secret" }));
    push_fixtures(registry.back_door().host());
    let sandbox = Sandbox::new();
    for directory in ["bin", "home/.docker"] {
        std::fs::create_dir(sandbox.path(directory)).unwrap();
    }
    let helper = sandbox.path("bin/docker-credential-rig");
    std::fs::write(&helper, HELPER).unwrap();
    std::fs::set_permissions(&helper, std::fs::Permissions::from_mode(0o755)).unwrap();
    let helpers = json!({"credHelpers": {registry.host(): "rig"}});
    std::fs::write(sandbox.path("home/.docker/config.json"), helpers.to_string()).unwrap();
    let path = format!("{}:{}", sandbox.path("bin").display(), std::env::var("PATH").unwrap());
    let image = format!("{}/in/app:v1", registry.host());
    let inspect = || sandbox.underpin(["inspect", &image]).env("PATH", &path).hurried().run();

    let run = inspect().fails("authentication");
    let written = "run the helper by hand with `get`, or log in again with the tool that set it up";
    advice(&run, written).by_hand("run the helper by hand with `get`");
    let written = "if it needs a variable that helpers are not given, name that in UNDERPIN_HELPER_ENV";
    advice(&run, written).by_hand("UNDERPIN_HELPER_ENV");
    let by_hand = |word: &str| sandbox.program(helper.to_str().unwrap(), [word]).run();
    let why = by_hand("get");
    assert!(why.stdout.contains("the session has expired"), "it says what underpin does not repeat\n{why}");
    by_hand("login").ok();
    inspect().ok();
    // One that needs a variable.
    std::fs::write(&helper, HELPER.replace("get) ", "get) [ -n \"$SESSION_ID\" ] && ")).unwrap();
    let with = |more: &str| {
        let named = sandbox.underpin(["inspect", &image]).env("PATH", &path).env("SESSION_ID", "1");
        named.env("UNDERPIN_HELPER_ENV", more).hurried().run()
    };
    with("OTHER").fails("authentication");
    with("OTHER,SESSION_ID").ok();
}

/// A registry under a name that is not this machine's.
fn stranger() -> String {
    format!("{STRANGER}:5000")
}

#[test]
fn of_a_registry_without_tls() {
    let registry = or_skip!(Registry::plain());
    push_fixtures(registry.host());
    let (sandbox, host, tunnel) = (Sandbox::new(), stranger(), Tunnel::connect(registry.host()));
    let inspect = || {
        let inspect = sandbox.underpin(["inspect", &format!("{host}/in/app:v1")]).hurried();
        // What is asked for without TLS goes to the registry itself, which takes it as a proxy would.
        let inspect = inspect.env("HTTP_PROXY", format!("http://{}", registry.host()));
        inspect.env("HTTPS_PROXY", format!("http://{}", tunnel.host()))
    };
    let run = inspect().run().fails("network");
    let written = "for a registry on plain HTTP pass --insecure HOST";
    again(inspect, &advice(&run, written).flags("--insecure HOST", &[("HOST", &host)])).ok();
}

/// A certificate for itself, as `openssl req -x509` makes it: a CA's, unless told otherwise.
fn self_signed(directory: &std::path::Path, more: &[&str]) -> Leaf {
    let at = |name: &str| directory.join(name).display().to_string();
    let (certificate, key, names) = (at("cert.pem"), at("key.pem"), format!("subjectAltName=DNS:{STRANGER}"));
    let made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=registry"];
    let more = [&["-addext", &names, "-keyout", &key, "-out", &certificate], more].concat();
    tool("openssl", &[&made[..], &more].concat());
    Leaf { certificate: PathBuf::from(certificate), key: PathBuf::from(key), der: Vec::new(), pkcs8: Vec::new() }
}

#[test]
fn of_a_certificate_of_a_ca_that_a_server_uses() {
    or_skip!(need(&["openssl"]));
    let (sandbox, host) = (Sandbox::new(), stranger());
    for (more, is_accepted) in [(&[][..], false), (&["-addext", "basicConstraints=CA:FALSE"][..], true)] {
        let leaf = self_signed(&sandbox.path("home"), more);
        let registry = or_skip!(Registry::with(&Door::Tls(&leaf)));
        push_fixtures(registry.back_door().host());
        let tunnel = Tunnel::connect(registry.host());
        let inspect = || {
            let inspect = sandbox.underpin(["inspect", &format!("{host}/in/app:v1"), "--no-cache", "--cacert"]);
            inspect.arg(&leaf.certificate).env("HTTPS_PROXY", format!("http://{}", tunnel.host())).hurried()
        };
        if is_accepted {
            inspect().run().ok();
            continue;
        }
        let run = inspect().run().fails("network");
        let written = "make it with basicConstraints=CA:FALSE, or allow this host with --insecure HOST";
        again(inspect, &advice(&run, written).flags("--insecure HOST", &[("HOST", &host)])).ok();
    }
}

#[test]
fn of_a_machine_without_cas() {
    let authority = Authority::new();
    let registry = or_skip!(Registry::with(&Door::Tls(&authority.leaf(Validity::Now))));
    push_fixtures(registry.back_door().host());
    let (sandbox, tunnel) = (Sandbox::new(), Tunnel::connect(registry.host()));
    let with = |certificates: PathBuf| {
        let inspect = sandbox.underpin(["inspect", &format!("{}/in/app:v1", stranger())]).hurried();
        let inspect = inspect.env("SSL_CERT_FILE", certificates).env("SSL_CERT_DIR", sandbox.path("tmp"));
        inspect.env("HTTPS_PROXY", format!("http://{}", tunnel.host()))
    };
    let none = || with("/dev/null".into());
    let run = none().run().fails("network");
    let file = authority.file();
    let written = "install the system's CA certificates, or name some with --cacert FILE";
    again(none, &advice(&run, written).flags("--cacert FILE", &[("FILE", file.to_str().unwrap())])).ok();
    with(file).run().ok();
}

/// The real situation: TLS ends at the proxy, and the registry behind it believes that there is none.
#[test]
fn of_a_registry_that_does_not_know_its_scheme() {
    let authority = Authority::new();
    let registry = or_skip!(Registry::plain());
    push_fixtures(registry.host());
    let front = Proxy::with_tls(registry.host(), authority.leaf(Validity::Now).server());
    let sandbox = Sandbox::new();
    let to = format!("localhost:{}/out/app:v1", front.port());
    let rebase = || rebase_at(&sandbox, registry.host(), &to).arg("--cacert").arg(authority.file()).run();
    let run = rebase().fails("network");
    let written = "if the registry is behind a proxy, check that it knows its own scheme and host (X-Forwarded-Proto)";
    advice(&run, written).by_hand("X-Forwarded-Proto");
    let told = Action::Request(Arc::new(|_, headers| headers.set("X-Forwarded-Proto", "https")));
    front.script([on("*", "").always().does(told)]);
    rebase().ok();
}

#[test]
fn of_a_tag_that_cannot_be_changed() {
    let registries = or_skip!(Registries::two(10));
    let to = |tag: &str| registries.target.name(&format!("out/app:{tag}"));
    fixtures::app("linux/amd64", 3).build().push(registries.target.registry.host(), "out/app", "v1");
    let answer = Answer::error(412, "PRECONDITION", "'app:v1' configured as immutable.");
    registries.target.proxy.script([on("PUT", "/manifests/v1").always().does(Action::Answer(answer))]);
    let rebase = |tag: &str| registries.rebase(&to(tag), "cache").run();
    let run = rebase("v1").fails("tag-conflict");
    let written = "choose another tag, or allow this one to change in the registry's settings";
    advice(&run, written).by_hand("choose another tag");
    rebase("v2").ok();
    registries.calm();
    rebase("v1").ok();
}

#[test]
fn of_statements_that_others_overwrite() {
    let registries = or_skip!(Registries::one(10));
    let tag = registries.expected().replace(':', "-");
    let index = "application/vnd.oci.image.index.v1+json";
    let theirs = json!({"schemaVersion": 2, "mediaType": index, "manifests": []});
    let theirs = Answer::json(200, &theirs).header("Content-Type", index);
    registries.target.proxy.script([on("GET", format!("/manifests/{tag}")).always().does(Action::Answer(theirs))]);
    let rebase = || attesting(&registries, &registries.target.name("out/app:v1"), &["--attest", "provenance"]).run();
    let run = rebase();
    assert_eq!((run.code(), run.digest().as_str()), (Some(2), registries.expected()), "{run}");
    advice(&run, "run again: what is attached already is not sent twice").by_hand("run again");
    advice(&run, "the result itself is published; run again to attach the rest").by_hand("run again");
    registries.calm();
    rebase().ok();
    assert_eq!(registries.target.proxy.count("PUT", "/blobs/uploads/"), 0, "neither layers nor statements");
    assert_eq!(registries.target.proxy.count("PUT", "/manifests/v1"), 0, "it was published");
}

#[test]
fn of_a_base_that_the_image_names_and_that_is_damaged() {
    let registry = or_skip!(Registry::plain());
    push_fixtures(registry.host());
    let proxy = Proxy::before(registry.host());
    let mut app = fixtures::app("linux/amd64", 10);
    let name = format!("{}/base/old:v1", proxy.host());
    app.annotations.insert("org.opencontainers.image.base.name".to_owned(), json!(name));
    let layouts = Layouts::on(&fixtures::old_base("linux/amd64"), &app);
    proxy.script([on("GET", "/base/old/blobs/").always().does(Action::Corrupt(20))]);
    let rebase = || layouts.rebase_unnamed("out").arg("--no-cache").hurried();
    let run = rebase().run().fails("integrity");
    let written = "the image names {location} as its base; pass --old-base with the image it was built on, or --old-base layers:N";
    again(rebase, &advice(&run, written).flags("--old-base layers:N", &[("N", "2")])).ok();
    rebase().args(["--old-base", "oci:old:v1"]).run().ok();
}
