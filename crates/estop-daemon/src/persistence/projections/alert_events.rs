//! What people may have to be told, from the events of records (AL-1): the same while it happens and when it is read back
//! after a crash, with the same ids.

use estop_core::guards::breaker::LimitUse;
use estop_core::ids::Name;
use estop_core::operator::ADMIN_TOKEN_BY_OWNER;
use estop_core::system::proof_test::CANARY;
use estop_notify::{AlertEvent, AlertType, BudgetSeen, Cost, Detail, EscalationSeen, Phase};
use estop_store::{
    Escalation, EventFilter, EventKey, Journal, JournalBatch, NewEvent, StoreError, StoredEvent,
};
use serde_json::{Value, json};

use super::context::Context;
use crate::alerting::button;

/// Events that are read at once, the newest first.
const PAGE: usize = 1_000;
/// Events of a killed process that are looked through. Whoever left more untold was in a storm, of which the newest count.
const MISSED_MAX: usize = 100_000;

/// What is known beside the events.
trait AlertContext {
    /// What an agent and its run cost.
    fn cost(&self, agent: &str, run: Option<&str>) -> Cost;
    /// An escalation.
    fn escalation(&self, id: &str) -> Option<Escalation>;
}

/// What happened in a batch that is about to be stored.
pub(in crate::persistence) fn of_batch(batch: &JournalBatch, context: &Context) -> Vec<AlertEvent> {
    if batch.events.is_empty() { Vec::new() } else { of(&batch.events, &Fresh { batch, context }) }
}

/// What happened after a record, as it is stored.
pub(in crate::persistence) fn since(
    store: &dyn Journal,
    after: u64,
    context: &Context,
) -> Result<Vec<AlertEvent>, StoreError> {
    let mut events: Vec<NewEvent> = Vec::new();
    let mut before: Option<EventKey> = None;
    while events.len() < MISSED_MAX {
        let filter = EventFilter { before, ..EventFilter::default() };
        let page = store.events(&filter, PAGE)?;
        let is_last = page.len() < PAGE;
        let read = events.len();
        before = page.last().map(|oldest| oldest.key);
        let newer =
            page.into_iter().map(|StoredEvent { event, .. }| event).take_while(|event| event.seq > after);
        events.extend(newer);
        if is_last || events.len() < read + PAGE {
            break;
        }
    }
    events.reverse();
    Ok(of(&events, &Fresh { batch: &JournalBatch::default(), context }))
}

/// The event of the journal's end: its digest covers all there was up to this record.
pub(in crate::persistence) fn checkpoint(seq: u64, digest: &str, wall: i64) -> NewEvent {
    let detail = json!({ "last_seq": seq, "digest": digest }).to_string();
    NewEvent { seq, wall, agent: None, event_type: "checkpoint".into(), detail }
}

/// The batch itself, and what is known beside it.
struct Fresh<'a> {
    batch: &'a JournalBatch,
    context: &'a Context,
}

impl AlertContext for Fresh<'_> {
    fn cost(&self, agent: &str, run: Option<&str>) -> Cost {
        let of_run = |run: &str| {
            let id = format!("{agent}:{run}");
            let here = self.batch.runs.iter().find(|row| *row.id == id).map(|row| row.spent);
            here.or_else(|| self.context.run(&id).map(|row| row.spent)).filter(|spent| spent.0 > 0)
        };
        Cost { run: run.and_then(of_run), today: self.context.spent_today(agent) }
    }

    fn escalation(&self, id: &str) -> Option<Escalation> {
        let here = self.batch.escalations.iter().find(|kept| *kept.id == *id).cloned();
        here.or_else(|| self.context.escalation(id))
    }
}

/// What happened in these events, which are in order and have every event of their records.
fn of<'e>(events: impl IntoIterator<Item = &'e NewEvent>, beside: &dyn AlertContext) -> Vec<AlertEvent> {
    let mut out = Vec::new();
    let (mut seq, mut nth, mut escalations) = (0, 0, 0);
    for event in events {
        if event.seq != seq {
            (seq, nth, escalations) = (event.seq, 0, 0);
        }
        if &*event.event_type == "run_escalated" {
            escalations += 1;
        }
        out.extend(Seen::of(event, nth).and_then(|seen| seen.alert_event(escalations, beside)));
        nth += 1;
    }
    out
}

