//! The images that most tests use: an application of one layer on an old base of two layers,
//! and the new base of two layers that it shall move to.

use serde_json::{Value, json};

use super::programs::{Machine, prints};
use super::recipe::{Content, Dialect, Recipe, attest, index};
use super::skip::or_skip;
use super::tar_layer::{Layer, Pack, file, folder, noise, program};

pub const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
pub const LINE: &str = "hello from the application\n";
pub const THREE: [&str; 3] = ["linux/amd64", "linux/arm64", "linux/arm/v7"];

pub fn old_base_layers() -> Vec<Layer> {
    let first = [folder("etc/"), file("etc/os-release", "ID=oldian\n"), file("etc/passwd", "root:x:0:0:::\n")];
    let second = [folder("usr/"), folder("usr/share/"), file("usr/share/notes", "of the old base\n")];
    vec![Layer::of(Pack::Gzip, &first), Layer::of(Pack::Gzip, &second)]
}

pub fn new_base_layers() -> Vec<Layer> {
    let first = [folder("etc/"), file("etc/os-release", "ID=newless\n")];
    let second = [
        file("etc/passwd", "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532::/home/nonroot:/sbin/nologin\n"),
        file("etc/group", "root:x:0:\nnonroot:x:65532:\n"),
        folder("tmp/"),
        folder("home/"),
        folder("home/nonroot/"),
    ];
    vec![Layer::of(Pack::Gzip, &first), Layer::of(Pack::Gzip, &second)]
}

pub fn old_base(platform: &str) -> Recipe {
    let config = json!({"Env": [PATH], "Cmd": ["/bin/bash"]});
    Recipe { config, ..Recipe::new(platform, old_base_layers()) }
}

pub fn new_base(platform: &str) -> Recipe {
    let config = json!({"Env": [PATH, "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"], "WorkingDir": "/"});
    Recipe { config, ..Recipe::new(platform, new_base_layers()) }
}

pub fn app_layer(platform: &str, payload: usize) -> Layer {
    let app = program("app", prints(Machine::of(platform), LINE));
    Layer::of(Pack::Gzip, &[app, folder("srv/"), file("srv/payload", noise(7, payload))])
}

/// The application; `payload` bytes that nobody can compress are in its layer.
pub fn app(platform: &str, payload: usize) -> Recipe {
    let mut layers = old_base_layers();
    layers.push(app_layer(platform, payload));
    Recipe { config: app_config(), ..Recipe::new(platform, layers) }
}

pub fn app_config() -> Value {
    json!({"Env": [PATH, "MODE=quiet"], "Entrypoint": ["/app"], "Labels": {"org.example.kind": "stock"}})
}

/// The same image for three platforms.
pub fn on_three(dialect: Dialect, recipe: impl Fn(&str) -> Recipe) -> Content {
    let images = THREE.map(|platform| (platform, Recipe { dialect, ..recipe(platform) }.build()));
    index(dialect, &images)
}

/// The application for three platforms with BuildKit's attestation for the first.
pub fn attested_app(payload: usize) -> Content {
    let app = on_three(Dialect::Oci, |platform| app(platform, payload));
    let first = app.children[0].digest();
    attest(&app, &first, &json!({"predicateType": "https://slsa.dev/provenance/v0.2", "predicate": {"materials": []}}))
}

#[cfg(test)]
mod tests {
    use super::super::docker_registry::Registry;
    use super::super::skip::need;
    use super::super::tools::{skopeo_to_layout, start};
    use super::*;

    #[test]
    fn the_images_are_the_same_every_time() {
        assert_eq!(
            old_base("linux/amd64").build().digest(),
            "sha256:4052651cece4aab11586abb76f1f85de709defb848ad4f020dbcf493b6329ba0"
        );
        assert_eq!(
            new_base("linux/amd64").build().digest(),
            "sha256:06cd52e4a299b9be754ad7875691e1bc83030532c804a38579a8a0d6a7f5fe44"
        );
        assert_eq!(
            app("linux/amd64", 1000).build().digest(),
            "sha256:d752eb6bcc5099b95a57ae1c256060870236e0ff5424d9d6a891e7f64190019e"
        );
        assert_eq!(
            attested_app(1000).digest(),
            "sha256:26f577ca1bd255c289eb7e0683de6ab2e0b31a4c5343793f5d5a93748978f848"
        );
    }

    #[test]
    fn the_application_starts_where_it_was_built() {
        or_skip!(need(&["umoci", "runc", "skopeo"]));
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        app("linux/amd64", 100).build().layout(&path("layout"), "t");
        skopeo_to_layout(&format!("oci:{}:t", path("layout").display()), &path("copy"), "t");
        assert_eq!(start(&path("copy"), "t", &path("bundle")), LINE);
    }

    #[test]
    fn skopeo_reads_them_from_everywhere() {
        let registry = or_skip!(Registry::plain());
        or_skip!(need(&["skopeo"]));
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let image = app("linux/amd64", 1000).build();
        image.push(registry.host(), "a/b", "c");
        attested_app(10).push(registry.host(), "a/index", "c");
        Recipe { dialect: Dialect::Docker, ..app("linux/amd64", 1000) }.build().push(registry.host(), "a/docker", "c");
        image.layout(&path("layout"), "c");
        image.oci_archive(&path("oci.tar"), "c");
        image.docker_archive(&path("docker.tar"), "a/b:c");
        for (from, more) in [
            (format!("docker://{}/a/b:c", registry.host()), "--src-tls-verify=false"),
            (format!("docker://{}/a/index:c", registry.host()), "--src-tls-verify=false"),
            (format!("docker://{}/a/docker:c", registry.host()), "--src-tls-verify=false"),
            (format!("oci:{}:c", path("layout").display()), "--quiet"),
            (format!("oci-archive:{}:c", path("oci.tar").display()), "--quiet"),
            (format!("docker-archive:{}:a/b:c", path("docker.tar").display()), "--quiet"),
        ] {
            let to = format!("dir:{}", path("copy").display());
            let all = if from.contains("index") { "--all" } else { "--quiet" };
            let mut skopeo = std::process::Command::new("skopeo");
            let out = skopeo.args(["copy", more, all, "--insecure-policy", &from, &to]).output().unwrap();
            assert!(out.status.success(), "{from}: {}", String::from_utf8_lossy(&out.stderr));
        }
        assert_eq!(registry.tag("a/b", "c"), Some(image.digest()));
    }
}
