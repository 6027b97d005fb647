//! The commands, one file each. A command prints its answer and says how the process should end.

pub mod eval;
pub mod replay;
pub mod verify;

/// How a command ended, as its exit code (SPEC §13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: fine.
    Fine,
    /// 1: the answer is "no": it differs, it was found, it was refused.
    No,
}
