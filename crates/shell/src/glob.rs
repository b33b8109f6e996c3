//! Words with wildcards that are kept as they are written, because they match no file: `*`, `?`, `[...]`.
//!
//! Every shell keeps such a word. The match is generous, so that it never misses what some shell would find: `?` is
//! one character in whatever encoding the locale has, so one byte, or up to four that are not ASCII; ranges and classes are any character;
//! hidden files count.

use super::refusal::{Reason, Span, Unsupported};
use super::word::Quoting;

/// A word of the command that must match no file of the image. Whoever has the image looks it up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    /// As it is written, and what the program gets.
    pub text: String,
    /// Its first wildcard.
    pub span: Span,
    pub start: GlobStart,
    /// What stands between the slashes.
    pub components: Vec<GlobComponent>,
}

/// Where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GlobStart {
    Root,
    /// In the directory that the shell is in.
    WorkingDir(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GlobComponent {
    /// One name.
    Name(Vec<u8>),
    Pattern(GlobPattern),
}

/// The wildcards of one name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GlobPattern(Vec<GlobElement>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum GlobElement {
    Byte(u8),
    /// `*`
    Any,
    /// `?`, or a set of all characters but some.
    One,
    /// `[abc]`
    OneOf(Vec<u8>),
    /// `[a-c]`, and what a locale may put between them: the other case, and any character that is not ASCII.
    Between(Vec<u8>),
}

/// A character of a word, and what the shell makes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GlobUnit {
    Plain(char, Quoting),
    Wildcard(char),
}

impl Glob {
    /// Seen from this directory.
    pub(super) fn seen_from(self, directory: &str) -> Self {
        match self.start {
            GlobStart::Root => self,
            GlobStart::WorkingDir(_) => Self { start: GlobStart::WorkingDir(directory.to_owned()), ..self },
        }
    }
}

/// More bytes than a character has in any encoding that is in use.
const LONGEST_CHARACTER: usize = 4;

impl GlobPattern {
    /// Whether a file of this name may be meant.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        // Which positions of the name can be reached with the elements so far.
        let mut reached = vec![false; name.len() + 1];
        reached.first_mut().into_iter().for_each(|start| *start = true);
        for element in &self.0 {
            reached = element.step(&reached, name);
        }
        reached.last() == Some(&true)
    }

    /// How much work a name of this length is.
    #[must_use]
    pub fn cost(&self, name: &[u8]) -> usize {
        self.0.len().saturating_mul(name.len() + 1)
    }

    /// Whether it begins with a dot of its own: then `.` and `..` may be meant.
    #[must_use]
    pub fn names_hidden(&self) -> bool {
        self.0.first() == Some(&GlobElement::Byte(b'.'))
    }

    fn literal(&self) -> Option<Vec<u8>> {
        let byte = |element: &GlobElement| match element {
            GlobElement::Byte(byte) => Some(*byte),
            GlobElement::Any | GlobElement::One | GlobElement::OneOf(_) | GlobElement::Between(_) => None,
        };
        self.0.iter().map(byte).collect()
    }
}

impl GlobElement {
    fn step(&self, reached: &[bool], name: &[u8]) -> Vec<bool> {
        let one = |is_meant: &dyn Fn(&u8) -> bool| {
            let pairs = reached.iter().zip(name).map(|(here, byte)| *here && is_meant(byte));
            std::iter::once(false).chain(pairs).collect()
        };
        match self {
            Self::Byte(wanted) => one(&|byte| byte == wanted),
            Self::OneOf(set) => one(&|byte| set.contains(byte)),
            Self::One => one_character(reached, name, |_| true),
            Self::Between(set) => one_character(reached, name, |byte| set.contains(&byte)),
            Self::Any => from_first_on(reached),
        }
    }
}

fn from_first_on(reached: &[bool]) -> Vec<bool> {
    let first = reached.iter().position(|here| *here).unwrap_or(reached.len());
    (0..reached.len()).map(|at| at >= first).collect()
}

/// The positions after one more character: a byte of ASCII that is meant, or several bytes that are not ASCII.
fn one_character(reached: &[bool], name: &[u8], is_meant: impl Fn(u8) -> bool) -> Vec<bool> {
    let mut taken = None;
    let mut out = vec![false];
    for (here, byte) in reached.iter().zip(name) {
        let goes_on = taken.filter(|taken| *taken < LONGEST_CHARACTER && !byte.is_ascii());
        let begins = *here && (!byte.is_ascii() || is_meant(*byte));
        taken = if begins { Some(1) } else { goes_on.map(|taken| taken + 1) };
        out.push(taken.is_some());
        taken = taken.filter(|_| !byte.is_ascii());
    }
    out
}

/// Reads the units of a word. A set that shells read differently is an error.
pub(super) fn read(units: &[GlobUnit], span: Span) -> Result<Glob, Unsupported> {
    let odd = || Unsupported::new(Reason::Glob, "shells read the brackets in this word differently", span);
    let mut patterns = vec![GlobPattern::default()];
    let mut rest = units;
    while let Some((unit, after)) = rest.split_first() {
        rest = after;
        let elements = match unit {
            GlobUnit::Plain('/', _) => {
                patterns.push(GlobPattern::default());
                continue;
            }
            GlobUnit::Plain(c, _) => bytes(*c).into_iter().map(GlobElement::Byte).collect(),
            GlobUnit::Wildcard('*') => vec![GlobElement::Any],
            GlobUnit::Wildcard('[') => {
                let (set, after) = set(after).ok_or_else(odd)?;
                rest = after;
                vec![set]
            }
            GlobUnit::Wildcard(_) => vec![GlobElement::One],
        };
        patterns.last_mut().into_iter().for_each(|pattern| pattern.0.extend(elements.iter().cloned()));
    }
    let is_absolute = matches!(units.first(), Some(GlobUnit::Plain('/', _)));
    let start = if is_absolute { GlobStart::Root } else { GlobStart::WorkingDir("/".to_owned()) };
    let text = units.iter().map(|unit| match unit {
        GlobUnit::Plain(c, _) | GlobUnit::Wildcard(c) => *c,
    });
    let components = patterns.into_iter().filter(|pattern| !pattern.0.is_empty()).map(component).collect();
    Ok(Glob { text: text.collect(), span, start, components })
}

