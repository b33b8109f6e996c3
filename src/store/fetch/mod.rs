//! From names to a [`Subject`]: resolves each tag once, reads the documents, finds the old base,
//! and reads every layer above it. After this nothing is asked of the network but to publish.

mod attached;
mod current;
mod images;
mod layers;
mod lookup;
mod select;
mod signatures;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::layer_store::inherited;
use super::parallel::OnceMap;
use super::{Source, StoreAccess, Stream, parallel};
use crate::examine::base::{self, Known, OldBase, OldBaseChoice};
use crate::examine::{
    Fetched, FullImage, FullPlatform, LeftBehind, Origin, PlatformSubject, RunnerSubject, Shape, Subject,
    is_on_new_base,
};
use crate::plan::{Need, RebaseOptions};
use crate::process::{OwnStartup, PodContainer};
use layer::{FileDigests, LayerIndex, RootPath};
use oci::error::{Error, Kind, Result};
use oci::{
    BASE_DIGEST, Descriptor, Digest, Document, DocumentKind, Image, ImageLayer, Location, Platform, RegistryHost,
};

use images::{ImageRecorder, Loader, Recording};
use layers::{LayerReader, look};
use lookup::Looker;
use select::{Listed, Listing};

pub use attached::AttachedStatement;
pub use current::{BasedImage, BasedPlatform, NamedBy};
pub use lookup::{Patience, may_follow};
pub use signatures::SignatureSearch;

/// What a run asks for.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub source: &'a Location,
    /// The base that is named, or one of those to choose from.
    pub base: &'a Location,
    pub options: &'a RebaseOptions,
    /// What a manifest starts.
    pub pod: Option<&'a Arc<PodContainer>>,
    /// The old base of each platform, where a lock or a result records it: before the options' own.
    pub old_bases: &'a [(Platform, OldBaseChoice)],
    /// Whether the digest of each file is needed that may go into the result from the source.
    pub file_digests: FileDigests,
}

impl Request<'_> {
    /// Of the old base, only what is taken out of it by name.
    fn old_base_digests(&self) -> FileDigests {
        let RebaseOptions { extract, keep, bring, .. } = self.options;
        let takes = *extract || !keep.is_empty() || !bring.is_empty();
        if takes { self.file_digests } else { FileDigests::LeftOut }
    }

    fn old_base(&self, platform: &Platform) -> Option<&OldBaseChoice> {
        let recorded = self.old_bases.iter().find(|(listed, _)| listed == platform);
        recorded.map(|(_, choice)| choice).or(self.options.old_base.as_ref())
    }
}

/// A disk answers at once: more layers at a time than there are processors only take memory.
const LOCAL_JOBS: usize = 4;

/// Whose images and layers are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ImageRole {
    Source,
    Base,
}

/// What fetching needs of the world. Sources are forgotten with the fetcher.
pub struct Fetcher<'a> {
    pub tools: &'a StoreAccess,
    pub bases: &'a Bases,
    pub sources: Bases,
}

/// Images that were opened, each resolved once and its layers read once: a base serves many sources.
#[derive(Default)]
pub struct Bases {
    opened: OnceMap<Location, Arc<Opened>>,
    /// Hosts that did not answer when a base was looked for that nobody has to have: they are asked once.
    silent: Mutex<HashSet<RegistryHost>>,
    /// What names led to, or why nowhere: also a name that leads nowhere is asked once.
    answers: OnceMap<(Location, Platform, Patience), BaseAnswer>,
    /// Bases whose signatures were looked for, with the files of the keys.
    signatures: OnceMap<(Location, Vec<String>), Arc<SignatureSearch>>,
    /// Indexes of layers that somebody has in memory: images on one base share most of theirs.
    indexes: Mutex<HashMap<(Digest, FileDigests), Weak<LayerIndex>>>,
}

/// The image that a name leads to for a platform, or why there is none, in words that follow "which".
pub type BaseAnswer = std::result::Result<Arc<Image>, String>;

impl Bases {
    /// Whether the registry of `location` did not answer before.
    fn is_silent(&self, location: &Location) -> bool {
        host(location).is_some_and(|host| self.silent.lock().unwrap_or_else(PoisonError::into_inner).contains(host))
    }

