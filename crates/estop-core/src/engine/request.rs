//! A request to a model asks to be forwarded: judge first, change state only afterwards.

use super::AgentState;
use super::admission::ShadowScope;
use super::pass::Pass;
use super::pending_request::PendingRequest;
use super::tripwire::Preview;
use crate::budget::{Amount, RunSpend};
use crate::decision::{Decision, Guard};
use crate::event::{CallKind, Event, RequestReceived};
use crate::guards::breaker::{self, BreakerFinding};
use crate::guards::{budget, hours, models, rate, watchdog};
use crate::judgement::Judgement;
use crate::loop_detector;
use crate::loop_detector::repetition::{ChurnFinding, Track};
use crate::loop_detector::step::{Step, steps_of};
use crate::loop_detector::window::Conversation;
use crate::policy::{LimitName, Mode, Policy, WatchdogScope};
use crate::run::{Increments, Run, RunAction, RunFinding, RunProblem, RunState};
use crate::system::Channel;
use crate::time::{Millis, Now};

impl AgentState {
    pub(super) fn request_received(
        &mut self,
        now: Now,
        event: &Event,
        r: &RequestReceived,
        policy: &Policy,
    ) -> Decision {
        if self.in_flight.contains(r.request) {
            // A number used twice would settle the wrong reservation.
            return refuse_duplicate();
        }
        self.conversations.seek(r.print.conversation);
        let is_retry = self.is_retry(r);
        let steps = if is_retry { Vec::new() } else { steps_of(&r.print, &policy.loops) };
        let pending = PendingRequest { event, request: r, steps, is_retry, policy };
        let preview = self.preview(now.mono, &pending);
        let pass = self.judge_request(now, &pending, &preview);
        self.note_request(r);
        let mut effects = Vec::new();
        if pass.stopped_by().is_none_or(|by| by >= Guard::Gate) {
            self.keep(preview, &pass, pending.conversation());
            self.act_on_gate(now.mono, &pass, pending.conversation(), policy);
            self.act_on_suspension(now.mono, &pass, policy, &mut effects);
        }
        let tool = self.watched_tool(now.mono, &pending, &pass);
        match pass.stopped_by() {
            None => self.admit(now.mono, &pending, &mut effects),
            Some(by) => self.act_on_refusal(now.mono, by, &pending, &pass, &mut effects),
        }
        let of = ShadowScope {
            conversation: Some(pending.conversation()),
            run: pending.run_name(),
            tool: tool.as_ref(),
        };
        self.report_shadow_stops(&pass, of, &mut effects);
        pass.into_decision(effects)
    }

    fn is_retry(&self, r: &RequestReceived) -> bool {
        let known = self.conversations.get(r.print.conversation);
        r.call == CallKind::Generation
            && known.is_some_and(|c| c.is_retried_by(r.print.identity(), r.estimate.input_tokens))
    }

