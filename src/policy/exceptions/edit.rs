//! Changes to the page: one line comes or goes, and no other byte changes.
//!
//! Every edit is read back before it is handed out: the other rows are the same, and the new one
//! says what was asked for.

use super::component::Component;
use super::list::{Exception, ExceptionList};
use super::table::Place;
use crate::error::{Error, Result};

impl ExceptionList {
    /// The list with one more row at the end of its table.
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
        match self.table.place {
            Place::TopLevel => Ok(()),
            Place::Nested => {
                Err(Error::input("the table stands inside a quotation or a list, where only you can edit it"))
            }
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
        return Err(Error::usage("base and reason must say something"));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::usage("base and reason are one line each").fact("given", text));
    }
    Ok(text.replace('|', "\\|"))
}

/// Whether the rows say the same, on whatever line they are now.
fn same(one: &[Exception], other: &[Exception]) -> bool {
    let at_line = |exception: &Exception| Exception { line: 0, ..exception.clone() };
    one.iter().map(at_line).eq(other.iter().map(at_line))
}

fn misread() -> Error {
    Error::input("the edited page would not say what was asked for, so it was not written")
}