fn component(pattern: GlobPattern) -> GlobComponent {
    pattern.literal().map_or(GlobComponent::Pattern(pattern), GlobComponent::Name)
}

fn bytes(c: char) -> Vec<u8> {
    c.encode_utf8(&mut [0; 4]).as_bytes().to_vec()
}

/// What stands between the brackets, and what follows. Only plain characters: a quote, a slash or another bracket in
/// there is read differently by different shells.
fn set(units: &[GlobUnit]) -> Option<(GlobElement, &[GlobUnit])> {
    let plain = |unit: &GlobUnit| match unit {
        GlobUnit::Plain(c, Quoting::Bare) => Some(*c),
        GlobUnit::Plain(_, Quoting::Quoted) | GlobUnit::Wildcard(_) => None,
    };
    let end = units.iter().position(|unit| plain(unit) == Some(']')).filter(|end| *end > 0)?;
    let (inside, after) = units.split_at_checked(end)?;
    let set: String = inside.iter().map(plain).collect::<Option<_>>()?;
    if set.contains(['/', '\\', '[']) || matches!(set.as_str(), "!" | "^") {
        return None;
    }
    let is_listed = set.is_ascii() && !set.starts_with(['!', '^']);
    let element = match is_listed.then(|| ranges(&set)).flatten() {
        None => GlobElement::One,
        Some(meant) if !set.contains('-') => GlobElement::OneOf(meant),
        Some(meant) => GlobElement::Between(meant),
    };
    Some((element, after.get(1..).unwrap_or_default()))
}

/// All characters of a list like `a-cx`; `None` where a range is not one of letters or of digits.
fn ranges(set: &str) -> Option<Vec<u8>> {
    let mut meant = Vec::new();
    let mut rest = set.as_bytes();
    loop {
        rest = match rest {
            [first, b'-', last, rest @ ..] => {
                let ends = [first, last];
                let is_plain = |kind: fn(&u8) -> bool| ends.iter().all(|end| kind(end));
                if !is_plain(u8::is_ascii_alphabetic) && !is_plain(u8::is_ascii_digit) {
                    return None;
                }
                let range = first.to_ascii_lowercase()..=last.to_ascii_lowercase();
                meant.extend(range.flat_map(|byte| [byte, byte.to_ascii_uppercase()]));
                rest
            }
            [byte, rest @ ..] => {
                meant.push(*byte);
                rest
            }
            [] => return Some(meant),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything bare, and every wildcard meant as one.
    fn glob(text: &str) -> Option<Glob> {
        let unit = |c: char| if "*?[".contains(c) { GlobUnit::Wildcard(c) } else { GlobUnit::Plain(c, Quoting::Bare) };
        read(&text.chars().map(unit).collect::<Vec<_>>(), Span::default()).ok()
    }

    #[test]
    fn names_are_matched_as_the_most_generous_shell_does() {
        for (pattern, name, expected) in [
            ("*", "a", true),
            ("*", ".a", true),
            ("a*c", "abbc", true),
            ("a*c", "abb", false),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "acb", false),
            ("?", "a", true),
            ("?", "é", true),
            ("??", "é", true),
            ("?", "", false),
            ("?", "ab", false),
            ("?", "é€", false),
            ("?", "ébc", false),
            ("a?", "a", false),
            ("[ab]", "b", true),
            ("[ab]", "c", false),
            ("[ab]", "ab", false),
            ("x[!a]", "xb", true),
            ("[a-c]", "B", true),
            ("[a-c]", "ç", true),
            ("[a-c]", "d", false),
            ("[a-c]", "-", false),
            ("[xa-c]", "x", true),
            ("[0-9]x", "5x", true),
            ("[0-9]x", "ax", false),
            ("[+--]", "z", true),
            ("[a-]", "-", true),
            ("[::1]", ":", true),
            ("[::1]", "2", false),
            (".*", ".x", true),
            (".*", "x", false),
        ] {
            let glob = glob(pattern).unwrap();
            let [GlobComponent::Pattern(parsed)] = glob.components.as_slice() else { panic!("{pattern}") };
            assert_eq!(parsed.matches(name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn slashes_part_the_names() {
        let glob = glob("/etc//*.d/x/").unwrap();
        assert_eq!(glob.start, GlobStart::Root);
        let [GlobComponent::Name(etc), GlobComponent::Pattern(_), GlobComponent::Name(x)] = glob.components.as_slice()
        else {
            panic!("{glob:?}")
        };
        assert_eq!((etc.as_slice(), x.as_slice()), (&b"etc"[..], &b"x"[..]));
    }

    #[test]
    fn brackets_that_shells_read_differently_are_refused() {
        for (pattern, is_read) in
            [("[a]", true), ("[a/b]", false), ("[[:alpha:]]", false), ("[!]", false), ("[", false)]
        {
            assert_eq!(glob(pattern).is_some(), is_read, "{pattern}");
        }
        let quoted =
            [GlobUnit::Wildcard('['), GlobUnit::Plain('a', Quoting::Quoted), GlobUnit::Plain(']', Quoting::Bare)];
        assert!(read(&quoted, Span::default()).is_err());
    }
}
