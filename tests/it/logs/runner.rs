//! A log runner in front of the program does what the shell did: from the new base, or brought by
//! an image of its own.

use serde_json::{Value, json};

use super::programs::{parts, plain, runner};
use super::{LOG, application, of_rule, of_this_machine, shelled, shells, text};
use crate::support::layouts::{Layouts, fates, findings};
use crate::support::programs::{Machine, prints};
use crate::support::recipe::{Content, Dialect, Recipe, index};
use crate::support::skip::{need, or_skip};
use crate::support::tar_layer::{Entry, Layer, Pack, file, program, symlink};
use crate::support::tools::Container;
use crate::support::{fixtures, published};

/// An image that starts `/go-runner`, beside another file.
fn image(platform: &str, bytes: &[u8]) -> Recipe {
    let layers = [file("etc/note", "of the runner's image"), program("go-runner", bytes)];
    let layers = layers.map(|entry| Layer::of(Pack::Gzip, &[entry]));
    Recipe { config: json!({"Entrypoint": ["/go-runner"]}), ..Recipe::new(platform, layers.to_vec()) }
}

/// The fixture new base with this in it.
fn base_with(entry: Entry) -> Content {
    let mut new = fixtures::new_base("linux/amd64");
    new.layers.push(Layer::of(Pack::Gzip, &[entry]));
    new.build()
}

fn shell(script: &str) -> Value {
    json!({"Entrypoint": ["/bin/sh", "-c", script], "Env": [fixtures::PATH, "MODE=quiet"]})
}

/// What is in the file, on stdout and on stderr; the runner's own lines aside.
fn written(container: &Container) -> [String; 3] {
    let ended = container.start();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let own: String = ended.stderr.lines().filter(|line| !line.contains("Running command")).collect();
    [container.read(LOG), ended.stdout, own]
}

#[test]
fn a_runner_does_what_the_shell_did() {
    or_skip!(parts());
    let (app, runner) = (plain(), runner(&[]));
    for (script, flags, streams) in [
        ("exec /app a 0 1>>/var/log/app.log 2>&1", "", [true, false, false]),
        ("/app a 0 2>&1 | tee -a /var/log/app.log", " --also-stdout", [true, true, false]),
        ("exec /app a 0 >>/var/log/app.log", " --redirect-stderr=false", [false, false, true]),
    ] {
        let layouts = shelled(&[program("app", app.clone())], &shell(script));
        base_with(program("go-runner", runner.clone())).layout(&layouts.layout("new"), "v1");
        let report = layouts.rebase("out").arg("--json").run().ok().json();
        let (before, after) = (layouts.container("app"), layouts.container("out"));
        assert_eq!(after.command().0.join(" "), format!("/go-runner --log-file={LOG}{flags} /app a 0"), "{script}");
        let [both, copied, apart] = streams;
        let lines = if both { "out [a 0] quiet\nerr\n" } else { "out [a 0] quiet\n" };
        let expected = [lines, if copied { lines } else { "" }, if apart { "err" } else { "" }];
        assert_eq!(written(&before), expected, "{script} before");
        assert_eq!(written(&after), expected, "{script} after");
        assert_eq!(report["platforms"][0]["logs"], json!({"strategy": "runner", "file": LOG}));
        let binaries = report["platforms"][0]["binaries"].as_array().unwrap();
        assert!(["/app", "/go-runner"].iter().all(|path| binaries.iter().any(|binary| binary["path"] == *path)));
    }
}

#[test]
fn what_a_runner_cannot_do_is_said() {
    or_skip!(parts());
    let layouts = shelled(&[program("app", plain())], &shell("exec /app 7 >>/var/log/app.log 2>&1"));
    base_with(program("go-runner", runner(&[]))).layout(&layouts.layout("new"), "v1");
    let report = layouts.rebase("out").arg("--json").run().ok().json();
    assert_eq!(layouts.container("app").start().code, Some(7));
    assert_eq!(layouts.container("out").start().code, Some(1), "the exit status is lost");
    let notes: String = of_rule(&report, "shell-removed").iter().map(|note| text(note, "message")).collect();
    assert!(notes.contains("exit status 1"), "{notes}");
}

