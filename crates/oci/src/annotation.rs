//! Names of annotations and labels, and those that must not be republished.

pub use oci_spec::image::{ANNOTATION_BASE_IMAGE_DIGEST as BASE_DIGEST, ANNOTATION_BASE_IMAGE_NAME as BASE_NAME};

/// Prefixes of labels and annotations that made a runtime act on the host.
const DANGEROUS: [&str; 9] = [
    // CVE-2026-53488: the log URI of a restart label ran a command on the host.
    "containerd.io/restart.",
    // CVE-2026-94603: checkpoint annotations of an image switched the runtime.
    "io.podman.annotations.",
    "io.kubernetes.cri-o.",
    // CVE-2024-3154: properties of the systemd unit that holds the container.
    "org.systemd.property.",
    // CVE-2026-53492: devices of the host by name.
    "cdi.k8s.io/",
    "cdi.k8s.io",
    // CVE-2026-121885: units rewritten by auto-update.
    "io.containers.autoupdate",
    "PODMAN_SYSTEMD_UNIT",
    "run.oci.",
];

/// Whether a label or annotation with this key is known to make a runtime act on the host.
#[must_use]
pub fn is_dangerous(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    DANGEROUS.iter().any(|prefix| key.starts_with(&prefix.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dangerous_keys_are_known_in_any_case() {
        for key in [
            "containerd.io/restart.loguri",
            "Containerd.IO/restart.status",
            "io.podman.annotations.checkpoint.runtime.name",
            "org.systemd.property.ExecStartPre",
            "cdi.k8s.io/gpu",
            "io.containers.autoupdate.authfile",
        ] {
            assert!(is_dangerous(key), "{key}");
        }
        for key in ["org.opencontainers.image.source", "maintainer", "containerd.io/distribution.source.docker.io", ""]
        {
            assert!(!is_dangerous(key), "{key}");
        }
    }
}
