//! Tool calls and prompts as hooks see them.

use super::AgentState;
use super::admission::ShadowScope;
use super::pass::Pass;
use super::request::judge_breaker;
use serde::{Deserialize, Serialize};

use crate::agent::standing::{Cause, Standing};
use crate::decision::{Decision, Effect, Finding, Guard, Ruling};
use crate::event::{Ended, Event, ToolFinished, ToolGate, ToolRequested};
use crate::fingerprint::StepFingerprint;
use crate::fingerprint::signature::hook_conversation;
use crate::guards::hours;
use crate::ids::{CallId, Hash64, Name};
use crate::judgement::Level;
use crate::loop_detector::step::step_of;
use crate::loop_detector::{self, LoopEvidence, LoopFinding, Observed};
use crate::minute::Mark;
use crate::policy::{Mode, Policy};
use crate::run::report_tool::is_wrap_up_tool;
use crate::run::{AtGate, Increments, Run, RunAction, is_same_call};
use crate::system::Channel;
use crate::time::{Millis, Now};

/// Calls remembered until they end. Clients run a few at once; one that never reports their end loses the oldest.
const OPEN_CALLS_MAX: usize = 64;

/// Tool calls that hooks announced and that have not ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct OpenCalls(Vec<OpenCall>);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct OpenCall {
    call: CallId,
    run: Option<Name>,
    tool: Name,
    action: Hash64,
    /// Who saw it first.
    #[serde(default, skip_serializing_if = "ToolGate::is_hook")]
    gate: ToolGate,
    /// The gate of its MCP server saw it too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_gate: Option<AtGate>,
}

impl OpenCall {
    fn is_asked_again(&self, t: &ToolRequested) -> bool {
        (self.call, self.action) == (t.call, t.action) || self.at_gate == Some(AtGate::of(t))
    }

    /// Whether a hook saw what the gate of an MCP server sees now.
    fn is_pair_of(&self, t: &ToolRequested) -> bool {
        self.gate == ToolGate::Hook && self.at_gate.is_none() && is_same_call(&self.tool, self.action, t)
    }
}

impl OpenCalls {
    fn add(&mut self, call: OpenCall) {
        if self.0.len() == OPEN_CALLS_MAX {
            self.0.remove(0);
        }
        self.0.push(call);
    }

    /// The same call: a number used again for something else is another one, or it would not count.
    fn contains(&self, t: &ToolRequested, run: Option<&str>) -> bool {
        self.0.iter().any(|c| c.is_asked_again(t) && c.run.as_deref() == run)
    }

    /// The call of a hook that the gate of an MCP server sees again. Each stands for one.
    fn pair_of(&self, t: &ToolRequested, run: Option<&str>) -> Option<usize> {
        self.0.iter().position(|c| c.is_pair_of(t) && c.run.as_deref() == run)
    }

    fn pair(&mut self, t: &ToolRequested, run: Option<&str>) {
        if let Some(call) = self.pair_of(t, run).and_then(|at| self.0.get_mut(at)) {
            call.at_gate = Some(AtGate::of(t));
        }
    }

    fn take(&mut self, call: CallId) -> Option<OpenCall> {
        let at = self.0.iter().position(|c| c.call == call)?;
        Some(self.0.remove(at))
    }
}

impl AgentState {
    pub(super) fn tool_requested(
        &mut self,
        now: Now,
        event: &Event,
        t: &ToolRequested,
        policy: &Policy,
    ) -> Decision {
        if let Some(run) = self.runs.get_mut(event.run.as_deref()).filter(|_| t.gate == ToolGate::Hook) {
            run.hook_tools();
        }
        let fresh;
        let known = self.runs.get(event.run.as_deref());
        let run = match known {
            Some(run) => run,
            None => {
                fresh = Run::new(event.run.clone(), u32::MAX, false, now.mono);
                &fresh
            }
        };
        let adds = if self.is_counted(run, t) {
            Increments::default()
        } else {
            Increments { tool_calls: 1, turn: false, test_runs: u32::from(t.test_run) }
        };
        let reports = policy.limits.wrap_up_tools.iter().any(|tool| is_wrap_up_tool(&t.tool, tool));
        let action = if reports { RunAction::WrapUpTool } else { RunAction::Tool };
        let modes = &policy.modes;
        let mut pass = Pass::of_channel(event, Channel::Tools);
        pass.ask(Guard::Agent, self.standing.judge(), Mode::Enforce);
        pass.ask(
            Guard::Run,
            if known.is_none() { self.room_for_run(now.mono) } else { run.judge(action).some() },
            Mode::Enforce,
        );
        pass.ask(Guard::Hours, hours::judge(policy.hours.as_ref(), now.wall), modes[Guard::Hours]);
        for guard in [Guard::Rate, Guard::Budget, Guard::Loop, Guard::Churn, Guard::Chanting] {
            pass.skip(guard);
        }
        let (mut breaker, mode) = judge_breaker(run, adds, now.mono, policy);
        if reports && breaker.level == Level::Stop {
            // A report passes, also if it is the call that reaches the limit: the next one trips.
            breaker.level = Level::Warn;
        }
        pass.ask(Guard::Breaker, breaker, mode);
        self.judge_gate(&mut pass, now.mono, policy);
        pass.skip(Guard::Watchdog);

        let mut effects = Vec::new();
        let conversation = hook_conversation(event.run.as_deref());
        if pass.stopped_by().is_none_or(|by| by >= Guard::Gate) {
            self.act_on_gate(now.mono, &pass, conversation, policy);
            self.act_on_suspension(now.mono, &pass, policy, &mut effects);
        }
        match pass.stopped_by() {
            None => self.admit_tool(now.mono, event, t, adds),
            Some(Guard::Breaker) => self.trip(now.mono, event, &pass, &mut effects),
            Some(_) => {}
        }
        let of = ShadowScope { conversation: Some(conversation), run: event.run.as_deref(), tool: None };
        self.report_shadow_stops(&pass, of, &mut effects);
        pass.into_decision(effects)
    }

