//! Placeholders of a template, kept as they are: each is hidden behind text of the same length
//! while the manifest is read, and put back when it is written.
//!
//! The rule it owns: only the well-known placeholders of `cluster/gce/manifests` may be in a
//! command that is translated: for them it is known whether they are one word or several.

use std::ops::Range;

use super::refusal::{CommandNote, KubeRefusal};
use super::scalar::Language;
use crate::rules::Rule;
use oci::error::{Error, Result};
use shell::{ExecCommand, Reason};

/// Stands for a whole list of words.
const LISTS: &[&str] = &[
    "params",
    "etcd_creds",
    "etcd_apiserver_creds",
    "etcd_extra_args",
    "etcdctl_certs",
    "konnectivity_args",
    "quota_bytes",
    "api_servers_with_port",
    "kubeconfig",
    "cluster_cidr",
    "cloud_config_opt",
    "run_controllers",
];

/// Stands for a part of one word.
const VALUES: &[&str] = &[
    "cluster_state",
    "etcd_apiserver_protocol",
    "etcd_cluster",
    "etcd_protocol",
    "healthcheck_ip",
    "host_ip",
    "hostname",
    "listen_client_ip",
    "port",
    "secure_port",
    "server_port",
    "srv_kube_path",
    "suffix",
];

/// What a placeholder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlaceholderKind {
    Several,
    OneWord,
    Unknown,
}

/// Where a placeholder was, which decides what masks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spot {
    /// In a scalar.
    Inside,
    /// As a value of JSON.
    Value,
    /// As a member of a JSON object.
    ContainerField,
    /// On lines of its own in YAML.
    Line,
    /// Right behind an item of a YAML list in brackets: it brings the comma for what it adds.
    Behind,
}

const SPOTS: [Spot; 5] = [Spot::Inside, Spot::Value, Spot::ContainerField, Spot::Line, Spot::Behind];
/// The first of the characters that hide placeholders: they have no meaning of their own.
const FIRST: u32 = 0xE000;
const LAST: u32 = 0xF8FF;

/// A text with its placeholders hidden.
#[derive(Debug, Default)]
pub(super) struct MaskedText {
    pub text: String,
    placeholders: Vec<String>,
    members: bool,
}

impl MaskedText {
    /// The text itself: nothing in it is a placeholder.
    pub fn nothing(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    pub fn of(text: &str, language: Language) -> Result<Self> {
        if text.chars().any(is_mask) {
            return Err(Error::input("the manifest uses private-use characters, which are reserved for placeholders"));
        }
        let mut masked = Self::default();
        let mut context = JsonScan::default();
        let mut rest = text;
        while let Some(start) = rest.find("{{") {
            let (before, from) = rest.split_at(start);
            let Some(end) = from.find("}}").map(|at| at + 2).filter(|end| !from.split_at(*end).0.contains('\n')) else {
                break;
            };
            let (placeholder, after) = from.split_at(end);
            context.read(before);
            let spot = match language {
                Language::Json => context.spot(),
                Language::Yaml if is_alone(&masked.text, before, after) => Spot::Line,
                Language::Yaml if is_behind_item(&masked.text, before) => Spot::Behind,
                Language::Yaml => Spot::Inside,
            };
            masked.members |= language == Language::Yaml && after.starts_with(':');
            masked.text.push_str(before);
            let mask = masked.hide(placeholder, spot)?;
            masked.text.push_str(&mask);
            context.pass(spot);
            rest = after;
        }
        masked.text.push_str(rest);
        Ok(masked)
    }

    fn hide(&mut self, placeholder: &str, spot: Spot) -> Result<String> {
        let known = self.placeholders.iter().position(|known| known == placeholder);
        let number = known.unwrap_or_else(|| {
            self.placeholders.push(placeholder.to_owned());
            self.placeholders.len() - 1
        });
        self.members |= matches!(spot, Spot::ContainerField | Spot::Line);
        let wrong = || Error::input("a template placeholder cannot be kept").fact("placeholder", placeholder);
        mask(number, placeholder.len(), spot).ok_or_else(wrong)
    }

    /// Whether a placeholder is where it could add whole fields to a mapping.
    pub fn brings_members(&self) -> bool {
        self.members
    }

    /// The text with all placeholders as they were.
    pub fn shown(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_mask(*c)) {
            let (number, spot) = read(c);
            let lead = usize::from(spot != Spot::Inside);
            let placeholder = self.placeholders.get(number).map_or("", String::as_str);
            let begins = at.saturating_sub(lead);
            let masked = mask(number, placeholder.len(), spot);
            let there = rest.get(begins..begins + placeholder.len());
            if placeholder.is_empty() || masked.as_deref() != there {
                let (skipped, after) = rest.split_at(at + c.len_utf8());
                out.push_str(skipped);
                rest = after;
                continue;
            }
            out.push_str(rest.get(..begins).unwrap_or_default());
            out.push_str(placeholder);
            rest = rest.get(begins + placeholder.len()..).unwrap_or_default();
        }
        out + rest
    }

