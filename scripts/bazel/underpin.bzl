"""Moves images as part of a Bazel build: `underpin_rebase`, `underpin_check`, `underpin_start`, `underpin_push`.

Images are OCI layouts: a tree artifact, as `oci_image` of rules_oci makes, or the files of a layout, as a filegroup
with `glob(["layout/**"])` has. The actions use no network, no cache and nothing of the machine but bash and cp; the
images stand under the same names whatever the configuration or the output root, so the digest is the same everywhere:
remote execution and shared caches included. For WORKSPACE and for bzlmod, from Bazel 4.2 on.
"""

UnderpinInfo = provider(
    doc = "A moved image, and all that is needed to move it again.",
    fields = {
        "layout": "the OCI layout with the result, a tree artifact",
        "digest": "a file with the digest of the result",
        "report": "the JSON report",
        "places": "what to stage: list of structs with name, root, files and the files that links in them lead to",
        "words": "the words of `underpin rebase` that decide about the result",
    },
)

# Bazel shows inputs as symbolic links, and underpin follows none inside an image: each is copied under its short name.
_STAGE = """set -euo pipefail
top=$PWD
trap 'rm -rf "$stage"' EXIT
place() {
  local to=$stage/$1 root=$2 file
  shift 2
  for file; do
    mkdir -p "$(dirname "$to${file#"$root"}")"
    cp -RL "$file" "$to${file#"$root"}"
  done
}
"""

def _quote(word):
    return "'" + word.replace("'", "'\\''") + "'"

def _line(words):
    return " ".join([_quote(word) for word in words])

def _image(name, target):
    """The layout that `target` is, to be staged as `name`."""
    files = target[DefaultInfo].files.to_list()

    # The blobs in a tree of rules_oci are links to files that stand elsewhere; it names those as its runfiles.
    runfiles = target[DefaultInfo].default_runfiles
    linked = runfiles.files if runfiles else depset()
    trees = [file for file in files if file.is_directory]
    if len(trees) == 1 and len(files) == 1:
        return struct(name = name, root = trees[0], files = trees, linked = linked)
    markers = [file for file in files if file.basename == "oci-layout"]
    if trees or len(markers) != 1:
        fail("%s is not one OCI layout: it has %d folders and %d files named oci-layout" % (target.label, len(trees), len(markers)))
    return struct(name = name, root = markers[0], files = files, linked = linked)

def _file(name, file):
    """One file, to be staged as `name`."""
    return struct(name = name, root = file, files = [file], linked = depset())

def _stage_lines(places, path):
    """Shell lines that put every place where underpin will look for it; `path` gives the path of a file."""
    lines = []
    for place in places:
        root = path(place.root)
        names = [path(file) for file in place.files]
        if place.root.basename == "oci-layout" and not place.root.is_directory:
            # The folder that the files of a layout stand in; at the very top there is none in front of their names.
            root, names = ("./" + root)[:-len("/oci-layout")], ["./" + name for name in names]
        lines.append("place " + _line([place.name, root] + names))
    return "\n".join(lines) + "\n"

def _path(file):
    return file.path

def _short_path(file):
    return file.short_path

def _location(name, tag):
    return "oci:%s:%s" % (name, tag) if tag else "oci:" + name

def _rebase_impl(ctx):
    attr = ctx.attr
    places = [_image("image", attr.image), _image("base", attr.base)]
    words = [_location("image", attr.image_tag), "--base", _location("base", attr.base_tag)]
    if attr.old_base:
        places.append(_image("old_base", attr.old_base))
        words += ["--old-base", _location("old_base", attr.old_base_tag)]
    if attr.source_name:
        words += ["--source-name", attr.source_name]
    if attr.base_name:
        words += ["--base-name", attr.base_name]
    if attr.exceptions:
        places.append(_file("exceptions.md", ctx.file.exceptions))
        words += ["--exceptions", "exceptions.md"]
    words += ["--logs", attr.logs] + attr.flags
    layout = ctx.actions.declare_directory(ctx.label.name)
    script = _STAGE + "stage=$top/%s.stage\nrm -rf \"$stage\"\nmkdir \"$stage\"\n" % ctx.outputs.digest.path
    script += _stage_lines(places, _path)
    run = ["rebase", "-q", "--offline", "--no-cache", "--to", _location("out", attr.image_tag)]
    run += ["--digest-file", "digest", "--report", "json=report"] + words
    if attr.expect_digest:
        run += ["--expect-digest", attr.expect_digest]
    script += "cd \"$stage\"\n\"$top/\"%s %s >/dev/null\n" % (_quote(ctx.executable.underpin.path), _line(run))
    script += "mv out/* \"$top/\"%s/\n" % _quote(layout.path)
    script += "mv digest \"$top/\"%s\nmv report \"$top/\"%s\n" % (_quote(ctx.outputs.digest.path), _quote(ctx.outputs.report.path))
    ctx.actions.run_shell(
        command = script,
        inputs = _inputs(places),
        outputs = [layout, ctx.outputs.digest, ctx.outputs.report],
        tools = [attr.underpin[DefaultInfo].files_to_run],
        mnemonic = "UnderpinRebase",
        progress_message = "Moving %s onto its new base" % ctx.label,
        execution_requirements = {"block-network": "1"},
    )
    return [
        DefaultInfo(files = depset([layout])),
        OutputGroupInfo(digest = depset([ctx.outputs.digest]), report = depset([ctx.outputs.report])),
        UnderpinInfo(layout = layout, digest = ctx.outputs.digest, report = ctx.outputs.report, places = places, words = words),
    ]

