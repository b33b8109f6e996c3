//! A command or a script to what it would execute and where its output goes. Nothing is executed.
//!
//! The rule of the module: never a guess. A command is translated only where every shell that may
//! stand behind its words would have started exactly this program with these words, variables,
//! folder and files; all else is refused, with the construct that stands in the way.
//!
//! ```text
//! argv ► init, interpreter ► Invocation ► source (kubelet) ► lexer ► outline ► meaning ► Meaning ► logs
//! ```
//!
//! The grammar read is that of POSIX.1-2024 (XCU 2), with what dash, busybox ash and bash do
//! differently; the kubelet's is `third_party/forked/golang/expansion/expand.go`.

mod builtin;
mod caret;
mod dollar;
mod fifo;
mod init;
mod interpreter;
mod lexer;
pub mod logs;
mod meaning;
mod note;
mod option;
mod outline;
mod place;
mod prepare;
mod program;
mod reason;
mod redirect;
mod scope;
mod script;
mod source;
mod tee;
mod value;
mod variables;
mod word;

#[cfg(test)]
mod tests;

pub use caret::caret;
pub use meaning::{Copied, Log, Meaning, Trailing};
pub use note::Note;
pub use place::{Declared, Frozen, Place};
pub use reason::{Reason, Refusal, Span};
pub use redirect::{Opening, Written};

use interpreter::{Invocation, ScriptAt, Started};
use reason::Fault;

/// What becomes of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// No shell is started: the words stay as they are.
    Unchanged(Vec<Note>),
    Translate(Box<Meaning>),
    Refuse(Box<Refusal>),
}

/// What `argv` means without a shell. `script` is the text of the file that it starts, where that
/// is a script: the first word, or the file that a shell is given.
#[must_use]
pub fn translate(argv: &[String], script: Option<&[u8]>, place: &Place) -> Verdict {
    judge(argv, script, place).unwrap_or_else(|refusal| Verdict::Refuse(Box::new(refusal)))
}

/// How many words at the start are an init, such as `tini --`, and no part of the program's own.
#[must_use]
pub fn lead(argv: &[String]) -> usize {
    init::read(argv).map_or(0, |lead| lead.init.len())
}

/// Whether a shell is what these words start, be it one that is not understood.
#[must_use]
pub fn starts_shell(argv: &[String]) -> bool {
    !matches!(interpreter::read(argv), Ok(Started::Program(_)))
}

/// The word that names the file whose text [`translate`] wants to see, where that is a script.
#[must_use]
pub fn file_word(argv: &[String]) -> Option<usize> {
    match interpreter::read(argv).ok()? {
        Started::Program(lead) => Some(lead.words),
        Started::Shell(shell) => match shell.script {
            ScriptAt::File(word) => Some(word),
            ScriptAt::Word(_) => None,
        },
    }
}

/// The refusal of a command that has a meaning, but needs more around it than its place gives.
#[must_use]
pub fn not_alone(argv: &[String]) -> Refusal {
    let text = argv.last().map_or("", String::as_str);
    let detail = "it sets variables, a folder or a file for its output, which this place cannot".to_owned();
    whole(Reason::ExtraFd, detail, text).within(argv.len().saturating_sub(1), text)
}

/// The refusal of a command that is not text at this word.
#[must_use]
pub fn not_text(word: usize, argv: &[String]) -> Refusal {
    let text = argv.get(word).map_or("", String::as_str);
    whole(Reason::NotText, "the word is not UTF-8 text".to_owned(), text).within(word, text)
}

fn judge(argv: &[String], script: Option<&[u8]>, place: &Place) -> Result<Verdict, Refusal> {
    match interpreter::read(argv)? {
        Started::Program(lead) => match script {
            Some(bytes) => script::started(argv, lead.words, bytes, place).map(translated),
            None => exec_form(argv, lead.words, place),
        },
        Started::Shell(shell) => match (shell.script, script) {
            (ScriptAt::Word(word), Some(_)) => {
                let text = argv.get(word).map_or("", String::as_str);
                let detail = "a script is given, and the command has one of its own".to_owned();
                Err(whole(Reason::NestedShell, detail, text).within(word, text))
            }
            (ScriptAt::Word(word), None) => {
                let text = argv.get(word).map_or("", String::as_str);
                read(text, word, &shell, place).map(translated)
            }
            (ScriptAt::File(word), Some(bytes)) => script::given(argv, word, &shell, bytes, place).map(translated),
            (ScriptAt::File(word), None) => {
                let name = argv.get(word).map_or("", String::as_str);
                let detail = format!("the shell is given the script {name}");
                Err(whole(Reason::TargetIsShellScript, detail, name).within(word, name))
            }
        },
    }
}

fn translated(meaning: Meaning) -> Verdict {
    Verdict::Translate(Box::new(meaning))
}

fn whole(reason: Reason, detail: String, text: &str) -> Fault {
    Fault::new(reason, detail, Span::new(0, text.len()))
}

/// A command without a shell in sight.
fn exec_form(argv: &[String], word: usize, place: &Place) -> Result<Verdict, Refusal> {
    let Some(name) = argv.get(word) else {
        return Err(Fault::of_words(Reason::Incomplete, "there is no program").within(word, ""));
    };
    if !program::looks_like_script(name) {
        return Ok(Verdict::Unchanged(Vec::new()));
    }
    match place {
        Place::Probe { .. } | Place::Hook => Ok(Verdict::Unchanged(vec![Note::LooksLikeScript(name.clone())])),
        Place::Image { .. } | Place::Container { .. } => {
            let detail = format!("{name} is a shell script by its name");
            Err(whole(Reason::TargetIsShellScript, detail, name).within(word, name))
        }
    }
}

/// Reads a script, and holds the shell's own options against it last.
fn read(text: &str, word: usize, shell: &Invocation<'_>, place: &Place) -> Result<Meaning, Refusal> {
    let meaning = match (meaning::read(text, shell, place), template(text)) {
        // What a template leaves open may be anything, but what surrounds it is there to see.
        (Err(fault), Some(_)) if is_structural(fault.reason) => Err(fault),
        (_, Some(fault)) => Err(fault),
        (meaning, None) => meaning,
    };
    let refuse = |fault: Fault| fault.within(word, text);
    let meaning = meaning.map_err(refuse)?;
    if let Some(objection) = shell.objection.clone() {
        return Err(refuse(objection));
    }
    if shell.dialect == interpreter::Dialect::Bash && place.knows("BASH_ENV") {
        return Err(refuse(Fault::of_words(Reason::Source, "BASH_ENV makes bash read a file first")));
    }
    Ok(meaning)
}

/// The first `{{`, which a template engine would replace.
fn template(text: &str) -> Option<Fault> {
    let at = text.find("{{").filter(|at| text.get(*at..).is_some_and(|rest| rest.contains("}}")))?;
    let detail = "a template stands where its value should be";
    Some(Fault::new(Reason::UnrenderedTemplate, detail, Span::new(at, at + 2)))
}

/// Constructs that no value of a template can remove.
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
