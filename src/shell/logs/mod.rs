//! How output that went to a file gets there without a shell.
//!
//! Whether a program takes klog's flags, and whether there is a runner, is proven elsewhere; here a
//! strategy is given and either expressed exactly or refused.

mod klog;
mod runner;

use super::meaning::{Log, Meaning};
use super::note::Note;
use super::reason::{Fault, Reason, Refusal};

pub use klog::Spelling;

/// Who writes the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Strategy {
    /// The program itself, by klog's flags in this spelling.
    Klog(Spelling),
    /// `kube-log-runner`, which is this program.
    Runner(String),
    /// Nobody: the container runtime keeps the log.
    Stdout,
}

/// The words that do it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub argv: Vec<String>,
    pub notes: Vec<Note>,
}

/// The command with its log where it was, by this strategy.
pub fn apply(meaning: &Meaning, strategy: &Strategy) -> Result<Applied, Box<Refusal>> {
    let Some(log) = &meaning.log else {
        return Ok(Applied { argv: meaning.argv(), notes: Vec::new() });
    };
    let (program, notes) = match strategy {
        Strategy::Klog(spelling) => klog::apply(&meaning.program, log, *spelling),
        Strategy::Runner(runner) => runner::apply(&meaning.program, log, runner),
        Strategy::Stdout => Ok((meaning.program.clone(), vec![Note::LogToContainer(log.path.clone())])),
    }
    .map_err(|objection: (Reason, &str)| Box::new(refuse(objection, log)))?;
    Ok(Applied { argv: meaning.init.iter().cloned().chain(program).collect(), notes })
}

/// The same, where these words will follow that somebody else says: they must not undo it.
pub fn apply_before(meaning: &Meaning, strategy: &Strategy, later: &[String]) -> Result<Applied, Box<Refusal>> {
    if let (Some(log), Strategy::Klog(_)) = (&meaning.log, strategy) {
        klog::check_later(later).map_err(|objection| Box::new(refuse(objection, log)))?;
    }
    apply(meaning, strategy)
}

fn refuse((reason, detail): (Reason, &str), log: &Log) -> Refusal {
    Fault::of_words(reason, detail).within(0, &log.path)
}

/// A strategy's words and remarks, or why it cannot express the log.
type Outcome = Result<(Vec<String>, Vec<Note>), (Reason, &'static str)>;
