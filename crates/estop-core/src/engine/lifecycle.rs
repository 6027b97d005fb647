//! What people and supervisors do: start, sleep, wake, complete and extend runs; switch the agent on and off.

use super::AgentState;
use super::pass::Pass;
use super::tool::OpenCalls;
use crate::agent::standing::{DeactivatedBy, Standing};
use crate::budget::PeriodSpend;
use crate::decision::{Decision, Effect, Guard};
use crate::event::Event;
use crate::ids::Name;
use crate::judgement::{Judgement, Level};
use crate::policy::{Mode, Policy, RunLimits};
use crate::run::{Run, RunFinding, RunProblem, RunState};
use crate::time::{Millis, Now};
use crate::tripwire::activity::Activity;
use crate::tripwire::health::Health;
use crate::tripwire::safety_gate::SafetyGate;

impl AgentState {
    /// A fresh run starts anew. An open one is already there; an escalated one stays escalated (CB-7).
    pub(super) fn run_started(
        &mut self,
        now: Millis,
        event: &Event,
        attended: bool,
        limits: Option<RunLimits>,
    ) -> Decision {
        let name = event.run.as_deref();
        match self.runs.get(name).map(|run| (run.state(), run.serial)) {
            Some((RunState::Completed, serial)) => self.runs.remove(serial),
            Some((state @ (RunState::Active | RunState::Sleeping | RunState::Escalated), _)) => {
                return illegal(state);
            }
            None => {}
        }
        let full = self.room_for_run(now);
        if full.level == Level::Stop {
            return refuse(full);
        }
        if let Some(run) = self.runs.begin(event.run.clone(), attended, now) {
            run.set_limits(limits);
        }
        Decision::noted()
    }

    /// Any other change of a run; illegal ones are refused and change nothing.
    pub(super) fn run_changed(&mut self, event: &Event, change: impl FnOnce(&mut Run) -> bool) -> Decision {
        let Some(run) = self.runs.get_mut(event.run.as_deref()) else { return unknown() };
        let before = run.state();
        if change(run) { Decision::noted() } else { illegal(before) }
    }

    pub(super) fn run_completed(&mut self, now: Millis, event: &Event) -> Decision {
        let Some(run) = self.runs.get_mut(event.run.as_deref()) else { return unknown() };
        let before = run.state();
        let Some(end) = run.complete(now) else { return illegal(before) };
        let mut decision = Decision::noted();
        let (attended, serial) = (run.attended, run.serial);
        match run.tripped() {
            Some(used) if end == RunState::Escalated => {
                decision.effects.push(Effect::RunEscalated { run: event.run.clone(), used, attended });
            }
            // An implicit run that is done makes room for the next one (ID-7).
            Some(_) | None if event.run.is_none() => self.runs.remove(serial),
            Some(_) | None => {}
        }
        decision
    }

    /// New rules: what does not fit into a smaller window is forgotten at once.
    pub(super) fn policy_changed(&mut self, policy: &Policy) -> Decision {
        self.conversations.shrink(usize::from(policy.loops.window_size));
        Decision::noted()
    }

    /// From inactive to active: windows, mode, cooldown and counters begin anew (LD-4).
    pub(super) fn activated(&mut self, now: Millis) -> Decision {
        if self.standing != Standing::Active {
            self.standing = Standing::Active;
            self.steered_by = None;
            self.conversations.clear();
            self.minute.clear();
            self.activity = Activity::default();
            self.gate = SafetyGate::default();
            self.health = Health::reactivated(now);
            self.runs.forget_implicit();
            self.open_calls = OpenCalls::default();
            self.shadow_told = 0;
        } else {
            // A person says that it may work: a limit of the run nobody began does not stand in its way (ID-7).
            self.runs.release_implicit();
        }
        Decision::noted()
    }

    pub(super) fn deactivated(&mut self, now: Millis, by: &Name) -> Decision {
        let mut decision = Decision::noted();
        if !matches!(self.standing, Standing::Inactive { .. }) {
            self.steered_by = Some(by.clone());
            self.standing.deactivate(DeactivatedBy::Manual, now);
            decision.effects.push(Effect::AbortInFlight);
        }
        decision
    }

    /// estop is back. Before time is let pass: requests under way died with it and are booked as they were reserved,
    /// and a run was not active while nothing could pass.
    pub(super) fn restarted(&mut self, now: Millis, away_ms: u64) {
        self.in_flight.expire_all(now);
        self.open_calls = OpenCalls::default();
        self.runs.iter_mut().for_each(|run| run.was_away(away_ms));
    }

    pub(super) fn budget_renewed(&mut self, now: Now, spent: PeriodSpend, policy: &Policy) -> Decision {
        self.budget.renew(now, &policy.budget, spent);
        Decision::noted()
    }

    pub(super) fn paused(&mut self, now: Millis, by: &Name) -> Decision {
        if self.standing == Standing::Active {
            self.steered_by = Some(by.clone());
        }
        self.standing.pause(None, now);
        Decision::noted()
    }

    /// A person lets a paused agent go on; if its health had paused it, it gets the benefit of the doubt.
    pub(super) fn resumed(&mut self, now: Millis) -> Decision {
        if let Standing::Paused { cause, .. } = self.standing {
            self.standing = Standing::Active;
            self.steered_by = None;
            if cause.is_some() {
                self.health = Health::reactivated(now);
            }
        }
        Decision::noted()
    }
}

fn illegal(state: RunState) -> Decision {
    refuse(Judgement::stop(Some(RunFinding::problem(state, RunProblem::IllegalTransition))))
}

fn unknown() -> Decision {
    refuse(Judgement::stop(Some(RunFinding::problem(RunState::Completed, RunProblem::UnknownRun))))
}

fn refuse(judgement: Judgement<Option<RunFinding>>) -> Decision {
    let mut pass = Pass::new();
    pass.ask(Guard::Run, judgement, Mode::Enforce);
    pass.into_decision(Vec::new())
}
