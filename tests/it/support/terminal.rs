//! A terminal: what a person at one sees of a run.

use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Command, Stdio};

use super::invocation::{Invocation, die_with_us};

impl Invocation {
    /// The same at a terminal of so many columns: how it ended, and what was seen.
    pub fn at_terminal(self, columns: u16) -> (Option<i32>, String) {
        on_terminal(self.env("TERM", "xterm").command, columns)
    }
}

/// Runs the command with stdout and stderr on a terminal of so many columns; how it ended, and every byte that it wrote.
fn on_terminal(mut command: Command, columns: u16) -> (Option<i32>, String) {
    let (mut main, mut side) = (0, 0);
    let window = libc::winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: both numbers and the window are live; the name and the settings may be null.
    let opened = unsafe {
        libc::openpty(&raw mut main, &raw mut side, std::ptr::null_mut(), std::ptr::null(), &raw const window)
    };
    assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: both were opened just now, and nobody else has them.
    let (mut main, side) = unsafe { (File::from_raw_fd(main), OwnedFd::from_raw_fd(side)) };
    command.stdin(Stdio::null()).stdout(side.try_clone().unwrap()).stderr(side);
    let mut child = die_with_us(&mut command).spawn().unwrap();
    // It holds the side that the child writes to, and the end of the text is when nobody does.
    drop(command);
    let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = main.read(&mut piece) {
        seen.extend_from_slice(&piece[..read]);
    }
    (child.wait().unwrap().code(), String::from_utf8_lossy(&seen).into_owned())
}

/// The lines that were drawn, one after the other, without what moves the cursor or colours them.
pub fn drawn_lines(seen: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut chars = seen.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' if chars.peek() == Some(&'[') => {
                let last = chars.by_ref().skip(1).find(char::is_ascii_alphabetic);
                if last != Some('m') {
                    lines.push(String::new());
                }
            }
            '\r' | '\n' => lines.push(String::new()),
            c => lines.last_mut().unwrap().push(c),
        }
    }
    lines.retain(|line| !line.trim().is_empty());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_sees_a_terminal_of_this_width() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "[ -t 1 ] && [ -t 2 ] && stty size <&2; exit 3"]);
        let (code, seen) = on_terminal(command, 80);
        assert_eq!((code, drawn_lines(&seen)), (Some(3), vec!["24 80".to_owned()]));
    }
}
