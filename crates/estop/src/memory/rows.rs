//! What follows from a record for the people who look: events, standings, incidents, escalations, spend.

use std::collections::BTreeMap;

use estop_core::decision::{Decision, Effect, Finding, Guard};
use estop_core::event::{Event, Usage, What};
use estop_core::ids::{Name, RequestId};
use estop_core::signature;
use estop_core::standing::{Cause, DeactivatedBy, Standing};
use estop_core::system::{SystemDecision, SystemEvent, SystemOutcome};
use estop_core::time::{Now, Zone};
use estop_store::{
    AgentSeen, CaseStatus, Escalation, Incident, JournalBatch, NewEvent, Spend, SpendSum, StandingChange,
    StoredSystem,
};
use serde_json::{Value, json};

/// Requests under way whose model is remembered. One that is forgotten counts under no model.
const ASKED_MAX: usize = 100_000;

/// How often an agent's last call is kept.
const SEEN_EVERY_MS: i64 = 10_000;

fn key(agent: &str, request: RequestId) -> (u64, u64) {
    (signature::text(agent).0, request.0)
}

fn add(sum: &mut SpendSum, more: &SpendSum) {
    sum.requests += more.requests;
    sum.input_tokens += more.input_tokens;
    sum.output_tokens += more.output_tokens;
    sum.cache_read_tokens += more.cache_read_tokens;
    sum.cache_write_tokens += more.cache_write_tokens;
    sum.reasoning_tokens += more.reasoning_tokens;
    sum.usd.0 = sum.usd.0.saturating_add(more.usd.0);
    sum.unpriced += more.unpriced;
}

/// One record of an agent.
pub(super) struct Told<'a> {
    pub(super) agent: &'a str,
    pub(super) now: Now,
    pub(super) event: &'a Event,
    pub(super) decision: &'a Decision,
}

impl Told<'_> {
    /// Somebody was stopped, or steered: it must be on the disk before long.
    pub(super) fn is_urgent(&self) -> bool {
        let stops = |effect: &Effect| matches!(effect, Effect::Deactivated { .. } | Effect::Paused { .. });
        self.decision.effects.iter().any(stops) || steered(&self.event.what).is_some()
    }
}

/// What is remembered from record to record.
#[derive(Default)]
pub(super) struct Rows {
    /// By the agent's hash and the request's number: no name is copied for it.
    asked: BTreeMap<(u64, u64), Asked>,
    /// When an agent's last call was last kept.
    seen: BTreeMap<Name, i64>,
    standings: BTreeMap<Name, Standing>,
    /// The guard that last refused an agent: told once, not with each request.
    refused_by: BTreeMap<Name, Guard>,
}

#[derive(Clone, Default)]
struct Asked {
    model: Name,
    unpriced: bool,
}

impl Rows {
    /// What follows from a record of an agent.
    pub(super) fn agent(&mut self, seq: u64, told: &Told<'_>, out: &mut JournalBatch) {
        self.spend(told, out);
        self.refusals(seq, told, out);
        if let Some((event_type, detail)) = steered(&told.event.what) {
            out.events.push(event(seq, told, event_type, detail));
        }
        for effect in &told.decision.effects {
            if let Some((event_type, detail)) = happened(effect, told) {
                out.events.push(event(seq, told, event_type, detail));
            }
            self.cases(seq, effect, told, out);
        }
        self.standing(told, out);
    }

    /// What follows from a record of the system.
    pub(super) fn system(
        &mut self,
        seq: u64,
        now: Now,
        what: &SystemEvent,
        decision: &SystemDecision,
        out: &mut JournalBatch,
    ) {
        let (event_type, by) = match what {
            SystemEvent::Started { .. } => ("started", None),
            SystemEvent::KillRequested { by, .. } => ("system_kill", Some(by)),
            SystemEvent::RestartRequested { by, .. } => ("system_restart", Some(by)),
            SystemEvent::ClearRequested { by, .. } => ("system_clear", Some(by)),
            SystemEvent::AccessChanged { by, .. } => ("access_changed", Some(by)),
            SystemEvent::ConfigurationRead { by, applied: true, .. } => ("configuration_read", Some(by)),
            SystemEvent::ConfigurationRead { by, .. } => ("configuration_refused", Some(by)),
            SystemEvent::Checkpointed { .. } => return,
        };
        let reason = if let SystemEvent::KillRequested { reason, .. } = what { Some(reason) } else { None };
        let detail =
            json!({ "by": by, "reason": reason, "outcome": decision.outcome, "gate": decision.gate });
        let detail = if let SystemEvent::AccessChanged { by, what } = what {
            json!({ "by": by, "what": what })
        } else {
            detail
        };
        out.events.push(NewEvent {
            seq,
            wall: now.wall,
            agent: None,
            event_type: event_type.into(),
            detail: detail.to_string(),
        });
    }

