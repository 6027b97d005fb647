//! What was before this process: chains, agents and the gate, as the store and the tail tell it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use estop_core::chain::{ChainHead, Heads};
use estop_core::decision::Decision;
use estop_core::engine::Snapshot;
use estop_core::event::{Event, What};
use estop_core::ids::Name;
use estop_core::journal::{Chains, Record, SYSTEM, TailLine};
use estop_core::standing::Standing;
use estop_core::system::{Channels, GateView, System, SystemDecision, SystemState};
use estop_core::time::Now;
use estop_gateway::Remembered;
use estop_store::{AgentRepo, Journal, Sqlite, tail_rest};

use super::missing::Missing;

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
        let mut folding =
            Folding { agents: snapshots(store)?, last: Now::default(), system: System::default() };
        folding.catch_up(store, &heads, last_seq)?;
        folding.read_last(store, last_seq)?;
        let rest = tail_rest(data_dir, mark(store)?).context("the journal's tail")?;
        anyhow::ensure!(
            !store.is_new() || rest.next_generation == 1,
            "there is a tail of the journal, but no database: put it back, or move tail-*.jsonl away to start anew"
        );
        let standing = |(name, kept): (&Name, &Snapshot)| (name.clone(), kept.state.standing());
        let standings = folding.agents.iter().map(standing).collect();
        let leftover = folding.take_tail(&rest.lines)?;
        let away_ms = u64::try_from(wall.saturating_sub(folding.last.wall)).unwrap_or(0);
        let is_first = last_seq == 0 && leftover.is_empty();
        let away_ms = if is_first { 0 } else { away_ms };
        let remembered = Remembered {
            system: folding.system,
            latch: None,
            mono: folding.last.mono.plus(away_ms),
            away_ms,
            agents: folding.agents.into_iter().collect(),
            over: BTreeMap::new(),
            made_keys: Vec::new(),
        };
        let heads = heads.into_iter().map(|head| (head.chain.clone(), heads_of(&head)));
        Ok(Past {
            remembered,
            chains: Chains::resume(last_seq, heads),
            leftover,
            standings,
            generation: rest.next_generation,
        })
    }
}

fn mark(store: &Sqlite) -> anyhow::Result<estop_store::TailMark> {
    Ok(store.tail()?)
}

fn heads_of(head: &ChainHead) -> Heads {
    Heads { count: head.count, events: head.events, decisions: head.decisions }
}

/// The agents' states as they were last kept. One that cannot be read begins anew and is told its whole journal.
fn snapshots(store: &Sqlite) -> anyhow::Result<BTreeMap<Name, Snapshot>> {
    let kept = store.load_agents()?.into_iter();
    let with_state = kept.filter(|kept| !kept.snapshot.is_empty());
    Ok(with_state.map(|kept| (kept.agent.name, Snapshot::read(&kept.snapshot).unwrap_or_default())).collect())
}

/// Brings states up to the newest record.
struct Folding {
    agents: BTreeMap<Name, Snapshot>,
    last: Now,
    system: System,
}

impl Folding {
    /// Tells each agent what its state does not cover yet: its newest records, which stand near the end.
    fn catch_up(&mut self, store: &Sqlite, heads: &[ChainHead], last_seq: u64) -> anyhow::Result<()> {
        let mut missing = Missing::default();
        for head in heads.iter().filter(|head| &*head.chain != SYSTEM) {
            let told = self.agents.get(&head.chain).map_or(0, |kept| kept.told);
            missing.expect(&head.chain, head.count.saturating_sub(told));
        }
        missing.read_back(store, last_seq)?;
        for (agent, lines) in missing.found()? {
            for line in lines.iter().rev() {
                let record = Record::parse(line)?;
                let now = Now { mono: record.head.mono, wall: record.head.wall };
                let event = record.head.event.context("a record of an agent has no event")?;
                self.tell(&agent, now, &event);
            }
        }
        Ok(())
    }

    /// The newest record says what time it was, those of the system how the gate stands.
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
        self.read_system(store)
    }

    /// Tells the system its whole chain; of one whose beginning is gone, from its first gate word on.
    fn read_system(&mut self, store: &Sqlite) -> anyhow::Result<()> {
        let lines = store.records_of(SYSTEM, None, SYSTEM_RECORDS_MAX)?;
        let is_whole =
            store.heads()?.iter().all(|head| &*head.chain != SYSTEM || head.count == lines.len() as u64);
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
            self.system.handle(now, &event);
        }
        Ok(())
    }

    fn take_tail(&mut self, lines: &[u8]) -> anyhow::Result<Vec<Leftover>> {
        let mut taken = Vec::new();
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let line = TailLine::parse(line).context("the journal's tail")?;
            self.last = Now { mono: self.last.mono.max(line.now.mono), wall: line.now.wall };
            let decision = line.event.as_ref().map(|event| self.tell(&line.chain, line.now, event));
            if let Some(event) = &line.system {
                self.system.handle(line.now, event);
            }
            taken.push(Leftover { line, decision });
        }
        Ok(taken)
    }

    fn tell(&mut self, chain: &str, now: Now, event: &Event) -> Decision {
        let kept = self.agents.entry(chain.into()).or_default();
        if let What::PolicyChanged { policy, .. } = &event.what {
            kept.policy = (**policy).clone();
        }
        kept.told += 1;
        self.last.mono = self.last.mono.max(now.mono);
        kept.state.handle(now, event, &kept.policy)
    }
}

fn gate_after(decision: &[u8]) -> anyhow::Result<GateView> {
    let decision: SystemDecision = serde_json::from_slice(decision).context("a decision of the system")?;
    Ok(decision.gate)
}
