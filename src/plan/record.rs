//! What a result records of how it was made, so that anybody can make it again: its inputs by digest, and the options
//! that had an effect.
//!
//! The rule this file owns: an input's name enters only if it is a registry's, without its tag, and an option only if
//! the result would be another one without it. So two people who move the same image to the same base get the same
//! bytes, wherever they read them and however they wrote their options.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::rebase_options::{OnMissing, RebaseOptions, RecordedName};
use super::{ImagePlan, Pass, draw};
use crate::examine::base::OldBaseChoice;
use crate::examine::{Origin, Subject};
use crate::rules::{Allow, Finding};
use oci::error::{Error, Result};
use oci::{BASE_DIGEST, BASE_NAME, Digest, Reference, RepositoryName, json as canonical};

pub const FORMAT_KEY: &str = "dev.underpin.format";
/// The number of the format: it changes whenever the same inputs give other bytes.
pub const FORMAT: &str = "2";
pub const SOURCE_KEY: &str = "dev.underpin.source";
pub const OPTIONS_KEY: &str = "dev.underpin.options";

/// What decides nothing about the bytes of a result, or is recorded in an annotation of its own.
const NOT_RECORDED: [&str; 16] = [
    "attest",
    "command_from",
    "sign_key",
    "base",
    "base_candidates",
    "known_bases",
    "on_missing_platform",
    "expect_digest",
    "source_name",
    "base_name",
    "start",
    "start_args",
    "start_env",
    "start_mounts",
    "runtime",
    "require_all_platforms",
];
/// What is recorded by what came of it, not as it was written.
const BY_OUTCOME: [&str; 4] = ["old_base", "log_runner", "platforms", "allow"];
/// That a platform was left out: not what was asked for.
const SKIPPED: &str = "skipped";

/// Options by name, in the order in which they are written.
pub type RecordedOptions = BTreeMap<String, Value>;

/// Writes into the manifest of a platform what it was made from, once it has been judged.
pub fn record(image: &Subject, pass: &mut Pass, options: &RebaseOptions) {
    if matches!(pass.draft.image, ImagePlan::AsIs(_)) {
        return;
    }
    let recorded = effective(pass, options);
    let inputs = Inputs {
        source: (&image.source, pass.subject.source.digest()),
        base: (&image.base, pass.subject.base.digest()),
    };
    if let ImagePlan::New(new) = &mut pass.draft.image {
        inputs.write(&mut new.manifest, options, &recorded);
    }
    pass.recorded = recorded;
}

/// Writes into the index around the platforms what it was made from.
pub(super) fn record_index(object: &mut Map<String, Value>, image: &Subject, passes: &[Pass], options: &RebaseOptions) {
    let mut recorded = joined(image, passes, options);
    recorded.remove("old_base");
    let runner = image.runner.as_ref().map(|runner| runner.top.digest().to_string());
    // Each platform records its own manifest of it.
    if let (Some(runner), true) = (runner, recorded.contains_key("log_runner")) {
        recorded.insert("log_runner".to_owned(), runner.into());
    }
    if !image.missing.is_empty() {
        recorded.insert(SKIPPED.to_owned(), true.into());
    }
    let inputs =
        Inputs { source: (&image.source, image.source.top.digest()), base: (&image.base, image.base.top.digest()) };
    inputs.write(object, options, &recorded);
}

/// Source and new base of a document, each with the digest that is recorded.
struct Inputs<'a> {
    source: (&'a Origin, Digest),
    base: (&'a Origin, Digest),
}

impl Inputs<'_> {
    fn write(&self, object: &mut Map<String, Value>, options: &RebaseOptions, recorded: &RecordedOptions) {
        let Some(annotations) = object.get_mut("annotations").and_then(Value::as_object_mut) else { return };
        let base_name = self.base_name(options);
        if base_name.is_none() {
            // The source's own names its old base.
            annotations.shift_remove(BASE_NAME);
        }
        for (key, value) in [
            (BASE_NAME, base_name),
            (BASE_DIGEST, Some(self.base.1.to_string())),
            (FORMAT_KEY, Some(FORMAT.to_owned())),
            (SOURCE_KEY, Some(self.source(options))),
            (OPTIONS_KEY, Some(written(recorded))),
        ] {
            if let Some(value) = value {
                annotations.insert(key.to_owned(), value.into());
            }
        }
    }

    fn base_name(&self, options: &RebaseOptions) -> Option<String> {
        RecordedName::choose(options.base_name.as_ref(), &self.base.0.location).map(ToString::to_string)
    }

    fn source(&self, options: &RebaseOptions) -> String {
        let (Origin { location, .. }, digest) = self.source;
        match RecordedName::choose(options.source_name.as_ref(), location) {
            Some(name) => format!("{name}@{digest}"),
            None => digest.to_string(),
        }
    }
}

