//! What a manifest asks of an image: whether a program is in it, and who could write its log.

use crate::examine::Klog;

/// A program, and where a container would look for it.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    pub program: &'a str,
    /// `PATH`, where the container sets it.
    pub path: Option<&'a str>,
    /// The working directory, where the container sets it.
    pub folder: Option<&'a str>,
}

/// What the image shows. Invariant: it holds for every platform of the image.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The image that was looked at.
    pub image: String,
    pub entrypoint: Vec<String>,
    /// Why the program does not start, where it does not.
    pub missing: Option<String>,
    pub klog: Klog,
    /// Where a log runner is.
    pub runner: Option<String>,
}

/// Images that can be asked.
pub trait Images {
    /// `None` for an image that nobody named.
    fn ask(&self, image: &str, question: &Question<'_>) -> Option<Answer>;
}

/// No image was named: everything about them is assumed.
#[derive(Debug, Clone, Copy)]
pub struct NoImages;

impl Images for NoImages {
    fn ask(&self, _: &str, _: &Question<'_>) -> Option<Answer> {
        None
    }
}
