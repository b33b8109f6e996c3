//! One container of a manifest as the kubelet would run it: for whoever has its image and wants to know what starts.

use std::collections::BTreeMap;

use super::container::declared;
use super::manifest::ParsedManifest;
use super::tree::{ManifestTree, TreeNodeId};
use super::workload::{CONTAINERS, ObjectName, Pod, words};
use super::{Template, template, workload};
use crate::process::{MountKind, PodContainer, PodMount, PodSurroundings, PodUser, PodVariable};
use layer::RootPath;
use oci::error::{Error, Result};
use shell;

/// The container that `name` means: its name, or `KIND/NAME/CONTAINER`.
pub fn pod_container(text: &str, file: &str, name: &str) -> Result<PodContainer> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let read = ParsedManifest::read(text, Template::Rendered).map_err(|error| match template::first(text) {
        Some((_, placeholder)) => error.fact("placeholder", placeholder).hint("render the template first"),
        None => error,
    })?;
    let tree = read.tree();
    let all = containers(tree)?;
    let found: Vec<&NamedContainer> = all.iter().filter(|one| one.is_meant(name)).collect();
    let wanted = |error: Error| error.fact("file", file).fact("container", name);
    let list =
        |of: &mut dyn Iterator<Item = &NamedContainer>| of.map(NamedContainer::path).collect::<Vec<_>>().join(", ");
    match found.as_slice() {
        [one] => read_container(tree, one.spec, one.container)
            .map(|pod| PodContainer { place: one.place(), file: file.to_owned(), ..pod })
            .map_err(wanted),
        [] => Err(wanted(Error::input("the manifest has no such container")).fact("containers", list(&mut all.iter()))),
        several => Err(wanted(Error::input("the manifest has several containers of that name"))
            .fact("candidates", list(&mut several.iter().copied()))
            .hint(format!(
                "name one with its object: {file}#{}",
                several.first().map_or_else(String::new, |one| one.path())
            ))),
    }
}

struct NamedContainer {
    object: ObjectName,
    name: String,
    spec: TreeNodeId,
    container: TreeNodeId,
}

impl NamedContainer {
    fn path(&self) -> String {
        format!("{}/{}/{}", self.object.kind, self.object.name, self.name)
    }

    fn place(&self) -> String {
        format!("container {} of {}/{}", self.name, self.object.kind, self.object.name)
    }

    fn is_meant(&self, name: &str) -> bool {
        self.name == name || self.path() == name
    }
}

fn containers(tree: &ManifestTree) -> Result<Vec<NamedContainer>> {
    let mut found = Vec::new();
    for Pod { spec, object } in workload::pods(tree)? {
        let lists = CONTAINERS.iter().filter_map(|key| tree.get(spec, key));
        for container in lists.flat_map(|list| tree.items(list)) {
            if found.len() > tree.len() {
                return Err(Error::input("the aliases of the manifest expand to too many containers"));
            }
            let container = tree.resolved(*container);
            let name = tree.text_at(container, "name").unwrap_or_default().to_owned();
            found.push(NamedContainer { object: object.clone(), name, spec, container });
        }
    }
    Ok(found)
}

/// What is declared for a container, in itself and in its pod.
pub(super) fn read_container(tree: &ManifestTree, spec: TreeNodeId, container: TreeNodeId) -> Result<PodContainer> {
    let list = |key: &str| {
        let list = tree.get(container, key).filter(|id| !tree.is_null(*id));
        words(tree, list).ok_or_else(|| Error::input("an item of the list is not a string").fact("list", key))
    };
    let settings =
        SecurityContexts { tree, pod: tree.get(spec, "securityContext"), own: tree.get(container, "securityContext") };
    Ok(PodContainer {
        command: list("command")?,
        args: list("args")?,
        variables: variables(tree, container),
        declared: declared(tree, container),
        working_dir: tree.text_at(container, "workingDir").filter(|directory| !directory.is_empty()).map(str::to_owned),
        user: PodUser {
            uid: settings.number("runAsUser")?,
            gid: settings.number("runAsGroup")?,
            must_not_be_root: settings.flag("runAsNonRoot"),
        },
        surroundings: PodSurroundings {
            groups: settings.groups()?,
            mounts: mounts(tree, spec, container)?,
            has_read_only_root: settings.flag("readOnlyRootFilesystem"),
        },
        ..PodContainer::default()
    })
}

