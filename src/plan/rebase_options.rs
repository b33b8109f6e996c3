//! The options of a rebase: one type behind the command line, the batch file, the record in a
//! result's annotations (`record`), and `verify`.
//!
//! A new option is a field here, its use in the stage that decides by it, and its documentation. The
//! member names are contract: the batch file's keys and the record's are these.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::base_choice::BaseChoice;
use super::bring::BringName;
use super::record::RecordedOptions;
use super::start_options::{DEFAULT_START_SECONDS, RuntimePath, StartMount, StartSeconds};
use crate::examine::base::OldBaseChoice;
use crate::rules::Allow;
use layer::RootPath;
use oci::error::{Error, Result};
use oci::{Digest, Location, Platform, RepositoryName};

/// The base that an image moves to unless told otherwise.
pub const DEFAULT_BASE: &str = "gcr.io/distroless/static";

/// Everything that a user may ask of a rebase, beside its source and its targets.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RebaseOptions {
    /// New base; `auto` takes the first base candidate that the image fits on
    #[arg(long, value_name = "REF|auto", default_value = DEFAULT_BASE, help_heading = "Where")]
    #[serde(with = "text")]
    pub base: BaseChoice,
    /// Name to record for the source, such as that of the registry behind a layout, archive or mirror; `none` for no name
    #[arg(long, value_name = "NAME", help_heading = "Where")]
    #[serde(with = "text_or_none")]
    pub source_name: Option<RecordedName>,
    /// Name to record for the new base, such as that of the registry behind a layout, archive or mirror; `none` for no name
    #[arg(long, value_name = "NAME", help_heading = "Where")]
    #[serde(with = "text_or_none")]
    pub base_name: Option<RecordedName>,
    /// Move only this platform (repeatable) [default: all platforms of the source]
    #[arg(long = "platform", value_name = "OS/ARCH[/VARIANT]", help_heading = "Where")]
    #[serde(with = "texts", alias = "platform")]
    pub platforms: Vec<Platform>,
    /// What to do if the new base lacks a platform
    #[arg(long, value_name = "ACTION", value_enum, default_value = "refuse", help_heading = "Where")]
    pub on_missing_platform: OnMissing,
    /// Base the image was built on: an image, `scratch`, or `layers:N` for the first N layers [default: detect]
    #[arg(long, value_name = "REF|scratch|layers:N", help_heading = "Old base")]
    #[serde(with = "text_or_none")]
    pub old_base: Option<OldBaseChoice>,
    /// Candidate for the old base, tried if the image does not name its base (repeatable)
    #[arg(long = "known-base", value_name = "REF", help_heading = "Old base")]
    #[serde(with = "texts", alias = "known_base")]
    pub known_bases: Vec<Location>,
    /// Override ENTRYPOINT (JSON array); still verified
    #[arg(long, value_name = "JSON", help_heading = "Command")]
    pub entrypoint: Option<CommandWords>,
    /// Override CMD (JSON array); still verified
    #[arg(long, value_name = "JSON", help_heading = "Command")]
    pub cmd: Option<CommandWords>,
    /// Prove the start of this container of a Kubernetes manifest in place of the image's own command; for images whose command is in the pod
    #[arg(long, value_name = "FILE#CONTAINER", help_heading = "Command")]
    #[serde(with = "text_or_none")]
    pub command_from: Option<CommandFrom>,
    /// Override the user; still verified
    #[arg(long, value_name = "USER", help_heading = "Command")]
    pub user: Option<String>,
    /// Override the working directory; still verified
    #[arg(long, value_name = "PATH", help_heading = "Command")]
    #[serde(with = "text_or_none")]
    pub workdir: Option<WorkdirPath>,
    /// Set this variable (repeatable)
    #[arg(long, value_name = "NAME=VALUE", help_heading = "Command")]
    #[serde(with = "texts")]
    pub env: Vec<Variable>,
    /// Override HEALTHCHECK: `none`, or the command as a JSON array; still verified
    #[arg(long, value_name = "none|JSON", help_heading = "Command")]
    pub healthcheck: Option<HealthcheckChoice>,
    /// Replace this variable in the command with its value in the image (repeatable)
    #[arg(long, value_name = "NAME", help_heading = "Command")]
    #[serde(with = "texts")]
    pub freeze_env: Vec<String>,
    /// How to keep the log file that the shell redirected to
    #[arg(long, value_name = "HOW", value_enum, default_value = "auto", help_heading = "Command")]
    pub logs: LogChoice,
    /// How to spell klog's flags
    #[arg(long, value_name = "STYLE", value_enum, default_value = "auto", help_heading = "Command")]
    pub klog_style: KlogStyle,
    /// Image to copy the log runner from, such as registry.k8s.io/build-image/go-runner
    #[arg(long, value_name = "REF", help_heading = "Command")]
    #[serde(with = "text_or_none")]
    pub log_runner: Option<Location>,
    /// Copy only the program and the files it needs; for squashed images and unknown bases
    #[arg(long, help_heading = "Contents")]
    #[serde(deserialize_with = "flag")]
    pub extract: bool,
    /// Keep this path of the image even if it belongs to the old base or to a package (repeatable)
    #[arg(long, value_name = "PATH", help_heading = "Contents")]
    #[serde(with = "texts")]
    pub keep: Vec<RootPath>,
    /// Leave this path of the image's own layers out, with everything below it (repeatable)
    #[arg(long, value_name = "PATH", help_heading = "Contents")]
    #[serde(with = "texts")]
    pub drop: Vec<RootPath>,
    /// Move the image in spite of this refusal (repeatable); recorded in the report and in the image
    #[arg(long, value_name = "RULE[=PATH]", help_heading = "Policy")]
    #[serde(with = "texts")]
    pub allow: Vec<Allow>,
    /// Refuse unless the result has this digest
    #[arg(long, value_name = "DIGEST", help_heading = "Policy")]
    pub expect_digest: Option<Digest>,
    /// Bring this package, program or path of the image along, with the libraries it needs (repeatable)
    #[arg(long, value_name = "NAME|PATH", help_heading = "Contents")]
    #[serde(with = "texts")]
    pub bring: Vec<BringName>,
    /// Base that `--base auto` may choose, smallest first (repeatable) [default: static, base-nossl, base and cc of gcr.io/distroless]
    #[arg(long = "base-candidate", value_name = "REF", help_heading = "Where")]
    #[serde(with = "texts", alias = "base_candidate")]
    pub base_candidates: Vec<Location>,
    /// Attach this statement about the result to it, as an OCI referrer (repeatable)
    #[arg(long, value_name = "STATEMENT", value_enum, help_heading = "Attestations")]
    #[serde(with = "texts")]
    pub attest: Vec<AttestKind>,
    /// Sign the result and the statements about it with this key: a PEM file, or cosign's with its password in `COSIGN_PASSWORD`; `env://NAME` takes it from a variable
    #[arg(long, value_name = "FILE", help_heading = "Attestations")]
    pub sign_key: Option<String>,
    /// Start source and result in a sandbox before anything is published, and refuse if the result does worse; watched for SECONDS [default: 5]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = DEFAULT_START_SECONDS, help_heading = "Start")]
    pub start: Option<StartSeconds>,
    /// Start with this argument after the image's command (repeatable)
    #[arg(long = "start-arg", value_name = "ARG", allow_hyphen_values = true, help_heading = "Start")]
    #[serde(with = "texts")]
    pub start_args: Vec<String>,
    /// Start with this variable (repeatable)
    #[arg(long, value_name = "NAME=VALUE", help_heading = "Start")]
    #[serde(with = "texts")]
    pub start_env: Vec<Variable>,
    /// Start with this path of the host, read-only (repeatable)
    #[arg(long = "start-mount", value_name = "HOST-PATH:PATH", help_heading = "Start")]
    #[serde(with = "texts")]
    pub start_mounts: Vec<StartMount>,
    /// OCI runtime to start with [default: runc, crun or youki on PATH]
    #[arg(long, value_name = "PATH", help_heading = "Start")]
    #[serde(with = "text_or_none")]
    pub runtime: Option<RuntimePath>,
    /// Refuse if a platform cannot be started on this machine
    #[arg(long, help_heading = "Start")]
    #[serde(deserialize_with = "flag")]
    pub require_all_platforms: bool,
    /// `SOURCE_DATE_EPOCH`, which the command line takes from the environment.
    #[arg(skip)]
    pub source_date_epoch: Option<Epoch>,
}

