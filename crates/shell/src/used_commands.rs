//! The programs that a script may run, whatever else it does: every word that stands where a command
//! begins. For scripts that no exec form can stand for.
//!
//! It never runs or expands anything, so a name that the script puts together is not seen; that is said
//! in [`UsedCommands::is_dynamic`]. A name too many does no harm: only those count that a root has.

use super::builtins::reserved;
use super::word::is_name;

/// What a script names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsedCommands {
    /// In the place of a command, and neither of the shell nor a function of the script. Sorted.
    pub commands: Vec<String>,
    /// Absolute paths among the arguments and where input comes from, but for those that the script tests
    /// for. Sorted.
    pub paths: Vec<String>,
    /// Files that are read in with `.` or `source`.
    pub sourced: Vec<String>,
    /// A command is the value of a variable.
    pub is_dynamic: bool,
}

impl UsedCommands {
    /// With what a script that is read in names.
    pub fn join(&mut self, other: Self) {
        for (own, more) in
            [(&mut self.commands, other.commands), (&mut self.paths, other.paths), (&mut self.sourced, other.sourced)]
        {
            let new: Vec<String> = more.into_iter().filter(|name| !own.contains(name)).collect();
            own.extend(new);
        }
        self.is_dynamic |= other.is_dynamic;
    }
}

/// `None` where the script ends inside a quote or a substitution: then nothing is known.
#[must_use]
pub fn used_commands(text: &str) -> Option<UsedCommands> {
    let mut scan = CommandScan { rest: text, ..CommandScan::default() };
    while let Some(next) = scan.rest.chars().next() {
        scan.step(next);
    }
    scan.end_word();
    scan.nesting.is_empty().then(|| scan.finish())
}

/// What the scan is inside of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nesting {
    DoubleQuote,
    /// `$(` or `(`.
    Parenthesis,
    Backtick,
    /// `${`.
    Brace,
}

/// What the next word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    #[default]
    Command,
    Argument,
    /// The target of a redirection, then this again.
    Target,
    /// A pattern of `case`, up to its `)`.
    Pattern,
    /// What `for` and `case` are about, up to the end of the line or `in`.
    Subject,
}

#[derive(Debug, Default)]
struct CommandScan<'a> {
    rest: &'a str,
    nesting: Vec<Nesting>,
    /// The place that was left for each substitution that is open.
    outer: Vec<(Place, Option<Piecemeal>)>,
    place: Place,
    before_target: Place,
    word: Option<Piecemeal>,
    cases: usize,
    here_documents: Vec<String>,
    wants_delimiter: bool,
    commands: Vec<String>,
    functions: Vec<String>,
    paths: Vec<String>,
    tested: Vec<String>,
    sourced: Vec<String>,
    takes: Takes,
    reads: bool,
    is_dynamic: bool,
}

/// What the command that arguments are read for does with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Takes {
    #[default]
    Anything,
    /// `[` and `test`: what they look for may be missing.
    Test,
    /// `.` and `source`.
    Script,
    /// `mkdir`, `touch` and the like make what they name.
    Output,
}

/// A word so far.
#[derive(Debug, Clone, Default)]
struct Piecemeal {
    text: String,
    is_dynamic: bool,
    is_quoted: bool,
}

impl Piecemeal {
    fn is_absolute(&self) -> bool {
        self.text.starts_with('/') && !self.is_dynamic
    }
}

