//! `--base auto` and `inspect --bases`: the smallest base that fits, and what excludes the smaller ones.

use serde_json::{Value, json};

use crate::support::docker_registry::Registry;
use crate::support::fixtures;
use crate::support::fixtures::LINE;
use crate::support::invocation::Invocation;
use crate::support::layouts::{Layouts, upon};
use crate::support::proxy::Proxy;
use crate::support::python;
use crate::support::recipe::{Dialect, Recipe, index};
use crate::support::skip::{need, or_skip};
use crate::support::tar_layer::{Layer, Pack, file};

const AMD64: &str = "linux/amd64";
const ARM64: &str = "linux/arm64";

/// The application, whose command names a file that only some bases have.
fn app(platform: &str) -> Recipe {
    let config = json!({"Env": [fixtures::PATH], "Entrypoint": ["/app"], "Cmd": ["/usr/share/notes"]});
    upon(&fixtures::old_base(platform), [fixtures::app_layer(platform, 10)], config)
}

/// The new base with that file.
fn larger(platform: &str) -> Recipe {
    let mut base = fixtures::new_base(platform);
    base.layers.push(Layer::of(Pack::Gzip, &[file("usr/share/notes", "of the larger base\n")]));
    base
}

/// Beside `new`, which lacks the file: `middle`, which has another file, and `large`, which has it.
fn layouts() -> Layouts {
    let layouts = Layouts::on(&fixtures::old_base(AMD64), &app(AMD64));
    let mut middle = fixtures::new_base(AMD64);
    middle.layers.push(Layer::of(Pack::Gzip, &[file("usr/share/other", "x")]));
    middle.build().layout(&layouts.layout("middle"), "v1");
    larger(AMD64).build().layout(&layouts.layout("large"), "v1");
    layouts
}

fn auto(layouts: &Layouts, out: &str, candidates: &[&str]) -> Invocation {
    let candidates = candidates.iter().flat_map(|name| ["--base-candidate".to_owned(), format!("oci:{name}:v1")]);
    layouts
        .underpin(&["rebase", "oci:app:v1", "--old-base", "oci:old:v1", "--no-cache", "--base", "auto"])
        .args(candidates)
        .args(["--to", &format!("oci:{out}:v1")])
}

/// Reference, verdict and the rules that exclude it, for each base of a list.
fn verdicts(bases: &Value) -> Vec<String> {
    let rules = |base: &Value| {
        let excluded = base["excluded_by"].as_array().unwrap().iter();
        excluded.map(|by| format!(" {} {}", by["platform"].as_str().unwrap(), by["rule"].as_str().unwrap())).collect()
    };
    let line = |base: &Value| {
        let rules: Vec<String> = rules(base);
        format!("{} {}{}", base["reference"].as_str().unwrap(), base["verdict"].as_str().unwrap(), rules.concat())
    };
    bases.as_array().unwrap().iter().map(line).collect()
}

#[test]
fn the_first_base_that_fits_is_taken_and_the_smaller_ones_say_why_not() {
    let layouts = layouts();
    let run = auto(&layouts, "out", &["new", "middle", "large"]).arg("--json").run().ok();
    let report = run.json();
    python::holds("report", &run.stdout);
    let expected = [
        "oci:new:v1 excluded linux/amd64 needs-file",
        "oci:middle:v1 excluded linux/amd64 needs-file",
        "oci:large:v1 fits",
    ];
    assert_eq!(verdicts(&report["candidates"]), expected);
    assert_eq!(report["base"]["reference"], "oci:large:v1");
    assert!(!run.stderr.contains("/usr/share/notes [needs-file]"), "the findings are those of the choice\n{run}");
    or_skip!(need(&["umoci", "runc"]));
    assert_eq!(layouts.start("out"), LINE);
}

