//! The password of a key, typed on a terminal: it is not shown, Ctrl-C leaves nothing, and nothing of a key gets anywhere.

use serde_json::Value;

use super::{attesting, key};
use crate::support::fixtures;
use crate::support::http::Answer;
use crate::support::invocation::binary;
use crate::support::layouts::Layouts;
use crate::support::proxy::{Action, on};
use crate::support::python;
use crate::support::registries::Registries;
use crate::support::skip::or_skip;

/// Runs a command on a terminal of its own as a user who is not root, types `keys` when it asks, or sends the signal that is
/// named in their place, and tells what came of it.
/// Who owns the process's files under `/proc` tells whether it could leave a core dump: its user, or root.
const TERMINAL: &str = r#"
import json, os, pty, select, signal, sys, termios
keys, argv = sys.argv[1].encode().decode("unicode_escape").encode(), sys.argv[2:]
pid, master = pty.fork()
if pid == 0:
    os.environ.pop("COSIGN_PASSWORD", None)
    if os.getuid() == 0: os.setgid(65534), os.setuid(65534)
    os.execv(argv[0], argv)
shown, echo, owner, typed = b"", None, None, False
while True:
    ready, _, _ = select.select([master], [], [], 60)
    assert ready, shown
    try: data = os.read(master, 4096)
    except OSError: break
    if not data: break
    shown += data
    if not typed and (b"password of" in shown or b"ready" in shown):
        echo, owner = bool(termios.tcgetattr(master)[3] & termios.ECHO), os.stat(f"/proc/{pid}/mem").st_uid
        if keys.startswith(b"SIG"): os.kill(pid, getattr(signal, keys.decode()))
        else: os.write(master, keys)
        typed = True
after = bool(termios.tcgetattr(master)[3] & termios.ECHO)
_, status = os.waitpid(pid, 0)
print(json.dumps({"shown": shown.decode(), "echo": echo, "echo_after": after, "owner": owner, "typed": typed,
    "code": os.waitstatus_to_exitcode(status)}))
"#;

fn typing(keys: &str, command: &[String]) -> Value {
    let words: Vec<String> = [keys.to_owned()].iter().chain(command).cloned().collect();
    let said = python::run(TERMINAL, &words).unwrap_or_else(|why| panic!("{why}"));
    serde_json::from_str(&said).unwrap()
}

/// Layouts that everybody may read and write.
fn open_layouts() -> Layouts {
    use std::os::unix::fs::PermissionsExt as _;
    let layouts = Layouts::new(
        &fixtures::app("linux/amd64", 100).build(),
        &fixtures::old_base("linux/amd64").build(),
        &fixtures::new_base("linux/amd64").build(),
    );
    for path in [layouts.sandbox.path(""), layouts.layout("")] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    std::fs::copy(key("cosign.key"), layouts.layout("cosign.key")).unwrap();
    layouts
}

#[test]
fn a_typed_password_is_not_shown_and_signs() {
    let layouts = open_layouts();
    let at = |name: &str| format!("oci:{}:v1", layouts.layout(name).display());
    let rebase = |out: &str| {
        let words =
            ["rebase", &at("app"), "--base", &at("new"), "--old-base", &at("old"), "--no-cache", "--to", &at(out)];
        let key = layouts.layout("cosign.key").display().to_string();
        [&[binary()][..], &words.map(str::to_owned), &["--sign-key".to_owned(), key]].concat()
    };
    for (out, keys) in [("plain", "secret\\n"), ("corrected", "wrong\\x15secre\\xfc\\x7ft\\n")] {
        let told = typing(keys, &rebase(out));
        assert_eq!((&told["code"], &told["typed"]), (&0.into(), &true.into()), "{told}");
        assert_eq!((&told["echo"], &told["echo_after"]), (&false.into(), &true.into()), "{told}");
        assert!(!told["shown"].as_str().unwrap().contains("secre"), "{told}");
        assert_eq!(told["owner"], 0, "the key could get into a core dump: {told}");
    }
    let told = typing("not-it\\n", &rebase("wrong"));
    assert_eq!(told["code"], 2, "{told}");
    assert!(told["shown"].as_str().unwrap().contains("the password does not open the signing key"), "{told}");
    assert!(!told["shown"].as_str().unwrap().contains("not-it"), "{told}");
    for (keys, code) in [("sec\\x03", 130), ("SIGINT", 130), ("SIGTERM", 143)] {
        let told = typing(keys, &rebase("interrupted"));
        assert_eq!((&told["code"], &told["echo"]), (&code.into(), &false.into()), "{keys}: {told}");
        assert_eq!(told["echo_after"], true, "{keys}: {told}");
        let shown = told["shown"].as_str().unwrap();
        let (asked, said) = shown.split_once("\r\n").unwrap();
        assert!(asked.ends_with("cosign.key: ") && said.contains("nothing was published\r\n"), "{keys}: {told}");
    }
    assert!(!layouts.layout("interrupted").exists() && !layouts.layout("wrong").exists(), "nothing was written");
}

