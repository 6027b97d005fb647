//! What a run is made of.

/// What a run is made of. Seed and agents decide all that happens; events only when it ends.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The seed.
    pub seed: u64,
    /// How many agents take part.
    pub agents: usize,
    /// How many events are judged.
    pub events: u64,
    /// Whether the journal is replayed on the way.
    pub replaying: Replaying,
    /// Whether every third agent has its tools behind the gate of an MCP server.
    pub gated: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config { seed: 1, agents: 2_000, events: 1_000_000, replaying: Replaying::On, gated: false }
    }
}

/// Whether a run is replayed while it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaying {
    /// Each record.
    On,
    /// Only written, for the digest.
    Off,
}
