//! What an image's history shows of its base: where the base's entries visibly end, the name that the
//! builder wrote down, and what the base's lines set.
//!
//! History is what builders happened to write down. It answers only where it fits the layers
//! exactly, and the answer is never more than likely.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::Clue;
use crate::process::Command;
use oci::{Config, HistoryEntry};

/// Names that are followed; a history can hold thousands.
const MOST_NAMES: usize = 4;

/// The number of layers below the seam, or `None` where no seam can be seen.
pub(super) fn seam(config: &Config) -> Option<usize> {
    let history = fitting(config)?;
    let end = bazel_end(history).or_else(|| from_end(history));
    let end = end.or_else(|| command_end(history, &Command::of(config))).or_else(|| root_end(history))?;
    let (below, above) = history.split_at_checked(end)?;
    (layers(below) > 0 && layers(above) > 0).then(|| layers(below))
}

/// The history, where it speaks of exactly the layers that there are.
fn fitting(config: &Config) -> Option<&[HistoryEntry]> {
    Some(config.history()).filter(|history| layers(history) == config.diff_ids().len())
}

fn layers(entries: &[HistoryEntry]) -> usize {
    entries.iter().filter(|entry| !entry.is_empty_layer()).count()
}

/// Distroless images are a run of `bazel build` entries; whatever follows was built on them.
fn bazel_end(history: &[HistoryEntry]) -> Option<usize> {
    let run = history.iter().take_while(|entry| entry.created_by().starts_with("bazel build")).count();
    (run > 0).then_some(run)
}

/// Buildah marks the first step upon a base with a comment; where it makes one layer of all steps, the
/// last, which then has the layer. Either way the layers before it are the base's.
fn from_end(history: &[HistoryEntry]) -> Option<usize> {
    history.iter().rposition(|entry| from(entry).is_some())
}

/// The image in `FROM IMAGE`, unless it is one of the steps of the same build, which have only an id.
fn from(entry: &HistoryEntry) -> Option<&str> {
    let name = entry.0.get("comment")?.as_str()?.strip_prefix("FROM ")?.trim();
    let is_id = matches!(name.len(), 12 | 64) && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    (!name.is_empty() && name != "scratch" && !is_id).then_some(name)
}

/// The images that the builder names as bases, the nearest first.
pub(super) fn names(config: &Config) -> Vec<Clue> {
    let mut names: Vec<&str> = Vec::new();
    for name in config.history().iter().rev().filter_map(from) {
        if names.len() < MOST_NAMES && !names.contains(&name) {
            names.push(name);
        }
    }
    names.into_iter().filter_map(|name| Clue::new(name, None)).collect()
}

/// A base image closes with its own CMD or ENTRYPOINT. The last such line that is followed by more
/// layers is where the image's own build began, unless it is the image's own.
fn command_end(history: &[HistoryEntry], current: &Command) -> Option<usize> {
    let last_layer = history.iter().rposition(|entry| !entry.is_empty_layer())?;
    Some(history.get(..last_layer)?.iter().rposition(|entry| closes_a_base(entry, current))? + 1)
}

/// Whether the entry can be the last of a base. A command that the image still has is its own, set
/// before its last files were copied; a mere shell is what bases have.
fn closes_a_base(entry: &HistoryEntry, current: &Command) -> bool {
    let Some(SetCommand { member, words }) = Line::of(entry).command() else { return false };
    let now = if member == "Cmd" { &current.cmd } else { &current.entrypoint };
    let is_shell = matches!(words.as_deref(), Some([shell]) if is_shell(shell));
    words.is_none() || words != *now || is_shell
}

/// The root file system of a distribution is one entry that adds a whole archive at `/`.
fn root_end(history: &[HistoryEntry]) -> Option<usize> {
    let Line { instruction, rest } = Line::of(history.first()?);
    let adds_a_root = instruction == "ADD" && (rest.ends_with(" in /") || rest.contains(" / # buildkit"));
    let built_by_debian = instruction == "#" && rest.starts_with("debian.sh");
    (adds_a_root || built_by_debian).then_some(1)
}

/// One line as a Dockerfile has it.
struct Line<'a> {
    instruction: &'a str,
    rest: &'a str,
}

impl<'a> Line<'a> {
    fn of(entry: &'a HistoryEntry) -> Self {
        let line = entry.created_by();
        let line = line.strip_prefix("/bin/sh -c #(nop)").unwrap_or(line).trim();
        let (instruction, rest) = line.split_once(' ').unwrap_or((line, ""));
        Self { instruction, rest: rest.trim() }
    }

