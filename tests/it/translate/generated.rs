//! Command lines made at random: whatever is translated, real shells do the same.

use std::path::{Path, PathBuf};

use fastrand::Rng;
use serde_json::Value;

use super::comparison::{Scratch, Seen, kubelet, same};
use crate::support::invocation::Sandbox;
use crate::support::skip::{need, or_skip};

/// Fragments of words, good and bad. `LOG` and `DIR` become paths of the scratch.
#[rustfmt::skip]
const FRAGMENTS: &[&str] = &[
    "a", "b", "x1", "-v", "--f=1", "k=v", "/p/q", "é", "ÁÈ", "\\ ", "\\\n", "\\$A", "\\\\", "\\'", "\\\"", "\\*",
    "'c d'", "'$A'", "'\"'", "'a\nb'", "''", "\"\"", "\"c d\"", "\"'\"", "\"$A\"", "\"${B}\"",
    "\"\\$A\\\\\\q\\\"\"", "\"a\\\nb\"", "$A", "${A}", "$B", "$", "$/", "*", "?", "[a]", "[", "]", "~", "a~",
    "{a,b}", "{}", "#", "a#b", "!", "%", "@", "^", ",", ":", "=", "$1", "\"$@\"", "$@", "\"$*\"", "$(echo a)",
    "`echo a`", "${A:-x}", "\"`echo a`\"", "$'a'", "$((1))", "--u=http://h?x=1", "http://h/*", "$(A)",
    "'$(A)'", "\"$(A)\"", "$$", "'$$(A)'", "$(B)", "'$'", "\\$(A)", "1$(A)", "$C", "\"$C\"", "$D", "\"$E\"", "$PATH",
    "\"$HOME\"", "$PWD", "{{.x}}", "'{{.x}}'",
];

#[rustfmt::skip]
const REDIRECTIONS: &[&str] = &[
    ">>LOG", ">LOG", "1>>LOG", "2>>LOG", "2>&1", "1>&2", ">&2", ">>LOG 2>&1", ">LOG 2>&1", "2>&1 >>LOG",
    ">>LOG 2>>LOG", "2>LOG 1>&2", "&>LOG", "&>>LOG", ">&LOG", ">|LOG", "</dev/null", ">/dev/stdout",
    "2>/dev/stdout", ">/dev/stderr", "3>LOG", "< a", "2>&-", "1> LOG", ">/dev/null", ">>rel", "2>rel", "<&1", "<&0",
    "&>1", ">\\\n>LOG", "2\\\n>LOG",
];

#[rustfmt::skip]
const BEFORE: &[&str] = &[
    "set -e", "set -x", "set -eu", "set -f", "set -o errexit", "set +e", "set -- a", "export C=1",
    "export C='1 2' D=3", "C=4", "export C", "C=5; export C", "export D=$A", "export D=\"$B\"", "D=$B; export D",
    "cd DIR", "cd DIR/sub", "cd sub", "cd ./sub", "# note", "# it's", ":", "true", "exec 2>&1", "exec >>LOG",
    "exec >rel", "exec 2>>rel", "echo hi", "export A=2", "unset A", "umask 022",
];

/// Variables that refer to each other, the other ways to set one, and to change the directory.
#[rustfmt::skip]
const SETTINGS: &[&str] = &[
    "export C=1 D=$C", "export D=$C", "C=1 D=$C; export C D", "C=$A; D=$C$C; export D C", "export A=$A:x", "A=$A:x",
    "export C= D=''", "C=; export C", "export C=1 C=2", "readonly C=1", "export C; readonly C", "local C=1",
    "declare -x C=1", "typeset -x C=1", "export -n A", "export -p", "export \"C=1\"", "export C+=1", "C+=1", "A+=1",
    "C=1 export D=2", "C=1 :", ": ${C:=x}", "set -a", "set -a; C=1", "unset -v A", "export C=~/x", "C=~; export C",
    "export C=x:~", "export PATH=$PATH", "PATH=$PATH:/x", "export C=*", "C=*; export C", "export C=$(echo 1)",
    "export B", "A=2", "B=3 C=4; export C", "export HOME=/x", "C='a  b'; export D=$C", "C='a  b'; D=$C; export D",
    "cd sub/", "cd .", "cd ./", "cd -- DIR", "cd -P DIR", "cd DIR sub", "cd ''", "CDPATH=DIR cd sub", "cd DIR; cd sub",
    "cd DIR && cd ./sub", "cd DIR/./sub", "cd DIR//sub", "cd", "cd -", "alias app=b", "shopt -s nullglob", "eval C=1",
];

