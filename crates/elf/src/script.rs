//! The `#!` line, taken apart as Linux does it (`fs/binfmt_script.c`).

use super::program::{Linkage, Program, Script};

/// Linux looks at no more of a file than this.
const LOOKED_AT: usize = 256;

pub(super) fn is_script(head: &[u8]) -> bool {
    head.starts_with(b"#!")
}

/// What a file that begins with `#!` is.
pub(super) fn read(head: &[u8]) -> Program {
    match line(head).and_then(parse) {
        Ok(script) => Program { script: Some(script), ..Program::of(Linkage::Script) },
        Err(why) => Program { notes: vec![why.to_owned()], ..Program::of(Linkage::Other) },
    }
}

fn line(head: &[u8]) -> Result<&[u8], &'static str> {
    let seen = head.get(..LOOKED_AT).unwrap_or(head);
    let rest = seen.strip_prefix(b"#!").unwrap_or(seen);
    match rest.iter().position(|byte| *byte == b'\n') {
        Some(end) => Ok(rest.get(..end).unwrap_or(rest)),
        // Linux would cut the line, and start something that nobody wrote.
        None if head.len() > LOOKED_AT => Err("the #! line is longer than Linux reads"),
        None => Ok(rest),
    }
}

fn parse(line: &[u8]) -> Result<Script, &'static str> {
    let is_blank = |byte: &u8| matches!(*byte, b' ' | b'\t');
    let line = line.split(|byte| *byte == 0).next().unwrap_or_default();
    let start = line.iter().position(|byte| !is_blank(byte)).ok_or("the #! line names no interpreter")?;
    let line = line.get(start..).unwrap_or_default();
    let end = line.iter().position(is_blank).unwrap_or(line.len());
    let (interpreter, rest) = line.split_at_checked(end).unwrap_or((line, &[]));
    let argument = String::from_utf8_lossy(rest).trim_matches([' ', '\t']).to_owned();
    Ok(Script {
        interpreter: String::from_utf8_lossy(interpreter).into_owned(),
        argument: Some(argument).filter(|argument| !argument.is_empty()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_apart_as_linux_does() {
        for (text, interpreter, argument) in [
            ("#!/bin/sh\necho", "/bin/sh", None),
            ("#!/bin/sh", "/bin/sh", None),
            ("#! /bin/sh \t\n", "/bin/sh", None),
            ("#!/usr/bin/env -S python3 -u  \n", "/usr/bin/env", Some("-S python3 -u")),
            ("#!/bin/sh\t-e\n", "/bin/sh", Some("-e")),
            ("#!/bin/sh\0junk\n", "/bin/sh", None),
            ("#!sh\r\n", "sh\r", None),
        ] {
            let program = read(text.as_bytes());
            assert_eq!(program.linkage, Linkage::Script, "{text:?}");
            let script = program.script.unwrap();
            assert_eq!((script.interpreter.as_str(), script.argument.as_deref()), (interpreter, argument), "{text:?}");
        }
    }

    #[test]
    fn lines_that_start_nothing_are_not_scripts() {
        let long = |length: usize| format!("#!/bin/{}\n", "a".repeat(length));
        for text in ["#!".to_owned(), "#!\n/bin/sh\n".to_owned(), "#! \t \n".to_owned(), long(256), long(64 << 10)] {
            let program = read(text.as_bytes());
            assert_eq!((program.linkage, program.script), (Linkage::Other, None), "{text:.20}");
            assert_eq!(program.notes.len(), 1);
        }
        assert_eq!(read(long(240).as_bytes()).linkage, Linkage::Script);
    }
}
