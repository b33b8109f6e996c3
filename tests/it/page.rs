//! The page of a report in a browser: by structure, not by pixels. What is measured is written into the page by a
//! script of the test, once for each page, width and colour scheme.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::reports;
use crate::support::layouts::{Layouts, upon};
use crate::support::registries::Registries;
use crate::support::skip::{find, need, or_skip};
use crate::support::tar_layer::{Layer, Pack, file, program};
use crate::support::{fixtures, programs};

const WIDTHS: [u32; 2] = [1280, 390];

/// Light, and dark, as a user's system would ask for it.
const LIGHT: [&str; 0] = [];
const DARK: [&str; 1] = ["--blink-settings=preferredColorScheme=0"];

fn browser(folder: &Path, page: &Path, flags: &[&str]) -> String {
    let mut command = Command::new(find("chromium").unwrap());
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]);
    command.args(["--disable-component-update", "--disable-sync", "--hide-scrollbars", "--window-size=1300,2000"]);
    command.arg(format!("--user-data-dir={}", folder.join("profile").display())).args(flags);
    let out = command.arg(format!("file://{}", page.display())).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn attribute(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;")
}

/// What is measured of each page: `wide` is what it takes, `out` what sticks out of it.
const MEASURE: &str = r"
const measure = (frame) => {
  const page = frame.contentDocument, view = frame.contentWindow;
  const colour = (element, what) => view.getComputedStyle(element)[what];
  const sees = (selector) => [...page.querySelectorAll(selector)].filter((it) => it.checkVisibility() && it.getBoundingClientRect().height > 0).length;
  const refusal = page.querySelector('.f.refuse'), warning = page.querySelector('.f.warn');
  const sides = [...page.querySelectorAll('.sides:not(.one)')].map((it) => [...it.children].map((side) => side.getBoundingClientRect().top));
  return {
    name: frame.title, width: view.innerWidth, wide: page.documentElement.scrollWidth,
    out: [...page.querySelectorAll('body *')].filter((it) => it.checkVisibility() && it.getBoundingClientRect().right > view.innerWidth + 1).map((it) => it.className || it.tagName).slice(0, 5),
    page: colour(page.body, 'backgroundColor'), ink: colour(page.body, 'color'),
    scripts: page.scripts.length, title: page.title,
    banner: page.querySelector('.banner').className, saved: page.querySelector('.banner .saved b')?.textContent ?? '',
    verdicts: [...page.querySelectorAll('table.list tbody td.v')].map((it) => it.textContent),
    loud: refusal ? [colour(refusal, 'borderLeftWidth'), colour(refusal, 'backgroundColor') !== colour(page.body, 'backgroundColor')] : [],
    quiet: warning ? colour(warning, 'borderLeftWidth') : '',
    side_by_side: sides.every((tops) => tops[0] === tops[1]), sides: sides.length,
    files: page.querySelectorAll('.tree li').length, files_seen: sees('.tree li'), search: sees('#find'),
    heads: sees('table.list thead'), bars: page.querySelectorAll('.bar').length,
    in_order: [...page.querySelectorAll('h1, h2, h3, h4')].map((it) => it.tagName)[0],
  };
};
addEventListener('load', () => {
  const all = [...document.querySelectorAll('iframe')].map(measure);
  const out = document.createElement('script');
  out.type = 'application/json';
  out.id = 'measured';
  out.textContent = JSON.stringify(all);
  document.body.append(out);
});
";