def _inputs(places):
    return depset([file for place in places for file in place.files], transitive = [place.linked for place in places])

_underpin_rebase = rule(
    implementation = _rebase_impl,
    attrs = {
        "image": attr.label(mandatory = True, allow_files = True, doc = "The image to move: one OCI layout."),
        "image_tag": attr.string(doc = "Its tag in the layout, and that of the result; may be left out where the layout has one image."),
        "base": attr.label(mandatory = True, allow_files = True, doc = "The new base: one OCI layout."),
        "base_tag": attr.string(doc = "Its tag in the layout."),
        "source_name": attr.string(doc = "The image's name in its registry, which the result records. Left out: none."),
        "base_name": attr.string(doc = "The base's name in its registry, such as gcr.io/distroless/static. Left out: none."),
        "old_base": attr.label(allow_files = True, doc = "What the image was built on: one OCI layout. Left out: detected."),
        "old_base_tag": attr.string(doc = "Its tag in the layout."),
        "logs": attr.string(default = "auto", values = ["auto", "klog", "runner", "stdout"], doc = "Who writes the log file that a shell wrote."),
        "exceptions": attr.label(allow_single_file = True, doc = "The Markdown list of exceptions."),
        "expect_digest": attr.string(doc = "The build fails unless the result has this digest."),
        "flags": attr.string_list(doc = "More flags of `underpin rebase`, such as --platform or --extract."),
        "underpin": attr.label(mandatory = True, allow_files = True, executable = True, cfg = "exec", doc = "The program."),
        "digest": attr.output(mandatory = True),
        "report": attr.output(mandatory = True),
    },
)

def underpin_rebase(name, **kwargs):
    """Moves an image. `:NAME` is the layout, `:NAME.digest` its digest, `:NAME.json` the report.

    Args:
      name: of the target, and of the folder that holds the layout.
      **kwargs: image, image_tag, base, base_tag, source_name, base_name, old_base, old_base_tag, logs, exceptions,
        expect_digest, flags, underpin; and what every rule takes.
    """
    _underpin_rebase(name = name, digest = name + ".digest", report = name + ".json", **kwargs)

# Bazel starts it among its runfiles; started by hand, it goes there.
_GO = """#!/usr/bin/env bash
if [ -d "$0.runfiles"/%s ]; then cd "$0.runfiles"/%s; fi
"""

def _program(ctx, places, lines, files):
    """An executable that stages places from its runfiles and goes on with `lines` among them."""
    here = _quote(ctx.workspace_name)
    script = _GO % (here, here) + _STAGE + "stage=$(mktemp -d)\n" + _stage_lines(places, _short_path)
    executable = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(executable, script + lines, is_executable = True)
    runfiles = ctx.runfiles(files = files + [ctx.executable.underpin], transitive_files = _inputs(places))
    runfiles = runfiles.merge(ctx.attr.underpin[DefaultInfo].default_runfiles)
    return [DefaultInfo(executable = executable, runfiles = runfiles)]

def _check_impl(ctx):
    attr = ctx.attr
    component = attr.component or attr.image.label.name.split("/")[-1]

    # The exception list knows an image by the name of its folder.
    places = [_image("component/" + component, attr.image)]
    words = ["check", "--no-cache", _location("component/" + component, attr.image_tag)]
    if attr.base:
        places.append(_image("base", attr.base))
        words += ["--offline", "--allow-base", _location("base", attr.base_tag)]
    if attr.old_base:
        places.append(_image("old_base", attr.old_base))
        words += ["--exception-base", _location("old_base", attr.old_base_tag)]
    if attr.exceptions:
        places.append(_file("exceptions.md", ctx.file.exceptions))
        words += ["--exceptions", "exceptions.md"]
    for base in attr.allow_bases:
        words += ["--allow-base", base]

    # What Bazel shows of a test.
    report = "${XML_OUTPUT_FILE:+--report \"junit=$XML_OUTPUT_FILE\"}"
    run = "\"$top/\"%s %s %s\n" % (_quote(ctx.executable.underpin.short_path), _line(words + attr.flags), report)
    return _program(ctx, places, "cd \"$stage\"\n" + run, [])

