//! The local store: what it remembers, what it protects, what it collects.

mod offline;
