//! The states of agents as the store has them, for evicted agents.

use std::sync::Arc;

use anyhow::Context;
use estop_config::printable::escaped;
use estop_core::engine::Snapshot;
use estop_gateway::States;
use estop_journal::Record;
use estop_store::{Journal, Store};

/// The store, asked by the data plane.
pub(super) struct StoredStates(pub(super) Arc<dyn Store>);

impl States for StoredStates {
    fn fetch(&self, agent: &str, told: u64) -> Option<Snapshot> {
        match state_after(&*self.0, agent, told) {
            Ok(state) => Some(state),
            Err(error) => {
                let error = escaped(&format!("{error:#}"));
                tracing::error!(target: "storage", "the state of agent {agent} cannot be read: {error}. It is refused.");
                None
            }
        }
    }
}

/// An agent after `told` records: as it was last kept, told what is missing. If some of that was pruned, the state after what
/// was pruned is told instead.
fn state_after(store: &dyn Store, agent: &str, told: u64) -> anyhow::Result<Snapshot> {
    let kept = store.state(agent)?.and_then(|kept| Snapshot::read(&kept.state).ok());
    if let Some(state) = kept.filter(|kept| kept.told <= told)
        && let Some(state) = tell_missing(store, agent, state, told)?
    {
        return Ok(state);
    }
    let base = store.base_state(agent)?;
    let base = base.map_or_else(|| Ok(Snapshot::default()), |base| Snapshot::read(&base))?;
    tell_missing(store, agent, base, told)?.context("records that it needs are gone")
}

/// `None` if some of the missing records are gone.
fn tell_missing(
    store: &dyn Journal,
    agent: &str,
    mut state: Snapshot,
    told: u64,
) -> anyhow::Result<Option<Snapshot>> {
    let missing = told.checked_sub(state.told).context("it is of a later record")?;
    let lines = store.records_of(agent, None, usize::try_from(missing)?)?;
    if (lines.len() as u64) < missing {
        return Ok(None);
    }
    for line in lines.iter().rev() {
        let record = Record::parse(line)?;
        let event = record.event.context("a record of an agent has no event")?;
        state.tell(record.now, &event);
    }
    Ok(Some(state))
}
