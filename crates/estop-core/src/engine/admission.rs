//! What a request changes: when nothing objects it is remembered, its money held, its run counted; when a guard
//! stops it, that guard acts.

use super::AgentState;
use super::asking::Asking;
use super::in_flight::{Flight, LIFETIME_MS};
use super::pass::Pass;
use crate::agent::standing::Cause;
use crate::decision::{Effect, Finding, Guard, Ruling};
use crate::event::{Ended, Event};
use crate::fingerprint::StepPrint;
use crate::ids::Hash64;
use crate::loop_detector::window::NewEntry;
use crate::loop_detector::{self, LoopEvidence};
use crate::minute::Mark;
use crate::policy::WatchdogScope;
use crate::run::{Adds, Run};
use crate::time::Millis;

/// Where a request was put.
struct Remembered {
    /// Serial of its conversation; `None` for what is only counted.
    conversation: Option<u32>,
    /// Serial of its entry there.
    entry: u16,
    /// Input tokens new to the conversation.
    new_input: u32,
}

impl AgentState {
    /// Nothing objects: remember it, hold its money, count it.
    pub(super) fn admit(&mut self, now: Millis, asking: &Asking<'_>, effects: &mut Vec<Effect>) {
        if asking.is_generation() {
            self.note_results(now, asking, effects);
        }
        let run = self.count_in_run(now, asking.event, |run| {
            if asking.is_generation() {
                run.sums_up();
            }
            run.request_adds(asking.is_turn())
        });
        let Remembered { conversation, entry, new_input } = self.remember(now, asking);
        let held = asking.amount();
        self.budget.reserve(held);
        self.in_flight.add(Flight {
            request: asking.request.request,
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
                tokens: asking.request.estimate.input_tokens,
                tool_calls: 0,
                requests: 1,
                generations: u8::from(asking.is_generation()),
            },
        );
    }

    /// Results of proxied tool calls: they feed health and test results; of a hooked run only what
    /// its hooks left open.
    fn note_results(&mut self, now: Millis, asking: &Asking<'_>, effects: &mut Vec<Effect>) {
        let Some(run) = self.runs.get_mut(asking.run_name()) else { return };
        if run.name.is_none() && !run.is_hooked() {
            self.tell_tests(asking.results());
        }
        let Some(run) = self.runs.get_mut(asking.run_name()) else { return };
        if run.is_hooked() {
            let tests = asking.results().iter().filter(|s| s.test_run && s.ended != Ended::Unknown);
            tests.for_each(|step| run.test_told(step.ended));
            return;
        }
        for step in asking.results().iter().filter(|s| !s.tool.is_empty()) {
            run.tool_ended(step.action, step.ended);
            self.health.tool_ended(step.ended == Ended::Failed);
        }
        self.act_on_health(now, asking.policy, effects);
    }

    /// Requests that name no run tell of the tests of the hooked run that waits for a word, if there is only one: clients
    /// that send no header of ours name their run by hook alone.
    fn tell_tests(&mut self, results: &[StepPrint]) {
        let mut waiting = self.runs.iter_mut().filter(|run| run.waits_for_test());
        let (Some(run), None) = (waiting.next(), waiting.next()) else { return };
        let tests = results.iter().filter(|s| s.test_run && s.ended != Ended::Unknown);
        tests.for_each(|step| run.test_told(step.ended));
    }

