//! The thin binary: signals to exit codes, and the command line.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

fn main() -> ExitCode {
    if underpin::sandbox::is_worker() {
        return underpin::sandbox::work();
    }
    heed_signals();
    underpin::cli::main()
}

/// A signal ends the run at once with 128 and its number. Nothing visible is half-written at any moment,
/// and what lies hidden is cleaned up by the next run, so there is nothing to wait for, but for programs
/// of an image that were started, which end first, and for a terminal that was silenced for a password.
fn heed_signals() {
    // A file that may not grow is a failed write that we report, not the end of the process.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM].into_iter().chain(hangup)) else { return };
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            underpin::store::disk::end_password_prompt();
            underpin::cli::say_interrupted();
            underpin::store::disk::end_private_directories();
            std::process::exit(128 + signal);
        }
    });
}

/// Whether whoever started us wants the signal to have no effect, as `nohup` does.
fn is_ignored(signal: i32) -> bool {
    let status = underpin::store::disk::read_file(Path::new("/proc/self/status"), 1 << 16).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
