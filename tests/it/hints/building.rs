//! Hints about what is to be done where the image is built: it is built again so, with other people's tools where they
//! do that, and then it moves.

use serde_json::{Value, json};

use super::refusals::{hello, image, is_quiet, moving, on};
use super::{advice, again};
use crate::limits::zstd_zeros;
use crate::real_start::only_a_run::packed;
use crate::support::docker_registry::{Door, Registry};
use crate::support::fixtures;
use crate::support::invocation::{Run, Sandbox};
use crate::support::layouts::{Layouts, upon};
use crate::support::programs::{Machine, c, prints};
use crate::support::skip::{need, or_skip};
use crate::support::tar_layer::{Entry, Layer, Pack, digest, program, tar};
use crate::support::tools::tool;

/// Moves the application with these files and this command, as this user.
fn moves(files: &[Entry], user: &str, entrypoint: &[&str]) -> Run {
    let layouts = image(&[], files, &json!({"Entrypoint": entrypoint, "User": user}));
    moving(&layouts, &[])().run()
}

/// An application of this layer.
fn of_layer(layer: Layer) -> Layouts {
    let old = fixtures::old_base("linux/amd64");
    Layouts::on(&old, &upon(&old, [layer], fixtures::app_config()))
}

#[test]
fn of_an_init_that_stays_behind() {
    or_skip!(need(&["gcc", "umoci", "runc"]));
    let source = "#include <sys/wait.h>\n#include <unistd.h>\nint main(int n, char **a) {\n\
        if (!fork()) execv(a[2], a + 2);\nint s; wait(&s); return s != 0; }\n";
    let init = program("sbin/tini", c("gcc", &["-static"], source));
    let config = json!({"Entrypoint": ["/sbin/tini", "--", "/app"]});
    let lost = image(std::slice::from_ref(&init), &[], &config);
    let run = lost.plan().run().ok();
    let written =
        "it must reap its children and handle SIGTERM itself; where it does not, put a static init into the image";
    advice(&run, written).by_hand("put a static init into the image");
    let kept = image(&[], &[init], &config);
    assert!(!kept.plan().run().ok().stdout.contains("without an init"));
    kept.rebase("out").run().ok();
    assert_eq!(kept.start("out"), fixtures::LINE);
}

#[test]
fn of_a_wrapper_that_changes_the_user() {
    let gosu = [program("bin/gosu", prints(Machine::Amd64, ""))];
    let run = moves(&gosu, "1000:1000", &["/bin/gosu", "1000:1000", "/app"]).refused().says("start-unknown");
    let written = "let the image run as root, or as the user that the program is to have and without the wrapper";
    advice(&run, written).by_hand("without the wrapper");
    moves(&gosu, "0", &["/bin/gosu", "1000:1000", "/app"]).ok();
    moves(&[], "1000:1000", &["/app"]).ok();

    let run = moves(&gosu, "0", &["/bin/gosu", "app", "/app"]).refused().says("user-missing");
    advice(&run, "name the user by number").by_hand("by number");
    moves(&gosu, "0", &["/bin/gosu", "1000:1000", "/app"]).ok();
}

#[test]
fn of_a_wrapper_that_leads_nowhere() {
    let env = [program("bin/env", prints(Machine::Amd64, ""))];
    let run = moves(&env, "", &["/bin/env", "--odd", "/app"]).refused().says("start-unknown");
    let written = "set ENTRYPOINT to the program itself, or pass --entrypoint, or leave {option} out";
    advice(&run, written).by_hand("leave --odd out");
    moves(&env, "", &["/bin/env", "/app"]).ok();
    moves(&env, "", &["/app"]).ok();

    let itself = image(&[], &[program("start", "#!/start\n")], &json!({"Entrypoint": ["/start"]}));
    let run = moving(&itself, &[])().run().refused().says("start-unknown");
    advice(&run, "set ENTRYPOINT to the program itself, or pass --entrypoint").by_hand("pass --entrypoint");
    moving(&itself, &["--entrypoint", "[\"/app\"]"])().run().ok();
}

#[test]
fn of_a_command_that_is_the_new_bases_in_part() {
    let mut old = fixtures::old_base("linux/amd64");
    old.config["Entrypoint"] = json!(["/usr/bin/nice"]);
    let inherited = on(&old, &[], &json!({"Entrypoint": ["/usr/bin/nice"], "Cmd": ["/app"]}));
    let run = moving(&inherited, &[])().run().ok().says("cmd-changes-meaning");
    let written =
        "if this is not what you want, set ENTRYPOINT and CMD in the image itself, or pass --entrypoint and --cmd";
    advice(&run, written).by_hand("pass --entrypoint and --cmd");
    let words = ["--entrypoint", "[\"/app\"]", "--cmd", "[\"--nice\"]"];
    is_quiet(&moving(&inherited, &words)().run().ok(), "cmd-changes-meaning");
    let own = on(&old, &[], &json!({"Entrypoint": ["/app"], "Cmd": ["--nice"]}));
    is_quiet(&moving(&own, &[])().run().ok(), "cmd-changes-meaning");
}

#[test]
fn of_a_program_that_was_packed() {
    or_skip!(need(&["gcc"]));
    let plain = c("gcc", &["-static"], "int main(void) { return 0; }\n");
    let packed = or_skip!(packed(&plain));
    let run = moves(&[program("packed", packed)], "", &["/packed"]).refused().says("packed-binary");
    advice(&run, "put the program into the image as it is: layers are compressed anyway").by_hand("as it is");
    moves(&[program("packed", plain)], "", &["/packed"]).ok();
}

