//! What the agent's next request would get (EV-2). There is no second opinion beside the guards: [`AgentState::handle`] itself is
//! asked, on a copy that is thrown away.
//!
//! The request is like the latest one: in its run, to its model, as large and as dear, a person's turn if that was one. What it says
//! nobody knows beforehand, so it repeats nothing: that the agent goes on with a loop which is only watched is remembered from the
//! requests before.

use serde::{Deserialize, Serialize};

use super::AgentState;
use super::refusal_status::{
    Period, hours_status, later, over_any_period, over_budget, run_limit, summing_up,
};
use crate::agent::status::{AgentStatus, StatusKind};
use crate::budget::{BudgetFinding, Need};
use crate::decision::{Decision, Finding, Guard, Ruling};
use crate::event::{CallKind, Estimate, Event, EventKind, RequestReceived};
use crate::fingerprint::RequestFingerprint;
use crate::fingerprint::simhash::SimHash;
use crate::guards::rate::IN_FLIGHT_MAX;
use crate::ids::{Hash64, Name, RequestId};
use crate::policy::{Mode, ModelRules, Policy};
use crate::printed_command::Commands;
use crate::run::IMPLICIT_IDLE_MS;
use crate::system::GateView;
use crate::system::button::Latched;
use crate::time::Now;

/// How often it is asked again for the moment a refusal ends: a rate or the safety gate may end in several steps.
const STEPS_MAX: usize = 64;

/// The agent's latest request, as far as it tells what the next one asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LatestRequest {
    call: CallKind,
    model: Option<Name>,
    other_models: Vec<Name>,
    path: Option<Name>,
    estimate: Estimate,
    is_turn: bool,
}

/// What the answer depends on, beside the agent's own state.
#[derive(Clone, Copy, Debug)]
pub struct StatusQuery<'a> {
    /// The agent's name, for commands.
    pub agent: &'a str,
    /// What time it is.
    pub now: Now,
    /// The gate.
    pub gate: GateView,
    /// Who pressed the button, if it is known.
    pub button: Option<&'a Latched>,
    /// How the account of all agents together stands, with [`AgentState::last_asked`] asked of it.
    pub fleet: Option<BudgetFinding>,
    /// The agent's rules.
    pub policy: &'a Policy,
    /// Makes the commands that are named.
    pub commands: &'a Commands,
}

/// What `handle` said to a request like the latest one, and how the agent stood when it was asked.
struct Forecast {
    before: AgentState,
    run: Option<Name>,
    steered_by: Option<Name>,
    decision: Decision,
}

impl AgentState {
    /// What its next request would get.
    pub fn status(&self, asked: &StatusQuery<'_>) -> AgentStatus {
        // A policy about models says nothing of an agent that has not named one yet.
        let silent = self.latest.is_none() && !asked.policy.models.is_empty();
        let unruled = silent.then(|| Policy { models: ModelRules::default(), ..asked.policy.clone() });
        let asked = &StatusQuery { policy: unruled.as_ref().unwrap_or(asked.policy), ..*asked };
        let forecast = self.forecast(asked, asked.now);
        let Some(guard) = forecast.decision.refused_by() else { return self.passing(asked, &forecast) };
        let (status, until) = forecast.refused(asked, guard, asked.now);
        let end = self.end_of_refusal(asked, guard, until);
        if guard == Guard::Budget && until.is_some() && end.is_none() {
            return AgentStatus { guard: Some(guard), ..over_any_period(status) };
        }
        AgentStatus { guard: Some(guard), until: end, ..status }
    }

    /// What its latest request asked for, whether it got it or not.
    pub fn last_asked(&self) -> Need {
        self.latest.as_ref().map(|latest| latest.estimate.into()).unwrap_or_default()
    }

