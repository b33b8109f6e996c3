//! `underpin elf`: the static check on local files.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};

use super::Ended;
use super::args::SayArgs;
use super::console::{Console, Form};
use crate::elf::{GoFacts, Probe, Program, Tool};
use crate::error::{Error, Result, printable};
use crate::store::disk::{Links, open_regular};

/// Say how programs are linked and for which machine; exit 1 unless all of them are static
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Elf {
    /// The files to look at
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print one JSON object for each file
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  # fail a build step whose result would not start on distroless/static
  underpin elf bin/app

  # what a program needs, for scripts
  underpin elf --json /bin/ls | jq -r .needed[]

Exit codes: 0 all are static; 1 one is not; 2 a file cannot be read.";

const BUFFER: usize = 256 << 10;

impl Elf {
    pub(super) fn say(&self) -> SayArgs {
        SayArgs { json: self.json, ..SayArgs::default() }
    }

    /// Every file is looked at, also after one that cannot be read.
    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        let mut seen = Vec::new();
        let mut failure = None;
        for path in &self.files {
            match look(path) {
                Ok(program) => seen.push((path.display().to_string(), program)),
                Err(error) => {
                    if let Some(earlier) = failure.replace(error) {
                        console.error(&earlier);
                    }
                }
            }
        }
        console.data(&match console.form {
            Form::Json => {
                seen.iter().flat_map(|(path, program)| [to_json(path, program).to_string(), "\n".to_owned()]).collect()
            }
            Form::Text => to_text(&seen),
        });
        let all_static = seen.iter().all(|(_, program)| program.linkage.is_static());
        match failure {
            Some(error) => Err(error),
            None => Ok(if all_static { Ended::Done } else { Ended::Refused }),
        }
    }
}

/// What the file is. Links are followed: the user named them.
fn look(path: &Path) -> Result<Program> {
    let missing = || Error::missing("there is no such file").fact("path", path.display());
    let file = open_regular(path, Links::Followed)?.ok_or_else(missing)?;
    let mut probe = Probe::new(file.len());
    let mut reader = file.reader(0);
    let mut buffer = vec![0; BUFFER];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(probe.finish()),
            Ok(got) => probe.feed(buffer.get(..got).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::from_stream(error, "could not read the file")),
        }
    }
}

/// One line for each file, in columns: path, linkage, machine, and what there is to say.
fn to_text(seen: &[(String, Program)]) -> String {
    let rows: Vec<[String; 4]> = seen.iter().map(|(path, program)| row(path, program)).collect();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths = [0, 1, 2].map(|column| width(column).unwrap_or(0));
    let line = |[path, linkage, machine, rest]: &[String; 4]| {
        let [first, second, third] = widths;
        let line = format!("{path:first$}  {linkage:second$}  {machine:third$}  {rest}");
        format!("{}\n", line.trim_end())
    };
    rows.iter().map(line).collect()
}

fn row(path: &str, program: &Program) -> [String; 4] {
    let float = program.float_abi.map(|abi| format!("{}-float", abi.word()));
    let machine = program.machine.iter().cloned().chain(float).collect::<Vec<_>>().join(" ");
    let script = program.script.as_ref().map(|script| script.interpreter.clone());
    let interpreter = program.interpreter.iter().cloned().chain(script).map(|name| format!("interpreter {name}"));
    let needed = Some(program.needed.join(" ")).filter(|names| !names.is_empty()).map(|names| format!("needs {names}"));
    let version = program.go.as_ref().map(|go| go.version.clone().unwrap_or_else(|| "go".to_owned()));
    let rest: Vec<String> = interpreter.chain(needed).chain(version).chain(program.notes.iter().cloned()).collect();
    [path, program.linkage.word(), &machine, &rest.join("; ")].map(printable)
}

/// The object of `docs/reports.md`. Keys may be added, never changed.
fn to_json(path: &str, program: &Program) -> Value {
    json!({
        "path": path,
        "linkage": program.linkage,
        "class": program.class.map(crate::elf::Class::bits),
        "endian": program.endian,
        "machine": program.machine,
        "interpreter": program.interpreter,
        "needed": program.needed,
        "static": program.linkage.is_static(),
        "go": program.go.as_ref().map(go),
        "float_abi": program.float_abi,
        "script": program.script,
        "mentions": program.mentions,
        "tools": program.tools.iter().map(tool).collect::<Vec<_>>(),
        "libraries": program.libraries,
        "notes": program.notes,
    })
}

fn tool(tool: &Tool) -> Value {
    json!({"name": tool.name, "why": tool.shown_by.words(&tool.name)})
}

fn go(facts: &GoFacts) -> Value {
    let modules = facts.modules.iter().map(|(path, version)| json!({"path": path, "version": version}));
    let settings: Map<String, Value> =
        facts.settings.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({
        "version": facts.version,
        "path": facts.path,
        "module": facts.module,
        "modules": modules.collect::<Vec<_>>(),
        "settings": settings,
        "packages": facts.packages,
    })
}
