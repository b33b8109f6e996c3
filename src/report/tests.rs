//! Text from an image stays text in every format that has markup.

use proptest::strategy::Strategy;

use super::{
    ReportFormat, Reportable, ReportedFinding, Row, RowFinding, RowOutcome, RowWords, Rows, to_html, to_junit,
    to_markdown, to_sarif,
};
use crate::rules::{Level, Rule};
use crate::skip::{need, or_skip};
use oci::error::{Error, printable};

const EVIL: &str = "</pre><script>alert(1)</script>]]>`|[x](javascript:1)\u{1b}[2J\u{0}";

fn evil() -> ReportedFinding {
    let text = || EVIL.to_owned();
    ReportedFinding { rule: Rule::NeedsShell, level: Level::Refuse, message: text(), evidence: text(), fix: text() }
}

fn rows<'a>(finding: &'a ReportedFinding, error: &'a Error) -> Rows<'a> {
    let findings = vec![RowFinding::on("linux/amd64", finding)];
    let refused = Row { findings, ..Row::new(EVIL, RowOutcome::Refused) };
    Rows {
        command: "check",
        thing: "image",
        list: vec![refused, Row::failed("a.io/b:c", error), Row::new("a.io/d:e", RowOutcome::Passed)],
    }
}

#[test]
fn an_image_cannot_write_into_the_page() {
    let (finding, error) = (evil(), Error::input(EVIL).fact("x", EVIL));
    let rows = rows(&finding, &error);
    for (name, text, own) in [("html", to_html(&rows), 1), ("junit", to_junit(&rows).unwrap(), 0)] {
        assert_eq!(text.matches("<script").count(), own, "{name}: {text}");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{0}'), "{name}");
    }
    let markdown = to_markdown(&rows);
    assert!(!markdown.contains("\n</pre>") && markdown.contains("\\<script\\>"), "{markdown}");
}

#[test]
fn junit_counts_what_it_lists() {
    let (finding, error) = (evil(), Error::input("no"));
    let text = to_junit(&rows(&finding, &error)).unwrap();
    for counted in ["tests=\"3\"", "failures=\"1\"", "errors=\"1\"", "skipped=\"0\""] {
        assert_eq!(text.matches(counted).count(), 2, "of all and of the suite: {text}");
    }
    for (tag, count) in [("<testcase ", 3), ("<failure ", 1), ("<error ", 1), ("<skipped", 0)] {
        assert_eq!(text.matches(tag).count(), count, "{tag}");
    }
}

#[test]
fn sarif_has_a_result_for_each_finding_and_says_what_failed() {
    let (finding, error) = (evil(), Error::input("no"));
    let log: serde_json::Value = serde_json::from_str(&to_sarif(&rows(&finding, &error))).unwrap();
    let run = &log["runs"][0];
    assert_eq!((&log["version"], &run["results"][0]["ruleId"]), (&"2.1.0".into(), &"needs-shell".into()));
    assert_eq!(run["results"][0]["level"], "error");
    assert_eq!(run["tool"]["driver"]["rules"][0]["id"], "needs-shell");
    assert_eq!(run["invocations"][0]["executionSuccessful"], false);
    let uri = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].as_str().unwrap();
    assert!(uri.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~/%".contains(&byte)), "{uri}");
}

#[test]
fn of_many_images_only_the_bad_ones_are_open() {
    let rows = [RowOutcome::Rebased, RowOutcome::Refused, RowOutcome::Rebased, RowOutcome::Excepted]
        .map(|outcome| Row::new("a", outcome));
    let rows = Rows { command: "batch", thing: "image", list: rows.into() };
    let page = to_html(&rows);
    assert_eq!(page.matches("<details ").count(), 4);
    assert_eq!(page.matches(" open>").count(), 1);
    let places: Vec<usize> =
        ["refused</span>", "excepted</span>", "rebased</span>"].map(|it| page.find(it).unwrap()).into();
    assert!(places.is_sorted(), "failures first");
    assert!(page.contains("4 images: 2 rebased, 1 excepted, 1 refused"), "{page}");
}

#[test]
fn every_format_explains_the_rules_that_it_names() {
    let (finding, error) = (evil(), Error::input("no"));
    let rows = rows(&finding, &error);
    let log: serde_json::Value = serde_json::from_str(&to_sarif(&rows)).unwrap();
    let rule = &log["runs"][0]["tool"]["driver"]["rules"][0];
    let means = Rule::NeedsShell.row().means;
    assert_eq!(rule["shortDescription"]["text"], means);
    assert!(rule["help"]["text"].as_str().unwrap().contains("Fix "), "{rule}");
    assert!(rule["help"]["markdown"].as_str().unwrap().contains("underpin explain needs-shell"), "{rule}");
    let page = to_html(&rows);
    assert!(page.contains("href=\"#rule-needs-shell\"") && page.contains("id=\"rule-needs-shell\""), "{page}");
    let markdown = to_markdown(&rows);
    assert!(markdown.contains("- `needs-shell`: ") && markdown.contains("`underpin explain RULE`"), "{markdown}");
}

/// Any text, with more than its share of what deceives a reader.
fn any_text() -> impl Strategy<Value = String> {
    let hidden = [
        '\u{0}', '\u{1b}', '\u{7f}', '\u{85}', '\u{9b}', '\u{200b}', '\u{200d}', '\u{200f}', '\u{61c}', '\u{2028}',
        '\u{2029}',
    ]
    .into_iter()
    .chain([
        '\u{202a}',
        '\u{202e}',
        '\u{2060}',
        '\u{2066}',
        '\u{2069}',
        '\u{feff}',
        '\u{e0001}',
        '\u{e007f}',
        '\n',
        '\r',
        '`',
        '<',
        '|',
    ]);
    let hidden = proptest::sample::select(hidden.collect::<Vec<char>>());
    proptest::collection::vec(proptest::prop_oneof![hidden, proptest::char::any()], 0..30).prop_map(String::from_iter)
}

