//! The batch file: defaults and images. What an image says takes the place of the default.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::promoter::{PromotedImage, read_promoter};
use super::version_marker::version_tag;
use crate::plan::{Epoch, FORMAT, RebaseOptions};
use crate::settings::Job;
use crate::store::disk::Place;
use crate::yaml::{self, Position, YamlMap, YamlNode};
use oci::Location;
use oci::error::{Error, Result};

/// A larger file is refused; ten thousand images take about two mebibytes.
pub const LARGEST: u64 = 32 << 20;

/// What an image may say beside the options of a rebase.
const OF_IMAGE: [&str; 5] = ["source", "target", "promoter", "names", "tags"];
/// What the defaults may say, too.
const OF_ALL: [&str; 2] = ["exceptions", "version_marker"];
/// What a version marker's tag is put in place of.
const VERSION: &str = "{version}";
/// The keys that locks have always begun a recipe with: another order would be a change of every line.
const RECIPE_FIRST: [&str; 7] = ["source", "base", "old_base", "known_bases", "platforms", "logs", "log_runner"];
/// What is recorded by what came of it, and what does not change a byte of the result.
const NOT_OF_RECIPE: [&str; 4] = ["allow", "attest", "command_from", "sign_key"];
/// Options that a flag names in the singular.
const ALIASES: [(&str, &str); 3] =
    [("known_base", "known_bases"), ("platform", "platforms"), ("base_candidate", "base_candidates")];

/// Reads a file that a batch file names.
pub type Beside<'a> = &'a dyn Fn(&str) -> Result<String>;

#[derive(Debug)]
pub struct BatchFile {
    pub images: Vec<BatchEntry>,
}

/// One image of the file.
#[derive(Debug, Clone)]
pub struct BatchEntry {
    pub at: Position,
    pub job: Job,
    /// The exception list, relative to the directory of the file.
    pub exceptions: Option<String>,
    /// Everything that decides the result, as it was written: the lock compares it.
    pub recipe: Value,
}

impl BatchEntry {
    /// Puts another job in place of its own, such as one that an exception has changed.
    pub fn replace_job(&mut self, job: Job) {
        let allow: Vec<String> = job.options.allow.iter().map(ToString::to_string).collect();
        if let Some(recipe) = self.recipe.as_object_mut().filter(|_| !allow.is_empty()) {
            recipe.insert("allow".to_owned(), json!(allow));
        }
        let candidates: Vec<String> = job.options.base_candidates.iter().map(ToString::to_string).collect();
        if let Some(recipe) = self.recipe.as_object_mut().filter(|_| !candidates.is_empty()) {
            recipe.insert("base_candidates".to_owned(), json!(candidates));
        }
        // What the manifest says, not where it is: a change of it is to be judged again.
        if let (Some(recipe), Some(pod)) = (self.recipe.as_object_mut(), &job.pod) {
            recipe.insert("command_from".to_owned(), json!(pod.digest().to_string()));
        }
        self.job = job;
    }
}

impl BatchFile {
    /// Reads the file; what makes no sense is named with line and column. `beside` reads another file by the name that it
    /// has in this one.
    pub fn read(text: &str, epoch: Option<Epoch>, beside: Beside<'_>) -> Result<Self> {
        let document = yaml::read(text)?;
        let top = document.members(&["defaults", "images"])?;
        let keys = Keys::new();
        let defaults = top.get("defaults").map(|node| node.members(&keys.of_defaults())).transpose()?;
        let images = top.get("images").ok_or_else(|| yaml::wrong("the file has no `images`", document.at))?;
        let mut all = Vec::new();
        for node in images.list()? {
            let settings = Settings { own: node.members(&keys.of_image())?, defaults };
            settings.check_aliases()?;
            for places in places(node.at, &settings, beside)? {
                all.push(entry(node.at, &settings, &places, (&keys, epoch))?);
            }
        }
        check_targets(&all)?;
        Ok(Self { images: all })
    }
}

/// The keys that a file may have.
struct Keys {
    options: Vec<String>,
}

impl Keys {
    fn new() -> Self {
        Self { options: RebaseOptions::keys() }
    }

    fn of_defaults(&self) -> Vec<&str> {
        let aliases = ALIASES.iter().map(|(alias, _)| *alias);
        self.options.iter().map(String::as_str).chain(aliases).chain(OF_ALL).collect()
    }

