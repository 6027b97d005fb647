//! What follows from a record for the people who look: events, standings, incidents, escalations, runs, spend.

mod agent;
pub(super) mod alert_events;
mod context;
mod error_rate;
mod incidents;
mod models;
mod runs;
mod spend;
mod sums;

use std::collections::BTreeMap;

use estop_core::agent::standing::Cause;
use estop_core::budget::{Budget, BudgetFinding, PeriodSpend};
use estop_core::decision::{Decision, Effect, Finding, Guard, Outcome};
use estop_core::event::{Event, EventKind};
use estop_core::guards::watchdog::WINDOW_MS;
use estop_core::ids::Name;
use estop_core::run::RunView;
use estop_core::system::{CaseChange, CaseKind, SystemDecision, SystemEvent};
use estop_core::time::Now;
use estop_store::{EVENT_TYPES, JournalBatch, NewEvent};
use serde_json::{Value, json};

use super::open_requests::OpenRequest;
pub(super) use agent::AgentProjection;
pub(super) use context::Context;
pub(super) use error_rate::heard_failing;
use runs::{RunProjection, Whose};
use spend::{AgentSpend, Entry, OpenSpend, Spend, SpendEntry};

/// One record of an agent.
pub(super) struct AgentRecord<'a> {
    pub(super) agent: &'a str,
    pub(super) now: Now,
    pub(super) event: &'a Event,
    pub(super) decision: &'a Decision,
}

impl AgentRecord<'_> {
    /// Somebody was stopped, or steered: it must be on the disk before long.
    pub(super) fn is_urgent(&self) -> bool {
        let stops = |effect: &Effect| matches!(effect, Effect::Deactivated { .. } | Effect::Paused { .. });
        self.decision.effects.iter().any(stops) || self.steered().is_some()
    }

    /// What people and supervisors did; a step that was refused did nothing.
    fn steered(&self) -> Option<(&'static str, Value)> {
        match self.decision.outcome {
            Outcome::Refuse { .. } => None,
            Outcome::Allow | Outcome::Noted => steered(&self.event.what),
        }
    }
}

/// What is remembered from record to record.
#[derive(Default)]
pub(super) struct Projections {
    spend: Spend,
    runs: RunProjection,
}

impl Projections {
    /// What follows from a record of an agent.
    pub(super) fn agent(
        &mut self,
        known: &mut AgentProjection,
        seq: u64,
        told: &AgentRecord<'_>,
        context: &Context,
        out: &mut JournalBatch,
    ) {
        self.runs.agent(told, context);
        if is_call(&told.event.what) {
            known.seen(told, out);
        }
        self.spend(&mut known.page, seq, told, context, out);
        known.refusals(seq, told, out);
        let steered = told.steered();
        let is_steered = steered.is_some();
        if let Some((event_type, detail)) = steered {
            out.events.push(event(seq, told, event_type, detail));
        }
        for effect in &told.decision.effects {
            if let Some((event_type, detail)) = happened(effect, told) {
                out.events.push(event(seq, told, event_type, detail));
            }
        }
        if let Some((event_type, detail)) = known.failures.note(told) {
            out.events.push(event(seq, told, event_type, detail));
        }
        incidents::open(seq, told, context, |run| self.runs.row(told.agent, run), out);
        if is_steered || !told.decision.effects.is_empty() {
            known.standing(seq, told, out);
        }
    }

    /// How many requests to models are in progress, by [`AgentProjection::key`].
    pub(super) fn in_progress(&self) -> BTreeMap<u64, usize> {
        self.spend.in_progress()
    }

