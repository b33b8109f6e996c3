//! The batch file: defaults and images. What an image says takes the place of the default.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::examine::LogChoice;
use crate::oci::{Location, Platform};
use crate::plan::{Epoch, FORMAT};
use crate::policy::Allow;
use crate::settings::{DEFAULT_BASE, Job, old_base};
use crate::yaml::{self, Position, YamlMap, YamlNode};

/// A larger file is refused; ten thousand images take about two mebibytes.
pub const LARGEST: u64 = 32 << 20;

const SETTINGS: [&str; 8] =
    ["base", "old_base", "known_bases", "platforms", "logs", "log_runner", "exceptions", "allow"];
const IMAGE: [&str; 10] =
    ["source", "target", "base", "old_base", "known_bases", "platforms", "logs", "log_runner", "exceptions", "allow"];

#[derive(Debug)]
pub struct BatchFile {
    pub images: Vec<Entry>,
}

/// One image of the file.
#[derive(Debug, Clone)]
pub struct Entry {
    pub at: Position,
    pub job: Job,
    /// The exception list, from the file's own folder.
    pub exceptions: Option<String>,
    /// Everything that decides the result, as it was written: the lock compares it.
    pub recipe: Value,
}

impl Entry {
    /// Puts another job in place of its own, such as one that an exception has changed.
    pub fn replace_job(&mut self, job: Job) {
        let allow: Vec<String> = job.options.allow.iter().map(ToString::to_string).collect();
        if let Some(recipe) = self.recipe.as_object_mut().filter(|_| !allow.is_empty()) {
            recipe.insert("allow".to_owned(), json!(allow));
        }
        self.job = job;
    }
}

impl BatchFile {
    /// Reads the file; what makes no sense is named with line and column.
    pub fn read(text: &str, epoch: Option<Epoch>) -> Result<Self> {
        let document = yaml::read(text)?;
        let top = document.members(&["defaults", "images"])?;
        let defaults = top.get("defaults").map(|node| node.members(&SETTINGS)).transpose()?;
        let images = top.get("images").ok_or_else(|| yaml::wrong("the file has no `images`", document.at))?;
        let images = images.list()?.iter().map(|node| entry(node, defaults, epoch)).collect::<Result<Vec<Entry>>>()?;
        check_targets(&images)?;
        Ok(Self { images })
    }
}

/// An image's own settings before the defaults.
struct Settings<'a> {
    own: YamlMap<'a>,
    defaults: Option<YamlMap<'a>>,
}

impl<'a> Settings<'a> {
    fn get(&self, key: &str) -> Option<&'a YamlNode> {
        self.own.get(key).or_else(|| self.defaults.as_ref()?.get(key))
    }

    fn list<T: std::str::FromStr<Err = Error>>(&self, key: &str) -> Result<Vec<T>> {
        let Some(node) = self.get(key) else { return Ok(Vec::new()) };
        node.texts()?.into_iter().map(YamlNode::parse).collect()
    }
}

fn entry(node: &YamlNode, defaults: Option<YamlMap<'_>>, epoch: Option<Epoch>) -> Result<Entry> {
    let settings = Settings { own: node.members(&IMAGE)?, defaults };
    let source = settings.own.get("source").ok_or_else(|| yaml::wrong("the image has no `source`", node.at))?;
    let base = settings.get("base").map_or_else(|| DEFAULT_BASE.parse(), YamlNode::parse)?;
    let mut job = Job::plain(source.parse()?, base, epoch);
    if let Some(node) = settings.get("old_base") {
        job.request.old_base = old_base(node.text()?).map_err(|error| error.fact("at", node.at))?.into();
    }
    job.request.platforms = settings.list::<Platform>("platforms")?;
    job.options.platforms.clone_from(&job.request.platforms);
    job.request.known = settings.list::<Location>("known_bases")?;
    job.request.log_runner = settings.get("log_runner").map(YamlNode::parse).transpose()?;
    if let Some(node) = settings.get("logs") {
        job.request.wishes.logs = logs(node)?;
        job.options.wishes = job.request.wishes.clone();
    }
    job.options.allow = settings.list::<Allow>("allow")?;
    job.options.allow.sort();
    job.options.allow.dedup();
    job.targets = settings.list::<Location>("target")?;
    let job = job.check().map_err(|error| error.fact("at", node.at))?;
    let exceptions = settings.get("exceptions").map(|node| node.text().map(str::to_owned)).transpose()?;
    let mut entry = Entry { at: node.at, recipe: recipe(&settings, epoch)?, job: job.clone(), exceptions };
    entry.replace_job(job);
    Ok(entry)
}

fn logs(node: &YamlNode) -> Result<LogChoice> {
    let word = node.text()?;
    LogChoice::ALL.into_iter().find(|choice| choice.word() == word).ok_or_else(|| {
        let words: Vec<&str> = LogChoice::ALL.iter().map(|choice| choice.word()).collect();
        yaml::wrong(format!("unknown word `{word}`"), node.at).fact("words", words.join(", "))
    })
}