#[test]
fn a_base_that_was_chosen_gives_the_digest_of_one_that_was_named() {
    let layouts = layouts();
    let chosen = auto(&layouts, "out", &["new", "large"]).run().ok().digest();
    let named = layouts.underpin(&["rebase", "oci:app:v1", "--old-base", "oci:old:v1", "--no-cache"]);
    let named = named.args(["--base", "oci:large:v1", "--to", "oci:named:v1"]).run().ok();
    assert_eq!(chosen, named.digest());
    let inputs = ["--source", "oci:app:v1", "--base", "oci:large:v1", "--old-base", "oci:old:v1"];
    layouts.underpin(&["verify", "oci:out:v1"]).args(inputs).run().ok().says("verified");
    let manifest = crate::support::published::layout(&layouts.layout("out"), "v1").unwrap().only().manifest.clone();
    assert!(!manifest.to_string().contains("auto"), "only the choice is on record: {manifest}");
    let again = auto(&layouts, "out", &["new", "large"]).arg("--json").run().ok().json();
    assert_eq!(again["outcome"], "unchanged");
}

#[test]
fn where_no_base_fits_the_table_and_the_nearest_findings_are_shown() {
    let layouts = layouts();
    let run = auto(&layouts, "out", &["new", "middle"]).arg("--json").run().refused().says("any of 2 candidates");
    let report = run.json();
    assert_eq!(verdicts(&report["candidates"]).len(), 2);
    assert_eq!((&report["outcome"], &report["base"]["reference"]), (&json!("refused"), &json!("oci:new:v1")));
    assert!(!layouts.layout("out").exists(), "a refusal writes nothing");
}

#[test]
fn a_candidate_that_cannot_be_reached_is_an_error_that_names_it() {
    let layouts = layouts();
    auto(&layouts, "out", &["new", "gone", "large"])
        .run()
        .fails("not-found")
        .says("base candidate")
        .says("oci:gone:v1");
    assert!(!layouts.layout("out").exists());
    // One behind the choice is not asked for.
    auto(&layouts, "out", &["large", "gone"]).run().ok();
}

#[test]
fn candidates_without_auto_are_a_mistake() {
    let layouts = layouts();
    let run = layouts.rebase("out").args(["--base-candidate", "oci:large:v1"]).run();
    run.fails("usage").says("--base auto");
}

#[test]
fn every_platform_must_pass() {
    let layouts = layouts();
    let app = index(Dialect::Oci, &[(AMD64, app(AMD64).build()), (ARM64, app(ARM64).build())]);
    app.layout(&layouts.layout("app"), "v1");
    let both = |recipe: fn(&str) -> Recipe| {
        index(Dialect::Oci, &[(AMD64, recipe(AMD64).build()), (ARM64, recipe(ARM64).build())])
    };
    both(larger).layout(&layouts.layout("both"), "v1");
    let report = layouts
        .underpin(&["plan", "oci:app:v1", "--old-base", "layers:2", "--no-cache", "--base", "auto", "--json"])
        .args(["--base-candidate", "oci:large:v1", "--base-candidate", "oci:both:v1"])
        .run()
        .ok()
        .json();
    assert_eq!(
        verdicts(&report["candidates"]),
        ["oci:large:v1 excluded linux/arm64 platform-missing", "oci:both:v1 fits"]
    );
}

#[test]
fn every_format_shows_the_candidates() {
    let layouts = layouts();
    let files = ["text", "markdown", "html"].map(|format| (format, format!("report.{format}")));
    let flags = files.iter().flat_map(|(format, file)| ["--report".to_owned(), format!("{format}={file}")]);
    auto(&layouts, "out", &["new", "large"]).args(flags).run().ok();
    for (format, file) in &files {
        let page = std::fs::read_to_string(layouts.layout(file)).unwrap();
        for word in ["oci:new:v1", "excluded", "needs-file", "oci:large:v1", "fits"] {
            assert!(page.contains(word), "{format} has nothing of {word}:\n{page}");
        }
    }
}

#[test]
fn inspect_says_to_which_bases_an_image_could_move() {
    let layouts = layouts();
    let inspect = |flags: &[&str]| {
        let bases = ["--bases", "oci:new:v1", "oci:large:v1", "oci:gone:v1"];
        layouts.underpin(&["inspect", "oci:app:v1", "--known-base", "oci:old:v1", "--no-cache"]).args(bases).args(flags)
    };
    let report = inspect(&["--json"]).run().ok().json();
    let expected = ["oci:new:v1 excluded linux/amd64 needs-file", "oci:large:v1 fits", "oci:gone:v1 unknown"];
    assert_eq!(verdicts(&report["bases"]), expected);
    let run = inspect(&["--report", "html=bases.html", "--report", "markdown=bases.md"]).run().ok();
    for line in ["oci:new:v1", ": excluded", "linux/amd64 [needs-file]", ": fits", ": unknown: "] {
        assert!(run.stdout.contains(line), "nothing of {line}\n{run}");
    }
    for page in ["bases.html", "bases.md"] {
        assert!(std::fs::read_to_string(layouts.layout(page)).unwrap().contains("oci:large:v1"), "{page}");
    }
}

