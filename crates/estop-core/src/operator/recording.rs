//! Recording what one agent says and does, for a person who asked for it by the agent's name.

use crate::ids::Name;

/// What a person wants recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecording {
    /// Of which agent.
    pub agent: Name,
    /// For how long at most.
    pub for_ms: u64,
    /// How much at most.
    pub bytes_max: u64,
}

/// A line of a recording is no longer: what would be is left out. Chosen: four times what the largest models read at once.
pub const RECORDING_LINE_MAX: usize = 16 << 20;

/// A line of a recording: masked, without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordingLine {
    /// More may follow.
    Next(String),
    /// It says why nothing follows.
    Last(String),
}

/// Takes a line of a recording; `false` if it is not taken, because nobody listens or somebody reads too slowly. It may wait.
pub type OnLine = Box<dyn FnMut(RecordingLine) -> bool + Send>;

/// Held as long as somebody listens; dropping it ends the recording.
pub type Recording = Box<dyn Send + Sync>;

/// A recording under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingView {
    /// Of which agent.
    pub agent: Name,
    /// Who records.
    pub by: Name,
    /// Since when, by the wall clock.
    pub since: i64,
    /// When it ends by itself at the latest.
    pub until: i64,
}
