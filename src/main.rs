//! The thin binary: signals to exit codes, and the command line.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

fn main() -> ExitCode {
    if underpin::sandbox::is_worker() {
        return underpin::sandbox::work();
    }
    heed_signals();
    underpin::cli::main()
}

/// A signal ends the run at once with 130 or 143. Nothing visible is half-written at any moment,
/// and what lies hidden is cleaned up by the next run, so there is nothing to wait for, but for programs
/// of an image that were started, which end first, and for a terminal that was silenced for a password.
fn heed_signals() {
    // A file that may not grow is a failed write that we report, not the end of the process.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return };
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            underpin::store::disk::end_password_prompt();
            underpin::cli::say_interrupted();
            underpin::store::disk::end_private_directories();
            std::process::exit(128 + signal);
        }
    });
}
