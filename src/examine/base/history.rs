//! Where the base's entries visibly end in an image's history.
//!
//! History is what builders happened to write down. It answers only where it fits the layers
//! exactly, and the answer is never more than likely.

use crate::oci::HistoryEntry;

/// The number of layers below the seam, or `None` where no seam can be seen.
pub(super) fn seam(history: &[HistoryEntry], layers: usize) -> Option<usize> {
    let fits = history.iter().filter(|entry| !entry.is_empty_layer()).count() == layers;
    if !fits {
        return None;
    }
    let end = bazel_end(history).or_else(|| command_end(history)).or_else(|| root_end(history))?;
    let (below, above) = history.split_at_checked(end)?;
    let count = |entries: &[HistoryEntry]| entries.iter().filter(|entry| !entry.is_empty_layer()).count();
    (count(below) > 0 && count(above) > 0).then(|| count(below))
}

/// Distroless images are a run of `bazel build` entries; whatever follows was built on them.
fn bazel_end(history: &[HistoryEntry]) -> Option<usize> {
    let run = history.iter().take_while(|entry| entry.created_by().starts_with("bazel build")).count();
    (run > 0).then_some(run)
}

/// A base image closes with its own CMD or ENTRYPOINT. The last such line that is followed by more
/// layers is where the image's own build began.
fn command_end(history: &[HistoryEntry]) -> Option<usize> {
    let last_layer = history.iter().rposition(|entry| !entry.is_empty_layer())?;
    let at = history.get(..last_layer)?.iter().rposition(sets_the_command)?;
    Some(at + 1)
}

fn sets_the_command(entry: &HistoryEntry) -> bool {
    let line = entry.created_by();
    let line = line.strip_prefix("/bin/sh -c #(nop)").unwrap_or(line).trim_start();
    entry.is_empty_layer() && (line.starts_with("CMD ") || line.starts_with("ENTRYPOINT "))
}

/// The root file system of a distribution is one entry that adds a whole archive at `/`.
fn root_end(history: &[HistoryEntry]) -> Option<usize> {
    let first = history.first()?.created_by();
    let line = first.strip_prefix("/bin/sh -c #(nop)").unwrap_or(first).trim();
    let adds_a_root = line.starts_with("ADD ") && (line.ends_with(" in /") || line.contains(" / # buildkit"));
    let built_by_debian = line.starts_with("# debian.sh");
    (adds_a_root || built_by_debian).then_some(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(lines: &[(&str, bool)]) -> Vec<HistoryEntry> {
        let entry = |(line, empty): &(&str, bool)| {
            let value = serde_json::json!({"created_by": line, "empty_layer": empty});
            HistoryEntry(value.as_object().cloned().unwrap())
        };
        lines.iter().map(entry).collect()
    }

    #[test]
    fn sees_the_seam_where_builders_leave_one() {
        let debian = ("/bin/sh -c #(nop) ADD file:abc in / ", false);
        let bash = ("/bin/sh -c #(nop)  CMD [\"bash\"]", true);
        let copy = ("COPY app /app # buildkit", false);
        let start = ("ENTRYPOINT [\"/app\"]", true);
        for (lines, layers, expected) in [
            (vec![debian, bash, copy, start], 2, Some(1)),
            (vec![debian, bash, ("RUN apt-get install x", false), copy, start], 3, Some(1)),
            (vec![debian, copy, start], 2, Some(1)),
            (vec![("# debian.sh --arch 'amd64' out/ 'bookworm'", false), copy, start], 2, Some(1)),
            (vec![("bazel build @a", false), ("bazel build @b", false), copy, start], 3, Some(2)),
            (vec![copy, start], 1, None),
            (vec![debian, bash], 1, None),
            (vec![debian, bash, copy, start], 3, None),
            (vec![], 0, None),
        ] {
            assert_eq!(seam(&history(&lines), layers), expected, "{lines:?}");
        }
    }

    #[test]
    fn files_added_below_the_root_are_not_a_base() {
        let lines = [("/bin/sh -c #(nop) ADD file:abc in /usr/local/bin/app ", false), ("COPY conf /etc/conf", false)];
        assert_eq!(seam(&history(&lines), 2), None);
    }
}
