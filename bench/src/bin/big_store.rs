//! Makes a data directory as an estop has after a long time: many agents, many records, every state kept.
//!
//! Usage: `big_store FOLDER 10000 1000000`. `bench/start/run.py` makes one and starts estop on it.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use estop_core::engine::AgentState;
use estop_core::event::{Event, EventKind};
use estop_core::journal::{Chains, Happened, SYSTEM};
use estop_core::policy::Policy;
use estop_core::system::{System, SystemEvent};
use estop_core::time::{Millis, Now};
use estop_store::{AgentSeen, Durability, Journal, JournalBatch, Lines, Snapshot, Sqlite, SqliteOptions};

/// Records stored at once.
const BATCH: u64 = 10_000;
/// Milliseconds from record to record. The last is of now: nothing is so old that estop lets it go while it is measured.
const BETWEEN_MS: u64 = 500;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().context("usage: big_store FOLDER AGENTS RECORDS")?;
    let mut number = |what| arguments.next().context(what)?.parse::<u64>().context(what);
    let (agents, records) = (number("AGENTS")?, number("RECORDS")?);
    std::fs::create_dir_all(&folder)?;
    let store = Sqlite::open(&Path::new(&folder).join("estop.db"), SqliteOptions::default())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let begin = i64::try_from(now)?.saturating_sub_unsigned(records * BETWEEN_MS);
    let states = vec![AgentState::default(); agents as usize];
    Making { store, chains: Chains::default(), states, begin }.fill(records)
}

struct Making {
    store: Sqlite,
    chains: Chains,
    states: Vec<AgentState>,
    begin: i64,
}

impl Making {
    fn fill(mut self, records: u64) -> anyhow::Result<()> {
        let policy = Policy::default();
        let mut batch = JournalBatch::default();
        let mut lines = Lines { first_seq: 1, first_wall: self.begin, ..Lines::default() };
        let started = SystemEvent::Started { found: None };
        let decision = System::default().handle(Now::default(), &started);
        self.chains.append(
            SYSTEM,
            Now { mono: Millis(0), wall: self.begin },
            Happened::System(&started),
            &decision,
            &mut lines.bytes,
        );
        for number in 1..records {
            let (at, name) = self.agent(number);
            let since = number * BETWEEN_MS;
            let now = Now { mono: Millis(since), wall: self.begin.saturating_add_unsigned(since) };
            let first = number <= self.states.len() as u64;
            let what = if first { policy_changed(&policy) } else { EventKind::PromptSubmitted };
            let event = Event::open(what);
            let decision = self.states[at].handle(now, &event, &policy);
            self.chains.append(&name, now, Happened::Agent(&event), &decision, &mut lines.bytes);
            if first {
                batch.seen.push(AgentSeen { agent: name.into(), at: now.wall });
            }
            if number % BATCH == 0 || number + 1 == records {
                (lines.last_seq, lines.last_wall) = (self.chains.seq(), now.wall);
                let next = Lines { first_seq: lines.last_seq + 1, first_wall: now.wall, ..Lines::default() };
                batch.lines = Some(std::mem::replace(&mut lines, next));
                self.store.append(Arc::new(std::mem::take(&mut batch)), Durability::Process)?;
            }
        }
        self.keep_states(&policy)
    }

    fn agent(&self, number: u64) -> (usize, String) {
        let at = (number as usize - 1) % self.states.len();
        (at, format!("agent-{at}"))
    }

    fn keep_states(self, policy: &Policy) -> anyhow::Result<()> {
        let seq = self.chains.seq();
        let mut batch = JournalBatch::default();
        for (at, state) in self.states.iter().enumerate() {
            let agent = format!("agent-{at}");
            let told = self.chains.head(&agent).map_or(0, |head| head.count);
            batch.snapshots.push(Snapshot { agent: agent.into(), seq, state: state.snapshot(told, policy) });
        }
        Ok(self.store.append(Arc::new(batch), Durability::Disk)?)
    }
}

fn policy_changed(policy: &Policy) -> EventKind {
    EventKind::PolicyChanged { by: "configuration".into(), policy: Box::new(policy.clone()) }
}