/// The program's name, and what may come before it. The first eight are plain.
#[rustfmt::skip]
const STARTS: &[&str] = &[
    "app", "exec app", "app", "exec app", "exec \\\n app", "'app'", "a\"pp\"", "exec ./app", "command app",
    "exec -a x app", "exec -c app", "exec -- app", "builtin exec app", "command exec app", "env app", "env -i app",
    "exec env C=1 app", "nohup app", "A=1 app", "A=1 exec app", "A=$A$A exec app", "A=1 B=$A app", "C=1 A=$C app",
    "C=1 C=2 app", "C= app", "C+=1 app", "C=* app", "C=~ app", "PATH=$PATH app", "PATH=DIR/sub app",
    "HOME=/x app", "IFS=x app", "C=1 2>&1 app", ">>LOG app", ">>LOG exec app", "! app", "time app", "time -p app",
    "{ app; }", "( app )", "$A", "\"$A\"", "${A}pp", "eval app",
];

const JOINTS: &[&str] = &["; ", "\n", " && ", "\n\n", " ;\n", " || ", " & ", " | "];
#[rustfmt::skip]
const AFTER: &[&str] = &[
    "", "", "", "", ";", "\n", " # end", " | tee LOG", " 2>&1 | tee -a LOG", " |& tee LOG", " || true", " &",
    " && app", "\n-x", " | cat",
];
const SHELLS: &[&[&str]] = &[
    &["sh", "-c"],
    &["bash", "-c"],
    &["dash", "-c"],
    &["sh", "-ec"],
    &["bash", "-euo", "pipefail", "-c"],
    &["sh", "-c", "--"],
];

fn pick<'a>(rng: &mut Rng, from: &'a [&'a str]) -> &'a str {
    from[rng.usize(..from.len())]
}

fn word(rng: &mut Rng) -> String {
    (0..=rng.usize(..3)).map(|_| pick(rng, FRAGMENTS)).collect()
}

/// A script from the tables; one in four has a character changed.
fn script(rng: &mut Rng) -> String {
    let mut text = String::new();
    for _ in 0..rng.usize(..3) {
        text += pick(rng, BEFORE);
        text += if rng.usize(..4) > 0 { pick(rng, &JOINTS[..4]) } else { pick(rng, JOINTS) };
    }
    for name in ["E", "F"] {
        if rng.usize(..5) == 0 {
            text += &[name, "=", &word(rng), " "].concat();
        }
    }
    text += pick(rng, &STARTS[..8]);
    for _ in 0..rng.usize(..5) {
        text += pick(rng, &[" ", "  ", "\t", " \\\n"]);
        text += &if rng.usize(..4) == 0 { pick(rng, REDIRECTIONS).to_owned() } else { word(rng) };
    }
    text += pick(rng, AFTER);
    if rng.usize(..4) == 0 { changed(rng, &text) } else { text }
}

/// A script that sets variables in some way, starts the program in some way, and shows their values.
fn settings(rng: &mut Rng) -> String {
    const SHOWN: &[&str] =
        &["", "", "", "", "", "", " $C", " \"$C\"", " \"$D\"", " $D $C", " \"$A\"", " $E", " \"$HOME\""];
    let mut text = String::new();
    for _ in 0..=usize::from(rng.u8(..4) == 0) {
        text += pick(rng, SETTINGS);
        text += pick(rng, &JOINTS[..3]);
    }
    let starts = if rng.bool() { &STARTS[..4] } else { STARTS };
    text += pick(rng, starts);
    text + pick(rng, SHOWN)
}

fn changed(rng: &mut Rng, text: &str) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    let at = rng.usize(..chars.len());
    match rng.usize(..3) {
        0 => drop(chars.remove(at)),
        1 => chars.insert(
            at,
            *rng.choice(&['\'', '"', '\\', '$', ' ', '\n', ';', '&', '>', '#', '=', '*', '~', '1']).unwrap(),
        ),
        _ => chars.truncate(at),
    }
    chars.into_iter().collect()
}

fn argv(rng: &mut Rng, scratch: &Scratch, script: fn(&mut Rng) -> String) -> Vec<String> {
    let place = |name: &str| scratch.path(name).display().to_string();
    let script = script(rng).replace("LOG", &place("log/l")).replace("DIR", &place("work"));
    let mut argv: Vec<String> = SHELLS[rng.usize(..SHELLS.len())].iter().map(|word| (*word).to_owned()).collect();
    argv.push(script);
    if rng.usize(..4) == 0 {
        argv.extend(["--", "p q", "*"].iter().take(rng.usize(..4)).map(|word| (*word).to_owned()));
    }
    argv
}

/// Where the command stands. The scratch's variables are those of the image, or of the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    Image,
    Container,
}

const VARIABLES: [(&str, &str); 2] = [("A", "xyz"), ("B", "p q")];

impl Stands {
    /// What underpin says.
    fn answer(self, sandbox: &Sandbox, argv: &[String]) -> Value {
        let flags: &[&str] = match self {
            Self::Image => &["--image-env", "A=xyz", "--image-env", "B=p q"],
            Self::Container => &["--kube", "--env", "A", "--env", "B=p q"],
        };
        let run = sandbox.underpin(["translate", "--json"]).args(flags).arg("--").args(argv).run();
        assert!(matches!(run.code(), Some(0 | 1)), "{run}");
        run.json()
    }