impl Default for RebaseOptions {
    fn default() -> Self {
        Self {
            base: default_base(),
            source_name: None,
            base_name: None,
            old_base: None,
            known_bases: Vec::new(),
            platforms: Vec::new(),
            on_missing_platform: OnMissing::default(),
            allow: Vec::new(),
            logs: LogChoice::default(),
            klog_style: KlogStyle::default(),
            log_runner: None,
            freeze_env: Vec::new(),
            entrypoint: None,
            cmd: None,
            command_from: None,
            user: None,
            workdir: None,
            env: Vec::new(),
            healthcheck: None,
            extract: false,
            keep: Vec::new(),
            drop: Vec::new(),
            expect_digest: None,
            bring: Vec::new(),
            base_candidates: Vec::new(),
            attest: Vec::new(),
            sign_key: None,
            start: None,
            start_args: Vec::new(),
            start_env: Vec::new(),
            start_mounts: Vec::new(),
            runtime: None,
            require_all_platforms: false,
            source_date_epoch: None,
        }
    }
}

/// The name of an input that enters the result: a registry's without a tag, or none at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedName {
    Registry(RepositoryName),
    None,
}

impl RecordedName {
    /// What is recorded of an image that was read from `place`.
    pub(super) fn choose<'a>(given: Option<&'a Self>, place: &'a Location) -> Option<&'a RepositoryName> {
        match given {
            Some(Self::Registry(name)) => Some(name),
            Some(Self::None) => None,
            None => place.repository(),
        }
    }
}