    /// The placeholders in a word: the range of each mask, and what it stands for.
    pub fn within(&self, word: &str) -> Vec<(Range<usize>, &str, PlaceholderKind)> {
        let marks = word.char_indices().filter(|(_, c)| is_mask(*c));
        let known = marks.map(|(at, c)| {
            let (number, spot) = read(c);
            let placeholder = self.placeholders.get(number).map_or("", String::as_str);
            let (len, kind) = match spot {
                Spot::Inside => (placeholder.len(), kind(placeholder)),
                // The quotes around it are no part of the word.
                Spot::Value => (placeholder.len().saturating_sub(2), kind(placeholder)),
                // Nor is the comma.
                Spot::Behind => (placeholder.len().saturating_sub(1), kind(placeholder)),
                Spot::ContainerField | Spot::Line => (placeholder.len(), PlaceholderKind::Unknown),
            };
            (at..at + len, placeholder, kind)
        });
        known.collect()
    }

    /// A placeholder that stands for a list, as an item of its own.
    pub fn as_item(&self, word: &str, language: Language) -> Option<String> {
        let (number, _) = read(word.chars().next().filter(|c| is_mask(*c))?);
        let placeholder = self.placeholders.get(number)?;
        let is_whole = self
            .within(word)
            .first()
            .is_some_and(|(range, _, kind)| *range == (0..word.len()) && *kind == PlaceholderKind::Several);
        let spot = if language == Language::Json { Spot::Value } else { Spot::Inside };
        if is_whole { mask(number, placeholder.len(), spot) } else { None }
    }

    /// The word as it will be read back.
    pub fn as_read(&self, word: &str, language: Language) -> String {
        self.as_item(word, language).map_or_else(|| word.to_owned(), |item| item.trim_matches('"').to_owned())
    }
}

/// The first placeholder of a text that is no template to us, with its place.
pub(super) fn first(text: &str) -> Option<(usize, &str)> {
    let at = ["{{", "{%"].iter().filter_map(|open| text.find(open)).min()?;
    let rest = text.get(at..)?;
    let close = if rest.starts_with("{{") { "}}" } else { "%}" };
    let line = rest.lines().next().unwrap_or_default();
    let end = line.find(close).map_or(line.len(), |end| end + 2);
    Some((at, line.get(..end)?))
}

pub(super) fn is_mask(c: char) -> bool {
    (FIRST..=LAST).contains(&u32::from(c))
}

fn kind(placeholder: &str) -> PlaceholderKind {
    let name = placeholder.trim_start_matches("{{").trim_end_matches("}}").trim();
    if LISTS.contains(&name) {
        PlaceholderKind::Several
    } else if VALUES.contains(&name) || name.starts_with("pillar[") || name.starts_with("pillar.get(") {
        PlaceholderKind::OneWord
    } else {
        PlaceholderKind::Unknown
    }
}

/// The text that hides placeholder `number` of this length.
fn mask(number: usize, len: usize, spot: Spot) -> Option<String> {
    let which = SPOTS.iter().position(|known| *known == spot)?;
    let code = FIRST + u32::try_from(number * SPOTS.len() + which).ok()?;
    let c = char::from_u32(code).filter(|c| is_mask(*c))?;
    let fill = |around: usize| Some("_".repeat(len.checked_sub(3 + around)?));
    Some(match spot {
        Spot::Inside => format!("{c}{}", fill(0)?),
        Spot::Value => format!("\"{c}{}\"", fill(2)?),
        Spot::ContainerField => format!("\"{c}{}\":0", fill(4)?),
        Spot::Line => format!("#{c}{}", fill(1)?),
        Spot::Behind => format!(",{c}{}", fill(1)?),
    })
}

