//! Makes a rebased image again from the inputs it records, and compares.

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::examine::{Extent, KlogStyle, LogChoice, Taking, Wishes};
use crate::layer::RootPath;
use crate::oci::{
    BASE_DIGEST, BASE_NAME, Descriptor, Document, DocumentKind, EntryRole, Index, Location, Manifest, Platform, json,
};
use crate::plan::{FORMAT, FORMAT_KEY, OPTIONS_KEY, Options, SOURCE_KEY};
use crate::policy::{Allow, OnMissing};
use crate::report::{Verification, VerifyOutcome};
use crate::run;
use crate::settings::{self, Job};
use crate::store::fetch::{OldBaseChoice, Request};
use crate::world::World;

/// Does the work again and compares digests.
pub fn verify(world: &World, image: &Location) -> Result<Verification> {
    let fetcher = world.fetcher();
    let opened = fetcher.opened(image)?;
    let top = opened.top();
    let job = recorded(top, |of| opened.document(&fetcher, of)).map_err(|error| error.fact("image", image))?;
    let derived = run::derive(world, &job)?;
    let derived = derived
        .ok_or_else(|| Error::input("the new base has none of the image's platforms any more").fact("image", image))?;
    let outcome = if derived.top.digest() == top.digest() { VerifyOutcome::Same } else { VerifyOutcome::Different };
    Ok(Verification {
        schema: "underpin.verify/v1",
        outcome,
        image: image.to_string(),
        source: job.request.source.to_string(),
        base: job.request.base.to_string(),
        digest: top.digest(),
        derived: derived.top.digest(),
    })
}

/// The job that the image says it came from.
fn recorded(top: &Document, read: impl Fn(&Descriptor) -> Result<Document>) -> Result<Job> {
    let (annotations, old_base) = match top.kind() {
        DocumentKind::Manifest => {
            let annotations = Manifest::read(top)?.annotations;
            let choice = settings::old_base(&Record::read(&annotations)?.old_base()?)?;
            (annotations, OldBaseChoice::Same(choice))
        }
        DocumentKind::Index => {
            let index = Index::read(top)?;
            let choices = children(&index, read)?;
            (index.annotations, OldBaseChoice::Each(choices))
        }
    };
    Record::read(&annotations)?.job(old_base)
}

/// What each child of an index says about its old base.
fn children(
    index: &Index,
    read: impl Fn(&Descriptor) -> Result<Document>,
) -> Result<Vec<(Platform, crate::examine::base::Choice)>> {
    let mut choices = Vec::new();
    for child in &index.children {
        let EntryRole::Image(Some(platform)) = &child.role else { continue };
        let manifest = Manifest::read(&read(&child.descriptor)?)?;
        // A child that stood on the new base already was passed on as it was, and records nothing.
        let Ok(record) = Record::read(&manifest.annotations) else { continue };
        choices.push((platform.clone(), settings::old_base(&record.old_base()?)?));
    }
    Ok(choices)
}

/// The `dev.underpin.*` annotations, read.
struct Record<'a> {
    annotations: &'a Map<String, Value>,
    options: Map<String, Value>,
}

impl<'a> Record<'a> {
    fn read(annotations: &'a Map<String, Value>) -> Result<Self> {
        let text = |key: &str| annotations.get(key).and_then(Value::as_str);
        match text(FORMAT_KEY) {
            Some(FORMAT) => {}
            Some(other) => {
                return Err(Error::input("the image was made in another format of underpin")
                    .fact("format", other)
                    .fact("this is", FORMAT)
                    .hint("verify it with the release that made it"));
            }
            None => {
                return Err(Error::input("the image does not say that underpin made it").fact("missing", FORMAT_KEY));
            }
        }
        let options = json::read_object(text(OPTIONS_KEY).unwrap_or("{}").as_bytes(), OPTIONS_KEY)?;
        Ok(Self { annotations, options })
    }

    fn text(&self, key: &'static str) -> Result<&str> {
        let text = self.annotations.get(key).and_then(Value::as_str);
        text.ok_or_else(|| Error::input("the image does not record all of its inputs").fact("missing", key))
    }

    fn old_base(&self) -> Result<String> {
        let text = self.options.get("old_base").and_then(Value::as_str);
        text.map(str::to_owned).ok_or_else(|| Error::input("the image does not record its old base"))
    }

    fn word(&self, key: &str) -> Option<&str> {
        self.options.get(key).and_then(Value::as_str)
    }

    fn words(&self, key: &str) -> Option<Vec<String>> {
        let words = self.options.get(key)?.as_array()?;
        Some(words.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    }

    fn command_wishes(&self) -> Wishes {
        let logs = LogChoice::ALL.into_iter().find(|choice| self.word("logs") == Some(choice.word()));
        let style = KlogStyle::ALL.into_iter().find(|style| self.word("klog_style") == Some(style.word()));
        Wishes {
            logs: logs.unwrap_or_default(),
            klog_style: style.unwrap_or_default(),
            freeze: self.words("freeze_env").unwrap_or_default(),
            entrypoint: self.words("entrypoint"),
            cmd: self.words("cmd"),
            ..Wishes::default()
        }
    }

    fn taking(&self) -> Result<Taking> {
        let extracts = self.options.get("extract") == Some(&Value::Bool(true));
        let keep = self.options.get("keep").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let keep = keep.map(RootPath::new).collect::<Result<Vec<RootPath>>>()?;
        Ok(Taking { extent: if extracts { Extent::Extract } else { Extent::Layers }, keep })
    }

    fn job(&self, old_base: OldBaseChoice) -> Result<Job> {
        let base: Location = format!("{}@{}", self.text(BASE_NAME)?, self.text(BASE_DIGEST)?).parse()?;
        let platforms = self.options.get("platforms").and_then(Value::as_array).into_iter().flatten();
        let platforms = platforms.filter_map(Value::as_str).map(str::parse).collect::<Result<Vec<Platform>>>()?;
        let epoch = self.options.get("source_date_epoch").and_then(Value::as_u64).map(|seconds| seconds.to_string());
        let epoch = epoch.as_deref().map(settings::epoch).transpose()?;
        let allow = self.options.get("allow").and_then(Value::as_array).into_iter().flatten();
        let allow = allow.filter_map(Value::as_str).map(str::parse).collect::<Result<Vec<Allow>>>()?;
        let wishes = Wishes { taking: self.taking()?, ..self.command_wishes() };
        let log_runner = self.word("log_runner").map(str::parse).transpose()?;
        let skipped = self.options.get("skipped") == Some(&Value::Bool(true));
        Ok(Job {
            request: Request {
                source: self.text(SOURCE_KEY)?.parse()?,
                base,
                old_base,
                platforms: platforms.clone(),
                known: Vec::new(),
                wishes: wishes.clone(),
                log_runner,
            },
            on_missing: if skipped { OnMissing::Skip } else { OnMissing::Refuse },
            options: Options { epoch, platforms, allow, wishes },
            targets: Vec::new(),
            expect: None,
            exception: None,
        })
    }
}
