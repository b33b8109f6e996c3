//! Settings files in YAML, as values that know their line and column.
//!
//! Only what settings need: texts, lists and maps. Aliases, tags, a second document and a key that
//! appears twice are refused, so a file cannot grow when it is read and never means two things.

use granit_parser::{Event, Options, Parser, ScalarStyle, Span};

use oci::error::{Error, Result};

/// Line and column as people and editors count them: both from one, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl Position {
    #[must_use]
    pub fn of(text: &str, at: usize) -> Self {
        let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
        let line = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let column = text.get(line..at).map_or(0, |part| part.chars().count());
        let breaks = before.split(|byte| *byte == b'\n').count();
        Self { line: breaks, column: column + 1 }
    }

    /// The error with this place among its facts.
    #[must_use]
    pub fn on(self, error: Error) -> Error {
        error.fact("line", self.line).fact("column", self.column)
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlNode {
    pub at: Position,
    pub value: YamlValue,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum YamlValue {
    Nothing,
    Text(String),
    List(Vec<YamlNode>),
    /// In the order of the file; no key appears twice.
    Map(Vec<(String, Position, YamlNode)>),
}

/// Reads the one document of the file.
pub fn read(text: &str) -> Result<YamlNode> {
    let mut options = Options::default();
    options.emit_comments = false;
    let mut builder = YamlBuilder::default();
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) =
            event.map_err(|error| wrong("the file is not valid YAML", at_mark(error.marker())).cause(error.info()))?;
        builder.take(event, span)?;
    }
    builder.done.ok_or_else(|| Error::usage("the file is empty"))
}

/// A complaint about a place in the file.
pub fn wrong(what: impl Into<String>, at: Position) -> Error {
    Error::usage(what).fact("at", at)
}

fn at_mark(mark: &granit_parser::Marker) -> Position {
    Position { line: mark.line(), column: mark.col() + 1 }
}

/// A list or map that is not closed yet.
enum OpenNode {
    List(Position, Vec<YamlNode>),
    Map(Position, Vec<(String, Position, YamlNode)>, Option<(String, Position)>),
}

#[derive(Default)]
struct YamlBuilder {
    open: Vec<OpenNode>,
    done: Option<YamlNode>,
}

impl YamlBuilder {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<()> {
        let at = at_mark(&span.start);
        if event.tag().is_some() {
            return Err(wrong("YAML tags are not supported here", at));
        }
        match event {
            Event::Scalar(text, style, ..) => self.insert(YamlNode { at, value: scalar(&text, style) }),
            Event::SequenceStart(..) => {
                self.open.push(OpenNode::List(at, Vec::new()));
                Ok(())
            }
            Event::MappingStart(..) => {
                self.open.push(OpenNode::Map(at, Vec::new(), None));
                Ok(())
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(OpenNode::List(at, items)) => self.insert(YamlNode { at, value: YamlValue::List(items) }),
                Some(OpenNode::Map(at, items, _)) => self.insert(YamlNode { at, value: YamlValue::Map(items) }),
                None => Err(wrong("the file is not valid YAML", at)),
            },
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                Err(wrong("YAML aliases are not supported here", at).hint("write the value out, or use `defaults`"))
            }
            Event::DocumentStart(..) if self.done.is_some() => Err(wrong("the file has more than one document", at)),
            _ => Ok(()),
        }
    }

    fn insert(&mut self, node: YamlNode) -> Result<()> {
        match self.open.last_mut() {
            None => self.done = Some(node),
            Some(OpenNode::List(_, items)) => items.push(node),
            Some(OpenNode::Map(_, items, key)) => {
                if let Some((key, at)) = key.take() {
                    items.push((key, at, node));
                } else {
                    let YamlValue::Text(text) = node.value else {
                        return Err(wrong("a key must be a string", node.at));
                    };
                    *key = Some((text, node.at));
                }
            }
        }
        Ok(())
    }
}

fn scalar(text: &str, style: ScalarStyle) -> YamlValue {
    let nothing = style == ScalarStyle::Plain && matches!(text, "" | "~" | "null" | "Null" | "NULL");
    if nothing { YamlValue::Nothing } else { YamlValue::Text(text.to_owned()) }
}

