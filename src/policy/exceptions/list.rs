//! The list as values: one exception for each row, and what is wrong with the rows.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::table::{self, ExceptionTable, TableRow};
use super::{Component, component_names};
use crate::error::Result;
use crate::oci::Location;

/// One component that may stay on its base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exception {
    pub component: String,
    /// As it is written; empty where the list does not say.
    pub base: String,
    pub reason: String,
    /// Where base and reason link to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
    /// The line of the page, from 1.
    pub line: usize,
    /// Text after the last column, which no reader of the page sees.
    #[serde(skip)]
    pub lost: String,
}

/// A page with its exceptions. Invariant: `table` was read from `page`.
#[derive(Debug, Clone)]
pub struct ExceptionList {
    pub(super) page: String,
    pub(super) table: ExceptionTable,
    exceptions: Vec<Exception>,
    /// The first row of each component.
    rows: HashMap<String, usize>,
}

impl ExceptionList {
    /// Reads the page; rows with mistakes are kept, and [`Self::problems`] names them.
    pub fn read(page: &str) -> Result<Self> {
        let table = table::find(page)?;
        let mut lines = LineNumbers { page, at: 0, line: 1 };
        let exceptions: Vec<Exception> = table.rows.iter().map(|row| exception(&table, row, lines.of(row))).collect();
        let rows = exceptions.iter().enumerate().rev().map(|(at, exception)| (exception.component.clone(), at));
        let rows = rows.collect();
        Ok(Self { page: page.to_owned(), table, exceptions, rows })
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

fn exception(table: &ExceptionTable, row: &TableRow, line: usize) -> Exception {
    let base = table.columns.base.map(|at| row.cell(at)).unwrap_or_default();
    let reason = row.cell(table.columns.reason);
    Exception {
        component: row.cell(table.columns.component).text,
        base: base.text,
        reason: reason.text,
        links: base.links.into_iter().chain(reason.links).collect(),
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
    } else if exception.base.parse::<Location>().is_err() {
        found.push((Gravity::Warn, format!("the base is not the name of an image: {}", exception.base)));
    }
    found
}
