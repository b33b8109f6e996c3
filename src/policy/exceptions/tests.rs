//! The list that people keep, and what may happen to it.

use super::*;
use crate::oci::Location;

const SEED: &str = include_str!("../../../testdata/base-image-exception-list.md");

fn list(page: &str) -> ExceptionList {
    ExceptionList::read(page).unwrap()
}

fn page(rows: &str) -> String {
    format!("# List\n\n| Component Name | Base Image | Reasons |\n|---|:---:|---|\n{rows}\n\nafter\n")
}

fn added(list: &ExceptionList, component: &str, base: &str, reason: &str) -> crate::error::Result<ExceptionList> {
    list.with(&component.parse().unwrap(), base, reason)
}

#[test]
fn the_list_that_people_keep_parses_as_it_is() {
    let seed = list(SEED);
    assert_eq!(seed.exceptions().len(), 16);
    let of = |name: &str| seed.exceptions().iter().find(|exception| exception.component == name).unwrap();
    for (component, base, reason) in [
        ("kube-proxy", "k8s.gcr.io/debian-iptable", "Requires iptable"),
        ("etcd", "k8s.gcr.io/debian-base", "Requires shell to do data migration"),
        ("fluentd-elasticsearch", "k8s.gcr.io/debian:stretch-slim", "Requires shell to install fluentd via ruby"),
        ("stackdriver-logging-agent", "", "requires fluentd"),
        ("kube-addon-manager", "k8s.gcr.io/debian-base", "Requires shell."),
    ] {
        assert_eq!((of(component).base.as_str(), of(component).reason.as_str()), (base, reason), "{component}");
    }
    assert!(of("kube-addon-manager").links[0].ends_with("kube-addons.sh"));
    assert_eq!((of("kube-proxy").line, of("kube-scheduler").line), (10, 25));
    let problems: Vec<_> = seed.problems().iter().map(|problem| (problem.gravity, problem.line)).collect();
    assert_eq!(problems, [(Gravity::Warn, 16)], "one row names no base");
}

#[test]
fn what_is_wrong_with_a_row_is_said_with_its_line() {
    for (rows, expected) in [
        ("|a|b|c|\n|d|e|f|", None),
        ("|a|b|c|\n|a|e|f|", Some("recorded twice, first in line 5")),
        ("|a|b||", Some("no reason")),
        ("|a|b|", Some("no reason")),
        ("||b|c|", Some("no component")),
        ("|a b|b|c|", Some("not the name of an image")),
        ("|a|b|c|lost|", Some("so readers do not see: lost")),
        ("|a|b|c \\| kept|", None),
    ] {
        let problems = list(&page(rows)).problems();
        let refused = problems.iter().find(|problem| problem.gravity == Gravity::Refuse);
        assert_eq!(refused.is_some(), expected.is_some(), "{rows}: {problems:?}");
        if let (Some(problem), Some(expected)) = (refused, expected) {
            assert!(problem.message.contains(expected), "{rows}: {problem:?}");
        }
    }
}

#[test]
fn a_page_without_the_table_or_with_two_is_refused() {
    for bad in ["", "text", "| Name | Age |\n|---|---|\n| a | b |\n", &format!("{0}\n{0}", page("|a|b|c|"))] {
        assert!(ExceptionList::read(bad).is_err(), "{bad}");
    }
    let two = format!("| x | y |\n|---|---|\n| component | reason |\n\n{}", page("|a|b|c|"));
    assert_eq!(list(&two).exceptions().len(), 1, "another table does no harm");
}

#[test]
fn an_added_row_is_the_only_change() {
    let seed = list(SEED);
    let edited = added(&seed, "new-agent", "k8s.gcr.io/debian-base", "Requires [a | b](https://x.y)").unwrap();
    let row = "| new-agent | k8s.gcr.io/debian-base | Requires [a \\| b](https://x.y) |\n";
    assert_eq!(edited.page(), format!("{SEED}{row}"));
    let last = edited.exceptions().last().unwrap();
    assert_eq!((last.reason.as_str(), last.links.as_slice()), ("Requires a | b", &["https://x.y".to_owned()][..]));
    assert_eq!(edited.without(&"new-agent".parse().unwrap()).unwrap().page(), SEED, "and back");
    assert!(added(&edited, "new-agent", "b", "c").is_err(), "twice");
}

