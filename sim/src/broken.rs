//! An invariant that does not hold: which, where, and how to see it again.

use std::fmt;

use crate::config::Config;

/// One named rule found broken, without the circumstances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The invariant's name: the function in `invariants` that checks it.
    pub invariant: &'static str,
    /// What was expected and what was found.
    pub detail: String,
}

impl Breach {
    /// A breach of `invariant`.
    pub fn new(invariant: &'static str, detail: impl Into<String>) -> Breach {
        Breach { invariant, detail: detail.into() }
    }
}

/// What a check says.
pub type Holds = Result<(), Breach>;

/// `Ok` if it holds; the detail is only written down if it does not.
pub fn ensure(holds: bool, invariant: &'static str, detail: impl FnOnce() -> String) -> Holds {
    if holds { Ok(()) } else { Err(Breach::new(invariant, detail())) }
}

/// A broken invariant with all that is needed to see it again.
#[derive(Clone, Debug)]
pub struct Broken {
    /// Which, and what is wrong.
    pub breach: Breach,
    /// The run.
    pub config: Config,
    /// Number of the event, from 1.
    pub event_number: u64,
    /// The agent, with its temperament.
    pub agent: String,
    /// What happened.
    pub event: String,
    /// What was decided.
    pub decision: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "broken invariant: {}", self.breach.invariant)?;
        writeln!(f, "  {}", self.breach.detail)?;
        let Config { seed, agents, .. } = self.config;
        writeln!(f, "  seed {seed}, event {}, agent {}", self.event_number, self.agent)?;
        writeln!(f, "  event:    {}", self.event)?;
        writeln!(f, "  decision: {}", self.decision)?;
        let events = self.event_number;
        write!(
            f,
            "  again:    cargo run --release -p estop-sim -- --seed {seed} --agents {agents} --events {events}"
        )
    }
}

impl std::error::Error for Broken {}
