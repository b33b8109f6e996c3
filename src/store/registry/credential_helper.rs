//! Credential helpers: `docker-credential-NAME get`, asked on stdin, answering JSON on stdout.
//!
//! A helper is a program that a file names, so it is held short: a plain name, one question, a
//! time limit, an output limit, and nothing it writes is ever shown.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, thread};

use serde_json::Value;

use super::credentials::{Credential, Secret};
use crate::store::child_process::{self, ChildKind};
use oci::error::{Error, Kind, Result};

const LONGEST_ANSWER: u64 = 64 << 10;
/// What helpers say, on stdout and with a failing status, when they simply have nothing.
const NOTHING: [&str; 2] = ["credentials not found", "no credentials server url"];
/// The user name that marks an identity token.
const TOKEN_USER: &str = "<token>";

/// Asks `helper` about `server`. `None` where it has nothing for it.
pub(super) fn ask(helper: &str, server: &str, path: Option<&OsStr>, limit: Duration) -> Result<Option<Credential>> {
    let program = find(helper, path)?;
    let refuse = |why: &str| failed(helper, why);
    let mut child = child_process::command(&program, ChildKind::CredentialHelper)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| refuse("does not start").cause(error))?;
    let outcome = converse(&mut child, server, limit);
    // Whatever happened, the helper does not outlive the question.
    let _ = child.kill();
    let _ = child.wait();
    let answer = outcome.map_err(refuse)?;
    if answer.success {
        return read(&answer.bytes).map(Some).ok_or_else(|| refuse("gave an answer that cannot be parsed"));
    }
    let said = String::from_utf8_lossy(&answer.bytes).to_lowercase();
    if NOTHING.iter().any(|phrase| said.contains(phrase)) { Ok(None) } else { Err(refuse("fails")) }
}

struct HelperAnswer {
    bytes: Vec<u8>,
    success: bool,
}

/// Puts the question and collects the answer, until `limit` has passed.
fn converse(child: &mut Child, server: &str, limit: Duration) -> Result<HelperAnswer, &'static str> {
    let deadline = Instant::now() + limit;
    if let Some(mut stdin) = child.stdin.take() {
        // A helper that does not read its question may still answer.
        let _ = stdin.write_all(server.as_bytes());
    }
    let stdout = child.stdout.take().ok_or("has no output")?;
    let bytes = collect(stdout, limit)?;
    if bytes.len() as u64 > LONGEST_ANSWER {
        return Err("answers with more than 64 KiB");
    }
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(HelperAnswer { bytes, success: status.success() }),
            Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(2)),
            Ok(None) => return Err("does not end in time"),
            Err(_) => return Err("cannot be waited for"),
        }
    }
}

/// Reads to the end or to the limit. The thread may stay behind when a grandchild keeps the pipe open.
fn collect(stdout: ChildStdout, limit: Duration) -> Result<Vec<u8>, &'static str> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let outcome = stdout.take(LONGEST_ANSWER + 1).read_to_end(&mut bytes);
        let _ = sender.send(outcome.map(|_| bytes));
    });
    match receiver.recv_timeout(limit) {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => Err("breaks off"),
        Err(_) => Err("does not answer in time"),
    }
}

fn read(bytes: &[u8]) -> Option<Credential> {
    let answer: Value = serde_json::from_slice(bytes).ok()?;
    let secret = Secret::new(answer.get("Secret")?.as_str()?);
    let user = answer.get("Username")?.as_str()?;
    Some(if user == TOKEN_USER {
        Credential::Identity(secret)
    } else {
        Credential::Password { user: user.to_owned(), password: secret }
    })
}

/// The program of a helper. Its name is checked first: it must not lead out of `PATH`.
fn find(helper: &str, path: Option<&OsStr>) -> Result<PathBuf> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if helper.is_empty() || helper.len() > 64 || !helper.bytes().all(plain) {
        return Err(failed(helper, "has a name with other characters than a-z, 0-9 and -"));
    }
    let program = format!("docker-credential-{helper}");
    let directories = env::split_paths(path.unwrap_or_default()).filter(|directory| directory.is_absolute());
    let mut candidates = directories.map(|directory| directory.join(&program));
    candidates.find(|candidate| candidate.is_file()).ok_or_else(|| failed(helper, "is not in PATH"))
}

fn failed(helper: &str, why: &str) -> Error {
    let shown: String = helper.chars().take(64).collect();
    Error::new(Kind::Auth, format!("credential helper {why}"))
        .fact("helper", format!("docker-credential-{shown}"))
        .hint("run the helper by hand with `get`, or log in again with the tool that set it up")
        .hint("if it needs a variable that helpers are not given, name that in UNDERPIN_HELPER_ENV")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Asks a shell script that plays the helper `x`.
    fn ask_script(script: &str, limit: Duration) -> Result<Option<Credential>> {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("docker-credential-x");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        loop {
            match ask("x", "a.io", Some(dir.path().as_os_str()), limit) {
                // A fork of another test may still hold the script open for writing.
                Err(error) if error.causes().iter().any(|cause| cause.contains("busy")) => {}
                outcome => return outcome,
            }
        }
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn the_question_is_the_server_and_the_answer_is_json() {
        let script = r#"read server; echo "{\"ServerURL\":\"$server\",\"Username\":\"$1-$server\",\"Secret\":\"s\"}""#;
        let expected = Credential::Password { user: "get-a.io".to_owned(), password: Secret::new("s") };
        assert_eq!(ask_script(script, LONG).unwrap(), Some(expected));
        let token = r#"echo '{"Username":"<token>","Secret":"t"}'"#;
        assert_eq!(ask_script(token, LONG).unwrap(), Some(Credential::Identity(Secret::new("t"))));
    }

    #[test]
    fn having_nothing_is_not_a_failure() {
        let script = "echo 'credentials not found in native keychain'; exit 1";
        assert_eq!(ask_script(script, LONG).unwrap(), None);
    }

    #[test]
    fn a_bad_helper_is_an_error_that_shows_nothing_it_wrote() {
        for script in [
            "echo CANARY; echo CANARY >&2; exit 1",
            "echo CANARY",
            "echo '{\"Username\":\"CANARY\"}'",
            "head -c 100000 /dev/zero | tr '\\0' 'C'",
        ] {
            let error = ask_script(script, LONG).unwrap_err();
            assert_eq!(error.kind(), Kind::Auth, "{script}");
            let text = error.to_string();
            assert!(text.contains("docker-credential-x") && !text.contains("CANARY"), "{text}");
        }
    }

    #[test]
    fn a_helper_that_hangs_is_ended() {
        for script in ["sleep 30", "exec >&-; sleep 30"] {
            let started = Instant::now();
            assert_eq!(ask_script(script, Duration::from_millis(200)).unwrap_err().kind(), Kind::Auth);
            assert!(started.elapsed() < Duration::from_secs(10), "{script}");
        }
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for helper in ["../x", "a/b", "", "A", "x y", "x;y", "..", &"a".repeat(65)] {
            assert_eq!(ask(helper, "a.io", Some(OsStr::new("/bin")), LONG).unwrap_err().kind(), Kind::Auth, "{helper}");
        }
        assert!(ask("none-such", "a.io", Some(OsStr::new("/bin")), LONG).unwrap_err().what().contains("PATH"));
    }
}