impl CommandScan<'_> {
    fn take(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn step(&mut self, next: char) {
        match self.nesting.last() {
            Some(Nesting::DoubleQuote) => self.quoted(next),
            Some(Nesting::Brace) => self.braced(next),
            _ => self.plain(next),
        }
    }

    fn quoted(&mut self, next: char) {
        match next {
            '"' => self.close(1),
            '\\' => self.escaped(),
            _ if self.substitution(next) => {}
            _ => self.literal(next),
        }
    }

    fn braced(&mut self, next: char) {
        match next {
            '}' => self.close(1),
            '\\' => self.escaped(),
            '"' => self.open(Nesting::DoubleQuote, 1),
            _ if self.substitution(next) => {}
            _ => self.take(next.len_utf8()),
        }
    }

    fn plain(&mut self, next: char) {
        match next {
            ' ' | '\t' | '\r' => {
                self.end_word();
                self.take(1);
            }
            '\n' => self.newline(),
            '#' if self.word.is_none() => {
                let line = self.rest.find('\n').unwrap_or(self.rest.len());
                self.take(line);
            }
            '\'' => self.single_quoted(),
            '"' => {
                self.word.get_or_insert_default().is_quoted = true;
                self.open(Nesting::DoubleQuote, 1);
            }
            '\\' => self.escaped(),
            '`' if self.nesting.last() == Some(&Nesting::Backtick) => self.leave(),
            ')' => self.parenthesis(),
            ';' | '|' | '&' => self.separator(),
            '<' | '>' => self.redirect(),
            '(' => self.open_parenthesis(),
            _ if self.substitution(next) => {}
            _ => self.literal(next),
        }
    }

    fn literal(&mut self, next: char) {
        self.word.get_or_insert_default().text.push(next);
        self.take(next.len_utf8());
    }

    fn escaped(&mut self) {
        self.take(1);
        match self.rest.chars().next() {
            Some('\n') => self.take(1),
            Some(next) => self.literal(next),
            None => {}
        }
    }

    fn single_quoted(&mut self) {
        self.take(1);
        let word = self.word.get_or_insert_default();
        word.is_quoted = true;
        match self.rest.split_once('\'') {
            Some((text, _)) => {
                word.text.push_str(text);
                self.take(text.len() + 1);
            }
            // An end that never comes: whoever asks learns that nothing is known.
            None => self.open(Nesting::DoubleQuote, self.rest.len()),
        }
    }

    /// `$…` and a backtick that opens.
    fn substitution(&mut self, next: char) -> bool {
        let is_open = match next {
            '$' if self.rest.starts_with("$((") => return self.arithmetic(),
            '$' if self.rest.starts_with("$(") => Some((Nesting::Parenthesis, 2)),
            '`' => Some((Nesting::Backtick, 1)),
            _ => None,
        };
        if let Some((nesting, bytes)) = is_open {
            self.word.get_or_insert_default().is_dynamic = true;
            self.enter(nesting, bytes);
            return true;
        }
        if next == '$' {
            self.word.get_or_insert_default().is_dynamic = true;
            if self.rest.starts_with("${") {
                self.open(Nesting::Brace, 2);
            } else {
                self.take(1);
            }
            return true;
        }
        false
    }

    /// `$((…))` names no command.
    fn arithmetic(&mut self) -> bool {
        self.word.get_or_insert_default().is_dynamic = true;
        match self.rest.find("))") {
            Some(end) => self.take(end + 2),
            None => self.open(Nesting::DoubleQuote, self.rest.len()),
        }
        true
    }

    fn open(&mut self, nesting: Nesting, bytes: usize) {
        self.nesting.push(nesting);
        self.take(bytes);
    }

    fn close(&mut self, bytes: usize) {
        self.nesting.pop();
        self.take(bytes);
    }

    /// A substitution or a subshell: a command begins in it.
    fn enter(&mut self, nesting: Nesting, bytes: usize) {
        self.outer.push((self.place, self.word.take()));
        self.place = Place::Command;
        self.open(nesting, bytes);
    }

    fn leave(&mut self) {
        self.end_word();
        let (place, word) = self.outer.pop().unwrap_or_default();
        (self.place, self.word) = (place, word);
        self.close(1);
    }

    fn parenthesis(&mut self) {
        if self.place == Place::Pattern {
            self.word = None;
            self.place = Place::Command;
            self.take(1);
        } else if self.nesting.last() == Some(&Nesting::Parenthesis) {
            self.leave();
        } else {
            self.end_word();
            self.take(1);
        }
    }

    /// A subshell, the parentheses of a function, or those before a pattern.
    fn open_parenthesis(&mut self) {
        match self.word.take() {
            _ if self.place == Place::Pattern => self.take(1),
            Some(name) if self.place == Place::Command => {
                self.functions.push(name.text);
                let after = self.rest.find(')').map_or(self.rest.len(), |end| end + 1);
                self.take(after);
            }
            word => {
                self.word = word;
                self.end_word();
                self.enter(Nesting::Parenthesis, 1);
            }
        }
    }

    fn separator(&mut self) {
        self.end_word();
        if self.place == Place::Pattern {
            return self.take(1);
        }
        let is_case = self.rest.starts_with(";;") && self.cases > 0;
        let bytes = self.rest.chars().take_while(|next| matches!(next, ';' | '|' | '&')).count();
        self.take(bytes);
        self.place = if is_case { Place::Pattern } else { Place::Command };
    }

    fn newline(&mut self) {
        self.end_word();
        self.take(1);
        for delimiter in std::mem::take(&mut self.here_documents) {
            self.skip_document(&delimiter);
        }
        if self.place != Place::Pattern {
            self.place = Place::Command;
        }
    }

    fn skip_document(&mut self, delimiter: &str) {
        while !self.rest.is_empty() {
            let line = self.rest.split('\n').next().unwrap_or_default();
            self.take((line.len() + 1).min(self.rest.len()));
            if line.trim_start_matches('\t') == delimiter {
                return;
            }
        }
    }

    fn redirect(&mut self) {
        // `2>`: the number is no word.
        if self.word.as_ref().is_some_and(|word| word.text.bytes().all(|byte| byte.is_ascii_digit())) {
            self.word = None;
        }
        self.end_word();
        self.wants_delimiter = self.rest.starts_with("<<") && !self.rest.starts_with("<<<");
        self.reads = self.rest.starts_with('<') && !self.rest.starts_with("<<") && !self.rest.starts_with("<>");
        let bytes = self.rest.chars().take_while(|next| matches!(next, '<' | '>' | '&' | '-')).count();
        self.take(bytes);
        if self.place != Place::Target {
            self.before_target = self.place;
        }
        self.place = Place::Target;
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match self.place {
            Place::Target => {
                if std::mem::take(&mut self.wants_delimiter) {
                    self.here_documents.push(word.text);
                } else if std::mem::take(&mut self.reads) && word.is_absolute() {
                    self.paths.push(word.text);
                }
                self.place = self.before_target;
            }
            Place::Pattern => self.end_of_case(&word),
            Place::Subject if word.text == "in" && self.cases > 0 => self.place = Place::Pattern,
            Place::Subject => {}
            Place::Argument => self.argument(word),
            Place::Command => self.command(word),
        }
    }

    fn end_of_case(&mut self, word: &Piecemeal) {
        if word.text == "esac" {
            self.cases = self.cases.saturating_sub(1);
            self.place = Place::Argument;
        }
    }

    fn argument(&mut self, word: Piecemeal) {
        if !word.is_absolute() {
            return;
        }
        match self.takes {
            Takes::Anything => self.paths.push(word.text),
            Takes::Test => self.tested.push(word.text),
            Takes::Script => {
                self.paths.push(word.text.clone());
                self.sourced.push(word.text);
                self.takes = Takes::Anything;
            }
            Takes::Output => {}
        }
    }

    fn command(&mut self, word: Piecemeal) {
        let assigns = word.text.split_once('=').is_some_and(|(name, _)| is_name(name.trim_end_matches('+')));
        self.place = match word.text.as_str() {
            _ if assigns => Place::Command,
            "if" | "then" | "else" | "elif" | "do" | "while" | "until" | "!" | "{" | "}" | "time" | "exec"
            | "command" | "builtin" | "eval" => Place::Command,
            "for" | "select" => Place::Subject,
            "case" => {
                self.cases += 1;
                Place::Subject
            }
            "esac" => {
                self.cases = self.cases.saturating_sub(1);
                Place::Argument
            }
            "function" => Place::Argument,
            // Options of `exec` and `command`.
            text if text.starts_with('-') => Place::Argument,
            _ => Place::Argument,
        };
        self.takes = match word.text.as_str() {
            "[" | "[[" | "test" => Takes::Test,
            "." | "source" => Takes::Script,
            "mkdir" | "touch" | "rm" | "rmdir" | "mktemp" | "mkfifo" => Takes::Output,
            _ => Takes::Anything,
        };
        if self.place == Place::Argument && !word.text.starts_with('-') {
            if word.is_dynamic {
                self.is_dynamic = true;
            } else if reserved(&word.text).is_none() || word.is_quoted {
                self.commands.push(word.text);
            }
        }
    }

    fn finish(self) -> UsedCommands {
        let Self { mut commands, functions, mut paths, tested, sourced, is_dynamic, .. } = self;
        paths.retain(|path| !tested.contains(path));
        commands.retain(|command| !functions.contains(command) && !command.is_empty());
        for list in [&mut commands, &mut paths] {
            list.sort();
            list.dedup();
        }
        UsedCommands { commands, paths, sourced, is_dynamic }
    }
}

