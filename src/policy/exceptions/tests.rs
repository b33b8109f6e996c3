//! The list that people keep, and what may happen to it.

use super::*;
use oci::Location;

const SEED: &str = include_str!("../../../testdata/base-image-exception-list.md");

/// Today's shape: several tables, the base in a heading, names as reference links.
const SECTIONS: &str = include_str!("../../../testdata/base-image-exception-list-sections.md");

fn list(page: &str) -> ExceptionList {
    ExceptionList::read(page).unwrap()
}

fn page(rows: &str) -> String {
    format!("# List\n\n| Component Name | Base Image | Reasons |\n|---|:---:|---|\n{rows}\n\nafter\n")
}

fn added(list: &ExceptionList, component: &str, base: &str, reason: &str) -> oci::error::Result<ExceptionList> {
    added_to(list, None, (component, base, reason))
}

fn added_to(
    list: &ExceptionList,
    section: Option<&str>,
    (component, base, reason): (&str, &str, &str),
) -> oci::error::Result<ExceptionList> {
    let component = &component.parse().unwrap();
    list.with(&NewException { component, base, reason, section, owner: None, supported: None })
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
fn the_list_with_several_tables_parses_with_all_its_rows() {
    let list = list(SECTIONS);
    assert_eq!(list.exceptions().len(), 17);
    assert_eq!(list.problems(), []);
    let of = |name: &str| list.exceptions().iter().find(|exception| exception.component == name).unwrap();
    for (component, base, section, supported) in [
        ("distroless-iptables", "debian-base", "Release: debian-base", ""),
        ("kube-proxy", "distroless-iptables", "Release: distroless-iptables", ""),
        ("kubectl", "go-runner", "Release: go-runner", ""),
        ("etcd", "debian-base", "Non-release images", "Y"),
        ("fluentd-elasticsearch", "ruby:2.7-slim-buster", "Non-release images", "U"),
        ("stackdriver-logging-agent", "debian:buster", "Non-org images", "U"),
    ] {
        let row = of(component);
        let said = [row.base.as_str(), row.section.as_str(), row.supported.as_str()];
        assert_eq!(said, [base, section, supported], "{component}");
    }
    assert!(of("etcd").owner.ends_with("cluster/images/etcd/OWNERS"));
    assert_eq!(of("fluentd-gcp-scaler").owner, "");
    let links = &of("kube-proxy").links;
    assert!(matches!(links.as_slice(), [link] if link.contains("build/common.sh")), "{links:?}");
    let reason = &of("kube-apiserver").reason;
    assert_eq!(reason, "go-runner (distroless++)[1][2]");
}

#[test]
fn a_row_goes_into_the_table_for_its_base_and_back_out() {
    let sections = list(SECTIONS);
    let debian = "registry.k8s.io/build-image/debian-base";
    for (section, base, after, row) in [
        (None, "go-runner", "| [kubectl][core-images] |", "| n | r |"),
        (None, "registry.k8s.io/build-image/go-runner:v2", "| [kubectl][core-images] |", "| n | r |"),
        (None, debian, "| [distroless-iptables] |", "| n | r |"),
        (Some("Non-release images"), debian, "| [node-problem-detector] |", &format!("| n | {debian} |  |  | r |")),
        (Some("non-ORG"), "debian:12", "| [stackdriver-logging-agent] |", "| n | debian:12 |  |  | r |"),
        (Some("Release: `go-runner`".trim_matches('`')), "go-runner", "", ""),
    ] {
        let edited = added_to(&sections, section, ("n", base, "r"));
        if row.is_empty() {
            assert!(edited.is_err(), "the heading is matched as it is seen");
            continue;
        }
        let edited = edited.unwrap();
        let at = edited.page().find(&format!("{row}\n")).unwrap();
        let above = edited.page()[..at].lines().last().unwrap();
        assert!(above.starts_with(after), "{section:?} {base}: {above}");
        assert_eq!(edited.without(&"n".parse().unwrap()).unwrap().page(), SECTIONS, "{section:?} {base}");
    }
}

#[test]
fn where_a_row_goes_is_never_guessed() {
    let sections = list(SECTIONS);
    for (section, base, expected) in [
        (None, "debian:12", "several tables that the row could go into"),
        (None, "ruby:3", "several tables"),
        (Some("images"), "debian:12", "several tables"),
        (Some("no such"), "debian:12", "no such section"),
        (Some("Release: go-runner"), "debian-base", "on another base"),
    ] {
        let error = added_to(&sections, section, ("n", base, "r")).unwrap_err();
        assert!(error.what().contains(expected), "{section:?} {base}: {error}");
    }
    let (component, supported) = (&"n".parse().unwrap(), Some("Y"));
    let new = NewException { component, base: "go-runner", reason: "r", section: None, owner: Some("@o"), supported };
    assert!(sections.with(&new).unwrap_err().what().contains("no column for --owner"));
    let edited = sections.with(&NewException { base: "debian:12", section: Some("Non-org images"), ..new }).unwrap();
    assert!(edited.page().contains("\n| n | debian:12 | @o | Y | r |\n"), "{}", edited.page());
}

#[test]
fn a_link_that_the_page_does_not_define_is_a_mistake() {
    let undefined = "|Image Name|Base Image|Reasons|\n|-|-|-|\n|[etcd]|[debian-base]|shell|\n";
    let problems: Vec<_> = list(undefined).problems().into_iter().map(|it| (it.gravity, it.message)).collect();
    let not_defined = |more: &str| format!("the page does not define this link{more}");
    assert_eq!(problems, [(Gravity::Refuse, not_defined("")), (Gravity::Warn, not_defined(": [debian-base]"))]);
    let defined = format!("{undefined}\n[etcd]: https://x.y\n[debian-base]: https://x.z\n");
    assert_eq!(list(&defined).problems(), []);
    assert_eq!(list(&defined).exceptions()[0].links, ["https://x.y", "https://x.z"]);
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
fn a_page_without_the_table_is_refused() {
    for bad in ["", "text", "| Name | Age |\n|---|---|\n| a | b |\n", "| Base Image | Reason |\n|---|---|\n"] {
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
fn a_row_added_and_removed_leaves_every_page_as_it_was() {
    for page in [
        "|Component|Base|Reason|\n|-|-|-|\n|a|b|c|",
        "|Component|Base|Reason|\r\n|-|-|-|\r\n|a|b|c|",
        "|Component|Base|Reason|\r\n|-|-|-|\r\n|a|b|c|\r\n",
        "|Component|Base|Reason|\n|-|-|-|\n\n\n",
        EMPTY_PAGE,
        SEED,
    ] {
        let edited = added(&list(page), "n", "x", "y").unwrap();
        assert_ne!(edited.page(), page);
        assert_eq!(edited.without(&"n".parse().unwrap()).unwrap().page(), page);
    }
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

#[test]
fn owners_and_support_are_rendered_where_the_list_has_them() {
    let page = render(&list(SECTIONS), &[]);
    assert!(
        page.contains("| Component | Base Image | Exception | Owner | Supported |\n| --- | --- | --- | --- | --- |\n")
    );
    assert!(page.contains("| etcd | debian-base | Requires shell to do data migration | https://"), "{page}");
    assert!(page.contains("| kube-proxy | distroless-iptables | Requires iptables |  |  |"), "{page}");
}
