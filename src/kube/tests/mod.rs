//! Manifests as a whole.
