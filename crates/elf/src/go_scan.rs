//! Finds Go's build info in a stream: magic strings as they are read, and the strings they point to.
//!
//! In the old form of build info the strings come before the pointers to them. So every string
//! that could be a version is kept, and module info is recognised by the magic bytes around it.

use super::go_facts::{
    ALIGNMENT, BuildInfoForm, BuildInfoText, GoFacts, HEAD, Pointer, between_marks, parse_version, read_inline,
    read_modules,
};
use super::patterns::{PatternHit, PatternMeaning, PatternSearch};
use super::segments::Segments;
use super::window::{WantedFor, Window};

/// Bytes for version and modules: Kubernetes takes 30 KiB.
const INFO: usize = 96 << 10;
/// A program that reads build info contains the magic string too.
const CANDIDATES: usize = 2;
/// Bytes for the string of a version.
const VERSION: usize = 48;

/// What has been seen so far.
#[derive(Debug, Default)]
pub(super) struct GoScan {
    infos: Vec<BuildInfoAt>,
    module_infos: Vec<u64>,
}

/// A place that may be build info.
#[derive(Debug)]
struct BuildInfoAt {
    offset: u64,
    form: Option<BuildInfoForm>,
}

impl GoScan {
    pub fn add_hit(&mut self, hit: PatternHit, window: &mut Window) {
        match hit.meaning {
            PatternMeaning::BuildInfo if hit.offset.is_multiple_of(ALIGNMENT) && self.infos.len() < CANDIDATES => {
                window.want(hit.offset, INFO, WantedFor::Header);
                self.infos.push(BuildInfoAt { offset: hit.offset, form: None });
            }
            PatternMeaning::ModuleInfo if self.module_infos.len() < CANDIDATES => {
                window.want(hit.offset, INFO, WantedFor::Header);
                self.module_infos.push(hit.offset);
            }
            PatternMeaning::GoVersion => window.want(hit.offset, VERSION, WantedFor::Candidate),
            _ => {}
        }
    }

    /// Asks for the string headers that pointers lead to: they come after the pointers.
    pub fn advance(&mut self, window: &mut Window, segments: Option<&Segments>) {
        let Some(segments) = segments else { return };
        for info in self.infos.iter_mut().filter(|info| info.form.is_none()) {
            info.form = window.bytes(info.offset, HEAD).and_then(BuildInfoForm::read);
            if let Some(BuildInfoForm::Pointers { version, pointer, .. }) = info.form
                && let Some(offset) = segments.offset_of(version)
            {
                window.want(offset, 2 * pointer.size, WantedFor::Header);
            }
        }
    }

    /// The facts, and a note where they are not whole. `None` for what is no Go program.
    pub fn finish(
        &self,
        window: &Window,
        segments: Option<&Segments>,
        search: &PatternSearch,
    ) -> (Option<GoFacts>, Option<String>) {
        let packages = search.found().filter_map(|meaning| match meaning {
            PatternMeaning::Package(name) => Some(name.to_owned()),
            _ => None,
        });
        let packages = packages.collect();
        let told = self.infos.iter().find_map(|info| self.told(info, window, segments));
        if let Some((facts, note)) = told {
            return (Some(GoFacts { packages, ..facts }), note);
        }
        // A program in Rust that looks for the name, as this one does, has it too. One of Go with Rust in it has a note.
        let has = |wanted: PatternMeaning| search.found().any(|meaning| meaning == wanted);
        let has_name = has(PatternMeaning::GoRuntime) && !has(PatternMeaning::RustSource);
        let is_go = has_name || has_go_note(window, segments);
        (is_go.then(|| GoFacts { packages, ..GoFacts::default() }), None)
    }

    /// What one piece of build info tells.
    fn told(
        &self,
        info: &BuildInfoAt,
        window: &Window,
        segments: Option<&Segments>,
    ) -> Option<(GoFacts, Option<String>)> {
        match info.form.as_ref()? {
            BuildInfoForm::Inline => inline(window.run(info.offset, INFO)),
            BuildInfoForm::Pointers { version, modules, pointer } => {
                let version = string(*version, *pointer, window, segments?);
                let mut facts = GoFacts { version, ..GoFacts::default() };
                let has_modules = *modules != 0 && self.read_module_info(window, &mut facts);
                let missing = facts.version.is_none();
                let note = missing.then(|| "the Go version cannot be read".to_owned());
                // Without both, the magic string alone proves nothing.
                (!missing || has_modules).then_some((facts, note))
            }
        }
    }

