//! A password that a person types. It is not shown, and wiped after use.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

/// A longer one is not a password.
const LONGEST: usize = 4096;
/// What the keys send that a terminal would see to itself.
const INTERRUPT: u8 = 0x03;
const QUIT: u8 = 0x1c;
const END: u8 = 0x04;
const CLEAR: u8 = 0x15;
const BACKSPACE: [u8; 2] = [0x08, 0x7f];

/// Asks on the terminal that the program was started from; `None` where there is none.
#[must_use]
pub fn ask_password(prompt: &str) -> Option<Zeroizing<String>> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
    let before = tcgetattr(&terminal).ok()?;
    let mut silent = before.clone();
    // Ctrl-C comes as a byte, so that the terminal can be put right before the program ends.
    silent.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
    tcsetattr(&terminal, OptionalActions::Flush, &silent).ok()?;
    let mut asked = SilentTerminal { terminal, before };
    asked.terminal.write_all(prompt.as_bytes()).ok()?;
    let line = asked.line();
    let _ = asked.terminal.write_all(b"\n");
    drop(asked);
    match line? {
        TypedLine::Password(password) => Some(password),
        TypedLine::Interrupted => {
            // What ends the program may be another thread of it.
            let _ = kill_process(getpid(), Signal::INT);
            std::thread::sleep(Duration::from_secs(1));
            None
        }
    }
}

enum TypedLine {
    Password(Zeroizing<String>),
    Interrupted,
}

/// Shows what is typed again when it goes, however that comes about.
struct SilentTerminal {
    terminal: File,
    before: Termios,
}

impl SilentTerminal {
    fn line(&mut self) -> Option<TypedLine> {
        let mut line = Zeroizing::new(Vec::with_capacity(LONGEST));
        let mut byte = Zeroizing::new([0u8; 1]);
        while line.len() < LONGEST && self.terminal.read(byte.as_mut_slice()).ok()? == 1 {
            match byte.first().copied() {
                Some(b'\n' | b'\r' | END) | None => break,
                Some(INTERRUPT | QUIT) => return Some(TypedLine::Interrupted),
                Some(CLEAR) => line.clear(),
                Some(byte) if BACKSPACE.contains(&byte) => erase(&mut line),
                Some(byte) => line.push(byte),
            }
        }
        std::str::from_utf8(&line).ok().map(|line| TypedLine::Password(Zeroizing::new(line.to_owned())))
    }
}

/// Takes the last character away, with all of its bytes.
fn erase(line: &mut Vec<u8>) {
    while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
}

impl Drop for SilentTerminal {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}
