//! Scripts: whose interpreter is where, and what they call.

use super::bases::{BaseImage, busybox, debian, debug, split_debian, with_shell};
use super::case::{Case, attack, ordinary};
use super::program::{observer, tagged};
use crate::support::tar_layer::{Entry, file, folder, program, symlink};

pub fn cases() -> Vec<Case> {
    [interpreters(), calls(), beside()].concat()
}

/// The observer and a script that starts it.
fn script(text: &str) -> [Entry; 2] {
    [program("app", observer()), program("run.sh", text)]
}

/// A script that a shell of the new base runs.
fn runs(case: Case, text: &str, new: BaseImage) -> Case {
    case.only(script(text)).entrypoint(["/run.sh"]).new_base(new)
}

fn interpreters() -> Vec<Case> {
    // An interpreter of its own kind: it is given the script, and is the observer.
    let python = || program("usr/bin/python", tagged("python"));
    vec![
        attack("interpreter-of-the-base/env")
            .old(debian().with([python()]))
            .only([program("run", "#!/usr/bin/env python\nx\n")])
            .entrypoint(["/run"]),
        attack("interpreter-of-the-base/path")
            .old(debian().with([python()]))
            .only([program("run", "#!/usr/bin/python -u\nx\n")])
            .entrypoint(["/run"]),
        attack("interpreter-of-the-base/env-missing")
            .only([python(), program("run", "#!/usr/bin/env python\nx\n")])
            .entrypoint(["/run"]),
        attack("interpreter-of-the-base/by-argument")
            .old(debian().with([python()]))
            .only([file("run", "x\n")])
            .entrypoint(["python", "/run"]),
        ordinary("interpreter-of-the-base/path")
            .only([python(), program("run", "#!/usr/bin/python -u\nx\n")])
            .entrypoint(["/run"]),
        ordinary("interpreter-of-the-base/by-argument")
            .only([python(), file("run", "x\n")])
            .entrypoint(["python", "/run"]),
        ordinary("interpreter-of-the-base/own-env")
            .only([python(), program("opt/env", tagged("env")), program("run", "#!/opt/env python\nx\n")])
            .entrypoint(["/run"]),
        attack("nested-scripts")
            .old(debian().with([python()]))
            .only([program("run", "#!/opt/inner\nx\n"), program("opt/inner", "#!/usr/bin/python\nx\n")])
            .entrypoint(["/run"]),
        ordinary("nested-scripts")
            .only([python(), program("run", "#!/opt/inner\nx\n"), program("opt/inner", "#!/usr/bin/python\nx\n")])
            .entrypoint(["/run"]),
        attack("busybox-sh")
            .old(debian().with([program("usr/bin/busybox", busybox())]))
            .only([program("app", observer()), program("run.sh", "#!/bin/busybox sh\nexec /app\n")])
            .entrypoint(["/run.sh"])
            .new_base(debug()),
        ordinary("busybox-sh")
            .old(debian().with([program("usr/bin/busybox", busybox())]))
            .only([program("app", observer()), program("run.sh", "#!/bin/busybox sh\nexec /app\n")])
            .entrypoint(["/run.sh"])
            .new_base(with_shell().with([program("bin/busybox", busybox())])),
        attack("interpreter-behind-a-link")
            .only(script("#!/opt/shell\nexec /app\n"))
            .files([symlink("opt/shell", "/usr/bin/sh")])
            .entrypoint(["/run.sh"])
            .new_base(with_shell()),
        ordinary("interpreter-behind-a-link")
            .only(script("#!/opt/shell\nexec /app\n"))
            .files([symlink("opt/shell", "/bin/sh")])
            .entrypoint(["/run.sh"])
            .new_base(with_shell()),
        attack("carriage-return")
            .old(debian().with([symlink("usr/bin/sh\r", "sh")]))
            .only(script("#!/bin/sh\r\nexec /app\n"))
            .entrypoint(["/run.sh"])
            .new_base(with_shell()),
        ordinary("carriage-return")
            .only(script("#!/bin/sh\nexec /app\n"))
            .entrypoint(["/run.sh"])
            .new_base(with_shell()),
        ordinary("script-without-execute-bit")
            .only([program("app", observer()), file("run.sh", "exec /app\n")])
            .entrypoint(["/bin/sh", "/run.sh"])
            .new_base(with_shell()),
        attack("script-without-execute-bit")
            .only([program("app", observer()), file("run.sh", "id >/dev/null && exec /app\n")])
            .entrypoint(["/bin/sh", "/run.sh"])
            .new_base(with_shell()),
        attack("shell-of-the-old-base-split")
            .old(split_debian())
            .only(script("#!/usr/bin/bash\nexec /app\n"))
            .entrypoint(["/run.sh"])
            .new_base(with_shell()),
        ordinary("shell-of-the-old-base-split")
            .old(split_debian())
            .only(script("#!/bin/sh\nexec /app\n"))
            .entrypoint(["/run.sh"])
            .new_base(with_shell()),
        // Without a shell on the new base, a simple script becomes a command.
        ordinary("inlined")
            .only(script("#!/bin/sh\nset -e\nexec /app --v=2 \"$@\"\n"))
            .entrypoint(["/run.sh"])
            .cmd(["more"]),
        attack("inlined")
            .only(script("#!/bin/sh\nset -e\nid\nexec /app --v=2 \"$@\"\n"))
            .entrypoint(["/run.sh"])
            .cmd(["more"]),
    ]
}

