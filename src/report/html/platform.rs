//! One platform of an image on the page: its layers before and after to scale, and its command.

use std::fmt::Write as _;

use bytesize::ByteSize;

use super::super::markup::escaped;
use super::super::model::{Layer, Platform, Report};

/// From where to where.
pub(super) fn head(out: &mut String, report: &Report) {
    out.push_str("<table>\n<tbody>\n");
    let named = |reference: &str, digest: &str| format!("<code>{}@{}</code>", escaped(reference), escaped(digest));
    let _ =
        writeln!(out, "<tr><th>Source</th><td>{}</td></tr>", named(&report.source.reference, &report.source.digest));
    let _ = writeln!(out, "<tr><th>New base</th><td>{}</td></tr>", named(&report.base.reference, &report.base.digest));
    for target in &report.targets {
        let _ = writeln!(out, "<tr><th>Target</th><td>{}</td></tr>", named(&target.reference, &target.digest));
    }
    out.push_str("</tbody>\n</table>\n");
}

pub(super) fn section(out: &mut String, platform: &Platform) {
    if platform.old_base.is_none() {
        return;
    }
    let _ = writeln!(out, "<h3>{}</h3>", escaped(&platform.platform));
    bars(out, platform);
    commands(out, platform);
    layers(out, platform);
}

/// A layer as it is in one of the two images.
struct Piece<'a> {
    fate: &'a str,
    size: u64,
    title: String,
}

impl<'a> Piece<'a> {
    fn before(layer: &'a Layer) -> Option<Self> {
        match (layer.fate, &layer.source) {
            ("filtered", Some(source)) => Some(Self::new(layer, source.size)),
            ("stripped" | "kept" | "dropped", _) => Some(Self::new(layer, layer.size)),
            _ => None,
        }
    }

    fn after(layer: &'a Layer) -> Option<Self> {
        matches!(layer.fate, "base" | "kept" | "filtered" | "added").then(|| Self::new(layer, layer.size))
    }

    fn new(layer: &'a Layer, size: u64) -> Self {
        Self { fate: layer.fate, size, title: format!("{}, {}: {}", layer.fate, ByteSize(size), layer.why) }
    }
}

/// Both images on one scale: the wider one takes the whole width.
fn bars(out: &mut String, platform: &Platform) {
    let before: Vec<Piece<'_>> = platform.layers.iter().filter_map(Piece::before).collect();
    let after: Vec<Piece<'_>> = platform.layers.iter().filter_map(Piece::after).collect();
    let total = |pieces: &[Piece<'_>]| pieces.iter().fold(0_u64, |sum, piece| sum.saturating_add(piece.size));
    let whole = total(&before).max(total(&after)).max(1);
    for (name, pieces) in [("Before", &before), ("After", &after)] {
        let _ = write!(out, "<div class=\"row\"><b>{name}</b><div class=\"bar\">");
        for piece in pieces {
            let width = per_mille(piece.size, whole);
            let _ = write!(
                out,
                "<span class=\"{}\" style=\"width:{}.{}%\" title=\"{}\">{}</span>",
                piece.fate,
                width / 10,
                width % 10,
                escaped(&piece.title),
                // A word that does not fit is no word.
                if width >= 70 { piece.fate } else { "" }
            );
        }
        let _ = writeln!(out, "</div><span>{}</span></div>", ByteSize(total(pieces)));
    }
}

fn per_mille(part: u64, whole: u64) -> u128 {
    u128::from(part) * 1000 / u128::from(whole.max(1))
}

fn commands(out: &mut String, platform: &Platform) {
    let line = |entrypoint: &[String], cmd: &[String]| {
        let words: Vec<String> = entrypoint.iter().chain(cmd).map(|word| escaped(&format!("{word:?}"))).collect();
        if words.is_empty() { "none".to_owned() } else { format!("[{}]", words.join(", ")) }
    };
    let before = line(&platform.entrypoint.before, &platform.cmd.before);
    let after = line(&platform.entrypoint.after, &platform.cmd.after);
    out.push_str("<table>\n<tbody>\n");
    if before == after {
        let _ = writeln!(out, "<tr><th>Command</th><td><code>{before}</code></td></tr>");
    } else {
        let _ = writeln!(out, "<tr><th>Command before</th><td><code>{before}</code></td></tr>");
        let _ = writeln!(out, "<tr><th>Command after</th><td><code>{after}</code></td></tr>");
    }
    for binary in &platform.binaries {
        let (path, machine) = (escaped(&binary.path), escaped(&binary.machine));
        let _ = writeln!(out, "<tr><th>Program</th><td><code>{path}</code> {} {machine}</td></tr>", binary.linkage);
    }
    out.push_str("</tbody>\n</table>\n");
}

fn layers(out: &mut String, platform: &Platform) {
    out.push_str(
        "<table>\n<thead><tr><th>Layer</th><th>Fate</th><th class=\"n\">Size</th><th>Why</th></tr></thead>\n<tbody>\n",
    );
    for layer in &platform.layers {
        let short = layer.digest.get(..19).unwrap_or(&layer.digest);
        let _ = writeln!(
            out,
            "<tr><td><code>{}</code></td><td>{}</td><td class=\"n\">{}</td><td>{}</td></tr>",
            escaped(short),
            layer.fate,
            ByteSize(layer.size),
            escaped(&layer.why)
        );
    }
    out.push_str("</tbody>\n</table>\n");
}
