//! From a config and a root to what a runtime starts there: the user, the working directory, the
//! environment and the chain of programs ([`start`]); and what the application's programs use.
//!
//! Pure, and used twice: for the source on its own root and for the result on the new one. The rules
//! are those of runc, containerd and Linux; a test compares them with what `runc` really does.

mod accounts;
mod chain;
mod container;
mod interpreted;
mod named_paths;
mod needs;
mod pod;
mod program;
mod start;
mod startup;
mod wrapper;

pub use accounts::{AccountFile, AccountLine, Accounts, Identity, UnknownAccount, UserText, Which, identify, is_name};
pub use chain::{ChainEnd, Executed, FileStamp, Role, ShellScript};
pub use container::{Command, Container, DEFAULT_PATH, MEMBER_ORDER, set_member};
pub use interpreted::{Interpreted, InterpreterNow, ScriptLanguage, StuckExtension};
pub use named_paths::{LostPath, MoveView, ProcessView, parts_of};
pub use needs::{Absent, AbsentKind, Evidence, LeavingPackage};
pub use pod::{MountKind, PodContainer, PodMount, PodSurroundings, PodUser, PodVariable, bare_layer, closed_to_result};
pub use program::{Helper, is_seen, is_there, library_directories, search};
pub use start::{Start, StartDirectory, StartDirectoryState, start, start_of};
pub use startup::{Health, LostWord, OwnStartup, Setup, Startup, WordOf, look, look_alone, view};
