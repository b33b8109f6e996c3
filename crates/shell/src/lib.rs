//! A shell-form command or a script to the program that it would execute and where its output goes.
//! Nothing is executed.
//!
//! The rule of the module: never a guess. A command is translated only where every shell that its
//! words may mean would have started exactly this program with these arguments, variables, working
//! directory and files; all else is refused, with the construct that prevents it.
//!
//! ```text
//! argv ► init, interpreter ► Invocation ► kubelet ► lexer ► parser ► expansion ► ExecCommand ► logs
//! ```
//!
//! ```
//! use shell::{CommandContext, ImageContext, Verdict, translate};
//!
//! let argv = ["/bin/sh", "-c", "exec app --v=2 >>/var/log/app.log 2>&1"].map(str::to_owned);
//! let Verdict::Translate(command) = translate(&argv, None, &CommandContext::Image(ImageContext::default())) else { panic!() };
//! assert_eq!(command.program, ["app", "--v=2"]);
//! assert_eq!(command.log.unwrap().path, "/var/log/app.log");
//! ```
//!
//! The grammar read is that of POSIX.1-2024 (XCU 2), with what dash, busybox ash and bash do
//! differently; the kubelet's is `third_party/forked/golang/expansion/expand.go`.

// Tables of cases are long.
#![cfg_attr(test, allow(clippy::too_many_lines))]

mod builtins;
mod exec_command;
mod expansion;
mod glob;
mod init;
mod interpreter;
mod klog;
mod kubelet;
mod lexer;
pub mod logs;
mod note;
mod options;
mod parser;
mod redirect;
mod refusal;
mod tee;
mod used_commands;
mod word;

#[cfg(test)]
mod tests;

pub use exec_command::{ExecCommand, Log, LogCopy, Trailing};
pub use glob::{Glob, GlobComponent, GlobPattern, GlobStart};
pub use kubelet::{CommandContext, Declared, ExitStatusUse, Frozen, ImageContext, Programs, Surroundings, expanded};
pub use note::Note;
pub use redirect::{LogStreams, OpenMode};
pub use refusal::{Reason, Refusal, Span, caret};
pub use used_commands::{UsedCommands, is_command_flag, used_commands};

use interpreter::{Invocation, Invoked, ScriptAt};
use refusal::Unsupported;

/// What becomes of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// No shell is started: the words stay as they are.
    Unchanged(Vec<Note>),
    Translate(Box<ExecCommand>),
    Refuse(Box<Refusal>),
}

/// What `argv` means without a shell. `script` is the text of the file that it starts, where that
/// is a script: the first word, or the file that a shell is given.
#[must_use]
pub fn translate(argv: &[String], script: Option<&[u8]>, context: &CommandContext) -> Verdict {
    judge(argv, script, context).unwrap_or_else(|refusal| Verdict::Refuse(Box::new(refusal)))
}

/// How many words at the start are an init wrapper, such as `tini --`, and not the program's own.
#[must_use]
pub fn init_len(argv: &[String]) -> usize {
    init::read(argv).map_or(0, |prefix| prefix.init.len())
}

/// How many words at the start are an init and its options; `None` where the first is no init, and the option
/// where one is not known.
#[must_use]
pub fn init_words(argv: &[String]) -> Option<Result<usize, String>> {
    Some(init::words(argv)?.map_err(|refusal| refusal.text))
}

/// Whether these words start a shell, even one that is not supported.
#[must_use]
pub fn starts_shell(argv: &[String]) -> bool {
    !matches!(interpreter::read(argv), Ok(Invoked::Program(_)))
}

/// The word that holds the script, or names its file; of a program, the program itself.
#[must_use]
pub fn text_word(argv: &[String]) -> usize {
    match interpreter::read(argv) {
        Ok(Invoked::Program(lead)) => lead.words,
        Ok(Invoked::Shell(shell)) => match shell.script {
            ScriptAt::File(word) | ScriptAt::Word(word) => word,
        },
        Err(_) => 0,
    }
}

/// The word that names the file whose text [`translate`] needs, where that is a script.
#[must_use]
pub fn script_word(argv: &[String]) -> Option<usize> {
    match interpreter::read(argv).ok()? {
        Invoked::Program(lead) => Some(lead.words),
        Invoked::Shell(shell) => match shell.script {
            ScriptAt::File(word) => Some(word),
            ScriptAt::Word(_) => None,
        },
    }
}

/// What `outer` means where its program turns out to be a script with this text, as in `sh -c ./run.sh`: word number
/// `word` of the command started it.
#[must_use]
pub fn translate_script(outer: &ExecCommand, script: &[u8], word: usize, context: &CommandContext) -> Verdict {
    match interpreter::read_nested_script(outer, word, script, context) {
        Ok(exec) => translated(exec),
        Err(refusal) => Verdict::Refuse(Box::new(refusal)),
    }
}

/// The refusal of a command with a word that matches files: `found` is one of them. It is in `text`, which is word
/// number `word` of the command; without it, in the script that this word names.
#[must_use]
pub fn refuse_glob(word: usize, text: Option<&str>, glob: &Glob, found: &str) -> Refusal {
    let detail = format!("the shell replaces {} with the file names that match, such as {found}", glob.text);
    match text {
        Some(text) => Unsupported::new(Reason::Glob, detail, glob.span).within(word, text),
        None => whole(Reason::Glob, detail, &glob.text).within(word, &glob.text),
    }
}

