//! A request to a model asks to be forwarded: judge first, change state only afterwards.

use super::AgentState;
use super::in_flight::{Flight, LIFETIME_MS};
use super::pass::Pass;
use crate::activity::{Activity, EnteredCritical, Tempo};
use crate::breaker;
use crate::budget::{self, Amount, RunSpend};
use crate::decision::{Decision, Effect, Finding, Guard, Judgement, Ruling};
use crate::event::{CallKind, Ended, Estimate, Event, RequestReceived};
use crate::fingerprint::{RequestPrint, StepPrint};
use crate::health::{Harm, Health};
use crate::hours;
use crate::ids::Hash64;
use crate::intent;
use crate::loop_detector::{self, Step};
use crate::minute::Mark;
use crate::policy::{LoopPolicy, Mode, Policy, WatchdogScope};
use crate::rate;
use crate::repetition;
use crate::run::{Adds, RUNS_MAX, Run, RunFinding, RunState};
use crate::safety_gate::{SafetyVeto, Weighing};
use crate::signature::mix;
use crate::standing::Cause;
use crate::system::Channel;
use crate::time::{Millis, Now};
use crate::watchdog;
use crate::window::NewEntry;

/// What the tripwire would look like with this step in it. Kept only if no guard before it stops.
struct Preview {
    activity: Activity,
    health: Health,
    tempo: Option<Tempo>,
}

impl AgentState {
    pub(super) fn request_received(&mut self, now: Now, event: &Event, r: &RequestReceived, policy: &Policy) -> Decision {
        if self.in_flight.contains(r.request) {
            // A number used twice would settle the wrong reservation.
            return self.refuse_duplicate();
        }
        let steps = steps_of(&r.print, &policy.loops);
        let preview = self.preview(now.mono, r, policy);
        let pass = self.judge_request(now, event, r, &steps, &preview, policy);
        let mut effects = Vec::new();
        let reached_gate = pass.stopped_by().is_none_or(|by| by >= Guard::Gate);
        if reached_gate {
            self.keep(preview, r.print.conversation);
            self.act_on_gate(now.mono, &pass, r.print.conversation, policy);
        }
        self.tell_shadows(&pass, &mut effects);
        match pass.stopped_by() {
            None => self.admit(now.mono, event, r, &steps, policy, &mut effects),
            Some(by) => self.act_on_refusal(now.mono, by, event, r, &steps, &pass, policy, &mut effects),
        }
        pass.into_decision(effects)
    }

    fn refuse_duplicate(&self) -> Decision {
        let mut pass = Pass::new();
        let finding = RunFinding { state: RunState::Active, tripped: None, requests_left: None, too_many_runs: false };
        pass.ask(Guard::Run, Judgement::stop(Finding::Run(finding)), Mode::Enforce);
        pass.into_decision(Vec::new())
    }

    fn preview(&self, now: Millis, r: &RequestReceived, policy: &Policy) -> Preview {
        let mut preview = Preview { activity: self.activity.clone(), health: self.health, tempo: None };
        if r.call != CallKind::Generation {
            return preview;
        }
        let (mut looping, mut runaway) = (false, false);
        if let Some(c) = self.conversations.get(r.print.conversation) {
            let up_to = preview.activity.alike_up_to(&policy.gate);
            looping = c.outputs.all_alike(&r.print.steps, usize::from(policy.gate.loop_window_size), up_to);
            let mut tempo = c.tempo;
            // Requests that overlap are one fan-out and have no tempo.
            if c.in_flight == 0 && !c.entries.is_empty() {
                tempo.step(now.since(c.last_request));
            }
            runaway = tempo.is_runaway(policy.gate.tempo_compression_ratio);
            preview.tempo = Some(tempo);
        }
        if let Some(EnteredCritical { flipped }) = preview.activity.observe(now, looping, runaway) {
            preview.health.harm(Harm::LoopingOrRunaway);
            if flipped {
                preview.health.harm(Harm::UnexpectedFlip);
            }
        }
        preview
    }