impl FromStr for RecordedName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "none" { Ok(Self::None) } else { text.parse().map(Self::Registry) }
    }
}

impl fmt::Display for RecordedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry(name) => name.fmt(f),
            Self::None => f.write_str("none"),
        }
    }
}

#[expect(clippy::expect_used, reason = "a test holds that the constant is a reference")]
fn default_base() -> BaseChoice {
    DEFAULT_BASE.parse().expect("the default base is a reference")
}

impl RebaseOptions {
    /// In one order and each once, whatever the order they were given in: the result records them.
    #[must_use]
    pub fn normalized(mut self) -> Self {
        sort(&mut self.allow);
        sort(&mut self.platforms);
        sort(&mut self.keep);
        sort(&mut self.drop);
        sort(&mut self.bring);
        sort(&mut self.freeze_env);
        sort(&mut self.attest);
        self.env = last_of_each(self.env);
        self
    }

    /// The keys of a batch file, in the order of the fields.
    #[must_use]
    pub fn keys() -> Vec<String> {
        Self::default().members().keys().cloned().collect()
    }

    /// Whether anything is attached to the result.
    #[must_use]
    pub fn attaches(&self) -> bool {
        !self.attest.is_empty() || self.sign_key.is_some()
    }

    /// Whether the command, the contents and the logs are left as they would be without options: only
    /// then can an image that is based on the new base already be passed on as it is.
    #[must_use]
    pub fn changes_nothing(&self) -> bool {
        let Self { logs, klog_style, freeze_env, .. } = self;
        let command = freeze_env.is_empty() && !self.overrides_command() && !self.overrides_settings();
        let logs = *logs == LogChoice::Auto && *klog_style == KlogStyle::Auto;
        command && logs && !self.selects_contents() && self.drop.is_empty()
    }

    /// Whether what goes along depends on more than the layers.
    #[must_use]
    pub fn selects_contents(&self) -> bool {
        self.extract || !self.keep.is_empty() || !self.bring.is_empty()
    }

    /// Whether the user gave the command.
    #[must_use]
    pub fn overrides_command(&self) -> bool {
        self.entrypoint.is_some() || self.cmd.is_some()
    }

