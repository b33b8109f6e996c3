//! A password that a person types. It is not shown, and wiped after use.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

/// A longer password is cut off by the terminal itself.
const LONGEST: usize = 4096;

/// Asks on the terminal that the program was started from; `None` where there is none.
#[must_use]
pub fn ask_password(prompt: &str) -> Option<Zeroizing<String>> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
    let before = tcgetattr(&terminal).ok()?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    silent.local_modes.insert(LocalModes::ECHONL);
    tcsetattr(&terminal, OptionalActions::Flush, &silent).ok()?;
    let mut restored = Restored { terminal, before };
    restored.terminal.write_all(prompt.as_bytes()).ok()?;
    restored.line()
}

/// Shows what is typed again when it goes, however that comes about.
struct Restored {
    terminal: File,
    before: Termios,
}

impl Restored {
    fn line(&mut self) -> Option<Zeroizing<String>> {
        let mut line = Zeroizing::new(Vec::with_capacity(LONGEST));
        let mut byte = Zeroizing::new([0u8; 1]);
        while line.len() < LONGEST && self.terminal.read(byte.as_mut_slice()).ok()? == 1 {
            match byte.first() {
                Some(b'\n') | None => break,
                Some(byte) => line.push(*byte),
            }
        }
        std::str::from_utf8(&line).ok().map(|line| Zeroizing::new(line.to_owned()))
    }
}

impl Drop for Restored {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}
