//! The local store: what it remembers, what it protects, what it collects.

mod automatic;
mod collector;
mod crash;
mod damage;
mod offline;
mod protection;
mod setup;