/// Every page at every width, as the browser lays it out.
fn measured(folder: &Path, pages: &[(String, String)], flags: &[&str]) -> Vec<Value> {
    let mut all = format!("<!DOCTYPE html><meta charset=\"utf-8\"><script>{MEASURE}</script>");
    for (name, page) in pages {
        for width in WIDTHS {
            let page = attribute(page);
            let size = format!("width:{width}px;height:900px");
            all.extend([
                "<iframe title=\"",
                name,
                "\" style=\"border:0;",
                &size,
                "\" srcdoc=\"",
                &page,
                "\"></iframe>",
            ]);
        }
    }
    let file = folder.join("frames.html");
    std::fs::write(&file, all).unwrap();
    let dom = browser(folder, &file, &[&["--dump-dom"], flags].concat());
    let start = dom.find("id=\"measured\">").unwrap_or_else(|| panic!("nothing was measured: {dom}")) + 14;
    let text = &dom[start..start + dom[start..].find("</script>").unwrap()];
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Layouts with the page of an application that has a tree of files, and one name that is long.
fn with_many_files() -> Layouts {
    let layouts = reports::layouts();
    let old = fixtures::old_base("linux/amd64");
    let long = format!("opt/{}/{}", "very-long-name-".repeat(9), "x".repeat(200));
    let mut entries = vec![program("app", programs::prints(programs::Machine::Amd64, "x")), file(&long, "x")];
    entries.extend((0..3000).map(|at| file(&format!("srv/d{}/file-{at}", at % 30), "some content")));
    let config = json!({"Entrypoint": ["/app", "--a-very-long-flag-that-does-not-fit=".repeat(20)]});
    entries.push(file("srv/d29/wanted", "larger than the others"));
    upon(&old, [Layer::of(Pack::Gzip, &entries)], config).build().layout(&layouts.layout("many"), "v1");
    let base = ["--base", "oci:new:v1", "--old-base", "oci:old:v1", "--no-cache", "--offline"];
    layouts
        .underpin(&["rebase", "oci:many:v1", "-t", "oci:moved:many", "--report", "html=many.html"])
        .args(base)
        .run()
        .ok();
    let alone = ["--no-cache", "--offline"];
    layouts.underpin(&["inspect", "oci:many:v1", "--report", "html=looked-at.html"]).args(alone).run().ok();
    let stays = ["check", "oci:moved:many", "--allow-base", "oci:new:v1", "--report", "html=stays.html"];
    layouts.underpin(&stays).args(alone).run().ok();
    layouts
}

/// The pages of the application with many files: moved, looked at, and checked where it may stay.
const OF_MANY: [&str; 3] = ["many", "looked-at", "stays"];

fn pages(layouts: &Layouts) -> Vec<(String, String)> {
    let names = reports::COMMANDS.iter().map(|(name, _)| *name).chain(OF_MANY);
    names
        .map(|name| (name.to_owned(), std::fs::read_to_string(layouts.layout(&format!("{name}.html"))).unwrap()))
        .collect()
}

fn of<'a>(all: &'a [Value], name: &str, width: u32) -> &'a Value {
    all.iter()
        .find(|it| it["name"] == name && it["width"] == width)
        .unwrap_or_else(|| panic!("{name} at {width}: {all:#?}"))
}

#[test]
fn pages_fit_a_desk_and_a_phone_by_day_and_by_night() {
    or_skip!(need(&["chromium"]));
    let layouts = with_many_files();
    reports::all(&layouts);
    let (pages, folder) = (pages(&layouts), layouts.sandbox.path("tmp"));
    let (light, dark) = (measured(&folder, &pages, &LIGHT), measured(&folder, &pages, &DARK));
    assert_eq!(light.len(), pages.len() * WIDTHS.len());
    for it in light.iter().chain(&dark) {
        assert!(it["wide"].as_u64() <= it["width"].as_u64(), "it is wider than the window: {it:#}");
        assert_eq!(it["out"], json!([]), "{it:#}");
        assert_eq!(it["scripts"], 1, "{it:#}");
        assert!(it["title"].as_str().unwrap().starts_with("underpin "), "nothing of an image ran: {it:#}");
        assert_eq!(it["in_order"], "H1");
    }
    for (by_day, by_night) in light.iter().zip(&dark) {
        assert!(by_day["page"] != by_night["page"] && by_day["ink"] != by_night["ink"], "{by_day:#}\n{by_night:#}");
    }
    let batch = of(&light, "batch", 1280);
    assert_eq!(batch["verdicts"], json!(["failed", "refused", "rebased"]), "failures first");
    assert_eq!((&batch["banner"], &batch["heads"]), (&json!("banner bad"), &json!(1)));
    assert_eq!(of(&light, "batch", 390)["heads"], 0, "on a phone every row is a card");
    assert_eq!(of(&light, "rebase", 1280)["banner"], "banner good");
    assert!(of(&light, "rebase", 1280)["saved"].as_str().unwrap().ends_with(" %"));
    let refused = of(&light, "plan", 1280);
    assert_eq!((&refused["saved"], &refused["bars"]), (&json!(""), &json!(1)), "nothing of an image that will not be");
    assert_eq!(refused["loud"], json!(["8px", true]), "{refused:#}");
    let kube = of(&light, "kube", 1280);
    assert!(kube["sides"].as_u64() >= Some(1) && kube["side_by_side"] == true, "{kube:#}");
    assert_eq!(of(&light, "kube", 390)["side_by_side"], false, "on a phone one is below the other");
    files_are_folded_and_can_be_searched(&light);
}

