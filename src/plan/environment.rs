//! Environment variables, merged entry by entry.

/// The environment of the result: the new base's entries first, as if the image had been built on
/// it, then what the source set itself. An entry that the source inherited from its old base
/// gives way to the new base's.
pub(super) fn merge(old: &[String], source: &[String], new: &[String]) -> Vec<String> {
    let own: Vec<String> = source.iter().filter(|entry| !old.contains(entry)).cloned().collect();
    let removed = |entry: &str| is_set(old, entry) && !is_set(source, entry);
    let mut out: Vec<String> = Vec::new();
    for entry in new.iter().filter(|entry| !removed(entry)) {
        if !is_set(&own, entry) {
            out.push(entry.clone());
        } else if !is_set(&out, entry) {
            // A variable that the source changes keeps the place that the new base gives it.
            out.extend(own.iter().filter(|own| name(own) == name(entry)).cloned());
        }
    }
    let placed = out.clone();
    out.extend(own.into_iter().filter(|own| !is_set(&placed, own)));
    out
}

fn name(entry: &str) -> &str {
    entry.split('=').next().unwrap_or_default()
}

fn is_set(environment: &[String], entry: &str) -> bool {
    environment.iter().any(|other| name(other) == name(entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_merges_entry_by_entry() {
        for (why, old, source, new, expected) in [
            ("inherited gives way", &["PATH=/old"][..], &["PATH=/old"][..], &["PATH=/new"][..], &["PATH=/new"][..]),
            ("own value stays", &["PATH=/old"], &["PATH=/app:/old"], &["PATH=/new"], &["PATH=/app:/old"]),
            (
                "own value keeps the base's place",
                &[],
                &["A=1", "PATH=/app"],
                &["PATH=/new", "B=2"],
                &["PATH=/app", "B=2", "A=1"],
            ),
            ("inherited and unknown to the new base goes", &["GONE=1"], &["GONE=1", "A=1"], &[], &["A=1"]),
            ("new base adds", &[], &["A=1"], &["SSL_CERT_FILE=/x"], &["SSL_CERT_FILE=/x", "A=1"]),
            ("removed stays removed", &["X=1"], &[], &["X=2"], &[]),
            ("odd entries are carried", &[], &["*", "NAME", "", "A=1", "A=2"], &[], &["*", "NAME", "", "A=1", "A=2"]),
            ("both values of a doubled name stay in order", &[], &["A=1", "A=2"], &["A=0"], &["A=1", "A=2"]),
        ] {
            let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
            assert_eq!(merge(&words(old), &words(source), &words(new)), words(expected), "{why}");
        }
    }
}