    /// Whether the user gave anything else that a container starts with.
    fn overrides_settings(&self) -> bool {
        self.user.is_some() || self.workdir.is_some() || !self.env.is_empty() || self.healthcheck.is_some()
    }

    /// Whether `text` can be a value of the option, or one of its values: an error with all its facts,
    /// where serde keeps a message only.
    pub fn check_value(key: &str, text: &str) -> Result<()> {
        match key {
            "base" => text.parse::<BaseChoice>().map(drop),
            "known_bases" | "log_runner" | "base_candidates" => text.parse::<Location>().map(drop),
            "source_name" | "base_name" => text.parse::<RecordedName>().map(drop),
            "platforms" => text.parse::<Platform>().map(drop),
            "old_base" => text.parse::<OldBaseChoice>().map(drop),
            "bring" => text.parse::<BringName>().map(drop),
            "keep" | "drop" => text.parse::<RootPath>().map(drop),
            "workdir" => text.parse::<WorkdirPath>().map(drop),
            "command_from" => text.parse::<CommandFrom>().map(drop),
            "env" | "start_env" => text.parse::<Variable>().map(drop),
            "start" => text.parse::<StartSeconds>().map(drop),
            "start_mounts" => text.parse::<StartMount>().map(drop),
            "runtime" => text.parse::<RuntimePath>().map(drop),
            "allow" => text.parse::<Allow>().map(drop),
            "attest" => text.parse::<AttestKind>().map(drop),
            "expect_digest" => text.parse::<Digest>().map(drop),
            "source_date_epoch" => text.parse::<Epoch>().map(drop),
            _ => Ok(()),
        }
    }

    /// The options that are not the default, as a batch file has them.
    #[must_use]
    pub fn given(&self) -> Map<String, Value> {
        let default = Self::default().members();
        self.members().into_iter().filter(|(key, value)| default.get(key) != Some(value)).collect()
    }

    pub(super) fn members(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(members)) => members,
            _ => Map::new(),
        }
    }

    /// These options in place of all that a result records; the base stays.
    pub(super) fn with(&self, recorded: &RecordedOptions) -> Result<Self> {
        let members = Value::Object(recorded.clone().into_iter().collect());
        let options: Self = serde_json::from_value(members)
            .map_err(|error| Error::usage("the options cannot be read").cause(error.to_string()))?;
        Ok(Self { base: self.base.clone(), ..options })
    }
}

fn sort<T: Ord>(list: &mut Vec<T>) {
    list.sort();
    list.dedup();
}

/// By name, each once: of several values the last counts, as in a container.
fn last_of_each(variables: Vec<Variable>) -> Vec<Variable> {
    let by_name = variables.into_iter().map(|variable| (variable.name, variable.value));
    let by_name: BTreeMap<String, String> = by_name.collect();
    by_name.into_iter().map(|(name, value)| Variable { name, value }).collect()
}

/// What to do about a platform that the new base lacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnMissing {
    #[default]
    Refuse,
    Skip,
}

/// A statement about a result that can be attached to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum AttestKind {
    /// What the result was made from, and how: SLSA Provenance v1
    Provenance,
    /// What each platform contains: SPDX 2.3 and `CycloneDX` 1.6
    Sbom,
}

impl FromStr for AttestKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let kinds = Self::value_variants();
        kinds.iter().find(|kind| kind.to_string() == text).copied().ok_or_else(|| {
            let kinds: Vec<String> = kinds.iter().map(ToString::to_string).collect();
            Error::usage("not a statement that can be attached").fact("given", text).fact("known", kinds.join(", "))
        })
    }
}

impl fmt::Display for AttestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Provenance => "provenance",
            Self::Sbom => "sbom",
        })
    }
}

/// How output that went to a file gets there without a shell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogChoice {
    /// klog's flags if the program is proven to accept them, else a log runner if there is one
    #[default]
    Auto,
    /// Pass klog's flags to the program
    Klog,
    /// Start the program through kube-log-runner
    Runner,
    /// Drop the file: the container runtime keeps the log
    Stdout,
}

/// How klog's flags are spelled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KlogStyle {
    /// As the program spells them
    #[default]
    Auto,
    /// `--log-file`
    Dash,
    /// `--log_file`
    Underscore,
}

