//! `underpin man`: the manual page.

use clap::Args;

use super::Ended;
use super::console::Console;
use crate::error::{Error, Kind, Result};

/// Print the manual page
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  # read it\n  underpin man | man -l -")]
pub struct Man {}

impl Man {
    #[expect(clippy::unused_self, reason = "all commands are run alike")]
    pub(super) fn run(&self, console: &Console, command: clap::Command) -> Result<Ended> {
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(command).render(&mut page);
        rendered.map_err(|error| Error::new(Kind::Io, "the manual page could not be made").cause(error))?;
        console.data(&String::from_utf8_lossy(&page));
        Ok(Ended::Done)
    }
}