fn files_are_folded_and_can_be_searched(light: &[Value]) {
    for name in OF_MANY {
        let many = of(light, name, 1280);
        assert!((200..=2100).contains(&many["files"].as_u64().unwrap()), "{many:#}");
        assert_eq!((&many["files_seen"], &many["search"]), (&json!(0), &json!(1)), "folded, and to be searched");
        assert!(many["bars"].as_u64() >= Some(1), "{many:#}");
    }
    // A plan for one that is to move, and the files of the source where none may be made.
    for name in ["inspect", "check", "plan", "rebase", "batch"] {
        let page = of(light, name, 390);
        assert!(page["files"].as_u64() > Some(0) && page["search"] == 1, "{page:#}");
    }
}

/// Types into the search of the page, and writes down what is seen then.
const SEARCH: &str = r"
addEventListener('load', () => {
  const seen = () => [...document.querySelectorAll('.tree .nm')].filter((it) => it.checkVisibility()).map((it) => it.textContent);
  dispatchEvent(new KeyboardEvent('keydown', { key: '/' }));
  const input = document.querySelector('#find input'), focused = document.activeElement === input;
  input.value = 'WANTED';
  input.dispatchEvent(new Event('input'));
  setTimeout(() => {
    const found = seen(), said = document.querySelector('#find output').textContent;
    dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }));
    document.body.dataset.found = JSON.stringify({ focused, found, said, after: seen() });
  }, 1000);
});
";

#[test]
fn files_are_searched_from_the_keyboard() {
    or_skip!(need(&["chromium"]));
    let layouts = with_many_files();
    let folder = layouts.sandbox.path("tmp");
    for name in OF_MANY {
        let page = std::fs::read_to_string(layouts.layout(&format!("{name}.html"))).unwrap();
        assert!(page.contains(">wanted<"), "the largest of each directory are listed");
        let policy = page.find("script-src 'sha256-").unwrap();
        let end = policy + page[policy..].find(';').unwrap();
        let open = format!("{}script-src 'unsafe-inline'{}", &page[..policy], &page[end..]);
        let file = folder.join("search.html");
        std::fs::write(&file, open.replace("</body>", &format!("<script>{SEARCH}</script></body>"))).unwrap();
        let dom = browser(&folder, &file, &["--virtual-time-budget=5000", "--dump-dom"]);
        let start = dom.find("data-found=\"").unwrap_or_else(|| panic!("{dom}")) + 12;
        let text = dom[start..start + dom[start..].find('"').unwrap()].replace("&quot;", "\"");
        let found: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(found["focused"], true, "{name}: {found}");
        assert_eq!(found["found"], json!(["srv/", "d29/", "wanted"]), "{name}: {found}");
        assert_eq!((&found["said"], &found["after"]), (&json!("1 file"), &json!([])), "{name}: {found}");
    }
}

