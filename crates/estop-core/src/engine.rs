//! The one place where an agent is judged: `handle(now, &Event, &Policy) -> Decision`.
//!
//! Live traffic, replay, backtest, evaluation and simulation all call it. This file orders and dispatches;
//! each detector owns its own rules and memory.

mod admission;
mod in_flight;
mod lifecycle;
mod message;
mod next_request;
mod pass;
mod pending_request;
mod refusal_status;
mod request;
mod response;
mod snapshot;
mod snooze;
mod tool;
mod tripwire;

use serde::{Deserialize, Serialize};

use crate::agent::standing::{Cause, DeactivatedBy, Standing};
use crate::budget::{Amount, Budget};
use crate::decision::{Decision, Effect, Guard};
use crate::event::{Event, EventKind};
use crate::ids::{Name, RequestId};
use crate::loop_detector::window::Conversations;
use crate::minute::{MINUTE_MS, Minute};
use crate::policy::{Mode, Policy};
use crate::run::{RunDue, RunFinding, RunState, RunView, Runs};
use crate::time::{Millis, Now};
use crate::tripwire::activity::{Activity, ActivityState};
use crate::tripwire::health::{Health, HealthLoss};
use crate::tripwire::safety_gate::SafetyGate;
use in_flight::InFlight;
pub use in_flight::OVERDUE_MAX;
use next_request::LatestRequest;
pub use next_request::StatusQuery;
pub use snapshot::{Snapshot, SnapshotError};
use snooze::Snoozes;
pub use snooze::{SNOOZE_MAX_MS, Snooze};
use tool::OpenCalls;

/// Everything that is known of one agent: a fold over its events.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AgentState {
    /// The latest moment seen; time never goes back in here.
    now: Millis,
    standing: Standing,
    conversations: Conversations,
    runs: Runs,
    in_flight: InFlight,
    open_calls: OpenCalls,
    minute: Minute,
    activity: Activity,
    gate: SafetyGate,
    health: Health,
    budget: Budget,
    /// One bit for each guard in shadow that would stop and was told.
    shadow_told: u16,
    /// The watchdog pressed the button for a runaway that is not over.
    button_pressed: bool,
    #[serde(default)]
    snoozes: Snoozes,
    /// The latest request, whether it was let through or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latest: Option<Box<LatestRequest>>,
    /// It asked for something, or a run of it began.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_acted: bool,
    /// The run it did something in last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latest_run: Option<Name>,
    /// The person who switched it off or paused it, while that holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    steered_by: Option<Name>,
}

/// When to wake an agent's state, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// Send a `Tick` at this moment.
    pub at: Millis,
    /// What will happen then.
    pub why: WakeReason,
}

/// Why an agent's state must be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeReason {
    /// A run reaches a time limit, or its time to sum up ends, or an implicit run closes.
    RunClock,
    /// A reservation outlives its request.
    Reservation,
    /// The agent becomes idle.
    Idle,
    /// A snoozed guard works again.
    Snooze,
}

impl AgentState {
    /// Judges an event.
    pub fn handle(&mut self, now: Now, event: &Event, policy: &Policy) -> Decision {
        let at = self.advance(now.mono);
        let now = Now { mono: at, wall: now.wall };
        let mut effects = Vec::new();
        self.end_snoozes(at, &mut effects);
        let policy = &*self.snoozes.over(policy);
        if let EventKind::Restarted { away_ms } = event.what {
            self.restarted(at, away_ms);
        }
        self.elapse(now, policy, &mut effects);
        self.note_run(event);
        let mut decision = match &event.what {
            EventKind::RequestReceived(r) => self.request_received(now, event, r, policy),
            EventKind::ResponseCompleted(r) => self.response_completed(at, r, policy),
            EventKind::StreamProgressed(p) => self.stream_progressed(at, event, p, policy),
            EventKind::StreamAborted(a) => self.stream_aborted(at, a, policy),
            EventKind::ChantDetected(c) => self.chant_detected(at, c, policy),
            EventKind::ToolRequested(t) => self.tool_requested(now, event, t, policy),
            EventKind::ToolFinished(t) => self.tool_finished(at, t, policy),
            EventKind::PromptSubmitted => self.prompt_submitted(at, event, policy),
            EventKind::RunStarted { attended, limits, .. } => {
                self.run_started(at, event, *attended, limits.as_deref().copied())
            }
            EventKind::RunSlept => self.run_changed(event, |run| run.sleep(at)),
            EventKind::RunWoke => self.run_changed(event, |run| run.wake(at)),
            EventKind::RunCompleted => self.run_completed(at, event),
            EventKind::RunExtended { .. } => self.run_changed(event, |run| run.extend(at)),
            EventKind::MessageIn { .. } | EventKind::MessageOut { .. } => self.message(now, event, policy),
            EventKind::PolicyChanged { .. } => self.policy_changed(policy),
            EventKind::Restarted { .. } | EventKind::Tick => Decision::noted(),
            EventKind::AgentActivated { .. } => self.activated(at),
            EventKind::AgentDeactivated { by } => self.deactivated(at, by),
            EventKind::AgentPaused { by } => self.paused(at, by),
            EventKind::AgentResumed { .. } => self.resumed(at),
            EventKind::GuardSnoozed { by, guard, for_ms, until, note } => {
                let (by, note) = (by.clone(), note.clone());
                let snooze = Snooze { guard: *guard, until: at, until_wall: *until, by, note };
                self.snoozed(at, snooze, *for_ms)
            }
            EventKind::GuardWoken { guard, .. } => self.woken(*guard),
            EventKind::BudgetRenewed { spent, .. } => self.budget_renewed(now, *spent, policy),
        };
        if !effects.is_empty() {
            effects.append(&mut decision.effects);
            decision.effects = effects;
        }
        decision
    }

