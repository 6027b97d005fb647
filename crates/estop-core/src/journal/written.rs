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
use crate::event::Event;
use crate::json;
use crate::system::SystemEvent;
use crate::time::{Millis, Now};

const CHAIN_KEY: &[u8] = b"{\"chain\":\"";
const EVENT_KEY: &[u8] = b",\"event\":";
const SYSTEM_KEY: &[u8] = b",\"system\":";

/// Where the parts of a record stand in its line of the tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spans {
    chain: Span,
    event: Span,
    decision: Span,
    is_system: bool,
    seals: bool,
}

/// From where to where. Short numbers: one waits with each record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span(u32, u32);

impl Span {
    fn from(start: usize, end: usize) -> Span {
        let short = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
        Span(short(start), short(end))
    }

    fn of(self, line: &[u8]) -> &[u8] {
        debug_assert!(self.0 <= self.1 && self.1 as usize <= line.len(), "a span of another line");
        line.get(self.0 as usize..self.1 as usize).unwrap_or_default()
    }
}

impl Spans {
    /// Writes the line of an event of a chain and its decision behind what stands in `out`, line end included.
    pub fn write(
        out: &mut Vec<u8>,
        chain: &str,
        now: Now,
        happened: Happened<'_>,
        decision: &impl Serialize,
    ) -> Spans {
        let is_system = matches!(happened, Happened::System(_));
        let begin = out.len();
        out.extend_from_slice(RECORD_KEY);
        json::write(out, &PlaceOut { chain, mono: now.mono, wall: now.wall });
        out.pop();
        out.extend_from_slice(key(is_system));
        let event_at = out.len() - begin;
        match happened {
            Happened::Agent(event) => json::write(out, event),
            Happened::System(event) => json::write(out, event),
        }
        let event = Span::from(event_at, out.len() - begin);
        out.push(b'}');
        out.extend_from_slice(DECISION_KEY);
        let decision_at = out.len() - begin;
        json::write(out, decision);
        let decision = Span::from(decision_at, out.len() - begin);
        out.extend_from_slice(b"}\n");
        let seals = matches!(happened, Happened::System(SystemEvent::Checkpointed { .. }));
        Spans { chain: name_span(chain), event, decision, is_system, seals }
    }
}

/// Where a chain's name stands: names have nothing in them that is written otherwise.
fn name_span(chain: &str) -> Span {
    let at = RECORD_KEY.len() + CHAIN_KEY.len();
    Span::from(at, at + chain.len())
}

/// What happened and what was decided, as bytes: the line of the tail, and where its parts stand in it.
#[derive(Clone, Copy, Debug)]
pub struct Written<'l> {
    line: &'l [u8],
    spans: Spans,
}

impl<'l> Written<'l> {
    /// A line that was written, line end included.
    pub fn at(line: &'l [u8], spans: Spans) -> Written<'l> {
        Written { line, spans }
    }

    /// Whose chain.
    pub fn chain(&self) -> &'l str {
        debug_assert_eq!(
            self.line.get(self.spans.chain.1 as usize),
            Some(&b'"'),
            "a name that is written otherwise"
        );
        std::str::from_utf8(self.spans.chain.of(self.line)).unwrap_or_default()
    }

    /// What happened.
    pub fn event(&self) -> &'l [u8] {
        self.spans.event.of(self.line)
    }

    /// What was decided.
    pub fn decision(&self) -> &'l [u8] {
        self.spans.decision.of(self.line)
    }

    /// Whether it is a checkpoint.
    pub(super) fn seals(&self) -> bool {
        self.spans.seals
    }

    /// What follows the time: the key of what happened, that, the record's end, and what was decided.
    pub(super) fn after_time(&self) -> &'l [u8] {
        let Spans { event, decision, is_system, .. } = self.spans;
        let at = (event.0 as usize).saturating_sub(key(is_system).len());
        debug_assert_eq!(self.line.get(event.1 as usize), Some(&b'}'), "the record ends behind the event");
        self.line.get(at..decision.1 as usize).unwrap_or_default()
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
    line: Box<[u8]>,
    spans: Spans,
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
        let spans = Spans {
            chain: name_span(&head.chain),
            event: Span::from(record_at + event_at, record_at + event_end),
            decision: Span::from(decision_end - decision.len(), decision_end),
            is_system,
            seals: matches!(head.system, Some(SystemEvent::Checkpointed { .. })),
        };
        Ok(TailLine {
            chain: head.chain.into(),
            now: Now { mono: head.mono, wall: head.wall },
            event: head.event,
            system: head.system,
            line: [line, b"\n"].concat().into(),
            spans,
        })
    }

    /// Both as they were written.
    pub fn written(&self) -> Written<'_> {
        Written::at(&self.line, self.spans)
    }
}

fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let body = line.strip_prefix(RECORD_KEY)?;
    let at = memchr::memmem::find(body, DECISION_KEY)?;
    Some((&body[..at], body[at + DECISION_KEY.len()..].strip_suffix(b"}")?))
}
