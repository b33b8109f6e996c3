//! The page that says which component stands on which base.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::list::ExceptionList;

/// A component that is known from somewhere else, such as a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub component: String,
    pub base: String,
}

/// The base-image list as Markdown: every component once, sorted, the exceptions with their reason.
#[must_use]
pub fn render(list: &ExceptionList, others: &[Standing]) -> String {
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