    fn refusals(&mut self, seq: u64, told: &Told<'_>, out: &mut JournalBatch) {
        let Some(by) = told.decision.refused_by() else {
            if told.decision.outcome == estop_core::decision::Outcome::Allow {
                self.refused_by.remove(told.agent);
            }
            return;
        };
        if self.refused_by.insert(told.agent.into(), by) == Some(by) {
            return;
        }
        let detail = json!({ "guard": by.name(), "reason": told.decision.reason() });
        out.events.push(event(seq, told, "refused", detail));
    }

    fn cases(&self, seq: u64, effect: &Effect, told: &Told<'_>, out: &mut JournalBatch) {
        let id: Name = format!("{}-{seq}", told.agent).into();
        let (agent, run) = (Name::from(told.agent), told.event.run.clone());
        match effect {
            Effect::Deactivated { cause } => out.incidents.push(Incident {
                id,
                agent,
                run,
                seq,
                kind: cause.name().into(),
                opened_at: told.now.wall,
                status: CaseStatus::Open,
                resolution: None,
                evidence: stopped(*cause, told).to_string(),
                summary: told.decision.reason(),
                version: 0,
            }),
            Effect::RunEscalated { run, used, .. } => out.escalations.push(Escalation {
                id,
                agent,
                run: run.clone(),
                reason: format!("{} at {}/{}", used.limit.text(), used.current, used.max),
                opened_at: told.now.wall,
                status: CaseStatus::Open,
                owner: None,
                notes: String::new(),
                resolved_at: None,
                resolved_by: None,
                version: 0,
            }),
            Effect::AbortInFlight
            | Effect::Paused { .. }
            | Effect::LoopEvidence(_)
            | Effect::WouldHaveStopped { .. }
            | Effect::RunTripped { .. }
            | Effect::CutStream { .. }
            | Effect::BudgetWarned(_)
            | Effect::ReservationExpired { .. }
            | Effect::PressButton => {}
        }
    }

    fn standing(&mut self, told: &Told<'_>, out: &mut JournalBatch) {
        let before = self.standings.get(told.agent).copied().unwrap_or_default();
        let since = told.now.mono;
        let is_off = matches!(before, Standing::Inactive { .. });
        let what = &told.event.what;
        let is_back = matches!(what, What::AgentActivated { .. })
            || (matches!(what, What::AgentResumed { .. }) && !is_off);
        let mut after = if is_back {
            Some(Standing::Active)
        } else if matches!(what, What::AgentDeactivated { .. }) && !is_off {
            Some(Standing::Inactive { by: DeactivatedBy::Manual, since })
        } else if matches!(what, What::AgentPaused { .. }) && before == Standing::Active {
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
            self.standings.insert(told.agent.into(), standing);
            out.standings.push(StandingChange { agent: told.agent.into(), standing, at: told.now.wall });
        }
    }

    /// What is known of agents before this process.
    pub(super) fn know(&mut self, agent: Name, standing: Standing) {
        self.standings.insert(agent, standing);
    }

    fn spend(&mut self, told: &Told<'_>, out: &mut JournalBatch) {
        if let What::RequestReceived(received) = &told.event.what {
            self.seen(told, out);
            if told.decision.is_allowed() && self.asked.len() < ASKED_MAX {
                let model = received.model.clone().unwrap_or_default();
                let asked = Asked { model, unpriced: received.estimate.unpriced };
                self.asked.insert(key(told.agent, received.request), asked);
            }
        } else if let What::ResponseCompleted(done) = &told.event.what {
            self.spent(told, done.request, done.usage, out);
        } else if let What::StreamAborted(cut) = &told.event.what {
            self.spent(told, cut.request, cut.usage, out);
        }
    }

    fn spent(&mut self, told: &Told<'_>, request: RequestId, usage: Usage, out: &mut JournalBatch) {
        let asked = self.asked.remove(&key(told.agent, request)).unwrap_or_default();
        // Sums are by the day of UTC; what a budget counts has its own midnight.
        let day = Zone::default().local(told.now.wall).day;
        let sum = SpendSum {
            requests: 1,
            input_tokens: usage.input_tokens.into(),
            output_tokens: usage.output_tokens.into(),
            usd: usage.usd,
            unpriced: asked.unpriced.into(),
            ..SpendSum::default()
        };
        let run = told.event.run.as_deref().unwrap_or_default();
        let same = |spend: &&mut Spend| {
            *spend.agent == *told.agent
                && spend.model == asked.model
                && *spend.run == *run
                && spend.day == day
        };
        if let Some(spend) = out.spend.iter_mut().find(same) {
            add(&mut spend.sum, &sum);
            return;
        }
        let (agent, run) = (told.agent.into(), run.into());
        out.spend.push(Spend { day, agent, run, model: asked.model, sum, ..Spend::default() });
    }

    /// An agent's last call is kept now and then, not with each.
    fn seen(&mut self, told: &Told<'_>, out: &mut JournalBatch) {
        let at = told.now.wall;
        match self.seen.get_mut(told.agent) {
            Some(last) if (*last..*last + SEEN_EVERY_MS).contains(&at) => return,
            Some(last) => *last = at,
            None => drop(self.seen.insert(told.agent.into(), at)),
        }
        out.seen.push(AgentSeen { agent: told.agent.into(), at });
    }
}

