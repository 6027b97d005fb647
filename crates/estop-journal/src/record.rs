//! A record: what happened to one agent or to the system, and what was decided.
//!
//! ```text
//! {"seq":810021,"n":1742,"agent":"coder","at":"2026-11-17T23:38:45.123Z","mono":1200345,"run":"run-7",
//!  "event":{"type":"request_received","data":{…}},"decision":{…},"crc":"0c7be1f2"}
//! ```

use std::borrow::Cow;

use estop_core::event::{Event, EventKind};
use estop_core::ids::Name;
pub use estop_core::system::SYSTEM;
use estop_core::system::{GateView, SystemEvent};
use estop_core::time::{Millis, Now};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::line::seal_line;

const SEQ_KEY: &[u8] = b"{\"seq\":";
const N_KEY: &[u8] = b",\"n\":";
const AGENT_KEY: &[u8] = b",\"agent\":\"";
const DECISION_KEY: &[u8] = b",\"decision\":";
/// The decision of a record that only notes something; it is left out.
const NOTED: &[u8] = b"{}";

/// What happened, to an agent or to the system.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// To an agent.
    Agent(&'a Event),
    /// To the system.
    System(&'a SystemEvent),
}

/// A record before it has its numbers: whoever judged writes it down, whoever appends it numbers it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordBody(Vec<u8>);

#[derive(Serialize)]
struct Out<'a> {
    agent: &'a str,
    at: At,
    mono: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<&'a str>,
    #[serde(skip_serializing_if = "GateView::is_open")]
    gate: GateView,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a EventKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<&'a SystemEvent>,
}

impl RecordBody {
    /// Writes down a record; what stood here is gone, its room is used.
    pub fn write(&mut self, agent: &str, now: Now, payload: Payload<'_>, decision: &impl Serialize) {
        let (run, gate, event, system) = match payload {
            Payload::Agent(event) => (event.run.as_deref(), event.gate, Some(&event.what), None),
            Payload::System(event) => (None, GateView::OPEN, None, Some(event)),
        };
        let out = &mut self.0;
        out.clear();
        write_json(out, &Out { agent, at: At(now.wall), mono: now.mono, run, gate, event, system });
        // It goes on behind the numbers and before the decision.
        if let Some(first) = out.first_mut() {
            *first = b',';
        }
        out.pop();
        let before = out.len();
        out.extend_from_slice(DECISION_KEY);
        let at = out.len();
        write_json(out, decision);
        if &out[at..] == NOTED {
            out.truncate(before);
        }
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Writing our own types into memory cannot fail: all keys of maps are texts or numbers.
fn write_json(out: &mut Vec<u8>, value: &impl Serialize) {
    let written = serde_json::to_writer(&mut *out, value);
    debug_assert!(written.is_ok(), "{written:?}");
}

/// Appends a record's line, its end included.
pub fn write_record(out: &mut Vec<u8>, seq: u64, n: u64, body: &RecordBody) {
    let start = out.len();
    out.extend_from_slice(SEQ_KEY);
    write_json(out, &seq);
    out.extend_from_slice(N_KEY);
    write_json(out, &n);
    out.extend_from_slice(&body.0);
    seal_line(out, start);
}

/// A wall-clock time as RFC 3339 text in UTC, to the millisecond.
struct At(i64);

impl Serialize for At {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let at = Timestamp::from_millisecond(self.0).unwrap_or(if self.0 < 0 {
            Timestamp::MIN
        } else {
            Timestamp::MAX
        });
        s.collect_str(&format_args!("{at:.3}"))
    }
}

/// What a record's line begins with: enough to check that none is missing, without reading the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'a> {
    /// Number of the record in the journal, from 1.
    pub seq: u64,
    /// Number of the record among its agent's, from 1.
    pub n: u64,
    /// Whose, as it stands there. The names of traces that are evaluated may have anything in them; agents' have nothing
    /// that is written in another way.
    pub agent: &'a str,
}

impl<'a> Head<'a> {
    /// Reads the beginning of a line; `None` if it is no record's.
    pub fn read(line: &'a [u8]) -> Option<Head<'a>> {
        let (seq, rest) = number(line.strip_prefix(SEQ_KEY)?)?;
        let (n, rest) = number(rest.strip_prefix(N_KEY)?)?;
        let rest = rest.strip_prefix(AGENT_KEY)?;
        let agent = rest.get(..closing_quote(rest)?)?;
        Some(Head { seq, n, agent: std::str::from_utf8(agent).ok()? })
    }
}

/// Where a text of JSON ends whose first quote was read.
fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut is_escaped = false;
    text.iter().position(|byte| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    })
}

/// Lines without their ends; empty ones are left out.
pub fn lines_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut start = 0;
    let ends = memchr::memchr_iter(b'\n', text).chain(std::iter::once(text.len()));
    ends.map(move |end| &text[std::mem::replace(&mut start, end + 1)..end]).filter(|line| !line.is_empty())
}

/// The records among some lines.
pub fn records(lines: &[u8]) -> impl Iterator<Item = (&[u8], Head<'_>)> {
    lines_of(lines).filter_map(|line| Some((line, Head::read(line)?)))
}

fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit())?;
    let (digits, rest) = text.split_at(end);
    Some((std::str::from_utf8(digits).ok()?.parse().ok()?, rest))
}

