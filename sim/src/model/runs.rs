//! Runs as the model sees them: their state, what was let through, what they spent.
//!
//! One-sided on purpose: where the model cannot know what the core does (when exactly an idle implicit run closes),
//! it forgets earlier, so that it never accuses wrongly.

use std::collections::BTreeMap;

use estop_core::ids::Name;
use estop_core::policy::{Mode, Modes};

use super::ledger::Total;

/// The core closes an implicit run after this long without activity.
const IMPLICIT_IDLE_MS: u64 = 30 * 60_000;
/// The core remembers 256 runs; with fewer than this it has forgotten none.
const FOLLOWED_MAX: usize = 200;
/// Time and number of asks to sum up after a trip (CB-6).
const SUM_UP_MS: u64 = 60_000;
const SUM_UP_ASKS: u32 = 3;

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
    /// Tool calls by hook that were let through.
    pub tool_calls: u64,
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
    asks: u32,
}

impl Run {
    /// The breaker's mode for it (PO-5).
    pub fn mode(&self, modes: &Modes) -> Mode {
        if self.named && !self.attended { modes.breaker_unattended } else { modes.breaker }
    }

    /// Whether a limit tripped it.
    pub fn is_tripped(&self) -> bool {
        self.tripped.is_some()
    }

    /// Whether a tripped run may still ask for something to sum up.
    pub fn may_sum_up(&self, now: u64) -> bool {
        self.tripped.is_none_or(|t| t.asks < SUM_UP_ASKS && now.saturating_sub(t.at) < SUM_UP_MS)
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

    /// Closes an implicit run that idled.
    pub fn pass_time(&mut self, now: u64) {
        let idle = |run: &Run| now >= run.last_activity.saturating_add(IMPLICIT_IDLE_MS);
        if self.list.get(&None).is_some_and(idle) {
            self.list.remove(&None);
        }
    }

    /// A run begins.
    pub fn start(&mut self, name: &Option<Name>, attended: bool, now: u64) -> &mut Run {
        self.next += 1;
        let run = Run {
            serial: self.next,
            is: RunIs::Open,
            attended,
            named: name.is_some(),
            last_activity: now,
            tool_calls: 0,
            prompts: 0,
            allowances: 1,
            tripped: None,
            spent: Total::default(),
        };
        self.list.entry(name.clone()).insert_entry(run).into_mut()
    }

    /// The run, begun if it is new.
    pub fn open(&mut self, name: &Option<Name>, now: u64) -> &mut Run {
        if !self.list.contains_key(name) {
            return self.start(name, name.is_none(), now);
        }
        self.list.entry(name.clone()).or_insert_with(|| unreachable_run(now))
    }

    /// Something was let through.
    pub fn count(&mut self, name: &Option<Name>, now: u64) -> &mut Run {
        let run = self.open(name, now);
        run.last_activity = now;
        if let Some(trip) = &mut run.tripped {
            trip.asks += 1;
        }
        run
    }

    /// A limit tripped it.
    pub fn trip(&mut self, name: &Option<Name>, now: u64) {
        self.open(name, now).tripped.get_or_insert(Trip { at: now, asks: 0 });
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

    /// Books what a request of this run used, if the run is still known.
    pub fn book(&mut self, serial: u64, used: Total) {
        if let Some(run) = self.list.values_mut().find(|run| run.serial == serial) {
            run.spent += used;
        }
    }
}
