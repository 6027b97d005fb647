//! The journal's form (TW-7): one line for each record, events and decisions each in a SHA-256 chain, one pair
//! of chains for each agent and one for the system.
//!
//! A record is compact JSON with keys in fixed order and whole numbers only, so it has exactly one spelling:
//!
//! ```text
//! {"record":{"seq":7,"chain":"coder","mono":1200,"wall":1763164800000,"event":{…}},"decision":{…},"eh":"…","dh":"…"}
//! ```
//!
//! `eh` is SHA-256(previous `eh` of the chain ‖ length ‖ bytes of `record`), `dh` likewise over `decision`. This
//! file knows bytes and hashes; it judges nothing and reads no files.

mod beginning;
mod unlinked;
mod written;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::chain::{ChainHead, Digest, Heads};
use crate::event::Event;
use crate::ids::Name;
use crate::json;
use crate::system::SystemEvent;
use crate::time::{Millis, Now};
pub use beginning::{Base, Beginning, Line};
pub use unlinked::Unlinked;
pub use written::{Spans, TailLine, Written};

/// The name of the system's chain. No agent may be called so.
pub const SYSTEM: &str = "system";

/// The heads of all chains: all that is needed to write or check the next record.
#[derive(Clone, Debug, Default)]
pub struct Chains {
    /// Records so far, of all chains.
    seq: u64,
    /// In the order they were met.
    chains: Vec<Chain>,
    /// Where each stands among them.
    by_name: BTreeMap<Name, ChainAt>,
    /// The record that sealed what came before it, if it was the last.
    sealed: bool,
    /// Where the records begin, if those before are gone.
    beginning: Option<Beginning>,
    /// Records that were written and not linked yet.
    unlinked: usize,
    /// The last record's time, and how it is written: the next record often has the same.
    time: (Now, Vec<u8>),
}

/// Where a chain stands in its [`Chains`]: found by name once, and not again with each record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainAt(usize);

#[derive(Clone, Debug)]
struct Chain {
    name: Name,
    heads: Heads,
    /// `,"chain":"…","mono":`, as it stands in each of its records.
    named: Vec<u8>,
}

