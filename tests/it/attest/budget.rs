//! What attaching and signing cost in requests, with the referrers API and without it.

use serde_json::Value;

use super::{attesting, key};
use crate::support::fixtures;
use crate::support::proxy::{Action, Rule, on};
use crate::support::recipe::Dialect;
use crate::support::registries::Registries;
use crate::support::skip::or_skip;

/// What a registry takes for a blob that it does not have, for a list, and once.
struct Price {
    blob: usize,
    list: usize,
    once: usize,
}

/// POST and PUT for a blob; the list under its tag is read, written, and read again; it is asked for the API.
const BY_TAG: Price = Price { blob: 2, list: 3, once: 1 };
/// One POST for a blob. A registry that does not say that it listed a statement is asked for its list.
const BY_API: Price = Price { blob: 1, list: 1, once: 0 };
/// One that says so is not.
const BY_API_THAT_SAYS_SO: Price = Price { list: 0, ..BY_API };

impl Price {
    /// A statement is a blob and a manifest. The empty config of all of them is one more blob.
    fn of(&self, statements: usize, subjects: usize) -> usize {
        statements * (self.blob + 1) + subjects * self.list + self.blob + self.once
    }
}

/// A target, and what its proxy does.
struct Market {
    registries: Registries,
    rules: Vec<Rule>,
}

impl Market {
    /// Requests to the target of a run with these flags, and its report.
    fn cost(&self, repository: &str, flags: &[&str]) -> (usize, Value) {
        let proxy = &self.registries.target.proxy;
        proxy.script(self.rules.clone());
        let image = self.registries.target.name(&format!("{repository}:v1"));
        let run = attesting(&self.registries, &image, &[flags, &["--json"]].concat()).run().ok();
        (proxy.seen().len(), run.json())
    }

    /// Each combination of flags into a repository of its own, twice. The second time what is listed is looked at: the
    /// manifest and the blob of each statement, and the config that they share.
    fn charges(&self, price: &Price, second: usize) {
        let sign = ["--sign-key", &key("cosign.key")];
        let (provenance, both) = (["--attest", "provenance"], ["--attest", "provenance", "--attest", "sbom"]);
        self.cost("warm/app", &[&both[..], &sign].concat());
        let (plain, _) = self.cost("plain/app", &[]);
        let target = &self.registries.target.proxy;
        assert_eq!(
            target.count("*", "/referrers/") + target.count("*", "/manifests/sha256-"),
            0,
            "nobody asked for it"
        );
        let (idle, _) = self.cost("plain/app", &[]);
        for (at, (flags, statements)) in
            [(sign.to_vec(), 1), (provenance.to_vec(), 1), (both.to_vec(), 3), ([&both[..], &sign].concat(), 4)]
                .into_iter()
                .enumerate()
        {
            let repository = format!("run{at}/app");
            let (first, report) = self.cost(&repository, &flags);
            assert_eq!(report["attestations"].as_array().unwrap().len(), statements, "{flags:?}");
            assert_eq!(first - plain, price.of(statements, 1), "{flags:?}: {:#?}", self.requests());
            let (again, report) = self.cost(&repository, &flags);
            assert_eq!(again - idle, second + 2 * statements + 1, "{flags:?}: {:#?}", self.requests());
            assert_eq!(target.count("PUT", "/") + target.count("POST", "/"), 0, "a second run writes nothing");
            assert!(report["attestations"].as_array().unwrap().iter().all(|it| it["change"] == "already-there"));
        }
    }

    fn requests(&self) -> Vec<String> {
        self.registries.target.proxy.seen().iter().map(|seen| format!("{} {}", seen.method, seen.target)).collect()
    }

    /// An index of three platforms: four subjects, of which the first answers for all whether there is an API.
    fn charges_for_an_index(&self, price: &Price) {
        let host = self.registries.source.registry.host();
        fixtures::on_three(Dialect::Oci, |platform| fixtures::app(platform, 10)).push(host, "in/three", "v1");
        fixtures::on_three(Dialect::Oci, fixtures::old_base).push(host, "base/old3", "v1");
        fixtures::on_three(Dialect::Oci, fixtures::new_base).push(host, "base/new3", "v1");
        let cost = |to: &str, flags: &[&str]| {
            let (proxy, name) = (&self.registries.target.proxy, |rest: &str| self.registries.source.name(rest));
            proxy.script(self.rules.clone());
            let words = ["rebase", &name("in/three:v1"), "--base", &name("base/new3:v1"), "--old-base"];
            let run = self.registries.sandbox.underpin(words).args([&name("base/old3:v1"), "--to"]);
            let run = run.arg(self.registries.target.name(to)).args(flags).hurried().arg("--cache");
            run.arg(self.registries.sandbox.path("cache")).env("COSIGN_PASSWORD", "secret").run().ok();
            proxy.seen().len()
        };
        cost("three/warm:v1", &[]);
        let plain = cost("three/plain:v1", &[]);
        let signed = cost("three/signed:v1", &["--sign-key", &key("cosign.key")]);
        assert_eq!(signed - plain, price.of(4, 4), "{:#?}", self.requests());
    }
}

#[test]
fn without_the_api_a_statement_costs_three_requests_and_a_list_three() {
    let market = Market { registries: or_skip!(Registries::two(1000)), rules: Vec::new() };
    // Asked for the API, and for the list.
    market.charges(&BY_TAG, 2);
    market.charges_for_an_index(&BY_TAG);
}

/// The specification demands that an answer says where a manifest is; this registry does not.
fn located() -> Action {
    Action::set_header("Location", "/v2/")
}

#[test]
fn with_the_api_a_statement_costs_two_requests() {
    let registries = or_skip!(Registries::with_referrers_api(1000));
    let market = Market { registries, rules: vec![on("PUT", "/manifests/").always().does(located())] };
    market.charges(&BY_API, 1);
    market.charges_for_an_index(&BY_API);
}

#[test]
fn a_registry_that_says_what_it_listed_is_not_asked_for_the_list() {
    let registries = or_skip!(Registries::with_referrers_api(1000));
    let digest = registries.rebase(&registries.target.name("look/app:v1"), "cache").run().ok().digest();
    let says = Action::set_headers([("Location", "/v2/".to_owned()), ("OCI-Subject", digest)]);
    let market = Market { registries, rules: vec![on("PUT", "/manifests/").always().does(says)] };
    market.charges(&BY_API_THAT_SAYS_SO, 1);
}