    /// The words that the line gives to ENTRYPOINT or CMD.
    fn command(&self) -> Option<SetCommand> {
        let member = match self.instruction {
            "ENTRYPOINT" => "Entrypoint",
            "CMD" => "Cmd",
            _ => return None,
        };
        if self.rest.is_empty() {
            return None;
        }
        Some(SetCommand { member, words: words(self.rest) })
    }

    /// Whether the line puts files into the image.
    fn writes_files(&self) -> bool {
        const OTHERS: [&str; 14] = [
            "ARG",
            "CMD",
            "ENTRYPOINT",
            "ENV",
            "EXPOSE",
            "HEALTHCHECK",
            "LABEL",
            "MAINTAINER",
            "ONBUILD",
            "SHELL",
            "STOPSIGNAL",
            "USER",
            "VOLUME",
            "WORKDIR",
        ];
        !OTHERS.contains(&self.instruction)
    }
}

/// A line that sets ENTRYPOINT or CMD; `words` is `None` where they cannot be read.
struct SetCommand {
    member: &'static str,
    words: Option<Vec<String>>,
}

fn is_shell(word: &str) -> bool {
    matches!(word.rsplit('/').next(), Some("sh" | "ash" | "bash" | "dash"))
}

/// `["a", "b"]` as JSON has it, or `["a" "b"]` as Go prints it; all else is a line for a shell.
fn words(text: &str) -> Option<Vec<String>> {
    let Some(list) = text.strip_prefix('[') else {
        return Some(["/bin/sh", "-c", text].map(str::to_owned).to_vec());
    };
    let mut rest = list.strip_suffix(']')?.trim();
    let mut words = Vec::new();
    while !rest.is_empty() {
        let mut strings = serde_json::Deserializer::from_str(rest).into_iter::<String>();
        words.push(strings.next()?.ok()?);
        rest = rest.get(strings.byte_offset()..)?.trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    Some(words)
}

/// What the lines of the first `layers` layers set in the container, as far as it can be read and the
/// image's own lines do not set it again. Empty where the history does not fit.
pub(super) fn inherited(config: &Config, layers: usize) -> Map<String, Value> {
    let Some(history) = fitting(config) else { return Map::new() };
    let end = base_end(history, layers, &Command::of(config));
    let Some((below, above)) = history.split_at_checked(end) else { return Map::new() };
    let mut set = Map::new();
    for line in below.iter().map(Line::of) {
        apply(&line, &mut set);
    }
    for line in above.iter().map(Line::of) {
        let mut own = Map::new();
        apply(&line, &mut own);
        set.retain(|member, _| !own.contains_key(member));
    }
    let variables = variables(config, below, above);
    if !variables.is_empty() {
        set.insert("Env".to_owned(), variables.into());
    }
    set
}

/// How many entries are the base's: those of its layers, and the lines behind them up to its command.
fn base_end(history: &[HistoryEntry], layers: usize, current: &Command) -> usize {
    let mut made = history.iter().enumerate().filter(|(_, entry)| !entry.is_empty_layer());
    let Some((last, _)) = layers.checked_sub(1).and_then(|before| made.nth(before)) else { return 0 };
    let behind = history.iter().enumerate().skip(last + 1);
    let behind = behind.take_while(|(_, entry)| entry.is_empty_layer() && !Line::of(entry).writes_files());
    behind.filter(|(_, entry)| closes_a_base(entry, current)).last().map_or(last, |(at, _)| at) + 1
}

fn apply(line: &Line<'_>, set: &mut Map<String, Value>) {
    if let Some(SetCommand { member, words }) = line.command() {
        set.insert(member.to_owned(), words.into());
    }
    match line.instruction {
        "USER" => drop(set.insert("User".to_owned(), line.rest.into())),
        "WORKDIR" => drop(set.insert("WorkingDir".to_owned(), line.rest.into())),
        _ => {}
    }
}

/// The image's variables that the base's lines set, with these very values. Those with blanks in them
/// are written in several ways, and count as the image's own.
fn variables(config: &Config, below: &[HistoryEntry], above: &[HistoryEntry]) -> Vec<String> {
    let set: HashSet<&str> = settings(below).collect();
    let own: HashSet<&str> = settings(above).map(variable_name).collect();
    let is_inherited = |entry: &String| set.contains(entry.as_str()) && !own.contains(variable_name(entry));
    config.strings("Env").into_iter().filter(is_inherited).collect()
}

fn settings(entries: &[HistoryEntry]) -> impl Iterator<Item = &str> {
    let lines = entries.iter().map(Line::of).filter(|line| line.instruction == "ENV");
    lines.flat_map(|line| line.rest.split_ascii_whitespace())
}

fn variable_name(setting: &str) -> &str {
    setting.split('=').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use oci::testing::TestImage;

    const DEBIAN: (&str, bool) = ("/bin/sh -c #(nop) ADD file:abc in / ", false);
    const BASH: (&str, bool) = ("/bin/sh -c #(nop)  CMD [\"bash\"]", true);
    const COPY: (&str, bool) = ("COPY app /app # buildkit", false);
    const START: (&str, bool) = ("ENTRYPOINT [\"/app\"]", true);

    /// A config with this history, and with as many layers as asked for.
    fn config(lines: &[(&str, bool)], layers: usize, container: &Value) -> Config {
        commented(&lines.iter().map(|(line, empty)| (*line, *empty, "")).collect::<Vec<_>>(), layers, container)
    }

    fn commented(lines: &[(&str, bool, &str)], layers: usize, container: &Value) -> Config {
        let entry = |(line, empty, comment): &(&str, bool, &str)| json!({"created_by": line, "empty_layer": empty, "comment": comment});
        let history = lines.iter().map(entry).collect();
        TestImage { history, container: container.clone(), ..TestImage::of(&["a", "b", "c"][..layers]) }.image().config
    }

    #[test]
    fn sees_the_seam_where_builders_leave_one() {
        let app = json!({"Entrypoint": ["/app"]});
        for (lines, layers, expected) in [
            (vec![DEBIAN, BASH, COPY, START], 2, Some(1)),
            (vec![DEBIAN, BASH, ("RUN apt-get install x", false), COPY, START], 3, Some(1)),
            (vec![DEBIAN, COPY, START], 2, Some(1)),
            (vec![("# debian.sh --arch 'amd64' out/ 'bookworm'", false), COPY, START], 2, Some(1)),
            (vec![("bazel build @a", false), ("bazel build @b", false), COPY, START], 3, Some(2)),
            (vec![DEBIAN, BASH, COPY, ("ENTRYPOINT [\"/other\"]", true), COPY, START], 3, Some(2)),
            (vec![COPY, START], 1, None),
            (vec![DEBIAN, BASH], 1, None),
            (vec![DEBIAN, BASH, COPY, START], 3, None),
            (vec![], 0, None),
        ] {
            assert_eq!(seam(&config(&lines, layers, &app)), expected, "{lines:?}");
        }
    }

    #[test]
    fn a_command_that_the_image_still_has_closes_no_base() {
        let data = ("COPY data /data # buildkit", false);
        let arguments = ("CMD [\"--data\" \"/data\"]", true);
        let container = json!({"Entrypoint": ["/app"], "Cmd": ["--data", "/data"]});
        for (lines, layers, expected) in [
            (vec![DEBIAN, BASH, data, START, arguments, COPY], 3, 1),
            (vec![DEBIAN, data, START, arguments, COPY], 3, 1),
            (vec![DEBIAN, BASH, data, ("ENTRYPOINT [\"/base\"]", true), COPY, START, arguments], 3, 2),
        ] {
            assert_eq!(seam(&config(&lines, layers, &container)), Some(expected), "{lines:?}");
        }
        let inherited = json!({"Cmd": ["bash"]});
        assert_eq!(seam(&config(&[DEBIAN, BASH, COPY], 2, &inherited)), Some(1), "a shell is what bases have");
    }

    #[test]
    fn files_added_below_the_root_are_not_a_base() {
        let lines = [("/bin/sh -c #(nop) ADD file:abc in /usr/local/bin/app ", false), ("COPY conf /etc/conf", false)];
        assert_eq!(seam(&config(&lines, 2, &json!({}))), None);
    }

    /// Both as buildah 1.28 writes it: with a layer for each step, and with one for all.
    #[test]
    fn buildahs_comment_names_the_base_and_shows_where_it_ends() {
        let nop = |line: &str| format!("/bin/sh -c #(nop) {line}");
        let (copy, env, sh) = (nop("COPY file:0 in /etc/os-release "), nop("ENV A=b"), nop("CMD [\"/bin/sh\"]"));
        let (data, app, start) =
            (nop("COPY file:1 in /data "), nop("COPY file:2 in /app "), nop("ENTRYPOINT [\"/app\"]"));
        let base = [(copy.as_str(), true, ""), (&env, true, ""), (&sh, false, "")];
        let named = "FROM localhost/mybase:v1";
        let steps =
            [(data.as_str(), false, named), (&app, false, "FROM 72f515397957"), (&start, true, "FROM 23009cf695e0")];
        let at_once = [(data.as_str(), true, ""), (&app, true, ""), (&start, false, named)];
        for (own, layers) in [(steps, 3), (at_once, 2)] {
            let lines: Vec<_> = base.iter().chain(&own).copied().collect();
            let config = commented(&lines, layers, &json!({"Entrypoint": ["/app"]}));
            assert_eq!(seam(&config), Some(1), "{lines:?}");
            let found: Vec<String> = names(&config).iter().map(|clue| clue.references[0].to_string()).collect();
            assert_eq!(found, ["localhost/mybase:v1"], "{lines:?}");
        }
    }

    #[test]
    fn comments_that_name_no_image_are_no_clue_and_there_is_an_end_to_names() {
        for comment in
            ["FROM scratch", "FROM ", "FROM 18097a3237d3", "FROM NOT A NAME", "from debian", "buildkit.dockerfile.v0"]
        {
            assert_eq!(names(&commented(&[("x", false, comment)], 1, &json!({}))), [], "{comment}");
        }
        let comments: Vec<String> = (0..1000).map(|at| format!("FROM registry.example/a:{at}")).collect();
        let lines: Vec<_> = comments.iter().map(|comment| ("x", true, comment.as_str())).collect();
        let named = names(&commented(&lines, 0, &json!({})));
        assert_eq!((named.len(), named[0].references[0].to_string().as_str()), (MOST_NAMES, "registry.example/a:999"));
    }

    #[test]
    fn commands_are_read_in_both_spellings() {
        for (text, expected) in [
            (r#"["bash"]"#, Some(vec!["bash"])),
            (r#"["a", "b c","d"]"#, Some(vec!["a", "b c", "d"])),
            (r#"["/bin/sh" "-c" "echo \"x\""]"#, Some(vec!["/bin/sh", "-c", "echo \"x\""])),
            ("[]", Some(vec![])),
            ("/app --x 'y z'", Some(vec!["/bin/sh", "-c", "/app --x 'y z'"])),
            (r#"["a"#, None),
            (r#"["a" b]"#, None),
            ("[1]", None),
        ] {
            assert_eq!(words(text), expected.map(|words| words.into_iter().map(str::to_owned).collect()), "{text}");
        }
    }

    #[test]
    fn what_the_lines_of_the_base_set_is_inherited() {
        let path = ("ENV PATH=/usr/bin A=1", true);
        let user = ("USER 1000", true);
        let container = json!({"Cmd": ["bash"], "User": "1000", "Env": ["PATH=/usr/bin", "A=2", "B=3"]});
        let base = json!({"Cmd": ["bash"], "User": "1000", "Env": ["PATH=/usr/bin"]});
        let without = |member: &str| {
            let mut base = base.clone();
            base.as_object_mut().unwrap().remove(member);
            base
        };
        for (lines, expected) in [
            (vec![DEBIAN, path, user, BASH, COPY], base.clone()),
            (vec![DEBIAN, path, user, BASH, ("ENV A=2 B=3", true), COPY], base.clone()),
            (vec![DEBIAN, path, user, BASH, ("ENV PATH=/usr/bin", true), COPY], without("Env")),
            (vec![DEBIAN, path, user, BASH, COPY, user], without("User")),
            (vec![DEBIAN, path, BASH, user, COPY], without("User")),
            (vec![DEBIAN, path, user, COPY, BASH], json!({})),
            (vec![DEBIAN, path, user, BASH, COPY, COPY], json!({})),
        ] {
            let config = config(&lines, 2, &container);
            assert_eq!(Value::Object(inherited(&config, 1)), expected, "{lines:?}");
            assert_eq!(inherited(&config, 0), Map::new());
        }
    }

    #[test]
    fn the_images_own_command_is_not_the_bases_though_it_is_set_before_its_files_are_copied() {
        let config = config(&[DEBIAN, BASH, START, COPY], 2, &json!({"Entrypoint": ["/app"]}));
        assert_eq!(Value::Object(inherited(&config, 1)), json!({"Cmd": ["bash"]}));
    }
}