fn calls() -> Vec<Case> {
    let line = |body: &str| format!("#!/bin/sh\nset -e\n{body}\nexec /app\n");
    let both = |name: &str, bad: &str, good: &str| {
        let twin = |case: Case, body: &str| runs(case, &line(body), with_shell());
        vec![twin(attack(name), bad), twin(ordinary(name), good)]
    };
    let mut cases = [
        both("calls-a-tool/sed", "sed s/a/b/ /etc/passwd >/tmp/x", "cat /etc/passwd >/tmp/x"),
        both("calls-a-tool/path", "/usr/bin/id >/tmp/x", "/bin/cat /etc/passwd >/tmp/x"),
        both("calls-a-tool/substitution", "X=$(hostname); echo \"$X\" >/tmp/x", "X=$(echo y); echo \"$X\" >/tmp/x"),
        both("calls-a-tool/pipe", "cat /etc/passwd | awk '{print}' >/tmp/x", "cat /etc/passwd | cat >/tmp/x"),
        both(
            "calls-a-tool/condition",
            "if grep -q root /etc/passwd; then echo root; fi",
            "if [ -e /etc/passwd ]; then echo root; fi",
        ),
        both("calls-a-tool/function", "f() { date >/tmp/x; }; f", "f() { echo x >/tmp/x; }; f"),
        both("calls-a-tool/loop", "for i in a b; do mkdir -p /tmp/$i; done", "for i in a b; do echo $i >/tmp/x; done"),
        both("calls-a-tool/and", "true && id >/tmp/x", "true && echo >/tmp/x"),
        both("reads-a-file/of-the-base", "cat /etc/base.conf", "cat /etc/group >/tmp/x"),
        both("reads-a-file/sourced", ". /etc/base.conf 2>/tmp/x || exit 3", "[ -f /etc/none ] && . /etc/none; true"),
        both("reads-a-file/redirected", "read line </etc/base.conf; echo $line", "read line </etc/passwd"),
    ]
    .concat();
    cases.retain(|case| case.name != "reads-a-file/sourced");
    let sourced = |case: Case| {
        case.only(script("#!/bin/sh\n. /opt/env.sh\nexec /app $MODE\n")).entrypoint(["/run.sh"]).new_base(with_shell())
    };
    cases.extend([
        sourced(attack("sourced-script")).old(debian().with([file("opt/env.sh", "MODE=fast\n")])),
        sourced(ordinary("sourced-script")).files([file("opt/env.sh", "MODE=fast\n")]),
        sourced(attack("sourced-script/that-calls")).files([file("opt/env.sh", "MODE=$(id -u) || exit 3\n")]),
        runs(attack("calls-another-script"), "#!/bin/sh\nset -e\n/opt/two.sh\nexec /app\n", with_shell())
            .files([program("opt/two.sh", "#!/bin/sh\nid >/tmp/x\n")]),
        runs(ordinary("calls-another-script"), "#!/bin/sh\nset -e\n/opt/two.sh\nexec /app\n", with_shell())
            .files([program("opt/two.sh", "#!/bin/sh\necho >/tmp/x\n")]),
        runs(attack("exec-of-what-the-base-had"), "#!/bin/sh\nexec server --x\n", with_shell())
            .old(debian().with([program("usr/bin/server", tagged("server"))])),
        runs(ordinary("exec-of-what-the-base-had"), "#!/bin/sh\nexec server --x\n", with_shell())
            .files([program("usr/bin/server", tagged("server"))]),
        // Only where nobody goes.
        runs(
            ordinary("word-that-is-no-call"),
            "#!/bin/sh\n# id and sed are not used\necho 'id sed awk'\nexec /app\n",
            with_shell(),
        ),
    ]);
    cases
}

/// Scripts that nothing on the start path names.
fn beside() -> Vec<Case> {
    vec![
        ordinary("unused-script").files([program("opt/debug.sh", "#!/bin/bash\nps aux | grep app\n")]),
        attack("unused-script").files([program("opt/hook.sh", "#!/bin/bash\nexit 0\n")]).cmd(["--hook=/opt/hook.sh"]),
        ordinary("unused-script/samples").files([
            folder("src/"),
            folder("src/.git/"),
            folder("src/.git/hooks/"),
            program("src/.git/hooks/pre-commit.sample", "#!/bin/sh\nexit 1\n"),
            folder("node_modules/"),
            folder("node_modules/.bin/"),
            program("node_modules/.bin/tsc", "#!/usr/bin/env node\nx\n"),
        ]),
        attack("unused-script/named-in-the-code").only([
            program("app", super::program::doing("act(\"hook\", \"/opt/hook.sh\")")),
            program("opt/hook.sh", "#!/bin/bash\nexit 0\n"),
        ]),
    ]
}
