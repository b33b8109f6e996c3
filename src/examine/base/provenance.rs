//! `BuildKit` provenance: the images that went into a build, one of which may be the old base.

use serde_json::Value;

use super::clue::Clue;
use super::purl;

/// The images named as materials of an in-toto statement with SLSA provenance 0.2 or 1.
pub(super) fn clues(statement: &Value) -> Vec<Clue> {
    let lists = ["/predicate/materials", "/predicate/buildDefinition/resolvedDependencies"];
    let lists = lists.iter().filter_map(|path| statement.pointer(path)?.as_array());
    lists.flatten().filter_map(clue).collect()
}

fn clue(material: &Value) -> Option<Clue> {
    let text = |path: &str| material.pointer(path)?.as_str();
    let purl = purl::read(text("/uri")?)?;
    let digest = text("/digest/sha256").map(|hex| format!("sha256:{hex}")).or(purl.digest);
    Clue::new(&purl.name, digest.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn both_versions_of_the_predicate_are_read() {
        let material =
            serde_json::json!({"uri": "pkg:docker/debian@12?platform=linux%2Famd64", "digest": {"sha256": HEX}});
        let git = serde_json::json!({"uri": "https://github.com/a/b", "digest": {"sha1": "00"}});
        for statement in [
            serde_json::json!({"predicate": {"materials": [git.clone(), material.clone()]}}),
            serde_json::json!({"predicate": {"buildDefinition": {"resolvedDependencies": [material]}}}),
        ] {
            let clues = clues(&statement);
            assert_eq!(clues.len(), 1);
            assert_eq!(clues[0].locations[0].to_string(), format!("docker.io/library/debian:12@sha256:{HEX}"));
        }
    }

    #[test]
    fn a_statement_of_another_shape_has_no_clues() {
        for statement in
            [Value::Null, serde_json::json!({"predicate": {"materials": {"uri": 1}}}), serde_json::json!([1])]
        {
            assert!(clues(&statement).is_empty());
        }
    }
}