    fn index(&self, key: (Digest, FileDigests)) -> Option<Arc<LayerIndex>> {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner).get(&key)?.upgrade()
    }

    fn note_index(&self, key: (Digest, FileDigests), index: &Arc<LayerIndex>) {
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        indexes.insert(key, Arc::downgrade(index));
        if indexes.len().is_power_of_two() {
            indexes.retain(|_, index| index.strong_count() > 0);
        }
    }

    fn note_silent(&self, location: &Location) {
        if let Some(host) = host(location) {
            self.silent.lock().unwrap_or_else(PoisonError::into_inner).insert(host.clone());
        }
    }
}

fn host(location: &Location) -> Option<&RegistryHost> {
    match location {
        Location::Registry(reference) => Some(reference.name().host()),
        _ => None,
    }
}

/// An image looked at for itself, without a new base.
#[derive(Debug)]
pub struct Inspected {
    pub origin: Origin,
    pub platforms: Vec<InspectedPlatform>,
    pub left_behind: Vec<LeftBehind>,
}

#[derive(Debug)]
pub struct InspectedPlatform {
    pub platform: Platform,
    pub image: Image,
    pub old_base: OldBase,
    /// Of each layer of the image, in its order.
    pub layers: Vec<Arc<LayerIndex>>,
    /// What a container of the image starts, in the image's own root.
    pub start: OwnStartup,
    /// Files of a base that is only likely that no package owns: they may be the application's.
    pub unproven: Vec<RootPath>,
}

