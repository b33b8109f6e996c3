//! One image of the sweep: the base that it was built on, what its own layers and its Dockerfile add, and
//! the base that it shall move to.

use serde_json::{Map, Value, json};

use super::bases::{self, BaseImage};
use super::program::observer;
use crate::support::recipe::Recipe;
use crate::support::tar_layer::{Entry, Layer, Pack, program};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Made to be accepted and to start worse. It may be refused; it may move only if it starts as before.
    Attack,
    /// Its twin, or an image as people have them. It must move, and start as before.
    Ordinary,
}

/// How underpin learns of the old base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Flag,
    Known,
}

#[derive(Debug, Clone)]
pub struct Case {
    pub name: String,
    pub kind: Kind,
    pub old: BaseImage,
    pub new: BaseImage,
    pub found: Found,
    /// The image's own layers.
    pub layers: Vec<Vec<Entry>>,
    /// What its Dockerfile sets.
    pub own: Value,
    /// Inherited variables that somebody would miss.
    pub noticed: Vec<String>,
    /// What may be lost if a warning names it: the program merely mentions it.
    pub warned: Vec<String>,
    /// What a pod gives as the command, where the image has none.
    pub given: Option<Vec<String>>,
    /// How the source ends.
    pub code: i32,
    pub flags: Vec<String>,
}

pub fn attack(name: &str) -> Case {
    Case::new(name, Kind::Attack)
}

pub fn ordinary(name: &str) -> Case {
    Case::new(name, Kind::Ordinary)
}

fn texts<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

impl Case {
    /// `/app` is the observer, and the entrypoint.
    fn new(name: &str, kind: Kind) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            old: bases::debian(),
            new: bases::distroless(),
            found: Found::Flag,
            layers: vec![vec![program("app", observer())]],
            own: json!({"Entrypoint": ["/app"]}),
            noticed: Vec::new(),
            warned: Vec::new(),
            given: None,
            code: 0,
            flags: Vec::new(),
        }
    }

    pub fn old(self, old: BaseImage) -> Self {
        Self { old, ..self }
    }

    pub fn new_base(self, new: BaseImage) -> Self {
        Self { new, ..self }
    }

    /// More files in the image's first own layer.
    pub fn files<const N: usize>(mut self, files: [Entry; N]) -> Self {
        self.layers[0].extend(files);
        self
    }

    /// These files, and no `/app`.
    pub fn only<const N: usize>(mut self, files: [Entry; N]) -> Self {
        self.layers[0] = files.into();
        self
    }

    /// Another layer of the image's own.
    pub fn layer<const N: usize>(mut self, files: [Entry; N]) -> Self {
        self.layers.push(files.into());
        self
    }

    pub fn set(mut self, member: &str, value: Value) -> Self {
        self.own[member] = value;
        self
    }

    /// Without an ENTRYPOINT of its own.
    pub fn no_entrypoint(mut self) -> Self {
        self.own.as_object_mut().unwrap().remove("Entrypoint");
        self
    }

    pub fn entrypoint<const N: usize>(self, words: [&str; N]) -> Self {
        self.set("Entrypoint", json!(words.to_vec()))
    }

    pub fn cmd<const N: usize>(self, words: [&str; N]) -> Self {
        self.set("Cmd", json!(words.to_vec()))
    }

    pub fn user(self, user: &str) -> Self {
        self.set("User", json!(user))
    }

    pub fn workdir(self, directory: &str) -> Self {
        self.set("WorkingDir", json!(directory))
    }

    pub fn env<const N: usize>(self, variables: [&str; N]) -> Self {
        self.set("Env", json!(variables.to_vec()))
    }

    pub fn noticed<const N: usize>(self, names: [&str; N]) -> Self {
        Self { noticed: texts(names), ..self }
    }

    pub fn warned<const N: usize>(self, things: [&str; N]) -> Self {
        Self { warned: texts(things), ..self }
    }

    pub fn given<const N: usize>(self, words: [&str; N]) -> Self {
        Self { given: Some(texts(words)), ..self }
    }

    pub fn ends_with(self, code: i32) -> Self {
        Self { code, ..self }
    }

    pub fn known(self) -> Self {
        Self { found: Found::Known, ..self }
    }

    /// The image as a builder writes it.
    pub fn recipe(&self) -> Recipe {
        let mut recipe = self.old.recipe();
        recipe.layers.extend(self.layers.iter().map(|files| Layer::of(Pack::Gzip, files)));
        recipe.config = inherited(&self.old.config, &self.own);
        recipe
    }

    /// The variables whose change somebody notices: what the image set itself, and what the case names.
    pub fn noticed_variables(&self) -> Vec<String> {
        let own = self.own["Env"].as_array().into_iter().flatten();
        let own = own.filter_map(|entry| Some(entry.as_str()?.split_once('=')?.0.to_owned()));
        own.chain(self.noticed.iter().cloned()).collect()
    }
}

/// A Dockerfile's result: what it sets lies over what the base had. An ENTRYPOINT clears the base's CMD.
fn inherited(base: &Value, own: &Value) -> Value {
    let mut config: Map<String, Value> = base.as_object().unwrap().clone();
    if own.get("Entrypoint").is_some() {
        config.remove("Cmd");
    }
    for (member, value) in own.as_object().unwrap() {
        let value = match member.as_str() {
            "Env" => json!(merged_variables(&base["Env"], value)),
            _ => value.clone(),
        };
        config.insert(member.clone(), value);
    }
    Value::Object(config)
}

fn merged_variables(base: &Value, own: &Value) -> Vec<Value> {
    let name = |entry: &Value| entry.as_str().unwrap().split('=').next().unwrap().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let own = list(own);
    let kept = list(base).into_iter().filter(|entry| own.iter().all(|new| name(new) != name(entry)));
    kept.chain(own.iter().cloned()).collect()
}
