//! Images as rules_oci has them: trees of links in repositories of their own, without a tag.

use super::{AMD64, Workspace};
use crate::support::docker_registry::Registry;
use crate::support::skip::{Part, or_skip};
use crate::support::{fixtures, published};

/// Like `oci_image`: blobs are links, to a folder in the tree and to files outside, and no tag is left.
const RULES: &str = r#"
def _oci_image_impl(ctx):
    out = ctx.actions.declare_directory(ctx.label.name)
    top = [file for file in ctx.files.srcs if file.basename == "oci-layout"][0].dirname
    script = """set -euo pipefail
mkdir -p $2/blobs/sha256 $2/kept
cp -L $1/oci-layout $2/
sed 's/,*"annotations":{[^}]*}//; s/"schemaVersion":2,//' $1/index.json >$2/index.json
outside=yes
for blob in $1/blobs/sha256/*; do
  name=$(basename $blob)
  if [ $outside = yes ]; then
    ln -s $(realpath $blob) $2/blobs/sha256/$name
    outside=no
  else
    cp -L $blob $2/kept/$name
    ln -s ../../kept/$name $2/blobs/sha256/$name
  fi
done
"""
    ctx.actions.run_shell(command = script, arguments = [top, out.path], inputs = ctx.files.srcs, outputs = [out])
    return [DefaultInfo(files = depset([out]), runfiles = ctx.runfiles(ctx.files.srcs))]

oci_image = rule(implementation = _oci_image_impl, attrs = {"srcs": attr.label_list(allow_files = True)})
"#;

const IMAGES: &str = r#"
load(":rules.bzl", "oci_image")
[filegroup(name = name + "_files", srcs = glob([name + "/**"])) for name in ["build", "old", "new"]]
[oci_image(name = name + "_image", srcs = [name + "_files"], visibility = ["//visibility:public"]) for name in ["build", "old", "new"]]
exports_files(["underpin"])
"#;

const TARGETS: &str = r#"
load("@underpin//:underpin.bzl", "underpin_check", "underpin_push", "underpin_rebase")
underpin_rebase(
    name = "kube-proxy", image = "@images//:build_image", base = "@images//:new_image", old_base = "@images//:old_image",
    underpin = "@images//:underpin",
)
underpin_push(name = "push", rebase = ":kube-proxy", to = ["REGISTRY/out/app:v1"], underpin = "@images//:underpin")
underpin_check(name = "check", image = ":kube-proxy", base = "@images//:new_image", underpin = "@images//:underpin")
underpin_check(
    name = "check_elsewhere", image = "@images//:build_image", base = "@images//:new_image",
    old_base = "@images//:old_image", underpin = "@images//:underpin",
)
"#;

/// What newer versions of Bazel have made the rule, as far as this one knows it.
const NEWER: [&str; 10] = [
    "--incompatible_disable_target_provider_fields",
    "--incompatible_disallow_empty_glob",
    "--incompatible_disallow_struct_provider_syntax",
    "--incompatible_no_implicit_file_export",
    "--incompatible_no_rule_outputs_param",
    "--incompatible_run_shell_command_string",
    "--incompatible_strict_action_env",
    "--incompatible_struct_has_no_methods",
    "--incompatible_visibility_private_attributes_at_definition",
    "--incompatible_always_check_depset_elements",
];

/// The images and the program in one repository, what uses them in another.
fn workspace(registry: &str) -> Part<Workspace> {
    let here = Workspace::new("images", registry)?;
    let write = |name: &str, text: &str| std::fs::write(here.folder.join(name), text).unwrap();
    let outer = std::fs::read_to_string(here.folder.join("WORKSPACE")).unwrap();
    write("WORKSPACE", "workspace(name = \"images\")\n");
    write("rules.bzl", RULES);
    write("BUILD", IMAGES);
    let main = here.sandbox.path("main");
    std::fs::create_dir(&main).unwrap();
    let images = format!("local_repository(name = \"images\", path = \"{}\")\n", here.folder.display());
    std::fs::write(main.join("WORKSPACE"), outer + &images).unwrap();
    std::fs::write(main.join("BUILD"), TARGETS.replace("REGISTRY", registry)).unwrap();
    Ok(Workspace { folder: main, ..here })
}

#[test]
fn trees_of_links_in_another_repository_move_and_keep_their_digest_without_a_tag() {
    let registry = or_skip!(Registry::plain());
    let here = or_skip!(workspace(registry.host()));
    here.bazel(&[&["build", "//:kube-proxy"], &NEWER[..]].concat()).ok();
    let digest = here.output("kube-proxy.digest");
    let layout = here.folder.join("bazel-bin/kube-proxy");
    let inspected =
        here.sandbox.underpin(["inspect", "--json", &format!("oci:{}", layout.display())]).run().ok().json();
    assert_eq!(inspected["image"]["digest"].as_str(), Some(digest.trim_end()));
    here.bazel(&[&["run", "//:push"], &NEWER[..]].concat()).ok();
    assert_eq!(registry.tag("out/app", "v1").as_deref(), Some(digest.trim_end()));
    let published = published::registry(registry.host(), "out/app", "v1").unwrap();
    assert_eq!(published.only().layers[..2], fixtures::new_base(AMD64).build().layers());
}

#[test]
fn a_check_finds_images_in_another_repository() {
    let here = or_skip!(workspace("r.example"));
    here.test(&[&["--test_output=all", "//:check"], &NEWER[..]].concat()).ok();
    let run = here.test(&[&["--test_output=all", "//:check_elsewhere"], &NEWER[..]].concat());
    assert_eq!(run.code(), Some(3), "{run}");
    assert!(run.stdout.contains("[exception-missing] build_image is based on oci:old_base"), "{run}");
}
