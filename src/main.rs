//! The thin binary: signals to exit codes, and the command line.

use std::process::ExitCode;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

fn main() -> ExitCode {
    exit_on_signals();
    underpin::cli::main()
}

/// A signal ends the run at once with 130 or 143. Nothing visible is half-written at any moment,
/// and what lies hidden is cleaned up by the next run, so there is nothing to wait for.
fn exit_on_signals() {
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return };
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            std::process::exit(128 + signal);
        }
    });
}