    /// Remembers what the next request will be like.
    pub(super) fn note_request(&mut self, r: &RequestReceived) {
        let RequestReceived { call, model, other_models, path, estimate, print, .. } = r;
        let is_turn = *call == CallKind::Generation && print.prompt.is_some() && !print.continues;
        match self.latest.as_deref_mut() {
            // Nearly every request is like the one before: nothing is allocated for it.
            Some(latest)
                if (&latest.model, &latest.other_models, &latest.path) == (model, other_models, path) =>
            {
                (latest.call, latest.estimate, latest.is_turn) = (*call, *estimate, is_turn);
            }
            Some(_) | None => {
                let (model, other_models, path) = (model.clone(), other_models.clone(), path.clone());
                let (call, estimate) = (*call, *estimate);
                self.latest =
                    Some(Box::new(LatestRequest { call, model, other_models, path, estimate, is_turn }));
            }
        }
    }

    /// Remembers in which run the next request will be: where the agent did something last, or begins to.
    pub(super) fn note_run(&mut self, event: &Event) {
        let acts = match &event.what {
            EventKind::RequestReceived(_)
            | EventKind::ToolRequested(_)
            | EventKind::PromptSubmitted
            | EventKind::RunStarted { .. }
            | EventKind::RunWoke => true,
            // Messages belong to no run.
            EventKind::MessageIn { .. } | EventKind::MessageOut { .. } => {
                self.has_acted = true;
                false
            }
            EventKind::ResponseCompleted(_)
            | EventKind::StreamProgressed(_)
            | EventKind::StreamAborted(_)
            | EventKind::ChantDetected(_)
            | EventKind::ToolFinished(_)
            | EventKind::RunSlept
            | EventKind::RunCompleted
            | EventKind::RunExtended { .. }
            | EventKind::PolicyChanged { .. }
            | EventKind::AgentActivated { .. }
            | EventKind::AgentDeactivated { .. }
            | EventKind::AgentPaused { .. }
            | EventKind::AgentResumed { .. }
            | EventKind::GuardSnoozed { .. }
            | EventKind::GuardWoken { .. }
            | EventKind::BudgetRenewed { .. }
            | EventKind::Restarted { .. }
            | EventKind::Tick => false,
        };
        self.has_acted |= acts;
        if acts && self.latest_run != event.run {
            self.latest_run.clone_from(&event.run);
        }
    }

    /// What a request like the latest one would be.
    fn next_request(&self, asked: &StatusQuery<'_>) -> Event {
        let latest = self.latest.as_deref();
        let number = (0..=u64::MAX).rev().map(RequestId).find(|number| !self.in_flight.contains(*number));
        let is_turn = latest.is_none_or(|latest| latest.is_turn);
        let request = RequestReceived {
            request: number.unwrap_or(RequestId(u64::MAX)),
            call: latest.map(|latest| latest.call).unwrap_or_default(),
            model: latest.and_then(|latest| latest.model.clone()),
            other_models: latest.map(|latest| latest.other_models.clone()).unwrap_or_default(),
            path: latest.and_then(|latest| latest.path.clone()),
            print: RequestFingerprint {
                conversation: Hash64(0),
                prompt: Some(SimHash(1)),
                continues: !is_turn,
                ..RequestFingerprint::default()
            },
            estimate: latest.map(|latest| latest.estimate).unwrap_or_default(),
            fleet: asked.fleet,
            tags: None,
            route: None,
        };
        Event { run: self.latest_run.clone(), gate: asked.gate, what: EventKind::RequestReceived(request) }
    }