/// An event that may be worth telling.
struct Seen<'e> {
    event: &'e NewEvent,
    detail: Value,
    nth: u32,
}

impl<'e> Seen<'e> {
    /// Most events are nobody's business at night; the canary's never are.
    fn of(event: &'e NewEvent, nth: u32) -> Option<Seen<'e>> {
        const TOLD: [&str; 17] = [
            "kill_switch",
            "watchdog",
            "paused",
            "run_escalated",
            "budget_warning",
            "budget_refused",
            "error_rate",
            "error_rate_over",
            "activated",
            "resumed",
            "run_extended",
            "system_kill",
            "system_clear",
            "prooftest_failed",
            "prooftest_passed",
            "access_changed",
            "checkpoint",
        ];
        let is_told = TOLD.contains(&&*event.event_type) && event.agent.as_deref() != Some(CANARY);
        is_told.then(|| Seen { event, detail: serde_json::from_str(&event.detail).unwrap_or_default(), nth })
    }

    fn alert_event(&self, escalations: u32, beside: &dyn AlertContext) -> Option<AlertEvent> {
        let cleared = |alert| Some(AlertEvent { phase: Phase::Cleared, ..self.plain(alert) });
        match &*self.event.event_type {
            "kill_switch" if self.text("cause") == "watchdog" => {
                Some(self.stopped(AlertType::Watchdog, "", beside))
            }
            "kill_switch" => Some(self.stopped(AlertType::KillSwitch, self.cause(), beside)),
            "watchdog" => Some(self.stopped(AlertType::Watchdog, "", beside)),
            "paused" if self.detail.get("cause").is_some() => {
                Some(self.stopped(AlertType::Health, self.cause(), beside))
            }
            "run_escalated" => Some(self.escalated(escalations, beside)),
            "budget_warning" => self.budget(),
            "budget_refused" => Some(self.refused()),
            "error_rate" => {
                Some(AlertEvent { evidence: self.failures(), ..self.plain(AlertType::ErrorRate) })
            }
            "error_rate_over" => cleared(AlertType::ErrorRate),
            "activated" => cleared(AlertType::KillSwitch),
            "resumed" => cleared(AlertType::Health),
            "run_extended" => cleared(AlertType::CircuitBreaker),
            "system_kill" | "system_clear" => button::told(self.event, &self.detail),
            "prooftest_failed" => Some(AlertEvent {
                cause: "the last one FAILED".to_owned(),
                evidence: "A proof test failed: the stop may not work. `estop prooftest` says which step."
                    .to_owned(),
                ..self.plain(AlertType::ProoftestOverdue)
            }),
            "prooftest_passed" => cleared(AlertType::ProoftestOverdue),
            "access_changed" if self.text("what").starts_with(ADMIN_TOKEN_BY_OWNER) => Some(AlertEvent {
                evidence: self.text("what").to_owned(),
                ..self.plain(AlertType::AdminToken)
            }),
            "checkpoint" => self.checkpoint(),
            _ => None,
        }
    }

    fn plain(&self, alert: AlertType) -> AlertEvent {
        AlertEvent {
            id: format!("{}.{}", self.event.seq, self.nth).into(),
            seq: self.event.seq,
            at: self.event.wall,
            alert,
            phase: Phase::Raised,
            agent: self.event.agent.clone(),
            run: self.detail["run"].as_str().map(Name::from),
            cause: String::new(),
            evidence: String::new(),
            by: self.detail["by"].as_str().map(Name::from),
            incident: None,
            cost: Cost::default(),
            detail: Detail::None,
        }
    }

    /// Which guard stopped it; of health, what took most of it.
    fn cause(&self) -> &str {
        self.detail["harm"].as_str().unwrap_or_else(|| self.text("cause"))
    }

    fn text(&self, key: &str) -> &str {
        self.detail[key].as_str().unwrap_or_default()
    }

    /// A guard stopped or paused an agent.
    fn stopped(&self, alert: AlertType, cause: &str, beside: &dyn AlertContext) -> AlertEvent {
        let plain = self.plain(alert);
        let cost = beside.cost(plain.agent.as_deref().unwrap_or_default(), plain.run.as_deref());
        let (cause, evidence) = (cause.to_owned(), self.text("reason").to_owned());
        // A watchdog that presses the button opens the button's incident, not the agent's.
        let opens = matches!(&*self.event.event_type, "kill_switch" | "paused");
        let incident = plain.agent.as_deref().filter(|_| opens);
        let incident = incident.map(|agent| format!("{agent}-{}", self.event.seq).into());
        AlertEvent { cause, evidence, cost, incident, ..plain }
    }

    fn escalated(&self, escalations: u32, beside: &dyn AlertContext) -> AlertEvent {
        let plain = self.plain(AlertType::CircuitBreaker);
        let agent = plain.agent.as_deref().unwrap_or_default();
        let more = if escalations > 1 { format!("-{escalations}") } else { String::new() };
        let id = Name::from(format!("{agent}-{}{more}", self.event.seq));
        let Ok(limit) = serde_json::from_value::<LimitUse>(self.detail["limit"].clone()) else {
            return plain;
        };
        let kept = beside.escalation(&id);
        let context: Value =
            kept.as_ref().and_then(|kept| serde_json::from_str(&kept.facts).ok()).unwrap_or_default();
        let fact = |key: &str| context[key].as_str().map(Name::from);
        let seen = EscalationSeen {
            id,
            issue: fact("issue"),
            role: fact("role"),
            limit,
            summary: kept.and_then(|kept| kept.summary),
            branch: fact("branch"),
            session: fact("session"),
            commit: fact("commit"),
        };
        let sits = if self.detail["attended"] == true { " A person sits at it." } else { "" };
        AlertEvent {
            cause: limit.limit.text().to_owned(),
            evidence: format!("{}: {} of {} used.{sits}", limit.limit.text(), limit.current, limit.max),
            cost: beside.cost(agent, plain.run.as_deref()),
            detail: Detail::Escalation(Box::new(seen)),
            ..plain
        }
    }

    fn budget(&self) -> Option<AlertEvent> {
        let account = self.text("account");
        let seen = BudgetSeen {
            percent: self.detail["percent"].as_u64().and_then(|percent| percent.try_into().ok())?,
            account: account.strip_prefix("fleet_").unwrap_or(account).into(),
            spent: self.detail["spent"].as_u64()?,
            cap: self.detail["cap"].as_u64()?,
        };
        let evidence = if self.event.agent.is_none() { "all agents together" } else { "" };
        let plain = self.plain(AlertType::Budget);
        // Who made all of them reach it is not to blame alone.
        let run = plain.run.clone().filter(|_| account.ends_with("_per_run"));
        Some(AlertEvent { run, evidence: evidence.to_owned(), detail: Detail::Budget(seen), ..plain })
    }

    /// A budget refused an agent's request.
    fn refused(&self) -> AlertEvent {
        let account = self.text("account");
        let plain = self.plain(AlertType::Budget);
        // A cap of all agents together refuses all of them: it is told once, of nobody alone.
        let agent = plain.agent.clone().filter(|_| !account.starts_with("fleet_"));
        let run = plain.run.clone().filter(|_| account.ends_with("_per_run"));
        let fit = self.detail["fit"].as_str().unwrap_or("over");
        let (cause, evidence) = (format!("{account} {fit}"), self.text("reason").to_owned());
        AlertEvent { agent, run, cause, evidence, ..plain }
    }

    fn failures(&self) -> String {
        let number = |key: &str| self.detail[key].as_u64().unwrap_or(0);
        let (failed, finished) = (number("failed"), number("finished"));
        format!("{failed} of {finished} requests of the last {} minutes failed", number("minutes"))
    }

    fn checkpoint(&self) -> Option<AlertEvent> {
        let last_seq = self.detail["last_seq"].as_u64()?;
        let digest = self.text("digest").to_owned();
        let detail = Detail::Checkpoint { last_seq, digest };
        Some(AlertEvent { detail, ..self.plain(AlertType::Checkpoint) })
    }
}

#[cfg(test)]
mod tests;