    /// What follows from a record of the system. `in_progress`: requests to models, by agent.
    pub(super) fn system(
        &mut self,
        seq: u64,
        now: Now,
        (what, in_progress): (&SystemEvent, &[(Name, usize)]),
        decision: &SystemDecision,
        context: &Context,
        out: &mut JournalBatch,
    ) {
        incidents::system(seq, now.wall, (what, in_progress), decision, out);
        let (event_type, by) = match what {
            SystemEvent::Started { .. } => ("started", None),
            SystemEvent::KillRequested { by, .. } => ("system_kill", Some(by)),
            SystemEvent::RestartRequested { by, .. } => ("system_restart", Some(by)),
            SystemEvent::ClearRequested { by, .. } => ("system_clear", Some(by)),
            SystemEvent::AccessChanged { by, .. } => ("access_changed", Some(by)),
            SystemEvent::PresetChanged { by, .. } => ("preset_changed", Some(by)),
            SystemEvent::FleetBudgetRenewed { by, spent } => {
                self.spend.renew_fleet(now, *spent, context);
                ("budget_renewed", Some(by))
            }
            SystemEvent::ConfigurationRead { by, applied: true, .. } => ("configuration_read", Some(by)),
            SystemEvent::ConfigurationRead { by, .. } => ("configuration_refused", Some(by)),
            SystemEvent::TriggerChanged { trigger, working: true, .. } => ("trigger_works", Some(trigger)),
            SystemEvent::TriggerChanged { trigger, .. } => ("trigger_lost", Some(trigger)),
            SystemEvent::PartChanged { part, running: true, .. } => ("part_recovered", Some(part)),
            SystemEvent::PartChanged { part, .. } => ("part_stuck", Some(part)),
            SystemEvent::ProofTested { by, passed: true, .. } => ("prooftest_passed", Some(by)),
            SystemEvent::ProofTested { by, .. } => ("prooftest_failed", Some(by)),
            SystemEvent::Pruned { by, .. } => ("pruned", Some(by)),
            SystemEvent::CaseChanged { by, .. } => ("case_changed", Some(by)),
            // Whoever changed it tells people by another record.
            SystemEvent::SettingsChanged { .. } => return,
        };
        let detail = match what {
            SystemEvent::KillRequested { reason, source, note, metadata, .. } => json!({
                "by": by, "reason": reason, "source": source, "note": note, "metadata": as_json(metadata.as_deref()),
                "outcome": decision.outcome, "gate": decision.gate,
            }),
            SystemEvent::RestartRequested { note, .. } | SystemEvent::ClearRequested { note, .. } => {
                json!({ "by": by, "note": note, "outcome": decision.outcome, "gate": decision.gate })
            }
            SystemEvent::AccessChanged { what, .. } => json!({ "by": by, "what": what }),
            SystemEvent::CaseChanged { by, change } => changed(by, change),
            SystemEvent::PresetChanged { preset, .. } => json!({ "by": by, "preset": preset }),
            SystemEvent::FleetBudgetRenewed { by, spent } => {
                let mut detail = renewed(by, *spent);
                detail["scope"] = json!("fleet");
                detail
            }
            SystemEvent::TriggerChanged { trigger, what, .. } => json!({ "trigger": trigger, "what": what }),
            SystemEvent::PartChanged { part, silent_ms, .. } => {
                json!({ "part": part, "silent_ms": silent_ms })
            }
            SystemEvent::ProofTested { took_us, .. } => json!({ "by": by, "took_us": took_us }),
            SystemEvent::Pruned { to, .. } => json!({ "by": by, "to": to }),
            SystemEvent::Started { .. }
            | SystemEvent::ConfigurationRead { .. }
            | SystemEvent::SettingsChanged { .. } => {
                json!({ "by": by, "outcome": decision.outcome, "gate": decision.gate })
            }
        };
        debug_assert!(EVENT_TYPES.contains(&event_type), "{event_type} is missing in EVENT_TYPES");
        out.events.push(NewEvent {
            seq,
            wall: now.wall,
            agent: None,
            event_type: event_type.into(),
            detail: detail.to_string(),
        });
    }

    /// Counts what the record settles. What time gave up comes before what the event says.
    fn spend(
        &mut self,
        page: &mut AgentSpend,
        seq: u64,
        told: &AgentRecord<'_>,
        context: &Context,
        out: &mut JournalBatch,
    ) {
        let entry = Entry { agent: told.agent, now: told.now, seq };
        let mut booked: Vec<SpendEntry> = Vec::new();
        for effect in &told.decision.effects {
            if let Effect::ReservationExpired { request } = effect {
                booked.extend(self.spend.expire(page, entry, *request, context, out));
            }
        }
        if let EventKind::RequestReceived(received) = &told.event.what {
            if told.decision.is_allowed() {
                let whose = Whose { agent: told.agent, wall: told.now.wall };
                let tags = self.runs.tags(whose, told.event.run.as_ref(), received.tags.as_deref(), context);
                let asked = self.spend.remember(page, told.event.run.as_ref(), received, tags);
                self.spend.ask(page, received.request, asked);
            }
        } else if let EventKind::StreamProgressed(progress) = &told.event.what {
            self.spend.progress(page, progress.request, progress.usage);
        } else if let EventKind::ResponseCompleted(done) = &told.event.what {
            booked.extend(self.spend.settle(page, entry, done.request, done.usage, context, out));
        } else if let EventKind::StreamAborted(cut) = &told.event.what {
            booked.extend(self.spend.settle(page, entry, cut.request, cut.usage, context, out));
        }
        for SpendEntry { run, used } in booked {
            self.runs.spent(told, &run, used, context);
        }
    }

