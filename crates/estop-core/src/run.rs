//! A run: one task of an agent, its state and its counters (CB-3..7, ID-7).

mod clock;
mod duplicate_calls;
mod finding;
mod limit_use;
mod list;
pub mod report_tool;
pub mod test_command;
mod test_runs;
mod view;

use serde::{Deserialize, Serialize};

use crate::budget::Spent;
use crate::ended::Ended;
use crate::event::ToolRequested;
use crate::fingerprint::CallFingerprint;
use crate::guard::Guard;
use crate::ids::{Hash64, Name};
use crate::judgement::Judgement;
use crate::policy::{EffectiveLimits, LimitName, Limits, Mode, Modes, RunLimits};
use crate::time::Millis;

pub(crate) use clock::RunDue;
use duplicate_calls::AnnouncedCalls;
pub(crate) use duplicate_calls::{AtGate, is_same_call};
pub use finding::{RunFinding, RunProblem, RunState};
pub(crate) use limit_use::granted;
pub use limit_use::{Counts, LimitUse};
pub(crate) use list::Runs;
pub use view::RunView;

/// An implicit run ends after this long without activity (ID-7).
pub(crate) const IMPLICIT_IDLE_MS: u64 = 30 * 60_000;
/// Time to sum up after a trip (CB-6).
const WRAP_UP_MS: u64 = 60_000;
/// Requests to sum up after a trip (CB-6).
const WRAP_UP_REQUESTS: u8 = 3;
/// Runs remembered for each agent; beyond that finished ones are forgotten, the oldest first.
pub const RUNS_MAX: usize = 256;

/// A trip: which limit, and how much time is left to sum up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Trip {
    used: LimitUse,
    at: Millis,
    requests_left: u8,
    /// The time to sum up is over.
    over: bool,
}

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) name: Option<Name>,
    /// Tells runs of one name apart, for requests that outlive theirs.
    pub(crate) serial: u32,
    state: RunState,
    pub(crate) attended: bool,
    counts: Counts,
    /// Allowances a person granted, the first included.
    allowances: u16,
    /// What the test before said; `None` = there was none.
    last_test: Option<Ended>,
    awaited_tests: Vec<Hash64>,
    /// Test runs that ended, and no hook said how.
    #[serde(default, skip_serializing_if = "is_zero")]
    untold_tests: u8,
    /// Hooks report the ends of its tool calls.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ends_hooked: bool,
    /// Hooks report its tool calls, so answers do not count them.
    tools_hooked: bool,
    /// Hooks report its prompts, so requests do not count them.
    prompts_hooked: bool,
    /// Counted from the latest answer, not seen by a hook yet.
    uncertain: Uncertain,
    active_ms: u64,
    /// When it entered its state.
    since: Millis,
    pub(crate) last_activity: Millis,
    /// Few runs trip: kept apart, so that the others stay small.
    trip: Option<Box<Trip>>,
    /// One bit for each limit whose shadow trip was told.
    told: u8,
    pub(crate) spent: Spent,
    /// Set for this run alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limits: Option<Box<RunLimits>>,
}

fn is_zero(count: &u8) -> bool {
    *count == 0
}

/// What an event adds to a run's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Increments {
    pub(crate) tool_calls: u32,
    pub(crate) turn: bool,
    pub(crate) test_runs: u32,
}

/// What was counted from the latest answer, in case hooks turn out to count it too.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Uncertain {
    tool_calls: u32,
    iterations: u32,
    /// What the test before the answer said.
    last_test: Option<Ended>,
    /// The calls, for the gate of an MCP server.
    #[serde(default, skip_serializing_if = "AnnouncedCalls::is_empty")]
    calls: AnnouncedCalls,
}

/// What an event action of a run, for one that is tripped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunAction {
    /// To talk to a model: allowed for a while, to sum up.
    ModelCall,
    /// To call a wrap-up tool: always allowed.
    WrapUpTool,
    /// To call any other tool.
    Tool,
}

impl Run {
    pub(crate) fn new(name: Option<Name>, serial: u32, attended: bool, now: Millis) -> Run {
        Run {
            name,
            serial,
            state: RunState::Active,
            attended,
            counts: Counts::default(),
            allowances: 1,
            last_test: None,
            awaited_tests: Vec::new(),
            untold_tests: 0,
            ends_hooked: false,
            tools_hooked: false,
            prompts_hooked: false,
            uncertain: Uncertain::default(),
            active_ms: 0,
            since: now,
            last_activity: now,
            trip: None,
            told: 0,
            spent: Spent::default(),
            limits: None,
        }
    }