fn read(c: char) -> (usize, Spot) {
    let code = usize::try_from(u32::from(c).saturating_sub(FIRST)).unwrap_or(0);
    (code / SPOTS.len(), SPOTS.get(code % SPOTS.len()).copied().unwrap_or(Spot::Inside))
}

/// Whether nothing but placeholders is on the line.
fn is_alone(text: &str, before: &str, after: &str) -> bool {
    let start = match before.rfind('\n') {
        Some(end) => before.get(end + 1..).unwrap_or_default().trim().is_empty(),
        None => {
            before.trim().is_empty()
                && text
                    .lines()
                    .next_back()
                    .is_none_or(|line| line.trim_start().starts_with('#') || line.is_empty() || text.ends_with('\n'))
        }
    };
    let rest = after.lines().next().unwrap_or_default();
    let only = rest.split("{{").all(|part| part.split_once("}}").map_or(part, |(_, behind)| behind).trim().is_empty());
    start && only
}

/// Whether an item in quotes ends right here, in a list in brackets that begins on the same line.
fn is_behind_item(text: &str, before: &str) -> bool {
    let line = match before.rfind('\n') {
        Some(end) => before.get(end + 1..).unwrap_or_default().to_owned(),
        None => [text.lines().next_back().filter(|_| !text.ends_with('\n')).unwrap_or_default(), before].concat(),
    };
    let mut scan = JsonScan::default();
    scan.read(&line);
    line.ends_with('"') && !scan.is_string && scan.brackets.last() == Some(&'[')
}

/// Where JSON text has got to.
#[derive(Debug, Default)]
struct JsonScan {
    brackets: Vec<char>,
    is_string: bool,
    is_escaped: bool,
    last: char,
}

impl JsonScan {
    fn read(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                _ if self.is_escaped => self.is_escaped = false,
                '\\' if self.is_string => self.is_escaped = true,
                '"' => self.is_string = !self.is_string,
                _ if self.is_string => {}
                '{' | '[' => self.brackets.push(c),
                '}' | ']' => drop(self.brackets.pop()),
                _ => {}
            }
            if !self.is_string && !c.is_whitespace() {
                self.last = c;
            }
        }
    }

    fn spot(&self) -> Spot {
        match self.brackets.last() {
            _ if self.is_string => Spot::Inside,
            Some('{') if self.last != ':' => Spot::ContainerField,
            _ => Spot::Value,
        }
    }

    /// Steps over a placeholder.
    fn pass(&mut self, spot: Spot) {
        if spot != Spot::Inside {
            self.last = '0';
        }
    }
}

const PART: &str = "stands for several words, but is part of a single word here";

/// Refuses a command in which a placeholder could change what is started.
pub(super) fn check(masked: &MaskedText, before: &[String], exec: &ExecCommand) -> Result<(), KubeRefusal> {
    let refuse = |placeholder: &str, detail: &str| {
        Err(KubeRefusal::new(Rule::Shell(Reason::UnrenderedTemplate), format!("{placeholder} {detail}")))
    };
    for word in before {
        for (range, placeholder, kind) in masked.within(word) {
            let front = word.get(..range.start).and_then(|text| text.chars().next_back());
            let back = word.get(range.end..).and_then(|text| text.chars().next());
            match kind {
                PlaceholderKind::Unknown => {
                    return refuse(placeholder, "is not a placeholder that is known here");
                }
                PlaceholderKind::Several if front.iter().chain(&back).any(|c| !c.is_whitespace()) => {
                    return refuse(placeholder, PART);
                }
                PlaceholderKind::Several | PlaceholderKind::OneWord => {}
            }
        }
    }
    let values = exec.environment.iter().map(|(_, value)| value);
    let others = values.chain(&exec.workdir).chain(exec.log.iter().map(|log| &log.path));
    let several =
        |word: &String| masked.within(word).into_iter().find(|(_, _, kind)| *kind == PlaceholderKind::Several);
    if let Some((_, placeholder, _)) = others.chain(&exec.init).find_map(several) {
        return refuse(placeholder, PART);
    }
    let is_part = |word: &&String| several(word).is_some_and(|(range, ..)| range != (0..word.len()));
    if let Some((_, placeholder, _)) = exec.program.iter().find(is_part).and_then(several) {
        return refuse(placeholder, PART);
    }
    match exec.program.first().map(|word| masked.within(word)).unwrap_or_default().first() {
        Some((_, placeholder, _)) => refuse(placeholder, "decides which program is started"),
        None => Ok(()),
    }
}