/// A record as it was read.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Number of the record in the journal, from 1.
    pub seq: u64,
    /// Number of the record among its agent's, from 1.
    pub n: u64,
    /// Whose.
    pub agent: Cow<'a, str>,
    /// When.
    pub now: Now,
    /// What happened to an agent; `None` if it happened to the system.
    pub event: Option<Event>,
    /// What happened to the system.
    pub system: Option<SystemEvent>,
    /// The decision, as it was written.
    pub decision: &'a str,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct In<'a> {
    seq: u64,
    n: u64,
    #[serde(borrow)]
    agent: Cow<'a, str>,
    at: Timestamp,
    mono: Millis,
    #[serde(default)]
    run: Option<Name>,
    #[serde(default)]
    gate: Option<GateView>,
    #[serde(default)]
    event: Option<EventKind>,
    #[serde(default)]
    system: Option<SystemEvent>,
    #[serde(borrow, default)]
    decision: Option<&'a RawValue>,
    #[serde(rename = "crc")]
    _crc: serde::de::IgnoredAny,
}

impl<'a> Record<'a> {
    /// Reads a line, with or without its end. Does not look at its checksum: see [`crate::check_line`].
    pub fn parse(line: &'a [u8]) -> Result<Record<'a>, serde_json::Error> {
        let read: In<'a> = serde_json::from_slice(line)?;
        let In { seq, n, agent, at, mono, run, gate, event, system, decision, .. } = read;
        let is_system = agent == SYSTEM;
        if event.is_some() == is_system || system.is_some() != is_system {
            return Err(serde::de::Error::custom(
                "an agent's record has an `event`, the system's a `system`",
            ));
        }
        let event = event.map(|what| Event { run, gate: gate.unwrap_or(GateView::OPEN), what });
        let now = Now { mono, wall: at.as_millisecond() };
        Ok(Record { seq, n, agent, now, event, system, decision: decision.map_or("{}", RawValue::get) })
    }
}

#[cfg(test)]
mod tests {
    use estop_core::decision::{Decision, Outcome};
    use estop_core::system::SystemState;

    use super::*;
    use crate::line::check_line;

    fn line(agent: &str, now: Now, payload: Payload<'_>, decision: &impl Serialize) -> Vec<u8> {
        let (mut body, mut line) = (RecordBody::default(), Vec::new());
        body.write(agent, now, payload, decision);
        write_record(&mut line, 7, 3, &body);
        line
    }

    #[test]
    fn tw_7_a_record_is_read_as_it_was_written() {
        let now = Now { mono: Millis(1200), wall: 1_763_164_800_123 };
        let event = Event {
            run: Some("run-7".into()),
            gate: GateView { epoch: 2, state: SystemState::SafeMode, ..GateView::OPEN },
            what: EventKind::RunExtended { by: "ann \"the admin\"".into() },
        };
        let text = line("coder", now, Payload::Agent(&event), &Decision::plain(Outcome::Allow));
        assert!(text.starts_with(
            br#"{"seq":7,"n":3,"agent":"coder","at":"2025-11-15T00:00:00.123Z","mono":1200,"run":"run-7","gate":{"#
        ));
        assert_eq!(check_line(&text[..text.len() - 1]), Ok(()));
        assert_eq!(Head::read(&text), Some(Head { seq: 7, n: 3, agent: "coder" }));
        let record = Record::parse(&text).expect("a record");
        assert_eq!((record.seq, record.n, &*record.agent, record.now), (7, 3, "coder", now));
        assert_eq!((record.event, record.decision), (Some(event), r#"{"outcome":"allow"}"#));
    }

    #[test]
    fn tw_7_lines_are_told_by_their_ends() {
        for text in ["", "\n", "a", "a\n", "\n\na\n\nbc\n\nd", "a\nb\n"] {
            let expected: Vec<&str> = text.split('\n').filter(|line| !line.is_empty()).collect();
            let found: Vec<&[u8]> = lines_of(text.as_bytes()).collect();
            assert_eq!(found, expected.iter().map(|line| line.as_bytes()).collect::<Vec<_>>(), "{text:?}");
        }
    }

    #[test]
    fn tw_7_names_with_quotes_are_told_apart() {
        for name in ["x\"1", "x\"2", "x\\", "\\\"", "\"", ""] {
            let text = line(name, Now::default(), Payload::Agent(&Event::open(EventKind::Tick)), &());
            let written = serde_json::to_string(name).expect("JSON");
            assert_eq!(Head::read(&text).map(|head| format!("\"{}\"", head.agent)), Some(written));
        }
    }

    #[test]
    fn tw_7_a_decision_that_notes_something_is_left_out() {
        let text = line(
            "coder",
            Now::default(),
            Payload::Agent(&Event::open(EventKind::Tick)),
            &Decision::plain(Outcome::Noted),
        );
        assert!(String::from_utf8_lossy(&text).contains(r#""event":{"type":"tick"},"crc""#));
        assert_eq!(Record::parse(&text).expect("a record").decision, "{}");
    }

    #[test]
    fn tw_7_an_agents_event_is_not_taken_for_the_systems() {
        let started = SystemEvent::Started { found: None };
        assert!(Record::parse(&line(SYSTEM, Now::default(), Payload::System(&started), &())).is_ok());
        assert!(Record::parse(&line("coder", Now::default(), Payload::System(&started), &())).is_err());
        let tick = Event::open(EventKind::Tick);
        assert!(Record::parse(&line(SYSTEM, Now::default(), Payload::Agent(&tick), &())).is_err());
    }

    #[test]
    fn tw_7_a_clock_that_shows_nonsense_is_still_written() {
        for wall in [i64::MIN, -1, 0, i64::MAX] {
            let now = Now { mono: Millis(0), wall };
            let text = line("coder", now, Payload::Agent(&Event::open(EventKind::Tick)), &());
            assert!(Record::parse(&text).is_ok(), "{wall}");
        }
    }
}