    /// Whether a call was counted before: who asks twice about one call asks about one call, and the gate of an MCP
    /// server sees again what a hook saw, or what the latest answer showed (CB-3).
    fn is_counted(&self, run: &Run, t: &ToolRequested) -> bool {
        let name = run.name.as_deref();
        let is_seen_again = || self.open_calls.pair_of(t, name).is_some() || run.announced(t);
        self.open_calls.contains(t, name) || (t.gate == ToolGate::Mcp && is_seen_again())
    }

    /// A call at the gate of an MCP server uses up its pair.
    fn pair(&mut self, t: &ToolRequested, run: Option<&str>) {
        if self.open_calls.contains(t, run) {
            return;
        }
        if self.open_calls.pair_of(t, run).is_some() {
            self.open_calls.pair(t, run);
        } else if let Some(run) = self.runs.get_mut(run) {
            run.pair_announced(t);
        }
    }

    fn admit_tool(&mut self, now: Millis, event: &Event, t: &ToolRequested, adds: Increments) {
        self.count_in_run(now, event, |run| {
            if t.gate == ToolGate::Hook {
                run.hook_tools();
            }
            adds
        });
        if adds == Increments::default() {
            if t.gate == ToolGate::Mcp {
                self.pair(t, event.run.as_deref());
            }
            return;
        }
        if let Some(run) = self.runs.get_mut(event.run.as_deref()).filter(|_| t.test_run) {
            run.await_test(Hash64(t.call.0));
        }
        self.open_calls.add(OpenCall {
            call: t.call,
            run: event.run.clone(),
            tool: t.tool.clone(),
            action: t.action,
            gate: t.gate,
            at_gate: None,
        });
        self.minute.add(now, Mark { tool_calls: 1, ..Mark::default() });
        // Its model has answered: what follows is the time of the tool.
        let conversation = self.conversations.get_mut(hook_conversation(event.run.as_deref()));
        if let Some(progress) = conversation.and_then(|c| c.progress.as_mut()) {
            progress.answered(now);
        }
    }

    /// A tool ended: its result makes a step, and a step may complete a loop (LD-6).
    pub(super) fn tool_finished(&mut self, now: Millis, t: &ToolFinished, policy: &Policy) -> Decision {
        let Some(open) = self.open_calls.take(t.call) else { return Decision::noted() };
        let mut effects = Vec::new();
        self.health.tool_ended(t.ended == Ended::Failed);
        self.act_on_health(now, policy, &mut effects);
        if let Some(run) = self.runs.get_mut(open.run.as_deref()) {
            match open.gate {
                ToolGate::Hook => run.hooked_tool_ended(Hash64(t.call.0), t.ended),
                ToolGate::Mcp => run.tool_ended(Hash64(t.call.0), t.ended),
            }
        }
        let (pass, evidence) = self.judge_step(now, &open, t, policy);
        report_nudges(&pass, &open.tool, &mut effects);
        let tool = evidence.tool.clone();
        let conversation = Some(hook_conversation(open.run.as_deref()));
        let of = ShadowScope { conversation, run: None, tool: tool.as_ref() };
        self.report_shadow_stops(&pass, of, &mut effects);
        if let Some(by) = pass.stopped_by() {
            if !matches!(self.standing, Standing::Inactive { .. }) {
                effects.push(Effect::LoopEvidence(evidence));
            }
            let cause = if by == Guard::Loop { Cause::Loop } else { Cause::Churn };
            self.kill_switch(now, cause, &mut effects);
        }
        if t.reports {
            self.escalate_reported(now, open.run, &mut effects);
        }
        // What ended cannot be refused any more: the verdict works on what comes next.
        let mut decision = Decision::noted();
        decision.verdicts = pass.verdicts().clone();
        decision.effects = effects;
        decision
    }

