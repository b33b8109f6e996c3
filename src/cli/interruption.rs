//! What is said when a signal ends the run: whether anything was published.

use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use super::console::Console;
use crate::store::publish::{self, Standing};

/// The console of the run.
static CONSOLE: OnceLock<Console> = OnceLock::new();
/// How long a reader of stderr may take; the run ends at once all the same.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn announce(console: &Console) {
    let _ = CONSOLE.set(console.clone());
}

/// Stops everything from being published from now on, and says what has been.
pub fn say_interrupted() {
    let standing = publish::stop();
    let Some(console) = CONSOLE.get().cloned() else { return };
    let (sender, said) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        // Whoever wants quiet still wants to know what was done.
        if standing == Standing::default() {
            console.say(&sentence(&standing));
        } else {
            console.insist(&sentence(&standing));
        }
        let _ = sender.send(());
    });
    let _ = said.recv_timeout(PATIENCE);
}

fn sentence(Standing { published, under_way }: &Standing) -> String {
    let named = |targets: &[String]| targets.join(", ");
    match (published.as_slice(), under_way.as_slice()) {
        ([], []) => "interrupted: nothing was published\n".to_owned(),
        (published, []) => format!("interrupted: published {}, and nothing else\n", named(published)),
        ([], under_way) => format!("interrupted: {} was just being published, and may be\n", named(under_way)),
        (published, under_way) => format!(
            "interrupted: published {}; {} was just being published, and may be\n",
            named(published),
            named(under_way)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_says_what_is_known_and_no_more() {
        let sentence = |published: &[&str], under_way: &[&str]| {
            let all = |of: &[&str]| of.iter().map(|it| (*it).to_owned()).collect();
            sentence(&Standing { published: all(published), under_way: all(under_way) })
        };
        assert_eq!(sentence(&[], &[]), "interrupted: nothing was published\n");
        assert_eq!(sentence(&["a@1"], &[]), "interrupted: published a@1, and nothing else\n");
        assert_eq!(sentence(&[], &["b"]), "interrupted: b was just being published, and may be\n");
        assert!(sentence(&["a"], &["b", "c"]).contains("published a; b, c was just"));
    }
}
