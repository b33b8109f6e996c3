//! A script as its shell gets to see it: after the kubelet, before the first quote.
//!
//! Owns the kubelet's half: `$$` and `$(NAME)` are replaced even inside single quotes
//! (k/k `third_party/forked/golang/expansion/expand.go`), and every character keeps the place it
//! has in the text that a person wrote.

use super::place::{Declared, Kubelet, Place, is_plain};
use super::reason::{Fault, Reason, Span};

/// Longer scripts are not read. Linux takes no argument of more than 128 KiB.
pub(super) const LONGEST: usize = 256 << 10;

/// One thing the shell reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    Char(char),
    /// The value of a variable, put in by the kubelet: a plain word. The number is that of its name.
    Reference(usize),
}

/// The script in units, each with its place.
#[derive(Debug, Default)]
pub(super) struct Source {
    units: Vec<(Seen, usize)>,
    names: Vec<String>,
    end: usize,
}

impl Source {
    pub fn new(text: &str, place: &Place) -> Result<Self, Fault> {
        if text.len() > LONGEST {
            return Err(Fault::of_words(Reason::TooLong, format!("the script has more than {LONGEST} bytes")));
        }
        if let Some((at, found)) = text.char_indices().find(|(_, c)| c.is_control() && !"\n\t\r".contains(*c)) {
            let detail = format!("the character {} stands in the script", found.escape_unicode());
            return Err(Fault::new(Reason::ControlCharacter, detail, Span::new(at, at + found.len_utf8())));
        }
        let mut source = Self { end: text.len(), ..Self::default() };
        match place.kubelet() {
            Kubelet::Keeps => source.keep(text, 0),
            Kubelet::Expands => source.expand(text, place)?,
        }
        Ok(source)
    }

    pub fn get(&self, index: usize) -> Option<Seen> {
        self.units.get(index).map(|(seen, _)| *seen)
    }

    pub fn char(&self, index: usize) -> Option<char> {
        match self.get(index) {
            Some(Seen::Char(c)) => Some(c),
            _ => None,
        }
    }

    pub fn name(&self, number: usize) -> String {
        self.names.get(number).cloned().unwrap_or_default()
    }

    /// The place of a unit in the text.
    pub fn at(&self, index: usize) -> usize {
        self.units.get(index).map_or(self.end, |(_, at)| *at)
    }

    pub fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.at(start), self.at(end))
    }

    fn keep(&mut self, text: &str, at: usize) {
        self.units.extend(text.char_indices().map(|(index, c)| (Seen::Char(c), at + index)));
    }

    fn expand(&mut self, text: &str, place: &Place) -> Result<(), Fault> {
        let mut at = 0;
        // Looked up once: a search for each `$(` would read the script over and over.
        let last = text.rfind(')').unwrap_or(0);
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let plain = rest.find('$').unwrap_or(rest.len());
            let (before, dollar) = rest.split_at_checked(plain).unwrap_or((rest, ""));
            self.keep(before, at);
            at += plain + self.dollar(dollar, at + plain, last, place)?;
        }
        Ok(())
    }

    /// Reads what begins at a `$`, and says how many bytes that was.
    fn dollar(&mut self, text: &str, at: usize, last: usize, place: &Place) -> Result<usize, Fault> {
        let mut chars = text.chars().skip(1);
        let taken = match chars.next() {
            None => text.len(),
            Some('$') => {
                self.keep("$", at);
                return Ok(2);
            }
            Some('(') => match (at < last).then(|| text.find(')')).flatten() {
                Some(close) => return self.reference(text.get(..=close).unwrap_or(text), at, place),
                None => 2,
            },
            Some(next) if next.is_ascii() => 2,
            Some(_) => {
                let detail = "the kubelet damages a character outside ASCII after `$`";
                return Err(Fault::new(Reason::ControlCharacter, detail, Span::new(at, at + 1)));
            }
        };
        self.keep(text.get(..taken).unwrap_or(text), at);
        Ok(taken)
    }

    fn reference(&mut self, whole: &str, at: usize, place: &Place) -> Result<usize, Fault> {
        let name = whole.strip_prefix("$(").and_then(|rest| rest.strip_suffix(')')).unwrap_or_default();
        let span = Span::new(at, at + whole.len());
        match place.declared(name) {
            // Unknown names stay: the shell will see a command substitution.
            None => self.keep(whole, at),
            Some(value) => {
                check_value(name, value, place, span)?;
                self.units.push((Seen::Reference(self.names.len()), at));
                self.names.push(name.to_owned());
            }
        }
        Ok(whole.len())
    }
}

