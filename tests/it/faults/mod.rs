//! Everything that a disk can do to a run: calls that fail one by one, and the power that goes.
//! (Rows L2 and L6 of the score sheet.)

mod collection;
mod edits;
mod failing;
mod moves;
mod power;
mod scene;
