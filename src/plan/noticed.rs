//! What of an inherited setting the application could notice: a variable that something of it names, a
//! directory of `PATH` that holds something of it, a command whose program it brings.

use std::cell::OnceCell;
use std::collections::HashSet;

use crate::examine::PlatformSubject;
use crate::process::{Container, search};
use elf::Linkage;
use layer::{LayerContents, RootPath};
use start::rootfs::{Root, merge};

/// The image's own layers, as those who could notice a change.
pub(super) struct Noticed<'a> {
    subject: &'a PlatformSubject,
    /// Made when it is asked for: most images inherit no command and no directory of programs.
    own: OnceCell<Root<'a>>,
    source: Container,
    words: HashSet<&'a str>,
    texts: Vec<&'a [u8]>,
    /// A program whose strings could not all be read may name any variable.
    may_name_all: bool,
}

impl<'a> Noticed<'a> {
    pub(super) fn new(subject: &'a PlatformSubject) -> Self {
        let source = Container::of(&subject.source.config);
        let mut noticed = Self {
            subject,
            own: OnceCell::new(),
            source,
            words: HashSet::new(),
            texts: Vec::new(),
            may_name_all: false,
        };
        for layer in &subject.layers {
            noticed.add(LayerContents::from(layer.as_ref()));
        }
        noticed
    }

    fn own(&self) -> &Root<'a> {
        self.own.get_or_init(|| merge(self.subject.layers.iter().map(AsRef::as_ref)))
    }

    fn add(&mut self, layer: LayerContents<'a>) {
        for found in layer.programs {
            let program = &found.program;
            let is_elf = !matches!(program.linkage, Linkage::Script | Linkage::Other);
            self.may_name_all |= is_elf && !program.strings.complete;
            self.words.extend(program.strings.words.iter().map(String::as_str));
        }
        self.texts.extend(layer.captured.iter().map(|captured| captured.content.as_slice()));
    }

    /// Whether the command, a script or a program of the application names the variable.
    pub(super) fn names(&self, variable: &str) -> bool {
        let argv = self.source.command.argv();
        self.may_name_all
            || self.words.contains(variable)
            || argv.iter().any(|word| mentions(word.as_bytes(), variable.as_bytes()))
            || self.texts.iter().any(|text| mentions(text, variable.as_bytes()))
    }

    /// Whether a directory that is in the one list and not in the other holds something of the application.
    pub(super) fn finds_more(&self, before: &str, after: &str) -> bool {
        let after: Vec<&str> = after.split(':').collect();
        let lost = before.split(':').filter(|directory| !after.contains(directory));
        lost.filter_map(|directory| RootPath::new(directory).ok())
            .any(|path| self.own().directory(&path).next().is_some())
    }

    /// Whether the program of a command is in a layer of the image.
    pub(super) fn brings(&self, words: &[String]) -> bool {
        words.first().is_some_and(|word| search(self.own(), &self.source, word).is_some())
    }
}

/// Whether the name occurs as a whole.
fn mentions(text: &[u8], name: &[u8]) -> bool {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let mut from = 0;
    while let Some(at) = memchr::memmem::find(text.get(from..).unwrap_or_default(), name).map(|at| at + from) {
        let before = at.checked_sub(1).and_then(|before| text.get(before));
        if !is_part(before) && !is_part(text.get(at + name.len())) {
            return true;
        }
        from = at + 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_counts_as_a_whole() {
        for (text, is_there) in
            [("$HOME/x", true), ("${HOME}", true), ("HOMEPAGE MYHOME", false), ("HOMES HOME", true), ("", false)]
        {
            assert_eq!(mentions(text.as_bytes(), b"HOME"), is_there, "{text}");
        }
    }
}
