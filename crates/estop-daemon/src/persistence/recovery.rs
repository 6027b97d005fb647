//! What was before this process: agents and the gate, as the journal tells them, and how far rows were made of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use estop_core::agent::standing::Standing;
use estop_core::budget::Budget;
use estop_core::decision::Decision;
use estop_core::engine::Snapshot;
use estop_core::event::Event;
use estop_core::ids::Name;
use estop_core::time::Now;
use estop_gateway::{EvictedAgents, RestoredState};
use estop_journal::{Record, SYSTEM, State, records};
use estop_store::segments::{Recovered, base_states};
use estop_store::{Journal, Store};

use super::latch;
use super::newest_records::{NewestRecords, RecordsByAgent};
use super::open_requests::{self, OpenRequest};

/// What was before this process, up to the record of which the last row was made.
pub(super) struct Recovery {
    /// What all records add up to.
    pub(super) state: State,
    /// The record of which the last row was made.
    pub(super) cursor: u64,
    /// The agents after that record.
    agents: BTreeMap<Name, Snapshot>,
    /// When estop was last alive.
    last: Now,
    /// What else is known of the agents.
    pub(super) known: Vec<KnownAgent>,
    /// Agents whose kept states lack records.
    pub(super) lagging: Vec<Name>,
    /// Requests that were under way after that record.
    pub(super) open: Vec<OpenRequest>,
    is_first: bool,
}

/// What else is known of an agent.
pub(super) struct KnownAgent {
    pub(super) agent: Name,
    pub(super) deleted: bool,
    /// When it last called; 0 = nobody knows.
    pub(super) seen: i64,
}

impl Recovery {
    pub(super) fn read(store: &dyn Store, recovered: Option<&Recovered>) -> anyhow::Result<Recovery> {
        let Some(recovered) = recovered else {
            anyhow::ensure!(store.cursor()?.is_none(), "the journal is gone, but estop has run here");
            return Ok(Recovery::first());
        };
        let Recovered { state, last, .. } = recovered;
        let begins_after = store.begins_after()?;
        let cursor = match store.cursor()? {
            None => begins_after,
            Some(cursor) => {
                let is_same = cursor.journal == recovered.journal;
                anyhow::ensure!(
                    is_same,
                    "the database belongs to another journal: move it away to have it made anew"
                );
                anyhow::ensure!(
                    cursor.seq <= state.seq,
                    "the database knows of record {}, but the journal ends with {}: it was cut or replaced",
                    cursor.seq,
                    state.seq
                );
                anyhow::ensure!(
                    cursor.seq >= begins_after,
                    "records up to {begins_after} were pruned, but the database has only taken in those up to {}: \
                     move it away to have it made anew",
                    cursor.seq
                );
                cursor.seq
            }
        };
        let counts = counts_at(store, state, cursor)?;
        let (mut agents, known) = snapshots(store, state, &counts)?;
        let is_lagging =
            |agent: &&Name| agents.get(*agent).is_none_or(|kept| Some(&kept.told) < counts.get(*agent));
        let lagging = counts.keys().filter(is_lagging).cloned().collect();
        let newest = catch_up(store, &mut agents, &counts, cursor)?;
        let mut open = Vec::new();
        for (agent, kept) in agents.iter().filter(|(_, kept)| kept.state.in_flight() > 0) {
            let newest = newest.get(agent).map_or(&[][..], Vec::as_slice);
            open.append(&mut open_requests::find(store, agent, cursor, kept.state.open_requests(), newest)?);
        }
        let (state, last) = (state.clone(), *last);
        Ok(Recovery { state, cursor, agents, last, known, lagging, open, is_first: false })
    }

    fn first() -> Recovery {
        Recovery {
            state: State::default(),
            cursor: 0,
            agents: BTreeMap::new(),
            last: Now::default(),
            known: Vec::new(),
            lagging: Vec::new(),
            open: Vec::new(),
            is_first: true,
        }
    }

    /// How the agents stood after the last record of which rows were made, and how many records each had.
    pub(super) fn standings(&self) -> impl Iterator<Item = (&Name, Standing, u64)> {
        self.agents.iter().map(|(name, kept)| (name, kept.state.standing(), kept.told))
    }

    /// The next record of an agent: what is decided of it again.
    pub(super) fn tell(&mut self, agent: &str, now: Now, event: &Event) -> Decision {
        if !self.agents.contains_key(agent) {
            self.agents.insert(agent.into(), Snapshot::default());
        }
        self.agents.get_mut(agent).expect("it was just inserted if it was missing").tell(now, event)
    }

