//! The tables of a Markdown page that people keep by hand: which bytes are which row, and under which heading.
//!
//! The page is only read. What a row says is its text as a reader sees it; link
//! targets are kept beside it.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use oci::error::{Error, Result};

/// A larger page is not read: nobody maintains such a list by hand.
pub const LARGEST: u64 = 4 << 20;

/// A table that lists components, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExceptionTable {
    pub columns: TableColumns,
    pub rows: Vec<TableRow>,
    /// The nearest heading above it.
    pub heading: Heading,
    /// The bytes of its header's line.
    pub header: Range<usize>,
    /// Where the line after its last one begins.
    pub end: usize,
    pub nesting: Nesting,
}

impl ExceptionTable {
    /// The base of all its rows, where no column names it: what the heading shows as code.
    pub fn base(&self) -> Option<&str> {
        self.columns.base.is_none().then_some(self.heading.code.as_str()).filter(|base| !base.is_empty())
    }
}

/// Whether rows can be added and removed line by line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nesting {
    TopLevel,
    /// Inside a block quote or a list, where every line has a prefix.
    Nested,
}

/// A heading as a reader sees it. Both are empty above the first one of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Heading {
    pub text: String,
    /// The first code span in it.
    pub code: String,
}

/// Which column holds what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableColumns {
    pub count: usize,
    pub component: usize,
    pub base: Option<usize>,
    pub reason: usize,
    pub owner: Option<usize>,
    pub supported: Option<usize>,
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

    /// The cell of a column that not every table has.
    pub fn optional_cell(&self, at: Option<usize>) -> TableCell {
        at.map(|at| self.cell(at)).unwrap_or_default()
    }
}

/// Finds the tables whose header names components and reasons, in the order of the page.
pub(super) fn find(page: &str) -> Result<Vec<ExceptionTable>> {
    let mut found: Vec<ExceptionTable> = Vec::new();
    for raw in tables(page) {
        let Some((header, rows)) = raw.rows.split_first() else { continue };
        if let Some(columns) = TableColumns::read(header) {
            let nesting = if raw.depth == 0 { Nesting::TopLevel } else { Nesting::Nested };
            // Without rows the table ends with the line below its header.
            let end = rows.last().map_or_else(|| next_line(page, header.line.end), |row| row.line.end);
            let (heading, header) = (raw.heading, header.line.clone());
            found.push(ExceptionTable { columns, rows: rows.to_vec(), heading, header, end, nesting });
        }
    }
    if found.is_empty() {
        return Err(Error::input("the page has no table of exceptions").hint(
            "add a table whose header has the words Component (or Image Name), Base and Reason, with one row for each component",
        ));
    }
    Ok(found)
}

impl TableColumns {
    fn read(header: &TableRow) -> Option<Self> {
        let texts: Vec<String> = header.cells.iter().map(|cell| cell.text.to_lowercase()).collect();
        let named = |word: &str| texts.iter().position(|text| text.contains(word));
        let image = || texts.iter().position(|text| text.contains("image") && !text.contains("base"));
        Some(Self {
            count: header.cells.len(),
            component: named("component").or_else(image)?,
            base: named("base"),
            reason: named("reason")?,
            owner: named("owner"),
            supported: named("supported"),
        })
    }
}

/// A table as the parser shows it: the header is its first row.
struct RawTable {
    rows: Vec<TableRow>,
    heading: Heading,
    depth: usize,
}

#[derive(PartialEq, Eq)]
enum Reading {
    Page,
    Heading,
    Cell,
}

fn tables(page: &str) -> Vec<RawTable> {
    let mut tables: Vec<RawTable> = Vec::new();
    let (mut depth, mut last_cell, mut heading) = (0_usize, 0, Heading::default());
    let mut reading = Reading::Page;
    for (event, range) in Parser::new_ext(page, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { .. }) => (heading, reading) = (Heading::default(), Reading::Heading),
            Event::End(TagEnd::Heading(_) | TagEnd::TableCell) => reading = Reading::Page,
            Event::Start(Tag::Table(_)) => {
                tables.push(RawTable { rows: Vec::new(), heading: heading.clone(), depth });
            }
            Event::Start(Tag::TableHead | Tag::TableRow) => {
                last_cell = range.start;
                let line = line_start(page, range.start)..line_end(page, range.end);
                if let Some(table) = tables.last_mut() {
                    table.rows.push(TableRow { line, cells: Vec::new(), lost: String::new() });
                }
            }
            Event::End(TagEnd::TableHead | TagEnd::TableRow) => {
                if let Some(row) = last_row(&mut tables) {
                    row.lost = behind(page, last_cell..range.end);
                }
            }
            Event::Start(Tag::TableCell) => {
                last_cell = range.end.max(last_cell);
                reading = Reading::Cell;
                if let Some(row) = last_row(&mut tables) {
                    row.cells.push(TableCell::default());
                }
            }
            Event::Start(Tag::BlockQuote(_) | Tag::List(_) | Tag::Item) => depth += 1,
            Event::End(TagEnd::BlockQuote(_) | TagEnd::List(_) | TagEnd::Item) => depth = depth.saturating_sub(1),
            event if reading == Reading::Cell => write_cell(&mut tables, &event),
            event if reading == Reading::Heading => heading.write(&event),
            _ => {}
        }
    }
    for cell in tables.iter_mut().flat_map(|table| &mut table.rows).flat_map(|row| &mut row.cells) {
        cell.text = cell.text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    tables
}

fn last_row(tables: &mut [RawTable]) -> Option<&mut TableRow> {
    tables.last_mut().and_then(|table| table.rows.last_mut())
}

impl Heading {
    /// Adds what a reader sees.
    fn write(&mut self, event: &Event<'_>) {
        match event {
            Event::Text(text) => self.text.push_str(text),
            Event::Code(code) => {
                self.text.push_str(code);
                if self.code.is_empty() {
                    code.trim().clone_into(&mut self.code);
                }
            }
            Event::SoftBreak | Event::HardBreak => self.text.push(' '),
            _ => {}
        }
    }
}

/// Adds what a reader sees to the cell that is being read.
fn write_cell(tables: &mut [RawTable], event: &Event<'_>) {
    let Some(cell) = last_row(tables).and_then(|row| row.cells.last_mut()) else { return };
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
