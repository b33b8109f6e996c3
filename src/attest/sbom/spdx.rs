//! SPDX 2.3 as JSON (<https://spdx.github.io/spdx-spec/v2.3/>).
//!
//! Files of the application are packages with the purpose `FILE` and a SHA-256: a `file` of SPDX must have a SHA-1.

use serde_json::{Map, Value, json};

use super::{Component, ComponentKind, Sbom};

const IMAGE: &str = "SPDXRef-Image";
const TOOL: &str = concat!("Tool: underpin-", env!("CARGO_PKG_VERSION"));
const ANY_VERSION: &str = "Tool: underpin-";

fn is_tool(creator: &Value) -> bool {
    creator.as_str().is_some_and(|creator| creator.starts_with(ANY_VERSION))
}

pub(super) fn is_ours(document: &Value) -> bool {
    let creators = document.pointer("/creationInfo/creators").and_then(Value::as_array);
    creators.is_some_and(|creators| creators.iter().any(is_tool))
}

pub(super) fn without_tool(mut document: Value) -> Value {
    if let Some(creators) = document.pointer_mut("/creationInfo/creators").and_then(Value::as_array_mut) {
        creators.retain(|creator| !is_tool(creator));
    }
    document
}

pub(super) fn document(sbom: &Sbom) -> Value {
    let hex = sbom.digest.hex();
    let mut packages = vec![image(sbom)];
    packages.extend(sbom.components.iter().map(package));
    let mut document = json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": format!("{}-{hex}", sbom.name),
        "documentNamespace": format!("https://underpin.dev/spdx/sha256/{hex}"),
        "creationInfo": {"created": sbom.created, "creators": [TOOL]},
        "documentDescribes": [IMAGE],
        "packages": packages,
        "relationships": relationships(sbom),
    });
    let licences = licences(sbom);
    if let Some(object) = document.as_object_mut().filter(|_| !licences.is_empty()) {
        object.insert("hasExtractedLicensingInfos".to_owned(), Value::Array(licences));
    }
    if let (Some(object), 1..) = (document.as_object_mut(), sbom.files_left_out) {
        object.insert("comment".to_owned(), sbom.left_out_comment().into());
    }
    document
}

fn image(sbom: &Sbom) -> Value {
    json!({
        "SPDXID": IMAGE,
        "name": sbom.name,
        "versionInfo": sbom.digest.to_string(),
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false,
        "primaryPackagePurpose": "CONTAINER",
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "checksums": [checksum(sbom.digest)],
        "externalRefs": [external(&sbom.image_purl())],
    })
}

fn package(component: &Component) -> Value {
    let licence = component.licence.as_ref().map_or("NOASSERTION", |licence| licence.expression.as_str());
    let mut package: Map<String, Value> = Map::new();
    let mut put = |key: &str, value: Value| package.insert(key.to_owned(), value);
    put("SPDXID", id(component).into());
    put("name", component.name.as_str().into());
    if !component.version.is_empty() {
        put("versionInfo", component.version.as_str().into());
    }
    if component.kind == ComponentKind::File {
        put("packageFileName", component.name.as_str().into());
        put("primaryPackagePurpose", "FILE".into());
    }
    put("downloadLocation", "NOASSERTION".into());
    put("filesAnalyzed", false.into());
    if let Some((name, version)) = &component.built_from {
        put("sourceInfo", format!("built package from: {name} {version}").into());
    }
    put("licenseConcluded", "NOASSERTION".into());
    put("licenseDeclared", licence.into());
    put("copyrightText", "NOASSERTION".into());
    if let Some(digest) = component.sha256 {
        put("checksums", json!([checksum(digest)]));
    }
    if let Some(purl) = &component.purl {
        put("externalRefs", json!([external(purl)]));
    }
    Value::Object(package)
}

fn id(component: &Component) -> String {
    format!("SPDXRef-{}", component.id)
}

fn checksum(digest: oci::Digest) -> Value {
    json!({"algorithm": "SHA256", "checksumValue": digest.hex()})
}

fn external(purl: &str) -> Value {
    json!({"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl})
}

/// The image contains packages and files; programs contain modules and crates.
fn relationships(sbom: &Sbom) -> Vec<Value> {
    let relation = |from: &str, kind: &str, to: &str| json!({"spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to});
    let name = |at: &usize| sbom.components.get(*at).map(id).unwrap_or_default();
    let describes = relation("SPDXRef-DOCUMENT", "DESCRIBES", IMAGE);
    let top = sbom.top_level().map(|(_, component)| relation(IMAGE, "CONTAINS", &id(component)));
    let contains = sbom.contains.iter().map(|(one, other)| relation(&name(one), "CONTAINS", &name(other)));
    let depends = sbom.depends.iter().map(|(one, other)| relation(&name(one), "DEPENDS_ON", &name(other)));
    [describes].into_iter().chain(top).chain(contains).chain(depends).collect()
}

/// The texts of licences that are not on SPDX's list, each once.
fn licences(sbom: &Sbom) -> Vec<Value> {
    let all = sbom.components.iter().filter_map(|component| component.licence.as_ref());
    let all: std::collections::BTreeMap<&String, &String> = all.flat_map(|licence| &licence.references).collect();
    all.into_iter().map(|(id, text)| json!({"licenseId": id, "name": text, "extractedText": text})).collect()
}
