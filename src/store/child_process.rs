//! The processes that a run starts, and the only variables of the environment that each kind of them may have.
//!
//! The rule this file owns: the environment of a CI job holds signing keys, passwords and tokens of other services. A child
//! starts with none of it, and gets what is listed here for its kind. Nothing else makes a [`Command`]: `clippy.toml`
//! forbids it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::attest::SIGNING_PASSWORD;

/// What a process is started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildKind {
    /// `docker-credential-NAME`, which finds its secrets in a keyring, in files or in a cloud.
    CredentialHelper,
    /// `skopeo`, `podman` or `docker`, which finds its engine.
    EngineTool,
    /// `newuidmap` and `newgidmap`, which have the rights of root.
    IdMapper,
    /// This program again, in a user namespace.
    Worker,
    /// An OCI runtime.
    Runtime,
}

/// How a program is found and loaded, what speaks the user's language, where the user's files are.
const USER: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TERM",
    "TMPDIR",
    "XDG_*",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
];

/// How the network is reached, and whom to trust there.
const NETWORK: &[&str] = &[
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NIX_SSL_CERT_FILE",
];

/// Where keyrings, agents and their prompts are.
const SESSION: &[&str] = &[
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "GNUPGHOME",
    "GPG_TTY",
    "GPG_AGENT_INFO",
    "PINENTRY_USER_DATA",
    "PASSWORD_STORE_*",
    "SSH_AUTH_SOCK",
    "WSL_*",
    "WSLENV",
];

/// What credential helpers of the large clouds, of CI systems and of secret stores log in with.
const CLOUD: &[&str] = &[
    "DOCKER_*",
    "REGISTRY_AUTH_FILE",
    "AWS_*",
    "GOOGLE_*",
    "CLOUDSDK_*",
    "GCE_METADATA_*",
    "KUBERNETES_SERVICE_*",
    "AZURE_*",
    "MSI_*",
    "IDENTITY_*",
    "ACR_*",
    "ECR_*",
    "OCI_*",
    "IBMCLOUD_*",
    "ALIBABA_CLOUD_*",
    "DIGITALOCEAN_*",
    "VAULT_*",
    "OP_*",
    "GITHUB_TOKEN",
    "GITHUB_ACTOR",
    "GH_TOKEN",
    "GH_HOST",
    "CI_JOB_TOKEN",
    "CI_REGISTRY*",
    "GITLAB_TOKEN",
];

/// Where the tools of engines find their engine, its storage and its settings.
const ENGINE: &[&str] = &[
    "DOCKER_HOST",
    "DOCKER_CERT_PATH",
    "DOCKER_TLS",
    "DOCKER_TLS_VERIFY",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "DOCKER_API_VERSION",
    "CONTAINER_HOST",
    "CONTAINER_CONNECTION",
    "CONTAINER_SSHKEY",
    "CONTAINERS_*",
    "_CONTAINERS_*",
    "PODMAN_*",
    "STORAGE_DRIVER",
    "STORAGE_OPTS",
    "REGISTRY_AUTH_FILE",
    "SSH_AUTH_SOCK",
    "DBUS_SESSION_BUS_ADDRESS",
];

/// Variables that credential helpers get besides: their names, with blanks or commas between them.
const MORE: &str = "UNDERPIN_HELPER_ENV";

impl ChildKind {
    /// The names of variables; one that ends in `*` stands for all that begin so.
    fn variables(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::CredentialHelper => &[USER, NETWORK, SESSION, CLOUD],
            Self::EngineTool => &[USER, NETWORK, ENGINE],
            Self::IdMapper => &[],
            Self::Worker => &[USER],
            Self::Runtime => &[&["XDG_RUNTIME_DIR"]],
        }
    }

    fn may_have(self, name: &str, more: &str) -> bool {
        let fits = |pattern: &str| match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == pattern,
        };
        let is_listed = self.variables().iter().copied().flatten().any(|pattern| fits(pattern));
        let is_named =
            self == Self::CredentialHelper && more.split([' ', ',']).any(|word| !word.is_empty() && word == name);
        (is_listed || is_named) && name != SIGNING_PASSWORD && !withheld().contains(name)
    }
}

/// The names of variables that hold a signing key.
static WITHHELD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn withheld() -> std::sync::MutexGuard<'static, BTreeSet<String>> {
    WITHHELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the variable from every child, whatever its name is.
pub fn withhold(name: &str) {
    withheld().insert(name.to_owned());
}

/// A command that has of the environment what its kind may have.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place: with an environment that is listed")]
pub fn command(program: impl AsRef<OsStr>, kind: ChildKind) -> Command {
    let more = std::env::var(MORE).unwrap_or_default();
    let listed = std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(|name| kind.may_have(name, &more)));
    let mut command = Command::new(program);
    command.env_clear().envs(listed);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [ChildKind; 5] = [
        ChildKind::CredentialHelper,
        ChildKind::EngineTool,
        ChildKind::IdMapper,
        ChildKind::Worker,
        ChildKind::Runtime,
    ];

    #[test]
    fn no_child_gets_a_signing_key_or_its_password() {
        for kind in KINDS {
            for more in ["", "COSIGN_PASSWORD COSIGN_PRIVATE_KEY"] {
                assert!(!kind.may_have(SIGNING_PASSWORD, more), "{kind:?}");
            }
            for name in ["COSIGN_PRIVATE_KEY", "SIGNING_KEY", "NPM_TOKEN", "SECRET", "PATHS", "XPATH", ""] {
                assert!(!kind.may_have(name, ""), "{kind:?} {name}");
            }
        }
        assert!(ChildKind::CredentialHelper.may_have("AWS_SIGNING_KEY", ""));
        withhold("AWS_SIGNING_KEY");
        assert!(!ChildKind::CredentialHelper.may_have("AWS_SIGNING_KEY", "AWS_SIGNING_KEY"));
    }

    #[test]
    fn each_child_gets_what_it_works_with() {
        for (kind, names) in [
            (
                ChildKind::CredentialHelper,
                &[
                    "PATH",
                    "HOME",
                    "LC_ALL",
                    "XDG_RUNTIME_DIR",
                    "AWS_PROFILE",
                    "GOOGLE_APPLICATION_CREDENTIALS",
                    "GPG_TTY",
                    "https_proxy",
                ][..],
            ),
            (
                ChildKind::EngineTool,
                &["PATH", "HOME", "DOCKER_HOST", "CONTAINERS_STORAGE_CONF", "STORAGE_DRIVER", "TMPDIR"],
            ),
            (ChildKind::Worker, &["PATH", "TMPDIR", "XDG_RUNTIME_DIR"]),
            (ChildKind::Runtime, &["XDG_RUNTIME_DIR"]),
        ] {
            for name in names {
                assert!(kind.may_have(name, ""), "{kind:?} {name}");
            }
        }
        assert!(
            !ChildKind::EngineTool.may_have("DOCKER_PASSWORD", "")
                && !ChildKind::EngineTool.may_have("AWS_PROFILE", "")
        );
        assert!(!ChildKind::Runtime.may_have("PATH", "") && !ChildKind::IdMapper.may_have("PATH", ""));
        assert!(ChildKind::CredentialHelper.may_have("OUR_TOKEN", "OTHER,OUR_TOKEN X"));
        assert!(!ChildKind::EngineTool.may_have("OUR_TOKEN", "OUR_TOKEN"));
    }
}
