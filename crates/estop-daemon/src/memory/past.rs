//! What was before this process: chains, agents and the gate, as the store and the tail tell it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use estop_core::agent::standing::Standing;
use estop_core::budget::Budget;
use estop_core::chain::{ChainHead, Heads};
use estop_core::decision::Decision;
use estop_core::engine::Snapshot;
use estop_core::event::Event;
use estop_core::ids::Name;
use estop_core::journal::{Chains, Record, SYSTEM, TailLine};
use estop_core::system::button::Latched;
use estop_core::system::{Channels, GateView, System, SystemDecision, SystemEvent, SystemState};
use estop_core::time::Now;
use estop_gateway::{EvictedAgents, Remembered};
use estop_store::{AgentRepo, Journal, Sqlite, tail_rest};

use super::alive::{self, Alive};
use super::latch;
use super::missing::{Missing, Newest};
use super::open::{self, Open};
use super::states::last_known;

/// Records of the system that are told again at a start: years of them.
const SYSTEM_RECORDS_MAX: usize = 100_000;

/// What was before this process.
pub(super) struct Past {
    /// For the data plane.
    pub(super) remembered: Remembered,
    /// The chains as they are stored.
    pub(super) chains: Chains,
    /// Records of the tail that are not stored yet.
    pub(super) leftover: Vec<Leftover>,
    /// How the agents stood after the stored records.
    pub(super) standings: Vec<(Name, Standing)>,
    /// The generation the new tail has.
    pub(super) generation: u64,
    /// What else is known of the agents.
    pub(super) known: Vec<Known>,
    /// Requests that were under way after the stored records.
    pub(super) open: Vec<Open>,
}

/// What else is known of an agent.
pub(super) struct Known {
    pub(super) agent: Name,
    pub(super) deleted: bool,
    /// When it last called; 0 = nobody knows.
    pub(super) seen: i64,
}

/// A record of the tail that is not stored yet.
pub(super) struct Leftover {
    pub(super) line: TailLine,
    /// What was decided, judged again; `None` for the system.
    pub(super) decision: Option<Decision>,
}

impl Past {
    pub(super) fn read(data_dir: &Path, store: &Sqlite, wall: i64) -> anyhow::Result<Past> {
        let heads = store.heads()?;
        let last_seq = store.last_seq()?;
        let (agents, known) = snapshots(store, &heads)?;
        let mut folding = Folding { agents, last: Now::default(), system: System::default(), told: None };
        let newest = folding.catch_up(store, &heads, last_seq)?;
        folding.read_last(store, last_seq)?;
        folding.read_system(store, &heads)?;
        let rest = tail_rest(data_dir, mark(store)?).context("the journal's tail")?;
        let standing = |(name, kept): (&Name, &Snapshot)| (name.clone(), kept.state.standing());
        let standings = folding.agents.iter().map(standing).collect();
        let open = folding.open_requests(store, &newest)?;
        drop(newest);
        let leftover = folding.take_tail(&rest.lines)?;
        folding.read_alive(data_dir, mark(store)?.generation);
        let away_ms = u64::try_from(wall.saturating_sub(folding.last.wall)).unwrap_or(0);
        let is_first = last_seq == 0 && leftover.is_empty();
        let away_ms = if is_first { 0 } else { away_ms };
        let remembered = Remembered {
            system: folding.system,
            told: folding.told,
            latch: latch::believed(data_dir, is_first, wall)?,
            mono: folding.last.mono.plus(away_ms),
            away_ms,
            agents: folding.agents.into_iter().collect(),
            added: BTreeSet::new(),
            over: BTreeMap::new(),
            fleet: Budget::default(),
            made_keys: Vec::new(),
            evicted: EvictedAgents::default(),
            jobs: Vec::new(),
        };
        let heads = heads.into_iter().map(|head| (head.chain.clone(), heads_of(&head)));
        Ok(Past {
            remembered,
            chains: Chains::resume(last_seq, heads),
            leftover,
            standings,
            generation: rest.next_generation,
            known,
            open,
        })
    }
}

fn mark(store: &Sqlite) -> anyhow::Result<estop_store::TailMark> {
    Ok(store.tail()?)
}

fn heads_of(head: &ChainHead) -> Heads {
    Heads { count: head.count, events: head.events, decisions: head.decisions }
}

/// The agents' states as they were last kept. One that cannot be read begins where its journal does.
fn snapshots(store: &Sqlite, heads: &[ChainHead]) -> anyhow::Result<(BTreeMap<Name, Snapshot>, Vec<Known>)> {
    let (mut agents, mut known) = (BTreeMap::new(), Vec::new());
    for kept in store.states()? {
        agents.insert(kept.agent.clone(), last_known(store, &kept.agent, Some(&kept.state))?);
        let seen = kept.last_seen_at.unwrap_or(0);
        known.push(Known { agent: kept.agent, deleted: kept.deleted, seen });
    }
    for head in heads
        .iter()
        .filter(|head| &*head.chain != SYSTEM && !agents.contains_key(&head.chain))
        .collect::<Vec<_>>()
    {
        agents.insert(head.chain.clone(), last_known(store, &head.chain, None)?);
    }
    Ok((agents, known))
}