    /// A request that was under way when the store was written last.
    pub(super) fn know_open(&mut self, known: &mut AgentProjection, open: OpenRequest, context: &Context) {
        let page = &mut known.page;
        let OpenRequest { agent, request, held, asked } = open;
        let mut remembered = asked.map_or_else(OpenSpend::default, |(run, wall, received)| {
            let whose = Whose { agent: &agent, wall };
            let tags = self.runs.tags_of_earlier(whose, run.as_ref(), received.tags.as_deref(), context);
            self.spend.remember(page, run.as_ref(), &received, tags)
        });
        remembered.hold(held, 0);
        self.spend.ask(page, request, remembered);
    }

    /// The account of all agents together as it was left.
    pub(super) fn open_fleet(&mut self, account: Budget) {
        self.spend.open(account);
    }

    /// The account of all agents together.
    pub(super) fn fleet(&self) -> &Budget {
        self.spend.fleet()
    }

    /// What the core counts of an agent's runs.
    pub(super) fn count_runs(&mut self, agent: &str, views: &[RunView]) {
        self.runs.count(agent, views);
    }

    /// Adds what is kept once for the whole batch.
    pub(super) fn finish(&mut self, out: &mut JournalBatch) {
        self.spend.finish(out);
        self.runs.finish(out);
    }
}

/// Whether the agent itself did something: it asked a model, used a tool, or was talked to. Some come by hooks alone.
fn is_call(what: &EventKind) -> bool {
    matches!(
        what,
        EventKind::RequestReceived(_)
            | EventKind::ToolRequested(_)
            | EventKind::ToolFinished(_)
            | EventKind::PromptSubmitted
            | EventKind::MessageIn { .. }
            | EventKind::MessageOut { .. }
    )
}

/// What people and supervisors did.
fn steered(what: &EventKind) -> Option<(&'static str, Value)> {
    match what {
        EventKind::AgentActivated { by } => Some(("activated", json!({ "by": by }))),
        EventKind::AgentDeactivated { by } => Some(("deactivated", json!({ "by": by }))),
        EventKind::AgentPaused { by } => Some(("paused", json!({ "by": by }))),
        EventKind::AgentResumed { by } => Some(("resumed", json!({ "by": by }))),
        EventKind::PolicyChanged { by, .. } => Some(("policy_changed", json!({ "by": by }))),
        EventKind::RunStarted { attended, .. } => Some(("run_started", json!({ "attended": attended }))),
        EventKind::RunSlept => Some(("run_slept", json!({}))),
        EventKind::RunWoke => Some(("run_woke", json!({}))),
        EventKind::RunCompleted => Some(("run_completed", json!({}))),
        EventKind::RunExtended { by } => Some(("run_extended", json!({ "by": by }))),
        EventKind::GuardSnoozed { by, guard, for_ms, until, note } => Some((
            "guard_snoozed",
            json!({ "by": by, "guard": guard.name(), "for_ms": for_ms, "until": until, "note": note }),
        )),
        EventKind::GuardWoken { by, guard } => {
            Some(("guard_woken", json!({ "by": by, "guard": guard.name() })))
        }
        EventKind::BudgetRenewed { by, spent } => Some(("budget_renewed", renewed(by, *spent))),
        EventKind::Restarted { away_ms } => Some(("restarted", json!({ "away_ms": away_ms }))),
        EventKind::RequestReceived(_)
        | EventKind::ResponseCompleted(_)
        | EventKind::StreamProgressed(_)
        | EventKind::StreamAborted(_)
        | EventKind::ChantDetected(_)
        | EventKind::ToolRequested(_)
        | EventKind::ToolFinished(_)
        | EventKind::PromptSubmitted
        | EventKind::MessageIn { .. }
        | EventKind::MessageOut { .. }
        | EventKind::Tick => None,
    }
}

/// What a person did with an incident or an escalation.
fn changed(by: &str, change: &CaseChange) -> Value {
    let CaseChange { kind, id, step, owner, note } = change;
    let what = match kind {
        CaseKind::Incident => "incident",
        CaseKind::Escalation => "escalation",
    };
    let to = owner.as_deref().map(|owner| format!(" to {owner}")).unwrap_or_default();
    let text = format!("{what} {id} {}{to} by {by}", step.name());
    let text = note.as_deref().map_or(text.clone(), |note| format!("{text}: {note}"));
    json!({ "by": by, "case": kind, "id": id, "step": step, "owner": owner, "note": note, "text": text })
}

/// What a budget begins the present day and month with.
fn renewed(by: &str, spent: PeriodSpend) -> Value {
    json!({ "by": by, "spent_today": spent.today, "spent_this_month": spent.this_month })
}

