//! The files of layers as lists that open: of a whole page only so many.

use std::fmt::Write as _;

use bytesize::ByteSize;

use super::escape::escaped;
use crate::report::files::{FileListing, FileTree, TreeKind};

/// How many rows a page may still have.
pub(super) struct RowBudget(usize);

impl Default for RowBudget {
    fn default() -> Self {
        Self(FileListing::PAGE)
    }
}

/// The files of a layer; only how many there are where the page is full.
pub(super) fn files(out: &mut String, tree: &FileTree, budget: &mut RowBudget) {
    let rows = tree.rows();
    let Some(left) = budget.0.checked_sub(rows) else {
        let _ = writeln!(
            out,
            "<p class=\"dim\">{} not listed: this page has too many files</p>",
            amount(tree.entries, tree.bytes)
        );
        return;
    };
    budget.0 = left;
    out.push_str("<ul class=\"tree\">\n");
    below(out, tree);
    out.push_str("</ul>\n");
}

fn amount(entries: usize, bytes: u64) -> String {
    let entries = if entries == 1 { "1 entry".to_owned() } else { format!("{entries} entries") };
    format!("{entries}, {}", ByteSize(bytes))
}

fn below(out: &mut String, tree: &FileTree) {
    tree.children.iter().for_each(|child| row(out, child));
    if tree.hidden_entries > 0 {
        let _ = writeln!(out, "<li><i>… {} more</i></li>", amount(tree.hidden_entries, tree.hidden_bytes));
    }
}

fn row(out: &mut String, tree: &FileTree) {
    let name = escaped(&tree.name);
    match &tree.kind {
        TreeKind::Directory if tree.children.is_empty() => {
            let _ =
                writeln!(out, "<li><span class=\"nm\">{name}/</span><i>{}</i></li>", amount(tree.entries, tree.bytes));
        }
        TreeKind::Directory => {
            let amount = amount(tree.entries, tree.bytes);
            let _ =
                writeln!(out, "<li><details><summary><span class=\"nm\">{name}/</span><i>{amount}</i></summary><ul>");
            below(out, tree);
            out.push_str("</ul></details></li>\n");
        }
        TreeKind::File => {
            let _ = writeln!(out, "<li><span class=\"nm\">{name}</span><i>{}</i></li>", ByteSize(tree.bytes));
        }
        TreeKind::Link(target) => {
            let _ = writeln!(out, "<li><span class=\"nm\">{name}</span><i>→ {}</i></li>", escaped(target));
        }
        TreeKind::Special => {
            let _ = writeln!(out, "<li><span class=\"nm\">{name}</span><i>device or pipe</i></li>");
        }
        TreeKind::Removed => {
            let _ = writeln!(out, "<li><span class=\"nm gone\">{name}</span><i>removed</i></li>");
        }
    }
}
