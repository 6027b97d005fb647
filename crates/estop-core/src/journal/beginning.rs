//! What a journal begins with when its first records are gone: a line that says after which record, and one line for each
//! chain with its heads and its state after that record, in order of name.
//!
//! ```text
//! {"begins":{"after":7000,"chains":2}}
//! {"base":{"chain":"coder","count":6990,"events":"…","decisions":"…"},"state":{…}}
//! {"base":{"chain":"system","count":10,"events":"…","decisions":"…"},"state":{…}}
//! ```
//!
//! They are not chained themselves. The record `pruned`, which stands further down and is, has their digest.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{ChainHead, Chains, Digest, Heads, JournalError, Record};
use crate::system::SystemEvent;

const BEGINS_KEY: &[u8] = b"{\"begins\":";
const BASE_KEY: &[u8] = b"{\"base\":";
const STATE_KEY: &[u8] = b",\"state\":";

/// A line of a journal.
#[expect(
    clippy::large_enum_variant,
    reason = "it is looked at where it was read, and hardly ever anything but a record"
)]
pub enum Line<'a> {
    /// A record.
    Record(Record<'a>),
    /// Where a chain goes on.
    Base(Base<'a>),
    /// The first line of a journal whose first records are gone.
    Begins,
}

/// Where a chain goes on: its heads and its state after the records that are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base<'a> {
    /// Its heads.
    pub head: ChainHead,
    /// Its state as JSON: a snapshot of an agent, or the system.
    pub state: &'a [u8],
}

/// What a journal begins with, as it is put together or read.
#[derive(Clone)]
pub struct Beginning {
    after: u64,
    /// Chains that are still to come.
    left: u64,
    hasher: Sha256,
    is_confirmed: bool,
    /// A record that says something else of it.
    differs: Option<u64>,
}

impl std::fmt::Debug for Beginning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Beginning").field("after", &self.after).finish_non_exhaustive()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BeginsLine {
    begins: Begins,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Begins {
    after: u64,
    chains: u64,
}

impl Beginning {
    /// After this record; all `chains` are told next, in order of name.
    pub fn new(after: u64, chains: u64) -> Beginning {
        let mut hasher = Sha256::new();
        hasher.update(b"estop journal beginning 1\n");
        hasher.update(after.to_le_bytes());
        Beginning { after, left: chains, hasher, is_confirmed: false, differs: None }
    }

    /// Adds a chain, of whose state only the hash is known.
    pub fn add(&mut self, head: &ChainHead, state: &Digest) {
        self.left = self.left.saturating_sub(1);
        self.hasher.update((head.chain.len() as u64).to_le_bytes());
        self.hasher.update(head.chain.as_bytes());
        self.hasher.update(head.count.to_le_bytes());
        self.hasher.update(head.events.0);
        self.hasher.update(head.decisions.0);
        self.hasher.update(state.0);
    }

    /// What the record `pruned` says of it.
    pub fn digest(&self) -> Digest {
        Digest(self.hasher.clone().finalize().into())
    }

    /// The first line, with its end.
    pub fn line(&self) -> Vec<u8> {
        let begins = Begins { after: self.after, chains: self.left };
        let mut line = Vec::new();
        crate::json::write(&mut line, &BeginsLine { begins });
        line.push(b'\n');
        line
    }
}

impl Base<'_> {
    /// The SHA-256 of a state.
    pub fn state_digest(state: &[u8]) -> Digest {
        Digest(Sha256::digest(state).into())
    }

    /// Its line, with its end.
    pub fn line(&self) -> Vec<u8> {
        let mut line = BASE_KEY.to_vec();
        crate::json::write(&mut line, &self.head);
        line.extend_from_slice(STATE_KEY);
        line.extend_from_slice(self.state);
        line.extend_from_slice(b"}\n");
        line
    }

    fn parse(line: &[u8]) -> Option<Base<'_>> {
        let body = line.strip_prefix(BASE_KEY)?.strip_suffix(b"}")?;
        // Names of chains have no quotes in them: the first of these is the key.
        let at = memchr::memmem::find(body, STATE_KEY)?;
        let head = serde_json::from_slice(&body[..at]).ok()?;
        Some(Base { head, state: &body[at + STATE_KEY.len()..] })
    }
}

