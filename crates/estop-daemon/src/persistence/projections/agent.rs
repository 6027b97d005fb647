//! What rows need to remember of one agent from record to record.

use estop_core::agent::standing::{DeactivatedBy, Standing};
use estop_core::decision::{Effect, Finding, Guard, Outcome};
use estop_core::event::EventKind;
use estop_store::{AgentSeen, CaseUpdate, JournalBatch, StandingChange};
use serde_json::json;

use super::error_rate::Window;
use super::spend::AgentSpend;
use super::{AgentRecord, event};

/// How often an agent's last call is kept.
const SEEN_EVERY_MS: i64 = 10_000;

/// What is remembered of one agent from record to record.
pub(in crate::persistence) struct AgentProjection {
    /// When its last call was last kept.
    seen: Option<i64>,
    standing: Standing,
    /// The guard that last refused it: told once, not with each request.
    refused_by: Option<Guard>,
    /// How many of its requests fail.
    pub(super) failures: Window,
    pub(super) page: AgentSpend,
}

impl AgentProjection {
    pub(in crate::persistence) fn new(name: &str) -> AgentProjection {
        AgentProjection {
            seen: None,
            standing: Standing::default(),
            refused_by: None,
            failures: Window::default(),
            page: AgentSpend::of(name),
        }
    }

    /// By what its requests in progress are known.
    pub(in crate::persistence) fn key(&self) -> u64 {
        self.page.key_of_agent()
    }

    /// How it stood before this process.
    pub(in crate::persistence) fn know(&mut self, standing: Standing) {
        self.standing = standing;
    }

    /// People heard before this process that many of its requests fail.
    pub(in crate::persistence) fn heard_failing(&mut self) {
        self.failures = Window::heard();
    }

    pub(super) fn refusals(&mut self, seq: u64, told: &AgentRecord<'_>, out: &mut JournalBatch) {
        let Some(by) = told.decision.refused_by() else {
            if told.decision.outcome == Outcome::Allow {
                self.refused_by = None;
            }
            return;
        };
        if self.refused_by.replace(by) == Some(by) {
            return;
        }
        let mut detail = json!({ "guard": by.name(), "reason": told.decision.reason() });
        if let Some(Finding::Gate(gate)) = told.decision.verdicts.get(by).map(|verdict| &verdict.finding) {
            detail["vetoReason"] = json!(gate.veto_reason);
            detail["vetoes"] = json!(gate.vetoes);
            detail["remainingBudget"] = json!(gate.remaining_budget);
        }
        out.events.push(event(seq, told, "refused", detail));
    }

    pub(super) fn standing(&mut self, seq: u64, told: &AgentRecord<'_>, out: &mut JournalBatch) {
        let before = self.standing;
        if told.decision.outcome == Outcome::Noted {
            let answered = CaseUpdate::answered(seq, told.now.wall, told.agent, told.event, before);
            out.case_updates.extend(answered);
        }
        let since = told.now.mono;
        let is_off = matches!(before, Standing::Inactive { .. });
        let what = &told.event.what;
        let is_back = matches!(what, EventKind::AgentActivated { .. })
            || (matches!(what, EventKind::AgentResumed { .. }) && !is_off);
        let mut after = if is_back {
            Some(Standing::Active)
        } else if matches!(what, EventKind::AgentDeactivated { .. }) && !is_off {
            Some(Standing::Inactive { by: DeactivatedBy::Manual, since })
        } else if matches!(what, EventKind::AgentPaused { .. }) && before == Standing::Active {
            Some(Standing::Paused { cause: None, since })
        } else {
            None
        };
        for effect in &told.decision.effects {
            if let Effect::Deactivated { cause } = effect {
                after = Some(Standing::Inactive { by: DeactivatedBy::KillSwitch(*cause), since });
            } else if let Effect::Paused { cause } = effect {
                after = Some(Standing::Paused { cause: Some(*cause), since });
            }
        }
        if let Some(standing) = after {
            self.standing = standing;
            out.standings.push(StandingChange { agent: told.agent.into(), standing, at: told.now.wall });
        }
    }

    /// An agent's last call is kept now and then, not with each.
    pub(super) fn seen(&mut self, told: &AgentRecord<'_>, out: &mut JournalBatch) {
        let at = told.now.wall;
        if self.seen.is_some_and(|last| (last..last + SEEN_EVERY_MS).contains(&at)) {
            return;
        }
        self.seen = Some(at);
        out.seen.push(AgentSeen { agent: told.agent.into(), at });
    }
}
