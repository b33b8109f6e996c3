//! The list as values: one exception a row.

use std::collections::HashMap;

use serde::Serialize;

use super::component::{Component, component_names};
use super::table::{self, Row, Table};
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
    /// What the row has behind its last column.
    #[serde(skip)]
    pub lost: String,
}

/// A page with its exceptions. Invariant: `table` was read from `page`.
#[derive(Debug, Clone)]
pub struct ExceptionList {
    pub(super) page: String,
    pub(super) table: Table,
    exceptions: Vec<Exception>,
    /// The first row of each component.
    rows: HashMap<String, usize>,
}

impl ExceptionList {
    /// Reads the page; rows that make no sense are kept, and [`Self::problems`] names them.
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
    pub fn of(&self, image: &Location) -> Option<&Exception> {
        let names = component_names(image);
        names.iter().find_map(|name| self.named(name))
    }

    pub(super) fn named(&self, name: &Component) -> Option<&Exception> {
        self.exceptions.get(*self.rows.get(name.as_str())?)
    }
}

fn exception(table: &Table, row: &Row, line: usize) -> Exception {
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
    fn of(&mut self, row: &Row) -> usize {
        let passed = self.page.get(self.at..row.line.start).unwrap_or_default();
        self.line += passed.bytes().filter(|byte| *byte == b'\n').count();
        self.at = row.line.start;
        self.line
    }
}
