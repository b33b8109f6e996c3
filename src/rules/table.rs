//! The table: one row for each rule that is not about a construct of the shell (those are in
//! `constructs`).
//!
//! A row is everything there is to say about a rule. To add a rule, add a row: its variant, its id and
//! its explanation come from here, and so do `underpin explain` and `docs/rules.md`. What a finding says of
//! one image is beside the judgement: `src/policy/`, one file for each family.
//!
//! The order is that in which `--allow` is recorded in the annotations of a result, and so part of its
//! digest: new rows go to the end.

use super::{Allowing, Family, Level, RuleRow};
use shell::{Note, Reason};

macro_rules! rules {
    ($($name:ident $id:literal $family:ident [$($level:ident),+] $allowing:ident
        means $means:literal why $why:literal example $example:literal fix $fix:literal)*) => {
        /// Every rule that underpin has, whatever part of it speaks.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Rule {
            $(#[doc = $means] $name,)*
            /// A command uses a construct that only a shell can carry out.
            Shell(Reason),
        }

        impl Rule {
            /// All rules but those of [`Rule::Shell`], in the order of the table.
            pub(super) const PLAIN: &[Self] = &[$(Self::$name),*];

            /// Everything there is to say about the rule.
            #[must_use]
            pub const fn row(self) -> &'static RuleRow {
                match self {
                    $(Self::$name => &RuleRow {
                        id: $id,
                        family: Family::$family,
                        levels: &[$(Level::$level),+],
                        allowing: Allowing::$allowing,
                        means: $means,
                        why: $why,
                        example: $example,
                        fix: $fix,
                    },)*
                    Self::Shell(reason) => super::constructs::row(reason),
                }
            }
        }
    };
}

