//! The ladder itself: one function per rung, tried in order.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::content::{self, Content};
use super::{Clue, Lookup, OldBase, OldBaseChoice, Rung, Sureness, clues, history};
use crate::process::Command;
use oci::error::{Error, Kind, Result};
use oci::{Digest, Image, Location, Reference, RepositoryName};

/// An image that the run itself names, such as the new base, to be compared by diff ids.
pub struct Known<'a> {
    pub location: &'a Location,
    pub image: &'a Image,
}

/// What a rung found.
enum Answer {
    Found(Box<OldBase>),
    Nothing,
    /// The image names bases that are not its base, or that cannot be had.
    PassedOver(Vec<PassedOver>),
    /// What was seen does not hold.
    Doubted(String),
}

/// A name that led nowhere, and why.
struct PassedOver {
    references: Vec<Reference>,
    why: String,
}

impl Answer {
    fn found(old_base: OldBase) -> Self {
        Self::Found(Box::new(old_base))
    }
}

/// Finds the old base of `source`: as `choice` names it, else by the ladder. `index_annotations` are
/// those of the index it came from.
pub fn find(
    source: &Image,
    index_annotations: &Map<String, Value>,
    choice: Option<&OldBaseChoice>,
    known: &[Known<'_>],
    lookup: &dyn Lookup,
) -> Result<OldBase> {
    let found = match choice {
        Some(OldBaseChoice::Scratch) => Ok(OldBase::layers(Rung::Flag, Sureness::Given, 0)),
        Some(OldBaseChoice::Layers(layers)) => by_count(source, *layers),
        Some(OldBaseChoice::Image(location)) => by_name(source, location, lookup),
        Some(OldBaseChoice::Digest(digest)) => by_digest(source, index_annotations, *digest, known, lookup),
        None => climb(source, index_annotations, known, lookup),
    }?;
    let inherited = if found.image.is_none() { history::inherited(&source.config, found.layers) } else { Map::new() };
    Ok(OldBase { inherited, ..found })
}

/// Tries rung after rung.
fn climb(
    source: &Image,
    index_annotations: &Map<String, Value>,
    known: &[Known<'_>],
    lookup: &dyn Lookup,
) -> Result<OldBase> {
    let NamedBase { found, warnings } = find_named(source, index_annotations, known, lookup)?;
    if let Some(found) = found {
        return Ok(found);
    }
    match by_history(source, lookup)? {
        Answer::Found(found) => Ok(OldBase { warnings, ..*found }),
        Answer::Doubted(why) => Ok(OldBase { warnings, notes: vec![why], ..by_content(source, lookup)? }),
        Answer::Nothing | Answer::PassedOver(_) => Ok(OldBase { warnings, ..by_content(source, lookup)? }),
    }
}

/// What the names in an image and in the run lead to.
#[derive(Debug)]
pub struct NamedBase {
    /// The base under the image; `None` where no name leads to it.
    pub found: Option<OldBase>,
    /// Names that were passed over, one line each.
    pub warnings: Vec<String>,
}

/// The part of the ladder that needs no layer: the first name that leads to an image under the source.
pub fn find_named(
    source: &Image,
    index_annotations: &Map<String, Value>,
    known: &[Known<'_>],
    lookup: &dyn Lookup,
) -> Result<NamedBase> {
    let rungs: [&dyn Fn() -> Result<Answer>; 7] = [
        &|| named(source, Rung::Annotation, Clue::from_annotations(&source.manifest.annotations), lookup),
        &|| named(source, Rung::Annotation, Clue::from_annotations(index_annotations), lookup),
        &|| named(source, Rung::Label, label_clue(source), lookup),
        &|| run_image(source, lookup),
        &|| materials(source, lookup),
        &|| any_named(source, Rung::History, &history::names(&source.config), lookup),
        &|| Ok(among_known(source, known)),
    ];
    let (mut warnings, mut tried) = (Vec::new(), HashSet::new());
    for rung in rungs {
        match rung()? {
            Answer::Found(found) => {
                let found = OldBase { warnings: warnings.clone(), ..*found };
                return Ok(NamedBase { found: Some(found), warnings });
            }
            // Only what nobody named is doubted.
            Answer::Nothing | Answer::Doubted(_) => {}
            // An annotation and the history often name the same image: that is said once.
            Answer::PassedOver(names) => {
                for PassedOver { references, why } in names {
                    let is_new = references.into_iter().fold(false, |is_new, name| tried.insert(name) | is_new);
                    warnings.extend(is_new.then_some(why));
                }
            }
        }
    }
    Ok(NamedBase { found: None, warnings })
}

fn by_count(source: &Image, layers: usize) -> Result<OldBase> {
    if layers > source.layers.len() {
        return Err(Error::usage("--old-base names more layers than the image has")
            .fact("old base", format!("layers:{layers}"))
            .fact("image", source.digest())
            .fact("layers", source.layers.len())
            .hint(
                "`underpin inspect IMAGE` lists the layers: pass --old-base layers:N with as many as are the base's",
            ));
    }
    Ok(OldBase::layers(Rung::Flag, Sureness::Given, layers))
}

fn by_name(source: &Image, location: &Location, lookup: &dyn Lookup) -> Result<OldBase> {
    let Some(image) = lookup.image(location).map_err(|error| without_old_base(error, location))? else {
        return Err(Error::input("the old base has no image for this platform")
            .fact("old base", location)
            .fact("platform", source.config.platform())
            .hint(OTHER_OLD_BASE));
    };
    if !image.is_under(source) {
        return Err(not_built_on(source, location, &image));
    }
    Ok(OldBase::image(Rung::Flag, location, image))
}

/// What works where the base that was named does not: an image that names no base at all can still move.
const OTHER_OLD_BASE: &str =
    "pass --old-base with the image it was built on, or leave --old-base out: underpin looks for it";

/// An old base that is not there, or that nobody answers for, need not stop the move: the error says so.
#[must_use]
pub fn without_old_base(error: Error, location: &Location) -> Error {
    match error.kind() {
        Kind::Missing | Kind::Network | Kind::Io | Kind::Auth => error.fact("old base", location).hint(OTHER_OLD_BASE),
        _ => error,
    }
}

/// The base that a result records, without saying where it was read: what the run names is compared first, then the
/// local store, then the repositories that the run and the image name.
fn by_digest(
    source: &Image,
    index_annotations: &Map<String, Value>,
    digest: Digest,
    known: &[Known<'_>],
    lookup: &dyn Lookup,
) -> Result<OldBase> {
    let fits = |image: &Image| image.digest() == digest && image.is_under(source);
    if let Some(known) = known.iter().find(|known| fits(known.image)) {
        return Ok(OldBase::image(Rung::Flag, known.location, known.image.clone()));
    }
    if let Some(image) = lookup.stored(digest).filter(fits) {
        return Ok(OldBase::image(Rung::Flag, &Location::Cache(digest), image));
    }
    let mut looked_for: Vec<String> = Vec::new();
    // What the user named is read wherever it is; that it has other images is no fault.
    for place in known.iter().map(|known| known.location.with_digest(digest)) {
        if let Some(image) = lookup.image(&place).ok().flatten().filter(fits) {
            return Ok(OldBase::image(Rung::Flag, &place, image));
        }
        looked_for.push(place.to_string());
    }
    for name in named_repositories(source, index_annotations, lookup)? {
        let name = Reference::by_digest(name, digest);
        if looked_for.len() >= MOST_MATERIALS || looked_for.contains(&name.to_string()) {
            continue;
        }
        if let Some(image) = lookup.clue(&name)?.ok().filter(fits) {
            return Ok(OldBase::image(Rung::Flag, &Location::Registry(name), image));
        }
        looked_for.push(name.to_string());
    }
    Err(Error::missing("the old base cannot be found by its digest")
        .fact("digest", digest)
        .fact("looked for", looked_for.join(", "))
        .hint("name a place that has it: --old-base REF"))
}

/// Wherever the image says that a base of it could be.
fn named_repositories(
    source: &Image,
    index_annotations: &Map<String, Value>,
    lookup: &dyn Lookup,
) -> Result<Vec<RepositoryName>> {
    let annotations = [&source.manifest.annotations, index_annotations];
    let clues = annotations.into_iter().filter_map(Clue::from_annotations).chain(label_clue(source));
    let run_image = clues::buildpacks_run_image(&source.config).and_then(|run_image| run_image.clue);
    let statements = lookup.statements()?;
    let materials = statements.iter().flat_map(clues::materials).take(MOST_MATERIALS);
    let clues = clues.chain(run_image).chain(materials).chain(history::names(&source.config));
    Ok(clues.flat_map(|clue| clue.references).map(|reference| reference.name().clone()).collect())
}

/// A name in the image only says where to look: it counts where the layers agree.
fn named(source: &Image, rung: Rung, clue: Option<Clue>, lookup: &dyn Lookup) -> Result<Answer> {
    any_named(source, rung, &Vec::from_iter(clue), lookup)
}

/// The first of several names that leads to an image under the source.
fn any_named(source: &Image, rung: Rung, clues: &[Clue], lookup: &dyn Lookup) -> Result<Answer> {
    let mut passed_over = Vec::new();
    for clue in clues {
        let mut why = Vec::new();
        for name in &clue.references {
            match lookup.clue(name)? {
                Ok(image) if image.is_under(source) && !image.layers.is_empty() => {
                    return Ok(Answer::found(OldBase::image(rung, &Location::Registry(name.clone()), image)));
                }
                Ok(image) => why.push(format!("{name}, which {}", differs(source, &image))),
                Err(lost) => why.push(format!("{name}, which {lost}")),
            }
        }
        let why = format!("the {rung} names {}", why.join("; and "));
        passed_over.push(PassedOver { references: clue.references.clone(), why });
    }
    Ok(if passed_over.is_empty() { Answer::Nothing } else { Answer::PassedOver(passed_over) })
}

fn differs(source: &Image, base: &Image) -> String {
    let at = same_layers(source, base) + 1;
    format!("is not under the image: it differs at layer {at} of {}", base.layers.len().max(1))
}

fn same_layers(source: &Image, base: &Image) -> usize {
    source.diff_ids().iter().zip(base.diff_ids()).take_while(|(ours, theirs)| ours == theirs).count()
}

fn not_built_on(source: &Image, location: &Location, base: &Image) -> Error {
    let same = same_layers(source, base);
    Error::input("image is not built on the base that --old-base names")
        .fact("image", source.digest())
        .fact("old base", location.pinned(base.digest()))
        .fact("differs at", format!("layer {} of {}", same + 1, base.layers.len().max(1)))
        .hint("pass --old-base with the digest it was built from, or leave --old-base out: underpin looks for it")
        .hint("or say how many layers are the base's with --old-base layers:N: `underpin inspect IMAGE` lists them")
}

fn label_clue(source: &Image) -> Option<Clue> {
    let container = source.config.container();
    Clue::from_annotations(container.get("Labels")?.as_object()?)
}

fn run_image(source: &Image, lookup: &dyn Lookup) -> Result<Answer> {
    let Some(run_image) = clues::buildpacks_run_image(&source.config) else { return Ok(Answer::Nothing) };
    for name in run_image.clue.iter().flat_map(|clue| &clue.references) {
        match lookup.clue(name)? {
            Ok(image) if image.is_under(source) && image.layers.len() == run_image.layers => {
                return Ok(Answer::found(OldBase::image(Rung::Label, &Location::Registry(name.clone()), image)));
            }
            _ => {}
        }
    }
    Ok(Answer::found(OldBase::layers(Rung::Label, Sureness::Proven, run_image.layers)))
}

/// Materials that are followed; a statement can hold thousands.
const MOST_MATERIALS: usize = 64;

/// Builder images are materials too; the one that lies under the image with most layers is the base. So
/// one that does not fit says nothing, but one that cannot be had might have been the base.
fn materials(source: &Image, lookup: &dyn Lookup) -> Result<Answer> {
    let statements = lookup.statements()?;
    let (mut best, mut lost): (Option<OldBase>, Vec<PassedOver>) = (None, Vec::new());
    for clue in statements.iter().flat_map(clues::materials).take(MOST_MATERIALS) {
        let Some(name) = clue.references.first() else { continue };
        let image = match lookup.clue(name)? {
            Ok(image) => image,
            Err(why) => {
                let why = format!("the provenance names {name}, which {why}");
                lost.push(PassedOver { references: vec![name.clone()], why });
                continue;
            }
        };
        let longer = best.as_ref().is_none_or(|best| image.layers.len() > best.layers);
        if image.is_under(source) && !image.layers.is_empty() && longer {
            best = Some(OldBase::image(Rung::Provenance, &Location::Registry(name.clone()), image));
        }
    }
    Ok(best.map_or(Answer::PassedOver(lost), Answer::found))
}

fn among_known(source: &Image, known: &[Known<'_>]) -> Answer {
    let fits = known.iter().filter(|known| known.image.is_under(source) && !known.image.layers.is_empty());
    match fits.max_by_key(|known| known.image.layers.len()) {
        Some(known) => Answer::found(OldBase::image(Rung::Known, known.location, known.image.clone())),
        None => Answer::Nothing,
    }
}

/// The seam of the history counts only when the program is above it.
fn by_history(source: &Image, lookup: &dyn Lookup) -> Result<Answer> {
    let Some(seam) = history::seam(&source.config) else { return Ok(Answer::Nothing) };
    let command = Command::of(&source.config);
    let program = command.program().filter(|_| !command.starts_shell());
    let Some(program) = program else {
        return Ok(Answer::found(OldBase::layers(Rung::History, Sureness::Likely, seam)));
    };
    for at in seam..source.layers.len() {
        if content::holds(lookup.layer(at)?.as_ref(), &program) {
            return Ok(Answer::found(OldBase::layers(Rung::History, Sureness::Likely, seam)));
        }
    }
    Ok(Answer::Doubted(format!("history ends the base at layer {seam}, but {program} is not above it")))
}

fn by_content(source: &Image, lookup: &dyn Lookup) -> Result<OldBase> {
    let command = Command::of(&source.config);
    let program = command.program().filter(|_| !command.starts_shell());
    let content = content::read(source.layers.len(), program.as_deref(), |at| lookup.layer(at))?;
    Ok(match content {
        Content::System(layers) => OldBase::layers(Rung::Content, Sureness::Likely, layers),
        Content::Squashed => OldBase::layers(Rung::Content, Sureness::Unknown, 0),
        Content::NoSystem => OldBase::layers(Rung::Scratch, Sureness::Likely, 0),
    })
}
