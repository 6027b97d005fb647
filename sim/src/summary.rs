//! What a run came to: how many of what, who was stopped by whom, and the digest.

use std::collections::BTreeMap;
use std::fmt;

use estop_core::decision::{Decision, Effect, Outcome, Ruling};
use estop_core::event::EventKind;

use crate::temperament::Kind;

/// Counts of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The run's seed.
    pub seed: u64,
    /// Events judged.
    pub events: u64,
    /// Simulated time, in milliseconds.
    pub simulated_ms: u64,
    /// Restarts of the process: states rebuilt from their events.
    pub restarts: u64,
    /// States rebuilt.
    pub rebuilt: u64,
    /// System events.
    pub system_events: u64,
    /// Requests let through that were the one before again, which the provider failed.
    pub retries: u64,
    /// Events by kind.
    pub by_event: BTreeMap<&'static str, u64>,
    /// Refusals and would-be refusals by guard.
    pub by_guard: BTreeMap<&'static str, Counts>,
    /// By temperament.
    pub by_kind: BTreeMap<Kind, Counts>,
    /// One number for all decisions.
    pub digest: String,
}

/// What was decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Let through.
    pub allowed: u64,
    /// Refused.
    pub refused: u64,
    /// Would have been, in shadow.
    pub shadowed: u64,
    /// Agents switched off or paused by a guard.
    pub stopped: u64,
}

impl Summary {
    /// Counts one decision.
    pub fn count(&mut self, kind: Kind, what: &EventKind, decision: &Decision) {
        self.events += 1;
        *self.by_event.entry(name(what)).or_default() += 1;
        let of_kind = self.by_kind.entry(kind).or_default();
        match decision.outcome {
            Outcome::Allow => of_kind.allowed += 1,
            Outcome::Refuse { by, .. } => {
                of_kind.refused += 1;
                self.by_guard.entry(by.name()).or_default().refused += 1;
            }
            Outcome::Noted => {}
        }
        for (guard, _) in decision.verdicts.iter().filter(|(_, v)| v.ruling == Ruling::WouldStop) {
            of_kind.shadowed += 1;
            self.by_guard.entry(guard.name()).or_default().shadowed += 1;
        }
        for effect in &decision.effects {
            if let Effect::Deactivated { cause } | Effect::Paused { cause } = effect {
                of_kind.stopped += 1;
                self.by_guard.entry(cause.name()).or_default().stopped += 1;
            }
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.simulated_ms / 3_600_000;
        writeln!(f, "seed {}: {} events in {hours} simulated hours", self.seed, self.events)?;
        writeln!(
            f,
            "{} system events, {} restarts with {} states rebuilt",
            self.system_events, self.restarts, self.rebuilt
        )?;
        writeln!(f, "{} requests were retries of what the provider failed", self.retries)?;
        writeln!(f, "\n{:<22}{:>10}", "event", "count")?;
        for (name, count) in &self.by_event {
            writeln!(f, "{name:<22}{count:>10}")?;
        }
        writeln!(f, "\n{:<22}{:>10}{:>12}{:>10}", "guard", "refused", "would have", "stopped")?;
        for (name, c) in &self.by_guard {
            writeln!(f, "{name:<22}{:>10}{:>12}{:>10}", c.refused, c.shadowed, c.stopped)?;
        }
        writeln!(
            f,
            "\n{:<22}{:>10}{:>10}{:>12}{:>10}",
            "temperament", "allowed", "refused", "would have", "stopped"
        )?;
        for (kind, c) in &self.by_kind {
            let name = format!("{kind:?}");
            writeln!(f, "{name:<22}{:>10}{:>10}{:>12}{:>10}", c.allowed, c.refused, c.shadowed, c.stopped)?;
        }
        write!(f, "\ndigest {}", self.digest)
    }
}

fn name(what: &EventKind) -> &'static str {
    match what {
        EventKind::RequestReceived(_) => "request_received",
        EventKind::ResponseCompleted(_) => "response_completed",
        EventKind::StreamProgressed(_) => "stream_progressed",
        EventKind::StreamAborted(_) => "stream_aborted",
        EventKind::ChantDetected(_) => "chant_detected",
        EventKind::ToolRequested(_) => "tool_requested",
        EventKind::ToolFinished(_) => "tool_finished",
        EventKind::PromptSubmitted => "prompt_submitted",
        EventKind::RunStarted { .. } => "run_started",
        EventKind::RunSlept => "run_slept",
        EventKind::RunWoke => "run_woke",
        EventKind::RunCompleted => "run_completed",
        EventKind::RunExtended { .. } => "run_extended",
        EventKind::MessageIn { .. } => "message_in",
        EventKind::MessageOut { .. } => "message_out",
        EventKind::PolicyChanged { .. } => "policy_changed",
        EventKind::AgentActivated { .. } => "agent_activated",
        EventKind::AgentDeactivated { .. } => "agent_deactivated",
        EventKind::AgentPaused { .. } => "agent_paused",
        EventKind::AgentResumed { .. } => "agent_resumed",
        EventKind::GuardSnoozed { .. } => "guard_snoozed",
        EventKind::GuardWoken { .. } => "guard_woken",
        EventKind::BudgetRenewed { .. } => "budget_renewed",
        EventKind::Restarted { .. } => "restarted",
        EventKind::Tick => "tick",
    }
}
