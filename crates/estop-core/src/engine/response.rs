//! What became of a forwarded request: settle its money, remember its answer, watch its stream.

use super::AgentState;
use super::admission::ShadowScope;
use super::in_flight::LIFETIME_MS;
use super::pass::Pass;
use super::request::judge_breaker;
use crate::agent::standing::Cause;
use crate::budget::{Amount, BudgetFinding, RunSpend};
use crate::decision::{Decision, Effect, Finding, Guard, Ruling, Verdict};
use crate::event::{
    AbortedBy, ChantDetected, Ended, Event, ResponseCompleted, StreamAborted, StreamProgressed, Usage,
};
use crate::fingerprint::ResponseFingerprint;
use crate::ids::RequestId;
use crate::judgement::Judgement;
use crate::minute::Mark;
use crate::policy::{LoopPolicy, Mode, Policy, Profile};
use crate::run::report_tool::is_wrap_up_tool;
use crate::run::{Increments, Run, RunFinding, RunProblem, RunState};
use crate::system::Channel;
use crate::time::Millis;
use crate::tripwire::health::HealthLoss;

/// Whether a stream that runs may go on.
struct Running {
    run: Judgement<Option<RunFinding>>,
    budget: Judgement<Option<BudgetFinding>>,
}

impl AgentState {
    pub(super) fn response_completed(
        &mut self,
        now: Millis,
        r: &ResponseCompleted,
        policy: &Policy,
    ) -> Decision {
        let mut decision = Decision::noted();
        let Some(flight) = self.in_flight.take(r.request) else {
            self.settle_overdue(r.request, r.usage, policy, &mut decision.effects);
            return decision;
        };
        let effects = &mut decision.effects;
        self.settle(&flight, r.usage.into(), policy, effects);
        if let Some(c) = flight.conversation.and_then(|serial| self.conversations.by_serial(serial)) {
            c.set_response(flight.entry, r.print.text);
            if r.print.calls.is_empty() {
                c.note_answer(flight.entry, r.print.text);
            }
            if let Some(progress) = &mut c.progress {
                progress.answered(now);
                progress.spend(r.usage.into());
            }
            if r.ended == Ended::Failed {
                c.set_failed(flight.entry);
            }
            if repeats_count(&r.print, &policy.loops) {
                c.outputs.push(&r.print, usize::from(policy.gate.loop_window_size));
            }
        }
        self.consumed(now, flight.new_input, r.usage, r.ended == Ended::Failed);
        self.count_calls(now, flight.run, &r.print, policy, effects);
        if r.ended == Ended::Failed {
            self.harm(now, HealthLoss::ExecutionError, policy, effects);
        }
        if !self.reports_by_hook(flight.run, &r.print, policy) {
            self.escalate_summed_up(now, flight.run, effects);
        }
        if r.print.calls.is_empty() {
            self.wait_for_person(now, flight.run);
        }
        decision
    }

    /// Whether the answer asks for a wrap-up tool that a hook is going to see: its end escalates the run.
    fn reports_by_hook(&mut self, run: u32, print: &ResponseFingerprint, policy: &Policy) -> bool {
        let reports = |tool: &str| policy.limits.wrap_up_tools.iter().any(|own| is_wrap_up_tool(tool, own));
        let is_hooked = self.runs.by_serial(run).is_some_and(|run| run.is_hooked());
        is_hooked && print.calls.iter().any(|call| reports(&call.tool))
    }

    /// The last of the requests to sum up was answered: a person is needed now, not when the time is over (CB-6).
    pub(super) fn escalate_summed_up(&mut self, now: Millis, run: u32, effects: &mut Vec<Effect>) {
        if self.in_flight.any_of_run(run) {
            return;
        }
        let Some(run) = self.runs.by_serial(run).filter(|run| run.has_summed_up()) else { return };
        if let Some(used) = run.end_wrap_up(now) {
            effects.push(Effect::RunEscalated { run: run.name.clone(), used, attended: run.attended });
        }
    }

    fn consumed(&mut self, now: Millis, new_input: u32, usage: Usage, failed: bool) {
        self.activity.consumed(now, new_input.saturating_add(usage.output_tokens), failed);
        let output = usage.output_tokens;
        self.minute.add(now, Mark { new_tokens: output, tokens: output, ..Mark::default() });
    }

    /// Tool calls in an answer count where no hook sees them (CB-3).
    fn count_calls(
        &mut self,
        now: Millis,
        run: u32,
        print: &ResponseFingerprint,
        policy: &Policy,
        effects: &mut Vec<Effect>,
    ) {
        let open = |run: &&mut Run| !print.calls.is_empty() && !run.is_over();
        let Some(run) = self.runs.by_serial(run).filter(open) else { return };
        let tests = || print.calls.iter().filter(|c| c.test_run);
        let tool_calls = print.calls.len() as u32 + print.more_calls;
        let adds = Increments { tool_calls, turn: false, test_runs: tests().count() as u32 };
        if !run.count_answer(adds, &print.calls, now) {
            return;
        }
        for call in tests() {
            run.await_test(call.action);
        }
        let (judgement, mode) = judge_breaker(run, Increments::default(), now, policy);
        let verdict = Verdict::under(judgement, mode);
        if let Finding::Breaker(finding) = &verdict.finding
            && let Some(used) = finding.reached()
        {
            match verdict.ruling {
                Ruling::Stop => {
                    run.trip(used, now);
                    effects.push(Effect::RunTripped { run: run.name.clone(), used });
                }
                Ruling::WouldStop if run.report_shadow_trip(used.limit) => {
                    effects.push(Effect::WouldHaveStopped { guard: Guard::Breaker, tool: None });
                }
                Ruling::Pass | Ruling::Warn | Ruling::WouldStop | Ruling::Off | Ruling::Skip => {}
            }
        }
        let tool_calls = u16::try_from(tool_calls).unwrap_or(u16::MAX);
        self.minute.add(now, Mark { tool_calls, ..Mark::default() });
    }