/// In one order of keys, whatever the order in the file.
fn recipe(settings: &Settings<'_>, epoch: Option<Epoch>) -> Result<Value> {
    let mut recipe = Map::new();
    for key in IMAGE.iter().filter(|key| !["target", "exceptions", "allow"].contains(key)) {
        if let Some(node) = settings.get(key) {
            let texts =
                node.texts()?.into_iter().map(|node| node.text().map(Value::from)).collect::<Result<Vec<_>>>()?;
            recipe.insert((*key).to_owned(), Value::Array(texts));
        }
    }
    recipe.insert("format".to_owned(), json!(FORMAT));
    if let Some(epoch) = epoch {
        recipe.insert("source_date_epoch".to_owned(), json!(epoch.0));
    }
    Ok(Value::Object(recipe))
}

/// Two images that go to the same place would undo each other.
fn check_targets(images: &[Entry]) -> Result<()> {
    let mut seen: HashMap<String, Position> = HashMap::new();
    for entry in images {
        for target in &entry.job.targets {
            if let Some(first) = seen.insert(target.to_string(), entry.at) {
                return Err(yaml::wrong("two images have the same target", entry.at)
                    .fact("target", target)
                    .fact("first at", first));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examine::base::Choice;
    use crate::store::fetch::OldBaseChoice;

    const FILE: &str = "\
defaults:
  base: oci:bases:static
  platforms: [linux/amd64]
  logs: stdout
images:
  - source: a.io/one:v1
    target: a.io/one:v1-static
  - source: a.io/two:v1
    target: [a.io/two:x, oci:out:two]
    base: oci:bases:other
    old_base: layers:2
    platforms: []
    allow: needs-tool=iptables
";

    #[test]
    fn what_an_image_says_takes_the_place_of_the_default() {
        let file = BatchFile::read(FILE, None).unwrap();
        let [one, two] = &file.images[..] else { panic!("two images") };
        assert_eq!(
            (one.job.request.base.to_string().as_str(), one.job.request.platforms.len()),
            ("oci:bases:static", 1)
        );
        assert_eq!(
            (two.job.request.base.to_string().as_str(), two.job.request.platforms.len()),
            ("oci:bases:other", 0)
        );
        assert!(matches!(two.job.request.old_base, OldBaseChoice::Same(Choice::Layers(2))));
        assert_eq!((two.job.targets.len(), two.job.options.allow.len(), two.at.line), (2, 1, 8));
        assert_eq!(one.job.options.wishes.logs, LogChoice::Stdout);
        assert_ne!(one.recipe, two.recipe);
    }

    #[test]
    fn what_makes_no_sense_is_named_with_line_and_column() {
        for (text, what, place) in [
            ("images:\n- source: a\n  taget: b\n", "unknown key `taget`", "line 3, column 3"),
            ("image: []\n", "unknown key `image`", "line 1, column 1"),
            ("defaults: {}\n", "no `images`", "line 1"),
            ("images:\n- target: b\n", "no `source`", "line 2"),
            ("images:\n- source: NOT A NAME\n", "not a", "line 2, column 11"),
            ("images:\n- source: a\n  logs: loud\n", "unknown word `loud`", "line 3, column 9"),
            ("images:\n- source: a\n  allow: [x]\n", "--allow", "line 3, column 11"),
            ("images:\n- source: a\n  old_base: 'layers:x'\n", "whole number", "line 3"),
            ("images:\n- {source: a, target: z.io/b:c}\n- {source: d, target: z.io/b:c}\n", "same target", "line 3"),
            ("defaults:\n  target: x\nimages: []\n", "unknown key `target`", "line 2, column 3"),
        ] {
            let error = BatchFile::read(text, None).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains(place), "{text}{error}");
        }
    }

    #[test]
    fn the_recipe_is_what_decides_the_result() {
        let recipe = |text: &str, epoch| BatchFile::read(text, epoch).unwrap().images[0].recipe.clone();
        let one = recipe("images: [{source: a, base: b, target: c}]", None);
        assert_eq!(one, recipe("defaults: {base: b}\nimages: [{target: d, source: a}]", None).clone());
        assert_ne!(one, recipe("images: [{source: a, base: c, target: c}]", None));
        assert_ne!(one, recipe("images: [{source: a, base: b, target: c}]", Some(Epoch(1))));
    }

    #[test]
    fn the_schema_has_the_keys_of_the_file() {
        let schema: Value = serde_json::from_str(super::super::SCHEMA).unwrap();
        let keys = |of: &str| {
            let mut keys: Vec<String> =
                schema["$defs"][of]["properties"].as_object().unwrap().keys().cloned().collect();
            keys.sort();
            keys
        };
        let sorted = |keys: &[&str]| {
            let mut keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
            keys.sort();
            keys
        };
        assert_eq!((keys("image"), keys("settings")), (sorted(&IMAGE), sorted(&SETTINGS)));
        let words: Vec<&str> = LogChoice::ALL.iter().map(|choice| choice.word()).collect();
        assert_eq!(schema["$defs"]["logs"]["enum"], json!(words));
    }
}
