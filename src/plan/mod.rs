//! Every decision of a run, made before anything is written: what the container starts with, what
//! becomes of each layer, what is added. `assemble` decides nothing.

mod accounts;
mod added;
mod annotations;
mod base_choice;
mod bring;
mod command;
mod config;
mod extract;
mod filter;
mod globs;
mod healthcheck;
mod history;
mod layers;
mod logs;
mod need;
mod new_layer;
mod noticed;
mod pod;
mod rebase_options;
mod record;
pub mod seam;
mod start_options;
#[cfg(test)]
pub mod testing;

use serde_json::{Map, Value};

use crate::examine::packages::{PackageChanges, RootPackages};
use crate::examine::{self, Facts, PlatformSubject, Shape, Subject};
use crate::process::{self, Container, LeavingPackage, Setup, Startup};
use crate::rules::Finding;
use oci::{DiffId, Digest, Image};
use start::rootfs::merge;

pub use accounts::OtherNumber;
pub use added::{Added, DirectoryState};
pub use base_choice::{BaseChoice, RunsAs, TriedBase, candidates};
pub use bring::{BringConflict, BringName, BringOffer, BringOutcome, BringScene, Brought, BroughtKind, Offering};
pub use command::{CommandOutcome, ExecForm, KeptLog};
pub use healthcheck::HealthOutcome;
pub use layers::{Body, Bulk, Fate, Inherited, Layers, Leaving, PlannedLayer, Roots};
pub use logs::{ChosenStrategy, NoStrategy};
pub use need::need;
pub use new_layer::NewLayer;
pub use pod::{PodForm, PodLog, PodPass, judge_in_pod};
pub use rebase_options::{
    AttestKind, CommandFrom, CommandWords, DEFAULT_BASE, Epoch, KlogStyle, LogChoice, OnMissing, RebaseOptions,
    RecordedName, Variable,
};
pub use record::{
    FORMAT, FORMAT_KEY, OPTIONS_KEY, Record, RecordedImage, RecordedOptions, SOURCE_KEY, needed_allowances, needed_by,
    record,
};
pub use seam::Seam;
pub use start_options::{DEFAULT_START_SECONDS, RuntimePath, StartMount, StartOptions, StartSeconds};

/// Layers that have not been read and are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    NewBase,
    OldBase,
}

/// One platform on its way through the stages, with what each of them yielded.
#[derive(Debug)]
pub struct Pass {
    pub subject: PlatformSubject,
    pub facts: Facts,
    pub draft: Draft,
    pub startup: Startup,
    pub seam: Seam,
    /// The packages of the source, and those of the result.
    pub packages: PackageChanges,
    /// The pod that it was judged in, where a manifest gave one.
    pub pod: Option<PodPass>,
    /// What the rules have to say; empty until it was judged.
    pub findings: Vec<Finding>,
    /// What they say without the pod: a result records nothing of a manifest.
    pub without_pod: Option<Vec<Finding>>,
    /// The options that its manifest records; empty until then, and for an image that is passed on.
    pub recorded: RecordedOptions,
    /// What came of it; `None` until it was assembled, and for a refused image.
    pub result: Option<ImageResult>,
}

impl Pass {
    /// The findings that belong to the image, whatever pod runs it: what its record and its provenance speak of.
    #[must_use]
    pub fn image_findings(&self) -> &[Finding] {
        self.without_pod.as_deref().unwrap_or(&self.findings)
    }
}

/// One platform of the result, decided.
#[derive(Debug)]
pub struct Draft {
    /// What a container starts with.
    pub container: Container,
    /// What became of the command's shell.
    pub form: ExecForm,
    /// Whoever asked for the move gave the command, or the user.
    pub command_overridden: bool,
    pub user_overridden: bool,
    /// The variables that were given.
    pub variables_overridden: Vec<String>,
    pub layers: Layers,
    /// All layers of source, new base and result with their fates, in the order of a report.
    pub planned: Vec<PlannedLayer>,
    pub image: ImagePlan,
    /// The members of its entry in an index, beside type, digest and size.
    pub entry: Map<String, Value>,
    pub entry_annotations: Map<String, Value>,
}

#[derive(Debug)]
pub enum ImagePlan {
    /// Byte for byte as it is: it is based on the new base already.
    AsIs(Box<Image>),
    New(NewImage),
}

