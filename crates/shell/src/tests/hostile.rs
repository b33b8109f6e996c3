//! Input that is meant to hurt: every one ends in a verdict, on a small stack.

use proptest::prelude::*;

use super::super::{CommandContext, Verdict, caret, translate};
use super::{container, image, words};

/// Translates on a stack too small for recursion over the input.
fn verdict(script: &str, context: &CommandContext) -> Verdict {
    let (script, context) = (script.to_owned(), context.clone());
    let run = move || translate(&words(&["bash", "-c", &script]), None, &context);
    std::thread::Builder::new().stack_size(128 << 10).spawn(run).unwrap().join().unwrap()
}

#[test]
fn depth_does_not_matter() {
    for unit in
        ["(", "$(", "{ ", "if ", "`", "\"$(", "${a:-", "$((", "case x in x) ", "while ", "[", "!", "f() ", "&&", ">&"]
    {
        let refused = matches!(verdict(&unit.repeat(10_000), &image()), Verdict::Refuse(_));
        assert!(refused || unit == "[" || unit == "!", "{unit}");
        let _ = verdict(&format!("app {}", unit.repeat(10_000)), &image());
    }
    let closed = format!("app {}{}", "$(".repeat(10_000), ")".repeat(10_000));
    assert!(matches!(verdict(&closed, &image()), Verdict::Refuse(_)));
}

#[test]
fn long_scripts_are_refused_before_they_are_read() {
    for unit in ["a", "a ", "$(A)", "\\\n", "'", "é", "\n", "A=1 ", ">f "] {
        let text = unit.repeat((1 << 20) / unit.len());
        assert!(matches!(verdict(&text, &container(&["A"])), Verdict::Refuse(_)), "{unit}");
    }
}

/// Right below the limit everything is read; a quadratic step would be felt here.
#[test]
fn the_longest_scripts_that_are_read() {
    for unit in [
        "a ",
        "'' ",
        "$A ",
        "$(A) ",
        "# ",
        "export A=1;",
        "set -x;",
        "cd /a;",
        "> f ",
        "A=1 ",
        "exec >>f;",
        "?",
        "$(B",
        "[",
        "][",
        "--a=?",
    ] {
        let text = unit.repeat(((256 << 10) - 4) / unit.len()) + " app";
        let result = verdict(&text, &container(&["A"]));
        if let Verdict::Refuse(refusal) = result {
            assert!(caret(&refusal).is_none_or(|lines| lines.join("").len() < 2_000), "{unit}");
        }
    }
}

#[test]
fn many_words_and_strange_ones() {
    let many: Vec<String> = std::iter::repeat_n("env".to_owned(), 100_000).collect();
    assert!(matches!(translate(&many, None, &image()), Verdict::Unchanged(_)));
    for argv in
        [&["sh", "-c", "a\0b"][..], &["sh", "-c", "\u{feff}app"], &["", ""], &["sh", "-", "x"], &["tini"], &["env"]]
    {
        let _ = translate(&words(argv), None, &image());
    }
    let nul = translate(&words(&["sh", "-c", "a\0b"]), None, &image());
    assert!(matches!(nul, Verdict::Refuse(_)));
}

proptest! {
    /// Any text gets a verdict whose mark lies inside the text.
    #[test]
    fn any_text_gets_a_verdict(text in r#"[ab ='"$(){}\[\]&|;<>\n\\`#*?~!1-3é\u{0}/:-]{0,40}"#, kube in any::<bool>()) {
        let context = if kube { container(&["a", "b"]) } else { image() };
        if let Verdict::Refuse(refusal) = translate(&words(&["bash", "-c", &text]), None, &context) {
            prop_assert!(refusal.text.get(refusal.span.start..refusal.span.end).is_some(), "{:?}", refusal);
        }
        let _ = translate(&words(&["x"]), Some(format!("#!/bin/sh\n{text}").as_bytes()), &context);
    }

    #[test]
    fn any_words_get_a_verdict(argv in prop::collection::vec("[-+=a-z/. $]{0,6}|sh|bash|-c|-o|--|env|tini", 0..8)) {
        let _ = translate(&argv, None, &image());
        let _ = translate(&argv, Some(b"#!/bin/sh\nexec \"$@\""), &image());
    }
}