impl Fetcher<'_> {
    /// Brings everything the request names, and the source's layers above the old base.
    pub fn fetch(&self, request: &Request<'_>) -> Result<Fetched> {
        let options = request.options;
        self.open_all(request)?;
        let source = self.source(request.source)?;
        let base = self.opened(request.base)?;
        let (chosen, of, left_behind) = self.chosen(&source, &options.platforms)?;
        let bases = Listing::read(&base.loader(self), &base.origin.top)?;
        let layers = LayerReader::new(self, &source);
        let platforms = parallel::map(&chosen, self.tools.jobs(), |listed| {
            self.platform(request, &source, (&base, &bases), listed, &layers)
        })?;
        let missing = platforms.iter().filter_map(|found| found.as_ref().err().cloned()).collect();
        let mut platforms: Vec<PlatformSubject> = platforms.into_iter().filter_map(std::result::Result::ok).collect();
        self.read_all_layers(request, (&source, &base), &platforms)?;
        layers.put_above_the_seam(&mut platforms, request.file_digests)?;
        let runner = platforms.first().and(options.log_runner.as_ref());
        let runner = runner.map(|location| self.opened(location)).transpose()?;
        let subject = Subject {
            source: source.origin.clone(),
            base: base.origin.clone(),
            runner: runner.map(|runner| runner.origin.clone()),
            shape: shape(&source.origin, &options.platforms, &chosen),
            selected: if chosen.len() == of { Vec::new() } else { selected(&chosen) },
            missing,
            leaves_behind: !left_behind.is_empty(),
        };
        assign(&left_behind, &mut platforms);
        Ok(Fetched { subject, platforms })
    }

    /// Opens every image that the request names, and reads what it leads to: none depends on another.
    fn open_all(&self, request: &Request<'_>) -> Result<()> {
        let options = request.options;
        let old_bases = request.old_bases.iter().map(|(_, choice)| choice).chain(&options.old_base);
        let old_bases = old_bases.filter_map(|choice| match choice {
            OldBaseChoice::Image(location) => Some(location),
            OldBaseChoice::Scratch | OldBaseChoice::Layers(_) | OldBaseChoice::Digest(_) => None,
        });
        let old_bases: Vec<&Location> = old_bases.collect();
        let failed = |error: Error, location: &Location| match error.kind() {
            _ if old_bases.contains(&location) => base::without_old_base(error, location),
            // Nobody may have named it: the default is far away from many networks.
            Kind::Network | Kind::Missing if location == request.base => error.hint(
                "name the new base where it can be reached: --base REF, or --base oci:DIR:TAG for a copy on disk",
            ),
            _ => error,
        };
        let others = [request.base]
            .into_iter()
            .chain(old_bases.iter().copied())
            .chain(&options.known_bases)
            .chain(&options.log_runner);
        let images: Vec<(ImageRole, &Location)> = [(ImageRole::Source, request.source)]
            .into_iter()
            .chain(others.map(|base| (ImageRole::Base, base)))
            .collect();
        parallel::map(&images, self.tools.jobs(), |(role, location)| {
            let opened = match role {
                ImageRole::Source => self.source(location),
                ImageRole::Base => self.opened(location).map_err(|error| failed(error, location)),
            }?;
            Listing::read(&opened.loader(self), &opened.origin.top).map(drop)
        })
        .map(drop)
    }

    /// Reads every layer that an answer will depend on (`plan::need` asks for those of both bases), all at once.
    fn read_all_layers(
        &self,
        request: &Request<'_>,
        (source, base): (&Opened, &Opened),
        platforms: &[PlatformSubject],
    ) -> Result<()> {
        let of_platform = |platform: &PlatformSubject| {
            let (old, own) = platform.source_layers();
            let old = if is_on_new_base(platform) { &[] } else { old };
            let own = own.iter().map(|layer| (ImageRole::Source, request.file_digests, layer.clone()));
            let old = old.iter().map(|layer| (ImageRole::Source, request.old_base_digests(), layer.clone()));
            let base = platform.base.layers.iter().map(|layer| (ImageRole::Base, FileDigests::LeftOut, layer.clone()));
            own.chain(old).chain(base).collect::<Vec<(ImageRole, FileDigests, ImageLayer)>>()
        };
        let layers: Vec<(ImageRole, FileDigests, ImageLayer)> = platforms.iter().flat_map(of_platform).collect();
        let is_local = [source, base].iter().all(|opened| opened.origin.location.local().is_some());
        let jobs = if is_local { self.tools.jobs().min(LOCAL_JOBS) } else { self.tools.jobs() };
        let (source, base) = (LayerReader::new(self, source), LayerReader::new(self, base));
        let read = |(role, digests, layer): &(ImageRole, FileDigests, ImageLayer)| match role {
            ImageRole::Source => source.read_with(layer, *digests).map(drop),
            ImageRole::Base => base.read(layer).map(drop),
        };
        parallel::map(&layers, jobs, read).map(drop)
    }

    /// Reads the layers of a base that an answer depends on.
    pub fn supply(&self, request: &Request<'_>, platform: &mut PlatformSubject, need: Need) -> Result<()> {
        match need {
            Need::NewBase => {
                let base = self.opened(request.base)?;
                platform.base_layers = self.read_layers(&base, &platform.base.layers, FileDigests::LeftOut)?;
            }
            Need::OldBase => {
                let source = self.source(request.source)?;
                platform.old_layers =
                    self.read_layers(&source, platform.source_layers().0, request.old_base_digests())?;
            }
        }
        Ok(())
    }

    fn read_layers(&self, of: &Opened, layers: &[ImageLayer], digests: FileDigests) -> Result<Vec<Arc<LayerIndex>>> {
        let reader = LayerReader::new(self, of);
        parallel::map(layers, self.tools.jobs(), |layer| reader.read_with(layer, digests))
    }

    /// Looks at one image: its platforms and their old bases. A name in it that leads nowhere is told of
    /// instead of ending the run.
    pub fn inspect(
        &self,
        location: &Location,
        platforms: &[Platform],
        (choice, known): (Option<&OldBaseChoice>, &[Location]),
    ) -> Result<Inspected> {
        let source = self.source(location)?;
        let (chosen, _, left_behind) = self.chosen(&source, platforms)?;
        let layers = LayerReader::new(self, &source);
        let platforms = parallel::map(&chosen, self.tools.jobs(), |listed| {
            let looker = Looker::new(self, &source, listed, &layers, Patience::Note);
            let known = self.known(known, &listed.platform)?;
            let known: Vec<Known<'_>> = known.iter().map(|(location, image)| Known { location, image }).collect();
            let old_base = base::find(&listed.image, &listed.index_annotations, choice, &known, &looker)?;
            let indexes = layers.read_all(&listed.image)?;
            let (start, unproven) = look(&listed.image, &old_base, &indexes);
            let (platform, image) = (listed.platform.clone(), listed.image.clone());
            Ok(InspectedPlatform { platform, image, old_base, layers: indexes, start, unproven })
        })?;
        Ok(Inspected { origin: source.origin.clone(), platforms, left_behind })
    }

    /// One image with all its layers, for every platform it has.
    pub fn whole(&self, location: &Location) -> Result<FullImage> {
        self.whole_of(location, &[])
    }

    /// The bytes of a layer of an image, verified where they are kept.
    pub fn layer_bytes(&self, location: &Location, layer: &Descriptor) -> Result<Stream> {
        inherited(layer, self.opened(location)?.place.as_ref(), self.tools)
    }

    /// The same for the platforms asked for; for all of them where none is.
    pub fn whole_of(&self, location: &Location, platforms: &[Platform]) -> Result<FullImage> {
        let source = self.opened(location)?;
        let (chosen, ..) = self.chosen(&source, platforms)?;
        let platforms = chosen.into_iter().map(|Listed { platform, image, .. }| {
            let layers = self.read_layers(&source, &image.layers, FileDigests::LeftOut)?;
            Ok(FullPlatform { platform, image, layers })
        });
        Ok(FullImage { origin: source.origin.clone(), platforms: platforms.collect::<Result<_>>()? })
    }

    /// The images of a source for the platforms asked for.
    pub fn images(&self, location: &Location, platforms: &[Platform]) -> Result<Vec<Image>> {
        let (chosen, ..) = self.chosen(self.source(location)?.as_ref(), platforms)?;
        Ok(chosen.into_iter().map(|listed| listed.image).collect())
    }

    /// A location is resolved once a run, whoever asks for it.
    pub fn opened(&self, location: &Location) -> Result<Arc<Opened>> {
        self.bases.opened.get(location.clone(), || self.open(location, Recording::On))
    }

    /// The same for a source: it is forgotten with the fetcher.
    pub fn source(&self, location: &Location) -> Result<Arc<Opened>> {
        self.sources.opened.get(location.clone(), || self.open(location, Recording::On))
    }

    fn open(&self, location: &Location, recording: Recording) -> Result<Arc<Opened>> {
        let place = self.tools.places.source(location)?;
        let top = place.top()?;
        self.tools.cache.keep_small(&top.digest(), top.bytes());
        let memory = ImageRecorder::new(location, &top, recording);
        memory.add(&self.tools.cache, None, []);
        let origin = Origin { location: location.clone(), top };
        Ok(Arc::new(Opened { origin, place, small: OnceMap::default(), layers: OnceMap::default(), memory }))
    }

    /// Which of `candidates` the image is based on: the one that it records by digest, else the one with most layers whose
    /// diff ids are the first of the image's. What is on disk is compared first. One that cannot be reached is told of and
    /// passed over.
    pub fn footing(&self, image: &Image, candidates: &[Location]) -> Option<Location> {
        let recorded = image.manifest.annotations.get(BASE_DIGEST).and_then(|digest| digest.as_str()?.parse().ok());
        let mut best: Option<(Location, Image)> = None;
        let (on_disk, elsewhere): (Vec<_>, Vec<_>) = candidates.iter().partition(|place| place.local().is_some());
        for location in on_disk.into_iter().chain(elsewhere) {
            let Some(found) = self.candidate(location, image.config.platform()) else { continue };
            let fits = found.into_iter().filter(|(_, base)| base.is_under(image) && !base.layers.is_empty());
            for (location, base) in fits {
                if Some(base.digest()) == recorded {
                    return Some(location.with_digest(base.digest()));
                }
                if best.as_ref().is_none_or(|(_, best)| base.layers.len() > best.layers.len()) {
                    best = Some((location, base));
                }
            }
        }
        best.and_then(|(location, base)| location.pinned(base.digest()).parse().ok())
    }

    /// The image of a candidate for the platform, where it can be had.
    fn candidate(&self, location: &Location, platform: &Platform) -> Option<Vec<(Location, Image)>> {
        if self.bases.is_silent(location) {
            return None;
        }
        let failed = |error: Error| {
            let what = error.what();
            self.tools.notices.warn(format!("{location} was not compared with the image's layers: {what}"));
            if error.kind() == Kind::Network {
                self.bases.note_silent(location);
            }
        };
        self.known(std::slice::from_ref(location), platform).map_err(failed).ok()
    }

    /// The source's images for the platforms asked for, how many it has, and what stands beside them.
    fn chosen(&self, source: &Opened, platforms: &[Platform]) -> Result<(Vec<Listed>, usize, Vec<LeftBehind>)> {
        let loader = source.loader(self);
        let listing = Listing::read(&loader, &source.origin.top)?;
        let chosen =
            listing.choose(&loader, platforms).map_err(|error| error.fact("image", &source.origin.location))?;
        Ok((chosen, listing.len(), listing.left_behind()))
    }

    /// The known bases for one platform, each with its name.
    fn known(&self, locations: &[Location], platform: &Platform) -> Result<Vec<(Location, Image)>> {
        let mut known = Vec::new();
        for location in locations {
            let opened = self.opened(location)?;
            let loader = opened.loader(self);
            let found = Listing::read(&loader, &opened.origin.top)?.find(&loader, platform)?;
            known.extend(found.map(|listed| (location.clone(), listed.image)));
        }
        Ok(known)
    }

    /// The log runner for one platform.
    fn runner(&self, request: &Request<'_>, platform: &Platform) -> Result<Option<RunnerSubject>> {
        let Some(location) = request.options.log_runner.as_ref() else { return Ok(None) };
        let opened = self.opened(location)?;
        let loader = opened.loader(self);
        let found = Listing::read(&loader, &opened.origin.top)?.find(&loader, platform)?;
        let image = found.map(|listed| listed.image).ok_or_else(|| {
            Error::input("the log runner has no image for a platform of the source")
                .fact("log runner", location)
                .fact("platform", platform)
        })?;
        let layers = self.read_layers(&opened, &image.layers, request.file_digests)?;
        Ok(Some(RunnerSubject { location: location.clone(), image, layers }))
    }

    /// One platform, or its name where the new base does not have it.
    fn platform(
        &self,
        request: &Request<'_>,
        source: &Opened,
        (base, bases): (&Opened, &Listing),
        listed: &Listed,
        layers: &LayerReader<'_>,
    ) -> Result<Result<PlatformSubject, Platform>> {
        let found = bases.find(&base.loader(self), &listed.platform);
        let Some(new) = found.map_err(|error| error.fact("new base", &base.origin.location))? else {
            return Ok(Err(listed.platform.clone()));
        };
        let looker = Looker::new(self, source, listed, layers, Patience::Fail);
        let mut known = self.known(&request.options.known_bases, &listed.platform)?;
        known.push((base.origin.location.clone(), new.image.clone()));
        let known: Vec<Known<'_>> = known.iter().map(|(location, image)| Known { location, image }).collect();
        let choice = request.old_base(&listed.platform);
        let old_base = base::find(&listed.image, &listed.index_annotations, choice, &known, &looker)
            .map_err(|error| error.fact("source", request.source))?;
        Ok(Ok(PlatformSubject {
            platform: listed.platform.clone(),
            entry: listed.entry.clone(),
            entry_annotations: listed.entry_annotations.clone(),
            source: listed.image.clone(),
            base: new.image.clone(),
            old_base,
            layers: Vec::new(),
            old_layers: Vec::new(),
            base_layers: Vec::new(),
            runner: self.runner(request, &listed.platform)?,
            left_behind: Vec::new(),
        }))
    }
}

