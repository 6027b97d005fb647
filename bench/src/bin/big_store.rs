//! Makes a data directory as an estop has after a long time: many agents, many records, every state kept.
//!
//! Usage: `big_store FOLDER 10000 1000000`. `bench/start/run.py` makes one and starts estop on it.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use estop_core::engine::AgentState;
use estop_core::event::{Event, EventKind};
use estop_core::ids::Hash64;
use estop_core::policy::Policy;
use estop_core::system::SystemEvent;
use estop_core::time::{Millis, Now};
use estop_journal::{Manifest, Payload, RecordBody, SYSTEM, State, write_record};
use estop_store::segments::{JOURNAL_FOLDER, SegmentWriter, seal};
use estop_store::{AgentSeen, Cursor, Durability, Journal, JournalBatch, Snapshot, Sqlite, SqliteOptions};

/// Records stored at once.
const BATCH: u64 = 10_000;
/// As the daemon's.
const SEGMENT_BYTES: u64 = 16 << 20;
/// Milliseconds from record to record. The last is of now: nothing is so old that estop lets it go while it is measured.
const BETWEEN_MS: u64 = 500;
/// Which journal it is.
const JOURNAL: Hash64 = Hash64(1);

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().context("usage: big_store FOLDER AGENTS RECORDS")?;
    let mut number = |what| arguments.next().context(what)?.parse::<u64>().context(what);
    let (agents, records) = (number("AGENTS")?, number("RECORDS")?);
    std::fs::create_dir_all(&folder)?;
    let folder = Path::new(&folder);
    let store = Sqlite::open(&folder.join("estop.db"), SqliteOptions::default())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let begin = i64::try_from(now)?.saturating_sub_unsigned(records * BETWEEN_MS);
    let states = vec![AgentState::default(); agents as usize];
    let first = Now { mono: Millis(0), wall: begin };
    let writer = SegmentWriter::create(&folder.join(JOURNAL_FOLDER), JOURNAL, "bench", first)?;
    let (body, lines, manifest) = Default::default();
    Making { store, writer, manifest, state: State::default(), body, lines, states, begin }.fill(records)
}

struct Making {
    store: Sqlite,
    writer: SegmentWriter,
    manifest: Manifest,
    state: State,
    body: RecordBody,
    lines: Vec<u8>,
    states: Vec<AgentState>,
    begin: i64,
}

impl Making {
    fn fill(mut self, records: u64) -> anyhow::Result<()> {
        let policy = Policy::default();
        let mut batch = JournalBatch::default();
        let started = SystemEvent::Started { found: None };
        let now = Now { mono: Millis(0), wall: self.begin };
        let decision = self.state.apply(now, &started);
        self.body.write(SYSTEM, now, Payload::System(&started), &decision);
        self.append(SYSTEM);
        for number in 1..records {
            let (at, name) = self.agent(number);
            let since = number * BETWEEN_MS;
            let now = Now { mono: Millis(since), wall: self.begin.saturating_add_unsigned(since) };
            let first = number <= self.states.len() as u64;
            let what = if first { policy_changed(&policy) } else { EventKind::PromptSubmitted };
            let event = Event::open(what);
            let decision = self.states[at].handle(now, &event, &policy);
            self.body.write(&name, now, Payload::Agent(&event), &decision);
            self.append(&name);
            if first {
                batch.seen.push(AgentSeen { agent: name.into(), at: now.wall });
            }
            if number % BATCH == 0 || number + 1 == records {
                self.write()?;
                batch.cursor = Some(Cursor { journal: JOURNAL, seq: self.state.seq });
                self.store.append(Arc::new(std::mem::take(&mut batch)), Durability::Process)?;
            }
        }
        self.writer.sync()?;
        self.store.index_segments()?;
        self.keep_states(&policy)
    }

    fn append(&mut self, agent: &str) {
        let (seq, n) = self.state.next(agent);
        write_record(&mut self.lines, seq, n, &self.body);
        self.state.add(agent);
    }

    fn write(&mut self) -> anyhow::Result<()> {
        self.writer.write(&self.lines, self.state.seq)?;
        self.lines.clear();
        let at = self.writer.position();
        if at.bytes >= SEGMENT_BYTES {
            self.writer.begin_segment(&self.state)?;
            self.writer.sync()?;
            seal(self.writer.folder(), at.segment, &mut self.manifest)?;
        }
        Ok(())
    }

    fn agent(&self, number: u64) -> (usize, String) {
        let at = (number as usize - 1) % self.states.len();
        (at, format!("agent-{at}"))
    }

    fn keep_states(self, policy: &Policy) -> anyhow::Result<()> {
        let seq = self.state.seq;
        let mut batch = JournalBatch::default();
        for (at, state) in self.states.iter().enumerate() {
            let agent = format!("agent-{at}");
            let told = self.state.count(&agent);
            batch.snapshots.push(Snapshot { agent: agent.into(), seq, state: state.snapshot(told, policy) });
        }
        Ok(self.store.append(Arc::new(batch), Durability::Disk)?)
    }
}

fn policy_changed(policy: &Policy) -> EventKind {
    EventKind::PolicyChanged { by: "configuration".into(), policy: Box::new(policy.clone()) }
}
