//! Checks a journal line by line: every checksum, and that no record is missing, doubled or moved.

use std::collections::BTreeMap;

use estop_core::ids::{Hash64, Name};

use crate::base::{BASE_KEY, Base};
use crate::line::{LineError, check_line};
use crate::record::{Head, Record, SYSTEM};
use crate::segment::{END_KEY, End, FORMAT, HEADER_KEY, Header};
use crate::state::State;

/// Why a journal cannot be trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// A line is not what was written.
    #[error("the line after record {after} was changed: {error}")]
    Changed {
        /// The record before it.
        after: u64,
        /// What is wrong with it.
        error: LineError,
    },
    /// A line's checksum holds, but it cannot be understood.
    #[error("the line after record {after} cannot be read: {problem}")]
    Unreadable {
        /// The record before it.
        after: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// Another version wrote it.
    #[error("the journal has format {0}, this estop reads format {FORMAT}")]
    Format(u32),
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
    /// The same among the records of one agent.
    #[error(
        "record {seq} should be the {expected}. of {agent}, but says that it is the {found}.: one was dropped, doubled or moved"
    )]
    AgentOutOfOrder {
        /// The record.
        seq: u64,
        /// Whose.
        agent: Name,
        /// The number it should have.
        expected: u64,
        /// The number it has.
        found: u64,
    },
    /// The journal does not begin with a header.
    #[error("the journal does not begin with the first line of a segment")]
    NoHeader,
    /// A segment's header stands in the middle of another, or the other way round.
    #[error("segment {segment} should {should} after record {after}")]
    Misplaced {
        /// Which.
        segment: u64,
        /// What it should do.
        should: &'static str,
        /// The record before.
        after: u64,
    },
    /// A segment is of another journal.
    #[error("segment {segment} belongs to another journal")]
    Foreign {
        /// Which.
        segment: u64,
    },
    /// A segment's header says something else than the records before it.
    #[error(
        "segment {segment} begins with something else than the records before it add up to: some are missing, or it was changed"
    )]
    StateDiffers {
        /// Which.
        segment: u64,
    },
    /// A journal whose first records are gone lacks the states after them.
    #[error("the journal begins after record {after}, and the agents' states after that record are missing")]
    NoStates {
        /// The last record that is gone.
        after: u64,
    },
    /// The journal does not end with an end.
    #[error("the journal does not end with the last line of a segment, so a cut end cannot be noticed")]
    NoEnd,
}