    fn of_image(&self) -> Vec<&str> {
        OF_IMAGE.into_iter().chain(self.of_defaults()).collect()
    }
}

/// An image's own settings before the defaults.
struct Settings<'a> {
    own: YamlMap<'a>,
    defaults: Option<YamlMap<'a>>,
}

impl<'a> Settings<'a> {
    /// Two spellings of one option would undo each other.
    fn check_aliases(&self) -> Result<()> {
        for members in std::iter::once(&self.own).chain(&self.defaults) {
            for (alias, name) in ALIASES {
                if let (Some(node), Some(_)) = (members.get(alias), members.get(name)) {
                    return Err(yaml::wrong(format!("`{alias}` and `{name}` are the same option"), node.at));
                }
            }
        }
        Ok(())
    }

    fn get(&self, key: &str) -> Option<&'a YamlNode> {
        let alias = ALIASES.iter().find(|(_, name)| *name == key).map(|(alias, _)| *alias);
        let of = |members: &YamlMap<'a>| members.get(key).or_else(|| members.get(alias?));
        of(&self.own).or_else(|| of(self.defaults.as_ref()?))
    }
}

/// Where an image is and where it goes, with the places in the file.
struct Places {
    source: (String, Position),
    targets: Vec<(String, Position)>,
}

/// The image that an item names, or all that it means of a promoter's manifest.
fn places(at: Position, settings: &Settings<'_>, beside: Beside<'_>) -> Result<Vec<Places>> {
    let marker = settings.get("version_marker");
    let version = marker.map(|node| {
        named_file(node, beside).and_then(|text| version_tag(&text)).map_err(|error| error.fact("at", node.at))
    });
    let version = version.transpose()?;
    let filled = |node: &YamlNode| Ok((with_version(node, version.as_deref())?, node.at));
    let source = settings.own.get("source").ok_or_else(|| yaml::wrong("the image has no `source`", at))?;
    let targets = settings.own.get("target").map(YamlNode::texts).transpose()?.unwrap_or_default();
    let own = Places { source: filled(source)?, targets: targets.into_iter().map(filled).collect::<Result<_>>()? };
    let texts = |key: &str| -> Result<Option<Vec<String>>> {
        let nodes = settings.own.get(key).map(YamlNode::texts).transpose()?;
        nodes.map(|nodes| nodes.into_iter().map(|node| with_version(node, version.as_deref())).collect()).transpose()
    };
    let wanted = Wanted { names: texts("names")?, tags: texts("tags")? };
    match settings.own.get("promoter") {
        Some(node) => {
            let images = named_file(node, beside).and_then(|text| read_promoter(&text));
            wanted.of(&images.map_err(|error| error.fact("manifest at", node.at))?, &own, node.at)
        }
        None if wanted.names.is_some() || wanted.tags.is_some() => {
            Err(yaml::wrong("`names` and `tags` choose from a `promoter` manifest, and the image has none", at))
        }
        None => Ok(vec![own]),
    }
}

fn named_file(node: &YamlNode, beside: Beside<'_>) -> Result<String> {
    beside(node.text()?)
}

fn with_version(node: &YamlNode, version: Option<&str>) -> Result<String> {
    let text = node.text()?;
    match version {
        Some(version) => Ok(text.replace(VERSION, version)),
        None if text.contains(VERSION) => Err(yaml::wrong("{version} needs a `version_marker`", node.at)),
        None => Ok(text.to_owned()),
    }
}

/// What is taken of a promoter's manifest; everything where nothing is said.
struct Wanted {
    names: Option<Vec<String>>,
    tags: Option<Vec<String>>,
}