/// A config and a manifest, complete but for the layers and the digests that only the final bytes
/// have.
#[derive(Debug)]
pub struct NewImage {
    pub config: Map<String, Value>,
    pub manifest: Map<String, Value>,
    /// What the diff ids must come out as: those of the new base, then those kept; `None` where a
    /// layer is still to be written. Taken from the inputs and not from `planned`, so that one
    /// checks the other.
    pub diff_ids: Vec<Option<DiffId>>,
    /// The time of every entry in a layer that is written, in seconds since 1970.
    pub mtime: i64,
}

/// The digests and sizes that one platform came out with.
#[derive(Debug, Clone)]
pub struct ImageResult {
    pub digest: Digest,
    /// All planned layers; the ones that were written have their digests now.
    pub layers: Vec<FinalLayer>,
}

/// A planned layer with what its bytes turned out to be.
#[derive(Debug, Clone)]
pub struct FinalLayer {
    pub planned: PlannedLayer,
    pub digest: Digest,
    pub diff_id: DiffId,
    pub size: u64,
}

impl FinalLayer {
    #[must_use]
    pub fn new(planned: &PlannedLayer, digest: Digest, diff_id: DiffId, size: u64) -> Self {
        Self { planned: planned.clone(), digest, diff_id, size }
    }

    /// A layer whose bytes are there already.
    #[must_use]
    pub fn inherited(planned: &PlannedLayer) -> Option<Self> {
        let Body::Inherited(of) = &planned.body else { return None };
        Some(Self::new(planned, of.descriptor.digest, of.diff_id, of.descriptor.size))
    }
}

/// What the target will name.
#[derive(Debug)]
pub enum Top {
    /// The one platform's manifest.
    Single,
    /// A new index with these members around the children.
    Index(Map<String, Value>),
    /// The source as it is: it is based on the new base already.
    Source,
}

/// The registry name of the source, as a result records it.
#[must_use]
pub fn registry_name(image: &Subject, options: &RebaseOptions) -> Option<String> {
    RecordedName::choose(options.source_name.as_ref(), &image.source.location).map(ToString::to_string)
}

/// What holds the platforms together.
#[must_use]
pub fn top(image: &Subject, passes: &[Pass], options: &RebaseOptions) -> Top {
    let untouched = passes.iter().all(|pass| pass.draft.passes_on());
    let complete = image.missing.is_empty() && !image.leaves_behind && image.selected.is_empty();
    match &image.shape {
        Shape::Single => Top::Single,
        Shape::Index(_) if untouched && complete && image.source.top.media_type().is_oci() => Top::Source,
        Shape::Index(object) => {
            let mut index = annotations::index(object);
            record::record_index(&mut index, image, passes, options);
            Top::Index(index)
        }
    }
}

impl Draft {
    /// Whether the image is passed on as it is.
    #[must_use]
    pub fn passes_on(&self) -> bool {
        matches!(self.image, ImagePlan::AsIs(_))
    }

    /// Whether `other`, drawn for the same platform, comes out as the same config and layers.
    fn makes_the_same_bytes(&self, other: &Self) -> bool {
        let (ImagePlan::New(one), ImagePlan::New(two)) = (&self.image, &other.image) else {
            return self.passes_on() && other.passes_on();
        };
        let is_written = one.diff_ids.contains(&None);
        one.config == two.config
            && one.diff_ids == two.diff_ids
            && (one.mtime == two.mtime || !is_written)
            && self.layers.new_entries().eq(other.layers.new_entries())
    }

    /// What a runtime would be given to start, before the move and after it.
    #[must_use]
    pub fn setup<'a>(
        &'a self,
        before: &'a Container,
        subject: &PlatformSubject,
        leaving: &'a [LeavingPackage],
    ) -> Setup<'a> {
        Setup {
            before,
            after: &self.container,
            inlined: self.form.script.as_deref(),
            base_layers: subject.base_layers.len(),
            leaving,
        }
    }
}

/// Takes one platform through the stages from its facts to its start, before and after.
#[must_use]
pub fn pass(mut subject: PlatformSubject, options: &RebaseOptions) -> Pass {
    if examine::is_on_new_base(&subject) {
        // The same diff ids: one root below the application, read once.
        subject.old_layers.clone_from(&subject.base_layers);
    }
    let facts = examine::look(&subject);
    let draft = draw(&subject, &facts, options);
    let roots = draft.layers.roots(&subject);
    let before = Container::of(&subject.source.config);
    let leaving = draft.layers.leaving_packages(&facts, &roots);
    let setup = draft.setup(&before, &subject, &leaving);
    let startup = process::look(&setup, &roots.rebased, roots.source(), draft.layers.above_base());
    let seam = seam::look(&subject, &facts, &draft.layers, &roots);
    let packages = PackageChanges::between(&RootPackages::of(roots.source()), &RootPackages::of(&roots.rebased));
    drop(roots);
    Pass {
        subject,
        facts,
        draft,
        startup,
        seam,
        packages,
        pod: None,
        findings: Vec::new(),
        without_pod: None,
        recorded: RecordedOptions::new(),
        result: None,
    }
}

