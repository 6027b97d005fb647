//! A record before it has its place in a chain: what happened and what was decided, as bytes.
//!
//! It is written down once, by whoever judged; the journal's writer adds number and links later. Until then it stands in
//! the tail, a file of lines that outlives a killed process:
//!
//! ```text
//! {"record":{"chain":"coder","mono":1200,"wall":1763164800000,"event":{…}},"decision":{…}}
//! ```

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{DECISION_KEY, Happened, JournalError, RECORD_KEY, SYSTEM};
use crate::canonical_json;
use crate::event::Event;
use crate::system::SystemEvent;
use crate::time::{Millis, Now};

const EVENT_KEY: &[u8] = b",\"event\":";
const SYSTEM_KEY: &[u8] = b",\"system\":";

/// What happened and what was decided, as bytes: the line of the tail as a whole, and where its parts stand in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    line: Vec<u8>,
    event: Range<usize>,
    decision: Range<usize>,
    is_system: bool,
    seals: bool,
}

/// Most lines fit: growing would copy them.
const LINE_USUAL: usize = 1024;

impl Written {
    /// Writes down an event of a chain and its decision.
    pub fn of(chain: &str, now: Now, happened: Happened<'_>, decision: &impl Serialize) -> Written {
        let is_system = matches!(happened, Happened::System(_));
        let mut line = Vec::with_capacity(LINE_USUAL);
        line.extend_from_slice(RECORD_KEY);
        canonical_json::write(&mut line, &PlaceOut { chain, mono: now.mono, wall: now.wall });
        line.pop();
        line.extend_from_slice(key(is_system));
        let event_at = line.len();
        match happened {
            Happened::Agent(event) => canonical_json::write(&mut line, event),
            Happened::System(event) => canonical_json::write(&mut line, event),
        }
        let event = event_at..line.len();
        line.push(b'}');
        line.extend_from_slice(DECISION_KEY);
        let decision_at = line.len();
        canonical_json::write(&mut line, decision);
        let decision = decision_at..line.len();
        line.extend_from_slice(b"}\n");
        let seals = matches!(happened, Happened::System(SystemEvent::Checkpointed { .. }));
        Written { line, event, decision, is_system, seals }
    }

    /// What happened.
    pub fn event(&self) -> &[u8] {
        &self.line[self.event.clone()]
    }

    /// What was decided.
    pub fn decision(&self) -> &[u8] {
        &self.line[self.decision.clone()]
    }

    /// Its line of the tail, line end included.
    pub fn tail_line(&self) -> &[u8] {
        &self.line
    }

    /// Whether it is a checkpoint.
    pub(super) fn seals(&self) -> bool {
        self.seals
    }

    /// The key before the event in its record.
    pub(super) fn key(&self) -> &'static [u8] {
        key(self.is_system)
    }
}

fn key(is_system: bool) -> &'static [u8] {
    if is_system { SYSTEM_KEY } else { EVENT_KEY }
}

#[derive(Serialize)]
struct PlaceOut<'a> {
    chain: &'a str,
    mono: Millis,
    wall: i64,
}

/// A line of the tail.
#[derive(Clone, Debug)]
pub struct TailLine {
    /// Whose chain.
    pub chain: Box<str>,
    /// When.
    pub now: Now,
    /// What happened to an agent; `None` if it happened to the system.
    pub event: Option<Event>,
    /// What happened to the system.
    pub system: Option<SystemEvent>,
    /// Both as they were written.
    pub written: Written,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TailHead<'a> {
    #[serde(borrow)]
    chain: std::borrow::Cow<'a, str>,
    mono: Millis,
    wall: i64,
    #[serde(default)]
    event: Option<Event>,
    #[serde(default)]
    system: Option<SystemEvent>,
}

impl TailLine {
    /// Reads a line, without its end.
    pub fn parse(line: &[u8]) -> Result<TailLine, JournalError> {
        let (record, decision) = split(line).ok_or(JournalError::NotARecord)?;
        let unreadable = |error: serde_json::Error| JournalError::Unreadable(error.to_string());
        let head: TailHead<'_> = serde_json::from_slice(record).map_err(unreadable)?;
        // Only its form: what it says is written on as it stands.
        serde_json::from_slice::<serde::de::IgnoredAny>(decision).map_err(unreadable)?;
        let is_system = head.chain == SYSTEM;
        if head.event.is_some() == is_system || head.system.is_some() != is_system {
            return Err(JournalError::NotARecord);
        }
        let key = key(is_system);
        // Names of chains have no quotes in them: the first of these is the key.
        let event_at = memchr::memmem::find(record, key).ok_or(JournalError::NotARecord)? + key.len();
        let event_end = record.strip_suffix(b"}").map_or(0, <[u8]>::len);
        if event_end < event_at {
            return Err(JournalError::NotARecord);
        }
        // Both are parts of the line, one behind the other.
        let (record_at, decision_end) = (RECORD_KEY.len(), line.len() - 1);
        let written = Written {
            line: [line, b"\n"].concat(),
            event: record_at + event_at..record_at + event_end,
            decision: decision_end - decision.len()..decision_end,
            is_system,
            seals: matches!(head.system, Some(SystemEvent::Checkpointed { .. })),
        };
        Ok(TailLine {
            chain: head.chain.into(),
            now: Now { mono: head.mono, wall: head.wall },
            event: head.event,
            system: head.system,
            written,
        })
    }
}

fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let body = line.strip_prefix(RECORD_KEY)?;
    let at = memchr::memmem::find(body, DECISION_KEY)?;
    Some((&body[..at], body[at + DECISION_KEY.len()..].strip_suffix(b"}")?))
}
