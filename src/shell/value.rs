//! What a word comes to, where that is known before the container starts.

use super::place::{Kubelet, is_plain};

/// A part of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Bit {
    Text(String),
    /// A variable of the container, by name.
    Reference(String),
    /// A word of the manifest, passed on as it stands there.
    Raw(String),
}

/// A value in parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Value(pub Vec<Bit>);

impl Value {
    pub fn text(text: &str) -> Self {
        Self(vec![Bit::Text(text.to_owned())])
    }

    /// The text, where no variable is in it.
    pub fn literal(&self) -> Option<String> {
        let texts = self.0.iter().map(|bit| match bit {
            Bit::Text(text) => Some(text.as_str()),
            Bit::Reference(_) | Bit::Raw(_) => None,
        });
        texts.collect()
    }

    /// Whether a shell would keep it as one word if it were not quoted.
    pub fn is_plain(&self) -> bool {
        self.literal().is_some_and(|text| is_plain(&text))
    }

    pub fn references(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|bit| match bit {
            Bit::Reference(name) => Some(name.as_str()),
            Bit::Text(_) | Bit::Raw(_) => None,
        })
    }

    /// As it must be written so that the program gets this value.
    pub fn write(&self, kubelet: Kubelet) -> String {
        let mut out = String::new();
        let mut bits = self.0.iter().peekable();
        while let Some(bit) = bits.next() {
            match bit {
                Bit::Text(text) if kubelet == Kubelet::Keeps => out.push_str(text),
                Bit::Text(text) => escape(&mut out, text, bits.peek().is_some()),
                Bit::Reference(name) => out.extend(["$(", name, ")"]),
                Bit::Raw(word) => out.push_str(word),
            }
        }
        out
    }
}

/// Doubles a `$` wherever the kubelet would otherwise act on it.
fn escape(out: &mut String, text: &str, more: bool) {
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let is_read = match chars.peek() {
            Some(next) => matches!(next, '$' | '(') || !next.is_ascii(),
            None => more,
        };
        out.push(c);
        if c == '$' && is_read {
            out.push('$');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_survive_the_kubelet() {
        for (text, expected) in [
            ("a", "a"),
            ("$", "$"),
            ("s/$/x/", "s/$/x/"),
            ("$(A)", "$$(A)"),
            ("$$", "$$$"),
            ("$$(A)", "$$$$(A)"),
            ("$é", "$$é"),
        ] {
            assert_eq!(Value::text(text).write(Kubelet::Expands), expected);
            assert_eq!(Value::text(text).write(Kubelet::Keeps), text);
        }
        let mixed = Value(vec![Bit::Text("a$".into()), Bit::Reference("N".into()), Bit::Text("$".into())]);
        assert_eq!(mixed.write(Kubelet::Expands), "a$$$(N)$");
    }
}