/// Decides everything about one platform, once [`need`] has nothing to ask for.
#[must_use]
pub fn draw(subject: &PlatformSubject, facts: &Facts, options: &RebaseOptions) -> Draft {
    let may_stay = facts.is_on_new_base && starts_as_it_is(subject, facts);
    let as_it_is = Container::of(&subject.source.config);
    let (container, form, layers) = if may_stay && options.changes_nothing() {
        (as_it_is.clone(), ExecForm::default(), Layers::unchanged(facts))
    } else {
        rebased(subject, facts, options)
    };
    // Options that have no effect do not make another image of it.
    let passes_on = may_stay && layers.is_unchanged() && container == as_it_is;
    let plan = if passes_on {
        ImagePlan::AsIs(Box::new(subject.source.clone()))
    } else {
        ImagePlan::New(NewImage {
            config: config::whole_config(subject, &container, &layers, options.source_date_epoch),
            manifest: annotations::manifest(subject),
            diff_ids: expected(subject, &layers),
            mtime: options.source_date_epoch.map_or(0, |epoch| i64::try_from(epoch.0).unwrap_or_default()),
        })
    };
    Draft {
        command_overridden: options.overrides_command(),
        user_overridden: options.user.is_some(),
        variables_overridden: options.env.iter().map(|variable| variable.name.clone()).collect(),
        planned: layers::fates(subject, &layers, passes_on),
        image: plan,
        entry: subject.entry.clone().unwrap_or_else(|| platform_object(&subject.source)),
        entry_annotations: annotations::harmless(&subject.entry_annotations),
        container,
        form,
        layers,
    }
}

/// Whether the image starts where it is, or leaves to others what is started: then there is nothing to do.
fn starts_as_it_is(subject: &PlatformSubject, facts: &Facts) -> bool {
    let layers = Layers::unchanged(facts);
    let start = process::start(&Container::of(&subject.source.config), &layers.root(subject));
    start.runs() || start.argv.is_empty()
}

/// The container and the layers on the new base.
fn rebased(subject: &PlatformSubject, facts: &Facts, options: &RebaseOptions) -> (Container, ExecForm, Layers) {
    let begun = Layers::begin(subject, facts, options);
    // Before there is another root in memory.
    let container = config::rebased(subject);
    let scene = begun.scene(subject, options);
    let brought = subject.runner.as_ref().and_then(|runner| logs::runner_of_image(runner, &scene));
    let at = brought
        .as_ref()
        .map(|runner| logs::RunnerAt { path: runner.path.to_string(), from: "the image of --log-runner" });
    let at = at.or_else(|| logs::runner_in_root(&scene, &container));
    let base = merge(subject.base_layers.iter().map(AsRef::as_ref));
    let shells = if options.extract { &base } else { &scene };
    let translator = command::Translator { root: &scene, shells, runner: at.as_ref(), options, subject };
    let (container, form) = command::translate(container, &translator);
    drop(scene);
    let program = container.command.argv().into_iter().nth(form.lead);
    let runner = brought.filter(|_| form.uses_runner());
    let needs = layers::Needs { options, container: &container, program, runner };
    let layers = begun.finish(subject, facts, &needs);
    (container, form, layers)
}

fn expected(subject: &PlatformSubject, layers: &Layers) -> Vec<Option<DiffId>> {
    let base = subject.base.diff_ids().iter().copied().map(Some);
    let own = subject.source.diff_ids().iter().copied().skip(subject.old_base.layers);
    let own = own.zip(&layers.own).filter_map(|(diff_id, layer)| match layer.becomes {
        layers::Becomes::Kept => Some(Some(diff_id)),
        layers::Becomes::Filtered(_) => Some(None),
        layers::Becomes::Dropped => None,
    });
    base.chain(own).chain(layers.written().map(|_| None)).collect()
}

fn platform_object(image: &Image) -> Map<String, Value> {
    let config = image.config.object();
    let keys = ["architecture", "os", "os.version", "os.features", "variant"];
    keys.iter().filter_map(|key| Some(((*key).to_owned(), config.get(*key)?.clone()))).collect()
}