    /// The word as it is when the container starts.
    fn expand(self, word: &str) -> String {
        let variables = VARIABLES.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        if self == Self::Image { word.to_owned() } else { kubelet(word, &variables) }
    }

    /// The answer as it is when the container starts.
    fn expanded(self, mut answer: Value) -> Value {
        let text = |value: &mut Value| *value = self.expand(value.as_str().unwrap_or_default()).into();
        answer["argv"].as_array_mut().unwrap().iter_mut().for_each(text);
        answer["env"].as_object_mut().unwrap().values_mut().for_each(text);
        if answer["log"].is_object() {
            text(&mut answer["log"]["path"]);
        }
        answer
    }
}

/// Where the answer says that the log is; a changed character may have moved it.
fn log(scratch: &Scratch, answer: &Value) -> PathBuf {
    let folder = answer["workdir"].as_str().map_or_else(|| scratch.path("work"), PathBuf::from);
    answer["log"]["path"].as_str().map_or_else(|| scratch.path("log/l"), |path| folder.join(path))
}

fn compare(scratch: &Scratch, argv: &[String], answer: &Value) {
    let log = log(scratch, answer);
    let silent = log == Path::new("/dev/null");
    // A changed character may have moved the folder or the log to where there is none: the program
    // is not started then, or not there, and other rules of underpin say so.
    let folder_exists = answer["workdir"].as_str().is_none_or(|folder| Path::new(folder).is_dir());
    let can_open = log.starts_with(scratch.path("")) && log.parent().is_some_and(Path::is_dir) && !log.is_dir();
    if !folder_exists || !(silent || can_open) {
        return;
    }
    let log = Some(log.as_path()).filter(|_| !silent);
    // Busybox has programs of its own, which it prefers to those that a changed name may hit.
    let has_own = !matches!(answer["argv"][0].as_str(), Some("app" | "./app"));
    let behind = if has_own { &["dash", "bash"][..] } else { &["dash", "bash", "busybox"] };
    for shell in scratch.shells(&argv[0], behind) {
        // A shell that does not know pipefail stops there, as the note says.
        if answer["notes"].to_string().contains("pipefail-assumed") && shell.ends_with("dash/sh") {
            continue;
        }
        let original = scratch.original(&shell, argv, log);
        let translated = scratch.translated(answer, log);
        let result = if silent { silenced(&original, &translated) } else { same(&original, &translated, answer) };
        if let Err(difference) = result {
            panic!("{argv:?} under {}\n{difference}", shell.display());
        }
    }
}

/// Output to /dev/null cannot be compared; the program still can.
fn silenced(original: &Seen, translated: &Seen) -> Result<(), String> {
    if original.started.is_some() && original.started == translated.started {
        return Ok(());
    }
    Err(format!("{original:#?}\n{translated:#?}"))
}

#[test]
fn what_is_translated_runs_as_the_shells_run_it() {
    or_skip!(need(&["dash", "bash"]));
    compared(script, 10);
}

#[test]
fn variables_reach_the_program_as_the_shells_pass_them() {
    or_skip!(need(&["dash", "bash"]));
    compared(settings, 30);
}

/// Compares many scripts, at least one of `one_in` translated.
fn compared(script: fn(&mut Rng) -> String, one_in: usize) {
    let cases = std::env::var("UNDERPIN_TEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(400);
    let seed = std::env::var("UNDERPIN_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(7);
    let sandbox = Sandbox::new();
    let mut scratch = Scratch::new(&["app"]);
    scratch.environment.extend(VARIABLES.map(|(name, value)| (name.to_owned(), value.to_owned())));
    for folder in ["work", "work/sub"] {
        std::fs::copy(scratch.path("bin/app"), scratch.path(folder).join("app")).unwrap();
    }
    let mut rng = Rng::with_seed(seed);
    let mut translated = 0;
    for _ in 0..cases {
        let argv = argv(&mut rng, &scratch, script);
        let stands = if rng.bool() { Stands::Image } else { Stands::Container };
        let answer = stands.answer(&sandbox, &argv);
        if answer["verdict"] != "translate" {
            continue;
        }
        translated += 1;
        let program = answer["argv"][0].as_str().unwrap();
        // A stub cannot stand for a builtin, nor for a path outside the scratch.
        let builtin = answer["notes"].to_string().contains("builtin-becomes-program");
        if builtin || (program.contains('/') && program != "./app") {
            continue;
        }
        if !program.contains('/') {
            scratch.add(&stands.expand(program));
        }
        let argv: Vec<String> = argv.iter().map(|word| stands.expand(word)).collect();
        compare(&scratch, &argv, &stands.expanded(answer));
    }
    println!("{translated} of {cases} were translated");
    assert!(translated * one_in > cases, "too few of them are translated to show anything: {translated}");
}