/// What a line is.
#[derive(Clone, Debug)]
pub enum Found<'a> {
    /// An agent's state after records that are gone.
    Base(Base<'a>),
    /// A segment begins.
    Header(Header),
    /// A record.
    Record(Head<'a>),
    /// A record of the system, which was taken into the state.
    System(Record<'a>),
    /// A segment ends.
    End(End),
}

/// Checks line by line.
#[derive(Clone, Debug, Default)]
pub struct Checker {
    state: State,
    /// The segment that was begun last.
    segment: Option<(Hash64, u64)>,
    /// It has ended.
    is_ended: bool,
    /// The first record is the one after this.
    begins_after: u64,
    /// Only records of this agent are here.
    only: Option<Name>,
    /// Agents whose states come before the first segment, and how many records of each are gone.
    bases: BTreeMap<Name, u64>,
}

impl Checker {
    /// Takes the next line in, without its end.
    pub fn take<'a>(&mut self, line: &'a [u8]) -> Result<Found<'a>, JournalError> {
        let after = self.state.seq;
        check_line(line).map_err(|error| JournalError::Changed { after, error })?;
        let unreadable = |problem: String| JournalError::Unreadable { after, problem };
        if line.starts_with(HEADER_KEY) {
            let header = Header::parse(line).map_err(|error| unreadable(error.to_string()))?;
            self.begin(&header)?;
            return Ok(Found::Header(header));
        }
        let Some((_, segment)) = self.segment else {
            if !line.starts_with(BASE_KEY) {
                return Err(JournalError::NoHeader);
            }
            let base = Base::parse(line).map_err(|error| unreadable(error.to_string()))?;
            self.bases.insert(base.agent.as_ref().into(), base.n);
            return Ok(Found::Base(base));
        };
        if self.is_ended {
            return Err(JournalError::Misplaced { segment: segment + 1, should: "begin", after });
        }
        if line.starts_with(END_KEY) {
            let end = End::parse(line).map_err(|error| unreadable(error.to_string()))?;
            if (end.segment, end.last_seq) != (segment, after) {
                return Err(JournalError::Misplaced { segment: end.segment, should: "not end", after });
            }
            self.is_ended = true;
            return Ok(Found::End(end));
        }
        let head = Head::read(line).ok_or_else(|| unreadable("it is no record".to_owned()))?;
        self.follow(&head)?;
        if head.agent != SYSTEM {
            self.state.add(head.agent);
            self.state.seq = head.seq;
            return Ok(Found::Record(head));
        }
        let record = Record::parse(line).map_err(|error| unreadable(error.to_string()))?;
        self.state.add(SYSTEM);
        if let Some(event) = &record.system {
            self.state.apply(record.now, event);
        }
        Ok(Found::System(record))
    }

    fn follow(&self, head: &Head<'_>) -> Result<(), JournalError> {
        let (expected, n) = self.state.next(head.agent);
        let is_next = match &self.only {
            // Those of others are between them.
            Some(agent) => head.seq >= expected && head.agent == &**agent,
            None => head.seq == expected,
        };
        if !is_next {
            return Err(JournalError::OutOfOrder { expected, found: head.seq });
        }
        if head.n != n {
            let agent = head.agent.into();
            return Err(JournalError::AgentOutOfOrder { seq: head.seq, agent, expected: n, found: head.n });
        }
        Ok(())
    }

    fn begin(&mut self, header: &Header) -> Result<(), JournalError> {
        let Header { format, journal, segment, state, .. } = header;
        if *format != FORMAT {
            return Err(JournalError::Format(*format));
        }
        let Some((known, before)) = self.segment else {
            if !self.bases.is_empty() && !self.fits_bases(state) {
                return Err(JournalError::StateDiffers { segment: *segment });
            }
            self.begins_after = state.seq;
            self.state = state.clone();
            self.segment = Some((*journal, *segment));
            self.only = header.agent.clone();
            return Ok(());
        };
        if !self.is_ended || *segment != before + 1 {
            let should = if self.is_ended { "not stand here" } else { "not begin" };
            return Err(JournalError::Misplaced { segment: *segment, should, after: self.state.seq });
        }
        if known != *journal {
            return Err(JournalError::Foreign { segment: *segment });
        }
        if self.state != *state {
            return Err(JournalError::StateDiffers { segment: *segment });
        }
        self.segment = Some((*journal, *segment));
        self.is_ended = false;
        Ok(())
    }

    /// Whether there is a state of each agent some of whose records are gone, after exactly as many.
    fn fits_bases(&self, state: &State) -> bool {
        let agents = || state.counts().filter(|(agent, _)| *agent != SYSTEM);
        agents().count() == self.bases.len() && agents().all(|(agent, n)| self.bases.get(agent) == Some(&n))
    }

    /// What the records so far add up to.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The same, for who goes on from here.
    pub fn into_state(self) -> State {
        self.state
    }

    /// The record after which the journal begins; 0 = it is whole.
    pub fn begins_after(&self) -> u64 {
        self.begins_after
    }

    /// An error if records are gone and the agents' states after them were not there.
    pub fn has_states(&self) -> Result<(), JournalError> {
        let agents = |state: &State| state.counts().any(|(agent, _)| agent != SYSTEM);
        match self.begins_after {
            0 => Ok(()),
            after if self.bases.is_empty() && agents(&self.state) => Err(JournalError::NoStates { after }),
            _ => Ok(()),
        }
    }

    /// The segment that was begun last.
    pub fn segment(&self) -> Option<u64> {
        self.segment.map(|(_, segment)| segment)
    }

    /// Whether the last line was the end of a segment.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }
}
