//! Who we are, and who gets to know: credentials, tokens, certificates.

mod certificates;
mod passwords;
mod tokens;

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::docker_registry::{Door, Registry};
use crate::support::invocation::{Invocation, Run, Sandbox};
use crate::support::proxy::Proxy;
use crate::support::published;
use crate::support::skip::Part;
use crate::support::token_server::{self, rebase_at};

const USER: &str = "ann";
const PASSWORD: &str = "CANARY-pa55word";

/// A registry with a password, behind a proxy.
struct Locked {
    _registry: Registry,
    back: Registry,
    proxy: Proxy,
    sandbox: Sandbox,
}

impl Locked {
    fn new() -> Part<Self> {
        let registry = Registry::with(&Door::Htpasswd { user: USER, password: PASSWORD })?;
        let back = registry.back_door();
        token_server::push_fixtures(back.host());
        let proxy = Proxy::before(registry.host());
        Ok(Self { _registry: registry, back, proxy, sandbox: Sandbox::new() })
    }

    fn rebase(&self) -> Invocation {
        rebase_at(&self.sandbox, &self.proxy.host(), &format!("{}/out/app:v1", self.proxy.host())).arg("-v")
    }

    fn write(&self, path: &str, value: &Value) {
        write(&self.sandbox.path(path), &value.to_string());
    }

    fn auths(&self, password: &str) -> Value {
        let basic = STANDARD.encode(format!("{USER}:{password}"));
        json!({"auths": {self.proxy.host(): {"auth": basic}}})
    }

    fn succeeds(&self, run: Run) {
        let run = silent_about_secrets(run).ok();
        let published = published::registry(self.back.host(), "out/app", "v1").unwrap();
        assert_eq!(published.digest, run.digest(), "{run}");
    }
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// No secret, in no form that it travels in, is in anything the run said.
fn silent_about_secrets(run: Run) -> Run {
    let basic = STANDARD.encode(format!("{USER}:{PASSWORD}"));
    for secret in ["CANARY", basic.as_str(), "eyJ"] {
        assert!(!run.stdout.contains(secret) && !run.stderr.contains(secret), "{secret} was printed\n{run}");
    }
    run
}