#[test]
fn rows_are_added_where_the_table_ends_whatever_the_page_looks_like() {
    let header = "| Reason | Owner | Component |\n|--|--|--|\n";
    for (page, expected) in [
        (
            "|Component|Base|Reason|\n|-|-|-|\n|a|b|c|\n\ntail",
            "|Component|Base|Reason|\n|-|-|-|\n|a|b|c|\n| n | x | y |\n\ntail",
        ),
        ("|Component|Base|Reason|\n|-|-|-|\n|a|b|c|", "|Component|Base|Reason|\n|-|-|-|\n|a|b|c|\n| n | x | y |"),
        ("|Component|Base|Reason|\r\n|-|-|-|\r\n", "|Component|Base|Reason|\r\n|-|-|-|\r\n| n | x | y |\r\n"),
        ("Component|Base|Reason\n-|-|-\na|b|c\n", "Component|Base|Reason\n-|-|-\na|b|c\n| n | x | y |\n"),
    ] {
        assert_eq!(added(&list(page), "n", "x", "y").unwrap().page(), expected);
    }
    assert!(added(&list(header), "n", "x", "y").is_err(), "there is no column for the base");
    let quoted = "> |Component|Base|Reason|\n> |-|-|-|\n> |a|b|c|\n";
    assert!(added(&list(quoted), "n", "x", "y").is_err(), "a quotation is edited by hand");
    for (base, reason) in [("", "y"), ("x", " "), ("x", "a\nb"), ("x", "<!--")] {
        let result = added(&list(&page("|a|b|c|")), "n", base, reason);
        let kept = result.as_ref().is_ok_and(|list| list.exceptions().len() == 2);
        assert!(result.is_err() || kept, "{base:?} {reason:?}: {:?}", result.map(|list| list.page().to_owned()));
    }
}

#[test]
fn a_removed_row_is_the_only_change() {
    let of = |rows: &str| list(&page(rows));
    let a = "a".parse().unwrap();
    assert_eq!(of("|a|b|c|\n|d|e|f|").without(&a).unwrap().page(), page("|d|e|f|"));
    assert_eq!(of("|d|e|f|\n|a|b|c|\n|a|x|y|").without(&a).unwrap().page(), page("|d|e|f|"));
    assert!(of("|d|e|f|").without(&a).is_err());
}

#[test]
fn an_image_is_found_by_the_names_that_people_use() {
    let list = list(&page("|etcd|b|c|\n|k8s.gcr.io/kube-dns|b|c|"));
    for (image, expected) in [
        ("k8s.gcr.io/etcd:3.3.10", Some("etcd")),
        (
            "registry.example/a/b/etcd@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            Some("etcd"),
        ),
        ("k8s.gcr.io/etcd-amd64:3", Some("etcd")),
        ("k8s.gcr.io/etcd-empty-dir-cleanup:3", None),
        ("k8s.gcr.io/kube-dns:1", Some("k8s.gcr.io/kube-dns")),
        ("other.io/kube-dns:1", None),
        ("oci:build:etcd", Some("etcd")),
        ("oci:/srv/etcd:v1", Some("etcd")),
        ("oci-archive:etcd.tar", Some("etcd")),
        ("oci:build:v1", None),
    ] {
        let image: Location = image.parse().unwrap();
        assert_eq!(list.exception_for(&image).map(|exception| exception.component.as_str()), expected, "{image}");
    }
}

#[test]
fn the_rendered_list_has_every_component_once() {
    let others = [("kube-proxy", "gcr.io/distroless/static"), ("pause", "gcr.io/distroless/static")];
    let others =
        others.map(|(component, base)| ComponentBase { component: component.to_owned(), base: base.to_owned() });
    let page = render(&list(SEED), &others);
    for line in [
        "| etcd | k8s.gcr.io/debian-base | Requires shell to do data migration |",
        "| kube-proxy | k8s.gcr.io/debian-iptable | Requires iptable |",
        "| pause | gcr.io/distroless/static |  |",
        "| stackdriver-logging-agent | not recorded | requires fluentd |",
        "| gcr.io/distroless/static | pause |",
    ] {
        assert_eq!(page.lines().filter(|other| *other == line).count(), 1, "{line}\n{page}");
    }
}
