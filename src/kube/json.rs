//! JSON to the same tree. A manifest with a template's placeholders may lack the commas that they
//! bring along; any other must be JSON to the letter.

use jsonc_parser::ast::{ObjectPropName, Value};
use jsonc_parser::common::{Range, Ranged as _};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::tree::{CollectionStyle, ManifestTree, NodeKind, ScalarStyle, TreeNode, TreeNodeId};
use super::yaml::{MOST_NODES, attach};
use crate::error::{Error, Result};
use crate::yaml::Position;

/// How much the commas matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Commas {
    Strict,
    /// A placeholder may bring its own.
    FromTemplate,
}

pub(super) fn read(text: &str, commas: Commas) -> Result<ManifestTree> {
    let wrong = |error: jsonc_parser::errors::ParseError| {
        let at = Position::of(text, error.range().start);
        at.on(Error::input("the manifest is not valid JSON").cause(error.kind()))
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options(commas)).map_err(wrong)?;
    let mut reader = JsonReader { text, tree: ManifestTree::default() };
    if let Some(value) = parsed.value {
        let root = reader.insert(&value, None, None)?;
        reader.tree.roots.push(root);
    }
    Ok(reader.tree)
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
    tree: ManifestTree,
}

impl JsonReader<'_> {
    /// The parser allows 512 levels, so this comes back.
    fn insert(&mut self, value: &Value<'_>, parent: Option<TreeNodeId>, key: Option<TreeNodeId>) -> Result<TreeNodeId> {
        let id = self.add(kind(value), value.range(), parent)?;
        if let Some(parent) = parent {
            let wrong = |error| Position::of(self.text, value.start()).on(error);
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
        Ok(self.tree.add(TreeNode { kind, range: range.start..range.end, anchor: None, tag: None, parent }))
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