fn written(recorded: &RecordedOptions) -> String {
    let members: Map<String, Value> = recorded.clone().into_iter().collect();
    String::from_utf8(canonical::write(&Value::Object(members))).unwrap_or_default()
}

/// The options that are not the default.
fn given(options: &RebaseOptions) -> RecordedOptions {
    options.given().into_iter().filter(|(key, _)| !NOT_RECORDED.contains(&key.as_str())).collect()
}

/// A list of texts; `None` where it would be empty.
fn texts<T: ToString>(values: &[T]) -> Option<Value> {
    let texts: Vec<Value> = values.iter().map(|value| value.to_string().into()).collect();
    (!texts.is_empty()).then_some(Value::Array(texts))
}

/// The options without which the result would be another one, each in one spelling.
fn effective(pass: &Pass, options: &RebaseOptions) -> RecordedOptions {
    let mut kept = given(options);
    kept.retain(|key, _| !BY_OUTCOME.contains(&key.as_str()));
    // Until nothing goes: what an option did may need another that is found needless after it.
    while let Some(fewer) = without_needless(&kept, pass, options) {
        kept = fewer;
    }
    let runner = pass.subject.runner.as_ref().filter(|_| pass.draft.form.uses_runner());
    let runner = runner.map(|runner| runner.image.digest().to_string().into());
    kept.extend(runner.map(|runner| ("log_runner".to_owned(), runner)));
    kept.extend(texts(&needed_allowances(pass)).map(|allow| ("allow".to_owned(), allow)));
    kept.insert("old_base".to_owned(), pass.subject.old_base.as_record().into());
    kept
}

/// The options without those that could be left out one by one; `None` where each of them has an effect.
fn without_needless(options: &RecordedOptions, pass: &Pass, given: &RebaseOptions) -> Option<RecordedOptions> {
    let mut kept = options.clone();
    for single in single_values(options) {
        let fewer = minus(&kept, &single);
        let is_needless = given
            .with(&fewer)
            .is_ok_and(|options| pass.draft.makes_the_same_bytes(&draw(&pass.subject, &pass.facts, &options)));
        if is_needless {
            kept = fewer;
        }
    }
    (kept != *options).then_some(kept)
}

/// The refusals that were allowed, by what allowed them.
#[must_use]
pub fn needed_allowances(pass: &Pass) -> Vec<Allow> {
    needed_by(pass.image_findings())
}

/// What allowed these findings, each once.
#[must_use]
pub fn needed_by(findings: &[Finding]) -> Vec<Allow> {
    let mut needed: Vec<Allow> = findings.iter().filter_map(|finding| finding.allowed_by.clone()).collect();
    needed.sort();
    needed.dedup();
    needed
}

/// An option, or one value of a list.
struct SingleValue {
    key: String,
    of_list: Option<Value>,
}

/// The last first: what is below a path sorts after it, and is needless where the path itself is given.
fn single_values(options: &RecordedOptions) -> Vec<SingleValue> {
    let default = RebaseOptions::default().members();
    let singles = options.iter().rev().flat_map(|(key, value)| {
        let is_list = default.get(key).is_some_and(Value::is_array);
        let values = value.as_array().filter(|_| is_list);
        match values {
            Some(values) => values.iter().rev().cloned().map(Some).collect(),
            None => vec![None],
        }
        .into_iter()
        .map(|of_list| SingleValue { key: key.clone(), of_list })
    });
    singles.collect()
}

fn minus(options: &RecordedOptions, single: &SingleValue) -> RecordedOptions {
    let mut fewer = options.clone();
    let values = fewer.get_mut(&single.key).and_then(Value::as_array_mut);
    if let (Some(value), Some(values)) = (&single.of_list, values) {
        values.retain(|other| other != value);
        if !values.is_empty() {
            return fewer;
        }
    }
    fewer.remove(&single.key);
    fewer
}