/// Brings states up to the newest record.
struct Folding {
    agents: BTreeMap<Name, Snapshot>,
    last: Now,
    system: System,
    /// Who brought the system's state about, and why.
    told: Option<Latched>,
}

impl Folding {
    /// Tells each agent what its state does not cover yet: its newest records, which stand near the end. Those of
    /// agents with requests under way are given back, the newest first.
    fn catch_up(&mut self, store: &Sqlite, heads: &[ChainHead], last_seq: u64) -> anyhow::Result<Newest> {
        let mut missing = Missing::default();
        for head in heads.iter().filter(|head| &*head.chain != SYSTEM) {
            let told = self.agents.get(&head.chain).map_or(0, |kept| kept.told);
            missing.expect(&head.chain, head.count.saturating_sub(told));
        }
        missing.read_back(store, last_seq)?;
        let mut newest = missing.found()?;
        for (agent, lines) in &newest {
            for line in lines.iter().rev() {
                let record = Record::parse(line)?;
                let now = Now { mono: record.head.mono, wall: record.head.wall };
                let event = record.head.event.context("a record of an agent has no event")?;
                self.tell(agent, now, &event);
            }
        }
        newest.retain(|agent, _| self.agents.get(agent).is_some_and(|kept| kept.state.in_flight() > 0));
        Ok(newest)
    }

    /// The newest record says what time it was.
    fn read_last(&mut self, store: &Sqlite, last_seq: u64) -> anyhow::Result<()> {
        let mut newest = Vec::new();
        store.blocks(last_seq, last_seq, &mut |block| {
            newest.clone_from(&block.bytes);
            true
        })?;
        if let Some(line) = newest.split_inclusive(|byte| *byte == b'\n').next_back() {
            let head = Record::parse(line)?.head;
            self.last = Now { mono: head.mono, wall: head.wall };
        }
        Ok(())
    }

    /// Tells the system its whole chain; of one whose beginning is gone, from the state after that on.
    fn read_system(&mut self, store: &Sqlite, heads: &[ChainHead]) -> anyhow::Result<()> {
        let count = |heads: &[ChainHead]| {
            heads.iter().find(|head| &*head.chain == SYSTEM).map_or(0, |head| head.count)
        };
        let mut expected = count(heads);
        if let Some(base) = store.base_state(SYSTEM)? {
            self.system = serde_json::from_slice(&base).context("the system's state")?;
            expected = expected.saturating_sub(count(&store.pruned()?.heads));
        }
        let lines = store.records_of(SYSTEM, None, SYSTEM_RECORDS_MAX)?;
        let is_whole = lines.len() as u64 == expected;
        if lines.is_empty() && !is_whole {
            // There was a gate word, and it is gone.
            self.system =
                System::at(GateView { epoch: 0, state: SystemState::Shutdown, shut: Channels::ALL });
        }
        for (at, line) in lines.iter().rev().enumerate() {
            let record = Record::parse(line)?;
            if at == 0 && !is_whole {
                self.system = System::at(gate_after(record.decision_bytes)?);
                continue;
            }
            let now = Now { mono: record.head.mono, wall: record.head.wall };
            let event = record.head.system.context("a record of the system has no event")?;
            self.tell_system(now, &event);
        }
        Ok(())
    }

    fn tell_system(&mut self, now: Now, event: &SystemEvent) {
        let decision = self.system.handle(now, event);
        let told = self.told.take().unwrap_or_else(|| Latched::at_start(decision.gate, now.wall));
        self.told = Some(told.after(event, &decision, now.wall));
    }

    fn open_requests(&self, store: &Sqlite, newest: &Newest) -> anyhow::Result<Vec<Open>> {
        let mut all = Vec::new();
        for (agent, kept) in self.agents.iter().filter(|(_, kept)| kept.state.in_flight() > 0) {
            let newest = newest.get(agent).map_or(&[][..], Vec::as_slice);
            all.append(&mut open::find(store, agent, kept.state.open_requests(), newest)?);
        }
        Ok(all)
    }

    fn take_tail(&mut self, lines: &[u8]) -> anyhow::Result<Vec<Leftover>> {
        let mut taken = Vec::new();
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let line = TailLine::parse(line).context("the journal's tail")?;
            self.last = Now { mono: self.last.mono.max(line.now.mono), wall: line.now.wall };
            let decision = line.event.as_ref().map(|event| self.tell(&line.chain, line.now, event));
            if let Some(event) = &line.system {
                self.tell_system(line.now, event);
            }
            taken.push(Leftover { line, decision });
        }
        Ok(taken)
    }

    /// Nothing may have happened in the last hours of the process before: it was alive all the same.
    fn read_alive(&mut self, data_dir: &Path, generation: u64) {
        let seen = alive::read(data_dir).filter(|seen| seen.generation <= generation);
        if let Some(Alive { now, .. }) = seen.filter(|seen| seen.now.mono > self.last.mono) {
            self.last = now;
        }
    }

    fn tell(&mut self, chain: &str, now: Now, event: &Event) -> Decision {
        self.last.mono = self.last.mono.max(now.mono);
        self.agents.entry(chain.into()).or_default().tell(now, event)
    }
}

fn gate_after(decision: &[u8]) -> anyhow::Result<GateView> {
    let decision: SystemDecision = serde_json::from_slice(decision).context("a decision of the system")?;
    Ok(decision.gate)
}