    fn judge_request(&self, now: Now, pending: &PendingRequest<'_>, preview: &Preview) -> Pass {
        let PendingRequest { event, request: r, steps, policy, .. } = pending;
        let fresh;
        let known = self.runs.get(pending.run_name());
        let run = match known {
            Some(run) => run,
            None => {
                fresh = Run::new(event.run.clone(), u32::MAX, false, now.mono);
                &fresh
            }
        };
        let modes = &policy.modes;
        let conversation = self.conversations.get(r.print.conversation);
        let tokens = u64::from(r.estimate.input_tokens);
        let in_flight = self.in_flight.len() as u32;
        let run_judgement = if known.is_none() {
            self.room_for_run(now.mono)
        } else {
            run.judge(RunAction::ModelCall).some()
        };
        let spend = RunSpend { spent: run.spent.amount, reserved: self.held_by(run, policy) };
        let own = self.budget.tightest(pending.need(), spend, &policy.budget);

        let mut pass = Pass::of_channel(event, Channel::Llm);
        pass.ask(Guard::Agent, self.standing.judge(), Mode::Enforce);
        pass.ask(Guard::Run, run_judgement, Mode::Enforce);
        pass.ask(Guard::Hours, hours::judge(policy.hours.as_ref(), now.wall), modes[Guard::Hours]);
        if let Some(judgement) = models::judge(r, &policy.models) {
            pass.ask(Guard::Models, judgement, modes[Guard::Models]);
        }
        let rate_mode = if in_flight >= rate::IN_FLIGHT_MAX { Mode::Enforce } else { modes[Guard::Rate] };
        pass.ask(
            Guard::Rate,
            rate::judge(&self.minute, now.mono, &policy.rate, tokens, in_flight),
            rate_mode,
        );
        pass.ask(Guard::Budget, budget::judge(own, r, &policy.budget), modes[Guard::Budget]);
        pass.ask(
            Guard::Loop,
            loop_detector::judge(conversation, &pending.observed(now.mono), &policy.loops),
            modes[Guard::Loop],
        );
        pass.ask(Guard::Churn, judge_churn(conversation, steps), modes[Guard::Churn]);
        pass.skip(Guard::Chanting);
        let (breaker, mode) = judge_breaker(run, run.request_adds(pending.is_turn()), now.mono, policy);
        pass.ask(Guard::Breaker, breaker, mode);
        self.judge_tripwire(&mut pass, now.mono, preview, policy);
        match (r.call, policy.watchdog.scope) {
            (CallKind::Generation, WatchdogScope::Agent | WatchdogScope::System) => {
                pass.ask(
                    Guard::Watchdog,
                    watchdog::judge(self.minute.sums().generations, &policy.watchdog),
                    modes[Guard::Watchdog],
                );
            }
            (CallKind::Embedding | CallKind::Other, _) | (CallKind::Generation, WatchdogScope::Off) => {
                pass.skip(Guard::Watchdog);
            }
        }
        pass
    }

    pub(super) fn room_for_run(&self, now: Millis) -> Judgement<Option<RunFinding>> {
        if self.runs.has_room(now) {
            return Judgement::CLEAR;
        }
        Judgement::stop(Some(RunFinding::problem(RunState::Active, RunProblem::TooManyRuns)))
    }

    /// What the run's requests hold; added up only if a cap of the run asks for it.
    fn held_by(&self, run: &Run, policy: &Policy) -> Amount {
        let capped = policy.budget.usd_per_run.is_some() || policy.budget.tokens_per_run.is_some();
        if capped { self.in_flight.held_by_run(run.serial) } else { Amount::default() }
    }
}

fn refuse_duplicate() -> Decision {
    let mut pass = Pass::new();
    let finding = RunFinding::problem(RunState::Active, RunProblem::DuplicateRequest);
    pass.ask(Guard::Run, Judgement::stop(finding), Mode::Enforce);
    pass.into_decision(Vec::new())
}

/// What a run's limits say, and in which mode. A tripped run is summing up: its limits have spoken.
pub(super) fn judge_breaker(
    run: &Run,
    adds: Increments,
    now: Millis,
    policy: &Policy,
) -> (Judgement<Option<BreakerFinding>>, Mode) {
    let Policy { limits, modes, .. } = policy;
    if run.is_tripped() {
        return (Judgement::CLEAR, run.mode_of(LimitName::ToolCalls, limits, modes));
    }
    let mode_of = |limit| run.mode_of(limit, limits, modes);
    let counts = run.counts_with(adds, now);
    let (judgement, mode) = breaker::judge(counts, &run.caps(limits), run.allowances(), mode_of);
    (judgement.some(), mode)
}

fn judge_churn(conversation: Option<&Conversation>, steps: &[Step]) -> Judgement<ChurnFinding> {
    conversation.map_or_else(|| Track::default().judge_churn(steps), |c| c.track.judge_churn(steps))
}