/// What happened, in either kind of chain.
#[derive(Clone, Copy, Debug)]
pub enum Happened<'a> {
    /// To an agent.
    Agent(&'a Event),
    /// To the system.
    System(&'a SystemEvent),
}

impl Chains {
    /// Records so far.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Whether the last record is a checkpoint, so that a cut tail would be noticed.
    pub fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// All heads, for a checkpoint.
    pub fn heads(&self) -> Vec<ChainHead> {
        debug_assert_eq!(self.unlinked, 0, "they are not those of the last records");
        let head = |Chain { name, heads, .. }: &Chain| ChainHead {
            chain: name.clone(),
            count: heads.count,
            events: heads.events,
            decisions: heads.decisions,
        };
        let in_order = self.by_name.values().map(|at| &self.chains[at.0]);
        in_order.filter(|chain| chain.heads.count > 0).map(head).collect()
    }

    /// One chain's heads.
    pub fn head(&self, chain: &str) -> Option<Heads> {
        debug_assert_eq!(self.unlinked, 0, "they are not those of the last records");
        let at = self.by_name.get(chain)?;
        Some(self.chains[at.0].heads).filter(|heads| heads.count > 0)
    }

    /// Where a chain stands, be it that nothing is written in it yet.
    pub fn at(&mut self, chain: &str) -> ChainAt {
        match self.by_name.get(chain) {
            Some(at) => *at,
            None => self.put(chain.into(), Heads::new(chain)),
        }
    }

    fn put(&mut self, name: Name, heads: Heads) -> ChainAt {
        let at = *self.by_name.entry(name.clone()).or_insert(ChainAt(self.chains.len()));
        let mut named = CHAIN_KEY.to_vec();
        json::write(&mut named, &name);
        named.extend_from_slice(MONO_KEY);
        let chain = Chain { name, heads, named };
        match self.chains.get_mut(at.0) {
            Some(known) => *known = chain,
            None => self.chains.push(chain),
        }
        at
    }

    /// Writes the next record, line end included.
    pub fn append(
        &mut self,
        chain: &str,
        now: Now,
        happened: Happened<'_>,
        decision: &impl Serialize,
        line: &mut Vec<u8>,
    ) {
        let mut tail = Vec::new();
        let spans = Spans::write(&mut tail, chain, now, happened, decision);
        self.append_written(chain, now, Written::at(&tail, spans), line);
    }

    /// The same for a record that was written down before.
    pub fn append_written(&mut self, chain: &str, now: Now, written: Written<'_>, line: &mut Vec<u8>) {
        debug_assert_eq!(self.unlinked, 0, "those before it come first");
        let at = self.at(chain);
        let unlinked = self.write_apart(at, now, written, line);
        let heads = self.link_one(&unlinked, line);
        write_hashes(&heads.events, &heads.decisions, line);
    }

    /// Writes the next record's line up to its hashes: [`Chains::link`] computes them, [`write_hashes`] adds them.
    pub fn write_apart(
        &mut self,
        at: ChainAt,
        now: Now,
        written: Written<'_>,
        line: &mut Vec<u8>,
    ) -> Unlinked {
        self.seq += 1;
        self.sealed = written.seals();
        let chain = &mut self.chains[at.0];
        let start = line.len() + RECORD_KEY.len();
        line.extend_from_slice(START);
        json::write(line, &self.seq);
        line.extend_from_slice(&chain.named);
        if self.time.0 != now || self.time.1.is_empty() {
            self.time = (now, time_of(now, std::mem::take(&mut self.time.1)));
        }
        line.extend_from_slice(&self.time.1);
        let (rest, decision) = (written.after_time(), written.decision());
        line.extend_from_slice(rest);
        let end = line.len();
        let decision = end - decision.len()..end;
        self.unlinked += 1;
        Unlinked { at, event: start..decision.start - DECISION_KEY.len(), decision, after_time: rest.len() }
    }

    /// Goes on from heads that were kept: `seq` records stand before.
    pub fn resume(seq: u64, heads: impl IntoIterator<Item = (Name, Heads)>) -> Chains {
        let mut chains = Chains { seq, ..Chains::default() };
        for (name, heads) in heads {
            chains.put(name, heads);
        }
        chains
    }

    fn advance(&mut self, chain: &str, event: &[u8], decision: &[u8]) -> Heads {
        debug_assert_eq!(self.unlinked, 0, "those before it come first");
        let at = self.at(chain);
        let heads = &mut self.chains[at.0].heads;
        *heads = heads.link(event, decision);
        *heads
    }

    /// Checks the next record's place in its chain and takes it in.
    pub fn check(&mut self, record: &Record<'_>) -> Result<(), JournalError> {
        let expected = self.seq + 1;
        if record.head.seq != expected {
            return Err(JournalError::OutOfOrder { expected, found: record.head.seq });
        }
        if let Some(SystemEvent::Checkpointed { heads }) = &record.head.system {
            self.check_heads(heads)?;
        }
        let chain = record.head.chain.as_ref();
        let heads = self.advance(chain, record.event_bytes, record.decision_bytes);
        let seq = record.head.seq;
        if heads.events.digits() != *record.eh {
            return Err(JournalError::ChainBroken { seq, chain: chain.into(), part: "event" });
        }
        if heads.decisions.digits() != *record.dh {
            return Err(JournalError::ChainBroken { seq, chain: chain.into(), part: "decision" });
        }
        self.seq = seq;
        self.sealed = matches!(record.head.system, Some(SystemEvent::Checkpointed { .. }));
        self.check_beginning(record);
        Ok(())
    }

    fn check_heads(&self, expected: &[ChainHead]) -> Result<(), JournalError> {
        if self.heads() == expected {
            Ok(())
        } else {
            Err(JournalError::CheckpointDiffers { seq: self.seq + 1 })
        }
    }
}

/// `1200,"wall":1763164800000`, in the room of another.
fn time_of(now: Now, mut room: Vec<u8>) -> Vec<u8> {
    room.clear();
    json::write(&mut room, &now.mono);
    room.extend_from_slice(WALL_KEY);
    json::write(&mut room, &now.wall);
    room
}

const RECORD_KEY: &[u8] = b"{\"record\":";
/// [`RECORD_KEY`], and how each record begins.
const START: &[u8] = b"{\"record\":{\"seq\":";
const CHAIN_KEY: &[u8] = b",\"chain\":";
const MONO_KEY: &[u8] = b",\"mono\":";
const WALL_KEY: &[u8] = b",\"wall\":";
const DECISION_KEY: &[u8] = b",\"decision\":";
const EH_KEY: &[u8] = b",\"eh\":\"";
const DH_KEY: &[u8] = b"\",\"dh\":\"";
const END: &[u8] = b"\"}";
/// Bytes of a line's hashes, with all that stands around them but the line's end.
pub const HASHES_LEN: usize = EH_KEY.len() + 64 + DH_KEY.len() + 64 + END.len();

/// Ends a line with its hashes, line end included.
pub fn write_hashes(events: &Digest, decisions: &Digest, line: &mut Vec<u8>) {
    line.extend_from_slice(EH_KEY);
    line.extend_from_slice(&events.digits());
    line.extend_from_slice(DH_KEY);
    line.extend_from_slice(&decisions.digits());
    line.extend_from_slice(END);
    line.push(b'\n');
}

/// The hashes of a record, events' and decisions', from those of the one before it in its chain and from its line up to
/// its hashes; `None` if that is no line.
pub fn relink(before: (Digest, Digest), text: &[u8]) -> Option<(Digest, Digest)> {
    let (event, decision) = parts(text)?;
    Some((before.0.link(event), before.1.link(decision)))
}

/// The head of a record: everything but the decision.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordHead<'a> {
    /// Number of the record in the journal, from 1.
    pub seq: u64,
    /// Whose chain.
    #[serde(borrow)]
    pub chain: std::borrow::Cow<'a, str>,
    /// Monotonic time.
    pub mono: Millis,
    /// Wall-clock time.
    pub wall: i64,
    /// What happened to an agent.
    #[serde(default)]
    pub event: Option<Event>,
    /// What happened to the system.
    #[serde(default)]
    pub system: Option<SystemEvent>,
}