/// The kubelet puts the value into the script's text, where it may become code.
fn check_value(name: &str, value: &Declared, place: &Place, span: Span) -> Result<(), Fault> {
    match (value, place) {
        (Declared::Literal(value), _) if is_plain(value) => Ok(()),
        (Declared::OneWord, Place::Container { .. }) => Ok(()),
        (Declared::OneWord | Declared::Unknown, Place::Probe { .. }) => {
            let detail = format!("in a probe the kubelet replaces $({name}) with nothing, as its value is not literal");
            Err(Fault::new(Reason::ProbeVariable, detail, span))
        }
        _ => {
            let detail = format!("the value of $({name}) is put into the script, and the shell reads it as code");
            Err(Fault::new(Reason::RuntimeVariable, detail, span))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::Frozen;
    use super::*;

    fn container(names: &[(&str, Declared)]) -> Place {
        let declared = names.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        Place::Container { declared, frozen: Frozen::default() }
    }

    fn seen(source: &Source) -> String {
        let show = |(seen, _): &(Seen, usize)| match seen {
            Seen::Char(c) => c.to_string(),
            Seen::Reference(number) => format!("<{}>", source.name(*number)),
        };
        source.units.iter().map(show).collect()
    }

    #[test]
    fn dollars_are_replaced_as_the_kubelet_does() {
        let place = container(&[("A", Declared::OneWord)]);
        for (text, expected) in [
            ("x", "x"),
            ("$(A)", "<A>"),
            ("'$(A)'", "'<A>'"),
            ("$(B)", "$(B)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$<A>"),
            ("$$$/", "$$/"),
            ("$A ${A}", "$A ${A}"),
            ("$(A", "$(A"),
            ("a$", "a$"),
            ("$(B$$)$(A)", "$(B$$)<A>"),
            ("$x$(A)", "$x<A>"),
        ] {
            assert_eq!(seen(&Source::new(text, &place).unwrap()), expected, "{text}");
        }
        let image = Place::Image { frozen: Frozen::default() };
        assert_eq!(seen(&Source::new("$$(A)", &image).unwrap()), "$$(A)");
    }

    #[test]
    fn places_are_those_of_the_written_text() {
        let source = Source::new("é$$$(A)z", &container(&[("A", Declared::OneWord)])).unwrap();
        let places: Vec<usize> = source.units.iter().map(|(_, at)| *at).collect();
        assert_eq!(places, [0, 2, 4, 8]);
        assert_eq!(source.at(99), 9);
    }

    #[test]
    fn values_that_could_become_code_are_refused() {
        let literal = |value: &str| Declared::Literal(value.to_owned());
        for (value, fine) in [
            (literal("10.0.0.1"), true),
            (literal("a b"), false),
            (literal("$(B)"), false),
            (literal("a;b"), false),
            (literal(""), false),
            (Declared::OneWord, true),
            (Declared::Unknown, false),
        ] {
            let place = container(&[("A", value.clone())]);
            assert_eq!(Source::new("app $(A)", &place).is_ok(), fine, "{value:?}");
            let probe = Place::Probe { declared: [("A".to_owned(), value.clone())].into() };
            let literal = matches!(value, Declared::Literal(_));
            assert_eq!(Source::new("app $(A)", &probe).is_ok(), fine && literal, "{value:?}");
        }
        let fault = Source::new("$é", &container(&[])).unwrap_err();
        assert_eq!(fault.reason, Reason::ControlCharacter);
    }

    #[test]
    fn control_characters_and_long_scripts_are_refused() {
        let image = Place::Image { frozen: Frozen::default() };
        for text in ["a\0b", "a\u{1b}b", "a\u{7f}", "a\u{85}"] {
            assert_eq!(Source::new(text, &image).unwrap_err().reason, Reason::ControlCharacter, "{text:?}");
        }
        assert!(Source::new("a\tb\r\n", &image).is_ok());
        assert!(Source::new(&"a".repeat(LONGEST), &image).is_ok());
        assert_eq!(Source::new(&"a".repeat(LONGEST + 1), &image).unwrap_err().reason, Reason::TooLong);
    }
}
