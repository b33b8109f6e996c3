//! What a process finds when it starts: its user, its groups, its folders. The same after the move
//! as before it, also where only the old base had them.

use serde_json::{Value, json};

use crate::support::fixtures;
use crate::support::layouts::{Layouts, fates, findings, old_base, upon};
use crate::support::programs::go;
use crate::support::recipe::Recipe;
use crate::support::skip::{need, or_skip};
use crate::support::tar_layer::{Entry, Layer, Pack, file, folder, program};

/// Says who it is, where it is, and whether it can write its log.
const WHO: &str = r#"package main
import ("fmt"; "os"; "os/user"; "strconv"; "strings")
func main() {
    folder, err := os.Getwd()
    fmt.Println("folder", folder, err)
    groups, err := os.Getgroups()
    fmt.Println("numbers", os.Getuid(), os.Getgid(), groups, err)
    account, err := user.LookupId(strconv.Itoa(os.Getuid()))
    if err == nil { fmt.Println("account", account.Username, account.HomeDir, os.Getenv("HOME")) } else { fmt.Println(err) }
    group, err := user.LookupGroupId(strconv.Itoa(os.Getgid()))
    if err == nil { fmt.Println("group", group.Name) } else { fmt.Println(err) }
    for _, word := range os.Args {
        if strings.HasPrefix(word, "--log-file=") {
            _, err := os.Create(strings.TrimPrefix(word, "--log-file="))
            fmt.Println("log", err)
        }
    }
    _, err = os.Create("scratch")
    fmt.Println("scratch", err)
}
"#;

fn old_base_with_app() -> Recipe {
    old_base(&[
        file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\ngames:x:5:60::/:\napp:x:1000:1001:App:/srv/app:/bin/sh\n"),
        file("etc/group", "root:x:0:\naudio:x:29:games,app\ngames:x:60:\napp:x:1001:\nother:x:1002:games\n"),
        folder("srv/"),
        folder("srv/app/").owned(1000, 1001).mode(0o750),
        folder("var/"),
        folder("var/log/"),
        folder("var/log/app/").owned(0, 1001).mode(0o775),
    ])
}

fn app(old: &Recipe, files: &[Entry], user: &str) -> Recipe {
    let files: Vec<Entry> = [program("app", go(WHO, &[]))].into_iter().chain(files.iter().cloned()).collect();
    let config = json!({
        "Entrypoint": ["/app"], "Cmd": ["--log-file=/var/log/app/x.log"], "User": user, "WorkingDir": "/srv/app",
        "Env": [fixtures::PATH],
    });
    upon(old, [Layer::of(Pack::Gzip, &files)], config)
}

/// Starts before and after the move; gives what was printed both times and the report.
fn moved(layouts: &Layouts) -> (String, String, Value) {
    let before = layouts.start("app");
    let report = layouts.rebase("out").arg("--json").run().ok().json();
    (before, layouts.start("out"), report)
}

#[test]
fn accounts_and_folders_of_the_old_base_are_brought_along() {
    or_skip!(need(&["umoci", "runc", "go"]));
    let old = old_base_with_app();
    // With a group named, runtimes leave out the groups that list the user.
    for (user, groups) in [("app:app", "[]"), ("app", "[29]")] {
        let layouts = Layouts::on(&old, &app(&old, &[], user));
        let (before, after, report) = moved(&layouts);
        assert_eq!(before, after);
        let expected = format!(
            "folder /srv/app <nil>\nnumbers 1000 1001 {groups} <nil>\naccount app /srv/app /srv/app\ngroup app\n\
             log <nil>\nscratch <nil>\n"
        );
        assert_eq!(after, expected);
        assert_eq!(fates(&report), ["kept", "added"]);
        assert_eq!(findings(&report["platforms"][0]), ["warn user-by-name"]);
        let read = |path: &str| std::fs::read_to_string(layouts.bundle("out").join("rootfs").join(path)).unwrap();
        assert_eq!(
            read("etc/passwd"),
            "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532::/home/nonroot:/sbin/nologin\n\
             app:x:1000:1001:App:/srv/app:/bin/sh\n"
        );
        assert_eq!(read("etc/group"), "root:x:0:\nnonroot:x:65532:\napp:x:1001:\naudio:x:29:app\n");
        assert_eq!(read("etc/os-release"), "ID=newless\n");
        layouts.underpin(&["verify", "oci:out:v1"]).run().ok().says("verified");
    }
}

#[test]
fn a_user_by_number_with_its_own_folders_needs_no_added_layer() {
    or_skip!(need(&["umoci", "runc", "go"]));
    let old = fixtures::old_base("linux/amd64");
    let own = [folder("srv/app/").owned(65532, 65532), folder("var/log/app/").owned(65532, 65532)];
    let layouts = Layouts::on(&old, &app(&old, &own, "65532:65532"));
    let (_, after, report) = moved(&layouts);
    assert_eq!(fates(&report), ["kept"]);
    assert_eq!(findings(&report["platforms"][0]), [""; 0]);
    let expected = "folder /srv/app <nil>\nnumbers 65532 65532 [] <nil>\naccount nonroot /home/nonroot /home/nonroot\n\
                    group nonroot\nlog <nil>\nscratch <nil>\n";
    assert_eq!(after, expected);
}
