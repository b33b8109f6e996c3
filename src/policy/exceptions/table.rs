//! The table of a Markdown page that people keep by hand: which bytes are which row.
//!
//! The page is only read. What a row says is its text as a reader sees it; link
//! targets are kept beside it.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::error::{Error, Result};

/// A larger page is not read: nobody maintains such a list by hand.
pub const LARGEST: u64 = 4 << 20;

/// The one table that lists components, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExceptionTable {
    pub columns: TableColumns,
    pub rows: Vec<TableRow>,
    /// Where the line after its last one begins.
    pub end: usize,
    pub nesting: Nesting,
}

/// Whether rows can be added and removed line by line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nesting {
    TopLevel,
    /// Inside a block quote or a list, where every line has a prefix.
    Nested,
}

/// Which column holds what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableColumns {
    pub count: usize,
    pub component: usize,
    pub base: Option<usize>,
    pub reason: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableRow {
    /// Its whole line, with the line end.
    pub line: Range<usize>,
    pub cells: Vec<TableCell>,
    /// Text after the last column, which no reader of the page sees.
    pub lost: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TableCell {
    pub text: String,
    pub links: Vec<String>,
}

impl TableRow {
    pub fn cell(&self, at: usize) -> TableCell {
        self.cells.get(at).cloned().unwrap_or_default()
    }
}

/// Finds the table whose header names components and reasons.
pub(super) fn find(page: &str) -> Result<ExceptionTable> {
    let mut found: Vec<ExceptionTable> = Vec::new();
    for raw in tables(page) {
        let Some((header, rows)) = raw.rows.split_first() else { continue };
        if let Some(columns) = TableColumns::read(header) {
            let nesting = if raw.depth == 0 { Nesting::TopLevel } else { Nesting::Nested };
            // Without rows the table ends with the line below its header.
            let end = rows.last().map_or_else(|| next_line(page, header.line.end), |row| row.line.end);
            found.push(ExceptionTable { columns, rows: rows.to_vec(), end, nesting });
        }
    }
    let no_table = || {
        Error::input("the page has no table of exceptions")
            .hint("add a table whose header has the words Component, Base and Reason, with one row for each component")
    };
    match found.len() {
        0 | 1 => found.pop().ok_or_else(no_table),
        count => Err(Error::input("the page has more than one table of exceptions").fact("tables", count)),
    }
}

impl TableColumns {
    fn read(header: &TableRow) -> Option<Self> {
        let named = |word: &str| header.cells.iter().position(|cell| cell.text.to_lowercase().contains(word));
        Some(Self {
            count: header.cells.len(),
            component: named("component")?,
            base: named("base"),
            reason: named("reason")?,
        })
    }
}

/// A table as the parser shows it: the header is its first row.
struct RawTable {
    rows: Vec<TableRow>,
    depth: usize,
}

#[derive(PartialEq, Eq)]
enum Reading {
    Page,
    Cell,
}

fn tables(page: &str) -> Vec<RawTable> {
    let mut tables: Vec<RawTable> = Vec::new();
    let (mut depth, mut last_cell) = (0_usize, 0);
    let mut reading = Reading::Page;
    for (event, range) in Parser::new_ext(page, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::Table(_)) => tables.push(RawTable { rows: Vec::new(), depth }),
            Event::Start(Tag::TableHead | Tag::TableRow) => {
                last_cell = range.start;
                let line = line_start(page, range.start)..line_end(page, range.end);
                if let Some(table) = tables.last_mut() {
                    table.rows.push(TableRow { line, cells: Vec::new(), lost: String::new() });
                }
            }
            Event::End(TagEnd::TableHead | TagEnd::TableRow) => {
                if let Some(row) = tables.last_mut().and_then(|table| table.rows.last_mut()) {
                    row.lost = behind(page, last_cell..range.end);
                }
            }
            Event::Start(Tag::TableCell) => {
                last_cell = range.end.max(last_cell);
                reading = Reading::Cell;
                if let Some(row) = tables.last_mut().and_then(|table| table.rows.last_mut()) {
                    row.cells.push(TableCell::default());
                }
            }
            Event::Start(Tag::BlockQuote(_) | Tag::List(_) | Tag::Item) => depth += 1,
            Event::End(TagEnd::BlockQuote(_) | TagEnd::List(_) | TagEnd::Item) => depth = depth.saturating_sub(1),
            Event::End(TagEnd::TableCell) => reading = Reading::Page,
            event if reading == Reading::Cell => write_cell(&mut tables, &event),
            _ => {}
        }
    }
    for cell in tables.iter_mut().flat_map(|table| &mut table.rows).flat_map(|row| &mut row.cells) {
        cell.text = cell.text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    tables
}

/// Adds what a reader sees to the cell that is being read.
fn write_cell(tables: &mut [RawTable], event: &Event<'_>) {
    let row = tables.last_mut().and_then(|table| table.rows.last_mut());
    let Some(cell) = row.and_then(|row| row.cells.last_mut()) else { return };
    match event {
        Event::Text(text) | Event::Code(text) => cell.text.push_str(text),
        Event::InlineHtml(html) if html.starts_with("<br") => cell.text.push(' '),
        Event::SoftBreak | Event::HardBreak => cell.text.push(' '),
        Event::Start(Tag::Link { dest_url, .. }) => cell.links.push(dest_url.to_string()),
        _ => {}
    }
}

/// What follows the last cell of a row, apart from the closing bar.
fn behind(page: &str, range: Range<usize>) -> String {
    let rest = page.get(range).unwrap_or_default().trim();
    let rest = rest.strip_prefix('|').unwrap_or(rest);
    rest.strip_suffix('|').unwrap_or(rest).trim().to_owned()
}

fn line_start(page: &str, at: usize) -> usize {
    page.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |line| line + 1)
}

/// The end of the line that ends at `at`, with its line feed.
fn line_end(page: &str, at: usize) -> usize {
    if at > 0 && page.as_bytes().get(at - 1) == Some(&b'\n') {
        return at;
    }
    next_line(page, at)
}

fn next_line(page: &str, at: usize) -> usize {
    page.get(at..).and_then(|rest| rest.find('\n')).map_or(page.len(), |feed| at + feed + 1)
}
