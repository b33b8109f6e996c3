//! What `elf` shows of local files.

use serde_json::{Map, Value, json};

use super::model::ReportedFinding;
use super::rows::{Reportable, Row, RowFinding, RowOutcome, Rows};
use crate::rules::{Level, Rule};
use elf::{GoFacts, Program, Tool};
use oci::error::{Error, Result, printable};

/// The files in the order they were named, each with what was found in it.
#[derive(Debug)]
pub struct Programs(pub Vec<(String, Result<Program>)>);

impl Programs {
    fn read(&self) -> impl Iterator<Item = (&str, &Program)> {
        self.0.iter().filter_map(|(path, program)| Some((path.as_str(), program.as_ref().ok()?)))
    }

    /// Why files could not be read.
    pub fn errors(&self) -> impl Iterator<Item = &Error> {
        self.0.iter().filter_map(|(_, program)| program.as_ref().err())
    }
}

impl Reportable for Programs {
    fn text(&self) -> String {
        to_text(self)
    }

    /// One object a line.
    fn json(&self) -> String {
        self.read().map(|(path, program)| to_json(path, program).to_string()).collect::<Vec<_>>().join("\n")
    }

    fn rows(&self) -> Rows<'_> {
        Rows { command: "elf", thing: "file", list: self.0.iter().map(|(path, program)| row(path, program)).collect() }
    }
}

fn row<'a>(path: &'a str, program: &'a Result<Program>) -> Row<'a> {
    match program {
        Err(error) => Row::failed(path, error),
        Ok(program) if program.linkage.is_static() => Row::new(path, RowOutcome::Passed),
        Ok(program) => {
            let findings = vec![RowFinding::plain(not_static(path, program), None)];
            Row { findings, ..Row::new(path, RowOutcome::Refused) }
        }
    }
}

fn not_static(path: &str, program: &Program) -> ReportedFinding {
    let [_, linkage, machine, more] = cells(path, program);
    let is_program = program.machine.is_some();
    ReportedFinding {
        rule: if is_program { Rule::DynamicBinary } else { Rule::NotABinary },
        level: Level::Refuse,
        message: "the file is not a statically linked program".to_owned(),
        evidence: [linkage, machine, more].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", "),
        fix: if is_program { "link it statically: CGO_ENABLED=0 for Go, -static for C" } else { "" }.to_owned(),
    }
}

/// One line for each file, in columns: path, linkage, machine, and everything else.
fn to_text(programs: &Programs) -> String {
    let rows: Vec<[String; 4]> = programs.read().map(|(path, program)| cells(path, program)).collect();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths = [0, 1, 2].map(|column| width(column).unwrap_or(0));
    let line = |[path, linkage, machine, rest]: &[String; 4]| {
        let [first, second, third] = widths;
        let line = format!("{path:first$}  {linkage:second$}  {machine:third$}  {rest}");
        format!("{}\n", line.trim_end())
    };
    rows.iter().map(line).collect()
}

fn cells(path: &str, program: &Program) -> [String; 4] {
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
        "class": program.class.map(elf::Class::bits),
        "endian": program.endian,
        "machine": program.machine,
        "interpreter": program.interpreter,
        "needed": program.needed,
        "static": program.linkage.is_static(),
        "go": program.go.as_ref().map(go),
        "float_abi": program.float_abi,
        "script": program.script,
        "mentions": program.mentions,
        "tools": program.runs.iter().map(tool).collect::<Vec<_>>(),
        "packed": program.packed,
        "notes": program.notes,
    })
}

fn tool(tool: &Tool) -> Value {
    json!({"name": tool.name, "why": format!("it contains the package {}", tool.package)})
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
