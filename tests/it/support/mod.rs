//! Test support: real registries, a proxy that does harm, images built in code, and readers that are
//! not underpin's own. Nothing here uses the crate under test.

pub mod containerd;
pub mod debian;
pub mod docker_daemon;
pub mod docker_registry;
pub mod durable;
pub mod fake_runtime;
pub mod faulty_disk;
pub mod fixtures;
pub mod http;
pub mod invocation;
pub mod layouts;
pub mod programs;
pub mod proxy;
pub mod published;
pub mod python;
pub mod recipe;
pub mod registries;
pub mod skip;
pub mod starting;
pub mod sweep;
pub mod tar_layer;
pub mod terminal;
pub mod tls;
pub mod token_server;
pub mod tools;
pub mod tunnel;
