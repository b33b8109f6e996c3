//! Where musl's loader looks for a library (`ldso/dynlink.c`): `LD_LIBRARY_PATH`, the paths of who asks and of
//! who loaded that (`RUNPATH` and `RPATH` are the same to it), and `/etc/ld-musl-NAME.path` or the directories
//! that it was built with. The first file of the name is taken, whatever it is. Its own names are itself.

use super::closure::Loading;
use super::environment::Trust;
use super::missing::Missing;
use super::object::Opened;
use super::search::{Found, join};
use elf::LoaderKind;
use layer::RootPath;

/// Libraries of C that are all in musl's own.
const OWN: [&str; 7] = ["libc.", "libpthread.", "librt.", "libm.", "libdl.", "libutil.", "libxnet."];

/// Whether the loader takes a name for itself.
pub(super) fn is_own_name(name: &str) -> bool {
    OWN.iter().any(|own| name.starts_with(own))
}

impl<'r> Loading<'_, 'r> {
    pub(super) fn musl_file(&mut self, name: &str, asker: usize) -> Found<'r> {
        if name.contains('/') {
            return self.musl_open(name, asker);
        }
        let library_path = self.environment.library_path.clone().unwrap_or_default();
        if let Some(found) = self.musl_search(&library_path, name, asker)? {
            return Ok(Some(found));
        }
        let mut next = Some(asker);
        while let Some(object) = next.and_then(|at| self.objects.get(at)) {
            next = object.asked_by;
            let facts = object.facts;
            let list = facts.runpath.as_ref().or(facts.rpath.as_ref());
            let Some(list) = list.and_then(|list| self.musl_expanded(list, &object.origin())) else { continue };
            if let Some(found) = self.musl_search(&list, name, asker)? {
                return Ok(Some(found));
            }
        }
        let system = self.musl_directories()?;
        self.musl_search(&system, name, asker)
    }

    fn musl_search(&mut self, list: &str, name: &str, asker: usize) -> Found<'r> {
        for directory in list.split([':', '\n']).filter(|directory| !directory.is_empty()) {
            if let Some(found) = self.musl_open(&join(directory, name), asker)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// A file of another machine is not passed over, as glibc does.
    fn musl_open(&mut self, written: &str, asker: usize) -> Found<'r> {
        self.count_lookup()?;
        let Some(main) = self.objects.first() else { return Ok(None) };
        let why = match self.opener().open(written, main.program) {
            Opened::File(file) => return Ok(Some(file)),
            Opened::Absent => return Ok(None),
            Opened::OtherMachine => "is for another machine".to_owned(),
            Opened::Unusable(why) => why,
        };
        let asked_by = self.objects.get(asker).map(|object| object.path.clone()).unwrap_or_default();
        Err(Missing::Unusable { path: written.to_owned(), why, asked_by })
    }

    /// A list with a token other than `$ORIGIN` counts for nothing.
    fn musl_expanded(&self, list: &str, origin: &str) -> Option<String> {
        let expanded = list.replace("${ORIGIN}", origin).replace("$ORIGIN", origin);
        let has_token = list.contains('$');
        (!expanded.contains('$') && (!has_token || self.trust == Trust::Plain)).then_some(expanded)
    }

    /// The system's directories: of the file below `/etc` of the root that the loader is in, where it is there.
    fn musl_directories(&self) -> Result<String, Missing> {
        let LoaderKind::Musl(machine) = &self.loader.kind else { return Ok(String::new()) };
        let built_in = self.loader.directories.join(":");
        // `/lib/ld-musl-x86_64.so.1` belongs to `/`, `/opt/musl/lib/ld-musl-x86_64.so.1` to `/opt/musl`.
        let components: Vec<&str> = self.loader_name.split('/').collect();
        let prefix = components.get(..components.len().saturating_sub(2)).unwrap_or_default().join("/");
        let written = format!("{prefix}/etc/ld-musl-{machine}.path");
        let Some(found) = self.opener().resolve(&written) else { return Ok(built_in) };
        let text = self.root.content(found.node).and_then(|bytes| std::str::from_utf8(bytes).ok());
        text.map(str::to_owned).ok_or_else(|| Missing::Unproven {
            why: "could not be read".to_owned(),
            about: RootPath::new(&written).unwrap_or_default(),
        })
    }
}