    /// For the data plane, once all records were told.
    pub(super) fn restored(self, data_dir: &Path, wall: i64) -> anyhow::Result<RestoredState> {
        let away_ms = u64::try_from(wall.saturating_sub(self.last.wall)).unwrap_or(0);
        let away_ms = if self.is_first { 0 } else { away_ms };
        Ok(RestoredState {
            system: self.state.system,
            told: self.state.button,
            latch: latch::believed(data_dir, self.is_first, wall)?,
            mono: self.last.mono.plus(away_ms),
            away_ms,
            agents: self.agents.into_iter().collect(),
            added: BTreeSet::new(),
            over: BTreeMap::new(),
            fleet: Budget::default(),
            made_keys: Vec::new(),
            evicted: EvictedAgents::default(),
            stopped_at: Vec::new(),
            jobs: Vec::new(),
        })
    }
}

/// How many records each agent had after a record.
fn counts_at(store: &dyn Journal, state: &State, seq: u64) -> anyhow::Result<BTreeMap<Name, u64>> {
    let agents = state.counts().filter(|(agent, _)| *agent != SYSTEM);
    let mut counts: BTreeMap<Name, u64> = agents.map(|(agent, count)| (agent.into(), count)).collect();
    store.blocks(seq + 1, state.seq, &mut |lines| {
        for (_, head) in records(lines) {
            if let Some(count) = counts.get_mut(head.agent) {
                *count = (*count).min(head.n - 1);
            }
        }
        true
    })?;
    Ok(counts)
}

/// The agents' states as they were last kept. One that cannot be used begins where its journal does.
fn snapshots(
    store: &dyn Store,
    state: &State,
    counts: &BTreeMap<Name, u64>,
) -> anyhow::Result<(BTreeMap<Name, Snapshot>, Vec<KnownAgent>)> {
    let (mut kept_states, mut seen) = (BTreeMap::new(), BTreeMap::new());
    for kept in store.states()? {
        if let Ok(state) = Snapshot::read(&kept.state) {
            kept_states.insert(kept.agent.clone(), state);
        }
        seen.insert(kept.agent, kept.last_seen_at.unwrap_or(0));
    }
    let set = state.settings.get("agent");
    let is_deleted = |agent: &Name| set.and_then(|set| set.get(agent)).is_some_and(|set| set["deleted"] == 1);
    let known = counts.keys().map(|agent| KnownAgent {
        agent: agent.clone(),
        deleted: is_deleted(agent),
        seen: seen.get(agent).copied().unwrap_or(0),
    });
    let known = known.collect();
    let (mut agents, mut bases, pruned) = (BTreeMap::new(), None, store.journal().first_state()?);
    for (agent, count) in counts.iter().filter(|(_, count)| **count > 0) {
        // One from before what was pruned lacks records that are gone.
        let fits = |state: &Snapshot| (pruned.count(agent)..=*count).contains(&state.told);
        let state = match kept_states.remove(agent).filter(fits) {
            Some(state) => state,
            None => {
                let journal = store.journal();
                let bases = match &mut bases {
                    Some(bases) => bases,
                    none @ None => none.insert(base_states(journal.folder(), &journal.manifest()?)?),
                };
                let base = bases.get(agent).map(|base| Snapshot::read(base));
                base.transpose().context("a state after what was pruned")?.unwrap_or_default()
            }
        };
        agents.insert(agent.clone(), state);
    }
    Ok((agents, known))
}

/// Tells each agent what its state does not cover yet: its newest records, which stand near the end. Those of agents with
/// requests under way are given back, the newest first.
fn catch_up(
    store: &dyn Journal,
    agents: &mut BTreeMap<Name, Snapshot>,
    counts: &BTreeMap<Name, u64>,
    last_seq: u64,
) -> anyhow::Result<RecordsByAgent> {
    let mut missing = NewestRecords::default();
    for (agent, count) in counts {
        let told = agents.get(agent).map_or(0, |kept| kept.told);
        missing.expect(agent, count.saturating_sub(told));
    }
    missing.read_back(store.journal(), last_seq)?;
    let mut newest = missing.found()?;
    for (agent, lines) in &newest {
        let state = agents.entry(agent.clone()).or_default();
        for line in lines.iter().rev() {
            let record = Record::parse(line)?;
            let event = record.event.context("a record of an agent has no event")?;
            state.tell(record.now, &event);
        }
    }
    newest.retain(|agent, _| agents.get(agent).is_some_and(|kept| kept.state.in_flight() > 0));
    Ok(newest)
}