    /// The next moment something happens by itself.
    pub fn poll_timeout(&self, policy: &Policy) -> Option<Wake> {
        let policy = &*self.snoozes.over(policy);
        let runs = self.runs.iter().filter_map(|run| run.next_due(&policy.limits, &policy.modes)).min();
        let wakes = [
            (runs, WakeReason::RunClock),
            (self.in_flight.first_expiry(), WakeReason::Reservation),
            (self.activity.next_change(), WakeReason::Idle),
            (self.snoozes.first_end(), WakeReason::Snooze),
        ];
        let due = wakes.into_iter().filter_map(|(at, why)| Some(Wake { at: at?, why }));
        due.min_by_key(|wake| wake.at)
    }

    /// Time only goes forward. A clock that was set back stands still until it caught up.
    fn advance(&mut self, mono: Millis) -> Millis {
        if mono.since(self.now) >= MINUTE_MS {
            // Nothing of the last minute is left, and the 32-bit marks could not tell a day from a moment.
            self.minute.clear();
        }
        self.now = self.now.max(mono);
        self.now
    }

    /// Does what time brought about since the last event.
    fn elapse(&mut self, now: Now, policy: &Policy, effects: &mut Vec<Effect>) {
        self.budget.turn(now, &policy.budget);
        let now = now.mono;
        self.minute.expire(now);
        self.health.recover(now, &policy.gate);
        if self.activity.idle_by_clock(now) {
            self.minute.shrink();
            self.in_flight.shrink();
        }
        self.expire_reservations(now, policy, effects);
        self.elapse_runs(now, policy, effects);
    }

    fn expire_reservations(&mut self, now: Millis, policy: &Policy, effects: &mut Vec<Effect>) {
        while let Some(expired) = self.in_flight.take_expired(now) {
            effects.push(Effect::ReservationExpired { request: expired.request });
            // Nobody said what it used: book what was held, so that the cap holds.
            self.settle(&expired, expired.held, policy, effects);
        }
    }

    /// Ends a reservation and books what was used.
    fn settle(
        &mut self,
        ended: &in_flight::Flight,
        used: Amount,
        policy: &Policy,
        effects: &mut Vec<Effect>,
    ) {
        self.book(ended.run, ended.held, used, policy, effects);
        if let Some(c) = ended.conversation.and_then(|serial| self.conversations.by_serial(serial)) {
            c.in_flight = c.in_flight.saturating_sub(1);
        }
    }

    /// Books what was used instead of what was held, for the agent and for its run.
    fn book(&mut self, run: u32, held: Amount, used: Amount, policy: &Policy, effects: &mut Vec<Effect>) {
        self.budget.settle(held, used);
        let mut warnings = self.budget.warnings(&policy.budget);
        if let Some(run) = self.runs.by_serial(run) {
            run.spent.amount = run.spent.amount.plus(used);
            run.spent.warn_run(&policy.budget, &mut warnings);
        }
        effects.extend(warnings.into_iter().map(Effect::BudgetWarned));
    }

    fn elapse_runs(&mut self, now: Millis, policy: &Policy, effects: &mut Vec<Effect>) {
        let mut closed = None;
        for run in self.runs.iter_mut() {
            while let Some(due) = run.elapse(now, &policy.limits, &policy.modes) {
                match due {
                    RunDue::Tripped(used) => {
                        effects.push(Effect::RunTripped { run: run.name.clone(), used });
                    }
                    RunDue::WouldTrip => {
                        effects.push(Effect::WouldHaveStopped { guard: Guard::Breaker, tool: None });
                    }
                    RunDue::Escalated(used) => effects.push(Effect::RunEscalated {
                        run: run.name.clone(),
                        used,
                        attended: run.attended,
                    }),
                    RunDue::Closed => {
                        closed = Some(run.serial);
                        break;
                    }
                }
            }
        }
        if let Some(serial) = closed {
            self.runs.remove(serial);
        }
    }