/// Who brought the system's state about, and why.
pub(super) fn stored_system(
    now: Now,
    event: &SystemEvent,
    decision: &SystemDecision,
) -> Option<StoredSystem> {
    let (by, reason) = match event {
        SystemEvent::KillRequested { by, reason, .. } => (by, Some(*reason)),
        SystemEvent::RestartRequested { by, .. } | SystemEvent::ClearRequested { by, .. } => (by, None),
        SystemEvent::Started { .. }
        | SystemEvent::ConfigurationRead { .. }
        | SystemEvent::AccessChanged { .. }
        | SystemEvent::Checkpointed { .. } => return None,
    };
    // A second kill changes nothing but the epoch: whoever clears must have seen it.
    let holds = matches!(decision.outcome, SystemOutcome::Applied | SystemOutcome::AlreadySo);
    holds.then(|| StoredSystem {
        gate: decision.gate,
        reason,
        note: None,
        by: by.clone(),
        source: by.clone(),
        since: now.wall,
        metadata: None,
    })
}

/// What people and supervisors did.
fn steered(what: &What) -> Option<(&'static str, Value)> {
    match what {
        What::AgentActivated { by } => Some(("activated", json!({ "by": by }))),
        What::AgentDeactivated { by } => Some(("deactivated", json!({ "by": by }))),
        What::AgentPaused { by } => Some(("paused", json!({ "by": by }))),
        What::AgentResumed { by } => Some(("resumed", json!({ "by": by }))),
        What::PolicyChanged { by, .. } => Some(("policy_changed", json!({ "by": by }))),
        What::RunStarted { attended } => Some(("run_started", json!({ "attended": attended }))),
        What::RunSlept => Some(("run_slept", json!({}))),
        What::RunWoke => Some(("run_woke", json!({}))),
        What::RunCompleted => Some(("run_completed", json!({}))),
        What::RunExtended { by } => Some(("run_extended", json!({ "by": by }))),
        What::Restarted { away_ms } => Some(("restarted", json!({ "away_ms": away_ms }))),
        What::RequestReceived(_)
        | What::ResponseCompleted(_)
        | What::StreamProgressed(_)
        | What::StreamAborted(_)
        | What::ChantDetected(_)
        | What::ToolRequested(_)
        | What::ToolFinished(_)
        | What::PromptSubmitted
        | What::MessageIn { .. }
        | What::MessageOut { .. }
        | What::Tick => None,
    }
}

/// What guards did.
fn happened(effect: &Effect, told: &Told<'_>) -> Option<(&'static str, Value)> {
    match effect {
        Effect::Deactivated { cause } => Some(("kill_switch", stopped(*cause, told))),
        Effect::Paused { cause } => Some(("paused", json!({ "cause": cause.name() }))),
        Effect::WouldHaveStopped { guard } => Some(("would_have_stopped", json!({ "guard": guard.name() }))),
        Effect::RunTripped { used, .. } => Some(("run_tripped", json!({ "limit": used }))),
        Effect::RunEscalated { used, attended, .. } => {
            Some(("run_escalated", json!({ "limit": used, "attended": attended })))
        }
        Effect::BudgetWarned(warning) => Some(("budget_warning", json!(warning))),
        Effect::ReservationExpired { request } => {
            Some(("reservation_expired", json!({ "request": request })))
        }
        Effect::PressButton => Some(("watchdog", json!({ "reason": told.decision.reason() }))),
        Effect::AbortInFlight | Effect::LoopEvidence(_) | Effect::CutStream { .. } => None,
    }
}

/// Why an agent was switched off, with the evidence (LD-3).
fn stopped(cause: Cause, told: &Told<'_>) -> Value {
    let mut detail = json!({ "cause": cause.name(), "reason": told.decision.reason() });
    if let Some(Finding::Loop(loops)) =
        told.decision.verdicts.get(Guard::Loop).map(|verdict| &verdict.finding)
    {
        let tenths = |value: u32| f64::from(value) / 10.0;
        detail["score"] = json!(tenths(loops.score));
        detail["similar_prompts"] = json!(loops.prompts);
        detail["similar_responses"] = json!(loops.responses);
        detail["repeated_tool_calls"] = json!(loops.calls);
        detail["threshold"] = json!(tenths(loops.max.into()));
        detail["window"] = json!(loops.window);
        detail["repetition"] = json!(loops.repetition);
    }
    let evidence = told.decision.effects.iter().find_map(|effect| {
        if let Effect::LoopEvidence(matched) = effect { Some(json!(matched)) } else { None }
    });
    detail["evidence"] = evidence.unwrap_or_else(|| json!([]));
    detail
}

fn event(seq: u64, told: &Told<'_>, event_type: &str, mut detail: Value) -> NewEvent {
    if let Some(run) = &told.event.run {
        detail["run"] = json!(run);
    }
    NewEvent {
        seq,
        wall: told.now.wall,
        agent: Some(told.agent.into()),
        event_type: event_type.into(),
        detail: detail.to_string(),
    }
}