/// What guards did.
fn happened(effect: &Effect, told: &AgentRecord<'_>) -> Option<(&'static str, Value)> {
    match effect {
        Effect::Deactivated { cause } => Some(("kill_switch", stopped(*cause, told))),
        Effect::Paused { cause } => Some(("paused", paused(*cause, told))),
        Effect::WouldHaveStopped { guard, tool } => {
            let mut detail = json!({ "guard": guard.name() });
            if let Some(tool) = tool {
                detail["tool"] = json!(tool);
            }
            Some(("would_have_stopped", detail))
        }
        Effect::Nudged { tool, steps } => Some(("nudged", json!({ "tool": tool, "steps": steps }))),
        Effect::NudgeEnded { helped } => Some(("nudge_ended", json!({ "helped": helped }))),
        Effect::RunTripped { run, used } => Some(("run_tripped", json!({ "limit": used, "run": run }))),
        Effect::RunEscalated { run, used, attended } => {
            Some(("run_escalated", json!({ "limit": used, "attended": attended, "run": run })))
        }
        Effect::BudgetWarned(warning) => Some(("budget_warning", json!(warning))),
        Effect::BudgetRefused(finding) => Some(("budget_refused", refused(finding))),
        Effect::ReservationExpired { request } => {
            Some(("reservation_expired", json!({ "request": request })))
        }
        Effect::SnoozeEnded { guard } => Some(("snooze_ended", json!({ "guard": guard.name() }))),
        Effect::PressButton => {
            let mut detail = json!({ "reason": told.decision.reason() });
            add_runaway(told, &mut detail);
            Some(("watchdog", detail))
        }
        Effect::AbortInFlight
        | Effect::HealthFell(_)
        | Effect::LoopEvidence(_)
        | Effect::CutStream { .. } => None,
    }
}

/// Why a budget refused, in numbers and in words.
fn refused(finding: &BudgetFinding) -> Value {
    let mut detail = json!(finding);
    detail["reason"] = json!(finding.to_string());
    detail
}

/// Why an agent was paused, as its guard says it.
fn paused(cause: Cause, told: &AgentRecord<'_>) -> Value {
    let mut detail = json!({ "cause": cause.name(), "reason": told.decision.why(cause) });
    add_health(cause, told, &mut detail);
    detail
}

/// What took the health of an agent that was stopped or paused for it.
fn add_health(cause: Cause, told: &AgentRecord<'_>, detail: &mut Value) {
    if let Some(finding) = told.decision.health_fell().filter(|_| cause == Cause::Health) {
        detail["health"] = json!(finding);
        detail["harm"] = json!(finding.losses.worst());
    }
}

/// What the watchdog counted, in seed 5's words.
fn add_runaway(told: &AgentRecord<'_>, detail: &mut Value) {
    let finding = told.decision.verdicts.get(Guard::Watchdog).map(|verdict| &verdict.finding);
    if let Some(Finding::Watchdog(seen)) = finding {
        detail["metadata"] = json!({ "apiCallCount": seen.calls, "timeWindow": WINDOW_MS });
    }
}

/// Metadata comes as JSON; what is none stays the text it is.
fn as_json(metadata: Option<&str>) -> Value {
    metadata.map_or(Value::Null, |text| serde_json::from_str(text).unwrap_or_else(|_| text.into()))
}

/// Why an agent was switched off, with the evidence (LD-3).
fn stopped(cause: Cause, told: &AgentRecord<'_>) -> Value {
    let mut detail = json!({ "cause": cause.name(), "reason": told.decision.why(cause) });
    add_health(cause, told, &mut detail);
    if cause == Cause::Watchdog {
        add_runaway(told, &mut detail);
    }
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
        if let Some(stretch) = loops.stretch {
            detail["stretch"] = json!(stretch);
        }
        if let Some(other) = loops.other {
            detail["other_score"] =
                json!({ "counts": other.counts, "score": tenths(other.score), "is_loop": other.is_loop });
        }
    }
    let evidence = told.decision.evidence();
    if let Some(tool) = evidence.and_then(|evidence| evidence.tool.as_ref()) {
        detail["tool"] = json!(tool);
    }
    detail["evidence"] = evidence.map_or_else(|| json!([]), |evidence| json!(evidence.matched));
    detail
}

fn event(seq: u64, told: &AgentRecord<'_>, event_type: &str, mut detail: Value) -> NewEvent {
    // Time may bring about something for another run than the event's.
    if let (Some(run), None) = (&told.event.run, detail.get("run")) {
        detail["run"] = json!(run);
    }
    debug_assert!(EVENT_TYPES.contains(&event_type), "{event_type} is missing in EVENT_TYPES");
    NewEvent {
        seq,
        wall: told.now.wall,
        agent: Some(told.agent.into()),
        event_type: event_type.into(),
        detail: detail.to_string(),
    }
}
