//! A manifest from its text to what becomes of it: read, decided, rewritten, told.

use super::decide::{Decided, Decision, Setting};
use super::model::{Changed, Command, Judged, Outcome};
use super::object::{self, Name};
use super::position::{self, Lines};
use super::scalar::Language;
use super::site::{self, Site};
use super::splice::Sheet;
use super::template::Hidden;
use super::tree::{Id, Tree};
use super::why::Why;
use super::{Options, Template, json, rewrite, yaml};
use crate::error::Result;

/// A text and what was read from it.
pub(super) struct Manifest<'a> {
    /// As given.
    text: &'a str,
    hidden: Hidden,
    language: Language,
    tree: Tree,
}

impl<'a> Manifest<'a> {
    pub fn read(text: &'a str, template: Template) -> Result<Self> {
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

    pub fn judge(&self, options: &Options<'_>) -> Result<Judged> {
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
            Decision::Refuse(why) => Outcome::Refused(Box::new(self.shown(*why))),
            Decision::Keep(why) => Outcome::Kept(Box::new(self.shown(*why))),
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
            before: shown(decided.before),
            outcome,
            remarks: decided.remarks,
        }
    }

    /// The reason with placeholders as they are written.
    fn shown(&self, mut why: Why) -> Why {
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
