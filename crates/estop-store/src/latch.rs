//! The latch file: the red button's state on the disk, beside the database and independent of it (KS-3).
//!
//! One small file of two slots, allocated once, so that a full disk cannot keep a kill from being written. Each write
//! goes to the older slot and is synced; the other one still holds what was before. Both are plain text with a
//! checksum: a person can read them with `cat`. A slot that is not exactly as it was written means that nobody knows
//! what was acknowledged, and the system starts shut down.
//!
//! Two processes write it: estop, and `estop kill` when estop does not answer. Each reads, decides and writes under a
//! lock of the data directory, and signs what it writes.
//!
//! [`LatchFile`] is the only thing that reads and writes it; `merge` says what may be written over what, and
//! `requested_kill` what a slot of somebody else asks this estop for.

mod file;
mod merge;
mod requested_kill;
mod slot;

use estop_core::system::button::Latched;
use estop_core::system::{Channel, Channels, GateView, SystemState};

pub use file::{LatchFile, latch_path};
pub use requested_kill::{RequestedKill, is_of_daemon, is_of_this_daemon};

/// What a latch file said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundLatch {
    /// There is none.
    Missing,
    /// This.
    Valid(Latched),
    /// It cannot be trusted, for this reason.
    Damaged(String),
}

impl FoundLatch {
    /// What a start must believe (KS-3): a latch that is missing beside a database, or cannot be read, is a pressed
    /// button. `None` is a first start.
    pub fn believed(self, is_first_start: bool, wall: i64) -> Option<Latched> {
        let why = match self {
            FoundLatch::Valid(latched) => return Some(latched),
            FoundLatch::Missing if is_first_start => return None,
            FoundLatch::Missing => "the latch file is missing beside its database".to_owned(),
            FoundLatch::Damaged(why) => why,
        };
        let shut = GateView { epoch: 0, state: SystemState::Shutdown, shut: Channels::ALL };
        Some(Latched { note: Some(why), ..Latched::at_start(shut, wall) })
    }
}

/// Who wrote a slot, and the number of the write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotVersion {
    /// A name that no other process has; empty in files of before.
    pub writer: String,
    /// Grows with each write, whoever writes.
    pub serial: u64,
}

/// What is written into a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// How the button stands.
    pub latched: Latched,
    /// The channels whose kill the writer asks estop for: while nothing passes, the shut ones do not tell.
    pub asked: Channels,
}

impl From<Latched> for Entry {
    fn from(latched: Latched) -> Entry {
        Entry { latched, asked: Channels::NONE }
    }
}

/// The newest slot, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundSlot {
    /// What it says.
    pub found: FoundLatch,
    /// Whose it is; `None` if it cannot be read.
    pub mark: Option<SlotVersion>,
    /// See [`Entry::asked`].
    pub asked: Channels,
}

impl FoundSlot {
    /// Whether a channel is shut, by how the button stands or by a kill that no estop has carried out yet.
    pub fn shuts(&self, channel: Channel) -> bool {
        let FoundLatch::Valid(latched) = &self.found else { return false };
        !latched.gate.lets_pass(channel) || self.asked.contains(channel)
    }
}