struct Judged<'a>(Vec<(&'a str, ReportedFinding)>, Error);

impl Reportable for Judged<'_> {
    fn text(&self) -> String {
        let mut out = String::new();
        self.0.iter().for_each(|(_, finding)| super::text::finding_lines(&mut out, finding));
        format!("{out}{}\n", self.1)
    }

    fn json(&self) -> String {
        super::to_json(&self.0.iter().map(|(_, finding)| finding).collect::<Vec<_>>())
    }

    fn rows(&self) -> Rows<'_> {
        let row = |(name, finding): &'_ (&str, ReportedFinding)| Row {
            findings: vec![RowFinding::plain(finding.clone(), None)],
            bases: vec![(*name).to_owned()],
            targets: vec![(*name).to_owned()],
            facts: vec![("Fact", (*name).to_owned())],
            words: Some(RowWords { before: vec![(*name).to_owned()], after: Some(vec![(*name).to_owned()]) }),
            ..Row::new((*name).to_owned(), RowOutcome::Refused)
        };
        let list = self.0.iter().map(row).chain([Row::failed("failed", &self.1)]).collect();
        Rows { command: "check", thing: "image", list }
    }
}

/// A report on every scalar value that there is, 16,384 a row.
fn on_every_scalar(write: impl FnOnce(&Judged<'_>)) {
    let scalars: Vec<char> = ('\u{0}'..=char::MAX).collect();
    let texts: Vec<String> = scalars.chunks(1 << 14).map(String::from_iter).collect();
    let finding = |text: &String| ReportedFinding {
        rule: Rule::NeedsShell,
        level: Level::Refuse,
        message: text.clone(),
        evidence: text.clone(),
        fix: String::new(),
    };
    let error = texts.iter().fold(Error::input("x"), Error::cause);
    write(&Judged(texts.iter().map(|text| ("a.io/b", finding(text))).collect(), error));
}

#[test]
fn every_scalar_value_can_be_in_every_format() {
    on_every_scalar(|judged| {
        for format in ReportFormat::ALL {
            let text = format.write(judged).unwrap();
            // Production 2 of XML 1.0, without what XML 1.0 itself advises against. HTML forbids no more.
            let is_allowed = |c: char| match c {
                '\n' | '\t' => true,
                c if c.is_control() => false,
                '\u{fdd0}'..='\u{fdef}' => false,
                c => u32::from(c) & 0xfffe != 0xfffe,
            };
            let wrong: Vec<char> = text.chars().filter(|c| !is_allowed(*c)).collect();
            assert!(wrong.is_empty(), "{}: {wrong:?}", format.word());
        }
        for format in [ReportFormat::Json, ReportFormat::Sarif] {
            let text = format.write(judged).unwrap();
            serde_json::from_str::<serde_json::Value>(&text).unwrap();
        }
        let json: serde_json::Value = serde_json::from_str(&ReportFormat::Json.write(judged).unwrap()).unwrap();
        for (number, (_, finding)) in judged.0.iter().enumerate() {
            assert_eq!(json[number]["message"], finding.message.as_str(), "JSON keeps the data");
        }
    });
}

#[test]
fn a_reader_of_xml_that_is_not_ours_reads_every_scalar_value() {
    or_skip!(need(&["python3"]));
    let counter = "import sys, xml.etree.ElementTree as t; r = t.parse(sys.argv[1]).getroot(); print(len(r.findall('.//failure')), 'seen' in ''.join(r.itertext()))";
    let read = |text: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        std::process::Command::new("python3").arg("-c").arg(counter).arg(file.path()).output().unwrap()
    };
    on_every_scalar(|judged| {
        let text = ReportFormat::Junit.write(judged).unwrap();
        let output = read(&text);
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), format!("{} False", judged.0.len()), "{output:?}");
        let with_one = text.replacen("</failure>", "seen\u{fffe}</failure>", 1);
        assert!(!read(&with_one).status.success(), "the reader refuses what XML forbids");
        assert!(read(&with_one.replace('\u{fffe}', "")).status.success());
    });
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn no_text_of_an_image_hides_in_a_report(name in any_text(), message in any_text(), evidence in any_text()) {
        let level = Level::Refuse;
        let (m, e) = (message.clone(), evidence.clone());
        let finding = ReportedFinding { rule: Rule::NeedsShell, level, message, evidence, fix: name.clone() };
        let judged = Judged(vec![(&name, finding)], Error::input(m.clone()).fact("x", &e).cause(&m).hint(&e));
        let is_hidden = |c: char| c != '\n' && c != '\t' && printable(c.encode_utf8(&mut [0; 4])) != c.to_string();
        for format in ReportFormat::ALL {
            let text = format.write(&judged).unwrap();
            let found: Vec<char> = text.chars().filter(|c| is_hidden(*c)).collect();
            proptest::prop_assert!(found.is_empty(), "{} has {found:?}", format.word());
        }
        let json: serde_json::Value = serde_json::from_str(&ReportFormat::Json.write(&judged).unwrap()).unwrap();
        proptest::prop_assert_eq!((json[0]["message"].as_str(), json[0]["evidence"].as_str()), (Some(&*m), Some(&*e)));
    }
}