/// A place together with the document that its location led to.
pub struct Opened {
    origin: Origin,
    place: Box<dyn Source>,
    /// Documents and configs that were read from it.
    small: OnceMap<Digest, Arc<[u8]>>,
    /// Indexes of layers that were read from it.
    layers: OnceMap<(Digest, FileDigests), Arc<LayerIndex>>,
    memory: ImageRecorder,
}

impl Opened {
    /// The document that the location led to.
    #[must_use]
    pub fn top(&self) -> &Document {
        &self.origin.top
    }

    /// Another document of the same image.
    pub fn document(&self, fetcher: &Fetcher<'_>, of: &Descriptor) -> Result<Document> {
        self.loader(fetcher).document(of)
    }

    fn loader<'a>(&'a self, fetcher: &'a Fetcher<'_>) -> Loader<'a> {
        Loader {
            place: self.place.as_ref(),
            cache: &fetcher.tools.cache,
            small: &self.small,
            memory: &self.memory,
            jobs: fetcher.tools.jobs(),
        }
    }
}

/// One platform asked for by name gives one manifest; everything else keeps the source's shape.
fn shape(source: &Origin, asked: &[Platform], chosen: &[Listed]) -> Shape {
    match source.top.kind() {
        DocumentKind::Index if asked.is_empty() || chosen.len() != 1 => Shape::Index(source.top.object().clone()),
        _ => Shape::Single,
    }
}

/// In one order, whatever the order of the index and of the options.
fn selected(chosen: &[Listed]) -> Vec<Platform> {
    let mut platforms: Vec<Platform> = chosen.iter().map(|listed| listed.platform.clone()).collect();
    platforms.sort();
    platforms
}

/// Gives each platform what describes its bytes; what does not say, goes to the first.
fn assign(left_behind: &[LeftBehind], platforms: &mut [PlatformSubject]) {
    for (at, platform) in platforms.iter_mut().enumerate() {
        let (digest, is_first) = (platform.source.digest(), at == 0);
        let is_its = |left: &&LeftBehind| left.of.map_or(is_first, |of| of == digest);
        platform.left_behind = left_behind.iter().filter(is_its).cloned().collect();
    }
}
