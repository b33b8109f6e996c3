//! Test support: real registries, a proxy that does harm, images built in code, and readers that are
//! not underpin's own. Nothing here uses the crate under test.

pub mod check;
pub mod cli;
pub mod compiled;
pub mod container;
pub mod cri;
pub mod debian;
pub mod durable;
pub mod guarded;
pub mod http;
pub mod image;
pub mod layer;
pub mod need;
pub mod node;
pub mod outside;
pub mod preload;
pub mod program;
pub mod proxy;
pub mod python;
pub mod reader;
pub mod registry;
pub mod run;
pub mod schema;
pub mod server;
pub mod shelf;
pub mod small_disk;
pub mod stage;
pub mod stock;
pub mod tls;
pub mod token_server;
pub mod tunnel;
pub mod world;