    /// Asks `handle`. Conversations, by far the largest part of a state, are left out: the request belongs to none.
    fn forecast(&self, asked: &StatusQuery<'_>, at: Now) -> Forecast {
        let mut before = AgentState {
            now: self.now,
            standing: self.standing,
            steered_by: None,
            conversations: Default::default(),
            runs: self.runs.clone(),
            in_flight: self.in_flight.clone(),
            open_calls: Default::default(),
            minute: self.minute.clone(),
            activity: self.activity.clone(),
            gate: self.gate,
            health: self.health,
            budget: self.budget.clone(),
            has_acted: true,
            shadow_told: self.shadow_told,
            button_pressed: self.button_pressed,
            snoozes: self.snoozes.clone(),
            latest: None,
            latest_run: None,
        };
        let tick = Event { run: None, gate: asked.gate, what: EventKind::Tick };
        before.handle(at, &tick, asked.policy);
        // A completed run is over because somebody said so: what comes next begins anew.
        before.runs.forget_completed(self.latest_run.as_deref());
        let decision = before.clone().handle(at, &self.next_request(asked), asked.policy);
        let (run, steered_by) = (self.latest_run.clone(), self.steered_by.clone());
        Forecast { before, run, steered_by, decision }
    }

    /// It passes: unhindered, only to sum up, or because a guard is only watching.
    fn passing(&self, asked: &StatusQuery<'_>, forecast: &Forecast) -> AgentStatus {
        let verdicts = &forecast.decision.verdicts;
        if let Some(Finding::Run(run)) = verdicts.get(Guard::Run).map(|verdict| &verdict.finding)
            && run.tripped.is_some()
        {
            return summing_up(asked.agent, self.latest_run.as_deref(), run, asked.commands);
        }
        if let Some(guard) = self.watched_by(asked, forecast) {
            let saw = verdicts.get(guard).filter(|verdict| verdict.ruling == Ruling::WouldStop);
            let saw = saw.map(|verdict| verdict.finding.to_string());
            return AgentStatus::watched(asked.agent, guard, saw, asked.commands);
        }
        AgentStatus::of_open_gate(asked.gate, asked.commands)
    }

    /// The guard that is only watched and would have stopped its latest request, or would stop the next one.
    fn watched_by(&self, asked: &StatusQuery<'_>, forecast: &Forecast) -> Option<Guard> {
        let in_force = self.snoozes.over(asked.policy);
        let would_stop = |guard| {
            let verdict = forecast.decision.verdicts.get(guard);
            verdict.is_some_and(|verdict| verdict.ruling == Ruling::WouldStop)
        };
        // What was said in the latest conversation: reported until it passes again.
        let latest = self.conversations.latest().map_or(0, |conversation| conversation.shadow_told);
        let chanting = self.shadow_told & 1 << Guard::Chanting.place();
        let reported = |guard: Guard| (latest | chanting) & 1 << guard.place() != 0;
        Guard::ALL.into_iter().find(|guard| {
            would_stop(*guard)
                || (matches!(guard, Guard::Loop | Guard::Churn | Guard::Chanting)
                    && reported(*guard)
                    && in_force.modes[*guard] == Mode::Shadow)
        })
    }

    /// The earliest moment from which `guard` does not refuse any more; `None` = not by itself, or nobody knows.
    fn end_of_refusal(&self, asked: &StatusQuery<'_>, guard: Guard, first: Option<i64>) -> Option<i64> {
        let mut until = first?;
        for _ in 0..STEPS_MAX {
            let waited = until.saturating_sub(asked.now.wall).max(0).unsigned_abs();
            let at = Now { mono: asked.now.mono.plus(waited), wall: until };
            let forecast = self.forecast(asked, at);
            if forecast.decision.refused_by() != Some(guard) {
                return Some(until);
            }
            let (_, next) = forecast.refused(asked, guard, at);
            until = next.filter(|next| *next > until)?;
        }
        None
    }
}

