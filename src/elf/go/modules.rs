//! The text of Go's module info: lines of a word and its columns (`runtime/debug.ParseBuildInfo`).

use super::GoFacts;

/// Marks around the text.
const MARK: usize = 16;

/// The text between its marks. `None` where there is none, as in builds outside of a module.
pub(super) fn between_marks(info: &[u8]) -> Option<&str> {
    let text = info.get(MARK..info.len().checked_sub(MARK)?)?;
    // The check that Go makes: the text ends with a line feed.
    text.ends_with(b"\n").then(|| std::str::from_utf8(text).ok())?
}

/// Adds what the text says to `facts`. Lines that say nothing known are passed over, as Go does.
pub(super) fn read(text: &str, facts: &mut GoFacts) {
    for line in text.lines() {
        let mut columns = line.split('\t');
        let word = columns.next().unwrap_or_default();
        let (first, second) = (columns.next().unwrap_or_default(), columns.next().unwrap_or_default());
        match word {
            "path" => facts.path = Some(first.to_owned()),
            "mod" => facts.module = Some(first.to_owned()),
            "dep" => facts.modules.push((first.to_owned(), second.to_owned())),
            "=>" => replace(facts, first, second),
            "build" => facts.settings.extend(setting(first)),
            _ => {}
        }
    }
}

/// `=>` is about the line before it. The main module cannot be replaced.
fn replace(facts: &mut GoFacts, path: &str, version: &str) {
    if let Some((own, of)) = facts.modules.last_mut() {
        *of = if own == path { version.to_owned() } else { format!("{path} {version}").trim_end().to_owned() };
    }
}

/// `NAME=VALUE`; the value is quoted where it has unusual characters.
fn setting(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    let quoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let value = quoted.map_or_else(|| value.to_owned(), |inner| inner.replace("\\\"", "\"").replace("\\\\", "\\"));
    Some((name.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "path\tk8s.io/app/cmd/app\nmod\tk8s.io/app\t(devel)\t\n\
        dep\tk8s.io/klog/v2\tv2.80.1\th1:atnLQ1\ndep\tk8s.io/api\tv0.0.0\n=>\t./staging/api\t(devel)\t\n\
        dep\tgolang.org/x/sys\tv0.1.0\th1:x\n=>\tgolang.org/x/sys\tv0.2.0\th1:y\nnonsense\nbuild\t-compiler=gc\n\
        build\tCGO_ENABLED=0\nbuild\t-ldflags=\"-s -X \\\"a=b\\\"\"\nbuild\tbroken\n";

    #[test]
    fn the_lines_become_facts() {
        let mut facts = GoFacts::default();
        read(TEXT, &mut facts);
        let pair = |(a, b): (&str, &str)| (a.to_owned(), b.to_owned());
        assert_eq!(facts.path.as_deref(), Some("k8s.io/app/cmd/app"));
        assert_eq!(facts.module.as_deref(), Some("k8s.io/app"));
        let modules =
            [("k8s.io/klog/v2", "v2.80.1"), ("k8s.io/api", "./staging/api (devel)"), ("golang.org/x/sys", "v0.2.0")];
        assert_eq!(facts.modules, modules.map(pair));
        assert_eq!(
            facts.settings,
            [("-compiler", "gc"), ("CGO_ENABLED", "0"), ("-ldflags", "-s -X \"a=b\"")].map(pair)
        );
    }

    #[test]
    fn text_counts_only_between_whole_marks() {
        let framed = |text: &str| [&[1; 16], text.as_bytes(), &[2; 16]].concat();
        assert_eq!(between_marks(&framed("path\tx\n")), Some("path\tx\n"));
        for bytes in
            [framed("path\tx"), framed(""), vec![], vec![b'\n'; 31], [&[1; 16], &b"\xff\n"[..], &[2; 16]].concat()]
        {
            assert_eq!(between_marks(&bytes), None, "{bytes:?}");
        }
    }
}
