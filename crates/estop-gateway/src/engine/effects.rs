//! What a decision brings about beside its answer: requests are cut, tools ended, the button pressed.

use estop_core::decision::{Decision, Effect, Finding, Guard};
use estop_core::event::{AbortedBy, Event, EventKind};
use estop_core::guards::watchdog::{WINDOW_MS, WatchdogFinding};
use estop_core::ids::Name;
use estop_core::run::{RunFinding, RunState};
use estop_core::system::KillReason;
use estop_core::system::button::Press;
use estop_wire::refusal::Kind;

use super::{Engine, reasons};
use crate::emergency_stop::in_flight::Cut;
use crate::engine::agents::Agent;
use crate::engine::background::Job;

impl Engine {
    /// Does what a decision says. The caller holds the agent's lock: nothing here waits.
    pub(super) fn act(&self, agent: &Agent, decision: &Decision) {
        for effect in &decision.effects {
            match effect {
                Effect::AbortInFlight => {
                    let (cut, now) = (stopped(decision, agent), self.clock.mono());
                    agent.in_flight_requests.for_each(|flight| flight.stop(cut.clone(), now));
                    self.end_tools(&agent.name, None, &cut.message);
                    let now = self.clock.now().wall;
                    self.jobs.stop_where(now, |job| *job.agent == *agent.name);
                }
                Effect::CutStream { request } => {
                    let cut = stopped(decision, agent);
                    agent.in_flight_requests.for_each(|flight| {
                        if flight.request == *request {
                            flight.stop(cut.clone(), self.clock.mono());
                        }
                    });
                }
                Effect::PressButton => {
                    let by = format!("watchdog: agent {}", agent.name);
                    let press = Press::new(KillReason::RunawayAgent, &by, "watchdog");
                    self.kill(Press { metadata: runaway(decision), ..press });
                }
                Effect::RunTripped { run, .. } => self.last_output.trip(&agent.name, run.as_ref()),
                Effect::RunEscalated { run, used, .. } => {
                    // An implicit run is refused what is new and never ended for good (ID-7): the next one speaks.
                    let Some(run) = run else {
                        self.last_output.reopen(&agent.name, None);
                        continue;
                    };
                    self.last_output.close(&agent.name, Some(run));
                    let (state, tripped) = (RunState::Escalated, Some(*used));
                    let seen = RunFinding { state, tripped, requests_left: None, problem: None };
                    self.end_run(agent, run, &escalated(&seen));
                }
                // Told to people, and to supervisors of processes.
                Effect::Deactivated { .. }
                | Effect::Paused { .. }
                | Effect::HealthFell(_)
                | Effect::LoopEvidence(_)
                | Effect::Nudged { .. }
                | Effect::NudgeEnded { .. }
                | Effect::WouldHaveStopped { .. }
                | Effect::BudgetWarned(_)
                | Effect::BudgetRefused(_)
                | Effect::ReservationExpired { .. }
                | Effect::SnoozeEnded { .. } => {}
            }
        }
    }

    /// Ends everything of a run that still moves.
    fn end_run(&self, agent: &Agent, run: &Name, cut: &Cut) {
        let now = self.clock.mono();
        agent.in_flight_requests.for_each(|flight| {
            if flight.is_of_run(run) {
                flight.stop(cut.clone(), now);
            }
        });
        self.end_tools(&agent.name, Some(run), &cut.message);
        let is_meant = |job: &Job| *job.agent == *agent.name && job.run.as_ref() == Some(run);
        self.jobs.stop_where(self.clock.now().wall, is_meant);
    }

    /// Ends the tools of an agent, or of one of its runs. Programs at which a person sits are refused, not killed (CB-6).
    fn end_tools(&self, agent: &str, run: Option<&str>, why: &str) {
        self.tools.end_where(|tool| {
            let is_meant = tool.agent() == Some(agent) && (run.is_none() || tool.run() == run);
            (is_meant && !tool.is_attended()).then(|| why.to_owned())
        });
    }

    /// An agent's last words in a run: at the end of a turn, or in an answer. Takes no agent's lock.
    pub fn record_output(&self, agent: &str, run: Option<&str>, text: &str) {
        self.last_output.record(agent, run, text);
    }

    /// A run that begins anew has said nothing yet; one that goes on may speak again.
    pub(super) fn follow_runs(&self, agent: &str, event: &Event, decision: &Decision) {
        if !decision.is_allowed() {
            return;
        }
        if matches!(event.what, EventKind::RunStarted { .. }) {
            self.last_output.forget(agent, event.run.as_ref());
        } else if matches!(event.what, EventKind::RunExtended { .. }) {
            self.last_output.reopen(agent, event.run.as_ref());
        }
    }
}

/// What the watchdog counted, as seed 5 keeps it with the kill.
fn runaway(decision: &Decision) -> Option<Name> {
    let Some(Finding::Watchdog(seen)) = decision.verdicts.get(Guard::Watchdog).map(|v| &v.finding) else {
        return None;
    };
    let WatchdogFinding { calls, .. } = seen;
    Some(format!(r#"{{"apiCallCount":{calls},"timeWindow":{WINDOW_MS}}}"#).into())
}

/// What a request that is ended by this decision is told.
fn stopped(decision: &Decision, agent: &Agent) -> Cut {
    Cut {
        by: AbortedBy::Guard,
        kind: Kind::Stop,
        code: reasons::code(decision),
        message: reasons::sentence(decision, agent),
    }
}

/// What a request of an escalated run is told.
fn escalated(seen: &RunFinding) -> Cut {
    let (by, kind, code) = (AbortedBy::Guard, Kind::Stop, "circuit_breaker");
    Cut { by, kind, code, message: format!("Stopped by estop: {seen}") }
}