    fn read_module_info(&self, window: &Window, facts: &mut GoFacts) -> bool {
        let text = self.module_infos.iter().find_map(|offset| framed(window.run(*offset, INFO)));
        text.map(|text| read_modules(text, facts)).is_some()
    }
}

fn inline(bytes: &[u8]) -> Option<(GoFacts, Option<String>)> {
    let (version, info) = read_inline(bytes)?;
    let mut facts = GoFacts { version: Some(version), ..GoFacts::default() };
    let note = match info {
        BuildInfoText::Cut => Some("the list of Go modules is too long to read".to_owned()),
        BuildInfoText::Whole(info) => {
            if let Some(text) = between_marks(info) {
                read_modules(text, &mut facts);
            }
            None
        }
    };
    Some((facts, note))
}

/// The text of module info whose length is not known, only its end marker.
fn framed(bytes: &[u8]) -> Option<&str> {
    const END: &[u8] = b"\xf9\x32\x43\x31\x86\x18\x20\x72\x00\x82\x42\x10\x41\x16\xd8\xf2";
    let end = bytes.windows(END.len()).position(|window| window == END)?;
    between_marks(bytes.get(..end + END.len())?)
}

/// The version that the string header at `address` points to.
fn string(address: u64, pointer: Pointer, window: &Window, segments: &Segments) -> Option<String> {
    let header = window.bytes(segments.offset_of(address)?, 2 * pointer.size)?;
    let (data, rest) = pointer.read(header)?;
    let (length, _) = pointer.read(rest)?;
    let text = window.bytes(segments.offset_of(data)?, usize::try_from(length).ok()?)?;
    parse_version(text)
}

/// The linker's note: a name of four bytes, `Go`, and type 4. Other notes may precede it.
pub(super) fn has_go_note(window: &Window, segments: Option<&Segments>) -> bool {
    let notes = segments.map(|segments| segments.notes.as_slice()).unwrap_or_default();
    notes
        .iter()
        .filter_map(|note| window.bytes(note.offset, note.len))
        .any(|bytes| bytes.windows(16).step_by(4).any(|words| words.ends_with(b"Go\0\0")))
}

#[cfg(test)]
mod tests {
    use crate::Linkage;
    use crate::patterns::BUILD_INFO;
    use crate::testing::{EXEC, FORMS, TestElf, add_build_info_pointers, module_info, probe};

    #[test]
    fn go_facts_are_read_in_both_forms() {
        let modules = module_info();
        let strings =
            [b"\x08go1.19.8".as_slice(), &[u8::try_from(modules.len() & 0x7f).unwrap() | 0x80, 1], &modules].concat();
        assert!((128..256).contains(&modules.len()));
        let inline = [BUILD_INFO, &[8, 2], &[0; 16], &strings, b"\0k8s.io/klog/v2.InitFlags\0", &[0; 32]].concat();
        let mut cases = vec![(TestElf { tail: inline, ..TestElf::new(EXEC) }, "go1.19.8")];
        for (class, endian) in FORMS {
            for gap in [1 << 10, 1 << 20] {
                let mut file = TestElf { class, endian, ..TestElf::new(EXEC) };
                add_build_info_pointers(&mut file, gap);
                cases.push((file, "go1.17.2"));
            }
        }
        for (file, version) in cases {
            let program = probe(&file.build());
            let go = program.go.unwrap();
            assert_eq!(go.version.as_deref(), Some(version), "{:?} {:?}", file.class, file.endian);
            assert_eq!((go.path.as_deref(), go.module.as_deref()), (Some("example.com/app"), Some("example.com/app")));
            assert_eq!(go.modules, [("k8s.io/klog/v2".to_owned(), "v2.80.1".to_owned())]);
            assert_eq!((program.linkage, program.notes.len()), (Linkage::Static, 0));
        }
    }

    #[test]
    fn the_function_table_speaks_where_build_info_is_silent() {
        let tail = b"\0runtime.goexit\0k8s.io/klog.InitFlags\0github.com/spf13/pflag.Parse\0".to_vec();
        let go = probe(&TestElf { tail, ..TestElf::new(EXEC) }.build()).go.unwrap();
        let packages = ["k8s.io/klog", "k8s.io/klog.InitFlags", "github.com/spf13/pflag"].map(str::to_owned).to_vec();
        assert_eq!((go.version, go.packages), (None, packages));
        // A magic string without build info is not taken for it.
        let tail = [BUILD_INFO, &[8, 2], &[0xff; 64]].concat();
        assert_eq!(probe(&TestElf { tail, ..TestElf::new(EXEC) }.build()).go, None);
    }
}