/// The variables with the values that the kubelet makes of them: each may use those before it.
fn variables(tree: &ManifestTree, container: TreeNodeId) -> Vec<PodVariable> {
    let entries = tree.get(container, "env").map(|env| tree.items(env)).unwrap_or_default();
    let mut values: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut found: Vec<PodVariable> = Vec::new();
    for entry in entries {
        let Some(name) = tree.text_at(*entry, "name") else { continue };
        let written = match (tree.get(*entry, "valueFrom"), tree.get(*entry, "value")) {
            (Some(_), _) => None,
            (None, Some(value)) => tree.text(value),
            (None, None) => Some(""),
        };
        let names_unknown =
            |text: &str| values.iter().any(|(name, value)| value.is_none() && text.contains(&format!("$({name})")));
        let value = written.filter(|text| !names_unknown(text)).map(|text| shell::expanded(text, &values));
        values.insert(name.to_owned(), value.clone());
        found.retain(|there| there.name != name);
        found.push(PodVariable { name: name.to_owned(), value });
    }
    found
}

/// What a container says for itself counts before what its pod says for all.
struct SecurityContexts<'a> {
    tree: &'a ManifestTree,
    pod: Option<TreeNodeId>,
    own: Option<TreeNodeId>,
}

impl SecurityContexts<'_> {
    fn value(&self, key: &str) -> Option<TreeNodeId> {
        let contexts = [self.own, self.pod].into_iter().flatten();
        contexts.filter_map(|context| self.tree.get(context, key)).find(|value| !self.tree.is_null(*value))
    }

    fn number(&self, key: &'static str) -> Result<Option<u64>> {
        self.value(key).map(|value| number(self.tree, value, key)).transpose()
    }

    fn flag(&self, key: &str) -> bool {
        self.value(key).and_then(|value| self.tree.text(value)) == Some("true")
    }

    fn groups(&self) -> Result<Vec<u64>> {
        let Some(pod) = self.pod else { return Ok(Vec::new()) };
        let listed = self.tree.get(pod, "supplementalGroups").map(|list| self.tree.items(list)).unwrap_or_default();
        let of_volumes = self.tree.get(pod, "fsGroup").filter(|value| !self.tree.is_null(*value));
        let all = listed.iter().copied().chain(of_volumes);
        all.map(|value| number(self.tree, value, "supplementalGroups")).collect()
    }
}

fn number(tree: &ManifestTree, value: TreeNodeId, key: &'static str) -> Result<u64> {
    let text = tree.text(value).unwrap_or_default();
    text.parse().map_err(|_| Error::input("a number of the security context cannot be read").fact(key, text))
}

/// Where the kubelet mounts the token of the pod's account.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

fn mounts(tree: &ManifestTree, spec: TreeNodeId, container: TreeNodeId) -> Result<Vec<PodMount>> {
    let list = |of: TreeNodeId, key: &str| tree.get(of, key).map(|list| tree.items(list).to_vec()).unwrap_or_default();
    let volumes = list(spec, "volumes");
    let mut mounts = Vec::new();
    for mount in list(container, "volumeMounts") {
        let Some(path) = tree.text_at(mount, "mountPath") else { continue };
        let volume = volumes.iter().find(|volume| tree.text_at(**volume, "name") == tree.text_at(mount, "name"));
        let (kind, is_writable) =
            volume.map_or((MountKind::Directory, true), |volume| volume_kind(tree, *volume, mount));
        let is_read_only = tree.text_at(mount, "readOnly") == Some("true");
        let path = RootPath::new(path).map_err(|error| error.fact("mountPath", path))?;
        mounts.push(PodMount { path, kind, is_writable: is_writable && !is_read_only });
    }
    let has_token = tree.text_at(spec, "automountServiceAccountToken") != Some("false");
    let token = RootPath::new(TOKEN).ok().filter(|_| has_token);
    mounts.extend(token.map(|path| PodMount { path, kind: MountKind::Directory, is_writable: false }));
    mounts.sort();
    mounts.dedup_by(|one, other| one.path == other.path);
    Ok(mounts)
}

