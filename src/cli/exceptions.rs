//! `underpin exceptions`: the list of components that may stay on their base.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::Ended;
use super::args::SayArgs;
use super::batch::read_batch;
use super::console::{Console, Form};
use crate::batch::Entry;
use crate::error::{Error, Result, printable};
use crate::oci::Location;
use crate::policy::exceptions::{
    Component, ExceptionList, Gravity, LARGEST, Problem, Standing, component_names, render,
};
use crate::store::disk::{read_file, write_file};

/// List, validate, edit or render the Markdown list of base-image exceptions
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Exceptions {
    /// The Markdown file with the table
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print the list as JSON on stdout
    #[arg(long)]
    json: bool,
    /// Add a row for this component
    #[arg(long, value_name = "COMPONENT", requires_all = ["base", "reason"], conflicts_with_all = ["remove", "render"])]
    add: Option<Component>,
    /// The base that it stays on
    #[arg(long, value_name = "REF", requires = "add")]
    base: Option<String>,
    /// Why it cannot move; may hold Markdown links
    #[arg(long, value_name = "TEXT", requires = "add")]
    reason: Option<String>,
    /// Remove the row of this component
    #[arg(long, value_name = "COMPONENT", conflicts_with = "render")]
    remove: Option<Component>,
    /// Print the page that says which component stands on which base
    #[arg(long, conflicts_with = "json")]
    render: bool,
    /// The batch file that has all components: refuse rows of others, and render all of them
    #[arg(long, value_name = "FILE")]
    batch: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  # is the list sound? Lists the exceptions, and what is wrong with them
  underpin exceptions exceptions.md

  # record that a component stays on its base; no other byte of the file changes
  underpin exceptions exceptions.md --add kube-proxy --reason 'Requires iptables' \\
      --base registry.k8s.io/build-image/debian-iptables

  # it has moved
  underpin exceptions exceptions.md --remove kube-proxy

Exit codes: 0 the list is sound; 1 a row is recorded twice, or lacks its component or reason; 2 usage, unreadable file.";

impl Exceptions {
    pub(super) fn say(&self) -> SayArgs {
        SayArgs { json: self.json, ..SayArgs::default() }
    }

    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        let before = read_list(&self.file)?;
        let list = self.edited(&before)?;
        if list.page() != before.page() {
            write_file(&self.file, list.page().as_bytes())?;
        }
        let images = self.batch.as_deref().map(read_batch).transpose()?.map(|file| file.images);
        let mut problems = list.problems();
        problems
            .extend(images.iter().flat_map(|images| list.strangers(images.iter().map(|it| &it.job.request.source))));
        console.say(&problem_lines(&self.file, &problems));
        match console.form {
            _ if self.render => console.data(&render(&list, &standings(images.iter().flatten()))),
            Form::Json => console.data(&format!("{}\n", json!(list.exceptions()))),
            Form::Text => console.data(&text(&list)),
        }
        let sound = problems.iter().all(|problem| problem.gravity == Gravity::Warn);
        Ok(if sound { Ended::Done } else { Ended::Refused })
    }

    fn edited(&self, list: &ExceptionList) -> Result<ExceptionList> {
        match (&self.add, &self.base, &self.reason, &self.remove) {
            (Some(component), Some(base), Some(reason), _) => {
                let _: Location = base.parse()?;
                list.with(component, base, reason)
            }
            (.., Some(component)) => list.without(component),
            _ => Ok(list.clone()),
        }
    }
}

/// The components of a batch, each on the base that it moves to.
fn standings<'a>(images: impl Iterator<Item = &'a Entry>) -> Vec<Standing> {
    let standing = |entry: &Entry| {
        let request = &entry.job.request;
        let component = component_names(&request.source).into_iter().next()?;
        Some(Standing { component: component.to_string(), base: request.base.without_digest() })
    };
    images.filter_map(standing).collect()
}

/// The list in the file.
pub(super) fn read_list(path: &Path) -> Result<ExceptionList> {
    let bytes =
        read_file(path, LARGEST).map_err(|error| Error::io("could not read the exception list", path, &error))?;
    let page = String::from_utf8(bytes)
        .map_err(|_| Error::input("the exception list is not UTF-8").fact("path", path.display()))?;
    ExceptionList::read(&page).map_err(|error| error.fact("path", path.display()))
}

fn text(list: &ExceptionList) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(["component", "base", "reason"]);
    for exception in list.exceptions() {
        table.add_row([&exception.component, &exception.base, &exception.reason].map(|cell| printable(cell)));
    }
    let mut out = String::new();
    for line in table.lines() {
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

fn problem_lines(path: &Path, problems: &[Problem]) -> String {
    let mut out = String::new();
    for Problem { gravity, line, component, message } in problems {
        let word = match gravity {
            Gravity::Refuse => "refused",
            Gravity::Warn => "warning",
        };
        let name = if component.is_empty() { String::new() } else { format!("{}: ", printable(component)) };
        let _ = writeln!(out, "{word}: {}:{line}: {name}{}", path.display(), printable(message));
    }
    out
}
