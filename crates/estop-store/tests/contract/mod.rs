//! What every store must do. Each function takes a fresh place to keep things in; a store's own test file names the
//! place and runs them all.
#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod access;
pub(crate) mod agents;
pub(crate) mod alerts;
pub(crate) mod cases;
pub(crate) mod evidence;
pub(crate) mod journal;
pub(crate) mod ledger;
pub(crate) mod retention;
pub(crate) mod runs;
pub(crate) mod system;
#[path = "../support/written_journal.rs"]
pub(crate) mod written_journal;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use estop_core::engine::Snapshot;
use estop_core::event::{Event, EventKind};
use estop_core::ids::Name;
use estop_core::system::{SettingChange, SystemEvent};
use estop_core::time::{Millis, Now};
use estop_journal::{Head, Record, Replay, SYSTEM};
use estop_store::segments::{JournalReader, base_states};
use estop_store::{Durability, Journal, JournalBatch, Store};
use written_journal::WrittenJournal;

/// Somewhere to keep things. What was stored is there when it is opened again.
pub(crate) trait Place {
    type Store: Store;

    /// Opens it; only one at a time may be open.
    fn open(&self) -> Self::Store;

    /// The data directory, with the journal in it.
    fn data_dir(&self) -> &Path;
}

pub(crate) const MINUTE: i64 = 60_000;

/// Writes a real journal, a minute from record to record.
pub(crate) struct JournalFixture {
    pub(crate) journal: WrittenJournal,
    /// What each agent's records add up to.
    pub(crate) agents: BTreeMap<Name, Snapshot>,
    /// How long a name in the lines is, to make them fill much room.
    pub(crate) name_len: usize,
}

impl JournalFixture {
    /// Begins a journal, or goes on with the one that is there.
    pub(crate) fn open(data_dir: &Path) -> JournalFixture {
        let journal = WrittenJournal::open(data_dir);
        let reader = JournalReader::new(journal.writer.folder());
        let states = base_states(reader.folder(), &reader.manifest().expect("a manifest")).expect("states");
        let read = |state: &Vec<u8>| Snapshot::read(state).expect("a state");
        let mut agents: BTreeMap<Name, Snapshot> =
            states.iter().map(|(agent, state)| (agent.clone(), read(state))).collect();
        let mut each = |lines: &[u8]| {
            for record in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let record = Record::parse(record).expect("a record");
                if let Some(event) = &record.event {
                    agents.entry(record.agent.as_ref().into()).or_default().tell(record.now, event);
                }
            }
            true
        };
        reader.records(1, u64::MAX, &mut each).expect("its records");
        JournalFixture { journal, agents, name_len: 0 }
    }

    /// The newest record.
    pub(crate) fn seq(&self) -> u64 {
        self.journal.state.seq
    }

    /// One record for each name.
    pub(crate) fn write(&mut self, agents: &[&str]) {
        for agent in agents {
            self.try_write(agent).expect("written");
        }
    }

    /// A record on a disk that may refuse: then nothing has happened.
    pub(crate) fn try_write(&mut self, agent: &str) -> io::Result<u64> {
        let at = self.seq() + 1;
        let now = Now { mono: Millis(at), wall: at as i64 * MINUTE };
        if agent == SYSTEM {
            let (kind, id) = ("preset".into(), "all".into());
            let changes = vec![SettingChange { kind, id, value: Some(at.into()) }];
            let event = SystemEvent::SettingsChanged { changes };
            return Ok(self.journal.system(now, &event));
        }
        let by = format!("someone {}", noise(self.name_len, at)).into();
        let event = Event::open(EventKind::AgentPaused { by });
        let mut after = self.agents.get(agent).cloned().unwrap_or_default();
        let decision = after.tell(now, &event);
        let seq = self.journal.try_agent(agent, now, &event, &decision)?;
        self.agents.insert(agent.into(), after);
        Ok(seq)
    }

    /// A batch that says that rows were made of everything so far.
    pub(crate) fn batch(&self) -> JournalBatch {
        JournalBatch { cursor: Some(self.journal.cursor()), ..JournalBatch::default() }
    }

    /// Rows of everything so far are made.
    pub(crate) fn store(&self, store: &impl Journal) {
        store.append(Arc::new(self.batch()), Durability::Process).expect("the next batch is stored");
    }

    /// Packs what there is, and notes where agents have records.
    pub(crate) fn seal(&mut self, store: &impl Journal) {
        self.store(store);
        self.journal.seal();
        store.index_segments().expect("indexed");
    }

    /// Lets the oldest sealed segment go, as estop does it; gives the newest record that is gone.
    pub(crate) fn prune(&self, store: &impl Journal) -> u64 {
        let reader = JournalReader::new(self.journal.writer.folder());
        let oldest = reader.manifest().expect("a manifest").sealed.first().map_or(0, |sealed| sealed.segment);
        let gone = self.journal.prune();
        store.forget_segments(oldest).expect("forgotten");
        gone
    }
}

/// Text that hardly gets shorter when it is sealed.
fn noise(len: usize, mut seed: u64) -> String {
    let next = |_| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[(seed >> 58) as usize])
    };
    (0..len).map(next).collect()
}

/// All records from one on.
pub(crate) fn read_from(store: &impl Journal, from: u64) -> Vec<u8> {
    let (mut bytes, mut next) = (Vec::new(), from);
    store
        .blocks(from, u64::MAX, &mut |lines| {
            for line in lines.split_inclusive(|byte| *byte == b'\n') {
                assert_eq!(seq(line), next, "records follow one another");
                next += 1;
            }
            bytes.extend_from_slice(lines);
            true
        })
        .expect("the journal can be read");
    bytes
}

/// A record's number.
pub(crate) fn seq(line: &[u8]) -> u64 {
    Head::read(line).expect("a record").seq
}

/// The whole journal as people get it.
pub(crate) fn exported(store: &impl Journal) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut each = |lines: &[u8]| {
        bytes.extend_from_slice(lines);
        true
    };
    store.export(&mut each).expect("the journal can be exported");
    bytes
}

/// Checks an export and recomputes every decision in it: nothing is missing, also at its end. Gives the newest record.
pub(crate) fn replay(lines: &[u8]) -> u64 {
    let mut replay = Replay::default();
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        replay.feed(line).expect("it is as it was written");
    }
    assert!(replay.checker().is_ended(), "nothing was cut off");
    replay.checker().state().seq
}
