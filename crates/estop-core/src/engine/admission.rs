//! What a request changes: when nothing objects it is remembered, its money held, its run counted; when a guard
//! stops it, that guard acts.

use super::AgentState;
use super::in_flight::{Flight, LIFETIME_MS};
use super::pass::Pass;
use super::pending_request::PendingRequest;
use crate::agent::standing::Cause;
use crate::decision::{Effect, Finding, Guard, Ruling};
use crate::event::{Ended, Event};
use crate::fingerprint::StepFingerprint;
use crate::ids::{Hash64, Name};
use crate::loop_detector::window::NewEntry;
use crate::loop_detector::{self, LoopEvidence};
use crate::minute::Mark;
use crate::policy::WatchdogScope;
use crate::run::{Increments, Run};
use crate::time::Millis;

/// Where a request was put.
struct StoredEntry {
    /// Serial of its conversation; `None` for what is only counted.
    conversation: Option<u32>,
    /// Serial of its entry there.
    entry: u16,
    /// Input tokens new to the conversation.
    new_input: u32,
}

impl AgentState {
    /// Nothing objects: remember it, hold its money, count it.
    pub(super) fn admit(&mut self, now: Millis, pending: &PendingRequest<'_>, effects: &mut Vec<Effect>) {
        if pending.is_generation() {
            self.note_results(now, pending, effects);
        }
        let run = self.count_in_run(now, pending.event, |run| {
            if pending.is_generation() {
                run.sums_up();
            }
            run.request_adds(pending.is_turn())
        });
        let StoredEntry { conversation, entry, new_input } = self.remember(now, pending);
        let held = pending.amount();
        self.budget.reserve(held);
        self.in_flight.add(Flight {
            request: pending.request.request,
            run,
            conversation,
            entry,
            held,
            new_input,
            expires: now.plus(LIFETIME_MS),
        });
        self.button_pressed = false;
        self.minute.add(
            now,
            Mark {
                new_tokens: new_input,
                tokens: pending.request.estimate.input_tokens,
                tool_calls: 0,
                requests: 1,
                generations: u8::from(pending.is_generation()),
            },
        );
    }

    /// Results of proxied tool calls: they feed health and test results; of a hooked run only what
    /// its hooks left open.
    fn note_results(&mut self, now: Millis, pending: &PendingRequest<'_>, effects: &mut Vec<Effect>) {
        let Some(run) = self.runs.get_mut(pending.run_name()) else { return };
        if run.name.is_none() && !run.is_hooked() {
            self.record_test_results(pending.results());
        }
        let Some(run) = self.runs.get_mut(pending.run_name()) else { return };
        if run.is_hooked() {
            let tests = pending.results().iter().filter(|s| s.test_run && s.ended != Ended::Unknown);
            tests.for_each(|step| run.test_reported(step.ended));
            return;
        }
        for step in pending.results().iter().filter(|s| !s.tool.is_empty()) {
            run.tool_ended(step.action, step.ended);
            self.health.tool_ended(step.ended == Ended::Failed);
        }
        self.act_on_health(now, pending.policy, effects);
    }

    /// Requests that name no run tell of the tests of the hooked run that waits for a word, if there is only one: clients
    /// that send no header of ours name their run by hook alone.
    fn record_test_results(&mut self, results: &[StepFingerprint]) {
        let mut waiting = self.runs.iter_mut().filter(|run| run.waits_for_test());
        let (Some(run), None) = (waiting.next(), waiting.next()) else { return };
        let tests = results.iter().filter(|s| s.test_run && s.ended != Ended::Unknown);
        tests.for_each(|step| run.test_reported(step.ended));
    }

    /// Counts in the event's run, begun if it is new. Returns its serial.
    pub(super) fn count_in_run(
        &mut self,
        now: Millis,
        event: &Event,
        adds: impl FnOnce(&mut Run) -> Increments,
    ) -> u32 {
        let name = event.run.as_deref();
        if self.runs.get(name).is_none() {
            self.runs.begin(event.run.clone(), event.run.is_none(), now);
        }
        let Some(run) = self.runs.get_mut(name) else { return u32::MAX };
        let adds = adds(run);
        run.count(adds, now);
        run.serial
    }

