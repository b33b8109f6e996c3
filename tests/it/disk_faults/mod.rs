//! Everything that a disk can do to a run: calls that fail one by one, and the power that goes.

mod cases;
mod failing;
mod power;