/// The twin: a program without a key is its user's own.
#[test]
fn the_files_of_a_process_without_a_key_belong_to_its_user() {
    let told = typing("", &["/bin/sh", "-c", "echo ready; sleep 1"].map(str::to_owned));
    // SAFETY: the call has no arguments and cannot fail.
    let user = if unsafe { libc::getuid() } == 0 { 65534 } else { unsafe { libc::getuid() } };
    assert_eq!((&told["owner"], &told["echo"]), (&user.into(), &true.into()), "{told}");
}

#[test]
fn a_key_in_a_variable_signs_and_one_that_is_not_set_is_named() {
    let registries = or_skip!(Registries::one(1000));
    let image = registries.target.name("out/app:v1");
    let text = std::fs::read_to_string(key("cosign.key")).unwrap();
    let signing = || attesting(&registries, &image, &["--sign-key", "env://RELEASE_KEY"]);
    signing().run().fails("usage").says("RELEASE_KEY");
    signing().env("RELEASE_KEY", &text).run().ok();
    let batch = registries.sandbox.path("batch.yaml");
    let name = |rest: &str| registries.source.name(rest);
    let entry = format!("- source: {}\n  base: {}\n  target: {image}\n", name("in/app:v1"), name("base/new:v1"));
    std::fs::write(&batch, format!("defaults:\n  sign_key: env://RELEASE_KEY\nimages:\n{entry}")).unwrap();
    let run = registries.sandbox.underpin(["batch"]).arg(&batch).env("RELEASE_KEY", &text);
    run.env("COSIGN_PASSWORD", "secret").run().ok();
}

/// With every detail that can be asked for, and on the way out with an error.
#[test]
fn neither_key_nor_password_is_in_any_output() {
    let registries = or_skip!(Registries::one(1000));
    for (at, name) in ["cosign.key", "ecdsa.pem", "ecdsa-sec1.pem", "ed25519.pem"].iter().enumerate() {
        let text = std::fs::read_to_string(key(name)).unwrap();
        let secrets: Vec<&str> = text.lines().filter(|line| !line.starts_with('-')).collect();
        let silent = |outputs: &[&str]| {
            for secret in secrets.iter().chain(&["s3cret-word"]) {
                assert!(!secret.is_empty() && !outputs.iter().any(|output| output.contains(secret)), "{name}");
            }
        };
        let image = registries.target.name(&format!("out{at}/app:v1"));
        let flags = ["--attest", "provenance", "--sign-key", &key(name), "--verbose", "--json"];
        let html = registries.sandbox.path("report.html");
        let report = format!("html={}", html.display());
        let run = attesting(&registries, &image, &flags).args(["--report", &report]).run().ok();
        silent(&[&run.stdout, &run.stderr, &std::fs::read_to_string(&html).unwrap()]);
        let denied = on("PUT", "/manifests/sha256-").always().does(Action::Answer(Answer::new(403)));
        registries.target.proxy.script([denied]);
        let image = registries.target.name(&format!("denied{at}/app:v1"));
        let run = attesting(&registries, &image, &flags).run();
        assert_eq!(run.code(), Some(2), "{run}");
        silent(&[&run.stdout, &run.stderr]);
        registries.target.proxy.calm();
    }
    let run = attesting(&registries, &registries.target.name("wrong/app:v1"), &["--sign-key", &key("cosign.key")]);
    let run = run.env("COSIGN_PASSWORD", "s3cret-word").arg("--verbose").run().fails("usage");
    assert!(!run.stderr.contains("s3cret-word"), "{run}");
}
