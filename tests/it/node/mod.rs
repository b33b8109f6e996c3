//! `cache gc`, `ls` and `match` with `--cri`, on real containerd.

mod collector;
mod doubt;
mod pins;
mod setup;
