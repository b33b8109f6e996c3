//! Passes in code, for tests of the stages from `plan` on.

use super::{Pass, RebaseOptions, draw, seam};
use crate::examine::{Fetched, look};
use crate::process;

/// The one platform of `fetched`, drafted with the layers that have been read.
pub fn pass(fetched: Fetched, options: &RebaseOptions) -> Pass {
    let Fetched { subject: image, mut platforms } = fetched;
    let subject = platforms.remove(0);
    let facts = look(&subject);
    let draft = draw(&image, &subject, &facts, options);
    let roots = draft.layers.roots(&subject);
    let startup = process::look(&draft.setup(), &roots.rebased, roots.source(), draft.layers.above_base());
    let seam = seam::look(&subject, &draft.layers, &roots);
    drop(roots);
    Pass { subject, facts, draft, startup, seam, findings: Vec::new(), result: None }
}
