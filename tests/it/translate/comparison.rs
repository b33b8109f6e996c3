//! A command run twice: by a real shell, and as its translation says. Both must do the same.
//!
//! The program is a stub that writes down how it was started. What reaches the container's two
//! streams and the log file is compared byte by byte.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::skip::{find, or_skip};

/// Writes down its words, variables and folder, and says something on both streams.
const STUB: &str = r#"
{
  /bin/cat /proc/$$/cmdline; echo "%%"
  /bin/cat /proc/$$/environ; echo "%%"
  pwd -P
} >"$RECORD"
echo out
echo err >&2
"#;

/// What can be seen of one run.
#[derive(Debug, PartialEq, Eq)]
pub struct Seen {
    /// Words, variables and folder; `None` where the program was not started.
    pub started: Option<Started>,
    /// The log file, and the container's streams.
    pub log: Option<String>,
    pub stdout: String,
    pub stderr: String,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Started {
    pub words: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub folder: String,
}

/// A scratch folder with programs, files and shells in it.
pub struct Scratch {
    root: TempDir,
    pub environment: BTreeMap<String, String>,
}

impl Scratch {
    pub fn new(programs: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let scratch = Self { root, environment: BTreeMap::new() };
        for folder in ["bin", "work/sub", "home", "log"] {
            std::fs::create_dir_all(scratch.path(folder)).unwrap();
        }
        // Names that wildcards would match.
        for name in ["a", "ab", "b", "*"] {
            std::fs::write(scratch.path("work").join(name), "").unwrap();
        }
        for program in programs {
            scratch.add(program);
        }
        let mut environment = BTreeMap::new();
        // Nothing of the machine: a command under test must not find a program that does something.
        environment.insert("PATH".to_owned(), scratch.path("bin").display().to_string());
        for tool in ["tee", "mkfifo"] {
            symlink(find(tool).unwrap(), scratch.path("bin").join(tool)).unwrap();
        }
        environment.insert("HOME".to_owned(), scratch.path("home").display().to_string());
        environment.insert("RECORD".to_owned(), scratch.path("record").display().to_string());
        Self { environment, ..scratch }
    }

