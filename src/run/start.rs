//! The stage between assembling and publishing, where a start was asked for: source and result are started alike and
//! compared. And one image by itself.

use std::collections::HashMap;
use std::sync::Arc;

use super::Judged;
use crate::assemble::{Assembled, BlobOrigin, NeededBlob};
use crate::examine::{FullPlatform, PlatformSubject};
use crate::plan::{BringScene, Pass, StartOptions};
use crate::process::Container;
use crate::report::StartReport;
use crate::rules::{Allow, Finding, apply_allowed};
use crate::sandbox::{Comparison, ImageRole, PlatformStart, Sandbox, SandboxImage, SandboxLayer, compare, judge_start};
use crate::settings::Job;
use crate::store::{LayerStore, Session};
use layer::{LayerIndex, Limits, scan};
use oci::error::{Error, Result};
use oci::{Descriptor, DiffId, Digest, Image, Location, Platform};

/// Starts source and result on every platform, and adds what that shows to the findings.
pub(super) fn start_both(
    session: &Session,
    job: &Job,
    (judged, assembled): (&mut Judged, &Assembled),
    options: &StartOptions,
) -> Result<()> {
    let store = LayerStore::new(&session.tools, &job.request(&judged.image.base.location))?;
    let mut sandbox = Sandbox::new(options)?;
    for pass in &mut judged.passes {
        let (start, mut findings) = start_pass(&mut sandbox, &store, pass, assembled, options)?;
        apply_allowed(&job.options.allow, &mut findings);
        pass.findings.extend(findings);
        judged.started.push(start);
    }
    for finding in needless(&job.options.allow, judged) {
        judged.add(&finding);
    }
    Ok(())
}

fn needless(allowed: &[Allow], judged: &Judged) -> Vec<Finding> {
    let is_used = |allow: &Allow| {
        let mut findings = judged.passes.iter().flat_map(|pass| &pass.findings);
        findings.any(|finding| finding.allowed_by.as_ref() == Some(allow))
    };
    let needless = allowed.iter().filter(|allow| allow.rule().is_of_start() && !is_used(allow));
    needless.map(super::needless_allowance).collect()
}

fn start_pass(
    sandbox: &mut Sandbox,
    store: &LayerStore<'_>,
    pass: &Pass,
    assembled: &Assembled,
    options: &StartOptions,
) -> Result<(PlatformStart, Vec<Finding>)> {
    let subject = &pass.subject;
    let indexes = indexes(subject);
    let before = source_layers(&subject.source, &indexes)?;
    let (after, blobs) = result_layers(pass, assembled, &indexes)?;
    let blob_of = |layer: &Descriptor| {
        let blob = blobs.get(&layer.digest);
        let inherited = NeededBlob { descriptor: layer.clone(), origin: BlobOrigin::Source };
        store.open(blob.copied().unwrap_or(&inherited))
    };
    let from_source =
        |layer: &Descriptor| store.open(&NeededBlob { descriptor: layer.clone(), origin: BlobOrigin::Source });
    let own = Container::of(&subject.source.config);
    let (container, rebased) = pass.pod.as_ref().map_or((&own, &pass.draft.container), |pod| (&pod.before, &pod.after));
    let source = sandbox.start(&SandboxImage {
        role: ImageRole::Source,
        platform: &subject.platform,
        container,
        layers: &before,
        open: &from_source,
    })?;
    let result = sandbox.start(&SandboxImage {
        role: ImageRole::Result,
        platform: &subject.platform,
        container: rebased,
        layers: &after,
        open: &blob_of,
    })?;
    let roots = pass.draft.layers.roots(subject);
    let scene = BringScene::new(&roots, &pass.draft.container, subject);
    let on = Comparison { options, source: roots.source(), result: &roots.rebased, scene: &scene };
    let findings = compare(&source, &result, &on);
    Ok((PlatformStart { platform: subject.platform.clone(), source: Some(source), image: result }, findings))
}

type Indexes<'a> = HashMap<DiffId, &'a Arc<LayerIndex>>;

/// Everything that was read, by the tar that it describes: a layer of the base may be compressed otherwise in the source.
fn indexes(subject: &PlatformSubject) -> Indexes<'_> {
    let all = subject.old_layers.iter().chain(&subject.layers).chain(&subject.base_layers);
    all.map(|index| (index.diff_id, index)).collect()
}

fn source_layers(image: &Image, indexes: &Indexes<'_>) -> Result<Vec<SandboxLayer>> {
    let layer = |layer: &oci::ImageLayer| {
        let index = indexes.get(&layer.diff_id).map(|index| Arc::clone(index)).ok_or_else(|| unread(layer.diff_id))?;
        Ok(SandboxLayer { descriptor: layer.descriptor.clone(), index })
    };
    image.layers.iter().map(layer).collect()
}

fn unread(diff_id: DiffId) -> Error {
    Error::input("a layer of the image was not read").fact("layer", diff_id)
}

type Blobs<'a> = HashMap<Digest, &'a NeededBlob>;

/// The layers of the result, and where their bytes are.
fn result_layers<'a>(
    pass: &Pass,
    assembled: &'a Assembled,
    indexes: &Indexes<'_>,
) -> Result<(Vec<SandboxLayer>, Blobs<'a>)> {
    let blobs: Blobs<'a> = assembled.blobs.iter().map(|blob| (blob.descriptor.digest, blob)).collect();
    let layers = pass.result.iter().flat_map(|result| &result.layers).filter(|layer| layer.planned.fate.is_in_result());
    let layers = layers.map(|layer| {
        let blob = blobs.get(&layer.digest).ok_or_else(|| unread(layer.diff_id))?;
        let index = match (indexes.get(&layer.diff_id), &blob.origin) {
            (Some(index), _) => Arc::clone(index),
            (None, BlobOrigin::Made(made)) => {
                Arc::new(scan(made.open(), &blob.descriptor, Some(&layer.diff_id), &Limits::default())?)
            }
            (None, _) => return Err(unread(layer.diff_id)),
        };
        Ok(SandboxLayer { descriptor: blob.descriptor.clone(), index })
    });
    Ok((layers.collect::<Result<_>>()?, blobs))
}

/// Starts one image by itself.
pub fn start(
    session: &Session,
    image: &Location,
    platforms: &[Platform],
    options: &StartOptions,
) -> Result<StartReport> {
    let fetcher = session.fetcher();
    let whole = fetcher.whole_of(image, platforms)?;
    let mut sandbox = Sandbox::new(options)?;
    let mut starts = Vec::new();
    for FullPlatform { platform, image: of, layers } in &whole.platforms {
        let layers = of.layers.iter().zip(layers);
        let layers: Vec<SandboxLayer> = layers
            .map(|(layer, index)| SandboxLayer { descriptor: layer.descriptor.clone(), index: Arc::clone(index) })
            .collect();
        let container = Container::of(&of.config);
        let open = |layer: &Descriptor| fetcher.layer_bytes(image, layer);
        let attempt = sandbox.start(&SandboxImage {
            role: ImageRole::Alone,
            platform,
            container: &container,
            layers: &layers,
            open: &open,
        })?;
        let findings = judge_start(&attempt, options);
        starts.push((PlatformStart { platform: platform.clone(), source: None, image: attempt }, findings));
    }
    Ok(StartReport::new(&whole.origin, &starts, options.seconds))
}
