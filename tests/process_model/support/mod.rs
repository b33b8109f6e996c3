//! What the black-box tests build images with, and start them with.

#[path = "../../it/support/http.rs"]
pub mod http;
#[path = "../../it/support/invocation.rs"]
pub mod invocation;
#[path = "../../it/support/programs.rs"]
pub mod programs;
#[path = "../../it/support/recipe.rs"]
pub mod recipe;
#[path = "../../it/support/skip.rs"]
pub mod skip;
#[path = "../../it/support/starting.rs"]
pub mod starting;
#[path = "../../it/support/sweep.rs"]
pub mod sweep;
#[path = "../../it/support/tar_layer.rs"]
pub mod tar_layer;
#[path = "../../it/support/tools.rs"]
pub mod tools;
