//! The rows of the constructs that only a shell can carry out, one for each [`Reason`].
//!
//! Each example is a command that is refused for exactly this reason; a test translates it.

use super::{Allowing, Family, Level, RuleRow};
use shell::Reason;

macro_rules! constructs {
    ($($name:ident means $means:literal why $why:literal example $example:literal fix $fix:literal)*) => {
        /// A reason without a row does not compile.
        pub(super) const fn row(reason: Reason) -> &'static RuleRow {
            match reason {
                $(Reason::$name => const {
                    &RuleRow {
                        id: Reason::$name.word(),
                        family: Family::Construct,
                        levels: &[Level::Refuse],
                        allowing: Allowing::Never,
                        means: $means,
                        why: $why,
                        example: $example,
                        fix: $fix,
                    }
                },)*
            }
        }
    };
}

constructs! {
    Arithmetic
        means "The shell computes a number."
        why "The result is known only when the shell runs."
        example "sh -c 'exec /app --memory=$((LIMIT / 2))'"
        fix "compute the value beforehand and write it in"

    Assignment
        means "A shell variable is set in a way that does not make it a variable of the program."
        why "Without `export`, a variable exists only inside the shell; how it is used afterwards is up to the shell."
        example "sh -c 'URL=http://db; exec /app'"
        fix "write `export NAME=value`, or set the variable in the image or the manifest"

    BackgroundJob
        means "`&` leaves a command running while the next one starts."
        why "A container starts one process. Nobody would start and supervise the second one."
        example "sh -c '/sidecar & exec /app'"
        fix "run one program per container; give the other one a container of its own"

    BraceExpansion
        means "bash turns braces into several words; other shells do not."
        why "The number of arguments depends on the shell."
        example "bash -c 'exec /app --peer={a,b}'"
        fix "quote the braces, or write the words out"

    CommandSubstitution
        means "The shell runs a command and uses its output as part of another one."
        why "The value is known only when the container runs, and the inner command needs the shell to collect it."
        example "sh -c 'exec /app --host=$(hostname)'"
        fix "let the program find the value, or pass it in as a variable of the container"

    Conditional
        means "`if`, `case` or `[[` decides what is run."
        why "An exec-form command always runs the same program."
        example "sh -c 'if [ -e /etc/app ]; then exec /app; fi'"
        fix "move the decision into the program or into an init container"

    ControlCharacter
        means "The script has a control character outside quotes."
        why "It is almost always an accident, such as the carriage return of a Windows line ending, and becomes part of \
            an argument."
        example "exec /app --v=2 with a carriage return at the end of the line"
        fix "remove the character, or put it in quotes"

    DeadArguments
        means "Words follow the script and are not used by it."
        why "With `sh -c SCRIPT WORDS` the words are $0, $1 and so on. Whoever wrote them most likely expected \
            them to be arguments of the program, so underpin does not choose."
        example "sh -c 'exec /app' app --v=2"
        fix "after -c only the first word is the script; remove the others, or write \"$@\" in it"

    Dialect
        means "Shells disagree on what this means."
        why "/bin/sh is dash, bash or busybox, depending on the image. The command does different things there."
        example "sh -c 'exec /app >& 3file'"
        fix "write it in a way that every shell reads alike"

    ExtraFd
        means "A file descriptor other than stdout and stderr is opened, or one of them is closed."
        why "In exec form a program inherits exactly stdin, stdout and stderr, as the runtime sets them up."
        example "sh -c 'exec /app 3>/run/ready'"
        fix "open files in the program; only stdout and stderr can be redirected"

    Function
        means "A shell function is defined."
        why "Only a shell can run it."
        example "sh -c 'start() { exec /app; }; start'"
        fix "move the function into the program"

    Glob
        means "A wildcard is replaced with the file names that match."
        why "The arguments depend on the files that exist when the container runs."
        example "sh -c 'exec /app /etc/app/*.yaml'"
        fix "quote the character, or write the file names out"

    HereDocument
        means "The script contains the text that a command reads from stdin."
        why "A runtime cannot feed a text to a program."
        example "sh -c 'exec /app <<EOF\nport: 80\nEOF'"
        fix "put the text into a file of the image"

    Incomplete
        means "The command has no script, or the script starts no program."
        why "There is nothing that could be started in its place."
        example "sh -c 'cd /srv'"
        fix "give the whole command, with the script and a program in it"

    InputRedirect
        means "stdin comes from a file."
        why "A runtime does not open files for a program."
        example "sh -c 'exec /app </etc/app.conf'"
        fix "let the program open the file itself"

    LogFlags
        means "The program is already given log flags that contradict the log file of the redirection."
        why "The flags that would replace the redirection are set to something else, and the last one wins."
        example "sh -c 'exec /app --log-file=/tmp/a.log >>/var/log/app.log 2>&1' with --logs klog"
        fix "remove the program's own log flags, or use --logs runner or --logs stdout"

    Loop
        means "`for`, `while` or `until` runs commands repeatedly."
        why "A runtime starts one program once."
        example "sh -c 'while true; do /app; sleep 60; done'"
        fix "move the loop into the program or into an init container"

    MultipleCommands
        means "More than one program is run, one after the other."
        why "A container starts one process. The other commands would be lost."
        example "sh -c '/setup && exec /app'"
        fix "keep one program; what comes before it belongs in the image or in an init container"

    NestedShell
        means "The shell starts another shell."
        why "Only one layer of quoting is taken apart at a time, so that nothing is misread."
        example "sh -c 'exec bash -c \"exec /app\"'"
        fix "remove the outer shell, then translate the inner command"

    NewlineSplitsCommand
        means "A line break ends the command, and its flags are on the next line, as a command of their own."
        why "The shell runs the program without these flags, and then fails to run a program named after the first one. \
            Whoever wrote this meant one command, but that is not what runs today."
        example "sh -c '/app --v=2\n--port=80'"
        fix "end the line before it with a backslash, or fold the lines"

    NotText
        means "The command or script is not valid UTF-8."
        why "An image's config is JSON and can only contain text."
        example "a script in Latin-1"
        fix "give the command as UTF-8 text"

    ParameterExpansion
        means "The shell computes a value from a variable: a default, a substring, a replacement."
        why "The result depends on whether and how the variable is set when the container runs."
        example "sh -c 'exec /app --port=${PORT:-80}'"
        fix "give the variable its final value outside the command"

    PartialRedirect
        means "Only part of the output goes to the file, or two streams go to two files."
        why "klog and the log runner take everything or nothing. The order counts: with `2>&1 >>FILE`, stderr does not go \
            to the file."
        example "sh -c 'exec /app 2>&1 >>/var/log/app.log'"
        fix "send stdout and stderr to one file: `>>FILE 2>&1`, in this order"

    Pipeline
        means "The output of the program goes through another program."
        why "Only a shell connects programs. A filter that is dropped would change what is in the log."
        example "sh -c 'exec /app --v=2 | grep -v probe'"
        fix "only `| tee [-a] FILE` has an equivalent; filter where the log is read"

    PositionalParameters
        means "The script uses its own arguments in a way that only a shell can: $1, $#, $* or \"$@\" in the middle."
        why "Arguments of a container are appended to the command, and nowhere else."
        example "sh -c 'exec /app \"$1\" --v=2'"
        fix "write \"$@\" in quotes at the end of the command"

    ProbeVariable
        means "An exec probe uses a variable whose value is not a literal."
        why "For probes, the kubelet expands $(NAME) only from literal values of the container's env, not from \
            fields, secrets or config maps."
        example "livenessProbe: {exec: {command: [sh, -c, exec /probe $NODE_NAME]}}"
        fix "write the value in: in a probe the kubelet knows only literal values"

    ProcessSubstitution
        means "bash runs a command and passes its output as a file name."
        why "Only bash creates that pipe."
        example "bash -c 'exec /app --config <(/render)'"
        fix "write the output to a file beforehand"

    RelativeDirectory
        means "`cd` goes to a directory that depends on the current one, on HOME or on the environment."
        why "The working directory of a container is an absolute path."
        example "sh -c 'cd ../srv && exec /app'"
        fix "write the directory as an absolute path without `..`"

    RuntimeVariable
        means "The value of a variable is known only when the container runs."
        why "Without the shell nobody expands $NAME; the program would receive the characters themselves."
        example "sh -c 'exec /app --host=$HOST'"
        fix "let the program read the variable, or fix its value with --image-env NAME=VALUE, or declare it with --kube --env NAME"

    ShellBuiltin
        means "The command is a builtin of the shell, for which there is no program."
        why "Without the shell there is nothing to start."
        example "sh -c 'exec wait'"
        fix "start a program; a builtin of the shell is none"

    ShellOption
        means "The shell, or the wrapper that starts it, is given an option that changes how the command runs."
        why "-i and -l read start-up files, -n runs nothing, -a exports everything: there is no equivalent without the shell."
        example "bash -lc 'exec /app'"
        fix "remove the option if the command does not need it"

    Source
        means "The script reads commands from another file."
        why "What the file sets is known only to the shell that reads it."
        example "sh -c '. /etc/app.env; exec /app'"
        fix "put the variables of the sourced file into the image or the manifest"

    SpecialFile
        means "Output goes to a device or another special file."
        why "A log runner or klog would create or append to it as if it were a regular file."
        example "sh -c 'exec /app >>/dev/tty 2>&1'"
        fix "write to a regular file, or to stdout"

    StatusMasking
        means "The exit status of the program is discarded: `|| true`, or `!`."
        why "In exec form, the exit status of the container is that of the program, so a failure would be seen that was \
            hidden before."
        example "sh -c '/app || true'"
        fix "drop it if the exit status of the program is wanted"

    Subshell
        means "Commands in parentheses or braces run as a group."
        why "Only a shell groups commands."
        example "sh -c '(cd /srv; exec /app)'"
        fix "write the commands without brackets"

    SyntaxError
        means "The shell itself would reject the command."
        why "The container does not start today either."
        example "sh -c 'exec /app \"--v=2'"
        fix "correct the command; a shell would not accept it either"

    TargetIsShellScript
        means "What the shell starts is a shell script."
        why "The script needs a shell of its own. What it does is only known from its text."
        example "sh -c 'exec /opt/run.sh'"
        fix "give the script's text with --script FILE, or start the program that it starts"

    TildeExpansion
        means "The shell replaces ~ with a home directory."
        why "Which one that is depends on HOME and on the user that the container runs as."
        example "sh -c 'exec /app ~/app.yaml'"
        fix "write the directory out"

    TooLong
        means "The script is larger than underpin reads."
        why "A command of that size is a program in itself, and nothing that exec form could replace."
        example "sh -c with a script of more than a megabyte"
        fix "start the program directly"

    Trap
        means "The shell handles signals."
        why "Without the shell the program receives them itself, and what the trap did is not done."
        example "sh -c 'trap /cleanup TERM; /app'"
        fix "handle the signal in the program"

    Ulimit
        means "The shell changes a resource limit before it starts the program."
        why "The runtime sets the limits of a container; there is nothing in an image for it."
        example "sh -c 'ulimit -n 65536; exec /app'"
        fix "set the limit where the container is started"

    Umask
        means "The shell changes the mode of files that are created later."
        why "There is nothing in an image or a manifest that sets the umask."
        example "sh -c 'umask 077; exec /app'"
        fix "set file modes in the program"

    UnknownShell
        means "The command runs through a shell that underpin does not know, or the script has no usable #! line."
        why "Every shell has its own grammar."
        example "zsh -c 'exec /app'"
        fix "only sh, dash, ash and bash are understood"

    Unreachable
        means "Something follows `exec` and never runs."
        why "exec replaces the shell. Most likely somebody believes that the rest runs, so underpin does not drop it silently."
        example "sh -c 'exec /app; /cleanup'"
        fix "remove what follows `exec`: it never runs"

    UnrenderedTemplate
        means "The text is a template, such as a Helm chart, not the command or manifest that is made from it."
        why "What `{{ }}` becomes is not known, so neither is the command."
        example "sh -c 'exec /app --port={{ .Values.port }}'"
        fix "render the template first and translate the result"
}

