//! `underpin man`: the manual, a page for each command.

use std::path::{Path, PathBuf};

use clap::Args;

use super::Ended;
use super::console::Console;
use crate::store::disk::{create_directories, write_file};
use oci::error::{Error, Kind, Result};

/// Print a manual page
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Man {
    /// Command to document, such as `rebase` or `cache gc` [default: underpin itself]
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
    /// Write all pages to this directory instead: `underpin.1`, `underpin-rebase.1`, ...
    #[arg(long, value_name = "DIR", conflicts_with = "words")]
    all: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  # read about a command
  underpin man rebase | man -l -

  # install all pages for the current user
  underpin man --all ~/.local/share/man/man1";

impl Man {
    pub(super) fn run(&self, console: &Console, command: clap::Command) -> Result<Ended> {
        // Pages list commands; `help` is none that people look for.
        let mut command = command.disable_help_subcommand(true);
        command.build();
        match &self.all {
            Some(directory) => {
                create_directories(directory)?;
                write_all(&command, directory)?;
            }
            None => console.data(&self.page(&command)?),
        }
        Ok(Ended::Done)
    }

    fn page(&self, command: &clap::Command) -> Result<String> {
        let found = self.words.iter().try_fold(command, |command, word| command.find_subcommand(word));
        let Some(found) = found else {
            return Err(Error::usage("there is no such command")
                .fact("command", self.words.join(" "))
                .hint("`underpin --help` lists the commands"));
        };
        Ok(String::from_utf8_lossy(&render(&page(found))?).into_owned())
    }
}

/// Without a date, so that the same version always gives the same page.
fn page(command: &clap::Command) -> clap_mangen::Man {
    clap_mangen::Man::new(command.clone()).source(concat!("underpin ", env!("CARGO_PKG_VERSION")))
}

fn write_all(command: &clap::Command, directory: &Path) -> Result<()> {
    let page = page(command);
    write_file(&directory.join(page.get_filename()), &render(&page)?)?;
    command.get_subcommands().try_for_each(|below| write_all(below, directory))
}

fn render(page: &clap_mangen::Man) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    page.render(&mut text).map_err(|error| Error::new(Kind::Io, "could not make the manual page").cause(error))?;
    Ok(text)
}