/// What a volume is where it is mounted, and whether it can be written.
fn volume_kind(tree: &ManifestTree, volume: TreeNodeId, mount: TreeNodeId) -> (MountKind, bool) {
    let has = |key: &str| tree.get(volume, key).is_some();
    let is_part =
        ["subPath", "subPathExpr"].iter().any(|key| tree.text_at(mount, key).is_some_and(|path| !path.is_empty()));
    if ["configMap", "secret", "projected", "downwardAPI", "image"].into_iter().any(has) {
        return (if is_part { MountKind::File } else { MountKind::Directory }, false);
    }
    let host = tree.path(volume, &["hostPath", "type"]).and_then(|kind| tree.text(kind));
    match host {
        Some("File" | "FileOrCreate" | "Socket" | "CharDevice" | "BlockDevice") if !is_part => (MountKind::File, true),
        _ => (MountKind::Directory, true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "apiVersion: v1
kind: Pod
metadata: {name: api}
spec:
  securityContext: {runAsUser: 5, runAsGroup: 6, supplementalGroups: [7, 8], fsGroup: 9, runAsNonRoot: true}
  initContainers:
  - {name: setup, image: i, command: [/setup]}
  containers:
  - name: api
    image: i
    command: [/go-runner, --log-file=$(LOG)]
    args: ['/api', '--node=$(NODE)']
    workingDir: /srv
    env:
    - {name: NAME, value: api}
    - {name: LOG, value: /var/log/$(NAME).log}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: BOTH, value: $(NODE)-$(NAME)}
    securityContext: {runAsUser: 0, readOnlyRootFilesystem: true}
    volumeMounts:
    - {name: log, mountPath: /var/log/api.log}
    - {name: etc, mountPath: /etc/api/conf, subPath: conf}
    - {name: host, mountPath: /data, readOnly: true}
    - {name: later, mountPath: /later}
  volumes:
  - {name: log, hostPath: {path: /var/log/api.log, type: FileOrCreate}}
  - {name: etc, configMap: {name: api}}
  - {name: host, hostPath: {path: /data}}
";

    #[test]
    fn a_container_is_read_with_its_pod() {
        let pod = pod_container(POD, "f.yaml", "api").unwrap();
        assert_eq!((pod.place.as_str(), pod.file.as_str()), ("container api of Pod/api", "f.yaml"));
        let expanded = pod.expanded(Some([pod.command.clone(), pod.args.clone()].concat())).unwrap();
        assert_eq!(expanded.join(" "), "/go-runner --log-file=/var/log/api.log /api --node=$(NODE)");
        let values: Vec<(&str, Option<&str>)> =
            pod.variables.iter().map(|one| (one.name.as_str(), one.value.as_deref())).collect();
        let expected = [("NAME", Some("api")), ("LOG", Some("/var/log/api.log")), ("NODE", None), ("BOTH", None)];
        assert_eq!(values, expected);
        assert_eq!(pod.user, PodUser { uid: Some(0), gid: Some(6), must_not_be_root: true });
        assert_eq!(pod.surroundings.groups, [7, 8, 9]);
        assert!(pod.surroundings.has_read_only_root);
        let mount = |path: &str| {
            let found = pod.surroundings.mount_of(&RootPath::new(path).unwrap());
            found.map(|mount| (mount.kind, mount.is_writable))
        };
        for (path, expected) in [
            ("/var/log/api.log", Some((MountKind::File, true))),
            ("/var/log/other.log", None),
            ("/etc/api/conf", Some((MountKind::File, false))),
            ("/data/x", Some((MountKind::Directory, false))),
            ("/later/x", Some((MountKind::Directory, true))),
            ("/var/run/secrets/kubernetes.io/serviceaccount/token", Some((MountKind::Directory, false))),
        ] {
            assert_eq!(mount(path), expected, "{path}");
        }
        assert_eq!(pod_container(POD, "f.yaml", "setup").unwrap().user.uid, Some(5));
    }

    #[test]
    fn a_name_that_means_several_containers_or_none_is_an_error_with_the_candidates() {
        let two = format!("{POD}---\n{}", POD.replace("{name: api}\n", "{name: other}\n"));
        let error = pod_container(&two, "f.yaml", "api").unwrap_err().to_string();
        assert!(error.contains("Pod/api/api, Pod/other/api") && error.contains("f.yaml#Pod/api/api"), "{error}");
        assert_eq!(pod_container(&two, "f.yaml", "Pod/other/api").unwrap().place, "container api of Pod/other");
        let error = pod_container(POD, "f.yaml", "none").unwrap_err().to_string();
        assert!(error.contains("Pod/api/setup, Pod/api/api"), "{error}");
        for bad in [
            POD.replace("runAsGroup: 6", "runAsGroup: six"),
            POD.replace("[/go-runner,", "[7,"),
            POD.replace("mountPath: /later", "mountPath: /../x"),
            "{{ if .Values.x }}\nkind: Pod\n{{ end }}\n".to_owned(),
        ] {
            assert!(pod_container(&bad, "f.yaml", "api").is_err(), "{bad}");
        }
    }
}
