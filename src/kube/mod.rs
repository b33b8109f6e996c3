//! Kubernetes manifests as text: every command of every workload without its shell, every other
//! byte as it was.
//!
//! ```text
//! text ► template ► yaml, json ► Tree ► object ► site ► decide ► rewrite ► text
//! ```
//!
//! The rule of the module: text in, text out, and the new text is read again before anybody sees
//! it. What is not proven to be the intended value is not written. How the kubelet expands
//! variables is `shell::Place`'s; which of them are known is `environment`'s.

mod decide;
mod environment;
mod image;
mod insert;
mod intent;
mod json;
mod log;
mod mount;
mod object;
mod position;
mod rewrite;
mod scalar;
mod site;
mod splice;
mod template;
#[cfg(test)]
mod tests;
mod tree;
mod why;
mod yaml;

pub use image::{Answer, Images, NoImages, Question};
pub use object::Name;
pub use position::Position;
pub use site::What;
pub use why::{Remark, Rule, Why};

use position::Lines;

use decide::{Decided, Decision, Setting};
use scalar::Language;
use site::Site;
use splice::Sheet;
use template::Hidden;
use tree::{Id, Tree};

use crate::error::Result;
use crate::examine::{KlogStyle, LogChoice};
use crate::shell::Log;

/// A longer manifest is not read.
pub const LONGEST: u64 = 16 << 20;

/// What is wanted.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    pub logs: LogChoice,
    pub klog_style: KlogStyle,
    pub template: Template,
    pub images: &'a dyn Images,
}

/// What to do about placeholders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// A manifest is what the API server gets: a template is refused.
    Rendered,
    /// The placeholders of `cluster/gce/manifests` are kept as words.
    Salt,
}

/// A manifest, judged.
#[derive(Debug)]
pub struct Judged {
    /// The new text; the old one where nothing changes.
    pub text: String,
    pub commands: Vec<Command>,
    /// The whole file is refused: it is no manifest yet.
    pub refused: Option<(Why, Position)>,
}

/// One command of the manifest, and what became of it.
#[derive(Debug)]
pub struct Command {
    pub object: Name,
    pub container: String,
    pub what: What,
    pub position: Position,
    pub before: Vec<String>,
    pub outcome: Outcome,
    pub remarks: Vec<Remark>,
}

#[derive(Debug)]
pub enum Outcome {
    Unchanged,
    Changed(Box<Changed>),
    Refused(Box<Why>),
    /// Left as it is for this reason: its shell is in the image.
    Kept(Box<Why>),
}

/// What a command became.
#[derive(Debug)]
pub struct Changed {
    pub command: Vec<String>,
    pub args: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub workdir: Option<String>,
    pub log: Option<Log>,
}

impl Judged {
    /// Whether something stays that should not.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.refused.is_some() || self.commands.iter().any(|command| matches!(command.outcome, Outcome::Refused(_)))
    }
}

/// What becomes of a manifest.
pub fn judge(text: &str, options: &Options<'_>) -> Result<Judged> {
    let (mark, text) = match text.strip_prefix('\u{feff}') {
        Some(rest) => ("\u{feff}", rest),
        None => ("", text),
    };
    let read = match Manifest::read(text, options.template) {
        Ok(read) => read,
        Err(error) => return unrendered(mark, text, options.template).ok_or(error),
    };
    let mut judged = read.judge(options)?;
    judged.text.insert_str(0, mark);
    Ok(judged)
}

/// A text that cannot be read because it is a template.
fn unrendered(mark: &str, text: &str, template: Template) -> Option<Judged> {
    let (at, placeholder) = template::first(text)?;
    let detail = match template {
        Template::Rendered => format!("{placeholder} stands where its value should be"),
        Template::Salt => format!("with {placeholder} and what else is in it the file cannot be read"),
    };
    let why = Why::new(Rule::Template, detail);
    let refused = Some((why, Position::of(text, at)));
    Some(Judged { text: format!("{mark}{text}"), commands: Vec::new(), refused })
}

/// A text and what was read from it.
struct Manifest<'a> {
    /// As given.
    text: &'a str,
    hidden: Hidden,
    language: Language,
    tree: Tree,
}

