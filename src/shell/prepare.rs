//! Commands that only prepare the shell: options, variables, the folder, redirections that stay.

use super::note::Note;
use super::option;
use super::outline::Command;
use super::reason::{Fault, Reason, Span};
use super::redirect::Streams;
use super::scope::{Scope, Use};
use super::word::{Word, is_name};

/// Does to the scope, the folder and the streams what the command does to the shell.
pub(super) fn run(
    command: &Command,
    scope: &mut Scope<'_>,
    folder: &mut Option<String>,
    streams: &mut Streams,
) -> Result<(), Fault> {
    let Some((name, words)) = command.words.split_first() else {
        for (name, word) in &command.assignments {
            let value = scope.value(word, Use::Assigned)?;
            scope.variables.assign(name, value, word.span)?;
        }
        return no_redirects(command);
    };
    if let Some((_, word)) = command.assignments.first() {
        return Err(Fault::new(Reason::Assignment, "a variable is set for a builtin of the shell", word.span));
    }
    match name.bare() {
        Some("exec") => return streams.apply(&command.redirects, scope),
        Some("export") if words.is_empty() => {
            return Err(Fault::new(Reason::ShellBuiltin, "`export` alone prints the variables", command.span));
        }
        Some("export") => export(words, scope)?,
        Some("cd") if streams.names_relative_file() => {
            let detail = "a file was opened by a relative name before";
            return Err(Fault::new(Reason::RelativeDirectory, detail, command.span));
        }
        Some("cd") => *folder = Some(change_folder(words, scope, folder.as_deref(), command.span)?),
        _ => set(words, scope, command.span)?,
    }
    no_redirects(command)
}

fn no_redirects(command: &Command) -> Result<(), Fault> {
    match command.redirects.first() {
        None => Ok(()),
        Some(redirect) => {
            let detail = "the output of a command before the program is redirected";
            Err(Fault::new(Reason::PartialRedirect, detail, redirect.span))
        }
    }
}

fn export(words: &[Word], scope: &mut Scope<'_>) -> Result<(), Fault> {
    for word in words {
        if let Some((name, value)) = word.assignment() {
            // Old shells split the value here.
            let value = scope.value(&value, Use::Argument)?;
            scope.variables.export(&name, value, word.span)?;
        } else if let Some(name) = word.bare().filter(|name| is_name(name)) {
            scope.variables.publish(name);
        } else {
            let detail = "only NAME=value and NAME can be exported";
            return Err(Fault::new(Reason::Assignment, detail, word.span));
        }
    }
    Ok(())
}

fn set(words: &[Word], scope: &mut Scope<'_>, span: Span) -> Result<(), Fault> {
    let texts: Option<Vec<String>> = words.iter().map(Word::literal).collect();
    let texts = texts.ok_or_else(|| Fault::new(Reason::ShellOption, "an option comes from a variable", span))?;
    let refuse = |(reason, detail): option::Objection| Fault::new(reason, detail, span);
    let read = option::read(&texts, scope.dialect, &mut scope.options, |_, _| None).map_err(refuse)?;
    let is_list = read < texts.len() || texts.iter().any(|text| text == "--");
    match texts.is_empty() {
        true => Err(Fault::new(Reason::ShellBuiltin, "`set` alone prints the variables", span)),
        false if is_list => Err(Fault::new(Reason::PositionalParameters, "`set` changes the script's arguments", span)),
        false => Ok(()),
    }
}

fn change_folder(words: &[Word], scope: &mut Scope<'_>, from: Option<&str>, span: Span) -> Result<String, Fault> {
    let relative = |detail: &str| Fault::new(Reason::RelativeDirectory, detail, span);
    let [word] = words else { return Err(relative("`cd` without one folder goes somewhere else")) };
    let value = scope.value(word, Use::Argument)?;
    let unknown = || Fault::new(Reason::RuntimeVariable, "no working folder can hold a variable", word.span);
    let folder = value.literal().ok_or_else(unknown)?;
    if folder.split('/').any(|part| part == "..") {
        return Err(relative("the shell and the kernel may read `..` differently"));
    }
    let is_own = folder.starts_with("./") || folder == ".";
    match from {
        _ if folder.starts_with('/') => {}
        // CDPATH is searched for other names.
        Some(from) if is_own => return Ok(join(from, folder.trim_start_matches("./").trim_start_matches('.'))),
        _ => return Err(relative("where the folder is depends on where the container starts")),
    }
    scope.note(Note::FolderMustExist(folder.clone()));
    Ok(folder)
}

fn join(folder: &str, name: &str) -> String {
    match name {
        "" => folder.to_owned(),
        _ => format!("{}/{name}", folder.trim_end_matches('/')),
    }
}
