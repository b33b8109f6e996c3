//! The terminal: data on stdout, all else on stderr, progress bars only where somebody looks.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::args::SayArgs;
use super::listener::Listener;
use crate::error::{Error, printable};
use crate::report::kube::Paint;
use crate::report::{Detail, error_to_json};
use crate::store::{Meter, Notice, Notices, Progress};

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Voice {
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
    voice: Voice,
    pub form: Form,
    bars: MultiProgress,
    listener: Listener,
}

impl Console {
    pub fn new(say: SayArgs) -> Self {
        let voice = match (say.quiet, say.verbose) {
            (true, _) => Voice::Quiet,
            (_, true) => Voice::Verbose,
            _ => Voice::Normal,
        };
        let form = if say.json { Form::Json } else { Form::Text };
        let shown = voice != Voice::Quiet && std::io::stderr().is_terminal();
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self { voice, form, bars: MultiProgress::with_draw_target(target), listener: Listener::new() }
    }

    /// How much of a report is shown.
    pub fn detail(&self) -> Detail {
        if self.voice == Voice::Verbose { Detail::Full } else { Detail::Short }
    }

    /// Data. A reader that went away is not our failure.
    pub fn data(&self, text: &str) {
        self.bars.suspend(|| {
            let mut stdout = std::io::stdout().lock();
            let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        });
    }

    /// How a diff is shown on stdout.
    pub fn paint() -> Paint {
        let has_no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        match (std::io::stdout().is_terminal(), has_no_colour) {
            (false, _) => Paint::Plain,
            (true, true) => Paint::Safe,
            (true, false) => Paint::Coloured,
        }
    }

    /// Words that are said even to those who want quiet.
    pub fn insist(&self, text: &str) {
        self.stderr(text);
    }

    /// Words for people.
    pub fn say(&self, text: &str) {
        if self.voice > Voice::Quiet {
            self.stderr(text);
        }
    }

    pub fn error(&self, error: &Error) {
        self.stderr(&format!("error: {error}\n"));
        if self.form == Form::Json {
            self.data(&format!("{}\n", error_to_json(error)));
        }
    }

    fn stderr(&self, text: &str) {
        self.bars.suspend(|| self.listener.tell(text));
    }

    pub fn notices(&self) -> Notices {
        let console = self.clone();
        Notices::new(move |notice| match notice {
            Notice::Warning(line) => console.say(&format!("warning: {}\n", printable(&line))),
            Notice::Detail(line) if console.voice == Voice::Verbose => {
                console.stderr(&format!("{}\n", printable(&line)));
            }
            Notice::Detail(_) => {}
        })
    }

    pub fn progress(&self) -> Progress {
        if self.bars.is_hidden() {
            return Progress::hidden();
        }
        let bars = self.bars.clone();
        Progress::new(move |label, total| {
            let bar = bars.add(ProgressBar::new(total).with_message(label.to_owned()));
            bar.set_style(style());
            bar.enable_steady_tick(Duration::from_millis(200));
            Box::new(Bar(bar))
        })
    }
}

fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{msg:24} {bar:30} {bytes:>10} of {total_bytes:10} {bytes_per_sec}");
    style.unwrap_or_else(|_| ProgressStyle::default_bar())
}

struct Bar(ProgressBar);

impl Meter for Bar {
    fn advance(&mut self, bytes: u64) {
        self.0.inc(bytes);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