/// The refusal of a command that sets what only a container's command can have.
#[must_use]
pub fn refuse_side_effects(argv: &[String]) -> Refusal {
    let text = argv.last().map_or("", String::as_str);
    let detail =
        "it sets variables, a working directory or an output file, and only a container's command can have those"
            .to_owned();
    whole(Reason::ExtraFd, detail, text).within(argv.len().saturating_sub(1), text)
}

/// The refusal of a command whose program is a script that nothing in the image can run.
#[must_use]
pub fn refuse_script(argv: &[String]) -> Refusal {
    let name = argv.first().map_or("", String::as_str);
    let detail = format!("{name} is a script, and what runs it is not in the rebased image");
    whole(Reason::TargetIsShellScript, detail, name).within(0, name)
}

/// The refusal of a command that is not text at this word.
#[must_use]
pub fn refuse_not_utf8(word: usize, argv: &[String]) -> Refusal {
    let text = argv.get(word).map_or("", String::as_str);
    whole(Reason::NotText, "this argument is not UTF-8 text".to_owned(), text).within(word, text)
}

fn judge(argv: &[String], script: Option<&[u8]>, context: &CommandContext) -> Result<Verdict, Refusal> {
    match interpreter::read(argv)? {
        Invoked::Program(lead) => match script {
            Some(bytes) => interpreter::read_started_script(argv, lead.words, bytes, context).map(translated),
            None => exec_form(argv, lead.words, context),
        },
        Invoked::Shell(shell) => match (shell.script, script) {
            (ScriptAt::Word(word), Some(_)) => {
                let text = argv.get(word).map_or("", String::as_str);
                let detail = "a script was given, but the command contains its own".to_owned();
                Err(whole(Reason::NestedShell, detail, text).within(word, text))
            }
            (ScriptAt::Word(word), None) => {
                let text = argv.get(word).map_or("", String::as_str);
                read(text, word, &shell, context).map(translated)
            }
            (ScriptAt::File(word), Some(bytes)) => {
                interpreter::read_given_script(argv, word, &shell, bytes, context).map(translated)
            }
            (ScriptAt::File(word), None) => {
                let name = argv.get(word).map_or("", String::as_str);
                let detail = format!("the shell runs the script file {name}");
                Err(whole(Reason::TargetIsShellScript, detail, name).within(word, name))
            }
        },
    }
}

fn translated(exec: ExecCommand) -> Verdict {
    Verdict::Translate(Box::new(exec))
}

fn whole(reason: Reason, detail: String, text: &str) -> Unsupported {
    Unsupported::new(reason, detail, Span::new(0, text.len()))
}

/// A command without a shell.
fn exec_form(argv: &[String], word: usize, context: &CommandContext) -> Result<Verdict, Refusal> {
    let Some(name) = argv.get(word) else {
        return Err(Unsupported::of_words(Reason::Incomplete, "the command has no program").within(word, ""));
    };
    if !exec_command::looks_like_script(name) {
        return Ok(Verdict::Unchanged(Vec::new()));
    }
    match context {
        CommandContext::Probe { .. } | CommandContext::Hook => {
            Ok(Verdict::Unchanged(vec![Note::LooksLikeScript(name.clone())]))
        }
        CommandContext::Image(_) | CommandContext::Container { .. } => {
            let detail = format!("{name} looks like a shell script");
            Err(whole(Reason::TargetIsShellScript, detail, name).within(word, name))
        }
    }
}

/// Reads a script; objections to the shell's own options come last.
fn read(text: &str, word: usize, shell: &Invocation<'_>, context: &CommandContext) -> Result<ExecCommand, Refusal> {
    let placeholder = template(text).filter(|_| context.may_be_template());
    let exec = match (exec_command::read(text, shell, context), placeholder) {
        // A placeholder may become anything, but the constructs around it are already there.
        (Err(fault), Some(_)) if is_structural(fault.reason) => Err(fault),
        (_, Some(fault)) => Err(fault),
        (exec, None) => exec,
    };
    let refuse = |fault: Unsupported| fault.within(word, text);
    let exec = exec.map_err(refuse)?;
    if let Some(objection) = shell.objection.clone() {
        return Err(refuse(objection));
    }
    match context.variables().find_map(|name| interpreter::objection_to(name, shell.dialect)) {
        Some(objection) => Err(refuse(objection)),
        None => Ok(exec),
    }
}

/// The first `{{`, which a template engine would replace.
fn template(text: &str) -> Option<Unsupported> {
    let at = text.find("{{").filter(|at| text.get(*at..).is_some_and(|rest| rest.contains("}}")))?;
    let detail = "a template placeholder has not been filled in";
    Some(Unsupported::new(Reason::UnrenderedTemplate, detail, Span::new(at, at + 2)))
}

/// Constructs that no value of a placeholder can remove.
fn is_structural(reason: Reason) -> bool {
    use Reason as R;
    matches!(
        reason,
        R::BackgroundJob
            | R::Conditional
            | R::Function
            | R::Loop
            | R::MultipleCommands
            | R::NewlineSplitsCommand
            | R::Pipeline
            | R::Source
            | R::StatusMasking
            | R::Subshell
            | R::TooLong
            | R::Trap
            | R::Ulimit
            | R::Umask
            | R::Unreachable
    )
}
