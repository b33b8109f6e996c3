//! Writing the list: an edit of the page, and the page that names the base of every component.
//!
//! In an edit, one line comes or goes, and no other byte changes. It is read back before it is handed
//! out: the other rows are the same, and the new one says what was asked for.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Component;
use super::list::{Exception, ExceptionList};
use super::table::Nesting;
use crate::error::{Error, Result};

impl ExceptionList {
    /// The list with one more row at the end of the table.
    pub fn with(&self, component: &Component, base: &str, reason: &str) -> Result<Self> {
        self.check_editable()?;
        if let Some(there) = self.named(component) {
            return Err(Error::input("the list has the component already")
                .fact("component", component)
                .fact("line", there.line)
                .fact("reason", &there.reason));
        }
        let row = self.row(component.as_str(), &cell(base)?, &cell(reason)?)?;
        let (before, after) = self.page.split_at_checked(self.table.end).ok_or_else(misread)?;
        let feed = if before.ends_with("\r\n") { "\r\n" } else { "\n" };
        let page = if before.ends_with('\n') {
            format!("{before}{row}{feed}{after}")
        } else {
            format!("{before}{feed}{row}{after}")
        };
        let edited = Self::read(&page)?;
        let (last, others) = edited.exceptions().split_last().ok_or_else(misread)?;
        let says = last.component == component.as_str() && !last.reason.is_empty() && last.lost.is_empty();
        if !says || !same(others, self.exceptions()) {
            return Err(misread().fact("row", row));
        }
        Ok(edited)
    }

    /// The list without the rows of the component.
    pub fn without(&self, component: &Component) -> Result<Self> {
        self.check_editable()?;
        let is_it = |exception: &Exception| exception.component == component.as_str();
        let mut page = self.page.clone();
        let rows = self.table.rows.iter().zip(self.exceptions()).rev();
        for (row, _) in rows.filter(|(_, exception)| is_it(exception)) {
            if page.get(row.line.clone()).is_none() {
                return Err(misread());
            }
            page.replace_range(row.line.clone(), "");
        }
        if page == self.page {
            return Err(Error::input("the list does not have the component").fact("component", component));
        }
        let edited = Self::read(&page)?;
        let stay: Vec<Exception> = self.exceptions().iter().filter(|exception| !is_it(exception)).cloned().collect();
        if !same(edited.exceptions(), &stay) {
            return Err(misread());
        }
        Ok(edited)
    }

    fn check_editable(&self) -> Result<()> {
        match self.table.nesting {
            Nesting::TopLevel => Ok(()),
            Nesting::Nested => Err(Error::input(
                "the table is inside a block quote or a list, where underpin does not edit: change it by hand",
            )),
        }
    }

    /// A line of the table in its own order of columns.
    fn row(&self, component: &str, base: &str, reason: &str) -> Result<String> {
        let columns = &self.table.columns;
        if columns.base.is_none() && !base.is_empty() {
            return Err(Error::input("the table has no column for the base"));
        }
        let mut cells = vec![""; columns.count];
        for (at, text) in [(Some(columns.component), component), (columns.base, base), (Some(columns.reason), reason)] {
            if let Some(cell) = at.and_then(|at| cells.get_mut(at)) {
                *cell = text;
            }
        }
        Ok(format!("|{}|", cells.iter().map(|cell| format!(" {cell} ")).collect::<Vec<_>>().join("|")))
    }
}

/// Text as a cell holds it: one line, with its bars escaped. Links stay links.
fn cell(text: &str) -> Result<String> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Error::usage("base and reason must not be empty"));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::usage("base and reason must be one line each").fact("given", text));
    }
    Ok(text.replace('|', "\\|"))
}

/// Whether the rows are the same, whatever lines they are on.
fn same(one: &[Exception], other: &[Exception]) -> bool {
    let at_line = |exception: &Exception| Exception { line: 0, ..exception.clone() };
    one.iter().map(at_line).eq(other.iter().map(at_line))
}

fn misread() -> Error {
    Error::input("the edited page does not read back as intended, so it was not written")
}

/// A component that is known from somewhere else, such as a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentBase {
    pub component: String,
    pub base: String,
}

/// The base-image list as Markdown: every component once, sorted, the exceptions with their reason.
#[must_use]
pub fn render(list: &ExceptionList, others: &[ComponentBase]) -> String {
    let mut rows: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for other in others {
        rows.insert(&other.component, (&other.base, ""));
    }
    for exception in list.exceptions().iter().filter(|exception| !exception.component.is_empty()) {
        rows.insert(&exception.component, (&exception.base, &exception.reason));
    }
    let mut out = String::from("# Base Images\n\n| Component | Base Image | Exception |\n| --- | --- | --- |\n");
    for (component, (base, reason)) in &rows {
        let base = if base.is_empty() { "not recorded" } else { base };
        let _ = writeln!(out, "| {} | {} | {} |", escaped(component), escaped(base), escaped(reason));
    }
    out.push_str("\n## By Base Image\n\n| Base Image | Components |\n| --- | --- |\n");
    let mut bases: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (component, (base, _)) in &rows {
        bases.entry(if base.is_empty() { "not recorded" } else { base }).or_default().push(escaped(component));
    }
    for (base, components) in bases {
        let _ = writeln!(out, "| {} | {} |", escaped(base), components.join(", "));
    }
    out
}

/// Text that stays text in a cell.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\`*_{}[]<>#|~".contains(c) {
            out.push('\\');
        }
        out.push(if c.is_control() { ' ' } else { c });
    }
    out
}