    /// Switches the agent off by a guard (LD-3).
    ///
    /// What is off already stays off by the first hand, and is not told again.
    fn kill_switch(&mut self, now: Millis, cause: Cause, effects: &mut Vec<Effect>) {
        if matches!(self.standing, Standing::Inactive { .. }) {
            return;
        }
        self.standing.deactivate(DeactivatedBy::KillSwitch(cause), now);
        effects.push(Effect::Deactivated { cause });
        effects.push(Effect::AbortInFlight);
    }

    /// Something harmed the agent's health; below a threshold it is paused or switched off (TW-5).
    fn harm(&mut self, now: Millis, harm: HealthLoss, policy: &Policy, effects: &mut Vec<Effect>) {
        self.health.harm(harm);
        self.act_on_health(now, policy, effects);
    }

    fn act_on_health(&mut self, now: Millis, policy: &Policy, effects: &mut Vec<Effect>) {
        let health = self.health.value();
        let suspended = health < policy.gate.soft_suspend_threshold;
        match policy.modes[Guard::Health] {
            Mode::Off => {}
            Mode::Shadow => {
                if admission::is_first_report(&mut self.shadow_told, Guard::Health, suspended) {
                    effects.push(Effect::WouldHaveStopped { guard: Guard::Health, tool: None });
                }
            }
            Mode::Enforce if !suspended => {}
            Mode::Enforce if health < policy.gate.hard_stop_threshold => {
                if !matches!(self.standing, Standing::Inactive { .. }) {
                    effects.push(Effect::HealthFell(self.health.finding(&policy.gate)));
                }
                self.kill_switch(now, Cause::Health, effects);
            }
            Mode::Enforce => {
                if self.standing == Standing::Active {
                    self.standing.pause(Some(Cause::Health), now);
                    effects.push(Effect::HealthFell(self.health.finding(&policy.gate)));
                    effects.push(Effect::Paused { cause: Cause::Health });
                }
            }
        }
    }
}

/// What people and tests may look at.
impl AgentState {
    /// Active, inactive or paused.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Health in thousandths, after the latest event.
    pub fn health(&self) -> u16 {
        self.health.value()
    }

    /// Health in thousandths as it is at `now`: it recovers by the clock, whether or not anything happens (TW-5).
    pub fn health_at(&self, now: Millis, policy: &Policy) -> u16 {
        let mut health = self.health;
        health.recover(now.max(self.now), &policy.gate);
        health.value()
    }

    /// Mode and intensity.
    pub fn activity(&self) -> ActivityState {
        self.activity.state()
    }

    /// Whether it ever asked for anything, or a run of it began. One that has only been configured has not.
    pub fn has_acted(&self) -> bool {
        self.has_acted
    }

    /// Money and tokens.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The state of a run; `None` if it is not known.
    pub fn run_state(&self, run: Option<&str>) -> Option<RunState> {
        self.runs.get(run).map(super::run::Run::state)
    }

    /// How a run stands: its state, and what tripped it.
    pub fn run_finding(&self, run: Option<&str>) -> Option<RunFinding> {
        self.runs.get(run).map(super::run::Run::finding)
    }

    /// What people see of its runs, after the latest event.
    pub fn run_views(&self) -> Vec<RunView> {
        self.run_views_at(self.now)
    }

    /// What people see of its runs at `now`: the time of an active one goes on by the clock (CB-5).
    pub fn run_views_at(&self, now: Millis) -> Vec<RunView> {
        let now = now.max(self.now);
        self.runs.iter().map(|run| run.view(now)).collect()
    }

    /// Whether a restart of estop changes anything for it: requests under way, or runs whose time counts.
    pub fn is_under_way(&self) -> bool {
        self.in_flight.len() > 0 || self.runs.iter().any(|run| run.state() == RunState::Active)
    }

    /// Requests under way.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// What the requests under way hold, added up one by one.
    pub fn reservations_sum(&self) -> Amount {
        self.in_flight.held()
    }

    /// What a request under way holds.
    pub fn held_by_request(&self, request: RequestId) -> Option<Amount> {
        self.in_flight.get(request).map(|flight| flight.held)
    }

    /// Requests under way, and what each holds.
    pub fn open_requests(&self) -> impl Iterator<Item = (RequestId, Amount)> {
        self.in_flight.iter().map(|flight| (flight.request, flight.held))
    }

    /// Conversations remembered, and the length of the longest window.
    pub fn windows(&self) -> (usize, usize) {
        (self.conversations.len(), self.conversations.longest())
    }
}