/// The words of ENTRYPOINT or CMD. An empty list clears them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommandWords(pub Vec<String>);

impl FromStr for CommandWords {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let words = serde_json::from_str(text).map(Self);
        words.map_err(|_| {
            Error::usage("expected a JSON array of strings, such as [\"/app\", \"--flag\"]").fact("given", text)
        })
    }
}

impl<'de> Deserialize<'de> for CommandWords {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            List(Vec<String>),
            /// As the flag takes it.
            Json(String),
        }
        match Written::deserialize(from)? {
            Written::List(words) => Ok(Self(words)),
            Written::Json(text) => text.parse().map_err(one_line),
        }
    }
}

/// A container of a manifest: `FILE#CONTAINER`, or `FILE#KIND/NAME/CONTAINER`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandFrom {
    pub file: String,
    pub container: String,
}

impl FromStr for CommandFrom {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::usage("a container of a manifest must be given as FILE#CONTAINER").fact("given", text);
        let parts = text.rsplit_once('#').filter(|(file, container)| !file.is_empty() && !container.is_empty());
        let (file, container) = parts.ok_or_else(wrong)?;
        Ok(Self { file: file.to_owned(), container: container.to_owned() })
    }
}

impl fmt::Display for CommandFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.file, self.container)
    }
}

/// The directory that a container starts in: an absolute path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkdirPath(pub String);

impl FromStr for WorkdirPath {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if !text.starts_with('/') {
            return Err(Error::usage("the working directory must be an absolute path").fact("given", text));
        }
        RootPath::new(text).map(|_| Self(text.to_owned()))
    }
}

impl fmt::Display for WorkdirPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A variable to be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    pub value: String,
}

impl FromStr for Variable {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::usage("a variable must be given as NAME=VALUE").fact("given", text);
        let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
        if text.contains('\0') {
            return Err(Error::usage("a variable cannot contain a NUL character"));
        }
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

/// The health check that takes the place of the image's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthcheckChoice {
    None,
    /// The words of its command, or a `Test` as a config has it: `CMD`, `CMD-SHELL` and what follows.
    Test(CommandWords),
}

impl HealthcheckChoice {
    /// The member of the config. Interval and retries stay as the image has them.
    pub(super) fn member(&self, there: Option<&Value>) -> Value {
        let words = match self {
            Self::None => return json!({"Test": ["NONE"]}),
            Self::Test(words) => &words.0,
        };
        let is_test = matches!(words.first().map(String::as_str), Some("CMD" | "CMD-SHELL" | "NONE"));
        let kind = (!is_test).then(|| "CMD".to_owned());
        let test: Vec<String> = kind.into_iter().chain(words.iter().cloned()).collect();
        let mut member = there.and_then(Value::as_object).cloned().unwrap_or_default();
        member.insert("Test".to_owned(), test.into());
        Value::Object(member)
    }
}

impl FromStr for HealthcheckChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let words = match text {
            "none" => return Ok(Self::None),
            _ => text.parse::<CommandWords>()?,
        };
        if words.0.is_empty() {
            return Err(Error::usage("a health check needs a command; `none` removes it").fact("given", text));
        }
        Ok(Self::Test(words))
    }
}

impl Serialize for HealthcheckChoice {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => to.serialize_str("none"),
            Self::Test(words) => words.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for HealthcheckChoice {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            List(Vec<String>),
            /// As the flag takes it.
            Text(String),
        }
        match Written::deserialize(from)? {
            Written::List(words) if words.is_empty() => Err(serde::de::Error::custom("a health check needs a command")),
            Written::List(words) => Ok(Self::Test(CommandWords(words))),
            Written::Text(text) => text.parse().map_err(one_line),
        }
    }
}

/// Seconds since 1970, from `SOURCE_DATE_EPOCH`: the only time that can enter a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Epoch(pub u64);

impl FromStr for Epoch {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        const YEAR_9999: u64 = 253_402_300_799;
        let seconds = text.parse().ok().filter(|seconds| *seconds <= YEAR_9999 && !text.starts_with('+'));
        seconds
            .map(Self)
            .ok_or_else(|| Error::usage("SOURCE_DATE_EPOCH is not a number of seconds since 1970").fact("value", text))
    }
}