impl YamlNode {
    /// The members of a map that may have these keys and no others.
    pub fn members(&self, keys: &[&str]) -> Result<YamlMap<'_>> {
        let items: &[(String, Position, YamlNode)] = match &self.value {
            YamlValue::Map(items) => items,
            YamlValue::Nothing => &[],
            _ => return Err(wrong("expected a mapping here", self.at).fact("keys", keys.join(", "))),
        };
        let mut seen: std::collections::HashSet<&str> = std::collections::HashSet::new();
        for (key, at, _) in items {
            if !keys.contains(&key.as_str()) {
                return Err(wrong(format!("unknown key `{key}`"), *at).fact("keys", keys.join(", ")));
            }
            if !seen.insert(key) {
                return Err(wrong(format!("the key `{key}` appears twice"), *at));
            }
        }
        Ok(YamlMap { items })
    }

    pub fn text(&self) -> Result<&str> {
        match &self.value {
            YamlValue::Text(text) => Ok(text),
            _ => Err(wrong("expected a string here", self.at)),
        }
    }

    pub fn list(&self) -> Result<&[YamlNode]> {
        match &self.value {
            YamlValue::List(items) => Ok(items),
            _ => Err(wrong("expected a list here", self.at)),
        }
    }

    /// A list of texts; a single text is read as a list of one.
    pub fn texts(&self) -> Result<Vec<&YamlNode>> {
        if let YamlValue::Text(_) = &self.value {
            return Ok(vec![self]);
        }
        let items = self.list()?;
        items.iter().try_for_each(|item| item.text().map(|_| ()))?;
        Ok(items.iter().collect())
    }

    /// As JSON has it; maps have no place in a value.
    pub fn to_json(&self) -> Result<serde_json::Value> {
        match &self.value {
            YamlValue::Nothing => Ok(serde_json::Value::Null),
            YamlValue::Text(text) => Ok(text.as_str().into()),
            YamlValue::List(items) => items.iter().map(Self::to_json).collect::<Result<Vec<_>>>().map(Into::into),
            YamlValue::Map(_) => Err(wrong("expected a text or a list here", self.at)),
        }
    }

    /// The text, read; what is wrong with it is said with its place.
    pub fn parse<T: std::str::FromStr<Err = Error>>(&self) -> Result<T> {
        self.text()?.parse().map_err(|error: Error| error.fact("at", self.at))
    }
}

/// The members of one map.
#[derive(Debug, Clone, Copy)]
pub struct YamlMap<'a> {
    items: &'a [(String, Position, YamlNode)],
}

impl<'a> YamlMap<'a> {
    /// The value of the key; `None` where it is missing or null.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'a YamlNode> {
        let found = self.items.iter().find(|(there, ..)| there == key);
        found.map(|(.., node)| node).filter(|node| node.value != YamlValue::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_and_in_characters() {
        for (text, at, line, column) in [("", 0, 1, 1), ("a\nbc", 3, 2, 2), ("é x", 3, 1, 3), ("a\r\nb", 3, 2, 1)] {
            assert_eq!(Position::of(text, at), Position { line, column }, "{text:?}");
        }
        assert_eq!(Position::of("a\n", 99).line, 2, "behind the end");
    }

    #[test]
    fn values_know_where_they_stand() {
        let node = read("defaults:\n  base: a\nimages:\n- source: 'b'\n  target: [c, \"d\"] # e\n").unwrap();
        let members = node.members(&["defaults", "images"]).unwrap();
        let images = members.get("images").unwrap().list().unwrap();
        let image = images[0].members(&["source", "target"]).unwrap();
        assert_eq!((image.get("source").unwrap().text().unwrap(), images[0].at.line), ("b", 4));
        let target = image.get("target").unwrap();
        assert_eq!(target.at, Position { line: 5, column: 11 });
        let texts: Vec<&str> = target.texts().unwrap().iter().map(|node| node.text().unwrap()).collect();
        assert_eq!(texts, ["c", "d"]);
    }

    #[test]
    fn unknown_and_doubled_keys_are_named_with_their_place() {
        for (text, message, line, column) in [
            ("a: 1\nbas: 2\n", "unknown key `bas`", 2, 1),
            ("a: 1\na: 2\n", "the key `a` appears twice", 2, 1),
            ("- a\n", "expected a mapping here", 1, 1),
        ] {
            let error = read(text).unwrap().members(&["a", "base"]).unwrap_err();
            assert_eq!(error.what(), message);
            assert!(error.to_string().contains(&format!("line {line}, column {column}")), "{error}");
        }
    }

    #[test]
    fn what_settings_do_not_need_is_refused() {
        for bad in
            ["", "a: &x 1\nb: *x\n", "a: !!int 1\n", "a: 1\n---\nb: 2\n", "a: [1\n", "? [a]\n: b\n", "\t- x: y: z"]
        {
            assert!(read(bad).is_err(), "{bad:?}");
        }
        let deep = "[".repeat(100_000);
        assert!(read(&deep).is_err());
    }
}