rules! {
    EntrypointMissing "entrypoint-missing" Program [Refuse] ByUser
        means "The program that the container starts is not in the rebased image."
        why "A runtime resolves the first word of the command on the image's files: PATH, symbolic links, \
            execute permission. Often the old base provided the program, and it is gone with that base. The \
            container would fail at start with `no such file or directory`."
        example "ENTRYPOINT [\"nginx\"]\n# /usr/sbin/nginx was a file of the old base, not of a layer of the image"
        fix "put the program into the image itself, or bring it along with --keep where only the old base had it; \
            if the source does not have it either, correct ENTRYPOINT, or check that --old-base is right"

    DynamicBinary "dynamic-binary" Program [Refuse] ByUser
        means "The program is dynamically linked, and its loader would fail in the rebased image: the loader, a \
            library, a version of a library or a symbol is missing."
        why "The kernel starts a dynamic program through the loader that the program names, such as \
            /lib64/ld-linux-x86-64.so.2. That maps its libraries, and theirs, and binds their symbols; where one is \
            missing, the process ends before its first instruction, or when it calls the function. underpin does \
            the same on the files of the rebased image, for glibc and musl, and names the first thing missing and \
            who needs it. distroless/static has no loader at all. What cannot be read is not proven."
        example "/app cannot start: libc.so.6 in the rebased image does not have version GLIBC_2.38 (needed by /app)"
        fix "choose a base that has what is missing, or build it statically linked (Go: CGO_ENABLED=0; Rust: \
            `-C target-feature=+crt-static` or a musl target; C and C++: -static-pie)"

    WrongMachine "wrong-machine" Program [Refuse, Warn] ByUser
        means "The program is built for another machine than the platform that the image names: another \
            architecture, width, byte order or float ABI; or it, or a library that it is loaded with, needs a \
            higher level of x86-64 than the platform's variant has (amd64 without a variant is v1)."
        why "The kernel of a node of that platform refuses such a program with `exec format error`. The usual \
            cause is a multi-platform build that copied one binary into every image. On an older processor \
            glibc's loader says `CPU ISA level is lower than required`, and a Go program ends likewise; that is \
            a warning if the source needs the same level."
        example "linux/arm64 whose /app is an amd64 program"
        fix "build the program for this platform (Go: GOARCH), or correct the platform in the image's config"

    NotABinary "not-a-binary" Program [Refuse] ByUser
        means "The file that the container starts is no program that can run on the new base: a script without \
            its interpreter, a shared library, text, or a damaged ELF file."
        why "The kernel can start ELF programs, and scripts whose interpreter is in the image. Anything else \
            fails at start, and on a base without a shell every shell script does."
        example "ENTRYPOINT [\"/entrypoint.sh\"]\n# /entrypoint.sh begins with #!/bin/sh, which the new base does not have"
        fix "let ENTRYPOINT name a statically linked program that is part of the image; `underpin translate \
            --script FILE -- /entrypoint.sh` shows whether the script can be inlined"

    NeedsShell "needs-shell" Command [Refuse] ByUser
        means "The command uses a construct that only a shell can carry out, and the new base has no shell."
        why "A shell-form ENTRYPOINT or CMD runs as `/bin/sh -c`. Where all the shell does is start one program, \
            underpin writes that program into the config. Pipes, loops, substitutions and the like cannot be \
            expressed that way, and dropping them would change what runs."
        example "ENTRYPOINT exec /app --v=2 | grep -v probe\n# the finding names the construct: (pipeline)"
        fix "the finding names the construct in parentheses: `underpin explain CONSTRUCT` says what to do about it. \
            Or override the command with --entrypoint and --cmd, or build the image with an exec-form ENTRYPOINT"

    NeedsTool "needs-tool" Program [Refuse, Warn] ByUser
        means "The program runs another program that only the old base had, such as iptables or mount."
        why "The image starts, and fails later, when the tool is needed. underpin knows common tools: it reports \
            one when the program's strings or packages show that it runs the tool, the source has it, and the \
            rebased image does not. It is only a warning where nothing but a linked package shows it, because a \
            linker keeps code that is never called."
        example "/usr/local/bin/kube-proxy runs iptables-restore\n# the source has it at /usr/sbin/iptables-restore, from its old base"
        fix "choose a --base that has the tool, put a statically linked one into the image, or pass \
            --allow needs-tool=NAME if it is never run"

    NeedsLibrary "needs-library" Program [Refuse, Warn] ByUser
        means "The program loads a library at run time (dlopen) that only the old base had."
        why "Such a library is in no ELF header, so the image starts and fails later. underpin reports it when the \
            program's strings name a library that its loader could open in the source, and not in the rebased \
            image: it is missing there, or something that it needs is. What glibc itself opens when the program looks \
            up names (NSS) or converts text (gconv) is a warning."
        example "/app loads libsystemd.so.0\n# the source has it at /usr/lib/x86_64-linux-gnu, from its old base"
        fix "choose a --base that has the library, or pass --allow needs-library=NAME if it is never loaded"

    DynamicHelper "dynamic-helper" Program [Refuse, Warn] ByUser
        means "Another executable of the application cannot start on the new base: its loader, a library or its \
            script interpreter is missing."
        why "The image starts, but whatever runs this file fails. It refuses where the command, a variable, or a program or \
            script that is started names the file; otherwise it is a warning."
        example "/opt/app/bin/backup.sh needs /bin/bash\n# the image starts /opt/app/bin/server"
        fix "leave the file out of the image or build it statically linked, or pass --allow dynamic-helper=PATH if it \
            is never run"

    HealthcheckShell "healthcheck-shell" Command [Refuse] ByUser
        means "The health check needs a shell, or runs a program that the rebased image does not have."
        why "Docker runs HEALTHCHECK inside the container. A check that cannot start counts as failed, so a \
            healthy container is reported as unhealthy, and may be restarted. Kubernetes ignores HEALTHCHECK."
        example "HEALTHCHECK CMD curl -f http://localhost:8080/healthz || exit 1"
        fix "write HEALTHCHECK in exec form with a program of the image, such as HEALTHCHECK CMD [\"/app\", \"health\"], \
            or leave health checks to the orchestrator"

    UserMissing "user-missing" User [Refuse] ByUser
        means "The image runs as a user or group by name, and neither the new base nor the source knows the name."
        why "A runtime looks the name up in the image's /etc/passwd and /etc/group. Without an entry the container \
            does not start: `unable to find user`."
        example "USER app\n# neither /etc/passwd has a line for app"
        fix "write USER as a number, such as 65532:65532; Kubernetes' runAsNonRoot requires a number, too"

    WorkdirMissing "workdir-missing" User [Refuse] ByUser
        means "The working directory does not exist in the rebased image and cannot be created there."
        why "The runtime changes to WORKDIR before it starts the program. underpin creates a missing directory, \
            unless a file or a dangling link is in the way."
        example "WORKDIR /srv/app\n# /srv is a regular file in the image"
        fix "let WORKDIR name a directory by its absolute path, in a place where it can exist"

    LogDirMissing "log-dir-missing" User [Refuse] ByUser
        means "The directory of the log file cannot be created, or the user that the image runs as may not write to it."
        why "The shell opened the log file before; now the program or the log runner does. If it cannot, it stops, or \
            runs without a log."
        example "USER 65532\nENTRYPOINT exec /app >>/var/log/app/app.log 2>&1\n# /var/log/app belongs to root"
        fix "declare the directory as a VOLUME, or create it in the image for the user that it runs as"

    LayerBroken "layer-broken" Layers [Refuse] Never
        means "A layer of the application cannot be unpacked on the new base."
        why "A hard link in a layer refers to a file in a lower layer. If that file was the old base's, unpacking \
            fails on every node, so the image could not even be pulled."
        example "layer 3 hard-links /usr/bin/awk to /usr/bin/mawk, a file of the old base"
        fix "build these layers without hard links into the old base: copy the files instead"

    KeepMissing "keep-missing" Layers [Refuse] Never
        means "--keep names a path that the image does not have."
        why "It is almost always a spelling mistake. Going on would leave out a file that you asked for."
        example "underpin rebase IMAGE --to TARGET --keep /etc/ssl/cert\n# the file is /etc/ssl/certs"
        fix "correct the path"

    ShadowsBase "shadows-base" Layers [Warn] Never
        means "Files of the application replace files of the new base."
        why "The upper layer wins. That is what the image wants if it ships its own file on purpose; it is a \
            mistake if the build merely copied what the old base had, such as an old CA bundle or time zone data."
        example "/etc/ssl/certs/ca-certificates.crt is in a layer of the image and in the new base"
        fix "leave the files out of the image if those of the new base are better"

    RemovesBase "removes-base" Layers [Warn] Never
        means "The application's layers delete files that the new base has."
        why "A layer records a deletion as a whiteout, which removes whatever is below it. One that was meant for the \
            old base now removes a file of the new one."
        example "RUN rm -rf /etc/ssl\n# the whiteout now hides the CA certificates of the new base"
        fix "do not delete these files in the build if they were only the old base's"

    LinkDangling "link-dangling" Layers [Warn] Never
        means "Symbolic links of the application pointed to files of the old base and point to nothing now."
        why "Whatever follows the link fails with `no such file or directory`."
        example "/app/config -> /etc/default/app\n# /etc/default/app was a file of the old base"
        fix "bring the targets along with --keep, or leave the links out of the image"

    AccountNumber "account-number" User [Warn] Never
        means "A user or group has another number on the new base than in the source."
        why "Files carry numbers, not names. The image runs under the number of the new base, so files that belong to \
            the old number are no longer its own."
        example "www-data is 33 in the source and 82 on the new base"
        fix "write USER as a number, and set the owner of files with COPY --chown"

    UserByName "user-by-name" User [Warn] Never
        means "The image runs as a user by name instead of by number."
        why "The kubelet does not look names up. With `runAsNonRoot: true` it cannot tell that the user is not \
            root, and refuses to start the container."
        example "USER nobody"
        fix "write USER as a number, such as 65534; the finding names the right one"

    Pid1Changes "pid1-changes" Command [Note] Never
        means "The program becomes process 1 of the container: the shell or init that started it is gone."
        why "Process 1 receives the signals. As a rule this is an improvement: SIGTERM reaches the program instead of a \
            shell that ignores it. But process 1 must also reap orphaned children, and a signal without a handler is \
            ignored."
        example "ENTRYPOINT /app --v=2\n# before: sh -c '/app --v=2'; now: /app --v=2"
        fix "nothing, if the program handles SIGTERM and starts no children that it leaves behind; otherwise put a \
            statically linked init such as tini into the image"

    LogFlagUnknown "log-flag-unknown" Logs [Refuse] ByUser
        means "The shell redirected the output to a log file, and the program does not show that it takes klog's \
            flags, which would replace the redirection."
        why "Without the shell, nothing writes the file. A program that logs with klog can write it itself \
            (--log-file=PATH --logtostderr=false), but a program that does not know these flags exits at once with \
            `unknown flag`. underpin therefore uses them only if the binary proves them."
        example "ENTRYPOINT exec /app --v=2 >>/var/log/app.log 2>&1\n# /app contains no klog"
        fix "choose how the file is written: --logs runner with --log-runner REF (such as \
            registry.k8s.io/build-image/go-runner), or --logs stdout to leave the log to the container runtime. \
            --logs klog --allow log-flag-unknown if you know that the program takes the flags"

    LogFlagRemoved "log-flag-removed" Logs [Refuse] ByUser
        means "The shell redirected the output to a log file, and the program uses a version of Kubernetes' logging \
            in which klog's file flags were removed."
        why "Since Kubernetes 1.26 components accept --log-file and its like no longer and exit with `unknown flag`. \
            Without the shell, nothing writes the file."
        example "ENTRYPOINT exec /kube-scheduler >>/var/log/kube-scheduler.log 2>&1\n# built with klog 2.80, for Kubernetes 1.26"
        fix "use --logs runner with --log-runner REF, as Kubernetes itself does, or --logs stdout"

    UsesGlog "uses-glog" Logs [Refuse] ByUser
        means "The shell redirected the output to a log file, and the program logs with glog."
        why "glog writes to a directory and chooses the file names itself: it cannot be told to write the one file \
            that the shell wrote. Without the shell, nothing writes it."
        example "ENTRYPOINT exec /app >>/var/log/app.log 2>&1\n# /app contains github.com/golang/glog"
        fix "use --logs runner with --log-runner REF, or --logs stdout"

    LogStrategy "log-strategy" Logs [Note] Never
        means "The shell redirected the output to a log file; this says what writes that file now, and why."
        why "There are three ways to do without the shell: the program's own klog flags, a log runner that starts the \
            program, or the container's own log. They differ in what reaches the file (`klog-lines-only`, \
            `runner-limits`, `log-to-container`)."
        example "/var/log/kube-proxy.log is now written by klog's own flags"
        fix "nothing; to choose another way, pass --logs klog, --logs runner or --logs stdout"

    EnvFrozen "env-frozen" Command [Note] Never
        means "A variable that the shell expanded was replaced with its value in the image's config."
        why "Without the shell nobody expands $NAME. The value is fixed in the command now: setting the variable when \
            the container is started no longer changes it."
        example "ENV PORT=8080\nENTRYPOINT exec /app --port=$PORT\n# with --freeze-env PORT: [\"/app\", \"--port=8080\"]"
        fix "nothing, if nobody overrides the variable; otherwise let the program read it, or leave out --freeze-env"

    ShellRemoved "shell-removed" Command [Warn, Note] Never
        means "The command no longer runs through a shell; this is something that differs as a result."
        why "Each difference is small and usually wanted, but it is yours to know. It is a warning where a script that \
            was inlined into the command stays in the image: it cannot run any more, and a manifest may still name it."
        example "stdout and stderr reach the container's log as two streams"
        fix "read the sentence; where a manifest names the script as its command, remove that or name the program"

    OldBaseUnknown "old-base-unknown" Layers [Refuse] ByUser
        means "underpin cannot tell where the old base ends: an operating system and the program share a layer."
        why "A base is removed by dropping its layers. In a squashed image, or one built from an unpacked root file \
            system, there is no layer that is only the base."
        example "an image with a single layer that contains /bin/sh, dpkg's database and /app"
        fix "take only the program and its data out of the image with --extract, or name the base with --old-base REF, \
            or say how many layers it has with --old-base layers:N (`underpin inspect` lists the layers)"

    OldBaseUnproven "old-base-unproven" Layers [Warn, Note] Never
        means "The old base was deduced, not proven: from the history or content of the layers. A note names what \
            spoke for another boundary."
        why "A proven base is one whose layers are the first layers of the image, digest by digest. Without that, the \
            boundary is a well-founded guess. Files that may be the application's are never removed on a guess \
            (base-unproven-files); if it is wrong, files of the base are kept."
        example "the old base was read from the history, not proven by its layers\nlayers 1 to 3 are taken as the old base"
        fix "compare with `underpin inspect`, then pass --old-base REF, or --old-base layers:N to confirm the number"

    PlatformMissing "platform-missing" Result [Refuse, Warn] Never
        means "The image has a platform that the new base does not have."
        why "The result would lack a platform that the source has, and nodes of that platform could not pull it any \
            more. That should be a decision, not an accident."
        example "the source has linux/arm/v7, the new base has amd64 and arm64"
        fix "choose platforms with --platform, leave the others out with --on-missing-platform skip, or use a base \
            that has all of them"

    DigestUnexpected "digest-unexpected" Result [Refuse] Never
        means "The result has another digest than expected: than --expect-digest names, or, for `verify`, than the \
            image has."
        why "underpin always gives the same digest for the same inputs. Another digest means another source, another \
            base, other options or another version; or, for `verify`, an image that was changed after it was made."
        example "expected sha256:9c2e…, got sha256:1f0c…"
        fix "compare source, base and options with those that the expected image records in its annotations \
            (`underpin inspect` shows them); do not use an image that `verify` refuses, rebase its source again"

    CmdChangesMeaning "cmd-changes-meaning" Command [Warn, Note] Never
        means "CMD, or another inherited part of the command, means something else now than it did before."
        why "Part of the command may come from the old base, and is the new base's now. And a shell-form ENTRYPOINT \
            ignores CMD and arguments, while the program that replaces it would receive them: underpin clears CMD in \
            that case and says so."
        example "ENTRYPOINT exec /app\nCMD [\"--help\"]\n# the shell ignored --help; /app would not"
        fix "if this is not what you want, set ENTRYPOINT and CMD in the image itself, or pass --entrypoint and --cmd"

    ConfigOdd "config-odd" Result [Warn] Never
        means "The image's config has a value that runtimes interpret differently. It is carried over unchanged."
        why "What one runtime accepts, another rejects or ignores, so the image may behave differently on another node. \
            It did before the move, too."
        example "Env has the entry DEBUG, without a value"
        fix "correct the value where the image is built"

    LayerOdd "layer-odd" Layers [Warn, Note] Never
        means "A layer contains entries that runtimes unpack differently, or it is not quite what its metadata says, \
            or it could not be filtered."
        why "Tar leaves room for interpretation: absolute paths, `..`, duplicates, unusual types. Two runtimes may then \
            show the container different files. underpin copies such a layer unchanged."
        example "an entry named /etc/../app"
        fix "build the layer with plain relative paths, each once"

    LabelDropped "label-dropped" Result [Warn] Never
        means "A label or annotation that is known to make runtimes act on the host was not carried over."
        why "Some runtimes read instructions from labels, such as devices or mounts to add. Nobody who moves an image \
            expects it to bring these along."
        example "io.containers.autoupdate"
        fix "remove it where the image is built; if you need it, set it where the container is started"

    AttestationDropped "attestation-dropped" Result [Note] Never
        means "A signature, SBOM or provenance statement about the source was not carried over."
        why "It states something about the source's bytes. The result has other bytes, for which it would be false."
        example "the attestation of linux/amd64 describes the source's bytes and is left behind"
        fix "sign and attest the rebased image anew"

    BaseNotAllowed "base-not-allowed" Bases [Refuse] Never
        means "The image is based on an image that the base-image policy does not allow."
        why "The policy keeps the number of bases small, so that a vulnerability in one of them is fixed in one \
            place. A base that cannot be named cannot be allowed either."
        example "app is based on docker.io/library/ubuntu:22.04, which is not an allowed base"
        fix "rebase the image to an allowed base (`underpin rebase IMAGE --to TARGET`), or let the policy allow the base"

    ExceptionRecorded "exception-recorded" Bases [Refuse, Excepted, Warn, Note] Never
        means "The exception list has an entry for this component. It is refused where the image is on an allowed \
            base already, so that the entry is no longer needed."
        why "An exception lets a component stay on its base; it does not make a refused move right. A list is only \
            worth reading if its entries are needed, so `check` also warns when nothing keeps the image from moving, \
            or when the entry names another base."
        example "etcd may stay on debian-base: needs a shell for its migration script"
        fix "where it is refused, remove the entry: `underpin exceptions FILE --remove COMPONENT`; otherwise nothing"

    ExceptionMissing "exception-missing" Bases [Refuse] Never
        means "The image is on a base that is allowed only with an exception, and none is recorded for it."
        why "Some bases are a compromise. Whoever uses one says why, in the list that everybody reads."
        example "kube-proxy is on registry.k8s.io/build-image/debian-base and not in the list"
        fix "rebase the image, or record why it cannot move: `underpin exceptions FILE --add COMPONENT --base REF \
            --reason TEXT`"

    LockDrift "lock-drift" Result [Refuse] Never
        means "With `batch --locked`, the batch file or a tag differs from what underpin.lock records."
        why "A locked batch gives the same digests as last time, or none. A tag that was moved since would silently \
            give others."
        example "gcr.io/distroless/static:latest: sha256:406f… in the lock, sha256:9c2e… now"
        fix "look at what changed, then accept it with `underpin batch FILE --update-lock`"

    ExceptionList "exception-list" Bases [Refuse, Warn] Never
        means "A row of the exception list is incomplete, recorded twice, or has cells that no reader sees."
        why "The list is read by people and by `check`. A row without component or reason excepts nothing that \
            anybody can review."
        example "| etcd | registry.k8s.io/build-image/debian-base | |\n# the reason is empty"
        fix "correct the row: a component, its base and the reason, each component once"

    OldBase "old-base" Layers [Note] Never
        means "`inspect` found a hint to the old base that led nowhere."
        why "An annotation, a label or a provenance statement may name a base that is gone, or whose layers are not \
            those of the image. It is not used then."
        example "the annotation names registry.example/debian:v1, which has other layers"
        fix "nothing; if the base that `inspect` shows is wrong, pass --old-base"

    ExecForm "exec-form" Translation [Note] Never
        means "This is what the command becomes without its shell."
        why "It is the result of `translate`: the words that a runtime would start."
        example "[\"/app\",\"--v=2\"]"
        fix "nothing"

    ShellForm "shell-form" Manifest [Refuse, Note] Never
        means "A manifest starts a program through a shell that is not needed. It is refused with `kube --check`."
        why "Once the image has lost its shell, the container cannot start with this command."
        example "command: [sh, -c, exec /app --v=2]\n# becomes [/app, --v=2]"
        fix "let `underpin kube --write FILE` rewrite it"

    ShellKept "shell-kept" Manifest [Note] Never
        means "The command needs its shell, and the image given with --image has it, so the command stays."
        why "Nothing is broken as long as the container runs that image."
        example "command: [sh, -c, \"while true; do /app; done\"]"
        fix "nothing, until the image loses its shell"

    CannotEdit "cannot-edit" Manifest [Refuse] Never
        means "The change cannot be written into this manifest without touching anything else."
        why "underpin edits the text, reads it again, and compares: it must be the old value with exactly the intended \
            changes, and every comment must still be there. Where that fails, the file stays as it is."
        example "command: [sh, -c,   # a comment between the items\n  exec /app]"
        fix "write the list with one item per line, or as one list in brackets"

    EntrypointUnknown "entrypoint-unknown" Manifest [Refuse] Never
        means "`args` is a shell command, and it is not known what ENTRYPOINT of the image is put before it."
        why "Without `command`, the kubelet puts the image's ENTRYPOINT before `args`. Only if there is none are the \
            arguments the whole command."
        example "args: [sh, -c, exec /app]   # no command"
        fix "name the image with --image NAME=LOCATION, or write `command` out"

    EnvTaken "env-taken" Manifest [Refuse] Never
        means "The command sets a variable that the container's env, a probe or a hook already uses."
        why "What the command set for itself would become the container's env, and so hold for its probes and hooks, too: \
            something else would change."
        example "command: [sh, -c, PORT=80 exec /app]\nenv: [{name: PORT, value: \"8080\"}]"
        fix "set the variable in the container's env yourself, and remove it from the command"

    LogRunnerMissing "log-runner-missing" Manifest [Refuse] Never
        means "--logs runner was asked for, and the image given with --image has no log runner."
        why "The container would start with a program that is not there."
        example "underpin kube --logs runner --image app=registry.example/app:v2 deploy.yaml\n# app:v2 has neither /go-runner nor kube-log-runner"
        fix "put kube-log-runner into the image, or use --logs klog or --logs stdout"

    LogStrategyOpen "log-strategy-open" Manifest [Refuse] Never
        means "The command redirects its output to a file, and it is not known what could write the file without a shell."
        why "underpin does not guess. The program of the image shows whether it takes klog's flags and whether there is a \
            log runner, but no image was given, or it shows neither."
        example "command: [sh, -c, exec /app >>/var/log/app.log 2>&1]"
        fix "choose --logs klog, --logs runner or --logs stdout, or name the image with --image NAME=LOCATION"

    ToolUnproven "tool-unproven" Manifest [Refuse] Never
        means "Without its shell the command would start a tool such as sleep, cat or echo, and no image was given to check \
            that it has it."
        why "Such tools come from the base, or from the shell itself. A base without a shell has none of them, and then the \
            command, probe or hook fails."
        example "lifecycle: {preStop: {exec: {command: [sh, -c, sleep 15]}}}"
        fix "name the image with --image NAME=LOCATION to have it checked, or do it in the program (for a pause before the end: preStop.sleep)"

    NotWords "not-words" Manifest [Refuse] Never
        means "An item of `command` or `args` is not a string."
        why "The API server rejects numbers, booleans and mappings there."
        example "args: [--port, 8080]"
        fix "write every item of the list as a string"

    SharedByAlias "shared-by-alias" Manifest [Refuse] Never
        means "A YAML alias repeats this list in a place that would need another change, or none."
        why "The text is there only once: changing it for one container would change it for the other."
        example "command: &start [sh, -c, exec /app]\n# elsewhere, for an image that needs it as it is: command: *start"
        fix "write the list out in place of the alias"

    ContainerWide "container-wide" Manifest [Note] Never
        means "What the command set for itself, variables or a working directory, is now set for the whole container."
        why "env and workingDir also hold for the container's probes and hooks, which did not see them before."
        example "command: [sh, -c, cd /srv && exec /app]\n# becomes workingDir: /srv"
        fix "nothing, unless a probe or hook depends on the old value"

    KlogAssumed "klog-assumed" Manifest [Note] Never
        means "--logs klog was asked for, and no image was given to check that the program takes klog's flags."
        why "A program that does not know the flags exits with `unknown flag`."
        example "underpin kube --logs klog deploy.yaml"
        fix "name the image with --image NAME=LOCATION to have it checked"

    RunnerAssumed "runner-assumed" Manifest [Note] Never
        means "--logs runner was asked for, and no image was given to check that it has the runner."
        why "Without the runner the container does not start."
        example "underpin kube --logs runner deploy.yaml"
        fix "name the image with --image NAME=LOCATION to have it checked"

    LogNotMounted "log-not-mounted" Manifest [Note] Never
        means "The log file is not on a volume."
        why "Its directory must exist in the image, and the log is lost with the container. It was so before."
        example "command: [sh, -c, exec /app >>/var/log/app.log 2>&1]   # no volumeMount at /var/log"
        fix "mount a volume at the directory of the log file if the log should survive"

    PlaceholderIsList "placeholder-is-list" Manifest [Note] Never
        means "A placeholder such as {{params}} stood for several words and is an item of its own now."
        why "The shell split its value at spaces. Nothing does so any more, so what fills the placeholder in must write \
            one list item for each word."
        example "- /usr/local/bin/etcd\n- {{params}}"
        fix "change what renders the template, so that it writes one item for each word"

    ProgramOnVolume "program-on-volume" Manifest [Warn, Note] Never
        means "The program is on a volume, not in the image, and was not examined."
        why "Only the volume's content decides whether the container starts."
        example "command: [/plugins/run]   # volumeMount at /plugins"
        fix "check the volume; with --command-from, --start and --start-mount HOST-PATH:PATH the image is started with a copy of it"

    ProgramUnknown "program-unknown" Manifest [Note] Never
        means "The name of the program contains $(NAME) and is known only when the container starts."
        why "Whether the image has the program could not be checked."
        example "command: [$(PROGRAM), --v=2]"
        fix "write the program out to have it checked"

    OneWordAssumed "one-word-assumed" Translation [Note] Never
        means "A variable without quotes was taken to hold exactly one plain word."
        why "A shell splits an unquoted $NAME at spaces and expands wildcards in it. Exec form passes the value as one \
            argument, whatever it holds."
        example "sh -c 'exec /app --node=$NODE_NAME'"
        fix "nothing, if the value has no spaces, wildcards or quotes, and is not empty"

    EnvOrder "env-order" Translation [Note] Never
        means "A variable that the command set refers to other variables, which must come before it in the env list."
        why "The kubelet expands $(NAME) only for variables that are defined earlier in the list."
        example "sh -c 'export URL=http://$HOST; exec /app'"
        fix "keep the order of the env list when you edit it"

    WildcardKept "wildcard-kept" Translation [Note] Never
        means "A word with a wildcard is passed as it is, because no file name can match it."
        why "A shell replaces a wildcard with matching file names and leaves the word alone where none match. Here none \
            can."
        example "sh -c 'exec /app --filter=*.example'"
        fix "nothing; quote the word to make it plain"

    TraceDropped "trace-dropped" Translation [Note] Never
        means "`set -x` is gone: the command line is no longer printed before it runs."
        why "Only the log's first line differs."
        example "sh -xc 'exec /app'"
        fix "nothing"

    PipefailAssumed "pipefail-assumed" Translation [Note] Never
        means "`set -o pipefail` was taken to work in sh."
        why "Old versions of dash do not know it and stop there. With those the command never worked."
        example "sh -c 'set -o pipefail; exec /app'"
        fix "nothing"

    StreamsApart "streams-apart" Translation [Note] Never
        means "stdout and stderr were merged into one stream and now reach the container's log as two."
        why "`kubectl logs` shows both; a log pipeline may label them by stream, and lines of the two may be in another \
            order."
        example "sh -c 'exec /app 2>&1'"
        fix "nothing, unless something reads only one of the streams"

    StdinDropped "stdin-dropped" Translation [Note] Never
        means "stdin was redirected from /dev/null and is now whatever the container is given."
        why "That is /dev/null as well, unless the container is started with an open stdin."
        example "sh -c 'exec /app </dev/null'"
        fix "nothing, unless the container has `stdin: true`"

    ExitStatusChanges "exit-status-changes" Translation [Note] Never
        means "The exit status is now that of the program; it was that of tee."
        why "`app | tee FILE` ends with the status of tee, which is nearly always 0. Now a failure of the program is seen, \
            and restart policies act on it."
        example "sh -c '/app | tee /var/log/app.log'"
        fix "nothing, unless something relies on the exit status 0"

    WorkdirMustExist "workdir-must-exist" Translation [Note] Never
        means "The command changed to a directory that must exist when the container starts."
        why "It is the working directory now. A runtime may create a missing one where `cd` would have failed."
        example "sh -c 'cd /srv && exec /app'"
        fix "nothing, if the image or a volume has the directory"

    LooksLikeScript "looks-like-script" Translation [Note] Never
        means "No shell is started by name, but the program is a shell script by its name."
        why "A script needs its interpreter. Without the shell it cannot start."
        example "/opt/run.sh --v=2"
        fix "give the script's text to `underpin translate --script FILE`, or start the program that it starts"

    BuiltinBecomesProgram "builtin-becomes-program" Translation [Note] Never
        means "The command was a builtin of the shell, and now needs a program of that name."
        why "echo, test, kill and the like are part of every shell, but in an image without one they are separate \
            programs, which it may not have."
        example "sh -c 'exec echo ready'"
        fix "make sure that the image has the program, or remove the command"

    LogAppends "log-appends" Translation [Note] Never
        means "The log file was truncated at every start and is now appended to."
        why "klog and the log runner only append, so the file grows over restarts."
        example "sh -c 'exec /app >/var/log/app.log 2>&1'"
        fix "rotate the log, or use a volume that is as short-lived as the container"

    KlogSpellingAssumed "klog-spelling-assumed" Translation [Note] Never
        means "klog's flags were written with dashes, without a program to look at."
        why "Programs with plain Go flags spell them with underscores: --log_file. The wrong spelling is an unknown flag."
        example "underpin translate --logs klog -- sh -c 'exec /app >>/var/log/app.log 2>&1'"
        fix "pass --klog-style underscore or --klog-style dash"

    KlogLinesOnly "klog-lines-only" Translation [Note] Never
        means "Only what is logged through klog reaches the file; panics and plain prints go to the container's log."
        why "The shell redirected everything that the program wrote. klog writes only its own lines to its file."
        example "/app --log-file=/var/log/app.log --logtostderr=false"
        fix "use --logs runner if everything must be in the file"

    RunnerLimits "runner-limits" Translation [Note] Never
        means "The log runner starts the program: any failure becomes exit status 1, stdin is not passed on, and the \
            command line is printed first."
        why "This is how kube-log-runner works. It matters where something reads the exit status."
        example "/go-runner --log-file=/var/log/app.log /app --v=2"
        fix "nothing, or use --logs klog where the program takes klog's flags"

    LogToContainer "log-to-container" Translation [Note] Never
        means "What went to a file, or to /dev/null, goes to the container's log."
        why "The file is no longer written, so whatever reads it finds nothing; the container runtime keeps and rotates \
            the log instead."
        example "sh -c 'exec /app >>/var/log/app.log 2>&1' with --logs stdout"
        fix "let readers of the file use the container's log, or choose --logs klog or --logs runner"

    CommandLost "command-lost" Command [Refuse, Warn] ByUser
        means "The source starts something, and the result would start nothing."
        why "The command was the old base's, and goes with it: the new base sets none. A container of the result does not \
            start: `no command specified`. It is only a warning where the command was a bare shell of the old base, as in \
            images whose command stands in the pod."
        example "FROM nginx\nCOPY site /usr/share/nginx/html\n# ENTRYPOINT and CMD are nginx's own"
        fix "set ENTRYPOINT in the image itself, or pass --entrypoint"

    NeedsFile "needs-file" Program [Refuse, Warn] ByUser
        means "The command, a variable or a program names a file or directory that only the old base had."
        why "The image starts, and fails when the file is opened. What the command or a variable names refuses; a path among \
            the strings of a program is a warning, because it may never be opened."
        example "ENTRYPOINT [\"/app\", \"--config=/etc/default/app\"]\n# /etc/default/app was a file of the old base"
        fix "bring it along with --keep PATH, or put it into the image itself; pass --allow needs-file=PATH if it is mounted \
            at run time"

    RunsAsRoot "runs-as-root" User [Refuse] ByUser
        means "The image would run as root, or with the group of root, and did not before."
        why "More privilege than before is never given in silence. The account that the old base had is missing, or means \
            another number on the new base."
        example "USER 1000\n# /etc/passwd of the old base gave it the group 1000; without a line its group is 0"
        fix "set USER to user and group by number, or pass --user UID:GID"

    UserChanged "user-changed" User [Warn] Never
        means "The image runs as another user, group, or set of groups than before."
        why "Files that it could read or write may be closed to it, and the other way round. The source set no user, or \
            means another account on the new base."
        example "the source sets no USER; the new base sets 65532"
        fix "set USER in the image itself, or pass --user UID:GID"

    WorkdirChanged "workdir-changed" User [Warn] Never
        means "The image starts in another working directory than before."
        why "Relative paths lead elsewhere. The source set no WORKDIR, and the new base does."
        example "the source sets no WORKDIR; the new base sets /home/nonroot"
        fix "set WORKDIR in the image itself, or pass --workdir PATH"

    EnvLost "env-lost" User [Warn] Never
        means "A program that is started names a variable that it does not get as before: gone, new, or with another value."
        why "What it does by that variable changes."
        example "HOME is / instead of /home/app"
        fix "set the variable in the image itself, or with --env NAME=VALUE"

    PackedBinary "packed-binary" Program [Refuse] ByUser
        means "The program is a stub that unpacks another one when it starts, such as UPX makes."
        why "What is seen is the stub. What it unpacks may be linked dynamically, or for another machine: nothing is proven."
        example "upx /app"
        fix "put the program into the image unpacked: layers are compressed anyway"

    ProgramChanged "program-changed" Program [Refuse, Warn] ByUser
        means "The command starts another file than before."
        why "PATH, the working directory or the new base's ENTRYPOINT lead to another program. It is only a warning where the \
            program was the old base's and is the new base's now."
        example "CMD [\"/app\"] on a base with ENTRYPOINT [\"/busybox/sh\"]"
        fix "write the program with its full path, or override the command with --entrypoint and --cmd"

    StartUnknown "start-unknown" Command [Refuse] ByUser
        means "It cannot be told what the command starts: a wrapper has an option that underpin does not know, or a script \
            cannot be read."
        why "What is not known is not proven."
        example "ENTRYPOINT [\"tini\", \"--new-option\", \"/app\"]"
        fix "set ENTRYPOINT to the program itself, or pass --entrypoint, or leave the option out"

    PackagesLeft "packages-left" Layers [Warn] Never
        means "Packages that the image's own layers installed stay behind, and the new base does not have them."
        why "A build installs packages because something needs them. A program that names one of their programs refuses \
            (needs-tool); what a script or a library needs may not be seen."
        example "RUN apt-get install -y git openssh-client"
        fix "bring those that the application needs: --bring NAME"

    BaseUnprovenFiles "base-unproven-files" Layers [Refuse] Never
        means "The old base is a guess, and the layers that it would remove contain files that no package owns and that \
            no base image is known to ship."
        why "Such files may be the application's: a Dockerfile that copies data before it sets the command looks, in its \
            history, like two images. Removed with the base, the data would be missing only when the program runs."
        example "FROM debian:12\nCOPY data /data\nCMD [\"bash\"]\nCOPY app /app\nENTRYPOINT [\"/app\"]"
        fix "pass --old-base REF with the image it was built on, or --old-base layers:N: the number that was found to \
            confirm it, a smaller one to keep the files"

    BaseNameIgnored "base-name-ignored" Layers [Warn] Never
        means "The image names a base that its layers are not built on, or that could not be read."
        why "Annotations and labels are copied from image to image, tags move, and registries disappear. underpin looks \
            for the base by the other means that it has; while the name leads nowhere, the result can be another one \
            than with the base at hand."
        example "the annotation names debian:12, which is not under the image: it differs at layer 1 of 1"
        fix "pass --old-base with the image it was built on, or correct the name where the image is built"

    ExtractIncomplete "extract-incomplete" Layers [Refuse] ByUser
        means "--extract leaves files behind, and nothing tells whether they are the application's or the system's."
        why "Without a package database or a known old base, only the program and the --keep paths are taken. Data that \
            the program reads would be missing."
        example "an image of a single layer with busybox, /app and /srv/data, and no package database"
        fix "pass --keep for each directory that the application needs; once nothing of the rest is needed, pass \
            --allow extract-incomplete"

    KlogBuffers "klog-buffers" Translation [Note] Never
        means "klog keeps lines in memory and writes them to its file every 5 seconds."
        why "The shell's redirection had no buffer. A program that crashes, is killed or calls os.Exit loses the lines \
            since the last write; what klog sends to stderr is not buffered."
        example "/app --log-file=/var/log/app.log --logtostderr=false"
        fix "use --logs runner if the last lines before a crash must be in the file"

    KlogErrorsTwice "klog-errors-twice" Translation [Note] Never
        means "klog's lines of level error and fatal go to the container's log as well as to the file."
        why "klog copies them to stderr unless --stderrthreshold says otherwise. They are left there: where the program \
            dies, stderr may be the only place that says why."
        example "/app --log-file=/var/log/app.log --logtostderr=false"
        fix "add --stderrthreshold=FATAL to the command if the container's log must stay empty"

    DropMissing "drop-missing" Layers [Refuse] Never
        means "--drop names a path that the image's own layers do not have, or that cannot be taken out of its layer."
        why "It is almost always a spelling mistake. Going on would leave a file in that you asked to have removed."
        example "underpin rebase IMAGE --to TARGET --drop /run.sh\n# the file is /usr/local/bin/run.sh"
        fix "correct the path; files of the old base need no --drop, they stay behind"
    AllowUnneeded "allow-unneeded" Result [Warn] Never
        means "--allow names a rule, or a path, that no finding of the image needs."
        why "It has no effect and is not recorded in the result. It is a spelling mistake, or left over from an image that needed it; left in place it would allow in silence what a later build does."
        example "underpin rebase IMAGE --to TARGET --allow needs-tool=iptables\n# the program calls ip6tables"
        fix "remove the --allow, or correct its path"

    BringMissing "bring-missing" Layers [Refuse] Never
        means "--bring names what the image has neither as a package, nor as a program on PATH, nor as a path."
        why "It is almost always a spelling mistake. Going on would leave out what you asked for."
        example "underpin rebase IMAGE --to TARGET --bring iptable\n# the package is iptables"
        fix "correct the name"

    BringConflict "bring-conflict" Layers [Refuse] ByUser
        means "--bring leads to a file that the new base has, too, and that is not known to be the same."
        why "Nothing of the new base is replaced unasked: it may be newer, and others depend on it. Libraries and \
            interpreters that only something else needs are not affected, the new base's are used."
        example "underpin rebase IMAGE --to TARGET --bring tzdata\n# the new base has another version of it"
        fix "pass --allow bring-conflict=PATH to go on with the new base's file, or --keep PATH to replace it"

    BroughtPartly "brought-partly" Layers [Note] Never
        means "Something was brought along without all that belongs to it."
        why "Libraries and interpreters come along, and the links that maintainer scripts made. Scripts of a package are not \
            run, other packages that it depends on are not installed, and of a single program only the program comes."
        example "underpin rebase IMAGE --to TARGET --bring /usr/sbin/iptables\n# its plugins belong to the package iptables"
        fix "bring more of it with --bring if the application needs it"

    NeedsInterpreter "needs-interpreter" Program [Refuse] ByUser
        means "The program is written in Python, JavaScript, Java or Ruby, and the new base does not have its interpreter, or \
            has it in another version than the one that the program's packages are installed for, or where it does not find them."
        why "An interpreter only finds the packages of its own version: python3.12 does not look into \
            lib/python3.11/site-packages, and cannot load an extension that was built for python3.11. A Java virtual machine runs \
            classes of its own version and of earlier ones."
        example "CMD [\"python3\", \"server.py\"]\n# the new base has no python3, or python3.12 for packages in lib/python3.11"
        fix "choose a --base with the same version of the interpreter, at the same path; packages in another directory are found \
            with --env PYTHONPATH=DIRECTORY"

    SignatureMissing "signature-missing" Bases [Refuse] Never
        means "The source, the new base or the log runner does not carry a signature by a key that the policy demands."
        why "`signed_by` in the policy file names images that must be signed, and by whom. Signatures are looked for before \
            a layer is read: as sigstore bundles among the image's referrers, as cosign 3 writes them, and under the tag \
            `sha256-HEX.sig`, as cosign 2 does; where a certificate is given, also notation's. One by another key, about another \
            digest, of another kind or with an expired certificate does not count, and the finding says which it is."
        example "signed_by:\n- images: [registry.example/bases/*]\n  keys: [bases.pub]"
        fix "sign the image with one of these keys (`cosign sign --key`), use one that is signed, or correct `signed_by` in \
            the policy file"

    AttestationDiffers "attestation-differs" Result [Refuse] Never
        means "Provenance or an SBOM of underpin's that is attached to the image says something else than its recorded inputs give."
        why "`verify` makes the statements again, and compares them field by field. Another value means that somebody attached a \
            statement that is not true of the image, or made with another version."
        example "buildDefinition.externalParameters.base: expected \"registry.example/static@sha256:9c2e…\""
        fix "do not rely on the statement; attach it anew with `underpin rebase --attest`"

    StartFailed "start-failed" Start [Refuse] ByUser
        means "The image was started for real and failed: the program was not executed, or it ended with an error although the \
            source did not."
        why "What no file shows, a start does: a program that unpacks itself, opens a library or executes a tool that its \
            arguments name. Source and result are started alike, so the difference is that of their files."
        example "underpin rebase IMAGE --to TARGET --start\n# the result ended with status 127; the source was still running after 5 s"
        fix "see what it wrote, and bring what is missing with --bring, or choose a base that has it"

    StartDiffers "start-differs" Start [Refuse, Warn] ByUser
        means "Source and result were started for real and behaved differently: another exit status, a port that is not listened \
            on, a health check that fails. A result that does better than its source is a warning."
        why "Both are started with the same arguments, variables and limits. Whatever differs will differ in a cluster, too."
        example "underpin rebase IMAGE --to TARGET --start\n# the source listens on port 8080, the result does not"
        fix "see what both wrote in the report; give a slow program more time with --start=SECONDS"

    OpenedButMissing "opened-but-missing" Start [Refuse] ByUser
        means "A program of the source opened or executed a file when it was started for real, and the result does not have \
            that file."
        why "The program went along, the file did not. The result may start all the same and fail later, or do something else \
            than before: fall back to a default, skip a step, not find an account."
        example "/app opens /usr/lib/x86_64-linux-gnu/gconv/ISO8859-15.so in the source, and the result does not have it"
        fix "bring the file along with --bring or --keep; if the program does without it, pass --allow opened-but-missing=PATH"

    StartUnproven "start-unproven" Start [Refuse, Warn] Never
        means "A start was asked for and proves nothing: the source itself does not run here, or the platform cannot be started \
            on this machine. With --require-all-platforms a platform that was not started is a refusal."
        why "A program that ends at once for want of a configuration ends at once in the result, too, and nobody has seen whether \
            it would have run."
        example "underpin rebase IMAGE --to TARGET --start\n# the source ended with status 1 here: no configuration file"
        fix "give the program what it needs with --start-arg, --start-env or --start-mount"

    BaseOutdated "base-outdated" Bases [Refuse] Never
        means "The name of the image's base leads to another image now than the one it is based on."
        why "A base is built again when one of its packages has a fix. An image has that fix only after it has been built or \
            moved again. The finding names the packages that differ, or says that the files are the same."
        example "gcr.io/distroless/static:latest: sha256:406f… → sha256:9c2e…\ntzdata 2024a-0+deb12u1 → 2024b-0+deb12u1"
        fix "write a batch file that moves it to the newest base: `underpin outdated IMAGE --write refresh.yaml`, then `underpin \
            batch refresh.yaml`"

    PodCommand "pod-command" Start [Note] Never
        means "The image was judged by what a container of a manifest starts in it, not by its own command."
        why "The images of Kubernetes' components have no command, or only a log runner: the pod gives it, with the user \
            and the volumes. What is proven holds for this container; another one that runs the image is not covered."
        example "underpin rebase registry.example/kube-apiserver:v1 --command-from kube-apiserver.yaml#kube-apiserver"
        fix "nothing; give the manifest that the cluster runs"

    PodUser "pod-user" User [Refuse] Never
        means "The container has runAsNonRoot: true, and the kubelet would not start the rebased image."
        why "The kubelet compares the user with root before it starts anything. It takes runAsUser, or the user of the \
            image, and that only if it is a number."
        example "securityContext: {runAsNonRoot: true}\n# the new base sets no USER"
        fix "set runAsUser in the manifest, or choose a --base or pass --user with a number that is not 0"

    PodNotWritable "pod-not-writable" User [Refuse] ByUser
        means "The command or the program names a path that the source's user could create, and the result's cannot."
        why "Neither image has the path, so the program makes it when it starts. The user that the new base sets may not \
            write to the directory above it, and no volume is mounted there: `mkdir: permission denied`."
        example "kube-apiserver keeps its certificate in /var/run/kubernetes\n# the new base runs as 65532"
        fix "choose a base that runs as root, pass --user, set runAsUser, or mount an emptyDir there"

}