#[cfg(test)]
mod tests {
    use super::*;
    use shell::{CommandContext, ImageContext, Verdict, translate};

    /// What no single command line can show.
    const SHOWN_ELSEWHERE: [Reason; 6] = [
        Reason::ControlCharacter,
        Reason::LogFlags,
        Reason::NotText,
        Reason::ProbeVariable,
        Reason::TooLong,
        Reason::UnrenderedTemplate,
    ];

    /// The words of an example: plain ones, and one in single quotes.
    fn words(example: &str) -> Vec<String> {
        let plain = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        match (example.split_once('\''), example.rsplit_once('\'')) {
            (Some((before, _)), Some((front, after))) => {
                let script = front.split_once('\'').map(|(_, script)| script.to_owned()).unwrap();
                plain(before).into_iter().chain([script]).chain(plain(after)).collect()
            }
            _ => plain(example),
        }
    }

    #[test]
    fn every_example_is_refused_for_its_own_reason() {
        let place = CommandContext::Image(ImageContext::default());
        let mut wrong = Vec::new();
        for reason in Reason::ALL.iter().filter(|reason| !SHOWN_ELSEWHERE.contains(reason)) {
            let example = row(*reason).example;
            match translate(&words(example), None, &place) {
                Verdict::Refuse(refusal) if refusal.reason == *reason => {}
                Verdict::Refuse(refusal) => wrong.push(format!("{example}: {}", refusal.reason.word())),
                _ => wrong.push(format!("{example}: not refused, but {}", reason.word())),
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
