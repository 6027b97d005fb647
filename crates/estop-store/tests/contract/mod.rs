//! What every store must do. Each function takes a fresh place to keep things in; a store's own test file names the
//! place and runs them all.
#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod access;
pub(crate) mod agents;
pub(crate) mod alerts;
pub(crate) mod cases;
pub(crate) mod journal;
pub(crate) mod ledger;
pub(crate) mod retention;
pub(crate) mod runs;
pub(crate) mod system;

use std::collections::BTreeMap;
use std::sync::Arc;

use estop_core::chain::ChainHead;
use estop_core::event::{Event, EventKind};
use estop_core::ids::Name;
use estop_core::journal::{Chains, Happened, Record};
use estop_core::time::{Millis, Now};
use estop_store::{
    BaseState, Durability, Journal, JournalBatch, Lines, Prunable, Pruned, Retention, Store, StoreError,
};
use sha2::{Digest as _, Sha256};

/// Somewhere to keep things. What was stored is there when it is opened again.
pub(crate) trait Place {
    type Store: Store;

    /// Opens it; only one at a time may be open.
    fn open(&self) -> Self::Store;
}

/// Writes real journal lines, a minute apart.
#[derive(Clone, Default)]
pub(crate) struct Scribe {
    pub(crate) chains: Chains,
    /// How long a name in the lines is, to make them fill much room.
    pub(crate) name_len: usize,
    /// Whether the names hardly get shorter when they are packed.
    pub(crate) noisy: bool,
}

pub(crate) const MINUTE: i64 = 60_000;

impl Scribe {
    /// A batch with one record for each name.
    pub(crate) fn batch(&mut self, agents: &[&str]) -> JournalBatch {
        let mut lines = Lines { first_seq: self.chains.seq() + 1, ..Lines::default() };
        for agent in agents {
            let at = self.chains.seq() + 1;
            let now = Now { mono: Millis(at), wall: at as i64 * MINUTE };
            let by = if self.noisy {
                noise(self.name_len, at).into()
            } else {
                format!("someone {at:0>len$}", len = self.name_len).into()
            };
            let event = Event::open(EventKind::AgentPaused { by });
            self.chains.append(agent, now, Happened::Agent(&event), &"noted", &mut lines.bytes);
        }
        lines.last_seq = self.chains.seq();
        lines.first_wall = lines.first_seq as i64 * MINUTE;
        lines.last_wall = lines.last_seq as i64 * MINUTE;
        JournalBatch { lines: Some(lines), ..JournalBatch::default() }
    }

    /// Writes a batch and stores it.
    pub(crate) fn write(&mut self, store: &impl Journal, agents: &[&str]) {
        let batch = self.batch(agents);
        store.append(Arc::new(batch), Durability::Process).expect("the next batch is stored");
    }
}

/// Text that hardly gets shorter when it is packed.
fn noise(len: usize, mut seed: u64) -> String {
    let next = |_| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[(seed >> 58) as usize])
    };
    (0..len).map(next).collect()
}

/// Lets go what may go, as estop does it, and gives the room back.
pub(crate) fn prune(store: &impl Journal, retention: Retention) -> Result<Pruned, StoreError> {
    let is_full = match store.compact() {
        Err(StoreError::Full) => true,
        done => done.map(|()| false)?,
    };
    prune_parts(store, retention)?;
    if is_full {
        store.compact()?;
        prune_parts(store, retention)?;
    }
    while store.give_back()? {}
    store.pruned()
}

fn prune_parts(store: &impl Journal, retention: Retention) -> Result<(), StoreError> {
    while let Some(part) = store.prunable(retention)? {
        let bases = states(store, &part);
        store.prune(part.to_seq, bases)?;
    }
    Ok(())
}

/// What a chain's state is taken for: which of its records came last.
fn states(store: &impl Journal, part: &Prunable) -> Vec<BaseState> {
    let mut last: BTreeMap<Name, u64> = BTreeMap::new();
    let mut each = |lines: &Lines| {
        for line in lines.bytes.split_inclusive(|byte| *byte == b'\n') {
            let head = Record::parse(line).expect("a record").head;
            last.insert(Name::from(head.chain), head.seq);
        }
        true
    };
    store.blocks(part.from_seq, part.to_seq, &mut each).expect("what goes can be read");
    let state = |(chain, seq): (Name, u64)| BaseState { chain, state: format!("{seq}").into_bytes() };
    last.into_iter().map(state).collect()
}

/// All lines from one record on.
pub(crate) fn read_from(store: &impl Journal, from: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut next = from;
    store
        .blocks(from, u64::MAX, &mut |lines| {
            assert_eq!(lines.first_seq, next, "blocks follow one another");
            next = lines.last_seq + 1;
            bytes.extend_from_slice(&lines.bytes);
            true
        })
        .expect("the journal can be read");
    bytes
}

/// Checks what is left of a journal against the heads at which it was pruned; the heads after it.
pub(crate) fn verify(pruned: &Pruned, lines: &[u8]) -> Vec<ChainHead> {
    try_verify(pruned, lines).expect("the chains hold")
}

/// The same, or the record that is wrong.
pub(crate) fn try_verify(pruned: &Pruned, lines: &[u8]) -> Result<Vec<ChainHead>, u64> {
    let mut heads: BTreeMap<Name, ChainHead> =
        pruned.heads.iter().map(|head| (head.chain.clone(), head.clone())).collect();
    let mut seq = pruned.to_seq;
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        seq += 1;
        let record = Record::parse(line).ok().filter(|record| record.head.seq == seq).ok_or(seq)?;
        let chain = Name::from(record.head.chain);
        let head = heads.entry(chain.clone()).or_insert_with(|| genesis(&chain));
        head.count += 1;
        head.events.0 = link(head.events.0, record.event_bytes);
        head.decisions.0 = link(head.decisions.0, record.decision_bytes);
        let hashes = format!("\"eh\":\"{}\",\"dh\":\"{}\"}}\n", head.events, head.decisions);
        line.ends_with(hashes.as_bytes()).then_some(()).ok_or(seq)?;
    }
    Ok(heads.into_values().collect())
}

fn genesis(chain: &str) -> ChainHead {
    let start = |kind: &str| Sha256::digest(format!("estop journal 1\n{kind}\n{chain}")).into();
    let (events, decisions) = (start("events"), start("decisions"));
    let digest = estop_core::chain::Digest;
    ChainHead { chain: chain.into(), count: 0, events: digest(events), decisions: digest(decisions) }
}

fn link(before: [u8; 32], bytes: &[u8]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(before);
    hasher.update((bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
    hasher.finalize().into()
}
