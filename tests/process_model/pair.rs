//! One config on one root.

use serde_json::{Value, json};

use crate::program::observer;
use crate::support::recipe::{Content, Recipe};
use crate::support::tar_layer::{Entry, Layer, Pack, file, folder, program};

pub const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1001:App:/srv/app:/bin/sh\n\
    twin:x:1000:7::/other:\nsvc:x:33:33:svc:/var/www:\nnobody:x:65534:65534:nobody:/nonexistent:\n";
pub const GROUP: &str = "root:x:0:\ndaemon:x:1:svc\naudio:x:29:games,app\napp:x:1001:\nextra:x:30:app,twin\n\
    www:x:33:\nnogroup:x:65534:\n";

/// Why the model says that nothing starts where runc starts something.
pub type Caution = &'static str;

#[derive(Debug, Clone)]
pub struct Pair {
    pub name: String,
    /// The `config` member of the image's config.
    pub config: Value,
    /// A layer below, the same for many.
    pub below: Vec<Entry>,
    pub files: Vec<Entry>,
    /// What a wrapper makes of the environment: the variables with the values that they get.
    pub changes: Vec<(&'static str, Option<&'static str>)>,
    /// The directory that a wrapper or a script changes to.
    pub goes_to: Option<&'static str>,
    pub caution: Option<Caution>,
}

/// `/app` is the observer, and the entrypoint.
pub fn pair(name: impl Into<String>) -> Pair {
    Pair {
        name: name.into(),
        config: json!({"Entrypoint": ["/app"]}),
        below: Vec::new(),
        files: vec![
            folder("etc/"),
            file("etc/passwd", PASSWD),
            file("etc/group", GROUP),
            folder("usr/"),
            folder("usr/bin/"),
            folder("opt/"),
            folder("srv/"),
            folder("tmp/").mode(0o1777),
            program("app", observer()),
        ],
        changes: Vec::new(),
        goes_to: None,
        caution: None,
    }
}

impl Pair {
    pub fn files<const N: usize>(mut self, files: [Entry; N]) -> Self {
        self.files.extend(files);
        self
    }

    pub fn below(self, below: Vec<Entry>) -> Self {
        Self { below, ..self }
    }

    /// Without what is at these paths.
    pub fn without<const N: usize>(mut self, paths: [&str; N]) -> Self {
        self.files.retain(|entry| !paths.contains(&entry.path()));
        self
    }

    pub fn set(mut self, member: &str, value: Value) -> Self {
        self.config[member] = value;
        self
    }

    pub fn runs<W: AsRef<str>>(self, words: impl IntoIterator<Item = W>) -> Self {
        let words: Vec<String> = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
        self.set("Entrypoint", json!(words))
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

    pub fn changes<const N: usize>(self, changes: [(&'static str, Option<&'static str>); N]) -> Self {
        Self { changes: changes.to_vec(), ..self }
    }

    pub fn goes_to(self, directory: &'static str) -> Self {
        Self { goes_to: Some(directory), ..self }
    }

    pub fn cautious(self, why: Caution) -> Self {
        Self { caution: Some(why), ..self }
    }

    pub fn image(&self) -> Content {
        let layers = [&self.below, &self.files].into_iter().filter(|entries| !entries.is_empty());
        let layers = layers.map(|entries| Layer::of(Pack::Plain, entries)).collect();
        Recipe { config: self.config.clone(), ..Recipe::new("linux/amd64", layers) }.build()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    User,
    /// The working directory cannot be made or entered.
    WorkingDir,
    /// The runtime's own `execve`, interpreters included.
    Exec,
    /// What stands behind a wrapper or in a script.
    Behind,
}

/// What is seen of the program that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    pub uid: String,
    pub gid: String,
    pub groups: Vec<String>,
    pub cwd: String,
    /// With HOME.
    pub env: Vec<(String, String)>,
    pub exe: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Runs(Box<Observed>),
    Fails(Stage, String),
}
