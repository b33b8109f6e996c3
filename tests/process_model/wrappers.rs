//! Real wrappers: tini, gosu, and those of busybox; stand-ins for `nice`, `nohup` and `setpriv`, which call what
//! the real ones call.
//!
//! Which tools a busybox was built with is not known to the model: a link to one that it lacks is not compared.

use crate::pair::{Pair, pair};
use crate::program::{patient, tagged, tool};
use crate::scripts::shell;
use crate::support::skip::find;
use crate::support::tar_layer::{folder, program, symlink};

fn installed(name: &str) -> Vec<u8> {
    std::fs::read(find(name).unwrap()).unwrap()
}

fn root(pair: Pair) -> Pair {
    let tools = [
        program("bin/tini", installed("tini-static")),
        program("bin/gosu", installed("gosu")),
        symlink("bin/timeout", "busybox"),
        symlink("bin/setsid", "busybox"),
        symlink("bin/ionice", "busybox"),
        program("bin/nice", tool()),
        program("bin/nohup", tool()),
        program("bin/setpriv", tool()),
    ];
    let pair = pair.below(shell().into_iter().chain(tools).collect()).files([
        program("opt/for-root", tagged("for-root")).mode(0o700),
        program("opt/for-app", tagged("for-app")).owned(1000, 0).mode(0o700),
        program("opt/for-audio", tagged("for-audio")).owned(0, 29).mode(0o750),
        program("opt/script", "#!/app\n"),
        program("opt/lost", "#!/missing\n"),
        program("opt/text", "text"),
        program("opt/patient", patient()),
        program("srv/local", tagged("local")),
        folder("opt/first/"),
        program("opt/first/both", tagged("first")).mode(0o700),
        program("opt/both", tagged("both")),
    ]);
    pair.env(["PATH=/bin:/opt:/", "OLD=x"])
}

pub fn pairs() -> Vec<Pair> {
    [plain(), sessions(), environment(), searched(), users(), ids()].concat()
}

/// Each before programs that are there, are not there, or may not be executed.
fn plain() -> Vec<Pair> {
    let wrappers = [
        "tini",
        "tini --",
        "tini -s -g --",
        "tini -e 143",
        "nice",
        "nice -n 5",
        "timeout 9",
        "timeout -s KILL 9",
        "nohup",
        "env",
        "env --",
        "busybox env",
        "busybox timeout 9",
        "tini -- nice -n 3 env",
        "/bin/busybox ionice",
        "ionice -c 3",
    ];
    let behind = ["/app", "app", "missing", "/opt/for-root", "script", "lost", "text"];
    let all = wrappers.iter().flat_map(|wrapper| behind.map(|program| (*wrapper, program)));
    let some = all.enumerate().filter(|(at, (_, program))| *program == "/app" || at % 3 == 0);
    some.map(|(at, (wrapper, program))| {
        let words = wrapper.split(' ').chain([program]);
        let user = if at % 2 == 0 { "4242" } else { "" };
        root(pair(format!("{wrapper} {program} as {user:?}"))).runs(words).user(user)
    })
    .collect()
}

/// `setsid` forks and ends, and the kernel ends the program with it: a patient one, since another may have said
/// something by then.
fn sessions() -> Vec<Pair> {
    let lines = ["setsid /opt/patient", "busybox setsid patient", "setsid missing"];
    let pairs = lines.map(|line| root(pair(line)).runs(line.split(' ')));
    let held = root(pair("a patient program behind an init")).runs(["tini", "--", "patient"]);
    pairs.into_iter().chain([held]).collect()
}

fn environment() -> Vec<Pair> {
    let with = |line: &str| root(pair(line)).runs(line.split(' '));
    vec![
        with("env A=b /app").changes([("A", Some("b"))]),
        with("env -u OLD app").changes([("OLD", None)]),
        with("env OLD=y C=d app").changes([("OLD", Some("y")), ("C", Some("d"))]),
        with("env PATH=/srv local").changes([("PATH", Some("/srv"))]),
        with("env PATH=/srv app"),
        with("env PATH=/srv /app").changes([("PATH", Some("/srv"))]),
        with("env -i /app").changes([("*", None)]),
        with("env - A=b /app").changes([("*", None), ("A", Some("b"))]),
        with("env -i app").changes([("*", None)]),
        with("env A=b env B=c nice app").changes([("A", Some("b")), ("B", Some("c"))]),
        with("tini -- env A=b tini -- app").changes([("A", Some("b"))]),
    ]
}

