//! `CycloneDX` 1.6 as JSON (<https://cyclonedx.org/docs/1.6/json/>).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Component, ComponentKind, Sbom};
use oci::Digest;

pub(super) fn document(sbom: &Sbom) -> Value {
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": serial_number(&sbom.digest),
        "version": 1,
        "metadata": {
            "timestamp": sbom.created,
            "tools": {"components": [{"type": "application", "name": "underpin", "version": env!("CARGO_PKG_VERSION")}]},
            "component": image(sbom),
        },
        "components": sbom.components.iter().map(component).collect::<Vec<_>>(),
        "dependencies": dependencies(sbom),
    })
}

/// Where a document names the tool that made it.
const TOOL: &str = "/metadata/tools/components/0";

pub(super) fn is_ours(document: &Value) -> bool {
    document.pointer(TOOL).and_then(|tool| tool.get("name")).is_some_and(|name| name == "underpin")
}

pub(super) fn without_tool(mut document: Value) -> Value {
    if let Some(tool) = document.pointer_mut(TOOL).and_then(Value::as_object_mut) {
        tool.shift_remove("version");
    }
    document
}

/// A UUID of the version that is for names of one's own making (RFC 9562, version 8), made of the digest.
fn serial_number(digest: &Digest) -> String {
    let hex = Digest::of(format!("cyclonedx {digest}").as_bytes()).hex();
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default().to_owned();
    format!("urn:uuid:{}-{}-8{}-8{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}

fn image(sbom: &Sbom) -> Value {
    let mut properties = vec![property("platform", &sbom.platform.to_string())];
    if sbom.files_left_out > 0 {
        properties.push(property("comment", &sbom.left_out_comment()));
    }
    json!({
        "bom-ref": reference(sbom),
        "type": "container",
        "name": sbom.name,
        "version": sbom.digest.to_string(),
        "hashes": [hash(sbom.digest)],
        "purl": sbom.image_purl(),
        "properties": properties,
    })
}

fn reference(sbom: &Sbom) -> String {
    format!("image-{}", sbom.digest.hex())
}

fn property(name: &str, value: &str) -> Value {
    json!({"name": format!("underpin:{name}"), "value": value})
}

fn hash(digest: Digest) -> Value {
    json!({"alg": "SHA-256", "content": digest.hex()})
}

fn component(of: &Component) -> Value {
    let mut component: Map<String, Value> = Map::new();
    let mut put = |key: &str, value: Value| component.insert(key.to_owned(), value);
    put("bom-ref", of.id.as_str().into());
    put("type", if of.kind == ComponentKind::File { "file" } else { "library" }.into());
    put("name", of.name.as_str().into());
    if !of.version.is_empty() {
        put("version", of.version.as_str().into());
    }
    if let Some(digest) = of.sha256 {
        put("hashes", json!([hash(digest)]));
    }
    if let Some(licence) = &of.licence {
        put("licenses", json!([{"expression": licence.expression}]));
    }
    if let Some(purl) = &of.purl {
        put("purl", purl.as_str().into());
    }
    if let Some((name, version)) = &of.built_from {
        put("properties", json!([property("source-package", name), property("source-version", version)]));
    }
    Value::Object(component)
}

/// What each component directly consists of or depends on.
fn dependencies(sbom: &Sbom) -> Vec<Value> {
    let mut needs: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (one, other) in sbom.contains.iter().chain(&sbom.depends) {
        needs.entry(*one).or_default().push(*other);
    }
    let name = |at: &usize| sbom.components.get(*at).map(|component| component.id.clone()).unwrap_or_default();
    let top: Vec<String> = sbom.top_level().map(|(_, component)| component.id.clone()).collect();
    let image = json!({"ref": reference(sbom), "dependsOn": top});
    let others = needs.iter_mut().map(|(at, on)| {
        on.sort_unstable();
        on.dedup();
        json!({"ref": name(at), "dependsOn": on.iter().map(name).collect::<Vec<_>>()})
    });
    [image].into_iter().chain(others).collect()
}
