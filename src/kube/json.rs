//! JSON to the same tree. A file may have several documents one after the other, as kubectl reads them. A manifest
//! with a template's placeholders may lack the commas that they bring along; any other must be JSON to the letter.

use jsonc_parser::ast::{ObjectPropName, Value};
use jsonc_parser::common::{Range, Ranged as _};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::tree::{CollectionStyle, ManifestTree, NodeKind, ScalarStyle, TreeNode, TreeNodeId};
use super::yaml::{MOST_NODES, attach};
use crate::yaml::Position;
use oci::error::{Error, Result};

/// How much the commas matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Commas {
    Strict,
    /// A placeholder may bring its own.
    FromTemplate,
}

pub(super) fn read(text: &str, commas: Commas) -> Result<ManifestTree> {
    let mut reader = JsonReader { text, start: 0, tree: ManifestTree::default() };
    for document in documents(text) {
        reader.start = document.start;
        let part = text.get(document).unwrap_or_default();
        let wrong = |error: jsonc_parser::errors::ParseError| {
            let at = Position::of(text, reader.start + error.range().start);
            at.on(Error::input("the manifest is not valid JSON").cause(error.kind()))
        };
        let parsed = parse_to_ast(part, &CollectOptions::default(), &options(commas)).map_err(wrong)?;
        if let Some(value) = parsed.value {
            let root = reader.insert(&value, None, None)?;
            reader.tree.roots.push(root);
        }
    }
    Ok(reader.tree)
}

/// The documents of the text: each ends with the bracket that closes its first one. Whatever follows the
/// last one is one more, for the parser to complain about.
fn documents(text: &str) -> Vec<std::ops::Range<usize>> {
    let (mut found, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    let (mut is_string, mut is_escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            _ if is_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    found.push(start..at + 1);
                    start = at + 1;
                }
            }
            _ => {}
        }
    }
    if found.is_empty() || text.get(start..).is_some_and(|rest| !rest.trim().is_empty()) {
        found.push(start..text.len());
    }
    found
}

fn options(commas: Commas) -> ParseOptions {
    let loose = commas == Commas::FromTemplate;
    ParseOptions {
        allow_comments: false,
        allow_loose_object_property_names: false,
        allow_trailing_commas: loose,
        allow_missing_commas: loose,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

struct JsonReader<'a> {
    text: &'a str,
    /// Where the document begins that is being read.
    start: usize,
    tree: ManifestTree,
}

impl JsonReader<'_> {
    /// The parser allows 512 levels, so this comes back.
    fn insert(&mut self, value: &Value<'_>, parent: Option<TreeNodeId>, key: Option<TreeNodeId>) -> Result<TreeNodeId> {
        let id = self.add(kind(value), value.range(), parent)?;
        if let Some(parent) = parent {
            let wrong = |error| Position::of(self.text, self.start + value.start()).on(error);
            attach(&mut self.tree, parent, key, id).map_err(wrong)?;
        }
        match value {
            Value::Array(array) => {
                for element in &array.elements {
                    self.insert(element, Some(id), None)?;
                }
            }
            Value::Object(object) => {
                for property in &object.properties {
                    let ObjectPropName::String(name) = &property.name else { continue };
                    let text = NodeKind::Scalar { text: name.value.to_string(), style: ScalarStyle::Double };
                    let key = self.add(text, name.range, Some(id))?;
                    self.insert(&property.value, Some(id), Some(key))?;
                }
            }
            _ => {}
        }
        Ok(id)
    }

    fn add(&mut self, kind: NodeKind, range: Range, parent: Option<TreeNodeId>) -> Result<TreeNodeId> {
        if self.tree.len() >= MOST_NODES {
            return Err(Error::input("the manifest has too many values").fact("most", MOST_NODES));
        }
        let range = self.start + range.start..self.start + range.end;
        Ok(self.tree.add(TreeNode { kind, range, anchor: None, tag: None, parent }))
    }
}

fn kind(value: &Value<'_>) -> NodeKind {
    let plain = |text: &str| NodeKind::Scalar { text: text.to_owned(), style: ScalarStyle::Plain };
    match value {
        Value::StringLit(text) => NodeKind::Scalar { text: text.value.to_string(), style: ScalarStyle::Double },
        Value::NumberLit(number) => plain(number.value),
        Value::BooleanLit(truth) => plain(if truth.value { "true" } else { "false" }),
        Value::NullKeyword(_) => plain("null"),
        Value::Array(_) => NodeKind::Sequence { items: Vec::new(), layout: CollectionStyle::Flow },
        Value::Object(_) => NodeKind::Mapping { entries: Vec::new(), layout: CollectionStyle::Flow },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_follow_each_other_as_kubectl_reads_them() {
        let text = "{\"a\": \"}{\"}\n{\"b\": [\"\\\"]\"]} [1]\n";
        let tree = read(text, Commas::Strict).unwrap();
        let shown: Vec<&str> = tree.roots.iter().map(|root| &text[tree.node(*root).range.clone()]).collect();
        assert_eq!(shown, ["{\"a\": \"}{\"}", "{\"b\": [\"\\\"]\"]}", "[1]"]);
        assert!(read("", Commas::Strict).unwrap().roots.is_empty());
        for (bad, place) in [("{}\n,{}", (2, 1)), ("{}\n{\"a\" 1}", (2, 6)), ("{}{} x", (1, 6)), ("{}\n]", (2, 1))] {
            let error = read(bad, Commas::Strict).unwrap_err().to_string();
            assert!(error.contains("not valid JSON"), "{bad}: {error}");
            let line = format!("line      {}", place.0);
            assert!(error.contains(&line) || error.contains(&place.0.to_string()), "{bad}: {error}");
        }
    }
}