/// By whom the program behind a wrapper is looked for.
fn searched() -> Vec<Pair> {
    let with = |line: &str, path: &str| {
        root(pair(format!("{line} in {path}"))).runs(line.split(' ')).workdir("/srv").env([&format!("PATH={path}")])
    };
    vec![
        with("tini local", "/bin:"),
        with("env local", "/bin::/opt"),
        with("env local", "/bin:."),
        with("nice local", "/bin:../srv"),
        with("gosu root local", "/bin:").changes([("HOME", Some("/root"))]),
        with("gosu root /srv/local", "/bin:").changes([("HOME", Some("/root"))]),
        with("tini -- gosu root local", "/bin:").changes([("HOME", Some("/root"))]),
        with("gosu root tini local", "/bin:").changes([("HOME", Some("/root"))]),
        with("env both", "/bin:/opt/first:/opt"),
        // libc goes on where a file may not be executed; the model does not, as runc.
        with("env both", "/bin:/opt/first:/opt").user("4242").cautious("a closed file ends the search"),
        with("both", "/opt/first:/opt").user("4242"),
    ]
}

/// What `setpriv` sets, one by one.
fn ids() -> Vec<Pair> {
    let with = |line: &str| root(pair(line)).runs(line.split(' '));
    vec![
        with("setpriv --reuid=1000 --regid=1001 --clear-groups /app"),
        with("setpriv --reuid=1000 --regid=7 --clear-groups for-app"),
        with("setpriv --reuid=4242 --regid=29 --clear-groups for-audio"),
        with("setpriv --reuid=4242 --regid=4242 --clear-groups for-audio"),
        with("setpriv --reuid=4242 --regid=4242 --clear-groups /opt/for-root"),
        with("tini -- setpriv --reuid=33 --regid=0 --clear-groups nice app"),
        with("setpriv --reuid=33 --regid=33 --clear-groups /app").user("4242"),
    ]
}

fn users() -> Vec<Pair> {
    let to = [
        ("root", "/app", Some("/root")),
        ("app", "/app", Some("/srv/app")),
        ("1000", "/app", Some("/srv/app")),
        ("app:audio", "/app", Some("/srv/app")),
        ("app:0", "/app", Some("/srv/app")),
        ("4242", "/app", Some("/")),
        ("4242:4242", "/app", Some("/")),
        ("nobody", "/app", Some("/nonexistent")),
        ("ghost", "/app", None),
        ("app:ghosts", "/app", None),
        ("app", "for-app", Some("/srv/app")),
        ("app", "for-audio", Some("/srv/app")),
        ("app:app", "for-audio", None),
        ("app", "/opt/for-root", None),
        ("svc", "/opt/for-app", None),
        ("app", "missing", None),
    ];
    let gosu = to.map(|(user, program, home)| {
        let pair = root(pair(format!("gosu {user} {program}"))).runs(["gosu", user, program]);
        match home {
            Some(home) => pair.changes([("HOME", Some(home))]),
            None => pair,
        }
    });
    let others = [
        root(pair("gosu by another than root")).runs(["gosu", "svc", "/app"]).user("4242"),
        root(pair("gosu behind tini")).runs(["tini", "--", "gosu", "app", "app"]).changes([("HOME", Some("/srv/app"))]),
        root(pair("tini behind gosu"))
            .runs(["gosu", "app", "tini", "--", "for-app"])
            .changes([("HOME", Some("/srv/app"))]),
        root(pair("gosu with nothing behind")).runs(["gosu", "app"]),
        root(pair("tini with nothing behind")).runs(["tini", "--"]),
    ];
    gosu.into_iter().chain(others).collect()
}
