//! The states of agents as the store has them, for agents at rest and for a start.

use anyhow::Context;
use estop_config::printable::escaped;
use estop_core::engine::Snapshot;
use estop_core::journal::Record;
use estop_core::time::Now;
use estop_gateway::States;
use estop_store::{AgentRepo, Journal, Sqlite};

/// The store, asked by the data plane.
pub(super) struct StoredStates(pub(super) Sqlite);

impl States for StoredStates {
    fn fetch(&self, agent: &str, told: u64) -> Option<Snapshot> {
        match state_after(&self.0, agent, told) {
            Ok(state) => Some(state),
            Err(error) => {
                let error = escaped(&format!("{error:#}"));
                eprintln!("estop: the state of agent {agent} cannot be read: {error}. It is refused.");
                None
            }
        }
    }
}

/// An agent after `told` records: as it was last kept, told what is missing.
fn state_after(store: &Sqlite, agent: &str, told: u64) -> anyhow::Result<Snapshot> {
    let kept = store.state(agent)?.map(|kept| kept.state);
    let mut state = last_known(store, agent, kept.as_deref())?;
    let missing = told.checked_sub(state.told).context("it is of a later record")?;
    if missing == 0 {
        return Ok(state);
    }
    let lines = store.records_of(agent, None, usize::try_from(missing)?)?;
    anyhow::ensure!(lines.len() as u64 == missing, "{missing} records are needed, {} are left", lines.len());
    for line in lines.iter().rev() {
        let head = Record::parse(line)?.head;
        let event = head.event.context("a record of an agent has no event")?;
        state.tell(Now { mono: head.mono, wall: head.wall }, &event);
    }
    Ok(state)
}

/// A state as it was kept; one that cannot be read is replaced by the one after what was pruned, or by none.
pub(super) fn last_known(store: &Sqlite, agent: &str, kept: Option<&[u8]>) -> anyhow::Result<Snapshot> {
    if let Some(state) = kept.and_then(|kept| Snapshot::read(kept).ok()) {
        return Ok(state);
    }
    let base = store.base_state(agent)?;
    Ok(base.map_or_else(|| Ok(Snapshot::default()), |base| Snapshot::read(&base))?)
}
