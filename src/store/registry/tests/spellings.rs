//! However a registry is written, everything that compares it agrees, and it is the registry that is asked.

use proptest::prelude::*;
use reqwest::Url;

use crate::attest::SignatureDemand;
use crate::settings::Job;
use crate::store::disk::Place;
use crate::store::gc::{ImageName, ProtectedEntry};
use crate::store::registry::auth_file::{AuthEntry, AuthFile};
use crate::store::registry::credentials::Credential;
use crate::store::registry::host::{Host, Transport};
use oci::{HostPattern, Location, Reference, RegistryHost, RepositoryName};

/// One registry: the ways to write its host, and the ports that may be written after it.
#[derive(Debug, Clone)]
struct Registry {
    hosts: &'static [&'static str],
    ports: &'static [&'static str],
}

const REGISTRIES: [Registry; 8] = [
    Registry { hosts: &["gcr.io", "GCR.io", "gCr.Io"], ports: &["", ":443", ":0443", ":0000443"] },
    Registry { hosts: &["eu.gcr.io", "EU.GCR.IO"], ports: &["", ":443"] },
    Registry { hosts: &["gcr.io", "Gcr.IO"], ports: &[":5000", ":05000"] },
    Registry {
        hosts: &["docker.io", "index.docker.io", "registry-1.docker.io", "Registry-1.Docker.io"],
        ports: &["", ":443", ":00443"],
    },
    Registry { hosts: &["localhost", "LOCALHOST", "LocalHost"], ports: &[":5000", ":05000"] },
    Registry {
        hosts: &["127.0.0.1", "[::ffff:127.0.0.1]", "[::FFFF:7F00:1]", "[0:0:0:0:0:ffff:127.0.0.1]"],
        ports: &[":5000", ":005000"],
    },
    Registry { hosts: &["[::1]", "[0:0:0:0:0:0:0:1]", "[::0001]", "[0::0:1]"], ports: &[":5000", ":05000"] },
    Registry { hosts: &["[fd00::a]", "[FD00::A]", "[fd00:0:0:0:0:0:0:000a]"], ports: &["", ":443"] },
];

const REPOSITORIES: [&str; 3] = ["library/debian", "team/app", "a/b/c"];

fn spelling() -> impl Strategy<Value = (usize, String)> {
    (0..REGISTRIES.len(), any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(|(at, host, port)| {
        let Registry { hosts, ports } = &REGISTRIES[at];
        (at, format!("{}{}", host.get(hosts), port.get(ports)))
    })
}

fn name_of(text: &str) -> RepositoryName {
    text.parse::<Reference>().unwrap().name().clone()
}

fn has_credentials(key: &str, name: &RepositoryName) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.json");
    std::fs::write(&path, serde_json::json!({"auths": {key: {"username": "u", "password": "p"}}}).to_string()).unwrap();
    let entry = AuthFile::read(&path).unwrap().unwrap().entry(name).unwrap();
    matches!(entry, Some(AuthEntry::Credential(Credential::Password { .. })))
}

fn is_insecure(pattern: &str, host: &RegistryHost) -> bool {
    // Without a port it would mean all ports. With a CA of its own, also this machine is only unsafe where it is listed.
    let has_port = pattern.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
    let pattern = if has_port { pattern.to_owned() } else { format!("{pattern}:443") };
    let pattern: HostPattern = pattern.parse().unwrap();
    Host::new(host, &[pattern], true).transports().first() == Some(&Transport::UncheckedTls)
}

fn is_protected(entry: &str, image: &str) -> bool {
    entry.parse::<ProtectedEntry>().unwrap().covers(&ImageName::written(image, None))
}

/// Every comparison that there is of one spelling with another one.
fn comparisons(one: &str, other: &str, repository: &str) -> Vec<(&'static str, bool)> {
    let (pattern, image) = (format!("{one}/{repository}"), format!("{other}/{repository}"));
    let (ours, theirs) = (name_of(&pattern), name_of(&image));
    let location = |text: &str| text.parse::<Location>().unwrap();
    let demand = SignatureDemand::new(std::slice::from_ref(&pattern), &[]).unwrap();
    let mut job = Job::new(location(&image), crate::plan::RebaseOptions::default());
    job.targets = vec![location(&pattern)];
    vec![
        ("name", ours == theirs),
        ("host, as mounts compare it", ours.host() == theirs.host()),
        ("signed_by", demand.covers(&location(&image))),
        ("signed_by for all of a host", {
            let all = SignatureDemand::new(&[format!("{one}/**")], &[]).unwrap();
            all.covers(&location(&image))
        }),
        ("credentials", has_credentials(one, &theirs)),
        ("credentials of a path", has_credentials(&pattern, &theirs)),
        ("--insecure", is_insecure(one, theirs.host())),
        ("duplicate targets", Place::of(&location(&pattern)) == Place::of(&location(&image))),
        ("the source's own tag", job.check().is_err()),
        ("protected by name", is_protected(&pattern, &image)),
        ("protected by host", is_protected(&format!("host:{one}"), &image)),
        ("protected by prefix", is_protected(&format!("prefix:{pattern}"), &image)),
        ("the name of a docker archive", {
            let archive = |name: &str| location(&format!("docker-archive:a.tar:{name}:v1"));
            archive(&pattern) == archive(&image)
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_comparisons_agree_whatever_the_spelling(
        one in spelling(), other in spelling(), repository in prop::sample::select(&REPOSITORIES[..])
    ) {
        let is_same = one.0 == other.0;
        for (what, same) in comparisons(&one.1, &other.1, repository) {
            prop_assert_eq!(same, is_same, "{}: {} and {}", what, one.1, other.1);
        }
    }

    #[test]
    fn what_is_compared_is_what_is_asked(text in "[a-cA-C0-9x.:\\[\\]-]{1,12}(:0{0,2}(443|80|5000))?") {
        if let Ok(host) = text.parse::<RegistryHost>() {
            let url = |text: &str| format!("https://{text}/").parse::<Url>();
            let canonical = url(host.as_str());
            prop_assume!(canonical.is_ok());
            let (written, canonical) = (url(&text).unwrap(), canonical.unwrap());
            let place = |url: &Url| (url.host_str().map(str::to_owned), url.port_or_known_default());
            prop_assert_eq!(place(&written), place(&canonical), "{}", text);
            if host.address().is_none_or(|address| address.is_ipv4()) {
                prop_assert_eq!(canonical.host_str(), Some(host.name()), "{}", text);
            }
        }
    }
}

#[test]
fn a_host_without_a_default_port_is_told_from_others_in_every_comparison() {
    // In plain HTTP they may be one registry: nothing is overwritten or left unsigned by that, and no password goes there.
    for (what, same) in comparisons("gcr.io", "gcr.io:80", "team/app") {
        let in_doubt = ["signed_by", "signed_by for all of a host", "duplicate targets", "the source's own tag"];
        assert_eq!(same, in_doubt.contains(&what) || what == "protected by prefix", "{what}");
    }
}