#[test]
fn of_a_layer_of_zeros() {
    let zeros = of_layer(zstd_zeros(1 << 14));
    let run = zeros.rebase("out").run().fails("input");
    let written = "only zeros compress this well: build the image without large files of zeros";
    advice(&run, written).by_hand("without large files of zeros");
    of_layer(Layer::of(Pack::Zstd, &[hello()])).rebase("out").run().ok();
}

#[test]
fn of_a_layer_that_no_runtime_unpacks() {
    or_skip!(need(&["xz", "skopeo"]));
    let bytes = tar(&[hello()]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &bytes).unwrap();
    let packed = tool("xz", &["--stdout", file.path().to_str().unwrap()]).stdout;
    let layouts = of_layer(Layer { bytes: packed, diff_id: digest(&bytes), pack: Pack::Plain });
    let run = layouts.rebase("out").run().fails("input");
    advice(&run, "rebuild the image with gzip or zstd layers").by_hand("with gzip");
    // skopeo unpacks them for the one kind of archive, and packs them for the other.
    let at = |kind: &str, name: &str| format!("{kind}:{}:v1", layouts.layout(name).display());
    let copy = |from: &str, to: &str| tool("skopeo", &["copy", "--insecure-policy", from, to]);
    copy(&at("oci", "app"), &at("docker-archive", "unpacked.tar"));
    std::fs::remove_dir_all(layouts.layout("app")).unwrap();
    copy(&at("docker-archive", "unpacked.tar"), &at("oci", "app"));
    layouts.rebase("out").run().ok();
}

#[test]
fn of_an_archive_with_a_sparse_file() {
    or_skip!(need(&["tar"]));
    let layouts = image(&[], &[], &json!({}));
    let app = layouts.layout("app").display().to_string();
    let hole = std::fs::File::create(layouts.layout("app").join("hole")).unwrap();
    hole.set_len(1 << 20).unwrap();
    let archive = layouts.layout("app.tar").display().to_string();
    let packs = |more: &[&str]| tool("tar", &[more, &["-cf", &archive, "-C", &app, "."]].concat());
    let inspect = || layouts.underpin(&["inspect", "oci-archive:app.tar:v1"]).run();
    packs(&["--sparse"]);
    let run = inspect().fails("input");
    advice(&run, "pack it again without --sparse").by_hand("without --sparse");
    packs(&[]);
    inspect().ok();
}

#[test]
fn of_an_image_of_schema_1() {
    or_skip!(need(&["skopeo"]));
    let registry = or_skip!(Registry::with(&Door::Schema1));
    let sandbox = Sandbox::new();
    fixtures::app("linux/amd64", 10).build().layout(&sandbox.path("app"), "v1");
    let image = format!("{}/in/app:v1", registry.host());
    let there = format!("docker://{image}");
    let copy = |format: &str, from: &str| {
        let words = ["copy", "--insecure-policy", "--src-tls-verify=false", "--dest-tls-verify=false", "--format"];
        tool("skopeo", &[&words[..], &[format, from, &there]].concat())
    };
    copy("v2s1", &format!("oci:{}:v1", sandbox.path("app").display()));
    let inspect = || sandbox.underpin(["inspect", &image]).run();
    let run = inspect().fails("input");
    let written = "pull and push the image once with a tool that converts it to schema 2 or OCI";
    advice(&run, written).by_hand("converts it to schema 2 or OCI");
    copy("oci", &there);
    inspect().ok();
}

#[test]
fn of_a_working_directory_and_a_variable_of_the_new_base() {
    or_skip!(need(&["gcc"]));
    let mut new = fixtures::new_base("linux/amd64");
    new.config["WorkingDir"] = json!("/home/nonroot");
    new.config["Env"] = json!([fixtures::PATH, "SPEED=slow"]);
    let reads = "#include <stdlib.h>\nint main(void) { return getenv(\"SPEED\") == 0; }\n";
    let layer = Layer::of(Pack::Gzip, &[program("app", c("gcc", &["-static"], reads))]);
    let old = fixtures::old_base("linux/amd64");
    let with = |members: &Value| {
        let mut config = json!({"Entrypoint": ["/app"], "Env": [fixtures::PATH]});
        config.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        Layouts::new(&upon(&old, [layer.clone()], config).build(), &old.build(), &new.build())
    };
    let silent = with(&json!({}));
    let run = moving(&silent, &[])().run().ok();
    let workdir = advice(&run, "set WORKDIR in the image itself, or pass --workdir {old}").flag("--workdir");
    is_quiet(&again(moving(&silent, &[]), &workdir).ok(), "workdir-changed");
    let env = advice(&run, "set them in the image itself, or with --env NAME=VALUE")
        .flags("--env NAME=VALUE", &[("NAME=VALUE", "SPEED=fast")]);
    is_quiet(&again(moving(&silent, &[]), &env).ok(), "env-lost");
    let own = with(&json!({"WorkingDir": "/", "Env": [fixtures::PATH, "SPEED=fast"]}));
    let run = moving(&own, &[])().run().ok();
    is_quiet(&run, "workdir-changed");
    is_quiet(&run, "env-lost");
}