    pub(crate) fn state(&self) -> RunState {
        self.state
    }

    /// The mode of a limit. Of attended and implicit runs only those limits are enforced in `watch` that somebody set, for
    /// the agent or for this run (PO-5).
    pub(crate) fn mode_of(&self, limit: LimitName, limits: &Limits, modes: &Modes) -> Mode {
        if self.is_unattended() {
            return modes.breaker_unattended;
        }
        let is_own = self.limits.as_ref().is_some_and(|own| own.get(limit).is_some());
        if is_own || limits.set.contains(limit) { modes.breaker_set } else { modes[Guard::Breaker] }
    }

    /// The limits in force: this run's own over those of its agent. What each may do says [`Run::mode_of`].
    pub(crate) fn caps(&self, limits: &Limits) -> EffectiveLimits {
        let ruled = EffectiveLimits::of(limits);
        self.limits.as_ref().map_or(ruled, |own| ruled.under(own))
    }

    fn is_unattended(&self) -> bool {
        self.name.is_some() && !self.attended
    }

    pub(crate) fn set_limits(&mut self, limits: Option<RunLimits>) {
        self.limits = limits.filter(|limits| !limits.is_empty()).map(Box::new);
    }

    /// Milliseconds in ACTIVE, all wakes and restarts together.
    fn active_ms(&self, now: Millis) -> u64 {
        self.active_ms + if self.state == RunState::Active { now.since(self.since) } else { 0 }
    }

    /// The counters as they would be with `adds`.
    pub(crate) fn counts_with(&self, adds: Increments, now: Millis) -> Counts {
        // Of several test runs at once only the first can follow a pass.
        let first_counts = self.last_test != Some(Ended::Ok);
        let iterations = if first_counts { adds.test_runs } else { adds.test_runs.saturating_sub(1) };
        Counts {
            tool_calls: self.counts.tool_calls.saturating_add(adds.tool_calls),
            iterations: self.counts.iterations.saturating_add(iterations),
            turns: self.counts.turns.saturating_add(u32::from(adds.turn)),
            active_s: u32::try_from(self.active_ms(now) / 1000).unwrap_or(u32::MAX),
        }
    }

    /// Turns so far.
    pub(crate) fn turns(&self) -> u32 {
        self.counts.turns
    }

    pub(crate) fn allowances(&self) -> u32 {
        u32::from(self.allowances)
    }

    /// Counts what was let through. What a tripped run asks to sum up is no turn: extended, it has a full allowance (CB-6).
    pub(crate) fn count(&mut self, adds: Increments, now: Millis) {
        self.wake(now);
        let adds = Increments { turn: adds.turn && self.trip.is_none(), ..adds };
        self.counts = self.counts_with(adds, now);
        self.last_activity = now;
    }

    /// A prompt came by hook: from now on hooks count turns.
    pub(crate) fn hook_prompt(&mut self) {
        self.prompts_hooked = true;
    }

    /// A tool call comes by hook, so hooks count calls from here on. Those of the latest answer were counted from
    /// it and are now seen a second time: take them back.
    pub(crate) fn hook_tools(&mut self) {
        if !std::mem::replace(&mut self.tools_hooked, true) {
            let Uncertain { tool_calls, iterations, last_test, .. } = self.uncertain;
            self.counts.tool_calls = self.counts.tool_calls.saturating_sub(tool_calls);
            self.counts.iterations = self.counts.iterations.saturating_sub(iterations);
            if iterations > 0 {
                self.last_test = last_test;
                self.awaited_tests.clear();
            }
        }
        self.uncertain = Uncertain::default();
    }

    /// Whether the latest answer showed a call that the gate of its MCP server sees now.
    pub(crate) fn announced(&self, t: &ToolRequested) -> bool {
        self.uncertain.calls.is_paired(t) || self.uncertain.calls.pair_of(t).is_some()
    }

    /// The gate saw it: a second one like it is another call.
    pub(crate) fn pair_announced(&mut self, t: &ToolRequested) {
        if !self.uncertain.calls.is_paired(t) {
            self.uncertain.calls.pair(t);
        }
    }

    /// What a request adds: a turn, unless hooks count them.
    pub(crate) fn request_adds(&self, asks: bool) -> Increments {
        Increments { turn: asks && !self.prompts_hooked, ..Increments::default() }
    }