    /// The verdicts on a step, and what speaks for it if one stops.
    fn judge_step(
        &mut self,
        now: Millis,
        open: &OpenCall,
        t: &ToolFinished,
        policy: &Policy,
    ) -> (Pass, LoopEvidence) {
        let mut pass = Pass::new();
        let mut evidence = LoopEvidence::default();
        let print = StepFingerprint {
            tool: open.tool.clone(),
            action: open.action,
            result: t.result,
            ended: t.ended,
            test_run: false,
            words: t.words.clone(),
        };
        // Hooks tell that a person asked, not what: the number of the turn stands for the ask.
        let turn = self.runs.get(open.run.as_deref()).map_or(0, Run::turns);
        let ask = Hash64(u64::from(turn));
        let is_exempt = policy.loops.exempt_tools.contains(&open.tool);
        let all = [step_of(&print, ask)];
        let steps = if is_exempt { &[] } else { &all[..] };
        let observed = Observed {
            now,
            asked: None,
            asked_words: None,
            ask,
            steps,
            prints: if is_exempt { Vec::new() } else { vec![&print] },
            exempt: if is_exempt { vec![&print] } else { Vec::new() },
            is_request: false,
            can_nudge: open.gate == ToolGate::Hook
                && policy.loops.nudge
                && policy.modes[Guard::Loop] != Mode::Off,
        };
        let window = usize::from(policy.loops.window_size);
        let key = hook_conversation(open.run.as_deref());
        let c = self.conversations.open(key, now);
        if is_exempt {
            c.observe(&observed, &policy.loops);
            return (pass, evidence);
        }
        let mut judgement = loop_detector::judge(Some(c), &observed, &policy.loops);
        let nudge = judgement.seen.stretch.is_some_and(|stretch| stretch.nudge);
        if nudge && judgement.level == Level::Pass {
            judgement.level = Level::Warn;
        }
        pass.ask(Guard::Loop, judgement, policy.modes[Guard::Loop]);
        pass.ask(Guard::Churn, c.track.judge_churn(steps), policy.modes[Guard::Churn]);
        if pass.stopped_by().is_some() || pass.would_stop(Guard::Loop) || pass.would_stop(Guard::Churn) {
            evidence = loop_detector::evidence(c, &observed, &policy.loops);
        }
        c.track.remember(steps, window);
        c.observe(&observed, &policy.loops);
        (pass, evidence)
    }

    /// A tripped run that reported has summed up: a person is needed now (CB-6). An implicit run never ends so (ID-7).
    fn escalate_reported(&mut self, now: Millis, run: Option<Name>, effects: &mut Vec<Effect>) {
        let tripped = |run: &&mut Run| run.name.is_some() && run.is_tripped();
        let Some(known) = self.runs.get_mut(run.as_deref()).filter(tripped) else { return };
        if let (Some(_), Some(used)) = (known.complete(now), known.tripped()) {
            effects.push(Effect::RunEscalated { run, used, attended: known.attended });
        }
    }

    /// A person's prompt, seen by a hook: a turn (CB-3).
    pub(super) fn prompt_submitted(&mut self, now: Millis, event: &Event, policy: &Policy) -> Decision {
        let adds = Increments { turn: true, ..Increments::default() };
        let mut pass = Pass::of_channel(event, Channel::Llm);
        pass.ask(Guard::Agent, self.standing.judge(), Mode::Enforce);
        match self.runs.get(event.run.as_deref()) {
            Some(run) => {
                pass.ask(Guard::Run, run.judge(RunAction::ModelCall), Mode::Enforce);
                let (breaker, mode) = judge_breaker(run, adds, now, policy);
                pass.ask(Guard::Breaker, breaker, mode);
            }
            None => {
                pass.ask(Guard::Run, self.room_for_run(now), Mode::Enforce);
                let fresh = Run::new(event.run.clone(), u32::MAX, false, now);
                let (breaker, mode) = judge_breaker(&fresh, adds, now, policy);
                pass.ask(Guard::Breaker, breaker, mode);
            }
        }
        let mut effects = Vec::new();
        match pass.stopped_by() {
            None => {
                self.count_in_run(now, event, |run| {
                    run.hook_prompt();
                    adds
                });
                let hooked = self.conversations.get_mut(hook_conversation(event.run.as_deref()));
                if let Some(progress) = hooked.and_then(|c| c.progress.as_mut()) {
                    progress.person();
                }
            }
            Some(Guard::Breaker) => self.trip(now, event, &pass, &mut effects),
            Some(_) => {}
        }
        let of = ShadowScope { conversation: None, run: event.run.as_deref(), tool: None };
        self.report_shadow_stops(&pass, of, &mut effects);
        pass.into_decision(effects)
    }
}

/// That the agent is told it repeats itself, and whether it helped when it was told before (LD-9).
fn report_nudges(pass: &Pass, tool: &Name, effects: &mut Vec<Effect>) {
    let Some(verdict) = pass.verdicts().get(Guard::Loop) else { return };
    let Finding::Loop(LoopFinding { stretch: Some(stretch), .. }) = verdict.finding else { return };
    if let Some(helped) = stretch.nudge_helped {
        effects.push(Effect::NudgeEnded { helped });
    }
    if verdict.ruling == Ruling::Warn {
        effects.push(Effect::Nudged { tool: tool.clone(), steps: stretch.steps });
    }
}
