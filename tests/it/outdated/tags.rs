//! Images by a pattern of their tags: pages, and lists that are hostile.

use std::sync::Arc;

use serde_json::json;

use super::{Fleet, outcomes};
use crate::support::http::{Answer, Body, query};
use crate::support::proxy::{Action, Seen, on};
use crate::support::skip::or_skip;

#[test]
fn a_pattern_takes_the_tags_that_match_and_no_signatures() {
    let fleet = or_skip!(Fleet::new());
    let image = fleet.moved("app", &[]);
    let app = crate::support::fixtures::app("linux/amd64", 5).build();
    let of_digest = format!("{}.sig", fleet.registry.tag("out/app", "v1").unwrap().replace(':', "-"));
    for tag in ["v2", "w1", &of_digest] {
        fleet.push(&app, "out/app", tag);
    }
    let run = fleet.outdated(&[&image.replace(":v1", ":v*"), "--json"]);
    assert_eq!((run.code(), outcomes(&run)), (Some(2), vec!["current".into(), "unknown".into()]), "{run}");
    let run = fleet.outdated(&[&image.replace(":v1", ":*"), "--json"]);
    assert_eq!(outcomes(&run).len(), 3, "all but the signature\n{run}");
    let run = fleet.outdated(&[&image.replace(":v1", ":{v1,v1}"), &image, "--json"]).ok();
    assert_eq!(outcomes(&run).len(), 1, "each once\n{run}");
    let run = fleet.outdated(&[&image.replace(":v1", ":x*")]);
    assert!(run.code() == Some(2) && run.stdout.contains("no tag matches"), "{run}");
    let run = fleet.outdated(&[&image.replace(":v1", ":v[")]);
    assert!(run.code() == Some(2) && run.stdout.contains("pattern is not valid"), "{run}");
}

/// A page of `count` tags after `last`, which goes on for ever where nobody stops it.
fn page(seen: &Seen, count: usize, total: usize) -> Answer {
    let first: usize = query(&seen.target, "last").first().and_then(|last| last[1..].parse().ok()).unwrap_or(0);
    let tags: Vec<String> = (first + 1..=(first + count).min(total)).map(|at| format!("t{at:06}")).collect();
    let next = tags
        .last()
        .filter(|_| first + count < total)
        .map(|last| format!("</v2/out/app/tags/list?n={count}&last={last}>; rel=\"next\""));
    let answer = Answer::json(200, &json!({"name": "out/app", "tags": tags}));
    match next {
        Some(next) => answer.header("Link", next),
        None => answer,
    }
}

#[test]
fn thousands_of_tags_are_read_page_by_page_and_only_those_that_match_are_asked_for() {
    const COUNT: usize = 5_000;
    const MATCHING: usize = 100; // From t000100 to t000199.
    let fleet = or_skip!(Fleet::new());
    let image = fleet.moved("app", &[]);
    let (pattern, base) = (image.replace(":v1", ":t0001*"), fleet.base_name());
    // Every tag leads to the one image.
    let one = Arc::new(|target: &mut String, _: &mut crate::support::http::Headers| {
        if target.contains("/manifests/t") {
            *target = "/v2/out/app/manifests/v1".to_owned();
        }
    });
    fleet.proxy.script([
        on("GET", "/out/app/tags/list").always().does(Action::answer_with(|seen| page(seen, 300, COUNT))),
        on("GET", "/out/app/manifests/t").always().does(Action::Request(one)),
    ]);
    let run = fleet.underpin(&["outdated", &pattern, "--base", &base, "--json"]).run().ok();
    assert_eq!(outcomes(&run), vec!["current"; MATCHING], "{}", run.stderr);
    assert_eq!(fleet.proxy.count("GET", "/tags/list"), COUNT.div_ceil(300));
    assert!(fleet.proxy.seen().len() <= MATCHING + COUNT.div_ceil(300) + 20, "one request for each");
    assert!(run.peak < 64 << 10, "{} KiB", run.peak);
}

#[test]
fn a_list_of_tags_that_is_not_whole_is_none() {
    let fleet = or_skip!(Fleet::new());
    let image = fleet.moved("app", &[]);
    let pattern = image.replace(":v1", ":*");
    let tags = |tags: &[&str]| Answer::json(200, &json!({"name": "out/app", "tags": tags}));
    let again = "</v2/out/app/tags/list?n=1000>; rel=\"next\"";
    let cases: Vec<(&str, Action, usize)> = vec![
        ("in a circle", Action::Answer(tags(&["v1"]).header("Link", again)), 2),
        ("too many pages", Action::answer_with(|seen| page(seen, 1, usize::MAX - 1)), 2_000),
        (
            "cannot be followed",
            Action::Answer(tags(&["v1"]).header("Link", "<http://other.example/x>; rel=\"next\"")),
            1,
        ),
        ("cannot be followed", Action::Answer(tags(&["v1"]).header("Link", "nonsense")), 1),
        ("cannot be read", Action::Answer(Answer::new(200).body("{\"tags\": 5}")), 1),
        ("cannot be one", Action::Answer(tags(&["v1", "../../x"])), 1),
        ("larger than", Action::Answer(Answer { body: Body::Fill(20 << 20), ..Answer::new(200) }), 1),
        ("does not list the tags", Action::Answer(Answer::error(404, "NAME_UNKNOWN", "no such")), 1),
    ];
    for (words, action, requests) in cases {
        fleet.proxy.script([on("GET", "/tags/list").always().does(action)]);
        let run = fleet.underpin(&["outdated", &pattern, "--base", &fleet.base_name()]).run();
        assert_eq!(run.code(), Some(2), "{words}\n{run}");
        assert!(run.stdout.starts_with("unknown") && run.stdout.contains(words), "{words}\n{run}");
        assert!(fleet.proxy.count("GET", "/tags/list") <= requests + 1, "{words}");
        assert_eq!(fleet.proxy.count("GET", "/out/app/manifests/"), 0, "nothing of it is looked at\n{run}");
    }
    // An empty one is an answer.
    fleet.proxy.script([on("GET", "/tags/list").does(Action::Answer(Answer::json(200, &json!({"tags": null}))))]);
    let run = fleet.underpin(&["outdated", &pattern]).run();
    assert!(run.code() == Some(2) && run.stdout.contains("no tag matches"), "{run}");
}
