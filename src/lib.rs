pub mod error;
pub mod layer;
pub mod oci;
pub mod store;