/// A record as it stands in its line.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Everything but the decision.
    pub head: RecordHead<'a>,
    /// The bytes the event chain covers.
    pub event_bytes: &'a [u8],
    /// The decision, as it was written.
    pub decision_bytes: &'a [u8],
    eh: &'a [u8; 64],
    dh: &'a [u8; 64],
}

impl<'a> Record<'a> {
    /// Reads a line, with or without its end.
    pub fn parse(line: &'a [u8]) -> Result<Record<'a>, JournalError> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let (event_bytes, decision_bytes, eh, dh) = split(line).ok_or(JournalError::NotARecord)?;
        // Checked once as a whole, so that the parser need not check each string.
        let text = std::str::from_utf8(event_bytes).map_err(|_| JournalError::NotARecord)?;
        let head: RecordHead<'_> =
            serde_json::from_str(text).map_err(|error| JournalError::Unreadable(error.to_string()))?;
        let system = head.chain == SYSTEM;
        if head.event.is_some() == system || head.system.is_some() != system {
            return Err(JournalError::NotARecord);
        }
        Ok(Record { head, event_bytes, decision_bytes, eh, dh })
    }
}

type Parts<'a> = (&'a [u8], &'a [u8], &'a [u8; 64], &'a [u8; 64]);

/// Cuts a line at its fixed places. Quotes inside strings are escaped, so the first `,"decision":` is the key.
fn split(line: &[u8]) -> Option<Parts<'_>> {
    let (body, tail) = line.split_at_checked(line.len().checked_sub(HASHES_LEN)?)?;
    let (eh, rest) = tail.strip_prefix(EH_KEY)?.split_first_chunk::<64>()?;
    let (dh, rest) = rest.strip_prefix(DH_KEY)?.split_first_chunk::<64>()?;
    if rest != END {
        return None;
    }
    let (event, decision) = parts(body)?;
    Some((event, decision, eh, dh))
}

/// What the two chains cover of a line up to its hashes.
fn parts(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let body = text.strip_prefix(RECORD_KEY)?;
    let at = memchr::memmem::find(body, DECISION_KEY)?;
    Some((&body[..at], &body[at + DECISION_KEY.len()..]))
}

/// Why a journal cannot be trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The line has not the form of a record.
    #[error("this line is not a journal record")]
    NotARecord,
    /// The line has the form, but says something unknown.
    #[error("this record cannot be read: {0}")]
    Unreadable(String),
    /// A record is missing, doubled or in the wrong place.
    #[error(
        "record {expected} should stand here, but this is record {found}: one was dropped, doubled or moved"
    )]
    OutOfOrder {
        /// The number that should stand here.
        expected: u64,
        /// The number that does.
        found: u64,
    },
    /// A record is not the one that was written.
    #[error("record {seq} (chain {chain}): its {part} was changed, or a record before it was")]
    ChainBroken {
        /// The record.
        seq: u64,
        /// Its chain.
        chain: Name,
        /// `event` or `decision`.
        part: &'static str,
    },
    /// A checkpoint does not match the records before it.
    #[error("checkpoint {seq} does not match the records before it: some are missing")]
    CheckpointDiffers {
        /// The checkpoint's record.
        seq: u64,
    },
    /// The lines before the first record are not as they must be.
    #[error("the beginning of this journal cannot be read: {0}")]
    BadBeginning(&'static str),
    /// The journal begins with something else than what was recorded when the records before were let go.
    #[error("record {seq} says that the journal begins with other heads or states: they were changed")]
    BeginningDiffers {
        /// The record.
        seq: u64,
    },
    /// No record says what the journal begins with.
    #[error(
        "no record confirms what this journal begins with: the record that let the earlier ones go is missing"
    )]
    BeginningUnconfirmed,
    /// The journal does not end with a checkpoint.
    #[error("the journal does not end with a checkpoint, so a cut tail cannot be noticed")]
    NotSealed,
}
