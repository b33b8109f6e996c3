//! `cache match`, and lists that cannot be trusted.

use serde_json::json;

use super::setup::Setup;
use crate::support::skip::or_skip;

#[test]
fn match_shows_what_each_entry_protects_and_warns_of_those_that_protect_none() {
    let setup = or_skip!(Setup::new(1000));
    let host = setup.name("").trim_end_matches('/').to_owned();
    let list = setup.file("list", &format!("# bases\nprefix:{host}/base/\n\nhost:registry.example\n"));
    let args = ["match", "--protect", &setup.name("in/app:v1"), "--protect-file", &list];
    let run = setup.command(&args).arg("--json").run().ok();
    assert_eq!(
        run.json(),
        json!([
            {"entry": setup.name("in/app:v1"), "images": [setup.name("in/app:v1")]},
            {"entry": format!("prefix:{host}/base/"), "images": [setup.name("base/new:v1"), setup.name("base/old:v1")]},
            {"entry": "host:registry.example", "images": []},
        ])
    );
    let run = run.says("warning: host:registry.example protects no image");
    assert_eq!(run.stderr.matches("warning").count(), 1, "{run}");
    let text = setup.run(&args).ok().stdout;
    assert!(text.contains(&format!("prefix:{host}/base/\n  {}\n", setup.name("base/new:v1"))), "{text}");
    setup.run(&["match"]).ok().says("nothing is protected");
}

#[test]
fn a_list_that_is_not_whole_stops_the_collector_before_the_first_deletion() {
    let setup = or_skip!(Setup::new(1000));
    let before = setup.files();
    let unreadable = setup.registries.sandbox.path("folder");
    std::fs::create_dir(&unreadable).unwrap();
    let lists = [
        "/no/such/list".to_owned(),
        unreadable.display().to_string(),
        setup.file("empty", ""),
        setup.file("comments", "# nothing else\n"),
        setup.file("cut", "host:registry.example\nhost:regis"),
        setup.file("bad", "host:registry.example\nregex:(\n"),
        setup.file("binary", "\u{0}\u{0}\u{0}"),
    ];
    for list in &lists {
        let run = setup.run(&["gc", "--max-size", "0", "--protect-file", list]).fails("input");
        assert_eq!(setup.files(), before, "{list}\n{run}");
    }
    for entry in ["regex:(", "host:", "prefix:x", "glob:*", "a b"] {
        let run = setup.run(&["gc", "--max-size", "0", "--protect", entry]).fails("input");
        assert_eq!(setup.files(), before, "{entry}\n{run}");
    }
    // The benign twin.
    let list = setup.file("good", "regex:/base/\n");
    setup.run(&["gc", "--max-size", "0", "--protect-file", &list]).ok();
    assert!(!setup.has("in/app:v1") && setup.has("base/old:v1") && setup.has("base/new:v1"));
}

#[test]
fn the_settings_file_protects_too() {
    let setup = or_skip!(Setup::new(1000));
    let settings =
        setup.file("settings.json", r#"{"cache": {"protect": ["regex:/old:"], "protect_files": ["beside"]}}"#);
    let collect = |settings: &str| {
        setup.command(&["gc", "--max-size", "0", "--protect", "regex:/new:"]).env("UNDERPIN_SETTINGS", settings).run()
    };
    let before = setup.files();
    collect(&settings).fails("input").says("beside");
    assert_eq!(setup.files(), before, "the list that it names is missing");
    collect("/no/such/settings").fails("input");
    for broken in [r#"{"cache": {"protects": []}}"#, "{", r#"{"cache": {"max_size": "much"}}"#] {
        assert_eq!(collect(&setup.file("broken.json", broken)).code(), Some(2), "{broken}");
        assert_eq!(setup.files(), before, "{broken}");
    }
    setup.file("beside", "regex:/nothing:\n");
    collect(&settings).ok();
    assert!(!setup.has("in/app:v1") && setup.has("base/old:v1") && setup.has("base/new:v1"));
}
