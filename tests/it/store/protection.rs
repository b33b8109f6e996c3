//! `cache match`, and lists that cannot be trusted: row C4.

use serde_json::json;

use super::stage::Stage;

#[test]
fn match_shows_what_each_entry_protects_and_warns_of_those_that_protect_none() {
    let Some(stage) = Stage::new(1000) else { return };
    let host = stage.name("").trim_end_matches('/').to_owned();
    let list = stage.file("list", &format!("# bases\nprefix:{host}/base/\n\nhost:registry.example\n"));
    let args = ["match", "--protect", &stage.name("in/app:v1"), "--protect-file", &list];
    let run = stage.command(&args).arg("--json").run().ok();
    assert_eq!(
        run.json(),
        json!([
            {"entry": stage.name("in/app:v1"), "images": [stage.name("in/app:v1")]},
            {"entry": format!("prefix:{host}/base/"), "images": [stage.name("base/new:v1"), stage.name("base/old:v1")]},
            {"entry": "host:registry.example", "images": []},
        ])
    );
    let run = run.says("warning: host:registry.example protects no image");
    assert_eq!(run.stderr.matches("warning").count(), 1, "{run}");
    let text = stage.run(&args).ok().stdout;
    assert!(text.contains(&format!("prefix:{host}/base/\n  {}\n", stage.name("base/new:v1"))), "{text}");
    stage.run(&["match"]).ok().says("nothing is protected");
}

#[test]
fn c4_a_list_that_is_not_whole_stops_the_collector_before_the_first_deletion() {
    let Some(stage) = Stage::new(1000) else { return };
    let before = stage.files();
    let unreadable = stage.world.sandbox.path("folder");
    std::fs::create_dir(&unreadable).unwrap();
    let lists = [
        "/no/such/list".to_owned(),
        unreadable.display().to_string(),
        stage.file("empty", ""),
        stage.file("comments", "# nothing else\n"),
        stage.file("cut", "host:registry.example\nhost:regis"),
        stage.file("bad", "host:registry.example\nregex:(\n"),
        stage.file("binary", "\u{0}\u{0}\u{0}"),
    ];
    for list in &lists {
        let run = stage.run(&["gc", "--max-size", "0", "--protect-file", list]).fails("input");
        assert_eq!(stage.files(), before, "{list}\n{run}");
    }
    for entry in ["regex:(", "host:", "prefix:x", "glob:*", "a b"] {
        let run = stage.run(&["gc", "--max-size", "0", "--protect", entry]).fails("input");
        assert_eq!(stage.files(), before, "{entry}\n{run}");
    }
    // The benign twin.
    let list = stage.file("good", "regex:/base/\n");
    stage.run(&["gc", "--max-size", "0", "--protect-file", &list]).ok();
    assert!(!stage.has("in/app:v1") && stage.has("base/old:v1") && stage.has("base/new:v1"));
}

#[test]
fn the_settings_file_protects_too() {
    let Some(stage) = Stage::new(1000) else { return };
    let settings =
        stage.file("settings.json", r#"{"cache": {"protect": ["regex:/old:"], "protect_files": ["beside"]}}"#);
    let collect = |settings: &str| {
        stage.command(&["gc", "--max-size", "0", "--protect", "regex:/new:"]).env("UNDERPIN_SETTINGS", settings).run()
    };
    let before = stage.files();
    collect(&settings).fails("input").says("beside");
    assert_eq!(stage.files(), before, "the list that it names is missing");
    collect("/no/such/settings").fails("input");
    for broken in [r#"{"cache": {"protects": []}}"#, "{", r#"{"cache": {"max_size": "much"}}"#] {
        assert_eq!(collect(&stage.file("broken.json", broken)).code(), Some(2), "{broken}");
        assert_eq!(stage.files(), before, "{broken}");
    }
    stage.file("beside", "regex:/nothing:\n");
    collect(&settings).ok();
    assert!(!stage.has("in/app:v1") && stage.has("base/old:v1") && stage.has("base/new:v1"));
}