    fn judge_request(
        &self,
        now: Now,
        event: &Event,
        r: &RequestReceived,
        steps: &[Step],
        preview: &Preview,
        policy: &Policy,
    ) -> Pass {
        let fresh;
        let known = self.runs.get(event.run.as_deref());
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
        let run_judgement = if known.is_none() { self.room_for_run() } else { run.judge(true) };
        let spend = RunSpend { spent: run.spent.amount, reserved: self.held_by(run, policy) };
        let own = self.budget.tightest(asked(&r.estimate), spend, &policy.budget);

        let mut pass = Pass::of_channel(event, Channel::Llm);
        pass.ask(Guard::Agent, self.standing.judge(), Mode::Enforce);
        pass.ask(Guard::Run, run_judgement, Mode::Enforce);
        pass.ask(Guard::Hours, hours::judge(policy.hours.as_ref(), now.wall), modes.hours);
        let rate_mode = if in_flight >= rate::IN_FLIGHT_MAX { Mode::Enforce } else { modes.rate };
        pass.ask(Guard::Rate, rate::judge(&self.minute, now.mono, &policy.rate, tokens, in_flight), rate_mode);
        pass.ask(Guard::Budget, budget::judge(own, r.fleet, r.estimate.unpriced, &policy.budget), modes.budget);
        pass.ask(Guard::Loop, loop_detector::judge(conversation, &r.print, steps, &policy.loops), modes.loops);
        pass.ask(Guard::Churn, repetition::judge_churn(conversation, steps), modes.churn);
        pass.skip(Guard::Chanting);
        pass.ask(Guard::Breaker, judge_breaker(run, run.request_adds(asks(r)), now.mono, policy), run.mode(modes));
        self.judge_tripwire(&mut pass, now.mono, preview, policy);
        match (r.call, policy.watchdog.scope) {
            (CallKind::Generation, WatchdogScope::Agent | WatchdogScope::System) => {
                pass.ask(Guard::Watchdog, watchdog::judge(self.minute.sums().generations, &policy.watchdog), modes.watchdog);
            }
            (CallKind::Embedding | CallKind::Other, _) | (CallKind::Generation, WatchdogScope::Off) => {
                pass.skip(Guard::Watchdog);
            }
        }
        pass
    }

    fn judge_tripwire(&self, pass: &mut Pass, now: Millis, preview: &Preview, policy: &Policy) {
        let activity = preview.activity.state();
        let weighing = Weighing {
            activity,
            intent: intent::decide(&activity),
            sums: self.minute.sums(),
            health: preview.health.value(),
            health_counts: policy.modes.health == Mode::Enforce,
            policy: &policy.gate,
        };
        pass.ask(Guard::Gate, self.gate.judge(now, &weighing), policy.modes.gate);
        pass.ask(Guard::Health, preview.health.judge(&policy.gate), policy.modes.health);
    }

    /// The gate and health, for events that make no step of their own (tool calls).
    pub(super) fn judge_gate(&self, pass: &mut Pass, now: Millis, policy: &Policy) {
        let preview = Preview { activity: self.activity.clone(), health: self.health, tempo: None };
        self.judge_tripwire(pass, now, &preview, policy);
    }

    pub(super) fn room_for_run(&self) -> Judgement {
        let open = |run: &Run| matches!(run.state(), RunState::Active | RunState::Sleeping);
        let full = self.runs.iter().filter(|run| open(run)).count() >= RUNS_MAX;
        let finding = RunFinding { state: RunState::Active, tripped: None, requests_left: None, too_many_runs: full };
        Judgement::stop_if(full, Finding::Run(finding))
    }

    /// What the run's requests hold; added up only if a cap of the run asks for it.
    fn held_by(&self, run: &Run, policy: &Policy) -> Amount {
        let capped = policy.budget.usd_per_run.is_some() || policy.budget.tokens_per_run.is_some();
        if capped { self.in_flight.held_by_run(run.serial) } else { Amount::default() }
    }

    fn keep(&mut self, preview: Preview, conversation: Hash64) {
        self.activity = preview.activity;
        self.health = preview.health;
        if let Some((tempo, c)) = preview.tempo.zip(self.conversations.get_mut(conversation)) {
            c.tempo = tempo;
        }
    }

