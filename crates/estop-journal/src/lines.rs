//! Writes a journal of one segment, line by line: one that is made in one piece, without a daemon.

use estop_core::event::Event;
use estop_core::ids::Hash64;
use estop_core::system::SystemEvent;
use estop_core::time::Now;
use serde::Serialize;

use crate::record::{Payload, RecordBody, SYSTEM, write_record};
use crate::segment::{End, FORMAT, Header};
use crate::state::State;

/// The number of the only segment.
const SEGMENT: u64 = 1;

/// Appends lines to whatever it is given.
#[derive(Clone, Debug)]
pub struct LineWriter {
    state: State,
    body: RecordBody,
}

impl LineWriter {
    /// Begins with the first line of a segment.
    pub fn begin(out: &mut Vec<u8>) -> LineWriter {
        let state = State::default();
        let now = Now::default();
        let header = Header {
            format: FORMAT,
            journal: Hash64(0),
            segment: SEGMENT,
            now,
            state: state.clone(),
            agent: None,
        };
        out.extend_from_slice(&header.line());
        LineWriter { state, body: RecordBody::default() }
    }

    /// What happened to an agent.
    pub fn agent(
        &mut self,
        agent: &str,
        now: Now,
        event: &Event,
        decision: &impl Serialize,
        out: &mut Vec<u8>,
    ) {
        self.body.write(agent, now, Payload::Agent(event), decision);
        self.append(agent, out);
    }

    /// What happened to the system.
    pub fn system(&mut self, now: Now, event: &SystemEvent, decision: &impl Serialize, out: &mut Vec<u8>) {
        self.body.write(SYSTEM, now, Payload::System(event), decision);
        self.append(SYSTEM, out);
        self.state.apply(now, event);
    }

    fn append(&mut self, agent: &str, out: &mut Vec<u8>) {
        let (seq, n) = self.state.next(agent);
        write_record(out, seq, n, &self.body);
        self.state.add(agent);
    }

    /// The last line, so that a cut end is noticed.
    pub fn end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&End { segment: SEGMENT, last_seq: self.state.seq, manifest: None }.line());
    }

    /// What the records so far add up to.
    pub fn state(&self) -> &State {
        &self.state
    }
}