impl Wanted {
    /// `source` and `target` are the registries, with a path, that the names are relative to.
    fn of(&self, images: &[PromotedImage], own: &Places, at: Position) -> Result<Vec<Places>> {
        let known: Vec<&str> = images.iter().map(|image| image.name.as_str()).collect();
        let missing = self.names.iter().flatten().find(|name| !known.contains(&name.as_str()));
        if let Some(name) = missing {
            return Err(yaml::wrong("the promoter manifest has no such image", at).fact("image", name));
        }
        let is_meant = |image: &&PromotedImage| self.names.as_ref().is_none_or(|names| names.contains(&image.name));
        let mut found = Vec::new();
        for image in images.iter().filter(is_meant) {
            for (digest, tags) in &image.digests {
                let tags: Vec<&String> = tags.iter().filter(|tag| self.has_tag(tag)).collect();
                let below = |prefix: &str| format!("{}/{}", prefix.trim_end_matches('/'), image.name);
                let target = |(prefix, at): &(String, Position)| {
                    tags.iter().map(|tag| (format!("{}:{tag}", below(prefix)), *at)).collect::<Vec<_>>()
                };
                if !tags.is_empty() {
                    let source = (format!("{}@{digest}", below(&own.source.0)), own.source.1);
                    found.push(Places { source, targets: own.targets.iter().flat_map(target).collect() });
                }
            }
        }
        if found.is_empty() {
            return Err(yaml::wrong("the promoter manifest has no image with such a tag", at));
        }
        Ok(found)
    }

    fn has_tag(&self, tag: &String) -> bool {
        self.tags.as_ref().is_none_or(|tags| tags.contains(tag))
    }
}

fn place((text, at): &(String, Position)) -> Result<Location> {
    text.parse().map_err(|error: Error| error.fact("at", at))
}

fn entry(
    at: Position,
    settings: &Settings<'_>,
    places: &Places,
    (keys, epoch): (&Keys, Option<Epoch>),
) -> Result<BatchEntry> {
    let mut job = Job::new(place(&places.source)?, options(settings, keys, epoch)?);
    job.targets = places.targets.iter().map(place).collect::<Result<_>>()?;
    let job = job.check().map_err(|error| error.fact("at", at))?;
    let exceptions = settings.get("exceptions").map(|node| node.text().map(str::to_owned)).transpose()?;
    let mut recipe = recipe(settings, keys, job.options.source_date_epoch)?;
    if let Some(recipe) = recipe.as_object_mut() {
        recipe.insert("source".to_owned(), json!([places.source.0]));
    }
    let mut entry = BatchEntry { at, recipe, job: job.clone(), exceptions };
    entry.replace_job(job);
    Ok(entry)
}

/// The options of a rebase, each read alone first, so that what is wrong is named with its place.
fn options(settings: &Settings<'_>, keys: &Keys, epoch: Option<Epoch>) -> Result<RebaseOptions> {
    let mut given = Map::new();
    for key in &keys.options {
        let Some(node) = settings.get(key) else { continue };
        for text in node.texts().into_iter().flatten() {
            RebaseOptions::check_value(key, text.text()?).map_err(|error| error.fact("at", text.at))?;
        }
        let value = node.to_json()?;
        read_one(key, value.clone(), node.at)?;
        given.insert(key.clone(), value);
    }
    let options: RebaseOptions = serde_json::from_value(Value::Object(given))
        .map_err(|error| Error::usage("the options cannot be read").cause(error.to_string()))?;
    let source_date_epoch = options.source_date_epoch.or(epoch);
    Ok(RebaseOptions { source_date_epoch, ..options }.normalized())
}

fn read_one(key: &str, value: Value, at: Position) -> Result<RebaseOptions> {
    let one = Map::from_iter([(key.to_owned(), value)]);
    serde_json::from_value(Value::Object(one)).map_err(|error| yaml::wrong(format!("`{key}`: {error}"), at))
}

/// In one order of keys, whatever the order in the file.
fn recipe(settings: &Settings<'_>, keys: &Keys, epoch: Option<Epoch>) -> Result<Value> {
    let mut recipe = Map::new();
    let others = keys
        .options
        .iter()
        .map(String::as_str)
        .filter(|key| !NOT_OF_RECIPE.contains(key) && !RECIPE_FIRST.contains(key));
    for key in RECIPE_FIRST.into_iter().chain(others) {
        if let Some(node) = settings.get(key) {
            let texts =
                node.texts()?.into_iter().map(|node| node.text().map(Value::from)).collect::<Result<Vec<_>>>()?;
            recipe.insert(key.to_owned(), Value::Array(texts));
        }
    }
    recipe.insert("format".to_owned(), json!(FORMAT));
    if let Some(epoch) = epoch {
        recipe.insert("source_date_epoch".to_owned(), json!(epoch.0));
    }
    Ok(Value::Object(recipe))
}

