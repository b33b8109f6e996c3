//! Hints about the command line, and about files that it names.

use serde_json::json;

use super::{advice, again};
use crate::support::fixtures;
use crate::support::invocation::{Sandbox, binary};
use crate::support::layouts::Layouts;
use crate::support::recipe::Dialect;
use crate::support::skip::{need, or_skip};
use crate::support::tools::newer;

const AMD64: &str = "linux/amd64";

fn layouts() -> Layouts {
    Layouts::on(&fixtures::old_base(AMD64), &fixtures::app(AMD64, 10))
}

fn write(sandbox: &Sandbox, name: &str, text: &str) {
    std::fs::write(sandbox.path("here").join(name), text).unwrap();
}

#[test]
fn of_names_that_do_not_exist() {
    let sandbox = Sandbox::new();
    let run = sandbox.underpin(["explain", "needs-shel"]).run().fails("usage");
    let all = sandbox.underpin(advice(&run, "`underpin explain` lists all rules").command(&[])).run().ok();
    assert!(all.stdout.contains("needs-shell"), "{all}");
    let run = sandbox.underpin(["man", "rebas"]).run().fails("usage");
    let help = sandbox.underpin(advice(&run, "`underpin --help` lists the commands").command(&[])).run().ok();
    assert!(help.stdout.contains("\n  rebase "), "{help}");
}

#[test]
fn of_flags_that_need_another() {
    let layouts = layouts();
    let run = layouts.rebase("out").args(["--base-candidate", "oci:new:v1"]).run().fails("usage");
    let auto = advice(&run, "pass --base auto, or leave --base-candidate out").flags("--base auto", &[]);
    let words =
        ["rebase", "oci:app:v1", "--old-base", "oci:old:v1", "--base-candidate", "oci:new:v1", "--to", "oci:o:v1"];
    layouts.underpin(&words).args(auto).run().ok();
    layouts.rebase("out").run().ok();

    let run = layouts.rebase("out").args(["--start-arg", "x"]).run().fails("usage");
    let start = advice(&run, "pass --start, too").flags("--start", &[]);
    or_skip!(need(&["runc"]));
    again(|| layouts.rebase("out").args(["--start-arg", "x"]), &start).ok();
}

#[test]
fn of_a_cache_that_is_nowhere() {
    let sandbox = Sandbox::new();
    // A process without a home.
    let list = || sandbox.program("/usr/bin/env", ["-i", &binary(), "cache", "ls"]);
    let run = list().run().fails("usage");
    again(list, &advice(&run, "pass --cache DIR").flags("--cache DIR", &[("DIR", "kept")])).ok();
}

#[test]
fn of_a_list_of_exceptions_that_is_not_one() {
    let sandbox = Sandbox::new();
    let add = ["exceptions", "list.md", "--add", "etcd", "--base", "a.io/b", "--reason", "why"];
    let run = sandbox.underpin(add).run().fails("local-io");
    sandbox.underpin(advice(&run, "begin a list: {begin}").command(&[])).run().ok();
    sandbox.underpin(add).run().ok();

    let run = sandbox.underpin(["exceptions", "--init", "list.md"]).run().fails("usage");
    advice(&run, "leave --init out to read or edit it").by_hand("leave --init out");
    assert!(sandbox.underpin(["exceptions", "list.md"]).run().ok().stdout.contains("etcd"));

    write(&sandbox, "page.md", "# No table\n");
    let run = sandbox.underpin(["exceptions", "page.md"]).run().fails("input");
    let table = "add a table whose header has the words Component (or Image Name), Base and Reason, with one row for each component";
    advice(&run, table).by_hand("Component (or Image Name), Base and Reason");
    write(&sandbox, "page.md", "# A table\n\n| Component | Base | Reason |\n| --- | --- | --- |\n");
    sandbox.underpin(["exceptions", "page.md"]).run().ok();

    let two = "# A\n\n|Component|Base|Reason|\n|-|-|-|\n|a|a.io/x|r|\n\n# B\n\n|Component|Base|Reason|\n|-|-|-|\n|b|a.io/y|r|\n";
    write(&sandbox, "two.md", two);
    let add = || sandbox.underpin(["exceptions", "two.md", "--add", "c", "--base", "a.io/z", "--reason", "r"]);
    let run = add().run().fails("input");
    let section = advice(&run, "name the heading above the table, such as --section '{example}'").flag("--section");
    again(add, &section).ok();
}