    /// The answer asks for nothing more, or was broken off: an attended run waits for its person (ID-7).
    fn wait_for_person(&mut self, now: Millis, run: u32) {
        if self.in_flight.any_of_run(run) {
            return;
        }
        if let Some(run) = self.runs.by_serial(run).filter(|run| run.attended) {
            run.sleep(now);
        }
    }

    pub(super) fn stream_aborted(&mut self, now: Millis, a: &StreamAborted, policy: &Policy) -> Decision {
        let mut decision = Decision::noted();
        let Some(flight) = self.in_flight.take(a.request) else {
            self.settle_overdue(a.request, a.usage, policy, &mut decision.effects);
            return decision;
        };
        self.settle(&flight, a.usage.into(), policy, &mut decision.effects);
        let failed = a.by == AbortedBy::Upstream;
        self.consumed(now, flight.new_input, a.usage, failed);
        if let Some(c) = flight.conversation.and_then(|serial| self.conversations.by_serial(serial)) {
            if let Some(progress) = &mut c.progress {
                progress.answered(now);
                progress.spend(a.usage.into());
            }
            if failed {
                c.set_failed(flight.entry);
            }
        }
        if failed {
            self.harm(now, HealthLoss::ExecutionError, policy, &mut decision.effects);
        }
        self.escalate_summed_up(now, flight.run, &mut decision.effects);
        if !failed {
            self.wait_for_person(now, flight.run);
        }
        decision
    }

    /// A request that was given up is heard of after all: book what it used beyond what was booked then.
    fn settle_overdue(
        &mut self,
        request: RequestId,
        usage: Usage,
        policy: &Policy,
        effects: &mut Vec<Effect>,
    ) {
        let Some(flight) = self.in_flight.take_overdue(request) else { return };
        let extra = Amount::from(usage).beyond(flight.held);
        self.book(flight.run, Amount::default(), extra, policy, effects);
    }

    /// A stream lives on: extend what it holds, and cut it at the cap or when its agent was stopped.
    pub(super) fn stream_progressed(
        &mut self,
        now: Millis,
        event: &Event,
        p: &StreamProgressed,
        policy: &Policy,
    ) -> Decision {
        let mut effects = Vec::new();
        let mut pass = Pass::of_channel(event, Channel::Llm);
        pass.ask(Guard::Agent, self.standing.judge_running(), Mode::Enforce);
        match self.extend_reservation(now, p, policy) {
            Some(Running { run, budget }) => {
                pass.ask(Guard::Run, run, Mode::Enforce);
                pass.ask(Guard::Budget, budget, policy.modes[Guard::Budget]);
            }
            // Nobody pays for it any more.
            None => {
                let finding = RunFinding::problem(RunState::Active, RunProblem::UnknownRequest);
                pass.ask(Guard::Run, Judgement::stop(finding), Mode::Enforce);
            }
        }
        if pass.stopped_by().is_some() {
            effects.push(Effect::CutStream { request: p.request });
        }
        pass.into_decision(effects)
    }

    fn extend_reservation(&mut self, now: Millis, p: &StreamProgressed, policy: &Policy) -> Option<Running> {
        let flight = self.in_flight.get_mut(p.request)?;
        flight.expires = now.plus(LIFETIME_MS);
        let (before, used) = (flight.held, Amount::from(p.usage));
        flight.held = before.max(used);
        let extra = flight.held.beyond(before);
        let unused = flight.held.beyond(used);
        let run = flight.run;
        self.budget.reserve(extra);
        let reserved = self.in_flight.held_by_run(run);
        let (mut spent, mut running) = (Amount::default(), Judgement::CLEAR);
        if let Some(run) = self.runs.by_serial(run) {
            run.last_activity = now;
            spent = run.spent.amount;
            running = run.judge_running().some();
        }
        let own = self.budget.tightest_running(unused, RunSpend { spent, reserved }, &policy.budget);
        let over = [own, p.fleet].into_iter().flatten().find(BudgetFinding::is_over);
        Some(Running { run: running, budget: Judgement::stop_if(over.is_some(), over.or(own).or(p.fleet)) })
    }

    /// A streamed answer repeats itself: cut it, and stop its agent so that the retry is refused too (AN-3).
    pub(super) fn chant_detected(&mut self, now: Millis, c: &ChantDetected, policy: &Policy) -> Decision {
        let mut pass = Pass::new();
        pass.ask(Guard::Chanting, Judgement::stop(c.chant), policy.modes[Guard::Chanting]);
        let mut effects = Vec::new();
        self.report_shadow_stops(&pass, ShadowScope::default(), &mut effects);
        if pass.stopped_by().is_some() {
            effects.push(Effect::CutStream { request: c.request });
            self.kill_switch(now, Cause::Chanting, &mut effects);
        } else {
            // Each chant is an episode of its own.
            self.shadow_told &= !(1 << Guard::Chanting.place());
        }
        pass.into_decision(effects)
    }
}

/// Whether an answer may count as repetition: not for a batch job, nor if it only calls tools that repeat on purpose.
fn repeats_count(print: &ResponseFingerprint, policy: &LoopPolicy) -> bool {
    let exempt = !print.calls.is_empty() && print.calls.iter().all(|c| policy.exempt_tools.contains(&c.tool));
    policy.profile != Profile::Batch && !exempt
}