#[test]
fn check_tries_all_allowed_bases() {
    let layouts = layouts();
    let check = |flags: &[&str]| {
        let allowed = ["--allow-base", "oci:new:v1", "--allow-base", "oci:large:v1", "--known-base", "oci:old:v1"];
        let run = layouts.underpin(&["check", "oci:app:v1", "--no-cache", "--json"]).args(allowed).args(flags).run();
        run.refused().json()["images"][0]["movable"].clone()
    };
    assert_eq!((check(&[]), check(&["--base", "auto"])), (json!("no"), json!("yes")));
}

#[test]
fn a_batch_records_the_choice_and_keeps_to_it() {
    let layouts = layouts();
    let text = "defaults: {old_base: 'oci:old:v1', base: auto, base_candidates: ['oci:new:v1', 'oci:large:v1']}\n\
        images: [{source: 'oci:app:v1', target: 'oci:out:v1'}]\n";
    std::fs::write(layouts.layout("batch.yaml"), text).unwrap();
    let batch = |flags: &[&str]| layouts.underpin(&["batch", "batch.yaml", "--no-cache"]).args(flags).run();
    let digest = batch(&[]).ok().digest();
    let lock: Value = serde_json::from_slice(&std::fs::read(layouts.layout("underpin.lock")).unwrap()).unwrap();
    assert_eq!(lock["images"][0]["pins"]["chosen_base"], "oci:large:v1");
    std::fs::remove_dir_all(layouts.layout("out")).unwrap();
    assert_eq!(batch(&["--locked"]).ok().digest(), digest);

    // The policy file has candidates for images that say none.
    std::fs::write(layouts.layout("policy.yaml"), "base_candidates: ['oci:middle:v1']\n").unwrap();
    std::fs::write(layouts.layout("batch.yaml"), text.replace(", base_candidates: ['oci:new:v1', 'oci:large:v1']", ""))
        .unwrap();
    let run = batch(&["--policy", "policy.yaml", "--json"]).refused();
    assert_eq!(verdicts(&run.json()["images"][0]["report"]["candidates"]).len(), 1);
}

#[test]
fn what_candidates_share_is_fetched_once() {
    let registry = or_skip!(Registry::plain());
    let proxy = Proxy::before(registry.host());
    let layouts = layouts();
    app(AMD64).build().push(registry.host(), "in/app", "v1");
    fixtures::old_base(AMD64).build().push(registry.host(), "base/old", "v1");
    fixtures::new_base(AMD64).build().push(registry.host(), "base/new", "v1");
    larger(AMD64).build().push(registry.host(), "base/large", "v1");
    let host = proxy.host();
    let plan = |flags: &[String]| {
        let plan = layouts.underpin(&["plan", &format!("{host}/in/app:v1"), "--no-cache", "--json", "--old-base"]);
        let report = plan.arg(format!("{host}/base/old:v1")).args(flags).run().ok().json();
        report["traffic"]["requests"].as_u64().unwrap()
    };
    let named = plan(&["--base".to_owned(), format!("{host}/base/large:v1")]);
    let candidate = |name: &str| ["--base-candidate".to_owned(), format!("{host}/base/{name}:v1")];
    let to = format!("{host}/out/app:v1");
    let auto = layouts.underpin(&["rebase", &format!("{host}/in/app:v1"), "--to", &to, "--no-cache", "--base", "auto"]);
    auto.args(candidate("new")).args(candidate("large")).args(["--old-base", "layers:2"]).run().ok();
    layouts.underpin(&["verify", &to]).run().ok().says("verified");
    let chosen = plan(
        &[vec!["--base".to_owned(), "auto".to_owned()], candidate("new").into(), candidate("large").into()].concat(),
    );
    // The other candidate's manifest, config and two layers.
    assert!(chosen <= named + 4, "{named} requests with a name, {chosen} with a choice");
}
