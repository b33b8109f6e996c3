//! A manifest from its text to what becomes of it: read, decided, rewritten, told.

use super::decision::{DecidedCommand, Decider, Decision};
use super::edit::Editor;
use super::refusal::KubeRefusal;
use super::scalar::Language;
use super::template::MaskedText;
use super::tree::{self, Lines, ManifestTree, TreeNodeId};
use super::workload::{self, CommandSite, ObjectName};
use super::{
    ChangedCommand, KubeOptions, KubeOutcome, ManifestCommand, RewrittenManifest, Template, json, rewrite, yaml,
};
use oci::error::Result;

/// A text and what was parsed from it.
pub(super) struct ParsedManifest<'a> {
    /// As given.
    text: &'a str,
    masked: MaskedText,
    language: Language,
    tree: ManifestTree,
}

impl<'a> ParsedManifest<'a> {
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
        let masked = match template {
            Template::Rendered => MaskedText::nothing(text),
            Template::Salt => MaskedText::of(text, language)?,
        };
        let tree = read(&masked.text, template, language)?;
        Ok(Self { text, masked, language, tree })
    }

    pub fn images(&self) -> Result<Vec<String>> {
        workload::images(&self.tree)
    }

    pub const fn tree(&self) -> &ManifestTree {
        &self.tree
    }

    pub fn rewrite(&self, options: &KubeOptions<'_>) -> Result<RewrittenManifest> {
        let tree = &self.tree;
        let pods = workload::pods(tree)?;
        let sites = workload::sites(tree, &pods)?;
        let setting = Decider { tree, pods: &pods, masked: &self.masked, options };
        let mut decided: Vec<DecidedCommand> = sites.iter().map(|site| setting.decide(site)).collect();
        let editor = Editor { source: &self.masked.text, tree, masked: &self.masked, language: self.language };
        let again = |text: &str| read(text, options.template, self.language).ok();
        let text = rewrite::rewrite(editor, &sites, &mut decided, &again);
        let text = self.masked.shown(&text);
        let names = pods.into_iter().map(|pod| pod.object).collect::<Vec<_>>();
        let lines = Lines::new(self.text);
        let commands = sites.iter().zip(decided).map(|(site, decided)| self.command(site, decided, &names, &lines));
        Ok(RewrittenManifest { text, commands: commands.collect(), refused: None })
    }

    fn command(
        &self,
        site: &CommandSite,
        decided: DecidedCommand,
        names: &[ObjectName],
        lines: &Lines<'_>,
    ) -> ManifestCommand {
        let shown = |words: Vec<String>| words.iter().map(|word| self.masked.shown(word)).collect::<Vec<_>>();
        let outcome = match decided.decision {
            Decision::Unchanged => KubeOutcome::Unchanged,
            Decision::Refuse(why) => KubeOutcome::Refused(Box::new(self.shown(*why))),
            Decision::Keep(why) => KubeOutcome::Kept(Box::new(self.shown(*why))),
            Decision::Change(change) => KubeOutcome::Changed(Box::new(ChangedCommand {
                command: shown(change.command),
                args: shown(change.args.unwrap_or_default()),
                environment: change.environment,
                workdir: change.workdir,
                log: change.log,
            })),
        };
        let position = lines.position(self.at(site, &outcome));
        let object = names.get(site.pod).cloned().unwrap_or_default();
        ManifestCommand {
            object: ObjectName { name: self.masked.shown(&object.name), ..object },
            container: self.masked.shown(self.tree.text_at(site.container, "name").unwrap_or_default()),
            what: site.what,
            position,
            before: shown(decided.before),
            outcome,
            notes: decided.notes,
        }
    }

    /// The reason with placeholders as they are written.
    fn shown(&self, mut why: KubeRefusal) -> KubeRefusal {
        if let Some(refusal) = &mut why.refusal {
            refusal.text = self.masked.shown(&refusal.text);
        }
        why
    }

    /// The byte that a command's outcome is about: the construct, or the first word.
    fn at(&self, site: &CommandSite, outcome: &KubeOutcome) -> usize {
        let items: Vec<TreeNodeId> =
            site.command.iter().chain(&site.args).flat_map(|list| self.tree.items(*list)).copied().collect();
        let refusal = match outcome {
            KubeOutcome::Refused(why) | KubeOutcome::Kept(why) => why.refusal.as_ref(),
            KubeOutcome::Unchanged | KubeOutcome::Changed(_) => None,
        };
        let place = refusal.and_then(|refusal| Some((items.get(refusal.word)?, refusal.span.start)));
        match (place, items.first()) {
            (Some((item, at)), _) => tree::within(&self.masked.text, self.tree.node(self.tree.resolved(*item)), at),
            (None, Some(first)) => self.tree.node(*first).range.start,
            (None, None) => site.command.or(site.args).map_or(0, |list| self.tree.node(list).range.start),
        }
    }
}

fn read(text: &str, template: Template, language: Language) -> Result<ManifestTree> {
    let commas = match template {
        Template::Rendered => json::Commas::Strict,
        Template::Salt => json::Commas::FromTemplate,
    };
    match language {
        Language::Yaml => yaml::read(text),
        Language::Json => json::read(text, commas),
    }
}