impl From<Reason> for Rule {
    fn from(reason: Reason) -> Self {
        Self::Shell(reason)
    }
}

impl From<&Note> for Rule {
    fn from(note: &Note) -> Self {
        match note {
            Note::BecomesFirstProcess => Self::Pid1Changes,
            Note::Frozen(_) => Self::EnvFrozen,
            Note::OneWordAssumed(_) => Self::OneWordAssumed,
            Note::EnvironmentOrder(_) => Self::EnvOrder,
            Note::WildcardKept(_) | Note::WildcardUnmatched(_) => Self::WildcardKept,
            Note::TraceDropped => Self::TraceDropped,
            Note::PipefailAssumed => Self::PipefailAssumed,
            Note::MergeDropped => Self::StreamsApart,
            Note::InputFromNothing => Self::StdinDropped,
            Note::StatusOfTee => Self::ExitStatusChanges,
            Note::DirectoryMustExist(_) => Self::WorkdirMustExist,
            Note::ArgumentsReachProgram => Self::CmdChangesMeaning,
            Note::LooksLikeScript(_) => Self::LooksLikeScript,
            Note::BuiltinBecomesProgram(_) => Self::BuiltinBecomesProgram,
            Note::Appends => Self::LogAppends,
            Note::SpellingAssumed => Self::KlogSpellingAssumed,
            Note::KlogOnly => Self::KlogLinesOnly,
            Note::KlogBuffers => Self::KlogBuffers,
            Note::KlogErrorsTwice => Self::KlogErrorsTwice,
            Note::RunnerLimits => Self::RunnerLimits,
            Note::LogToContainer(_) => Self::LogToContainer,
        }
    }
}