_underpin_check_test = rule(
    implementation = _check_impl,
    test = True,
    attrs = {
        "image": attr.label(mandatory = True, allow_files = True, doc = "The image: one OCI layout, such as an underpin_rebase."),
        "image_tag": attr.string(doc = "Its tag in the layout."),
        "component": attr.string(doc = "What the exception list calls it; left out: the name of its target."),
        "base": attr.label(allow_files = True, doc = "The base that images may stand on: one OCI layout. With it, no network is used."),
        "base_tag": attr.string(doc = "Its tag in the layout."),
        "old_base": attr.label(allow_files = True, doc = "The base that needs an exception: one OCI layout."),
        "old_base_tag": attr.string(doc = "Its tag in the layout."),
        "allow_bases": attr.string_list(doc = "Bases in registries that images may stand on. To look at them the test needs the network: tag it requires-network."),
        "exceptions": attr.label(allow_single_file = True, doc = "The Markdown list of exceptions."),
        "flags": attr.string_list(doc = "More flags of `underpin check`, such as --platform."),
        "underpin": attr.label(mandatory = True, allow_files = True, executable = True, cfg = "target", doc = "The program."),
    },
)

def underpin_check(name, **kwargs):
    """A test that puts an image to the base-image policy.

    Args:
      name: of the test.
      **kwargs: image, image_tag, component, base, base_tag, old_base, old_base_tag, allow_bases, exceptions, flags,
        underpin; and what every test takes.
    """
    _underpin_check_test(name = name, **kwargs)

def _start_impl(ctx):
    info = ctx.attr.rebase[UnderpinInfo]
    words = ["plan", "--no-cache", "--offline", "--start=%d" % ctx.attr.seconds]
    report = "${XML_OUTPUT_FILE:+--report \"junit=$XML_OUTPUT_FILE\"}"

    # The runtime is a program of the machine, and Bazel's PATH may not have it.
    lines = "export PATH=\"$PATH:/usr/local/sbin:/usr/sbin:/sbin\"\ncd \"$stage\"\n"
    lines += "\"$top/\"%s %s %s\n" % (_quote(ctx.executable.underpin.short_path), _line(words + info.words + ctx.attr.flags), report)
    return _program(ctx, info.places, lines, [])

_underpin_start_test = rule(
    implementation = _start_impl,
    test = True,
    attrs = {
        "rebase": attr.label(mandatory = True, providers = [UnderpinInfo], doc = "The underpin_rebase."),
        "seconds": attr.int(default = 5, doc = "How long source and result are watched."),
        "flags": attr.string_list(doc = "More flags, such as --start-arg or --runtime."),
        "underpin": attr.label(mandatory = True, allow_files = True, executable = True, cfg = "target", doc = "The program."),
    },
)

def underpin_start(name, tags = [], **kwargs):
    """A test that starts source and result of a move for real, and compares. It runs on this machine, outside of Bazel's sandbox.

    Args:
      name: of the test.
      tags: `local` is always among them.
      **kwargs: rebase, seconds, flags, underpin; and what every test takes.
    """
    _underpin_start_test(name = name, tags = tags + ["local"], **kwargs)

def _push_impl(ctx):
    info = ctx.attr.rebase[UnderpinInfo]
    words = ["rebase", "--no-cache"] + [word for to in ctx.attr.to for word in ["--to", to]]
    # The same move once more, with a registry as its target: it must come to the digest that was built.
    lines = "digest=$(cat %s)\ncd \"$stage\"\n" % _quote(info.digest.short_path)
    lines += "\"$top/\"%s %s --expect-digest \"$digest\" \"$@\"\n" % (_quote(ctx.executable.underpin.short_path), _line(words + info.words))
    return _program(ctx, info.places, lines, [info.digest])

underpin_push = rule(
    implementation = _push_impl,
    doc = "`bazel run` publishes what an underpin_rebase made, and nothing else: another digest is refused. Words after `--` are flags of `underpin rebase`.",
    executable = True,
    attrs = {
        "rebase": attr.label(mandatory = True, providers = [UnderpinInfo], doc = "The underpin_rebase."),
        "to": attr.string_list(mandatory = True, allow_empty = False, doc = "Where it goes: REGISTRY/NAME:TAG."),
        "underpin": attr.label(mandatory = True, allow_files = True, executable = True, cfg = "target", doc = "The program."),
    },
)
