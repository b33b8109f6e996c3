//! The answers: what the later stages decide on.

use super::absent::{self, Absent};
use super::command::Command;
use super::container::Container;
use super::exec_form::{self, ExecForm, RunnerAt, Setting};
use super::health::{self, Health};
use super::helper::{Helper, helpers};
use super::moved::{Extent, Moved, Needs, source_root};
use super::oddity::{Oddity, oddities};
use super::program::{self, Presence, Start, start};
use super::runner;
use super::seam::{self, Seam};
use super::subject::{PlatformSubject, Subject};
use super::wishes::Wishes;
use crate::rootfs::merge;

/// The subject with the answers beside it, platform by platform in the same order.
#[derive(Debug)]
pub struct Facts {
    pub subject: Subject,
    pub platforms: Vec<PlatformFacts>,
}

#[derive(Debug, Clone)]
pub struct PlatformFacts {
    /// The command as it is.
    pub command: Command,
    /// What a container starts with once the image has moved.
    pub container: Container,
    /// What became of the command's shell.
    pub form: ExecForm,
    /// The user said the command.
    pub said: bool,
    /// The layers as they will be.
    pub moved: Moved,
    /// The application's program.
    pub start: Start,
    /// What stands before it and is started first: an init, a runner.
    pub wrappers: Vec<Start>,
    /// Where the source has the program that the rebased root lacks.
    pub lost_in: Option<String>,
    pub health: Health,
    pub helpers: Vec<Helper>,
    pub tools: Vec<Absent>,
    pub libraries: Vec<Absent>,
    /// Names of tools and libraries in the program that the rebased root does not answer.
    pub unanswered: Vec<String>,
    pub seam: Seam,
    pub oddities: Vec<Oddity>,
    /// What reading the layers brought up, such as a wrong media type.
    pub layer_notes: Vec<String>,
    /// The image stands on the new base already, in OCI's own media types: nothing to do.
    pub already_right: bool,
}

/// Puts all questions to the subject.
#[must_use]
pub fn look(subject: Subject, wishes: &Wishes) -> Facts {
    let platforms = subject.platforms.iter().map(|platform| look_at(platform, wishes)).collect();
    Facts { subject, platforms }
}

/// The container and the layers as they will be.
fn moved(subject: &PlatformSubject, wishes: &Wishes) -> (Container, ExecForm, Moved) {
    let begun = Moved::begin(subject, &wishes.taking);
    let scene = begun.scene(subject, &wishes.taking);
    let container = Container::moved(subject);
    let brought = subject.runner.as_ref().and_then(|runner| runner::of_image(runner, &scene));
    let at =
        brought.as_ref().map(|runner| RunnerAt { path: runner.path.to_string(), from: "the image of --log-runner" });
    let at = at.or_else(|| runner::in_root(&scene, &container));
    let base = merge(subject.base_layers.iter().map(AsRef::as_ref));
    let shells = if wishes.taking.extent == Extent::Extract { &base } else { &scene };
    let setting = Setting { root: &scene, shells, runner: at.as_ref(), wishes };
    let (container, form) = exec_form::translate(container, &setting);
    drop(scene);
    let program = container.command.argv().into_iter().nth(form.lead);
    let needs = Needs { taking: &wishes.taking, program, runner: brought.filter(|_| form.uses_runner()) };
    let moved = begun.finish(subject, &container, &needs);
    (container, form, moved)
}

pub(super) fn look_at(subject: &PlatformSubject, wishes: &Wishes) -> PlatformFacts {
    let already_right = already_right(subject) && *wishes == Wishes::default();
    let (container, form, moved) = if already_right {
        (Container::of(&subject.source.config), ExecForm::default(), Moved::as_it_is(subject))
    } else {
        moved(subject, wishes)
    };
    let root = moved.root(subject);
    let other = (!moved.is_source(subject)).then(|| source_root(subject));
    let source = other.as_ref().unwrap_or(&root);
    let start = match start(&container, form.lead, &root) {
        Start::Found(started) if started.interpreter == Presence::Missing => Start::Found(started),
        _ if form.is_stuck() => Start::Shell,
        start => start,
    };
    let wrappers: Vec<Start> =
        form.wrappers(&container).into_iter().map(|word| program::start(&container, word, &root)).collect();
    // A script that was read is said by the command now, and no helper of it.
    let of_command = wrappers.iter().chain([&start]).filter_map(Start::path).chain(form.script.as_deref());
    let of_command: Vec<&str> = of_command.collect();
    let helpers = helpers(&root, moved.own(subject), &of_command);
    let tools = absent::tools(&start, &container, &root);
    let libraries = absent::libraries(&start, &root);
    PlatformFacts {
        command: Command::of(&subject.source.config),
        lost_in: match &start {
            Start::Lost { name, .. } => {
                program::search(source, &container, name).map(|found| found.file.path.to_string())
            }
            _ => None,
        },
        form,
        said: wishes.entrypoint.is_some() || wishes.cmd.is_some(),
        health: health::look(&container, &root),
        helpers,
        wrappers,
        tools: absent::tools_of_source(&tools, &container, source),
        libraries: absent::libraries_of_source(&libraries, source),
        unanswered: tools.into_iter().map(|tool| &tool.name).chain(libraries).cloned().collect(),
        seam: seam::look(subject, &moved, &root, source),
        start,
        oddities: oddities(&subject.source.config),
        layer_notes: layer_notes(subject).chain(moved.notes.iter().cloned()).collect(),
        moved,
        container,
        already_right,
    }
}

fn layer_notes(subject: &PlatformSubject) -> impl Iterator<Item = String> {
    subject.layers.iter().flat_map(|layer| {
        layer.notes.iter().map(|note| format!("layer {}: {note}", layer.digest.short())).collect::<Vec<_>>()
    })
}

fn already_right(subject: &PlatformSubject) -> bool {
    let source = &subject.source;
    // Bases may share all layers and differ in their config, as distroless' `latest` and `nonroot` do.
    let old = subject.old_base.image.as_ref().map(|image| image.config.digest());
    let stands_on_it = old == Some(subject.base.config.digest()) && subject.base.is_under(source);
    let is_oci = source.document.media_type().is_oci()
        && source.manifest.config.media_type.is_oci()
        && source.layers.iter().all(|layer| layer.descriptor.media_type.is_oci());
    stands_on_it && is_oci
}