/// What any platform records, in the order of what was given.
fn joined(image: &Subject, passes: &[Pass], options: &RebaseOptions) -> RecordedOptions {
    let mut all = RecordedOptions::new();
    for (key, value) in passes.iter().flat_map(|pass| &pass.recorded) {
        match (all.get_mut(key).and_then(Value::as_array_mut), value) {
            (Some(there), Value::Array(values)) => there.extend(values.iter().cloned()),
            _ => drop(all.insert(key.clone(), value.clone())),
        }
    }
    let given = given(options);
    let is_list = |key: &str| RebaseOptions::default().members().get(key).is_some_and(Value::is_array);
    for (key, value) in all.iter_mut().filter(|(key, _)| is_list(key)) {
        let in_order = given.get(key).and_then(Value::as_array).into_iter().flatten();
        let there = value.as_array().cloned().unwrap_or_default();
        *value = Value::Array(in_order.filter(|value| there.contains(value)).cloned().collect());
    }
    all.extend(texts(&image.selected).map(|platforms| ("platforms".to_owned(), platforms)));
    all
}

/// What an image says that it was made from.
#[derive(Debug)]
pub struct Record {
    pub source: RecordedImage,
    pub base: RecordedImage,
    pub log_runner: Option<RecordedImage>,
    /// Those that decide bytes; `base` and `log_runner` are not in it.
    pub options: RebaseOptions,
}

/// An input of a result: what its record can say, and no more. A record comes with an image, so it never leads to a file
/// or to a tool of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedImage {
    Named(RepositoryName, Digest),
    Digest(Digest),
}

impl RecordedImage {
    /// The digest that it must have.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        match self {
            Self::Named(_, digest) | Self::Digest(digest) => *digest,
        }
    }

    /// The bytes under the recorded name.
    #[must_use]
    pub fn reference(&self) -> Option<Reference> {
        match self {
            Self::Named(name, digest) => Some(Reference::by_digest(name.clone(), *digest)),
            Self::Digest(_) => None,
        }
    }

    /// The name that the result records.
    #[must_use]
    pub fn name(&self) -> RecordedName {
        match self {
            Self::Named(name, _) => RecordedName::Registry(name.clone()),
            Self::Digest(_) => RecordedName::None,
        }
    }

    /// `NAME@DIGEST` or a digest alone.
    fn read(text: &str) -> Result<Self> {
        match text.split_once('@') {
            Some((name, digest)) => Ok(Self::Named(name.parse()?, digest.parse()?)),
            None => text.parse().map(Self::Digest),
        }
    }
}

impl Record {
    pub fn read(annotations: &Map<String, Value>) -> Result<Self> {
        let text = |key: &str| annotations.get(key).and_then(Value::as_str);
        let input = |key: &'static str| {
            text(key).ok_or_else(|| Error::input("the image does not record all of its inputs").fact("missing", key))
        };
        let number = text(FORMAT_KEY).ok_or_else(|| {
            Error::input("the image does not record that underpin made it").fact("missing", FORMAT_KEY)
        })?;
        if number != FORMAT {
            return Err(unknown_format(number));
        }
        let mut members = canonical::read_object(text(OPTIONS_KEY).unwrap_or("{}").as_bytes(), OPTIONS_KEY)?;
        let runner = members.shift_remove("log_runner");
        let runner = runner.as_ref().map(|runner| runner.as_str().ok_or_else(unreadable)).transpose()?;
        let options = read_options(members)?;
        let base_digest = input(BASE_DIGEST)?;
        let base = text(BASE_NAME).map_or_else(|| base_digest.to_owned(), |name| format!("{name}@{base_digest}"));
        if let Some(OldBaseChoice::Image(place)) = &options.old_base {
            return Err(unreadable().fact("old_base", place));
        }
        let read = RecordedImage::read;
        let log_runner = runner.map(read).transpose()?;
        Ok(Self { source: read(input(SOURCE_KEY)?)?, base: read(&base)?, log_runner, options })
    }
}

fn unknown_format(number: &str) -> Error {
    Error::input("the image has another format version than this underpin")
        .fact("format", number)
        .fact("this is", FORMAT)
        .hint("verify it with the release that made it")
}

fn unreadable() -> Error {
    Error::input("the image records options that this release cannot read")
}

