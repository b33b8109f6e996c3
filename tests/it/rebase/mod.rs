//! The main job, from every place to every place, and what it promises on the command line.

mod old_base;
mod places;
mod platforms;
mod promises;