impl<'de> Deserialize<'de> for Epoch {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        number_or_text(from)
    }
}

/// A number of a batch file, with quotes or without.
pub(super) fn number_or_text<'de, T: FromStr<Err = Error>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(u64),
        Text(String),
    }
    let text = match Written::deserialize(from)? {
        Written::Number(number) => number.to_string(),
        Written::Text(text) => text,
    };
    text.parse().map_err(one_line)
}

impl Epoch {
    /// The moment as RFC 3339 in UTC, without a fraction.
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        let (days, seconds) = (self.0 / 86_400, self.0 % 86_400);
        let (year, month, day) = civil(days);
        format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", seconds / 3_600, seconds / 60 % 60, seconds % 60)
    }
}

impl Epoch {
    /// `2020-02-02T10:00:00.5+02:00`; parts of a second are left out. `None` before 1970.
    #[must_use]
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        let (date, rest) = text.split_once(['T', 't'])?;
        let (time, offset) = rest.split_at_checked(8)?;
        let number = |text: &str, from: usize, to: usize| -> Option<i64> {
            let digits = text.get(from..to).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
            digits.parse().ok()
        };
        let is_parted = |text: &str, by: &str, length: usize| {
            text.len() == length
                && text
                    .char_indices()
                    .all(|(at, c)| c.is_ascii_digit() || by.get(at..=at) == Some(c.encode_utf8(&mut [0; 4])))
        };
        if !is_parted(date, "    -  -", 10) || !is_parted(time, "  :  :", 8) {
            return None;
        }
        let days = days(number(date, 0, 4)?, number(date, 5, 7)?, number(date, 8, 10)?)?;
        let of_day = number(time, 0, 2)? * 3_600 + number(time, 3, 5)? * 60 + number(time, 6, 8)?;
        let offset = offset.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
        let away = match offset.split_at_checked(1)? {
            ("Z" | "z", "") => 0,
            (sign @ ("+" | "-"), by) if is_parted(by, "  :", 5) => {
                let seconds = number(by, 0, 2)? * 3_600 + number(by, 3, 5)? * 60;
                if sign == "+" { seconds } else { -seconds }
            }
            _ => return None,
        };
        u64::try_from(days * 86_400 + of_day - away).ok().map(Self)
    }
}

/// Year, month and day to days since 1970 (Howard Hinnant's `days_from_civil`).
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// Days since 1970 to year, month and day (Howard Hinnant's `civil_from_days`).
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

/// What is wrong with a value, without the layout that a terminal gets.
fn one_line<E: serde::de::Error>(error: impl fmt::Display) -> E {
    let text = error.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    E::custom(lines.join("; "))
}

/// A switch: YAML has it as a word.
fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Bool(bool),
        Text(String),
    }
    match Written::deserialize(from)? {
        Written::Bool(set) => Ok(set),
        Written::Text(text) => text.parse().map_err(|_| serde::de::Error::custom("expected true or false")),
    }
}

/// One value in its usual text form.
mod text {
    use super::{Deserialize, Deserializer, FromStr, Serializer, fmt, one_line};

    pub(super) fn serialize<T: fmt::Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(super) fn deserialize<'de, T: FromStr<Err: fmt::Display>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<T, D::Error> {
        String::deserialize(from)?.parse().map_err(one_line)
    }
}

/// The same where there may be none.
mod text_or_none {
    use super::{Deserialize, Deserializer, FromStr, Serializer, fmt, one_line};

    #[expect(clippy::ref_option, reason = "serde passes the field as it is")]
    pub(super) fn serialize<T: fmt::Display, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => to.collect_str(value),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, T: FromStr<Err: fmt::Display>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| text.parse().map_err(one_line)).transpose()
    }
}

/// A list of them; one text stands for a list of one.
mod texts {
    use super::{Deserialize, Deserializer, FromStr, Serializer, fmt, one_line};

