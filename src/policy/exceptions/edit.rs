//! Writing the list: an edit of the page, and the page that names the base of every component.
//!
//! In an edit, one line comes or goes, and no other byte changes. It is read back before it is handed
//! out: the other rows are the same, and the new one says what was asked for.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::list::{Exception, ExceptionList};
use super::table::{ExceptionTable, Nesting};
use super::{Component, is_short_for};
use oci::Location;
use oci::error::{Error, Result};

/// A page without rows, for a list that is begun.
pub const EMPTY_PAGE: &str = "# Base Image Exception List

Images that may keep their base, and why.

| Image Name | Base Image | Reasons for exception |
|---|---|---|
";

/// A row to add. What is not given stays empty in its column.
#[derive(Debug, Clone, Copy)]
pub struct NewException<'a> {
    pub component: &'a Component,
    pub base: &'a str,
    pub reason: &'a str,
    /// The heading above the table that it belongs to; where it is `None`, the base has to decide.
    pub section: Option<&'a str>,
    pub owner: Option<&'a str>,
    pub supported: Option<&'a str>,
}

impl ExceptionList {
    /// The list with one more row at the end of the table that it belongs to.
    pub fn with(&self, new: &NewException<'_>) -> Result<Self> {
        if let Some(there) = self.named(new.component) {
            return Err(Error::input("the list has the component already")
                .fact("component", new.component)
                .fact("line", there.line)
                .fact("reason", &there.reason));
        }
        let (rows_before, table) = self.table_for(new)?;
        check_editable(table)?;
        let row = table.row(new)?;
        let (before, after) = self.page.split_at_checked(table.end).ok_or_else(misread)?;
        let header = self.page.get(table.header.clone()).unwrap_or_default();
        let feed = if header.ends_with("\r\n") { "\r\n" } else { "\n" };
        let page = if before.ends_with('\n') {
            format!("{before}{row}{feed}{after}")
        } else {
            format!("{before}{feed}{row}{after}")
        };
        let edited = Self::read(&page)?;
        let mut others = edited.exceptions().to_vec();
        let at = rows_before + table.rows.len();
        let added = if at < others.len() { others.remove(at) } else { return Err(misread().fact("row", row)) };
        let says = added.component == new.component.as_str() && !added.reason.is_empty() && added.lost.is_empty();
        if !says || !same(&others, self.exceptions()) {
            return Err(misread().fact("row", row));
        }
        Ok(edited)
    }

    /// The table that the row belongs to, and how many rows the tables before it have.
    fn table_for(&self, new: &NewException<'_>) -> Result<(usize, &ExceptionTable)> {
        let tables: Vec<(usize, &ExceptionTable)> = self
            .tables
            .iter()
            .scan(0, |rows, table| {
                let before = *rows;
                *rows += table.rows.len();
                Some((before, table))
            })
            .collect();
        let fitting = match new.section {
            Some(section) => of_section(&tables, section),
            None if tables.len() == 1 => tables.clone(),
            None => {
                let by_heading = |it: &&(usize, &ExceptionTable)| it.1.base().is_some_and(|base| new.is_on(base));
                let fitting: Vec<_> = tables.iter().filter(by_heading).copied().collect();
                let with_column = || tables.iter().filter(|it| it.1.columns.base.is_some()).copied().collect();
                if fitting.is_empty() { with_column() } else { fitting }
            }
        };
        match fitting.as_slice() {
            [one] => Ok(*one),
            [] => Err(unclear("the list has no such section", &tables, new.section)),
            _ => Err(unclear("the list has several tables that the row could go into", &fitting, new.section)),
        }
    }

    /// The list without the rows of the component.
    pub fn without(&self, component: &Component) -> Result<Self> {
        let is_it = |exception: &Exception| exception.component == component.as_str();
        let mut page = self.page.clone();
        let rows = self.tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row)));
        let found: Vec<_> = rows.zip(self.exceptions()).filter(|(_, exception)| is_it(exception)).collect();
        for ((table, row), _) in found.into_iter().rev() {
            check_editable(table)?;
            let mut line = row.line.clone();
            let text = page.get(line.clone()).ok_or_else(misread)?;
            // The last line of a page that ends without a line feed takes the one before it along.
            if !text.ends_with('\n') {
                line.start = without_feed(page.get(..line.start).ok_or_else(misread)?).len();
            }
            page.replace_range(line, "");
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
}

impl NewException<'_> {
    /// Whether the row is on the base that a heading names.
    fn is_on(&self, heading: &str) -> bool {
        let Ok(given) = self.base.parse::<Location>() else { return heading == self.base };
        let whole = heading.parse::<Location>().is_ok_and(|heading| heading.repository() == given.repository());
        whole || is_short_for(heading, &given)
    }
}