/// How many sheets of paper the page takes.
fn sheets(folder: &Path, name: &str, page: &str) -> usize {
    let (file, pdf) = (folder.join(format!("{name}.html")), folder.join(format!("{name}.pdf")));
    std::fs::write(&file, page).unwrap();
    browser(folder, &file, &["--no-pdf-header-footer", &format!("--print-to-pdf={}", pdf.display())]);
    let bytes = std::fs::read(pdf).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    text.matches("/Type /Page\n").count() + text.matches("/Type /Page ").count() + text.matches("/Type /Page/").count()
}

#[test]
fn on_paper_everything_is_open() {
    or_skip!(need(&["chromium"]));
    let layouts = with_many_files();
    let folder = layouts.sandbox.path("tmp");
    let page = std::fs::read_to_string(layouts.layout("many.html")).unwrap();
    // Also without its script.
    let end = page.rfind("<script>").unwrap();
    let page = format!("{}</body></html>", &page[..end]);
    let printed = sheets(&folder, "printed", &page);
    let opened = sheets(&folder, "opened", &page.replace("<details", "<details open"));
    let unopened = sheets(&folder, "folded", &page.replace("details::details-content", "details::unknown"));
    assert!(unopened > 0 && printed > 2 * unopened, "{printed} sheets, {unopened} where nothing opens");
    assert!(printed.abs_diff(opened) <= 1, "{printed} sheets, {opened} where everything is open");
}

#[test]
fn a_page_is_bounded_whatever_the_image_holds() {
    let layouts = reports::layouts();
    let old = fixtures::old_base("linux/amd64");
    let entries: Vec<_> = (0..40_000).map(|at| file(&format!("srv/d{}/e{}/f{at}", at % 50, at % 700), "")).collect();
    let app = program("app", programs::prints(programs::Machine::Amd64, "x"));
    let layer = Layer::of(Pack::Gzip, &[entries, vec![app]].concat());
    upon(&old, [layer], json!({"Entrypoint": ["/app"]})).build().layout(&layouts.layout("large"), "v1");
    let written = ["--report", "html=large.html", "--report", "json=large.json"];
    let commands: [&[&str]; 3] = [
        &["plan", "oci:large:v1", "--base", "oci:new:v1", "--old-base", "oci:old:v1"],
        &["inspect", "oci:large:v1"],
        &["check", "oci:large:v1", "--allow-base", "oci:old:v1", "--known-base", "oci:old:v1"],
    ];
    let size = |name: &str| std::fs::metadata(layouts.layout(name)).unwrap().len();
    for command in commands {
        layouts.underpin(command).args(written).args(["--no-cache", "--offline"]).run().ok();
        assert!(size("large.html") < 500_000, "{command:?}: {}", size("large.html"));
        assert!(size("large.json") < 10_000, "{command:?}: JSON does not list files: {}", size("large.json"));
        let page = std::fs::read_to_string(layouts.layout("large.html")).unwrap();
        assert!(
            page.contains(" entries, ") && page.contains(" more</i>"),
            "{command:?}: what is not listed is counted"
        );
    }
}

#[test]
fn a_page_reads_no_layer_again() {
    let registries = or_skip!(Registries::one(1000));
    let (app, base) = (registries.source.name("in/app:v1"), registries.source.name("base/new:v1"));
    let commands: [&[&str]; 3] = [
        &["inspect", &app],
        // It is to move, so a move is tried; and it may stay.
        &["check", &app, "--allow-base", &base, "--old-base", "layers:1"],
        &["check", &base, "--allow-base", &base, "--known-base", &base],
    ];
    for command in commands {
        let requests = |more: &[&str]| {
            let before = registries.source.proxy.seen().len();
            let run = registries.sandbox.underpin(command).args(more).arg("--no-cache").run();
            assert!(run.code() != Some(2), "{run}");
            registries.source.proxy.seen().len() - before
        };
        let plain = requests(&[]);
        assert!(plain > 2);
        assert_eq!(requests(&["--report", "html=page.html"]), plain, "{command:?}");
        let page = std::fs::read_to_string(registries.sandbox.path("here/page.html")).unwrap();
        assert!(page.contains("<ul class=\"tree\">"), "{command:?}");
    }
}