#[test]
fn a_runner_of_another_image_is_brought_along_and_verified() {
    or_skip!(parts());
    let layouts = shelled(&[program("app", plain())], &shell("exec /app 0 >>/var/log/app.log 2>&1"));
    let report = layouts.rebase("out").args(["--json", "--logs", "runner"]).run().refused().json();
    assert_eq!(findings(&report["platforms"][0]), ["refuse log-flag-unknown"], "there is no runner");
    assert!(!layouts.layout("out").exists(), "a refusal writes nothing");

    image("linux/amd64", &runner(&[])).build().layout(&layouts.layout("runner"), "v1");
    let report = layouts.rebase("out").args(["--json", "--log-runner", "oci:runner:v1"]).run().ok().json();
    assert_eq!(fates(&report), ["kept", "added"]);
    let after = layouts.container("out");
    assert_eq!(after.command().0, ["/go-runner", &format!("--log-file={LOG}"), "/app", "0"]);
    assert_eq!(written(&after)[0], "out [0] quiet\nerr\n");
    assert_eq!(after.owner("/go-runner"), (0, 0, 0o755));
    assert!(!after.has("/etc/note"), "only the runner is taken");
    layouts.verify("oci:out:v1").args(["--log-runner", "oci:runner:v1"]).run().ok().says("verified");
    // The runner decides bytes, so a run without it must not verify as the same.
    let published = published::layout(&layouts.layout("out"), "v1").unwrap();
    let options = published.images[0].manifest["annotations"]["dev.underpin.options"].as_str().unwrap();
    assert!(options.contains("\"log_runner\":\"sha256:"), "{options}");
}

#[test]
fn a_runner_that_is_not_needed_is_not_brought() {
    or_skip!(parts());
    let layouts = shelled(&[program("app", plain())], &shell("exec /app 0"));
    image("linux/amd64", &runner(&[])).build().layout(&layouts.layout("runner"), "v1");
    let report = layouts.rebase("out").args(["--json", "--log-runner", "oci:runner:v1"]).run().ok().json();
    assert_eq!(fates(&report), ["kept"]);
    assert_eq!(report["platforms"][0]["logs"], json!({"strategy": "none", "file": null}));
}

#[test]
fn a_runner_that_would_not_start_is_refused() {
    or_skip!(parts());
    let dynamic = runner(&[("CGO_ENABLED", "1"), ("GOFLAGS", "-ldflags=-linkmode=external")]);
    let layouts = shelled(&[program("app", plain())], &shell("exec /app 0 >>/var/log/app.log 2>&1"));
    let refused = |args: &[&str]| {
        let report = layouts.rebase("out").arg("--json").args(args).run().refused().json();
        assert!(!layouts.layout("out").exists(), "a refusal writes nothing");
        findings(&report["platforms"][0])
    };
    image("linux/amd64", &dynamic).build().layout(&layouts.layout("runner"), "v1");
    assert_eq!(refused(&["--log-runner", "oci:runner:v1"]), ["refuse dynamic-binary"]);
    let foreign = prints(Machine::of("linux/arm64"), "x");
    image("linux/amd64", &foreign).build().layout(&layouts.layout("runner"), "v1");
    assert_eq!(refused(&["--log-runner", "oci:runner:v1"]), ["refuse wrong-machine"]);
    base_with(program("go-runner", dynamic)).layout(&layouts.layout("new"), "v1");
    assert_eq!(refused(&[]), ["refuse dynamic-binary"], "the base's own, too");
}

#[test]
fn a_runner_behind_an_init_is_proven_as_well() {
    or_skip!(parts());
    or_skip!(need(&["tini-static"]));
    let dynamic = runner(&[("CGO_ENABLED", "1"), ("GOFLAGS", "-ldflags=-linkmode=external")]);
    let script = "exec /app 0 >>/var/log/app.log 2>&1";
    let config = json!({"Entrypoint": ["/tini", "--", "/bin/sh", "-c", script], "Env": [fixtures::PATH, "MODE=quiet"]});
    let files = [program("app", plain()), program("tini", of_this_machine("tini-static"))];
    let layouts = shelled(&files, &config);
    base_with(program("go-runner", dynamic)).layout(&layouts.layout("new"), "v1");
    let report = layouts.rebase("out").arg("--json").run().refused().json();
    assert_eq!(findings(&report["platforms"][0]), ["refuse dynamic-binary"]);
    base_with(program("go-runner", runner(&[]))).layout(&layouts.layout("new"), "v1");
    layouts.rebase("out").run().ok();
    let after = layouts.container("out");
    assert_eq!(after.command().0[..3], ["/tini", "--", "/go-runner"]);
    assert_eq!(written(&after)[0], "out [0] quiet\nerr\n");
}