impl Forecast {
    /// What is said of a refusal by `guard`, and when it may end by the clock on the wall.
    fn refused(&self, asked: &StatusQuery<'_>, guard: Guard, at: Now) -> (AgentStatus, Option<i64>) {
        let finding = self.decision.verdicts.get(guard).map_or(&Finding::Nothing, |verdict| &verdict.finding);
        let (name, run, commands) = (asked.agent, self.run.as_deref(), asked.commands);
        let refused = |kind, label: &str| AgentStatus::refused(kind, label, finding.to_string());
        let next = |label: &str, kind, what: &str| {
            AgentStatus::refused(kind, label, format!("{finding} Its next request is refused and {what} it."))
        };
        // A clock that was set back stands still in the state until it caught up.
        let lag = self.before.now.since(at.mono);
        let minute_ends = || {
            let left = self.before.minute.first_expires_in(self.before.now);
            left.map(|left| later(at.wall, left.saturating_add(lag)))
        };
        match (guard, finding) {
            (Guard::System, _) => {
                let shut = AgentStatus::of_gate(asked.gate, asked.button, commands);
                (shut.unwrap_or_else(|| AgentStatus::shut(&finding.to_string())), None)
            }
            (Guard::Agent, _) => {
                let by = self.steered_by.as_deref();
                let stopped = AgentStatus::of_standing(name, self.before.standing, by, commands);
                (stopped.unwrap_or_else(|| refused(StatusKind::Stopped, "stopped")), None)
            }
            (Guard::Run, Finding::Run(finding)) if finding.tripped.is_some() => {
                let idle = self.before.runs.get(None).filter(|_| run.is_none());
                let until = idle.map(|run| run.last_activity.plus(IMPLICIT_IDLE_MS).since(at.mono));
                (run_limit(name, run, finding, commands), until.map(|left| later(at.wall, left)))
            }
            (Guard::Hours, _) => hours_status(asked.policy, at.wall).map_or_else(
                || (refused(StatusKind::OutsideHours, "outside hours"), None),
                |status| (AgentStatus { until: None, ..status.clone() }, status.until),
            ),
            (Guard::Models, _) => (refused(StatusKind::ModelRefused, "model not allowed"), None),
            (Guard::Rate, Finding::Rate(rate)) => {
                let until = if rate.in_flight >= IN_FLIGHT_MAX { None } else { minute_ends() };
                (refused(StatusKind::RateLimited, "rate limited"), until)
            }
            (Guard::Budget, Finding::Budget(finding)) => {
                let ahead = self.before.budget.latest_day_ahead(at, &asked.policy.budget);
                let zone = &asked.policy.budget.zone;
                over_budget(name, finding, Period { zone, ahead, wall: at.wall }, commands)
            }
            (Guard::Breaker, Finding::Breaker(breaker)) => {
                let used = breaker.reached().map(|used| used.reason()).unwrap_or_default();
                let extend = commands.extend(name, run);
                let sentence = format!(
                    "With its next request, its run reaches {used} and is refused. To let it go on: {extend}."
                );
                (AgentStatus::refused(StatusKind::AtRunLimit, "at run limit", sentence), None)
            }
            (Guard::Gate, _) => {
                // A veto without a cooldown hangs on what the agent does.
                let left = Some(self.before.gate.cooldown_left(self.before.now)).filter(|left| *left > 0);
                let until = left.map(|left| later(at.wall, left.saturating_add(lag)));
                (refused(StatusKind::CoolingDown, "cooling down"), until)
            }
            (Guard::Health, _) => (next("health too low", StatusKind::Paused, "pauses"), None),
            (Guard::Watchdog, _) => {
                (next("at the runaway limit", StatusKind::RateLimited, "stops"), minute_ends())
            }
            // What it says decides, and the request that is asked about repeats nothing.
            (Guard::Loop | Guard::Churn | Guard::Chanting, _) => {
                (refused(StatusKind::Stopped, "in a loop"), None)
            }
            (Guard::Run | Guard::Breaker, _) => (refused(StatusKind::AtRunLimit, "at run limit"), None),
            (Guard::Rate, _) => (refused(StatusKind::RateLimited, "rate limited"), None),
            (Guard::Budget, _) => (refused(StatusKind::BudgetSpent, "budget spent"), None),
        }
    }
}