    /// A veto starts its cooldown and uses up its evidence, enforced or not: after the wait the agent
    /// starts afresh.
    pub(super) fn act_on_gate(&mut self, now: Millis, pass: &Pass, conversation: Hash64, policy: &Policy) {
        let Some(Finding::Gate(gate)) = pass.verdicts().get(Guard::Gate).map(|v| &v.finding) else { return };
        self.gate.vetoed(now, gate.vetoes, &policy.gate);
        if let Some(c) = self.conversations.get_mut(conversation) {
            if gate.vetoes.contains(SafetyVeto::LoopDetected) {
                c.outputs.clear();
            }
            if gate.vetoes.contains(SafetyVeto::RunawayDetected) {
                c.tempo.clear();
            }
        }
    }

    pub(super) fn tell_shadows(&mut self, pass: &Pass, effects: &mut Vec<Effect>) {
        for guard in Guard::ALL {
            match pass.verdicts().get(guard).map(|v| v.ruling) {
                Some(Ruling::WouldStop) => self.tell_shadow(guard, true, effects),
                Some(Ruling::Pass | Ruling::Warn) => self.tell_shadow(guard, false, effects),
                Some(Ruling::Stop | Ruling::Off | Ruling::Skip) | None => {}
            }
        }
    }

    /// Nothing objects: remember it, hold its money, count it.
    fn admit(
        &mut self,
        now: Millis,
        event: &Event,
        r: &RequestReceived,
        steps: &[Step],
        policy: &Policy,
        effects: &mut Vec<Effect>,
    ) {
        self.note_results(now, event, &r.print.steps, policy, effects);
        let run = self.count_in_run(now, event, |run| run.request_adds(asks(r)));
        let (entry, new_input) = self.remember(now, r, steps, policy);
        let held = asked(&r.estimate);
        self.budget.reserve(held);
        self.in_flight.add(Flight {
            request: r.request,
            run,
            conversation: r.print.conversation,
            entry,
            held,
            new_input,
            expires: now.plus(LIFETIME_MS),
        });
        self.minute.add(
            now,
            Mark {
                new_tokens: new_input,
                tokens: r.estimate.input_tokens,
                tool_calls: 0,
                requests: 1,
                generations: u8::from(r.call == CallKind::Generation),
            },
        );
    }

    /// Results of proxied tool calls: they feed health and test results, unless hooks report them.
    fn note_results(&mut self, now: Millis, event: &Event, steps: &[StepPrint], policy: &Policy, effects: &mut Vec<Effect>) {
        let calls: Vec<&StepPrint> = steps.iter().filter(|s| !s.tool.is_empty()).collect();
        if calls.is_empty() || self.open_calls.is_hooked() {
            return;
        }
        for step in calls {
            self.health.tool_ended(step.ended == Ended::Failed);
            if let Some(run) = self.runs.get_mut(event.run.as_deref()) {
                run.tool_ended(step.action, step.ended);
            }
        }
        self.act_on_health(now, policy, effects);
    }

    /// Counts in the event's run, begun if it is new. Returns its serial.
    pub(super) fn count_in_run(&mut self, now: Millis, event: &Event, adds: impl FnOnce(&mut Run) -> Adds) -> u32 {
        let name = event.run.as_deref();
        if self.runs.get(name).is_none() {
            self.runs.begin(event.run.clone(), event.run.is_none(), now);
        }
        let Some(run) = self.runs.get_mut(name) else { return u32::MAX };
        let adds = adds(run);
        if run.is_tripped() {
            run.sums_up();
        }
        run.count(adds, now);
        run.serial
    }

    /// Puts the request into its conversation's window. Returns its serial there and its new input tokens.
    fn remember(&mut self, now: Millis, r: &RequestReceived, steps: &[Step], policy: &Policy) -> (u16, u32) {
        if r.call != CallKind::Generation {
            return (0, r.estimate.input_tokens);
        }
        let window = usize::from(policy.loops.window_size);
        let c = self.conversations.open(r.print.conversation, now);
        c.outputs.add_results(&r.print.steps);
        repetition::remember(c, steps, window);
        let new = NewEntry { prompt: r.print.prompt, asks: !r.print.continues, steps: steps.len().min(255) as u8 };
        let entry = c.push_entry(now, new, window);
        let new_input = r.estimate.input_tokens.saturating_sub(c.input_tokens);
        c.input_tokens = r.estimate.input_tokens;
        c.in_flight = c.in_flight.saturating_add(1);
        c.last_request = now;
        (entry, new_input)
    }

