//! The list as values: one exception for each row, and what is wrong with the rows.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::table::{self, ExceptionTable, TableRow};
use super::{Component, component_names};
use oci::Location;
use oci::error::Result;

/// One component that may stay on its base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exception {
    pub component: String,
    /// As it is written, in its column or in the heading of its table; empty where the list does not say.
    pub base: String,
    pub reason: String,
    /// Where component, base and reason link to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
    /// The heading above its table, where the list has several tables.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub section: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub owner: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub supported: String,
    /// The line of the page, from 1.
    pub line: usize,
    /// Text after the last column, which no reader of the page sees.
    #[serde(skip)]
    pub lost: String,
}

/// A page with its exceptions. Invariant: `tables` was read from `page`, and there is one at least.
#[derive(Debug, Clone)]
pub struct ExceptionList {
    pub(super) page: String,
    pub(super) tables: Vec<ExceptionTable>,
    /// The rows of all tables, in the order of the page.
    exceptions: Vec<Exception>,
    /// The first row of each component.
    rows: HashMap<String, usize>,
}

impl ExceptionList {
    /// Reads the page; rows with mistakes are kept, and [`Self::problems`] names them.
    pub fn read(page: &str) -> Result<Self> {
        let tables = table::find(page)?;
        let mut lines = LineNumbers { page, at: 0, line: 1 };
        let sections = if tables.len() > 1 { Sections::Shown } else { Sections::OnlyOne };
        let rows = tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row)));
        let exceptions: Vec<Exception> =
            rows.map(|(table, row)| exception((table, sections), row, lines.of(row))).collect();
        let rows = exceptions.iter().enumerate().rev().map(|(at, exception)| (exception.component.clone(), at));
        let rows = rows.collect();
        Ok(Self { page: page.to_owned(), tables, exceptions, rows })
    }

    #[must_use]
    pub fn page(&self) -> &str {
        &self.page
    }

    #[must_use]
    pub fn exceptions(&self) -> &[Exception] {
        &self.exceptions
    }

    /// The exception that is recorded for the image, by the names that its location gives it.
    #[must_use]
    pub fn exception_for(&self, image: &Location) -> Option<&Exception> {
        let names = component_names(image);
        names.iter().find_map(|name| self.named(name))
    }

    pub(super) fn named(&self, name: &Component) -> Option<&Exception> {
        self.exceptions.get(*self.rows.get(name.as_str())?)
    }
}

/// Whether the section of a row says anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sections {
    Shown,
    OnlyOne,
}

fn exception((table, sections): (&ExceptionTable, Sections), row: &TableRow, line: usize) -> Exception {
    let columns = &table.columns;
    let (component, reason) = (row.cell(columns.component), row.cell(columns.reason));
    let base = row.optional_cell(columns.base);
    let section = if sections == Sections::Shown { table.heading.text.clone() } else { String::new() };
    Exception {
        component: component.text,
        base: table.base().map_or(base.text, str::to_owned),
        reason: reason.text,
        links: component.links.into_iter().chain(base.links).chain(reason.links).collect(),
        section,
        owner: row.optional_cell(columns.owner).text,
        supported: row.optional_cell(columns.supported).text,
        line,
        lost: row.lost.clone(),
    }
}

/// Counts lines once, however many rows there are.
struct LineNumbers<'a> {
    page: &'a str,
    at: usize,
    line: usize,
}

impl LineNumbers<'_> {
    fn of(&mut self, row: &TableRow) -> usize {
        let passed = self.page.get(self.at..row.line.start).unwrap_or_default();
        self.line += passed.bytes().filter(|byte| *byte == b'\n').count();
        self.at = row.line.start;
        self.line
    }
}

/// Whether a mistake makes the list invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Gravity {
    /// The list is not valid.
    Refuse,
    /// It is valid but incomplete.
    Warn,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub gravity: Gravity,
    pub line: usize,
    pub component: String,
    pub message: String,
}

impl ExceptionList {
    /// Everything that is wrong, in the order of the rows.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut first: HashMap<&str, usize> = HashMap::new();
        let mut problems = Vec::new();
        for exception in self.exceptions() {
            let mut say = |gravity, message: String| {
                let component = exception.component.clone();
                problems.push(Problem { gravity, line: exception.line, component, message });
            };
            match first.get(exception.component.as_str()) {
                Some(line) if !exception.component.is_empty() => {
                    say(Gravity::Refuse, format!("the component is recorded twice, first in line {line}"));
                }
                _ => {
                    first.insert(&exception.component, exception.line);
                }
            }
            for (gravity, message) in of_row(exception) {
                say(gravity, message);
            }
        }
        problems
    }

    /// Rows whose component none of these images is.
    #[must_use]
    pub fn strangers<'a>(&self, images: impl Iterator<Item = &'a Location>) -> Vec<Problem> {
        let known: HashSet<String> =
            images.filter_map(|image| Some(self.exception_for(image)?.component.clone())).collect();
        let strangers = self.exceptions().iter().filter(|exception| !known.contains(&exception.component));
        let problem = |exception: &Exception| Problem {
            gravity: Gravity::Refuse,
            line: exception.line,
            component: exception.component.clone(),
            message: "no image of the batch is this component".to_owned(),
        };
        strangers.map(problem).collect()
    }
}

fn of_row(exception: &Exception) -> Vec<(Gravity, String)> {
    let mut found = Vec::new();
    if exception.component.is_empty() {
        found.push((Gravity::Refuse, "the row names no component".to_owned()));
    } else if is_broken_link(&exception.component) {
        found.push((Gravity::Refuse, "the page does not define this link".to_owned()));
    } else if exception.component.parse::<Component>().is_err() {
        found.push((Gravity::Refuse, "the component is not the name of an image".to_owned()));
    }
    if exception.reason.is_empty() {
        found.push((Gravity::Refuse, "the row gives no reason".to_owned()));
    }
    if !exception.lost.is_empty() {
        let lost = &exception.lost;
        found.push((Gravity::Refuse, format!("the row has more cells than the header, so readers do not see: {lost}")));
    }
    if exception.base.is_empty() {
        found.push((Gravity::Warn, "the row names no base".to_owned()));
    } else if is_broken_link(&exception.base) {
        found.push((Gravity::Warn, format!("the page does not define this link: {}", exception.base)));
    } else if exception.base.parse::<Location>().is_err() {
        found.push((Gravity::Warn, format!("the base is not the name of an image: {}", exception.base)));
    }
    found
}

/// `[etcd]` is shown as it is written where the page has no `[etcd]: URL`.
fn is_broken_link(text: &str) -> bool {
    text.starts_with('[') && text.ends_with(']')
}
