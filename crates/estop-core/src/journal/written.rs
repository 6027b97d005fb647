//! A record before it has its place in a chain: what happened and what was decided, as bytes.
//!
//! It is written down once, by whoever judged; the journal's writer adds number and links later. Until then it stands in
//! the tail, a file of lines that outlives a killed process:
//!
//! ```text
//! {"record":{"chain":"coder","mono":1200,"wall":1763164800000,"event":{…}},"decision":{…}}
//! ```

use serde::{Deserialize, Serialize};

use super::{DECISION_KEY, Happened, JournalError, RECORD_KEY, SYSTEM};
use crate::canonical_json;
use crate::event::Event;
use crate::system::SystemEvent;
use crate::time::{Millis, Now};

const EVENT_KEY: &[u8] = b",\"event\":";
const SYSTEM_KEY: &[u8] = b",\"system\":";

/// What happened and what was decided, as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    bytes: Vec<u8>,
    decision_at: usize,
    is_system: bool,
    seals: bool,
}

impl Written {
    /// Writes down an event and its decision.
    pub fn of(happened: Happened<'_>, decision: &impl Serialize) -> Written {
        let mut bytes = Vec::with_capacity(1024);
        match happened {
            Happened::Agent(event) => canonical_json::write(&mut bytes, event),
            Happened::System(event) => canonical_json::write(&mut bytes, event),
        }
        let decision_at = bytes.len();
        canonical_json::write(&mut bytes, decision);
        let is_system = matches!(happened, Happened::System(_));
        let seals = matches!(happened, Happened::System(SystemEvent::Checkpointed { .. }));
        Written { bytes, decision_at, is_system, seals }
    }

    /// What happened.
    pub fn event(&self) -> &[u8] {
        &self.bytes[..self.decision_at]
    }

    /// What was decided.
    pub fn decision(&self) -> &[u8] {
        &self.bytes[self.decision_at..]
    }

    /// Whether it is a checkpoint.
    pub(super) fn seals(&self) -> bool {
        self.seals
    }

    /// The key before the event in its record.
    pub(super) fn key(&self) -> &'static [u8] {
        if self.is_system { SYSTEM_KEY } else { EVENT_KEY }
    }

    /// Appends its line of the tail.
    pub fn append_tail_line(&self, chain: &str, now: Now, out: &mut Vec<u8>) {
        out.extend_from_slice(RECORD_KEY);
        canonical_json::write(out, &PlaceOut { chain, mono: now.mono, wall: now.wall });
        out.pop();
        out.extend_from_slice(self.key());
        out.extend_from_slice(self.event());
        out.push(b'}');
        out.extend_from_slice(DECISION_KEY);
        out.extend_from_slice(self.decision());
        out.extend_from_slice(b"}\n");
    }
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
        let key = if is_system { SYSTEM_KEY } else { EVENT_KEY };
        // Names of chains have no quotes in them: the first of these is the key.
        let at = memchr::memmem::find(record, key).ok_or(JournalError::NotARecord)? + key.len();
        let event = record[at..].strip_suffix(b"}").ok_or(JournalError::NotARecord)?;
        let written = Written {
            bytes: [event, decision].concat(),
            decision_at: event.len(),
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