/// Two images that go to the same place would undo each other.
fn check_targets(images: &[BatchEntry]) -> Result<()> {
    let mut seen: HashMap<Place, Position> = HashMap::new();
    for entry in images {
        for target in &entry.job.targets {
            if let Some(first) = seen.insert(Place::of(target), entry.at) {
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
    use crate::examine::base::OldBaseChoice;
    use crate::plan::LogChoice;

    fn nothing(name: &str) -> Result<String> {
        Err(Error::input("not there").fact("file", name))
    }

    fn beside(name: &str) -> Result<String> {
        let digest = |byte: &str| format!("sha256:{}", byte.repeat(32));
        match name {
            "stable.txt" => Ok("v1.31.0-alpha.1+abc\n".to_owned()),
            "images.yaml" => Ok(format!(
                "- name: api\n  dmap:\n    \"{}\": [\"v1\", \"v1.31.0-alpha.1_abc\"]\n    \"{}\": [\"v2\"]\n- name: k/proxy\n  dmap:\n    \"{}\": [\"v1\"]\n",
                digest("11"),
                digest("22"),
                digest("33")
            )),
            _ => nothing(name),
        }
    }

    #[test]
    fn a_version_marker_gives_the_tag() {
        let text = "defaults: {version_marker: stable.txt}\nimages:\n- {source: 'a.io/x:{version}', target: 'b.io/x:{version}'}\n";
        let one = &BatchFile::read(text, None, &beside).unwrap().images[0];
        assert_eq!(one.job.source.to_string(), "a.io/x:v1.31.0-alpha.1_abc");
        assert_eq!(one.job.targets[0].to_string(), "b.io/x:v1.31.0-alpha.1_abc");
        assert_eq!(one.recipe["source"], json!(["a.io/x:v1.31.0-alpha.1_abc"]));
        for bad in [
            "images:\n- {source: 'a.io/x:{version}'}\n",
            "images:\n- {source: 'a.io/x:v1', version_marker: other.txt}\n",
            "images:\n- {source: 'a.io/x:v1', version_marker: images.yaml}\n",
        ] {
            let error = BatchFile::read(bad, None, &beside).unwrap_err().to_string();
            assert!(error.contains("line 2"), "{bad}{error}");
        }
    }

    #[test]
    fn a_promoter_manifest_is_a_list_of_images() {
        let read = |more: &str| {
            let text = format!(
                "images:\n- {{promoter: images.yaml, source: a.io/staging, target: [b.io/k8s, 'c.io/k8s/']{more}}}\n"
            );
            let file = BatchFile::read(&text, None, &beside)?;
            let line = |entry: &BatchEntry| {
                let targets: Vec<String> = entry.job.targets.iter().map(ToString::to_string).collect();
                format!("{} > {}", entry.job.source, targets.join(" "))
            };
            Ok::<_, Error>(file.images.iter().map(line).collect::<Vec<String>>())
        };
        let all = read("").unwrap();
        assert_eq!(all.len(), 3);
        let digest = format!("sha256:{}", "33".repeat(32));
        assert_eq!(all[2], format!("a.io/staging/k/proxy@{digest} > b.io/k8s/k/proxy:v1 c.io/k8s/k/proxy:v1"));
        assert_eq!(read(", names: [api]").unwrap().len(), 2);
        assert_eq!(read(", tags: [v1]").unwrap().len(), 2);
        let one = read(", names: api, tags: '{version}', version_marker: stable.txt").unwrap();
        assert!(one.len() == 1 && one[0].ends_with("c.io/k8s/api:v1.31.0-alpha.1_abc"), "{one:?}");
        for bad in [", names: [none]", ", tags: [v9]", ", promoted: x"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(BatchFile::read("images: [{source: a.io/x, names: [x]}]", None, &beside).is_err());
    }

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
        let file = BatchFile::read(FILE, None, &nothing).unwrap();
        let [one, two] = &file.images[..] else { panic!("two images") };
        assert_eq!(
            (one.job.options.base.to_string().as_str(), one.job.options.platforms.len()),
            ("oci:bases:static", 1)
        );
        assert_eq!(
            (two.job.options.base.to_string().as_str(), two.job.options.platforms.len()),
            ("oci:bases:other", 0)
        );
        assert!(matches!(two.job.options.old_base, Some(OldBaseChoice::Layers(2))));
        assert_eq!((two.job.targets.len(), two.job.options.allow.len(), two.at.line), (2, 1, 8));
        assert_eq!(one.job.options.logs, LogChoice::Stdout);
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
            ("images:\n- source: a\n  logs: loud\n", "unknown variant `loud`", "line 3, column 9"),
            ("images:\n- source: a\n  allow: [x]\n", "--allow", "line 3, column 11"),
            ("images:\n- source: a\n  base: UPPER\n", "kind       input", "line 3, column 9"),
            ("images:\n- source: a\n  platform: linux/a\n  platforms: [linux/b]\n", "the same option", "line 3"),
            ("images:\n- source: a\n  old_base: 'layers:x'\n", "whole number", "line 3"),
            ("images:\n- {source: a, target: z.io/b:c}\n- {source: d, target: z.io/b:c}\n", "same target", "line 3"),
            (
                "images:\n- {source: a, target: z.io/b:c}\n- {source: d, target: 'Z.io:0443/b:c'}\n",
                "same target",
                "line 3",
            ),
            (
                "images:\n- {source: a, target: 'oci:o:t'}\n- {source: d, target: 'oci:./x/..//o/:t'}\n",
                "same target",
                "line 3",
            ),
            ("defaults:\n  target: x\nimages: []\n", "unknown key `target`", "line 2, column 3"),
        ] {
            let error = BatchFile::read(text, None, &nothing).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains(place), "{text}{error}");
        }
    }

    #[test]
    fn every_option_of_a_rebase_can_be_given() {
        let text = "images:\n- source: a\n  target: z.io/b:c\n  keep: [/etc/x, /etc/a]\n  extract: true\n  platform: linux/arm64\n  entrypoint: [/app, -v]\n  cmd: '[]'\n  freeze_env: A\n  klog_style: dash\n  on_missing_platform: skip\n  known_base: debian:12\n  source_date_epoch: 7\n";
        let options = &BatchFile::read(text, None, &nothing).unwrap().images[0].job.options;
        assert_eq!(options.keep.iter().map(ToString::to_string).collect::<Vec<_>>(), ["/etc/a", "/etc/x"]);
        assert!(options.extract && options.platforms.len() == 1 && options.known_bases.len() == 1);
        assert_eq!(options.entrypoint.as_ref().unwrap().0, ["/app", "-v"]);
        assert_eq!(options.cmd.as_ref().unwrap().0, Vec::<String>::new());
        assert_eq!(options.source_date_epoch, Some(Epoch(7)));
    }

    #[test]
    fn every_flag_of_a_rebase_is_a_key_and_is_documented() {
        let command = <RebaseOptions as clap::Args>::augment_args(clap::Command::new("rebase"));
        let flags: Vec<String> = command.get_arguments().filter_map(clap::Arg::get_long).map(str::to_owned).collect();
        assert!(flags.len() > 25 && flags.contains(&"sign-key".to_owned()), "{flags:?}");
        let (keys, page) = (Keys::new(), include_str!("../../docs/batch.md"));
        for flag in flags {
            let key = flag.replace('-', "_");
            let plural = keys.of_image().iter().find(|known| **known == key || **known == format!("{key}s")).copied();
            let known = plural.unwrap_or_else(|| panic!("--{flag} is no key of a batch file"));
            assert!(page.contains(&format!("`{known}`")), "docs/batch.md does not name {known}");
        }
    }

    #[test]
    fn the_recipe_is_what_decides_the_result() {
        let recipe = |text: &str, epoch| BatchFile::read(text, epoch, &nothing).unwrap().images[0].recipe.clone();
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
        let sorted = |keys: Vec<&str>| {
            let mut keys: Vec<String> = keys.into_iter().map(str::to_owned).collect();
            keys.sort();
            keys
        };
        let known = Keys::new();
        assert_eq!((keys("image"), keys("settings")), (sorted(known.of_image()), sorted(known.of_defaults())));
        for (key, words) in [
            ("logs", json!(["auto", "klog", "runner", "stdout"])),
            ("klog_style", json!(["auto", "dash", "underscore"])),
            ("on_missing_platform", json!(["refuse", "skip"])),
        ] {
            assert_eq!(schema["$defs"][key]["enum"], words);
            for word in words.as_array().unwrap() {
                read_one(key, word.clone(), Position { line: 1, column: 1 }).unwrap();
            }
        }
    }
}
