//! A password that a person types. It is not shown, and wiped after use.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};
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
    let mut asked = SilentTerminal::new(terminal)?;
    asked.terminal.write_all(prompt.as_bytes()).ok()?;
    let line = asked.line();
    let _ = asked.terminal.write_all(b"\n");
    if !put_right() {
        // A signal was faster: the program ends in a moment, and has nothing more to say.
        loop {
            std::thread::park();
        }
    }
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

/// Shows what is typed again when it goes, however that comes about: a signal ends the program without dropping it.
struct SilentTerminal {
    terminal: File,
}

/// The terminal that shows nothing now, and how it was before. Whoever takes it puts it right.
static SILENT: Mutex<Option<(File, Termios)>> = Mutex::new(None);

impl SilentTerminal {
    fn new(terminal: File) -> Option<Self> {
        let before = tcgetattr(&terminal).ok()?;
        let mut silent = before.clone();
        // Ctrl-C comes as a byte, so that the terminal can be put right before the program ends.
        silent.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        let shared = terminal.try_clone().ok()?;
        // A signal between the two would find nothing to put right. Nothing here waits for the terminal.
        let mut slot = SILENT.lock().unwrap_or_else(PoisonError::into_inner);
        tcsetattr(&terminal, OptionalActions::Now, &silent).ok()?;
        *slot = Some((shared, before));
        drop(slot);
        // What was typed before the question is not an answer to it.
        let _ = tcflush(&terminal, QueueSelector::IFlush);
        Some(Self { terminal })
    }

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
        put_right();
    }
}

/// The terminal shows again what is typed. False where nobody had silenced it, or somebody else was faster.
fn put_right() -> bool {
    let silent = SILENT.lock().unwrap_or_else(PoisonError::into_inner).take();
    let is_ours = silent.is_some();
    if let Some((terminal, before)) = silent {
        let _ = tcsetattr(&terminal, OptionalActions::Now, &before);
    }
    is_ours
}

/// Gives up a question for a password, before the program ends: the terminal is as it was before.
pub fn end_password_prompt() {
    if put_right() {
        // What is said next begins a line. A terminal that is stopped must not keep the program from ending; the flag is
        // of this open file alone, because whoever reads the other one must go on waiting.
        let terminal = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open("/dev/tty");
        let _ = terminal.and_then(|mut terminal| terminal.write_all(b"\n"));
    }
}
