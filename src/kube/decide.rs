//! What becomes of the command at one site, before anybody thinks of its text.

use std::collections::BTreeMap;

use super::image::{Answer, Question};
use super::log;
use super::mount::{self, Mounted};
use super::site::{Site, What, words};
use super::template::{Hidden, Stands};
use super::tree::{Id, Tree};
use super::why::{Remark, Rule, Why};
use super::{Options, environment};
use crate::shell::logs::Applied;
use crate::shell::{self, Declared, Frozen, Log, Meaning, Place, Verdict};

/// What becomes of a command.
#[derive(Debug, Clone)]
pub(super) enum Decision {
    Unchanged,
    Change(Box<Change>),
    Refuse(Box<Why>),
    /// It needs its shell, and the image has it.
    Keep(Box<Why>),
}

/// The command in exec form.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub command: Vec<String>,
    /// `None` where there were none and none are needed.
    pub args: Option<Vec<String>>,
    pub environment: Vec<(String, String)>,
    pub workdir: Option<String>,
    pub log: Option<Log>,
}

/// A decision with the words it is about and what there is to say.
#[derive(Debug, Clone)]
pub(super) struct Decided {
    pub argv: Vec<String>,
    pub decision: Decision,
    pub remarks: Vec<Remark>,
}

/// A manifest, read.
pub(super) struct Setting<'a> {
    pub tree: &'a Tree,
    pub hidden: &'a Hidden,
    pub options: &'a Options<'a>,
}