#[test]
fn of_a_lock_file_that_is_missing_damaged_or_not_wanted() {
    let layouts = layouts();
    let batch = json!({"images": [{"source": "oci:app:v1", "old_base": "oci:old:v1", "base": "oci:new:v1", "target": "oci:out:v1"}]});
    write(&layouts.sandbox, "batch.yaml", &batch.to_string());
    let batch = |more: &[&str]| layouts.underpin(&["batch", "batch.yaml"]).args(more).run();
    let run = batch(&["--locked"]).fails("usage");
    advice(&run, "run once without --locked, and commit the file").by_hand("run once without --locked");
    batch(&[]).ok();
    batch(&["--locked"]).ok();

    write(&layouts.sandbox, "underpin.lock", "{");
    let run = batch(&[]).fails("input");
    let update = advice(&run, "remove it, or run with --update-lock").flags("--update-lock", &[]);
    batch(&update.iter().map(String::as_str).collect::<Vec<_>>()).ok();

    let run = batch(&["--shard", "4/4"]).fails("usage");
    let written = "--shard 0/4 is the first of four; --shard /4 takes the index from JOB_COMPLETION_INDEX";
    let first = advice(&run, written).flags("--shard 0/4", &[]);
    batch(&first.iter().map(String::as_str).collect::<Vec<_>>()).ok();
    let indexed = advice(&run, written).flags("--shard /4", &[]);
    layouts.underpin(&["batch", "batch.yaml"]).args(indexed).env("JOB_COMPLETION_INDEX", "1").run().ok();
}

#[test]
fn of_files_that_cannot_be_read_as_written() {
    let sandbox = Sandbox::new();
    write(&sandbox, "tab.yaml", "apiVersion: v1\nkind: Pod\nspec:\n\tcontainers: []\n");
    let run = sandbox.underpin(["kube", "tab.yaml"]).run();
    assert_eq!(run.code(), Some(2), "{run}");
    advice(&run, "indent with spaces").by_hand("indent with spaces");
    write(&sandbox, "tab.yaml", "apiVersion: v1\nkind: Pod\nspec:\n  containers: []\n");
    sandbox.underpin(["kube", "tab.yaml"]).run().ok();

    write(&sandbox, "alias.yaml", "images:\n- &a {source: 'oci:a:b', target: 'oci:c:d'}\n- *a\n");
    let run = sandbox.underpin(["batch", "alias.yaml"]).run();
    assert_eq!(run.code(), Some(2), "{run}");
    advice(&run, "write the value out, or use `defaults`").by_hand("write the value out");
}

#[test]
fn of_an_sbom_for_several_platforms() {
    let layouts = Layouts::new(
        &fixtures::on_three(Dialect::Oci, |platform| fixtures::app(platform, 10)),
        &fixtures::on_three(Dialect::Oci, fixtures::old_base),
        &fixtures::on_three(Dialect::Oci, fixtures::new_base),
    );
    let run = layouts.rebase("out").args(["--report", "spdx=sbom.json"]).run().fails("usage");
    let written =
        "put {platform} into the name of the file, as in --report spdx=sbom-{platform}.json, or pass --platform";
    // `{platform}` is what is printed, too: it is the reader who types it.
    let flags = advice(&run, written).flags("--report spdx=sbom-{platform}.json", &[]);
    again(|| layouts.rebase("out"), &flags).ok();
    layouts.rebase("one").args(["--report", "spdx=sbom.json", "--platform", AMD64]).run().ok();
}

#[test]
fn of_a_signing_key_that_is_none() {
    or_skip!(need(&["openssl"]));
    let layouts = layouts();
    write(&layouts.sandbox, "key.pem", "no key\n");
    let sign = || layouts.rebase("out").args(["--attest", "provenance", "--sign-key", "key.pem"]);
    let run = sign().run();
    assert_eq!(run.code(), Some(2), "{run}");
    let written = "make one with `cosign generate-key-pair` or `openssl genpkey -algorithm ed25519`";
    advice(&run, written).by_hand("`openssl genpkey -algorithm ed25519`");
    let key = layouts.sandbox.program("openssl", ["genpkey", "-algorithm", "ed25519"]).run().ok().stdout;
    write(&layouts.sandbox, "key.pem", &key);
    sign().run().ok();
}

#[test]
fn of_a_name_with_a_tag_where_none_may_be() {
    let layouts = layouts();
    let named = |name: &str| layouts.rebase("out").args(["--base-name", name]).run();
    let run = named("gcr.io/distroless/static:latest").fails("usage");
    advice(&run, "write {name}").by_hand("write gcr.io/distroless/static");
    named("gcr.io/distroless/static").ok();
}

#[test]
fn of_the_sboms_of_several_images() {
    let layouts = layouts();
    let image =
        |to: &str| json!({"source": "oci:app:v1", "old_base": "oci:old:v1", "base": "oci:new:v1", "target": to});
    write(&layouts.sandbox, "batch.yaml", &json!({"images": [image("oci:a:v1"), image("oci:b:v1")]}).to_string());
    let run = layouts.underpin(&["batch", "batch.yaml", "--report", "spdx=sbom.json"]).run().fails("usage");
    let report =
        advice(&run, "put {{digest}} into the name of the file: --report {}=sbom-{{digest}}.json").flag("--report");
    layouts.underpin(&["batch", "batch.yaml"]).args(report).run().ok();
}

