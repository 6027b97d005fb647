//! Runs as the model sees them: their state, what was let through, what they spent.

use std::collections::BTreeMap;

use estop_core::guard::Guard;
use estop_core::ids::Name;
use estop_core::policy::{Mode, Modes};

use super::ledger::Total;

/// The core closes an implicit run after this long without activity.
const IMPLICIT_IDLE_MS: u64 = 30 * 60_000;
/// The core remembers 256 runs; with fewer than this it has forgotten none.
const FOLLOWED_MAX: usize = 200;
/// Time and number of requests to sum up after a trip (CB-6).
const SUM_UP_MS: u64 = 60_000;
const SUM_UP_REQUESTS: u32 = 3;

/// How a run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunIs {
    /// Active or sleeping.
    #[default]
    Open,
    /// Completed.
    Completed,
    /// Escalated.
    Escalated,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Tells runs of one name apart.
    pub serial: u64,
    /// Its state.
    pub is: RunIs,
    attended: bool,
    named: bool,
    last_activity: u64,
    /// Tool calls that were let through, by hook or at the gate of an MCP server alone.
    pub tool_calls: u64,
    /// Hooks report its tool calls.
    pub hooked: bool,
    /// Prompts by hook that were let through.
    pub prompts: u64,
    /// Allowances a person granted.
    pub allowances: u64,
    tripped: Option<Trip>,
    /// Settled.
    pub spent: Total,
}

#[derive(Clone, Copy, Debug)]
struct Trip {
    at: u64,
    requests: u32,
}

impl Run {
    /// The breaker's mode for it (PO-5).
    pub fn mode(&self, modes: &Modes) -> Mode {
        if self.named && !self.attended { modes.breaker_unattended } else { modes[Guard::Breaker] }
    }

    /// Whether a limit tripped it.
    pub fn is_tripped(&self) -> bool {
        self.tripped.is_some()
    }

    /// Whether a tripped run may still speak, to sum up.
    pub fn may_sum_up(&self, now: u64) -> bool {
        self.tripped.is_none_or(|t| t.requests < SUM_UP_REQUESTS && now.saturating_sub(t.at) < SUM_UP_MS)
    }

    /// A request was let through.
    pub fn speaks(&mut self) {
        if let Some(trip) = &mut self.tripped {
            trip.requests += 1;
        }
    }
}

/// All runs of one agent.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    list: BTreeMap<Option<Name>, Run>,
    next: u64,
}

impl Runs {
    /// Whether there are so many that the core may have forgotten some.
    pub fn lost_track(&self) -> bool {
        self.list.len() >= FOLLOWED_MAX
    }

    /// One run.
    pub fn get(&self, name: &Option<Name>) -> Option<&Run> {
        self.list.get(name)
    }

    /// How the run of this serial stands, if it is known.
    pub fn is(&self, serial: u64) -> Option<RunIs> {
        self.list.values().find(|run| run.serial == serial).map(|run| run.is)
    }

    /// Closes an implicit run that idled.
    pub fn pass_time(&mut self, now: u64) {
        let idle = |run: &Run| now >= run.last_activity.saturating_add(IMPLICIT_IDLE_MS);
        if self.list.get(&None).is_some_and(idle) {
            self.list.remove(&None);
        }
    }

    /// A run begins, in place of one of the same name that ended.
    pub fn start(&mut self, name: &Option<Name>, attended: bool, now: u64) {
        self.list.remove(name);
        self.open(name, now).attended = attended;
    }

    /// The run, begun if it is new.
    pub fn open(&mut self, name: &Option<Name>, now: u64) -> &mut Run {
        let next = &mut self.next;
        self.list.entry(name.clone()).or_insert_with(|| {
            *next += 1;
            Run {
                serial: *next,
                is: RunIs::Open,
                attended: name.is_none(),
                named: name.is_some(),
                last_activity: now,
                tool_calls: 0,
                hooked: false,
                prompts: 0,
                allowances: 1,
                tripped: None,
                spent: Total::default(),
            }
        })
    }

    /// Something was let through.
    pub fn count(&mut self, name: &Option<Name>, now: u64) -> &mut Run {
        let run = self.open(name, now);
        run.last_activity = now;
        run
    }

    /// A limit tripped it.
    pub fn trip(&mut self, name: &Option<Name>, now: u64) {
        self.open(name, now).tripped.get_or_insert(Trip { at: now, requests: 0 });
    }

    /// A person lets it go on.
    pub fn extend(&mut self, name: &Option<Name>, now: u64) {
        let run = self.open(name, now);
        run.allowances += 1;
        run.tripped = None;
        run.is = RunIs::Open;
        run.last_activity = now;
    }

    /// It ended.
    pub fn end(&mut self, name: &Option<Name>, is: RunIs, now: u64) {
        self.open(name, now).is = is;
    }

    /// The implicit run is forgotten when a person switches the agent on.
    pub fn forget_implicit(&mut self) {
        self.list.remove(&None);
    }

    /// An implicit run at a limit is forgotten when a person switches on an agent that is on.
    pub fn release_implicit(&mut self) {
        if self.list.get(&None).is_some_and(Run::is_tripped) {
            self.list.remove(&None);
        }
    }

    /// An answer of one of its requests brought tool calls: activity, unless hooks report them anyway.
    pub fn answered(&mut self, serial: u64, now: u64) {
        let counts = |run: &&mut Run| run.serial == serial && !run.hooked && run.is == RunIs::Open;
        if let Some(run) = self.list.values_mut().find(counts) {
            run.last_activity = now;
        }
    }

    /// A request was refused for the state of its run.
    pub fn asked_in_vain(&mut self, name: &Option<Name>, now: u64) {
        if let Some(run) = self.list.get_mut(name) {
            run.last_activity = now;
        }
    }

    /// A stream of one of its requests goes on.
    pub fn streamed(&mut self, serial: u64, now: u64) {
        if let Some(run) = self.list.values_mut().find(|run| run.serial == serial) {
            run.last_activity = now;
        }
    }

    /// Books what a request of this run used, if the run is still known.
    pub fn book(&mut self, serial: u64, used: Total) {
        if let Some(run) = self.list.values_mut().find(|run| run.serial == serial) {
            run.spent += used;
        }
    }
}
