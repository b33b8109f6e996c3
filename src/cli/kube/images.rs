//! The images that `--image` names, looked at as `inspect` looks at one.

use std::collections::BTreeMap;

use super::super::args::{Work, WorldArgs};
use super::super::console::Console;
use crate::error::{Error, Result};
use crate::examine::{Klog, ProgramAnswer, FullImage};
use crate::kube::{Answer, Images, Question};
use crate::oci::Location;
use crate::store::Session;

/// Images that were fetched, by the names that manifests have for them.
pub(super) struct Fetched(BTreeMap<String, FullImage>);

impl Images for Fetched {
    fn ask(&self, image: &str, question: &Question<'_>) -> Option<Answer> {
        let whole = self.0.get(image).or_else(|| self.0.get(repository(image)))?;
        let shown = whole.platforms.iter().map(|one| (one, one.show(question.program, question.path, question.folder)));
        let mut shown = shown.map(|(one, shown)| match shown.missing {
            Some(why) => ProgramAnswer { missing: Some(format!("{why} ({})", one.platform)), ..shown },
            None => shown,
        });
        let first = shown.next()?;
        let all = shown.fold(first, both);
        let ProgramAnswer { entrypoint, missing, klog, runner } = all;
        Some(Answer { image: whole.origin.pinned(), entrypoint, missing, klog, runner })
    }
}

/// What holds for two platforms.
fn both(one: ProgramAnswer, two: ProgramAnswer) -> ProgramAnswer {
    let klog = match (&one.klog, &two.klog) {
        (a, b) if a == b => one.klog,
        (Klog::Proven(_), Klog::Proven(_)) => Klog::Unknown("its platforms spell the flags differently".to_owned()),
        (Klog::Proven(_), _) => two.klog,
        _ => one.klog,
    };
    ProgramAnswer {
        entrypoint: if one.entrypoint.is_empty() { two.entrypoint } else { one.entrypoint },
        missing: one.missing.or(two.missing),
        klog,
        runner: one.runner.filter(|runner| two.runner.as_ref() == Some(runner)),
    }
}

/// The name of an image without its tag and digest.
fn repository(image: &str) -> &str {
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    match name.rsplit_once(':') {
        Some((front, tag)) if !tag.contains('/') => front,
        _ => name,
    }
}

/// Fetches what the flags name; `None` without flags, and then nothing is asked of anybody.
pub(super) fn fetch(flags: &[String], world: &WorldArgs, console: &Console) -> Result<Option<Fetched>> {
    if flags.is_empty() {
        return Ok(None);
    }
    let wrong =
        |flag: &str| Error::usage("an image is given as NAME=LOCATION").fact("flag", "--image").fact("value", flag);
    let mut wanted: BTreeMap<String, Location> = BTreeMap::new();
    for flag in flags {
        let (name, location) = flag.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| wrong(flag))?;
        if wanted.insert(name.to_owned(), location.parse()?).is_some() {
            return Err(Error::usage("an image is given twice").fact("image", name));
        }
    }
    let session = Session::new(&world.session_options(Work::OneImage)?, console.notices(), console.progress())?;
    let fetcher = session.fetcher();
    let images = wanted.into_iter().map(|(name, location)| Ok((name, fetcher.whole(&location)?)));
    images.collect::<Result<BTreeMap<_, _>>>().map(|images| Some(Fetched(images)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_known_by_its_name_without_tag_and_digest() {
        for (image, expected) in [
            ("a", "a"),
            ("r.example:5000/a", "r.example:5000/a"),
            ("r.example:5000/a:v1", "r.example:5000/a"),
            ("r.example/a:v1@sha256:00", "r.example/a"),
        ] {
            assert_eq!(repository(image), expected);
        }
    }
}