impl Setting<'_> {
    pub fn decide(&self, site: &Site) -> Decided {
        let mut remarks = Vec::new();
        let (command, args) = (words(self.tree, site.command), words(self.tree, site.args));
        let (Some(command), Some(args)) = (command, args) else {
            let why = Why::new(Rule::NotWords, "an item of the list is not a string");
            return Decided { argv: Vec::new(), decision: Decision::Refuse(Box::new(why)), remarks };
        };
        let argv: Vec<String> = command.iter().chain(&args).cloned().collect();
        let decision = self.judge(site, &command, &args, &mut remarks);
        let decision = decision.unwrap_or_else(|why| Decision::Refuse(Box::new(why)));
        Decided { argv, decision, remarks }
    }

    fn judge(
        &self,
        site: &Site,
        command: &[String],
        args: &[String],
        remarks: &mut Vec<Remark>,
    ) -> Result<Decision, Why> {
        let argv: Vec<String> = command.iter().chain(args).cloned().collect();
        if argv.is_empty() {
            return Ok(Decision::Unchanged);
        }
        let declared = environment::declared(self.tree, site.container);
        let answer = |program: &str| self.ask(site.container, &declared, program);
        if command.is_empty() && !self.is_whole_command(args, answer(""))? {
            return Ok(Decision::Unchanged);
        }
        match shell::translate(&argv, None, &place(site.what, &declared)) {
            Verdict::Unchanged(notes) => {
                remarks.extend(notes.iter().map(Remark::from));
                let program = argv.get(shell::lead(&argv)).map_or("", String::as_str);
                self.check_program(site.container, program, answer(program), remarks)?;
                Ok(Decision::Unchanged)
            }
            Verdict::Refuse(refusal) => {
                let program = argv.get(shell::lead(&argv)).map_or("", String::as_str);
                let has_shell = answer(program).is_some_and(|answer| answer.missing.is_none());
                let why = Box::new(Why::from(*refusal));
                Ok(if has_shell { Decision::Keep(why) } else { Decision::Refuse(why) })
            }
            Verdict::Translate(meaning) => {
                self.check_placeholders(&argv, &meaning)?;
                let program = meaning.program.first().map_or("", String::as_str);
                let answer = answer(program);
                self.check_program(site.container, program, answer.clone(), remarks)?;
                let applied = self.apply(site.what, &argv, &meaning, answer.as_ref(), remarks)?;
                remarks.splice(0..0, meaning.notes.iter().chain(&applied.notes).map(Remark::from));
                self.remark_on_log(site, &meaning, &applied, remarks);
                remarks.extend(self.remarks_on_surroundings(&meaning));
                Ok(Decision::Change(Box::new(change(command, args, &meaning, applied))))
            }
        }
    }

    /// Whether `args` alone are the whole command: only where the image has no entrypoint.
    fn is_whole_command(&self, args: &[String], answer: Option<Answer>) -> Result<bool, Why> {
        if let Some(answer) = answer {
            return Ok(answer.entrypoint.is_empty());
        }
        let place = Place::Image { frozen: Frozen::default() };
        match shell::translate(args, None, &place) {
            Verdict::Unchanged(_) => Ok(false),
            Verdict::Refuse(refusal) if refusal.reason == shell::Reason::TargetIsShellScript => Ok(false),
            _ => {
                let detail = "the arguments are a shell command, and what the image puts before them is not known";
                Err(Why::new(Rule::EntrypointUnknown, detail))
            }
        }
    }

    fn ask(&self, container: Id, declared: &BTreeMap<String, Declared>, program: &str) -> Option<Answer> {
        let path = match declared.get("PATH") {
            Some(Declared::Literal(path)) => Some(path.as_str()),
            _ => None,
        };
        let folder = self.tree.text_at(container, "workingDir").filter(|folder| !folder.is_empty());
        let image = self.tree.text_at(container, "image")?;
        self.options.images.ask(&self.hidden.shown(image), &Question { program, path, folder })
    }

    /// What the image lacks cannot be started, unless a volume brings it.
    fn check_program(
        &self,
        container: Id,
        program: &str,
        answer: Option<Answer>,
        remarks: &mut Vec<Remark>,
    ) -> Result<(), Why> {
        let Some(answer) = answer else { return Ok(()) };
        let Some(missing) = answer.missing else { return Ok(()) };
        if mount::of(self.tree, container, program) == Mounted::OnVolume {
            remarks.push(Remark::new(
                "program-on-volume",
                format!("{program} comes from a volume, which was not looked at"),
            ));
            return Ok(());
        }
        Err(Why::new(Rule::EntrypointMissing, format!("{} cannot start {program}: {missing}", answer.image)))
    }

    fn apply(
        &self,
        what: What,
        argv: &[String],
        meaning: &Meaning,
        answer: Option<&Answer>,
        remarks: &mut Vec<Remark>,
    ) -> Result<Applied, Why> {
        if what == What::Command {
            return log::apply(meaning, self.options, answer, remarks);
        }
        let is_quiet = meaning.log.as_ref().is_none_or(|log| log.path == "/dev/null");
        if !meaning.environment.is_empty() || meaning.workdir.is_some() || !is_quiet {
            return Err(Why::from(shell::not_alone(argv)));
        }
        Ok(Applied { argv: meaning.argv(), notes: Vec::new() })
    }

    fn remark_on_log(&self, site: &Site, meaning: &Meaning, applied: &Applied, remarks: &mut Vec<Remark>) {
        let Some(log) = &meaning.log else { return };
        let is_written = applied.argv.iter().any(|word| word.ends_with(&format!("={}", log.path)));
        if is_written && mount::of(self.tree, site.container, &log.path) == Mounted::Nowhere {
            let message = format!(
                "{} is on no volume: its folder must be in the image, and the log goes with the container",
                log.path
            );
            remarks.push(Remark::new("log-not-mounted", message));
        }
    }

    fn remarks_on_surroundings(&self, meaning: &Meaning) -> Vec<Remark> {
        let is_wide = meaning.workdir.is_some() || !meaning.environment.is_empty();
        let wide = "what the command set for itself holds for the whole container now, its probes and hooks included";
        let several = meaning.program.iter().flat_map(|word| self.hidden.within(word));
        let several = several.filter(|(_, _, stands)| *stands == Stands::Several).map(|(_, placeholder, _)| {
            let message = format!(
                "{placeholder} stood for several words: what fills it in must give one item of the list for each"
            );
            Remark::new("placeholder-is-list", message)
        });
        is_wide.then(|| Remark::new("container-wide", wide)).into_iter().chain(several).collect()
    }

    /// Placeholders may stand where it is known how many words they are.
    fn check_placeholders(&self, before: &[String], meaning: &Meaning) -> Result<(), Why> {
        let refuse = |placeholder: &str, detail: &str| Err(Why::new(Rule::Template, format!("{placeholder} {detail}")));
        for word in before {
            for (range, placeholder, stands) in self.hidden.within(word) {
                let front = word.get(..range.start).and_then(|text| text.chars().next_back());
                let back = word.get(range.end..).and_then(|text| text.chars().next());
                match stands {
                    Stands::Unknown => {
                        return refuse(placeholder, "is no placeholder of which is known what it stands for");
                    }
                    Stands::Several if front.iter().chain(&back).any(|c| !c.is_whitespace()) => {
                        return refuse(placeholder, PART);
                    }
                    Stands::Several | Stands::OneWord => {}
                }
            }
        }
        let values = meaning.environment.iter().map(|(_, value)| value);
        let others = values.chain(&meaning.workdir).chain(meaning.log.iter().map(|log| &log.path));
        let several =
            |word: &String| self.hidden.within(word).into_iter().find(|(_, _, stands)| *stands == Stands::Several);
        if let Some((_, placeholder, _)) = others.chain(&meaning.init).find_map(several) {
            return refuse(placeholder, PART);
        }
        let is_part = |word: &&String| several(word).is_some_and(|(range, ..)| range != (0..word.len()));
        if let Some((_, placeholder, _)) = meaning.program.iter().find(is_part).and_then(several) {
            return refuse(placeholder, PART);
        }
        match meaning.program.first().map(|word| self.hidden.within(word)).unwrap_or_default().first() {
            Some((_, placeholder, _)) => refuse(placeholder, "decides which program is started"),
            None => Ok(()),
        }
    }
}

const PART: &str = "stands for several words, and is part of one here";

fn place(what: What, declared: &BTreeMap<String, Declared>) -> Place {
    match what {
        What::Command => Place::Container { declared: declared.clone(), frozen: Frozen::default() },
        What::Probe(_) => Place::Probe { declared: declared.clone() },
        What::Hook(_) => Place::Hook,
    }
}

/// The words, shared out between `command` and `args` as they were.
fn change(command: &[String], args: &[String], meaning: &Meaning, applied: Applied) -> Change {
    let argv = applied.argv;
    let (command, args) = if args.is_empty() {
        (argv, None)
    } else if command.is_empty() {
        (Vec::new(), Some(argv))
    } else if meaning.passed == args.len() && argv.ends_with(args) {
        // They were the program's own arguments before.
        let own = argv.len() - args.len();
        (argv.into_iter().take(own).collect(), Some(args.to_vec()))
    } else {
        let program = meaning.program.first();
        let at = argv.iter().position(|word| Some(word) == program).map_or(argv.len(), |at| at + 1);
        (argv.iter().take(at).cloned().collect(), Some(argv.into_iter().skip(at).collect()))
    };
    let Meaning { environment, workdir, log, .. } = meaning;
    Change { command, args, environment: environment.clone(), workdir: workdir.clone(), log: log.clone() }
}