/// What a list of words that becomes an item asks of whoever fills it in.
pub(super) fn notes(masked: &MaskedText, exec: &ExecCommand) -> Vec<CommandNote> {
    let several = exec.program.iter().flat_map(|word| masked.within(word));
    let several = several.filter(|(_, _, kind)| *kind == PlaceholderKind::Several).map(|(_, placeholder, _)| {
        let message =
            format!("{placeholder} stood for several words: whatever fills it in must now give one list item for each");
        CommandNote::new(Rule::PlaceholderIsList, message)
    });
    several.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_placeholders_come_back_as_they_were() {
        let json =
            "{\n{{container_env}}\n\"cpu\": {{ cpulimit }}, \"l\": [{{params}} \"a{{suffix}}\"], \"x\": {{port}}}";
        let yaml = "a: {{ x }}/y:{{pillar['z']}}\n  {{container_env}}\n{{one_more}} {{two_more}}\nb: \"{{params}}\"\n";
        for (text, language) in [(json, Language::Json), (yaml, Language::Yaml), ("plain {{", Language::Yaml)] {
            let masked = MaskedText::of(text, language).unwrap();
            assert_eq!(masked.text.len(), text.len());
            assert!(!masked.text.contains("}}\n"), "{}", masked.text);
            assert_eq!(masked.shown(&masked.text), text);
        }
        let parsed = super::super::json::read(
            &MaskedText::of(json, Language::Json).unwrap().text,
            super::super::json::Commas::FromTemplate,
        );
        assert!(parsed.is_ok(), "{parsed:?}");
        super::super::yaml::read(&MaskedText::of(yaml, Language::Yaml).unwrap().text).unwrap();
    }

    #[test]
    fn a_placeholder_behind_an_item_is_an_item() {
        let text =
            "command: [ \"/proxy-server\"{{ konnectivity_args }} ]\nb: {{ x }}\nc: exec \"{{ x }}\"\nd: [\"a{{x}}\"]\n";
        let masked = MaskedText::of(text, Language::Yaml).unwrap();
        assert_eq!(masked.shown(&masked.text), text);
        let tree = super::super::yaml::read(&masked.text).unwrap();
        let items = tree.items(tree.get(tree.roots[0], "command").unwrap());
        let words: Vec<&str> = items.iter().filter_map(|item| tree.text(*item)).collect();
        assert_eq!((words.len(), words[0]), (2, "/proxy-server"));
        let found = masked.within(words[1]);
        assert_eq!(found, [(0..words[1].len(), "{{ konnectivity_args }}", PlaceholderKind::Several)]);
        assert_eq!(
            tree.text_at(tree.roots[0], "c").map(|text| masked.shown(text)).as_deref(),
            Some("exec \"{{ x }}\"")
        );
    }

    #[test]
    fn only_well_known_names_are_known() {
        for (name, expected) in [
            ("{{params}}", PlaceholderKind::Several),
            ("{{ suffix }}", PlaceholderKind::OneWord),
            ("{{pillar['allow_privileged']}}", PlaceholderKind::OneWord),
            ("{{ .Values.args }}", PlaceholderKind::Unknown),
            ("{{param}}", PlaceholderKind::Unknown),
        ] {
            assert_eq!(kind(name), expected, "{name}");
        }
    }

    #[test]
    fn templates_are_named() {
        assert_eq!(first("a: {{ .Values.x }}\n"), Some((3, "{{ .Values.x }}")));
        assert_eq!(first("{% if a %}\nb"), Some((0, "{% if a %}")));
        assert_eq!(first("a: {b}"), None);
    }
}