/// Whether a word of a shell's command line makes the next one the script: `-c`, `-ec`.
#[must_use]
pub fn is_command_flag(word: &str) -> bool {
    word.strip_prefix('-')
        .is_some_and(|letters| letters.bytes().all(|byte| byte.is_ascii_alphabetic()) && letters.contains('c'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_wherever_they_begin() {
        for (text, expected) in [
            ("sed -i s/a/b/ /etc/x\nexec app \"$@\"", vec!["app", "sed"]),
            ("a | b && c || d; e & f", vec!["a", "b", "c", "d", "e", "f"]),
            ("if test -f x; then awk 1; else grep x; fi", vec!["awk", "grep"]),
            ("A=1 B=$(hostname -f) app", vec!["app", "hostname"]),
            ("x=`id -u`; echo \"$(whoami) \\\" `date`\"", vec!["date", "id", "whoami"]),
            ("for i in a b c; do run $i; done", vec!["run"]),
            ("while read line; do cut -f1; done <file", vec!["cut"]),
            ("case \"$1\" in start|bash) go ;; *) stop ;; esac; after", vec!["after", "go", "stop"]),
            ("f() { inner; }\nf\nouter", vec!["inner", "outer"]),
            ("# comment with tool\ncmd # more", vec!["cmd"]),
            ("cat <<EOF | tee x\nnot a command\nEOF\nlast", vec!["cat", "last", "tee"]),
            ("app >/dev/null 2>&1 </dev/null", vec!["app"]),
            (">log app", vec!["app"]),
            ("'quoted tool' x", vec!["quoted tool"]),
            ("exec su-exec app /srv/app", vec!["su-exec"]),
            ("command -v git >/dev/null", vec![]),
            ("(cd /x; tar x)", vec!["tar"]),
            ("! grep -q x y", vec!["grep"]),
            ("echo $((1 + 2)) ${A:-$(uname)}", vec!["uname"]),
        ] {
            let used = used_commands(text).unwrap();
            let commands: Vec<&str> = used.commands.iter().map(String::as_str).collect();
            assert_eq!(commands, expected, "{text}");
        }
    }

    #[test]
    fn paths_and_names_from_variables_are_told() {
        let used = used_commands("cp /a/b \"/c d\" $X/e; $CMD --x").unwrap();
        assert_eq!((used.paths, used.is_dynamic), (vec!["/a/b".to_owned(), "/c d".to_owned()], true));
        assert!(!used_commands("app $X").unwrap().is_dynamic);
        for (text, paths, sourced) in [
            ("cat </etc/a", vec!["/etc/a"], vec![]),
            ("cat >/etc/a", vec![], vec![]),
            (". /opt/env.sh", vec!["/opt/env.sh"], vec!["/opt/env.sh"]),
            ("[ -f /etc/a ] && . /etc/a", vec![], vec!["/etc/a"]),
            ("mkdir -p /var/x", vec![], vec![]),
        ] {
            let used = used_commands(text).unwrap();
            assert_eq!((used.paths, used.sourced), (owned(&paths), owned(&sourced)), "{text}");
        }
    }

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn what_has_no_end_is_not_known_and_costs_nothing() {
        for text in ["echo 'x", "echo \"x", "echo $(x", "echo `x", "echo ${x"] {
            assert_eq!(used_commands(text), None, "{text}");
        }
        assert!(used_commands(&"$(".repeat(200_000)).is_none());
        assert!(used_commands(&"a;".repeat(200_000)).is_some());
    }
}