#[test]
fn a_runner_that_is_brought_takes_nobodys_place() {
    or_skip!(parts());
    let runner = runner(&[]);
    let layouts = shelled(&[program("app", plain())], &shell("exec /app 0 >>/var/log/app.log 2>&1"));
    base_with(symlink("bin", "usr/bin")).layout(&layouts.layout("new"), "v1");
    for taken in ["app", "bin/go-runner"] {
        let mut image = image("linux/amd64", b"");
        image.layers.push(Layer::of(Pack::Gzip, &[program(taken, runner.clone())]));
        image.config = json!({"Entrypoint": [format!("/{taken}")]});
        image.build().layout(&layouts.layout("runner"), "v1");
        layouts.rebase("out").args(["--log-runner", "oci:runner:v1"]).run().ok();
        let after = Container::of(&layouts.layout("out"), &layouts.sandbox.path(&format!("bundle-{}", taken.len())));
        assert_eq!(after.command().0[0], "/go-runner", "{taken}");
        assert_eq!(written(&after)[0], "out [0] quiet\nerr\n", "{taken}");
    }
}

#[test]
fn an_image_without_a_program_is_no_runner() {
    or_skip!(parts());
    let layouts = shelled(&[program("app", plain())], &shell("exec /app 0 >>/var/log/app.log 2>&1"));
    let mut empty = image("linux/amd64", b"x");
    empty.config = json!({});
    empty.build().layout(&layouts.layout("runner"), "v1");
    layouts.rebase("out").args(["--log-runner", "oci:runner:v1"]).run().refused().says("log-flag-unknown");
    image("linux/arm64", &runner(&[])).build().layout(&layouts.layout("runner"), "v1");
    let run = layouts.rebase("out").args(["--log-runner", "oci:runner:v1"]).run().fails("input");
    run.says("no image for a platform").says("linux/amd64");
    assert!(!layouts.layout("out").exists());
}

const TWO: [(&str, &str); 2] = [("linux/amd64", "amd64"), ("linux/arm64", "arm64")];

#[test]
fn each_platform_of_an_index_gets_its_own_runner() {
    or_skip!(parts());
    let both = |image: &dyn Fn(&str, &str) -> Recipe| {
        index(Dialect::Oci, &TWO.map(|(platform, arch)| (platform, image(platform, arch).build())))
    };
    let old = |platform: &str| Recipe { platform: platform.to_owned(), ..shells(&[]) };
    let app = both(&|platform, _| {
        let app = program("app", prints(Machine::of(platform), "a line\n"));
        application(&old(platform), &[app], &shell("exec /app >>/var/log/app.log 2>&1"))
    });
    let new = both(&|platform, _| fixtures::new_base(platform));
    let layouts = Layouts::new(&app, &both(&|platform, _| old(platform)), &new);
    both(&|platform, arch| image(platform, &runner(&[("GOARCH", arch)]))).layout(&layouts.layout("runner"), "v1");
    let report = layouts.rebase("out").args(["--json", "--log-runner", "oci:runner:v1"]).run().ok().json();
    for (at, machine) in ["amd64", "arm64"].iter().enumerate() {
        let told = &report["platforms"][at];
        assert_eq!(told["logs"]["strategy"], "runner");
        let machines: Vec<&Value> = told["binaries"].as_array().unwrap().iter().map(|one| &one["machine"]).collect();
        assert_eq!(machines, [machine, machine]);
    }
    let published = published::layout(&layouts.layout("out"), "v1").unwrap();
    assert_eq!(published.images.len(), 2);
    let record = |annotations: &Value| annotations["dev.underpin.options"].as_str().unwrap().to_owned();
    let records: Vec<String> = published.images.iter().map(|image| record(&image.manifest["annotations"])).collect();
    assert!(records.iter().all(|record| record.contains("\"log_runner\":\"sha256:")), "{records:?}");
    assert_ne!(records[0], records[1], "each names its platform's own");
    layouts.verify("oci:out:v1").args(["--log-runner", "oci:runner:v1"]).run().ok().says("verified");
    // One platform alone gives the same child.
    let alone = ["--json", "--log-runner", "oci:runner:v1", "--platform", "linux/amd64"];
    layouts.rebase("alone").args(alone).run().ok();
    let alone = published::layout(&layouts.layout("alone"), "v1").unwrap();
    assert_eq!(alone.images[0].manifest, published.images[0].manifest);
    layouts.verify("oci:alone:v1").args(["--log-runner", "oci:runner:v1"]).run().ok().says("verified");
}