    /// Puts the stub in place of a program.
    pub fn add(&self, program: &str) {
        let file = self.path("bin").join(program);
        let shell = find("dash").unwrap();
        std::fs::write(&file, format!("#!{}{STUB}", shell.display())).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// What may stand behind this first word; for `sh`, all of `behind` that are here.
    pub fn shells(&self, first: &str, behind: &[&str]) -> Vec<PathBuf> {
        let name = first.rsplit('/').next().unwrap();
        let behind = if name == "sh" { behind } else { &[name] };
        behind.iter().filter_map(|shell| self.shell(shell, name)).collect()
    }

    /// The shell under the name that the command calls it by, which decides how it behaves.
    fn shell(&self, shell: &str, name: &str) -> Option<PathBuf> {
        let program = find(shell)?;
        let folder = self.path("shells").join(shell);
        std::fs::create_dir_all(&folder).unwrap();
        let link = folder.join(name);
        if !link.exists() {
            symlink(program, &link).unwrap();
        }
        Some(link)
    }

    fn command(&self, program: &OsStr, arguments: &[String]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(&self.environment).current_dir(self.path("work"));
        command.stdin(Stdio::null());
        command
    }

    /// No record yet, and a line in the log, so that emptying shows.
    fn prepare(&self, log: Option<&Path>) {
        let _ = std::fs::remove_file(self.path("record"));
        if let Some(log) = log {
            std::fs::write(log, "old\n").unwrap();
        }
    }

    /// The words as they are, started by this shell.
    pub fn original(&self, shell: &Path, argv: &[String], log: Option<&Path>) -> Seen {
        self.prepare(log);
        let output = self.command(shell.as_os_str(), &argv[1..]).arg0(&argv[0]).output().unwrap();
        self.seen(&output, log)
    }

    /// The translation: its words started directly, its log opened as it says.
    pub fn translated(&self, answer: &Value, log: Option<&Path>) -> Seen {
        self.prepare(log);
        let argv: Vec<String> = serde_json::from_value(answer["argv"].clone()).unwrap();
        let mut command = self.command(argv[0].as_ref(), &argv[1..]);
        let environment: BTreeMap<String, String> = serde_json::from_value(answer["env"].clone()).unwrap();
        command.envs(environment);
        if let Some(folder) = answer["workdir"].as_str() {
            command.current_dir(folder);
        }
        if let Some(log) = log.filter(|_| answer["log"].is_object()) {
            redirect(&mut command, log, &answer["log"]);
        }
        let output = command.output().unwrap_or_else(|error| panic!("{error}: {answer}"));
        let mut seen = self.seen(&output, log);
        if answer["log"]["tee"] == true {
            // What has come into the log is on stdout as well.
            let text = seen.log.clone().unwrap_or_default();
            seen.stdout += text.strip_prefix("old\n").unwrap_or(&text);
        }
        seen
    }

    fn seen(&self, output: &Output, log: Option<&Path>) -> Seen {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Seen {
            started: std::fs::read(self.path("record")).ok().map(|bytes| record(&bytes)),
            log: log.map(|log| std::fs::read_to_string(log).unwrap()),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }
}

/// Opens the log as the translation says.
fn redirect(command: &mut Command, log: &Path, how: &Value) {
    let append = how["append"] == true;
    let file = OpenOptions::new().write(true).append(append).truncate(!append).open(log).unwrap();
    if how["streams"] != "stderr" {
        command.stdout(file.try_clone().unwrap());
    }
    if how["streams"] != "stdout" {
        command.stderr(file);
    }
}

fn record(bytes: &[u8]) -> Started {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let parts: Vec<&str> = text.split("\0%%\n").collect();
    let [words, environment, folder] = parts.as_slice() else { panic!("{text:?}") };
    // The stub's own interpreter comes first, and then the file, however it was found.
    let mut words = words.split('\0').skip(1).map(str::to_owned);
    let program = words.next().unwrap().rsplit('/').next().unwrap().to_owned();
    let pairs = environment.split('\0').filter_map(|pair| pair.split_once('='));
    // What shells put into the environment of everything they start.
    let own = ["PWD", "OLDPWD", "SHLVL", "_"];
    Started {
        words: std::iter::once(program).chain(words).collect(),
        environment: pairs.filter(|(name, _)| !own.contains(name)).map(|(n, v)| (n.to_owned(), v.to_owned())).collect(),
        folder: folder.trim_end_matches('\n').to_owned(),
    }
}

/// Compares, allowing only for what the translation itself says it changes.
pub fn same(original: &Seen, translated: &Seen, answer: &Value) -> Result<(), String> {
    let notes: Vec<&str> =
        answer["notes"].as_array().unwrap().iter().map(|note| note["note"].as_str().unwrap()).collect();
    let apart = notes.contains(&"streams-apart");
    // A traced command is printed before it runs.
    let traced = notes.contains(&"trace-dropped");
    let lines = |text: &str| {
        text.lines()
            .filter(|line| !traced || ["old", "out", "err"].contains(line))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let streams = |seen: &Seen| {
        let (mut out, err) = (lines(&seen.stdout), lines(&seen.stderr));
        if apart {
            out.extend(err);
            out.sort();
            return (out, Vec::new());
        }
        (out, err)
    };
    let equal = original.started.is_some()
        && original.started == translated.started
        && original.log.as_deref().map(lines) == translated.log.as_deref().map(lines)
        && streams(original) == streams(translated);
    if equal {
        Ok(())
    } else {
        Err(format!("the shell: {original:#?}\nthe translation: {translated:#?}\nsaid: {answer}"))
    }
}

/// The kubelet's expansion, written from its Go source: `$$` and `$(NAME)`.
pub fn kubelet(text: &str, environment: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("$$") {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix("$(").and_then(|inner| inner.split_once(')')) {
            out.push_str(&environment.get(name).cloned().unwrap_or_else(|| format!("$({name})")));
            rest = after;
        } else {
            let next = rest.chars().nth(1).map_or(1, |c| 1 + c.len_utf8());
            out.push_str(&rest[..next]);
            rest = &rest[next..];
        }
    }
    out + rest
}

#[test]
fn the_comparison_sees_every_difference() {
    or_skip!(crate::support::skip::need(&["dash", "bash"]));
    let scratch = Scratch::new(&["app"]);
    let log = scratch.path("log/l");
    let shell = &scratch.shells("sh", &["dash"])[0];
    let script = |text: &str| ["sh", "-c", text].map(str::to_owned);
    let answer = |argv: &[&str], log: Value| serde_json::json!({"argv": argv, "env": {"A": "1"}, "workdir": null, "log": log, "notes": []});
    let both = serde_json::json!({"path": "", "append": true, "streams": "both", "tee": false});
    let original = scratch.original(shell, &script(&format!("A=1 app x >>{} 2>&1", log.display())), Some(&log));
    assert_eq!(original.log.as_deref(), Some("old\nout\nerr\n"));
    let right = answer(&["app", "x"], both.clone());
    assert_eq!(same(&original, &scratch.translated(&right, Some(&log)), &right), Ok(()));
    for (wrong, key, value) in [
        ("a word", "argv", serde_json::json!(["app", "x", ""])),
        ("a variable", "env", serde_json::json!({})),
        ("the folder", "workdir", scratch.path("work/sub").display().to_string().into()),
        ("the log", "log", Value::Null),
        ("a stream", "log", serde_json::json!({"append": true, "streams": "stdout", "tee": false})),
        ("the opening", "log", serde_json::json!({"append": false, "streams": "both", "tee": false})),
        ("a copy", "log", serde_json::json!({"append": true, "streams": "both", "tee": true})),
    ] {
        let mut answer = right.clone();
        answer[key] = value;
        assert!(same(&original, &scratch.translated(&answer, Some(&log)), &answer).is_err(), "{wrong} was not seen");
    }
    assert_eq!(kubelet("$$(A) $(A) $(B) $A $", &[("A".to_owned(), "v".to_owned())].into()), "$(A) v $(B) $A $");
}