/// A digest that the lock file pins, and that is gone.
#[test]
fn of_a_pinned_image_that_is_gone() {
    let layouts = layouts();
    let image = json!({"source": "oci:app:v1", "old_base": "oci:old:v1", "base": "oci:new:v1", "target": "oci:out:v1"});
    write(&layouts.sandbox, "batch.yaml", &json!({"images": [image]}).to_string());
    let batch = |more: &[&str]| layouts.underpin(&["batch", "batch.yaml", "--no-cache"]).args(more).run();
    batch(&[]).ok();
    for gone in ["app", "out"] {
        std::fs::remove_dir_all(layouts.layout(gone)).unwrap();
    }
    fixtures::app(AMD64, 11).build().layout(&layouts.layout("app"), "v1");
    let run = batch(&[]);
    assert_eq!(run.code(), Some(2), "{run}");
    let update = advice(&run, "underpin.lock pins this digest; --update-lock resolves every name again")
        .flags("--update-lock", &[]);
    batch(&update.iter().map(String::as_str).collect::<Vec<_>>()).ok();
}

#[test]
fn of_keys_with_a_password() {
    let cosign = or_skip!(newer("sid/cosign", "cosign"));
    or_skip!(need(&["openssl"]));
    let layouts = layouts();
    let cosign = |args: &[&str]| {
        let run = layouts.sandbox.program(cosign.to_str().unwrap(), args).env("COSIGN_PASSWORD", "secret");
        run.run().ok()
    };
    cosign(&["generate-key-pair"]);
    let sign = |key: &str| layouts.rebase("out").args(["--attest", "provenance", "--sign-key", key]);
    let run = sign("cosign.key").run();
    advice(&run, "set {SIGNING_PASSWORD}").by_hand("set COSIGN_PASSWORD");
    let run = sign("cosign.key").env("COSIGN_PASSWORD", "other").run();
    advice(&run, "set {SIGNING_PASSWORD} to the password that the key was made with").by_hand("set COSIGN_PASSWORD");
    sign("cosign.key").env("COSIGN_PASSWORD", "secret").run().ok();

    let genpkey = ["genpkey", "-algorithm", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-aes256", "-pass", "pass:x"];
    let encrypted = layouts.sandbox.program("openssl", genpkey).run().ok().stdout;
    write(&layouts.sandbox, "other.pem", &encrypted);
    let run = sign("other.pem").env("COSIGN_PASSWORD", "secret").run();
    let written = "decrypt it with `openssl pkey -in FILE -out PLAIN`; `cosign import-key-pair --key PLAIN` encrypts it in the form that is read";
    advice(&run, written).by_hand("`cosign import-key-pair --key PLAIN`");
    let pkey = ["pkey", "-in", "other.pem", "-passin", "pass:x", "-out", "plain.pem"];
    layouts.sandbox.program("openssl", pkey).run().ok();
    cosign(&["import-key-pair", "--key", "plain.pem", "--output-key-prefix", "imported"]);
    sign("imported.key").env("COSIGN_PASSWORD", "secret").run().ok();

    write(&layouts.sandbox, "policy.yaml", "signed_by: [{images: '*', keys: [cosign.key]}]\n");
    let run = layouts.rebase("out").args(["--policy", "policy.yaml"]).run();
    advice(&run, "`cosign public-key --key cosign.key` prints it").by_hand("`cosign public-key --key cosign.key`");
    let public = cosign(&["public-key", "--key", "cosign.key"]).stdout;
    assert!(public.contains("BEGIN PUBLIC KEY"), "{public}");
}

#[test]
fn of_a_key_in_a_variable_that_is_not_set() {
    or_skip!(need(&["openssl"]));
    let layouts = layouts();
    let sign = || layouts.rebase("out").args(["--attest", "provenance", "--sign-key", "env://SIGNING_KEY"]);
    let run = sign().run().fails("usage");
    advice(&run, "export {name} with the text of the key").by_hand("export SIGNING_KEY");
    let key = layouts.sandbox.program("openssl", ["genpkey", "-algorithm", "ed25519"]).run().ok().stdout;
    sign().env("SIGNING_KEY", key).run().ok();
}

#[test]
fn of_a_container_of_a_manifest_that_is_not_the_only_one() {
    let layouts = layouts();
    let pod = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: app, image: x, command: [/app]}}]}}\n"
        )
    };
    write(&layouts.sandbox, "pods.yaml", &[pod("one"), pod("two")].join("---\n"));
    let from = |from: &str| layouts.plan().args(["--command-from", from]).run();
    let run = from("pods.yaml#app").fails("input");
    let hint = "name one with its object: {file}#{}";
    advice(&run, hint).by_hand("pods.yaml#");
    let named = run.stderr.split("its object: ").nth(1).unwrap().split_whitespace().next().unwrap();
    from(named).ok();

    let check = |images: &[&str]| layouts.underpin(&["check"]).args(images).args(["--command-from", named]).run();
    let run = check(&["oci:app:v1", "oci:old:v1"]).fails("usage");
    advice(&run, "check one image, or give `command_from` in a batch file").by_hand("check one image");
    assert_ne!(check(&["oci:app:v1", "--base", "oci:new:v1"]).kind().as_deref(), Some("usage"));

    write(&layouts.sandbox, "template.yaml", &pod("one").replace("[/app]", "{{ .Values.command }}"));
    let run = from("template.yaml#app").fails("input");
    advice(&run, "render the template first").by_hand("render the template first");
    write(&layouts.sandbox, "template.yaml", &pod("one"));
    from("template.yaml#app").ok();
}