    /// Counts an answer's calls, unless hooks count them. Says whether it did.
    pub(crate) fn count_answer(&mut self, adds: Increments, calls: &[CallFingerprint], now: Millis) -> bool {
        if self.tools_hooked {
            return false;
        }
        let (before, last_test) = (self.counts, self.last_test);
        self.count(adds, now);
        let iterations = self.counts.iterations.saturating_sub(before.iterations);
        let calls = AnnouncedCalls::of(calls);
        self.uncertain = Uncertain { tool_calls: adds.tool_calls, iterations, last_test, calls };
        true
    }

    /// How it stands.
    pub(crate) fn finding(&self) -> RunFinding {
        RunFinding {
            state: self.state,
            tripped: self.trip.as_ref().map(|t| t.used),
            requests_left: self.trip.as_ref().map(|t| t.requests_left),
            problem: None,
        }
    }

    /// Whether it may go on: COMPLETED and ESCALATED may not, a tripped one only to sum up.
    pub(crate) fn judge(&self, action: RunAction) -> Judgement<RunFinding> {
        let finding = self.finding();
        match (self.state, &self.trip) {
            (RunState::Completed | RunState::Escalated, _) => Judgement::stop(finding),
            (RunState::Active | RunState::Sleeping, None) => Judgement::pass(finding),
            (RunState::Active | RunState::Sleeping, Some(trip)) => {
                let may = match action {
                    RunAction::ModelCall => !trip.over && trip.requests_left > 0,
                    RunAction::WrapUpTool => true,
                    RunAction::Tool => false,
                };
                if may { Judgement::warn(finding) } else { Judgement::stop(finding) }
            }
        }
    }

    /// Uses up one of the requests left to sum up.
    pub(crate) fn sums_up(&mut self) {
        if let Some(trip) = &mut self.trip {
            trip.requests_left = trip.requests_left.saturating_sub(1);
        }
    }

    /// Whether the requests left to sum up are used up, and the run was not escalated yet.
    pub(crate) fn has_summed_up(&self) -> bool {
        !self.is_over() && self.trip.as_ref().is_some_and(|trip| !trip.over && trip.requests_left == 0)
    }

    pub(crate) fn is_tripped(&self) -> bool {
        self.trip.is_some()
    }

    /// Hooks report its tool calls.
    pub(crate) fn is_hooked(&self) -> bool {
        self.tools_hooked
    }

    pub(crate) fn tripped(&self) -> Option<LimitUse> {
        self.trip.as_ref().map(|t| t.used)
    }

    /// Whether what already runs may go on: not once the run was escalated.
    pub(crate) fn judge_running(&self) -> Judgement<RunFinding> {
        let Judgement { seen, .. } = self.judge(RunAction::ModelCall);
        Judgement::stop_if(self.state == RunState::Escalated, seen)
    }

    pub(crate) fn trip(&mut self, used: LimitUse, now: Millis) {
        if self.trip.is_none() {
            self.trip = Some(Box::new(Trip { used, at: now, requests_left: WRAP_UP_REQUESTS, over: false }));
        }
    }

    pub(crate) fn sleep(&mut self, now: Millis) -> bool {
        if self.state != RunState::Active {
            return false;
        }
        self.enter(RunState::Sleeping, now);
        true
    }

    pub(crate) fn wake(&mut self, now: Millis) -> bool {
        if self.state != RunState::Sleeping {
            return false;
        }
        self.enter(RunState::Active, now);
        true
    }

    /// Done. A tripped run that reports is escalated: a person was promised.
    pub(crate) fn complete(&mut self, now: Millis) -> Option<RunState> {
        if !matches!(self.state, RunState::Active | RunState::Sleeping) {
            return None;
        }
        let end = if self.trip.is_some() { RunState::Escalated } else { RunState::Completed };
        self.enter(end, now);
        Some(end)
    }

    /// A person grants another full allowance.
    pub(crate) fn extend(&mut self, now: Millis) -> bool {
        if self.state == RunState::Completed {
            return false;
        }
        self.allowances = self.allowances.saturating_add(1);
        self.trip = None;
        self.told = 0;
        self.last_activity = now;
        self.enter(RunState::Active, now);
        true
    }

    fn enter(&mut self, state: RunState, now: Millis) {
        self.active_ms = self.active_ms(now);
        self.state = state;
        self.since = now;
    }

    fn is_shadow_trip_reported(&self, limit: LimitName) -> bool {
        self.told & 1 << limit as u8 != 0
    }

    /// Whether a shadow trip is news; each limit is told once until a person extends the run.
    pub(crate) fn report_shadow_trip(&mut self, limit: LimitName) -> bool {
        let news = !self.is_shadow_trip_reported(limit);
        self.told |= 1 << limit as u8;
        news
    }

    /// COMPLETED or ESCALATED.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, RunState::Completed | RunState::Escalated)
    }
}
