//! Debian's `docker-registry` on a free port, with a folder of its own, until the end of the test; and another registry
//! that has the referrers API.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::http::{self, dead_host};
use super::invocation::die_with_us;
use super::programs::GoCompiler;
use super::skip::{Part, find, need, or_skip};
use super::tls::{Authority, Leaf, Validity};
use super::token_server::{ISSUER, SERVICE, TokenServer};
use super::tools::newer_directory;
use super::tunnel::Tunnel;

pub struct Registry {
    host: String,
    child: Child,
    folder: Rc<TempDir>,
}

/// Whom the registry lets in, and over what.
pub enum Door<'a> {
    Plain,
    Htpasswd {
        user: &'a str,
        password: &'a str,
    },
    Token(&'a TokenServer),
    Tls(&'a Leaf),
    /// Plain, and with images of schema 1, as registries had them for years.
    Schema1,
}

impl Registry {
    pub fn plain() -> Part<Self> {
        Self::with(&Door::Plain)
    }

    /// Skips where the registry is not installed.
    pub fn with(door: &Door) -> Part<Self> {
        need(&["docker-registry"])?;
        if matches!(door, Door::Htpasswd { .. }) {
            need(&["htpasswd"])?;
        }
        Ok(Self::start(&Rc::new(tempfile::tempdir().unwrap()), door))
    }

    /// That of go-containerregistry, which has the referrers API and takes a blob in one request.
    pub fn with_referrers_api() -> Part<Self> {
        let program = referring_registry()?;
        let folder = Rc::new(tempfile::tempdir().unwrap());
        let file = folder.path().join("registry");
        fs::write(&file, program).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        let start = || {
            let mut command = Command::new(&file);
            let host = dead_host();
            command.arg(&host).env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let child = die_with_us(&mut command).spawn().unwrap();
            let mut registry = Self { host, child, folder: Rc::clone(&folder) };
            registry.is_ready(&Door::Plain).then_some(registry)
        };
        Ok((0..5).find_map(|_| start()).expect("the registry starts"))
    }

    /// A second, open door to the same content: for the test to look behind a guarded one.
    pub fn back_door(&self) -> Self {
        Self::start(&self.folder, &Door::Plain)
    }

    /// A port can be lost between finding it free and using it, so there are several tries.
    fn start(folder: &Rc<TempDir>, door: &Door) -> Self {
        (0..5).find_map(|_| Self::try_start(folder, door)).expect("docker-registry starts")
    }

    fn try_start(folder: &Rc<TempDir>, door: &Door) -> Option<Self> {
        let host = dead_host();
        let config = write_config(folder.path(), &host, door);
        let log = fs::File::create(config.with_extension("log")).unwrap();
        let mut command = Command::new(find("docker-registry")?);
        command.arg("serve").arg(&config).env_clear().env("OTEL_TRACES_EXPORTER", "none");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = die_with_us(&mut command).spawn().unwrap();
        let mut registry = Self { host, child, folder: Rc::clone(folder) };
        registry.is_ready(door).then_some(registry)
    }

    /// Ready is: it answers, and with the name that we gave it. Another process may have been
    /// faster on the port.
    fn is_ready(&mut self, door: &Door) -> bool {
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline && self.child.try_wait().unwrap().is_none() {
            let up = match door {
                Door::Tls(_) => std::net::TcpStream::connect(&self.host).is_ok(),
                _ => http::ask("GET", &self.host, "/v2/", &[], b"")
                    .is_ok_and(|reply| reply.headers.get("x-rig") == Some(&self.host)),
            };
            if up {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// `127.0.0.1:PORT`
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Where it keeps what it has.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The digest that a tag names, or `None`.
    pub fn tag(&self, repository: &str, tag: &str) -> Option<String> {
        let accept: Vec<(&str, &str)> = ACCEPT.iter().map(|media_type| ("Accept", *media_type)).collect();
        let target = format!("/v2/{repository}/manifests/{tag}");
        let reply = http::ask("HEAD", &self.host, &target, &accept, b"").unwrap();
        (reply.status == 200).then(|| reply.headers.get("docker-content-digest").unwrap().to_owned())
    }
}

/// Its library comes from a newer Debian.
const LIBRARY: &str = "sid/golang-github-google-go-containerregistry-dev";
const REFERRING: &str = r#"package main

import (
	"io"
	"log"
	"net/http"
	"os"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true))
	log.Fatal(http.ListenAndServe(os.Args[1], http.HandlerFunc(func(to http.ResponseWriter, request *http.Request) {
		to.Header().Set("X-Rig", os.Args[1])
		handler.ServeHTTP(to, request)
	})))
}
"#;

fn referring_registry() -> Part<Vec<u8>> {
    need(&["go"])?;
    let path = newer_directory(LIBRARY)?.join("usr/share/gocode");
    Ok(GoCompiler::usual().build(REFERRING, &[("GOPATH", path.to_str().unwrap())], &[]))
}

/// The document types that a registry is asked for.
pub const ACCEPT: [&str; 4] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write_config(folder: &Path, host: &str, door: &Door) -> PathBuf {
    let port = host.rsplit(':').next().unwrap();
    let mut http = serde_json::json!({"addr": host, "secret": "rig", "headers": {"X-Rig": [host]}});
    let mut config = serde_json::json!({
        "version": 0.1,
        "log": {"level": "warn", "accesslog": {"disabled": true}},
        "storage": {"filesystem": {"rootdirectory": folder.join("data")}, "delete": {"enabled": true}},
    });
    match door {
        Door::Plain => {}
        Door::Schema1 => config["compatibility"] = serde_json::json!({"schema1": {"enabled": true}}),
        Door::Htpasswd { user, password } => {
            let file = folder.join(format!("htpasswd-{port}"));
            let made = Command::new("htpasswd").args(["-Bbn", "-C", "5", user, password]).output().unwrap();
            assert!(made.status.success(), "{made:?}");
            fs::write(&file, made.stdout).unwrap();
            config["auth"] = serde_json::json!({"htpasswd": {"realm": "rig", "path": file}});
        }
        Door::Token(server) => {
            config["auth"] = serde_json::json!({"token": {
                "realm": server.realm(), "service": SERVICE, "issuer": ISSUER,
                "rootcertbundle": server.certificate(),
            }});
        }
        Door::Tls(leaf) => http["tls"] = serde_json::json!({"certificate": leaf.certificate, "key": leaf.key}),
    }
    config["http"] = http;
    // JSON is YAML.
    let file = folder.join(format!("config-{port}.yml"));
    fs::write(&file, config.to_string()).unwrap();
    file
}

#[test]
fn a_plain_registry_answers_and_goes_away() {
    let registry = or_skip!(Registry::plain());
    let host = registry.host().to_owned();
    assert_eq!(http::get(&host, "/v2/", &[]).status, 200);
    assert_eq!(registry.tag("a/b", "c"), None);
    assert_eq!(http::get(registry.back_door().host(), "/v2/", &[]).status, 200);
    drop(registry);
    assert!(http::ask("GET", &host, "/v2/", &[], b"").is_err());
}

#[test]
fn a_guarded_registry_asks_for_the_password() {
    let registry = or_skip!(Registry::with(&Door::Htpasswd { user: "ann", password: "pw" }));
    assert_eq!(http::get(registry.host(), "/v2/", &[]).status, 401);
    let status = |basic: &str| http::get(registry.host(), "/v2/", &[("Authorization", basic)]).status;
    assert_eq!((status("Basic YW5uOnB3"), status("Basic YW5uOnBx")), (200, 401));
    assert_eq!(http::get(registry.back_door().host(), "/v2/", &[]).status, 200);
}

#[test]
fn a_tls_registry_speaks_tls() {
    use super::tls::{Authority, Validity};
    let authority = Authority::new();
    let leaf = authority.leaf(Validity::Now);
    let registry = or_skip!(Registry::with(&Door::Tls(&leaf)));
    or_skip!(need(&["curl"]));
    let curl = |more: &[&str]| {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-o", "/dev/null", "-w", "%{http_code}"]).args(more);
        let out = curl.arg(format!("https://{}/v2/", registry.host())).output().unwrap();
        (out.status.code(), String::from_utf8(out.stdout).unwrap())
    };
    assert_eq!(curl(&["--cacert", authority.file().to_str().unwrap()]), (Some(0), "200".to_owned()));
    assert_eq!(curl(&[]).0, Some(60), "an unknown authority");
}

// The registries that documents name, all in one: a real one behind a proxy that every name leads to.

/// Hosts as documents write them; Docker Hub has its API elsewhere.
pub const HOSTS: [&str; 4] = ["registry.example", "gcr.io", "registry.k8s.io", "registry-1.docker.io"];

pub struct Outside {
    _registry: Registry,
    tunnel: Tunnel,
    authority: Authority,
}

impl Outside {
    /// Skips where the registry is not installed.
    pub fn start() -> Part<Self> {
        let authority = Authority::new();
        let names = [&HOSTS[..], &["127.0.0.1"]].concat();
        let registry = Registry::with(&Door::Tls(&authority.leaf_for(&names, Validity::Now)))?;
        Ok(Self { tunnel: Tunnel::connect(registry.host()), _registry: registry, authority })
    }

    /// What leads underpin, skopeo and other programs there, as it would in a company's network.
    pub fn variables(&self) -> [(&'static str, String); 2] {
        let proxy = format!("http://{}", self.tunnel.host());
        [("HTTPS_PROXY", proxy), ("SSL_CERT_FILE", self.authority.file().display().to_string())]
    }
}