impl ExceptionTable {
    /// A line of the table in its own order of columns.
    fn row(&self, new: &NewException<'_>) -> Result<String> {
        let columns = &self.columns;
        let (base, reason) = (cell("base", new.base)?, cell("reason", new.reason)?);
        match self.base() {
            Some(heading) if !new.is_on(heading) => {
                return Err(Error::input("the rows of this section are on another base")
                    .fact("section", &self.heading.text)
                    .fact("base", new.base));
            }
            None if columns.base.is_none() => return Err(Error::input("the table has no column for the base")),
            _ => {}
        }
        let optional = [("owner", columns.owner, new.owner), ("supported", columns.supported, new.supported)];
        let mut texts = vec![(Some(columns.component), new.component.to_string()), (columns.base, base)];
        for (name, column, text) in optional {
            let Some(text) = text else { continue };
            if column.is_none() {
                return Err(Error::input(format!("the table has no column for --{name}")));
            }
            texts.push((column, cell(name, text)?));
        }
        texts.push((Some(columns.reason), reason));
        let mut cells = vec![String::new(); columns.count];
        for (at, text) in texts {
            if let Some(cell) = at.and_then(|at| cells.get_mut(at)) {
                *cell = text;
            }
        }
        Ok(format!("|{}|", cells.iter().map(|cell| format!(" {cell} ")).collect::<Vec<_>>().join("|")))
    }
}

fn without_feed(text: &str) -> &str {
    let line = text.strip_suffix('\n').unwrap_or(text);
    line.strip_suffix('\r').unwrap_or(line)
}

/// The tables below a heading: with this text, or else with this in its text; in any case.
fn of_section<'t>(tables: &[(usize, &'t ExceptionTable)], section: &str) -> Vec<(usize, &'t ExceptionTable)> {
    let wanted = section.to_lowercase();
    let with = |fits: &dyn Fn(&str) -> bool| -> Vec<(usize, &'t ExceptionTable)> {
        tables.iter().filter(|(_, table)| fits(&table.heading.text.to_lowercase())).copied().collect()
    };
    let exact = with(&|text| text == wanted);
    if exact.is_empty() { with(&|text| text.contains(&wanted)) } else { exact }
}

fn unclear(what: &str, tables: &[(usize, &ExceptionTable)], section: Option<&str>) -> Error {
    let sections: Vec<&str> = tables.iter().map(|(_, table)| table.heading.text.as_str()).collect();
    let error = Error::input(what).fact("sections", sections.join(", "));
    let error = section.into_iter().fold(error, |error, section| error.fact("section", section));
    let example = sections.first().filter(|section| !section.is_empty()).unwrap_or(&"HEADING");
    error.hint(format!("name the heading above the table, such as --section '{example}'"))
}

fn check_editable(table: &ExceptionTable) -> Result<()> {
    match table.nesting {
        Nesting::TopLevel => Ok(()),
        Nesting::Nested => Err(Error::input(
            "the table is inside a block quote or a list, where underpin does not edit: change it by hand",
        )),
    }
}

/// Text as a cell holds it: one line, with its bars escaped. Links stay links.
fn cell(name: &str, text: &str) -> Result<String> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Error::usage(format!("--{name} must not be empty")));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::usage(format!("--{name} must be one line")).fact("given", text));
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

/// The base-image list as Markdown: every component once, sorted, the exceptions with their reason, and with
/// owner and support where the list records them.
#[must_use]
pub fn render(list: &ExceptionList, others: &[ComponentBase]) -> String {
    let mut rows: BTreeMap<&str, RenderedRow<'_>> = BTreeMap::new();
    for other in others {
        rows.insert(&other.component, RenderedRow { base: &other.base, reason: "", owner: "", supported: "" });
    }
    for exception in list.exceptions().iter().filter(|exception| !exception.component.is_empty()) {
        let Exception { base, reason, owner, supported, .. } = exception;
        rows.insert(&exception.component, RenderedRow { base, reason, owner, supported });
    }
    let mut columns: Vec<RenderedColumn<'_>> =
        vec![("Base Image", |row| row.base_text()), ("Exception", |row| row.reason)];
    let optional: [RenderedColumn<'_>; 2] = [("Owner", |row| row.owner), ("Supported", |row| row.supported)];
    columns.extend(optional.into_iter().filter(|(_, text)| rows.values().any(|row| !text(row).is_empty())));
    let mut out = String::from("# Base Images\n\n| Component |");
    for (name, _) in &columns {
        out.extend([" ", name, " |"]);
    }
    out.extend(["\n| --- |", &" --- |".repeat(columns.len()), "\n"]);
    for (component, row) in &rows {
        let cells: Vec<String> = columns.iter().map(|(_, text)| escaped(text(row))).collect();
        let _ = writeln!(out, "| {} | {} |", escaped(component), cells.join(" | "));
    }
    out.push_str("\n## By Base Image\n\n| Base Image | Components |\n| --- | --- |\n");
    let mut bases: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (component, row) in &rows {
        bases.entry(row.base_text()).or_default().push(escaped(component));
    }
    for (base, components) in bases {
        let _ = writeln!(out, "| {} | {} |", escaped(base), components.join(", "));
    }
    out
}

/// What the rendered page says of a component.
struct RenderedRow<'a> {
    base: &'a str,
    reason: &'a str,
    owner: &'a str,
    supported: &'a str,
}

/// The name of a column, and its text.
type RenderedColumn<'a> = (&'static str, fn(&RenderedRow<'a>) -> &'a str);

impl<'a> RenderedRow<'a> {
    fn base_text(&self) -> &'a str {
        if self.base.is_empty() { "not recorded" } else { self.base }
    }
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
