//! The tripwire's part of a pass: activity, gate and health, looked at before anything is changed.

use super::AgentState;
use super::pass::Pass;
use super::pending_request::PendingRequest;
use crate::decision::{Effect, Finding, Guard, Ruling};
use crate::event::Ended;
use crate::fingerprint::StepFingerprint;
use crate::ids::Hash64;
use crate::policy::{LoopScore, Mode, Policy};
use crate::time::Millis;
use crate::tripwire::activity::{Activity, EnteredCritical, Tempo};
use crate::tripwire::health::{Health, HealthLoss};
use crate::tripwire::intent;
use crate::tripwire::safety_gate::{SafetyGateInput, SafetyVeto};

/// What the tripwire would look like with this step in it. Kept only if no guard before it stops.
pub(super) struct Preview {
    activity: Activity,
    health: Health,
    /// The same with the results that come along. A request that is refused brings them again, so they count
    /// once it is let through, or at once if they are what suspends the agent.
    health_with_results: Health,
    tempo: Option<Tempo>,
}

impl AgentState {
    pub(super) fn preview(&self, now: Millis, pending: &PendingRequest<'_>) -> Preview {
        let (print, policy) = (&pending.request.print, pending.policy);
        let mut preview = Preview {
            activity: self.activity.clone(),
            health: self.health,
            health_with_results: self.health,
            tempo: None,
        };
        if !pending.is_generation() {
            return preview;
        }
        let (mut looping, mut runaway) = (false, false);
        if let Some(c) = self.conversations.get(print.conversation) {
            let up_to = preview.activity.alike_up_to(&policy.gate);
            let window = usize::from(policy.gate.loop_window_size);
            looping = c.outputs.all_alike(pending.results(), window, up_to)
                && (policy.loops.score == LoopScore::Literal || c.is_stale_for(window));
            let mut tempo = c.tempo;
            // Requests that overlap are one fan-out and have no tempo.
            if c.in_flight == 0 && !c.entries.is_empty() {
                tempo.step(now.since(c.last_request));
            }
            runaway = tempo.is_runaway(policy.gate.tempo_compression_ratio);
            preview.tempo = Some(tempo);
        }
        if let Some(EnteredCritical { flipped }) = preview.activity.observe(now, looping, runaway) {
            preview.health.harm(HealthLoss::LoopingOrRunaway);
            if flipped {
                preview.health.harm(HealthLoss::UnexpectedFlip);
            }
        }
        preview.health_with_results = preview.health;
        for step in self.results(pending) {
            preview.health_with_results.tool_ended(step.ended == Ended::Failed);
        }
        preview
    }

    /// The results that count once the request is let through.
    fn results<'r>(
        &self,
        pending: &'r PendingRequest<'_>,
    ) -> impl Iterator<Item = &'r StepFingerprint> + use<'r> {
        let counts = self.runs.get(pending.run_name()).is_some_and(|run| !run.is_hooked());
        pending.results().iter().filter(move |step| counts && !step.tool.is_empty())
    }

    pub(super) fn judge_tripwire(&self, pass: &mut Pass, now: Millis, preview: &Preview, policy: &Policy) {
        let activity = preview.activity.state();
        let weighing = SafetyGateInput {
            activity,
            intent: intent::decide(&activity),
            sums: self.minute.sums(),
            health: preview.health_with_results.value(),
            health_counts: policy.modes[Guard::Health] == Mode::Enforce,
            policy: &policy.gate,
        };
        pass.ask(Guard::Gate, self.gate.judge(now, &weighing), policy.modes[Guard::Gate]);
        pass.ask(Guard::Health, preview.health_with_results.judge(&policy.gate), policy.modes[Guard::Health]);
    }

    /// The gate and health, for events that make no step of their own (tool calls).
    pub(super) fn judge_gate(&self, pass: &mut Pass, now: Millis, policy: &Policy) {
        let (activity, health) = (self.activity.clone(), self.health);
        let preview = Preview { activity, health, health_with_results: health, tempo: None };
        self.judge_tripwire(pass, now, &preview, policy);
    }

    pub(super) fn keep(&mut self, preview: Preview, pass: &Pass, conversation: Hash64) {
        self.activity = preview.activity;
        self.health = if suspends(pass) { preview.health_with_results } else { preview.health };
        // Only what is let through is a step; a retry during the cooldown has no tempo.
        let tempo = preview.tempo.filter(|_| pass.stopped_by().is_none());
        if let Some((tempo, c)) = tempo.zip(self.conversations.get_mut(conversation)) {
            c.tempo = tempo;
        }
    }

    /// Health suspends the agent, whichever guard refuses this event first.
    pub(super) fn act_on_suspension(
        &mut self,
        now: Millis,
        pass: &Pass,
        policy: &Policy,
        effects: &mut Vec<Effect>,
    ) {
        if suspends(pass) {
            self.act_on_health(now, policy, effects);
        }
    }

    /// A veto starts its cooldown and uses up its evidence, enforced or not: after the wait the agent
    /// starts afresh.
    pub(super) fn act_on_gate(&mut self, now: Millis, pass: &Pass, conversation: Hash64, policy: &Policy) {
        let Some(Finding::Gate(gate)) = pass.verdicts().get(Guard::Gate).map(|v| &v.finding) else { return };
        self.gate.vetoed(now, gate.vetoes, &policy.gate);
        if gate.vetoes.first().is_none() {
            return;
        }
        if let Some(c) = self.conversations.get_mut(conversation) {
            if gate.vetoes.contains(SafetyVeto::LoopDetected) {
                c.outputs.clear();
            }
            if gate.vetoes.contains(SafetyVeto::RunawayDetected) {
                c.tempo.clear();
            }
        }
    }
}

/// Whether the health guard stops.
fn suspends(pass: &Pass) -> bool {
    pass.verdicts().get(Guard::Health).is_some_and(|v| v.ruling == Ruling::Stop)
}
