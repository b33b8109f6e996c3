//! `underpin exceptions`: the list of components that may keep their base.

use std::path::{Path, PathBuf};

use clap::Args;

use super::Ended;
use super::args::SayArgs;
use super::batch::read_batch;
use super::console::{Console, Form};
use super::report_file::ReportArgs;
use crate::batch::BatchEntry;
use crate::policy::exceptions::{
    Component, ComponentBase, EMPTY_PAGE, ExceptionList, LARGEST, NewException, component_names, render,
};
use crate::report::{ExceptionListReport, Reportable as _};
use crate::store::disk::{edit_file, is_there, note_input, read_file};
use oci::Location;
use oci::error::{CommandLine, Error, Result};

/// List, validate, edit or render the Markdown list of base-image exceptions
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Exceptions {
    /// Markdown file with one table or more
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Make the file, with a table that has no rows yet
    #[arg(long, conflicts_with_all = ["remove", "section"])]
    init: bool,
    /// Print the list as JSON on stdout
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Add a row for this component
    #[arg(long, value_name = "COMPONENT", requires_all = ["base", "reason"], conflicts_with_all = ["remove", "render"])]
    add: Option<Component>,
    /// Base that it keeps
    #[arg(long, value_name = "REF", requires = "add")]
    base: Option<String>,
    /// Why it cannot move; may contain Markdown links
    #[arg(long, value_name = "TEXT", requires = "add")]
    reason: Option<String>,
    /// Heading above the table that the row goes into [default: the table for the base]
    #[arg(long, value_name = "HEADING", requires = "add")]
    section: Option<String>,
    /// Who looks after the component, where the table has a column for it
    #[arg(long, value_name = "TEXT", requires = "add")]
    owner: Option<String>,
    /// Whether the component is supported, where the table has a column for it
    #[arg(long, value_name = "TEXT", requires = "add")]
    supported: Option<String>,
    /// Remove the row for this component
    #[arg(long, value_name = "COMPONENT", conflicts_with = "render")]
    remove: Option<Component>,
    /// Print a Markdown page of which component is based on what
    #[arg(long, help_heading = "Output", conflicts_with = "json")]
    render: bool,
    /// Batch file with all components: reject rows for others, and render all of them
    #[arg(long, value_name = "FILE")]
    batch: Option<PathBuf>,
    #[command(flatten)]
    reports: ReportArgs,
}

const EXAMPLES: &str = "Examples:
  # list the exceptions and any mistakes in the table
  underpin exceptions exceptions.md

  # record that a component keeps its base; no other byte of the file changes
  underpin exceptions exceptions.md --add kube-proxy --reason 'Requires iptables' \\
      --base registry.k8s.io/build-image/debian-iptables

  # the component has moved
  underpin exceptions exceptions.md --remove kube-proxy

  # begin a list
  underpin exceptions --init new-exceptions.md

Exit codes: 0 the list is valid; 1 a row is a duplicate, or lacks a component or a reason; 2 wrong usage, or a file could not be read.";

impl Exceptions {
    pub(super) fn say(&self) -> SayArgs {
        SayArgs { json: self.json, ..SayArgs::default() }
    }

    pub(super) fn run(&self, console: &Console) -> Result<Ended> {
        let before = self.before()?;
        let list = self.edited(&before)?;
        let images = self.batch.as_deref().map(read_batch).transpose()?.map(|file| file.images);
        // Also one that is begun now.
        note_input(&self.file);
        let files = self.reports.open()?;
        if self.init || list.page() != before.page() {
            edit_file(&self.file, list.page().as_bytes())?;
        }
        let mut problems = list.problems();
        problems.extend(images.iter().flat_map(|images| list.strangers(images.iter().map(|it| &it.job.source))));
        let report = ExceptionListReport { path: self.file.display().to_string(), list: &list, problems };
        console.say(&report.problem_lines());
        match console.form {
            _ if self.render => console.data(&render(&list, &component_bases(images.iter().flatten()))),
            Form::Json => console.json(&report.json()),
            Form::Text => console.show(&report.table()),
        }
        let ended = if report.is_sound() { Ended::Done } else { Ended::Refused };
        Ok(console.ended(ended, files.write(&report)))
    }

    /// The list as it is, or the one that is begun.
    fn before(&self) -> Result<ExceptionList> {
        if !self.init {
            return read_list(&self.file);
        }
        if is_there(&self.file) {
            return Err(Error::usage("the file exists already, and --init makes a new one")
                .fact("path", self.file.display())
                .hint("leave --init out to read or edit it"));
        }
        ExceptionList::read(EMPTY_PAGE)
    }

    fn edited(&self, list: &ExceptionList) -> Result<ExceptionList> {
        match (&self.add, &self.base, &self.reason, &self.remove) {
            (Some(component), Some(base), Some(reason), _) => {
                let _: Location = base.parse()?;
                let (section, owner) = (self.section.as_deref(), self.owner.as_deref());
                let supported = self.supported.as_deref();
                list.with(&NewException { component, base, reason, section, owner, supported })
            }
            (.., Some(component)) => list.without(component),
            _ => Ok(list.clone()),
        }
    }
}

/// The components of a batch, each on the base that it moves to.
fn component_bases<'a>(images: impl Iterator<Item = &'a BatchEntry>) -> Vec<ComponentBase> {
    let component_base = |entry: &BatchEntry| {
        let job = &entry.job;
        let component = component_names(&job.source).into_iter().next()?;
        let base = job.options.base.location()?.without_digest();
        Some(ComponentBase { component: component.to_string(), base })
    };
    images.filter_map(component_base).collect()
}

/// The list in the file.
pub(super) fn read_list(path: &Path) -> Result<ExceptionList> {
    let bytes = read_file(path, LARGEST).map_err(|error| {
        let failed = Error::io("could not read the exception list", path, &error);
        match error.kind() {
            std::io::ErrorKind::NotFound => {
                let begin = CommandLine::underpin("exceptions").flag("--init", path.display());
                failed.hint(format!("begin a list: {begin}"))
            }
            _ => failed,
        }
    })?;
    let page = String::from_utf8(bytes)
        .map_err(|_| Error::input("the exception list is not UTF-8").fact("path", path.display()))?;
    ExceptionList::read(&page).map_err(|error| error.fact("path", path.display()))
}