    pub(super) fn serialize<T: fmt::Display, S: Serializer>(values: &[T], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(values.iter().map(ToString::to_string))
    }

    pub(super) fn deserialize<'de, T: FromStr<Err: fmt::Display>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<T>, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            One(String),
            List(Vec<String>),
        }
        let texts = match Written::deserialize(from)? {
            Written::One(text) => vec![text],
            Written::List(texts) => texts,
        };
        texts.iter().map(|text| text.parse().map_err(one_line)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every option with a value that is not its default.
    fn full() -> RebaseOptions {
        RebaseOptions {
            base: "oci:bases:static".parse().unwrap(),
            source_name: Some("a.io/app".parse().unwrap()),
            base_name: Some(RecordedName::None),
            old_base: Some(OldBaseChoice::Layers(2)),
            known_bases: vec!["debian:12".parse().unwrap()],
            platforms: vec!["linux/arm64".parse().unwrap()],
            on_missing_platform: OnMissing::Skip,
            allow: vec!["needs-tool=iptables".parse().unwrap()],
            logs: LogChoice::Runner,
            klog_style: KlogStyle::Dash,
            log_runner: Some("a.io/runner:v1".parse().unwrap()),
            freeze_env: vec!["A".to_owned()],
            entrypoint: Some(CommandWords(vec!["/app".to_owned()])),
            cmd: Some(CommandWords(Vec::new())),
            command_from: Some("manifests/api.yaml#api".parse().unwrap()),
            user: Some("65532".to_owned()),
            workdir: Some(WorkdirPath("/srv".to_owned())),
            env: vec!["A=b=c".parse().unwrap()],
            healthcheck: Some(HealthcheckChoice::None),
            extract: true,
            keep: vec!["/etc/x".parse().unwrap()],
            drop: vec!["/run.sh".parse().unwrap()],
            expect_digest: Some(Digest::of(b"")),
            bring: vec!["iptables".parse().unwrap(), "/etc/x".parse().unwrap()],
            base_candidates: vec!["a.io/static:v1".parse().unwrap()],
            attest: vec![AttestKind::Provenance],
            sign_key: Some("cosign.key".to_owned()),
            start: Some("3".parse().unwrap()),
            start_args: vec!["--flag".to_owned()],
            start_env: vec!["A=1".parse().unwrap()],
            start_mounts: vec!["/etc/hosts:/data/hosts".parse().unwrap()],
            runtime: Some("/usr/bin/crun".parse().unwrap()),
            require_all_platforms: true,
            source_date_epoch: Some(Epoch(7)),
        }
    }

    #[test]
    fn options_read_back_as_they_were_written() {
        let value = serde_json::to_value(full()).unwrap();
        assert_eq!(serde_json::from_value::<RebaseOptions>(value).unwrap(), full());
        assert_eq!(serde_json::from_value::<RebaseOptions>(json!({})).unwrap(), RebaseOptions::default());
        assert_eq!(RebaseOptions::default().base, DEFAULT_BASE.parse().unwrap());
    }

    #[test]
    fn yaml_writes_switches_and_lists_as_words() {
        let value =
            json!({"extract": "true", "platform": "linux/amd64", "entrypoint": "[\"/a\"]", "source_date_epoch": "5"});
        let options: RebaseOptions = serde_json::from_value(value).unwrap();
        assert!(options.extract && options.platforms.len() == 1);
        assert_eq!((options.entrypoint.unwrap().0, options.source_date_epoch), (vec!["/a".to_owned()], Some(Epoch(5))));
        let value = json!({"env": "A=1", "drop": "/x", "healthcheck": "none", "workdir": "/s", "user": "1", "keep": ["/a", "/b"]});
        let options: RebaseOptions = serde_json::from_value(value).unwrap();
        assert_eq!((options.env.len(), options.drop.len(), options.keep.len()), (1, 1, 2));
        assert_eq!((options.healthcheck, options.workdir.unwrap().0.as_str()), (Some(HealthcheckChoice::None), "/s"));
        for bad in [json!({"workdir": "s"}), json!({"env": ["A"]}), json!({"healthcheck": []})] {
            assert!(serde_json::from_value::<RebaseOptions>(bad.clone()).is_err(), "{bad}");
        }
        for bad in [json!({"extract": "yes"}), json!({"keep": [1]}), json!({"logs": "loud"}), json!({"nope": 1})] {
            assert!(serde_json::from_value::<RebaseOptions>(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn overrides_are_read_from_flags_and_files_alike() {
        for (text, test) in [
            ("none", json!(["NONE"])),
            (r#"["/app", "health"]"#, json!(["CMD", "/app", "health"])),
            (r#"["CMD-SHELL", "/app health || exit 1"]"#, json!(["CMD-SHELL", "/app health || exit 1"])),
        ] {
            let choice: HealthcheckChoice = text.parse().unwrap();
            assert_eq!(choice.member(Some(&json!({"Test": ["CMD", "x"]})))["Test"], test, "{text}");
            let written = serde_json::to_value(&choice).unwrap();
            assert_eq!(serde_json::from_value::<HealthcheckChoice>(written).unwrap(), choice, "{text}");
        }
        let kept: HealthcheckChoice = r#"["/app"]"#.parse().unwrap();
        assert_eq!(kept.member(Some(&json!({"Test": [], "Retries": 3})))["Retries"], 3);
        for bad in ["", "[]", "null", "/app", "{}"] {
            assert!(bad.parse::<HealthcheckChoice>().is_err(), "{bad}");
        }
        for (text, is_good) in
            [("a.yaml#b", true), ("a#b.yaml#Pod/x/b", true), ("a.yaml", false), ("#b", false), ("a#", false)]
        {
            assert_eq!(text.parse::<CommandFrom>().is_ok(), is_good, "{text}");
        }
        for (bad, is_good) in [("srv", false), ("", false), ("/../x", false), ("/srv", true)] {
            assert_eq!(bad.parse::<WorkdirPath>().is_ok(), is_good, "{bad}");
        }
        for (bad, is_good) in [("A", false), ("=b", false), ("A=", true), ("A=b=c", true), ("A=\0", false)] {
            assert_eq!(bad.parse::<Variable>().is_ok(), is_good, "{bad}");
        }
    }

    #[test]
    fn of_several_values_the_last_counts() {
        let env = ["B=1", "A=2", "B=0"].map(|text| text.parse().unwrap()).to_vec();
        let options = RebaseOptions { env, ..RebaseOptions::default() }.normalized();
        assert_eq!(options.env.iter().map(ToString::to_string).collect::<Vec<_>>(), ["A=2", "B=0"]);
        assert!(!options.changes_nothing());
    }

    #[test]
    fn epochs_are_plain_seconds() {
        assert_eq!("0".parse::<Epoch>().unwrap(), Epoch(0));
        for bad in ["", "-1", "+1", "1.5", "x", "99999999999999999999", "253402300800"] {
            assert!(bad.parse::<Epoch>().is_err(), "{bad}");
        }
    }

    #[test]
    fn seconds_become_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (4_102_444_799, "2099-12-31T23:59:59Z"),
        ] {
            assert_eq!(Epoch(seconds).to_rfc3339(), text);
            assert_eq!(Epoch::from_rfc3339(text), Some(Epoch(seconds)), "{text}");
        }
    }

    #[test]
    fn times_are_read_with_their_offset_or_not_at_all() {
        for (text, seconds) in [
            ("2020-02-02T10:00:00.123456789Z", Some(1_580_637_600)),
            ("2020-02-02T12:00:00+02:00", Some(1_580_637_600)),
            ("2020-02-02T04:30:00.5-05:30", Some(1_580_637_600)),
            ("0001-01-01T00:00:00Z", None),
            ("2020-13-02T10:00:00Z", None),
            ("2020-02-02 10:00:00Z", None),
            ("2020-02-02T10:00:00", None),
            ("2020-02-02T10:00:00Zx", None),
            ("+020-02-02T10:00:00Z", None),
            ("2020-02-02T10:00:00+2", None),
            ("", None),
        ] {
            assert_eq!(Epoch::from_rfc3339(text), seconds.map(Epoch), "{text}");
        }
    }
}