    #[expect(clippy::too_many_arguments, reason = "one refusal needs all there is to know about its request")]
    fn act_on_refusal(
        &mut self,
        now: Millis,
        by: Guard,
        event: &Event,
        r: &RequestReceived,
        steps: &[Step],
        pass: &Pass,
        policy: &Policy,
        effects: &mut Vec<Effect>,
    ) {
        match by {
            Guard::Loop => {
                if let Some(c) = self.conversations.get(r.print.conversation) {
                    effects.push(Effect::LoopEvidence(loop_detector::evidence(c, &r.print, steps, now)));
                }
                self.kill_switch(now, Cause::Loop, effects);
            }
            Guard::Churn => self.kill_switch(now, Cause::Churn, effects),
            Guard::Breaker => self.trip(now, event, pass, effects),
            Guard::Health => self.act_on_health(now, policy, effects),
            Guard::Watchdog => match policy.watchdog.scope {
                WatchdogScope::System => effects.push(Effect::PressButton),
                WatchdogScope::Agent | WatchdogScope::Off => self.kill_switch(now, Cause::Watchdog, effects),
            },
            Guard::System
            | Guard::Agent
            | Guard::Run
            | Guard::Hours
            | Guard::Rate
            | Guard::Budget
            | Guard::Chanting
            | Guard::Gate => {}
        }
    }

    /// A breaker reached its limit (CB-6).
    pub(super) fn trip(&mut self, now: Millis, event: &Event, pass: &Pass, effects: &mut Vec<Effect>) {
        let Some(Finding::Breaker(finding)) = pass.verdicts().get(Guard::Breaker).map(|v| &v.finding) else { return };
        let Some(used) = finding.reached() else { return };
        if self.runs.get(event.run.as_deref()).is_none() {
            self.runs.begin(event.run.clone(), event.run.is_none(), now);
        }
        if let Some(run) = self.runs.get_mut(event.run.as_deref()) {
            run.trip(used, now);
            effects.push(Effect::RunTripped { run: event.run.clone(), limit: used.limit });
        }
    }
}

/// A tripped run is summing up: its limits have spoken.
pub(super) fn judge_breaker(run: &Run, adds: Adds, now: Millis, policy: &Policy) -> Judgement {
    if run.is_tripped() {
        return Judgement::CLEAR;
    }
    breaker::judge(run.counts_with(adds, now), &policy.limits, run.allowances())
}

/// A turn: a person's text to a generating model (CB-3).
fn asks(r: &RequestReceived) -> bool {
    r.call == CallKind::Generation && !r.print.continues && r.print.prompt.is_some()
}

fn asked(estimate: &Estimate) -> Amount {
    Amount { usd: estimate.usd, tokens: u64::from(estimate.input_tokens) + u64::from(estimate.output_tokens) }
}

/// The steps that count as repetition, with their signatures (FP-4).
fn steps_of(print: &RequestPrint, policy: &LoopPolicy) -> Vec<Step> {
    let counts = |s: &&StepPrint| !policy.exempt_tools.iter().any(|exempt| *exempt == s.tool);
    print.steps.iter().filter(counts).map(|s| step_of(s, print.ask)).collect()
}

/// For agents that act in text the ask is the result itself, so it cannot be part of the signature.
pub(super) fn step_of(step: &StepPrint, ask: Hash64) -> Step {
    let serves = if step.tool.is_empty() { Hash64(0) } else { ask };
    Step {
        action: step.action,
        signature: mix(&[step.action, step.result, serves]),
        failure: (step.ended == Ended::Failed).then(|| mix(&[crate::signature::text(&step.tool), step.result])),
    }
}
