//! How transfers are shown: as bars on a terminal; elsewhere as a line every ten seconds, for one that takes long.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytesize::ByteSize;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::store::{Meter, Progress};

/// Name, bar, amounts, rate and the time that is left, in 80 columns: only the bar is wider on a wide terminal.
const TEMPLATE: &str = "{msg:20!} {wide_bar} {bytes:>10} of {total_bytes:>10} {bytes_per_sec:>12} {eta:>4}";

pub(super) fn bars(bars: &MultiProgress) -> Progress {
    let bars = bars.clone();
    Progress::new(move |label, total| {
        let bar = bars.add(ProgressBar::new(total).with_message(label.to_owned()));
        bar.set_style(ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(200));
        Box::new(Bar(bar))
    })
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

/// How often a transfer that takes long is told of.
const PERIOD: Duration = Duration::from_secs(10);

/// A line on what is under way, every ten seconds in which something is; all waits are divided by `pace`.
pub(super) fn lines(pace: u32, say: impl Fn(&str) + Send + Sync + 'static) -> Progress {
    let watch = Arc::new(Watch { period: PERIOD / pace.max(1), ..Watch::default() });
    let say: Arc<dyn Fn(&str) + Send + Sync> = Arc::new(say);
    Progress::new(move |label, total| {
        let number = watch.begin(label, total, &say);
        Box::new(Watched { watch: Arc::clone(&watch), number })
    })
}

#[derive(Debug, Default)]
struct Watch {
    period: Duration,
    state: Mutex<WatchState>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct WatchState {
    under_way: BTreeMap<u64, Transfer>,
    next: u64,
    is_told: bool,
}

#[derive(Debug)]
struct Transfer {
    label: String,
    total: u64,
    done: u64,
    began: Instant,
}

impl Watch {
    fn state(&self) -> MutexGuard<'_, WatchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(self: &Arc<Self>, label: &str, total: u64, say: &Arc<dyn Fn(&str) + Send + Sync>) -> u64 {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.under_way.insert(number, Transfer { label: label.to_owned(), total, done: 0, began: Instant::now() });
        if !state.is_told {
            state.is_told = true;
            let (watch, say) = (Arc::clone(self), Arc::clone(say));
            std::thread::spawn(move || watch.tell(say.as_ref()));
        }
        number
    }

    /// Tells of what is under way until nothing is.
    fn tell(&self, say: &dyn Fn(&str)) {
        let mut state = self.state();
        while !state.under_way.is_empty() {
            let until = Instant::now() + self.period;
            while let Some(left) = until.checked_duration_since(Instant::now()).filter(|_| !state.under_way.is_empty())
            {
                state = self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            }
            if let Some(line) = state.line(self.period) {
                drop(state);
                say(&line);
                state = self.state();
            }
        }
        state.is_told = false;
    }
}

impl WatchState {
    /// The longest of what has been under way for a whole period, and how many others there are.
    fn line(&self, period: Duration) -> Option<String> {
        let mut long = self.under_way.values().filter(|transfer| transfer.began.elapsed() >= period);
        let Transfer { label, total, done, .. } = long.next()?;
        let (done, total) = (ByteSize(*done), ByteSize(*total));
        let others = match self.under_way.len().saturating_sub(1) {
            0 => String::new(),
            count => format!(", and {count} more"),
        };
        Some(format!("{label}: {done} of {total}{others}\n"))
    }
}

struct Watched {
    watch: Arc<Watch>,
    number: u64,
}

impl Meter for Watched {
    fn advance(&mut self, bytes: u64) {
        if let Some(transfer) = self.watch.state().under_way.get_mut(&self.number) {
            transfer.done = transfer.done.saturating_add(bytes);
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watch.state().under_way.remove(&self.number);
        self.watch.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Read as _};

    #[test]
    fn only_what_takes_long_is_told_of() {
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = Arc::clone(&said);
        let progress = lines(200, move |line| told.lock().unwrap().push(line.to_owned()));
        let mut short = progress.watch("short", 3, Box::new(Cursor::new(b"abc".to_vec())));
        short.read_to_end(&mut Vec::new()).unwrap();
        drop(short);
        let mut long = progress.watch("layer 0123", 4 << 20, Box::new(Cursor::new(vec![0; 4 << 20])));
        long.read_exact(&mut vec![0; 1 << 20]).unwrap();
        let other = progress.watch("other", 1, Box::new(Cursor::new(vec![0])));
        let until = Instant::now() + Duration::from_secs(20);
        while said.lock().unwrap().is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop((long, other));
        assert_eq!(
            said.lock().unwrap().first().map(String::as_str),
            Some("layer 0123: 1.0 MiB of 4.0 MiB, and 1 more\n")
        );
    }
}
