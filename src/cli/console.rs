//! The terminal: data on stdout, everything else on stderr, progress bars only on a terminal.
//!
//! The rule this file owns: a text leaves it without anything that could deceive a terminal or its reader, and with
//! colours where those are wanted; data leaves it as it is.

use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};

use super::args::{SayArgs, pace};
use super::paint::{ColorChoice, Paint};
use super::{Ended, transfers};
use crate::report::{Detail, error_to_json};
use crate::store::{Notice, Notices, Progress};
use oci::error::{Error, Result, ascii_json, printable, printable_lines};

/// How much is written to stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verbosity {
    Quiet,
    Normal,
    Verbose,
}

/// The form of what goes to stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Json,
}

#[derive(Clone)]
pub(super) struct Console {
    verbosity: Verbosity,
    pub form: Form,
    bars: MultiProgress,
    stderr: StderrWriter,
    stdout_paint: Paint,
    stderr_paint: Paint,
}

impl Console {
    pub fn new(say: SayArgs, color: ColorChoice) -> Self {
        let verbosity = match (say.quiet, say.verbose) {
            (true, _) => Verbosity::Quiet,
            (_, true) => Verbosity::Verbose,
            _ => Verbosity::Normal,
        };
        let form = if say.json { Form::Json } else { Form::Text };
        let shown = verbosity != Verbosity::Quiet && io::stderr().is_terminal();
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self {
            verbosity,
            form,
            bars: MultiProgress::with_draw_target(target),
            stderr: StderrWriter::new(),
            stdout_paint: color.for_stream(&io::stdout()),
            stderr_paint: color.for_stream(&io::stderr()),
        }
    }

    /// How much of a report is shown.
    pub fn detail(&self) -> Detail {
        if self.verbosity == Verbosity::Verbose { Detail::Full } else { Detail::Short }
    }

    /// Data on stdout, byte for byte. A reader that has gone away is not our failure.
    pub fn data(&self, text: &str) {
        self.bars.suspend(|| {
            let mut stdout = io::stdout().lock();
            let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        });
    }

    /// JSON on stdout, a document or one a line.
    pub fn json(&self, document: &str) {
        self.data(&format!("{}\n", ascii_json(document)));
    }

    /// Text for people on stdout: what was asked for.
    pub fn show(&self, text: &str) {
        self.data(&self.stdout_paint.text(&printable_lines(text)));
    }

    /// A diff on stdout. A program gets every byte as it is.
    pub fn diff(&self, text: &str) {
        if self.stdout_paint == Paint::Plain && !io::stdout().is_terminal() {
            return self.data(text);
        }
        self.data(&self.stdout_paint.diff(&printable_lines(text)));
    }

    /// Whether `--quiet` was given.
    pub fn is_quiet(&self) -> bool {
        self.verbosity == Verbosity::Quiet
    }

    /// Text that is written even with `--quiet`.
    pub fn insist(&self, text: &str) {
        self.stderr(text);
    }

    /// Text on stderr, unless `--quiet`.
    pub fn say(&self, text: &str) {
        if self.verbosity > Verbosity::Quiet {
            self.stderr(text);
        }
    }

    pub fn error(&self, error: &Error) {
        self.stderr(&format!("error: {error}\n"));
        if self.form == Form::Json {
            self.json(&error_to_json(error));
        }
    }

    /// How a command ended whose data are on stdout, and whose files were written after that. A failure is told on
    /// stderr only: stdout has what was done.
    pub fn ended(&self, ended: Ended, files: Result<()>) -> Ended {
        match files {
            Ok(()) => ended,
            Err(error) => {
                self.stderr(&format!("error: {error}\n"));
                Ended::Failed
            }
        }
    }

    fn stderr(&self, text: &str) {
        let text = self.stderr_paint.text(&printable_lines(text));
        self.bars.suspend(|| self.stderr.write(&text));
    }

    pub fn notices(&self) -> Notices {
        let console = self.clone();
        Notices::new(move |notice| match notice {
            Notice::Warning(line) => console.say(&format!("warning: {}\n", printable(&line))),
            Notice::Detail(line) if console.verbosity == Verbosity::Verbose => {
                console.stderr(&format!("{}\n", printable(&line)));
            }
            Notice::Detail(_) => {}
        })
    }

    /// Shows how far a batch of `all` images is.
    pub fn images(&self, all: usize) -> ImageCount {
        let bar = self.bars.add(ProgressBar::new(all as u64));
        bar.set_style(count_style());
        bar.enable_steady_tick(Duration::from_millis(200));
        ImageCount { console: self.clone(), bar, done: AtomicUsize::new(0), all }
    }

    /// Bars on a terminal, now and then a line elsewhere.
    pub fn progress(&self) -> Progress {
        if !self.bars.is_hidden() {
            return transfers::bars(&self.bars);
        }
        if self.is_quiet() {
            return Progress::hidden();
        }
        let console = self.clone();
        transfers::lines(pace().unwrap_or(1), move |line| console.say(line))
    }
}

/// How many images of a batch are done: a bar on a terminal, elsewhere a line for each.
pub(super) struct ImageCount {
    console: Console,
    bar: ProgressBar,
    done: AtomicUsize,
    all: usize,
}

impl ImageCount {
    /// One more; `line` says what became of it.
    pub fn done(&self, line: &str) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        self.bar.inc(1);
        if self.console.bars.is_hidden() {
            self.console.say(&format!("{done} of {}  {}\n", self.all, printable(line)));
        }
    }
}

impl Drop for ImageCount {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// `3 of 30`, and how long the rest will take.
fn count_style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{pos} of {len} images {bar:30} {elapsed}, {eta} left");
    style.unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// The longest wait for a reader of stderr that does not read.
const PATIENCE: Duration = Duration::from_secs(60);
/// A pipe that is ready takes this much without blocking (`PIPE_BUF`).
const PIECE: usize = 4096;

/// Writes to stderr without holding up the work: if nobody empties the pipe, it waits once, for a minute,
/// and drops the rest.
#[derive(Clone)]
struct StderrWriter {
    has_stopped: Arc<AtomicBool>,
    patience: Duration,
}

impl StderrWriter {
    fn new() -> Self {
        // Tests divide all waits.
        Self { has_stopped: Arc::default(), patience: PATIENCE / pace().unwrap_or(1) }
    }

    fn write(&self, text: &str) {
        let mut stderr = io::stderr().lock();
        let is_pipe = fstat(stderr.as_fd()).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Fifo);
        for piece in text.as_bytes().chunks(PIECE) {
            if is_pipe && !self.is_ready(&stderr) {
                return;
            }
            if stderr.write_all(piece).is_err() {
                return;
            }
        }
    }

    fn is_ready(&self, stderr: &impl AsFd) -> bool {
        if self.has_stopped.load(Ordering::Relaxed) {
            return false;
        }
        let Ok(patience) = Timespec::try_from(self.patience) else { return true };
        match poll(&mut [PollFd::new(stderr, PollFlags::OUT)], Some(&patience)) {
            Ok(0) => {
                self.has_stopped.store(true, Ordering::Relaxed);
                false
            }
            // If something is wrong with the pipe, the write fails.
            _ => true,
        }
    }
}