impl Chains {
    /// Takes the next line of a journal in, whatever it is.
    pub fn take<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, JournalError> {
        let bare = line.strip_suffix(b"\n").unwrap_or(line);
        if bare.starts_with(BEGINS_KEY) {
            self.begin(bare)?;
            return Ok(Line::Begins);
        }
        if bare.starts_with(BASE_KEY) {
            let base = Base::parse(bare).ok_or(JournalError::BadBeginning("a line of a chain is damaged"))?;
            self.resume_chain(&base)?;
            return Ok(Line::Base(base));
        }
        if self.beginning.as_ref().is_some_and(|beginning| beginning.left > 0) {
            return Err(JournalError::BadBeginning("a chain is missing"));
        }
        let record = Record::parse(line)?;
        self.check(&record)?;
        Ok(Line::Record(record))
    }

    /// Whether a record says that what the journal begins with is what it must be.
    pub fn is_confirmed(&self) -> bool {
        self.beginning.as_ref().is_none_or(|beginning| beginning.is_confirmed)
    }

    /// Whether that can be relied on, once all records were read.
    pub fn confirm(&self) -> Result<(), JournalError> {
        match self.beginning.as_ref().filter(|beginning| !beginning.is_confirmed) {
            None => Ok(()),
            Some(Beginning { differs: Some(seq), .. }) => Err(JournalError::BeginningDiffers { seq: *seq }),
            Some(Beginning { differs: None, .. }) => Err(JournalError::BeginningUnconfirmed),
        }
    }

    /// The record after which the journal begins; 0 = it is whole.
    pub fn begins_after(&self) -> u64 {
        self.beginning.as_ref().map_or(0, |beginning| beginning.after)
    }

    fn begin(&mut self, line: &[u8]) -> Result<(), JournalError> {
        if self.seq > 0 || self.beginning.is_some() || !self.chains.is_empty() {
            return Err(JournalError::BadBeginning("it stands in the middle"));
        }
        let BeginsLine { begins } = serde_json::from_slice(line)
            .map_err(|_| JournalError::BadBeginning("its first line is damaged"))?;
        self.seq = begins.after;
        self.beginning = Some(Beginning::new(begins.after, begins.chains));
        Ok(())
    }

    fn resume_chain(&mut self, base: &Base<'_>) -> Result<(), JournalError> {
        let head = &base.head;
        let is_next = self.by_name.last_key_value().is_none_or(|(last, _)| *last < head.chain);
        let Some(beginning) = self.beginning.as_mut().filter(|beginning| beginning.left > 0 && is_next)
        else {
            return Err(JournalError::BadBeginning("a chain stands in the wrong place"));
        };
        beginning.add(head, &Base::state_digest(base.state));
        let heads = Heads { count: head.count, events: head.events, decisions: head.decisions };
        self.put(head.chain.clone(), heads);
        Ok(())
    }

    /// The record that let the earlier ones go says what the rest begins with. There may be several for one place: letting go
    /// can fail, and a later estop that tries again may write the same states otherwise. One of them must be right.
    pub(super) fn check_beginning(&mut self, record: &Record<'_>) {
        let Some(SystemEvent::Pruned { to, digest, .. }) = &record.head.system else { return };
        let Some(beginning) = self.beginning.as_mut().filter(|beginning| beginning.after == *to) else {
            return;
        };
        if beginning.digest() == *digest {
            beginning.is_confirmed = true;
        } else {
            beginning.differs.get_or_insert(record.head.seq);
        }
    }
}