/// Reads what was written, and nothing else: a record must not name further images to be opened.
fn read_options(mut members: Map<String, Value>) -> Result<RebaseOptions> {
    let skipped = members.shift_remove(SKIPPED) == Some(Value::Bool(true));
    let keys = RebaseOptions::keys();
    let is_known = |key: &&String| keys.contains(key) && !NOT_RECORDED.contains(&key.as_str());
    if let Some(unknown) = members.keys().find(|key| !is_known(key)) {
        return Err(unreadable().fact("option", unknown));
    }
    let options: RebaseOptions =
        serde_json::from_value(Value::Object(members)).map_err(|error| unreadable().cause(error.to_string()))?;
    let on_missing_platform = if skipped { OnMissing::Skip } else { OnMissing::Refuse };
    Ok(RebaseOptions { on_missing_platform, ..options })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::examine::Fetched;
    use crate::examine::testing::fetched;
    use crate::plan::testing::pass;
    use crate::plan::{CommandWords, Epoch, KlogStyle, LogChoice};
    use crate::rules::{Level, Rule};
    use oci::testing::TestImage;

    const D: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn moving() -> Fetched {
        let container = json!({"Entrypoint": ["/app"], "Env": ["A=1"], "User": "7"});
        let source = TestImage { container, ..TestImage::of(&["a", "app"]) };
        fetched(&source, &TestImage::of(&["a"]), &TestImage::of(&["n"]))
    }

    /// The annotations of the result.
    fn annotations(options: &RebaseOptions, place: &str) -> Map<String, Value> {
        let mut fetched = moving();
        (fetched.subject.source.location, fetched.subject.base.location) =
            (place.parse().unwrap(), place.parse().unwrap());
        let image = fetched.subject.clone();
        let mut pass = pass(fetched, options);
        record(&image, &mut pass, options);
        let ImagePlan::New(new) = pass.draft.image else { panic!("passed on") };
        new.manifest["annotations"].as_object().unwrap().clone()
    }

    fn recorded(options: &RebaseOptions) -> String {
        let recorded: Value =
            serde_json::from_str(annotations(options, "oci:x")[OPTIONS_KEY].as_str().unwrap()).unwrap();
        let mut recorded = recorded.as_object().unwrap().clone();
        assert!(recorded.shift_remove("old_base").unwrap().as_str().unwrap().starts_with("sha256:"));
        Value::Object(recorded).to_string()
    }

    #[test]
    fn an_option_is_recorded_if_the_result_would_be_another_without_it() {
        let none = RebaseOptions::default;
        let paths = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>();
        let words = |word: &str| Some(CommandWords(vec![word.to_owned()]));
        let env = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>();
        for (options, expected) in [
            (none(), json!({})),
            (RebaseOptions { entrypoint: words("/app"), ..none() }, json!({})),
            (RebaseOptions { entrypoint: words("/own"), ..none() }, json!({"entrypoint": ["/own"]})),
            (RebaseOptions { user: Some("7".to_owned()), ..none() }, json!({})),
            (RebaseOptions { user: Some("8".to_owned()), ..none() }, json!({"user": "8"})),
            (RebaseOptions { env: env(&["A=1", "B=2"]), ..none() }, json!({"env": ["B=2"]})),
            (RebaseOptions { keep: paths(&["/app"]), ..none() }, json!({})),
            (RebaseOptions { drop: paths(&["/none", "/own"]), ..none() }, json!({"drop": ["/own"]})),
            (RebaseOptions { logs: LogChoice::Stdout, klog_style: KlogStyle::Dash, ..none() }, json!({})),
            (RebaseOptions { freeze_env: vec!["A".to_owned()], ..none() }, json!({})),
            (RebaseOptions { source_date_epoch: Some(Epoch(7)), ..none() }, json!({"source_date_epoch": 7})),
            (RebaseOptions { on_missing_platform: OnMissing::Skip, ..none() }, json!({})),
            (RebaseOptions { platforms: vec!["linux/arm".parse().unwrap()], ..none() }, json!({})),
        ] {
            assert_eq!(recorded(&options), expected.to_string(), "{options:?}");
        }
    }

    /// Two options that together give what the image has by itself had no effect, either of them.
    #[test]
    fn what_only_a_needless_option_needs_is_not_recorded() {
        let logging = |program: &str| {
            let script = format!("exec {program} >>/x.log 2>&1");
            let entrypoint = Some(CommandWords(["/bin/sh", "-c", &script].map(str::to_owned).to_vec()));
            RebaseOptions { logs: LogChoice::Stdout, entrypoint, ..RebaseOptions::default() }
        };
        assert_eq!(recorded(&logging("/app")), "{}");
        let effective = json!({"entrypoint": ["/bin/sh", "-c", "exec /own >>/x.log 2>&1"], "logs": "stdout"});
        assert_eq!(recorded(&logging("/own")), effective.to_string());
    }

    #[test]
    fn a_name_is_a_registrys_or_there_is_none() {
        let name = |text: &str| Some(text.parse().unwrap());
        let named =
            RebaseOptions { source_name: name("a.io/app"), base_name: name("b.io/base"), ..RebaseOptions::default() };
        let nameless = RebaseOptions { source_name: name("none"), base_name: name("none"), ..RebaseOptions::default() };
        for (place, options, source, base) in [
            ("oci:/abs/dir:v1", RebaseOptions::default(), "", None),
            ("oci-archive:app.tar", RebaseOptions::default(), "", None),
            ("r.io/x:v1", RebaseOptions::default(), "r.io/x@", Some("r.io/x")),
            ("r.io/x", RebaseOptions::default(), "r.io/x@", Some("r.io/x")),
            ("oci:dir", named.clone(), "a.io/app@", Some("b.io/base")),
            ("mirror.io/x:v1", named, "a.io/app@", Some("b.io/base")),
            ("r.io/x:v1", nameless, "", None),
        ] {
            let annotations = annotations(&options, place);
            let (name, digest) = annotations[SOURCE_KEY].as_str().unwrap().split_at(source.len());
            assert_eq!((name, digest.parse::<Digest>().is_ok()), (source, true), "{place}");
            assert_eq!(annotations.get(BASE_NAME).and_then(Value::as_str), base, "{place}");
        }
    }

    #[test]
    fn what_allowed_nothing_is_not_recorded() {
        let mut pass = pass(moving(), &RebaseOptions::default());
        let allow = |text: &str| text.parse::<Allow>().unwrap();
        let mut finding = Finding::new(Rule::NeedsTool, Level::Excepted, "x").about("ip");
        finding.allowed_by = Some(allow("needs-tool=ip"));
        pass.findings = vec![finding.clone(), finding, Finding::new(Rule::NeedsTool, Level::Warn, "y")];
        let options =
            RebaseOptions { allow: vec![allow("needs-tool=ip"), allow("needs-file")], ..RebaseOptions::default() };
        assert_eq!(effective(&pass, &options)["allow"], json!(["needs-tool=ip"]));
        pass.findings.clear();
        assert_eq!(effective(&pass, &options).get("allow"), None);
    }

    fn read(base_name: Option<&str>, source: &str, options: &str) -> Result<Record> {
        let mut annotations = json!({BASE_DIGEST: D, FORMAT_KEY: FORMAT, SOURCE_KEY: source, OPTIONS_KEY: options});
        if let Some(name) = base_name {
            annotations[BASE_NAME] = name.into();
        }
        Record::read(annotations.as_object().unwrap())
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record =
            read(Some("gcr.io/base"), &format!("a.io/app@{D}"), &format!("{{\"log_runner\":\"{D}\"}}")).unwrap();
        let digest: Digest = D.parse().unwrap();
        let named = |name: &str| Some(format!("{name}@{D}").parse::<Reference>().unwrap());
        assert_eq!((record.base.reference(), record.base.digest()), (named("gcr.io/base"), digest));
        assert_eq!(record.source.reference(), named("a.io/app"));
        assert_eq!(record.log_runner, Some(RecordedImage::Digest(digest)));
        let nameless = read(None, D, "{\"skipped\":true,\"old_base\":\"layers:2\",\"keep\":[\"/x\"]}").unwrap();
        assert_eq!((nameless.source, nameless.base), (RecordedImage::Digest(digest), RecordedImage::Digest(digest)));
        assert_eq!(nameless.options.on_missing_platform, OnMissing::Skip);
        assert_eq!((nameless.options.old_base, nameless.options.keep.len()), (Some(OldBaseChoice::Layers(2)), 1));
    }

    #[test]
    fn a_record_names_no_file_and_no_further_image() {
        let named = format!("a.io/app@{D}");
        for (base, source, options) in [
            (Some("oci:/etc"), named.as_str(), "{}"),
            (Some("a.io/base:v1"), &named, "{}"),
            (None, &format!("oci:/etc@{D}"), "{}"),
            (None, "a.io/app:v1", "{}"),
            (None, &named, "{\"known_bases\":[\"oci:/etc\"]}"),
            (None, &named, "{\"base\":\"oci:/etc\"}"),
            (None, &named, "{\"base_candidates\":[\"oci:/etc\"]}"),
            (None, &named, "{\"old_base\":\"oci:/etc\"}"),
            (None, &named, "{\"old_base\":\"a.io/x:y\"}"),
            (None, &named, "{\"log_runner\":\"oci:/etc\"}"),
            (None, &named, "{\"from_the_future\":1}"),
            (None, &named, "{"),
        ] {
            assert!(read(base, source, options).is_err(), "{base:?} {source} {options}");
        }
        assert!(read(None, &named, "{}").is_ok());
    }
}