impl<'a> Manifest<'a> {
    fn read(text: &'a str, template: Template) -> Result<Self> {
        let looks_like_json = text.trim_start().starts_with(['{', '[']) && !text.trim_start().starts_with("{{");
        let json = looks_like_json.then(|| Self::read_as(text, template, Language::Json));
        match json {
            Some(Ok(read)) => Ok(read),
            // YAML may be written in brackets too.
            Some(Err(error)) => Self::read_as(text, template, Language::Yaml).map_err(|_| error),
            None => Self::read_as(text, template, Language::Yaml),
        }
    }

    fn read_as(text: &'a str, template: Template, language: Language) -> Result<Self> {
        let hidden = match template {
            Template::Rendered => Hidden::nothing(text),
            Template::Salt => Hidden::of(text, language)?,
        };
        let tree = read(&hidden.text, template, language)?;
        Ok(Self { text, hidden, language, tree })
    }

    fn judge(&self, options: &Options<'_>) -> Result<Judged> {
        let tree = &self.tree;
        let pods = object::pods(tree)?;
        let sites = site::sites(tree, &pods)?;
        let setting = Setting { tree, hidden: &self.hidden, options };
        let mut decided: Vec<Decided> = sites.iter().map(|site| setting.decide(site)).collect();
        let sheet = Sheet { source: &self.hidden.text, tree, hidden: &self.hidden, language: self.language };
        let again = |text: &str| read(text, options.template, self.language).ok();
        let text = rewrite::rewrite(sheet, &sites, &mut decided, &again);
        let text = self.hidden.shown(&text);
        let names = pods.into_iter().map(|pod| pod.object).collect::<Vec<_>>();
        let lines = Lines::new(self.text);
        let commands = sites.iter().zip(decided).map(|(site, decided)| self.command(site, decided, &names, &lines));
        Ok(Judged { text, commands: commands.collect(), refused: None })
    }

    fn command(&self, site: &Site, decided: Decided, names: &[Name], lines: &Lines<'_>) -> Command {
        let shown = |words: Vec<String>| words.iter().map(|word| self.hidden.shown(word)).collect::<Vec<_>>();
        let outcome = match decided.decision {
            Decision::Unchanged => Outcome::Unchanged,
            Decision::Refuse(why) => Outcome::Refused(self.shown(why)),
            Decision::Keep(why) => Outcome::Kept(self.shown(why)),
            Decision::Change(change) => Outcome::Changed(Box::new(Changed {
                command: shown(change.command),
                args: shown(change.args.unwrap_or_default()),
                environment: change.environment,
                workdir: change.workdir,
                log: change.log,
            })),
        };
        let position = lines.position(self.at(site, &outcome));
        Command {
            object: names.get(site.pod).cloned().unwrap_or_default(),
            container: self.tree.text_at(site.container, "name").unwrap_or_default().to_owned(),
            what: site.what,
            position,
            before: shown(decided.argv),
            outcome,
            remarks: decided.remarks,
        }
    }

    fn shown(&self, mut why: Box<Why>) -> Box<Why> {
        if let Some(refusal) = &mut why.refusal {
            refusal.text = self.hidden.shown(&refusal.text);
        }
        why
    }

    /// The byte that a command's outcome is about: the construct, or the first word.
    fn at(&self, site: &Site, outcome: &Outcome) -> usize {
        let items: Vec<Id> =
            site.command.iter().chain(&site.args).flat_map(|list| self.tree.items(*list)).copied().collect();
        let refusal = match outcome {
            Outcome::Refused(why) | Outcome::Kept(why) => why.refusal.as_ref(),
            Outcome::Unchanged | Outcome::Changed(_) => None,
        };
        let place = refusal.and_then(|refusal| Some((items.get(refusal.word)?, refusal.span.start)));
        match (place, items.first()) {
            (Some((item, at)), _) => position::within(&self.hidden.text, self.tree.node(self.tree.resolved(*item)), at),
            (None, Some(first)) => self.tree.node(*first).range.start,
            (None, None) => site.command.or(site.args).map_or(0, |list| self.tree.node(list).range.start),
        }
    }
}

fn read(text: &str, template: Template, language: Language) -> Result<Tree> {
    let commas = match template {
        Template::Rendered => json::Commas::Strict,
        Template::Salt => json::Commas::FromTemplate,
    };
    match language {
        Language::Yaml => yaml::read(text),
        Language::Json => json::read(text, commas),
    }
}
