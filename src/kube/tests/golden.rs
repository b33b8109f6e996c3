//! Pairs of manifests in `testdata/kube`: every style, before and after. `UPDATE_GOLDEN=1` writes
//! the second of each pair, to be read before it is kept.

use std::path::PathBuf;

use super::{KubeOptions, LogChoice, Template, options, rewrite, rule};

/// Name, ending, strategy, template, and the rules that refuse a command of it.
const PAIRS: &[(&str, &str, LogChoice, Template, &[&str])] = &[
    ("block", "yaml", LogChoice::Klog, Template::Rendered, &[]),
    ("scalars", "yaml", LogChoice::Auto, Template::Rendered, &[]),
    ("flow", "yaml", LogChoice::Auto, Template::Rendered, &["cannot-edit"]),
    ("surroundings", "yaml", LogChoice::Auto, Template::Rendered, &[]),
    ("crlf", "yaml", LogChoice::Auto, Template::Rendered, &[]),
    ("anchors", "yaml", LogChoice::Auto, Template::Rendered, &["shared-by-alias", "shared-by-alias"]),
    ("mixed", "yaml", LogChoice::Runner, Template::Rendered, &["pipeline", "runtime-variable", "probe-variable"]),
    ("pod", "json", LogChoice::Runner, Template::Rendered, &[]),
    ("salt", "manifest", LogChoice::Runner, Template::Salt, &[]),
    ("salt", "yaml", LogChoice::Runner, Template::Salt, &[]),
];

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/kube").join(name)
}

#[test]
fn every_pair_is_reached_and_a_second_run_makes_no_edit() {
    for (name, ending, logs, template, expected) in PAIRS {
        let options = KubeOptions { template: *template, ..options(*logs) };
        let before = std::fs::read_to_string(file(&format!("{name}.in.{ending}"))).unwrap();
        let rewritten = rewrite(&before, &options).unwrap();
        let refused: Vec<&str> = rewritten.commands.iter().filter_map(rule).collect();
        assert_eq!(refused, *expected, "{name}.{ending}");
        let after = file(&format!("{name}.out.{ending}"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&after, &rewritten.text).unwrap();
        }
        assert_eq!(rewritten.text, std::fs::read_to_string(after).unwrap(), "{name}.{ending}");
        assert_ne!(rewritten.text, before, "{name}.{ending}");
        assert_eq!(rewrite(&rewritten.text, &options).unwrap().text, rewritten.text, "{name}.{ending} again");
    }
}

#[test]
fn every_file_of_the_folder_is_in_a_pair() {
    let mut known: Vec<String> = PAIRS
        .iter()
        .flat_map(|(name, ending, ..)| [format!("{name}.in.{ending}"), format!("{name}.out.{ending}")])
        .collect();
    known.sort();
    let mut there: Vec<String> =
        std::fs::read_dir(file("")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    there.sort();
    assert_eq!(there, known);
}

/// A byte order mark belongs to the file, not to its first key.
#[test]
fn a_byte_order_mark_stays() {
    let before = std::fs::read_to_string(file("crlf.in.yaml")).unwrap();
    let plain = rewrite(&before, &options(LogChoice::Auto)).unwrap();
    let marked = rewrite(&format!("\u{feff}{before}"), &options(LogChoice::Auto)).unwrap();
    assert_eq!(marked.text, format!("\u{feff}{}", plain.text));
    assert_ne!(plain.text, before);
}