    /// Counts in the event's run, begun if it is new. Returns its serial.
    pub(super) fn count_in_run(
        &mut self,
        now: Millis,
        event: &Event,
        adds: impl FnOnce(&mut Run) -> Adds,
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
    fn remember(&mut self, now: Millis, asking: &Asking<'_>) -> Remembered {
        let Asking { request: r, steps, policy, .. } = asking;
        if !asking.is_generation() {
            return Remembered { conversation: None, entry: 0, new_input: r.estimate.input_tokens };
        }
        let window = usize::from(policy.loops.window_size);
        let c = self.conversations.open(r.print.conversation, now);
        c.outputs.add_results(asking.results());
        c.track.remember(steps, window);
        let entry = if asking.is_retry {
            c.renew_entry(now)
        } else {
            let new = NewEntry {
                prompt: r.print.prompt,
                asks: asking.asks(),
                steps: steps.len().min(255) as u8,
                identity: r.print.identity(),
            };
            c.push_entry(now, new, window)
        };
        let new_input = r.estimate.input_tokens.saturating_sub(c.input_tokens);
        c.input_tokens = r.estimate.input_tokens;
        c.in_flight = c.in_flight.saturating_add(1);
        Remembered { conversation: Some(c.serial), entry, new_input }
    }

    pub(super) fn act_on_refusal(
        &mut self,
        now: Millis,
        by: Guard,
        asking: &Asking<'_>,
        pass: &Pass,
        effects: &mut Vec<Effect>,
    ) {
        match by {
            Guard::Loop => {
                if let Some(c) = self.conversations.get(asking.conversation()) {
                    let (asked, loops) = (asking.asked(), &asking.policy.loops);
                    let found = loop_detector::evidence(c, asked, &asking.steps, asking.prints(), now, loops);
                    effects.push(Effect::LoopEvidence(found));
                }
                self.kill_switch(now, Cause::Loop, effects);
            }
            Guard::Churn => {
                let tool = asking.prints().last().map(|step| step.tool.clone());
                effects.push(Effect::LoopEvidence(LoopEvidence { tool, matched: Vec::new() }));
                self.kill_switch(now, Cause::Churn, effects);
            }
            Guard::Breaker => self.trip(now, asking.event, pass, effects),
            Guard::Watchdog => match asking.policy.watchdog.scope {
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
                if let Some(run) = self.runs.get_mut(asking.run_name()) {
                    run.last_activity = now;
                    let serial = run.serial;
                    self.escalate_summed_up(now, serial, effects);
                }
            }
            Guard::System
            | Guard::Agent
            | Guard::Hours
            | Guard::Models
            | Guard::Rate
            | Guard::Chanting
            | Guard::Gate
            | Guard::Health => {}
            Guard::Budget => self.report_refusal(asking, pass, effects),
        }
    }

    /// A budget refused: reported once for each account and kind of refusal in a period.
    fn report_refusal(&mut self, asking: &Asking<'_>, pass: &Pass, effects: &mut Vec<Effect>) {
        let Some(Finding::Budget(finding)) = pass.verdicts().get(Guard::Budget).map(|v| &v.finding) else {
            return;
        };
        let run = self.runs.get_mut(asking.run_name()).filter(|_| finding.account.is_run());
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

    /// Reports guards in shadow that would stop, each once until it passes again: loops by conversation, breakers by
    /// run and limit, the others by agent.
    pub(super) fn tell_shadows(&mut self, pass: &Pass, of: ToldOf<'_>, effects: &mut Vec<Effect>) {
        for (guard, verdict) in pass.verdicts().iter() {
            let would_stop = match verdict.ruling {
                Ruling::WouldStop => true,
                Ruling::Pass | Ruling::Warn => false,
                Ruling::Stop | Ruling::Off | Ruling::Skip => continue,
            };
            let news = match guard {
                Guard::Breaker => would_stop && self.is_news_of_run(of.run, &verdict.finding),
                Guard::Loop | Guard::Churn => {
                    let conversation = of.conversation.and_then(|key| self.conversations.get_mut(key));
                    let told = conversation.map_or(&mut self.shadow_told, |c| &mut c.shadow_told);
                    is_news(told, guard, would_stop)
                }
                Guard::System
                | Guard::Agent
                | Guard::Run
                | Guard::Hours
                | Guard::Models
                | Guard::Rate
                | Guard::Budget
                | Guard::Chanting
                | Guard::Gate
                | Guard::Health
                | Guard::Watchdog => is_news(&mut self.shadow_told, guard, would_stop),
            };
            if news {
                effects.push(Effect::WouldHaveStopped { guard });
            }
        }
    }

    fn is_news_of_run(&mut self, run: Option<&str>, finding: &Finding) -> bool {
        let Finding::Breaker(finding) = finding else { return false };
        let Some((run, used)) = self.runs.get_mut(run).zip(finding.reached()) else { return false };
        run.tell_shadow_trip(used.limit)
    }
}

/// Whose memory says what was told already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ToldOf<'a> {
    pub(super) conversation: Option<Hash64>,
    pub(super) run: Option<&'a str>,
}

/// Whether it was not told yet that `guard` would stop. Bits, one for each guard.
pub(super) fn is_news(told: &mut u16, guard: Guard, would_stop: bool) -> bool {
    let bit = 1 << guard.place();
    let news = would_stop && *told & bit == 0;
    *told = if would_stop { *told | bit } else { *told & !bit };
    news
}