    /// Puts the request into its conversation's window.
    fn remember(&mut self, now: Millis, pending: &PendingRequest<'_>) -> StoredEntry {
        let PendingRequest { request: r, steps, policy, .. } = pending;
        if !pending.is_generation() {
            return StoredEntry { conversation: None, entry: 0, new_input: r.estimate.input_tokens };
        }
        let window = usize::from(policy.loops.window_size);
        let c = self.conversations.open(r.print.conversation, now);
        c.outputs.add_results(pending.results());
        c.track.remember(steps, window);
        c.observe(&pending.observed(now), &policy.loops);
        let entry = if pending.is_retry {
            c.renew_entry(now)
        } else {
            let new = NewEntry {
                prompt: r.print.prompt,
                asks: pending.is_new_prompt(),
                steps: steps.len().min(255) as u8,
                identity: r.print.identity(),
            };
            c.push_entry(now, new, window)
        };
        let new_input = r.estimate.input_tokens.saturating_sub(c.input_tokens);
        c.input_tokens = r.estimate.input_tokens;
        c.in_flight = c.in_flight.saturating_add(1);
        StoredEntry { conversation: Some(c.serial), entry, new_input }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others refuse the request and do no more")]
    pub(super) fn act_on_refusal(
        &mut self,
        now: Millis,
        by: Guard,
        pending: &PendingRequest<'_>,
        pass: &Pass,
        effects: &mut Vec<Effect>,
    ) {
        match by {
            Guard::Loop => {
                if let Some(c) = self.conversations.get(pending.conversation()) {
                    let observed = pending.observed(now);
                    let found = loop_detector::evidence(c, &observed, &pending.policy.loops);
                    effects.push(Effect::LoopEvidence(found));
                }
                self.kill_switch(now, Cause::Loop, effects);
            }
            Guard::Churn => {
                let tool = pending.prints().last().map(|step| step.tool.clone());
                effects.push(Effect::LoopEvidence(LoopEvidence { tool, matched: Vec::new() }));
                self.kill_switch(now, Cause::Churn, effects);
            }
            Guard::Breaker => self.trip(now, pending.event, pass, effects),
            Guard::Watchdog => match pending.policy.watchdog.scope {
                // Once an episode: the button stays pressed.
                WatchdogScope::System => {
                    if !std::mem::replace(&mut self.button_pressed, true) {
                        effects.push(Effect::PressButton);
                    }
                }
                WatchdogScope::Agent | WatchdogScope::Off => self.kill_switch(now, Cause::Watchdog, effects),
            },
            // Asking again is no idleness: a tripped implicit run waits until nobody asks (ID-7).
            Guard::Run => {
                if let Some(run) = self.runs.get_mut(pending.run_name()) {
                    run.last_activity = now;
                    let serial = run.serial;
                    self.escalate_summed_up(now, serial, effects);
                }
            }
            Guard::Budget => self.report_refusal(pending, pass, effects),
            _ => {}
        }
    }

    /// A budget refused: reported once for each account and kind of refusal in a period.
    fn report_refusal(&mut self, pending: &PendingRequest<'_>, pass: &Pass, effects: &mut Vec<Effect>) {
        let Some(Finding::Budget(finding)) = pass.verdicts().get(Guard::Budget).map(|v| &v.finding) else {
            return;
        };
        let run = self.runs.get_mut(pending.run_name()).filter(|_| finding.account.is_run());
        let is_first = match run {
            Some(run) => run.spent.is_first_refusal(finding),
            None => self.budget.is_first_refusal(finding),
        };
        if is_first {
            effects.push(Effect::BudgetRefused(*finding));
        }
    }

    /// A breaker reached its limit (CB-6).
    pub(super) fn trip(&mut self, now: Millis, event: &Event, pass: &Pass, effects: &mut Vec<Effect>) {
        let Some(Finding::Breaker(finding)) = pass.verdicts().get(Guard::Breaker).map(|v| &v.finding) else {
            return;
        };
        let Some(used) = finding.reached() else { return };
        if self.runs.get(event.run.as_deref()).is_none() {
            self.runs.begin(event.run.clone(), event.run.is_none(), now);
        }
        if let Some(run) = self.runs.get_mut(event.run.as_deref()) {
            run.trip(used, now);
            effects.push(Effect::RunTripped { run: event.run.clone(), used });
        }
    }

    /// The tool of a loop that a guard in shadow would stop. Asked before the request is remembered.
    pub(super) fn watched_tool(
        &self,
        now: Millis,
        pending: &PendingRequest<'_>,
        pass: &Pass,
    ) -> Option<Name> {
        if pass.would_stop(Guard::Loop) {
            let c = self.conversations.get(pending.conversation())?;
            return loop_detector::evidence(c, &pending.observed(now), &pending.policy.loops).tool;
        }
        pass.would_stop(Guard::Churn).then(|| pending.prints().last().map(|step| step.tool.clone())).flatten()
    }

    /// Reports guards in shadow that would stop, each once until it passes again: loops by conversation, breakers by
    /// run and limit, the others by agent.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are reported by agent")]
    pub(super) fn report_shadow_stops(
        &mut self,
        pass: &Pass,
        of: ShadowScope<'_>,
        effects: &mut Vec<Effect>,
    ) {
        for (guard, verdict) in pass.verdicts().iter() {
            let would_stop = match verdict.ruling {
                Ruling::WouldStop => true,
                Ruling::Pass | Ruling::Warn => false,
                Ruling::Stop | Ruling::Off | Ruling::Skip => continue,
            };
            let news = match guard {
                Guard::Breaker => would_stop && self.is_first_report_of_run(of.run, &verdict.finding),
                Guard::Loop | Guard::Churn => {
                    let conversation = of.conversation.and_then(|key| self.conversations.get_mut(key));
                    let told = conversation.map_or(&mut self.shadow_told, |c| &mut c.shadow_told);
                    is_first_report(told, guard, would_stop)
                }
                _ => is_first_report(&mut self.shadow_told, guard, would_stop),
            };
            if news {
                let tool = of.tool.filter(|_| matches!(guard, Guard::Loop | Guard::Churn));
                effects.push(Effect::WouldHaveStopped { guard, tool: tool.cloned() });
            }
        }
    }

    fn is_first_report_of_run(&mut self, run: Option<&str>, finding: &Finding) -> bool {
        let Finding::Breaker(finding) = finding else { return false };
        let Some((run, used)) = self.runs.get_mut(run).zip(finding.reached()) else { return false };
        run.report_shadow_trip(used.limit)
    }
}

/// Whose memory says which shadow stops were reported already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShadowScope<'a> {
    pub(super) conversation: Option<Hash64>,
    pub(super) run: Option<&'a str>,
    /// The tool that a loop is about.
    pub(super) tool: Option<&'a Name>,
}

const _: () = assert!(Guard::ALL.len() <= u16::BITS as usize, "`shadow_told` has a bit for each guard");

/// Whether it was not reported yet that `guard` would stop. Bits, one for each guard.
pub(super) fn is_first_report(told: &mut u16, guard: Guard, would_stop: bool) -> bool {
    let bit = 1 << guard.place();
    let news = would_stop && *told & bit == 0;
    *told = if would_stop { *told | bit } else { *told & !bit };
    news
}
