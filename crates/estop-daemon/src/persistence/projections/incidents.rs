//! Cases that follow from a record: incidents of what was stopped, escalations with what a person needs to know (CB-8).

use estop_core::decision::Effect;
use estop_core::ids::Name;
use estop_store::{CaseStatus, Escalation, Incident, JournalBatch, Run};
use serde_json::{Value, json};

use super::context::Context;
use super::{AgentRecord, stopped};

/// Opens the cases of a record. `run_of` finds the row of a run.
pub(super) fn open<'a>(
    seq: u64,
    told: &AgentRecord<'_>,
    context: &Context,
    run_of: impl Fn(&str) -> Option<&'a Run>,
    out: &mut JournalBatch,
) {
    if told.decision.effects.is_empty() {
        return;
    }
    let agent = Name::from(told.agent);
    let mut escalations = 0;
    for effect in &told.decision.effects {
        if let Effect::Deactivated { cause } | Effect::Paused { cause } = effect {
            out.incidents.push(Incident {
                id: format!("{agent}-{seq}").into(),
                agent: agent.clone(),
                run: told.event.run.clone(),
                seq,
                kind: cause.name().into(),
                opened_at: told.now.wall,
                status: CaseStatus::Open,
                resolution: None,
                evidence: stopped(*cause, told).to_string(),
                summary: told.decision.why(*cause),
                version: 0,
            });
        } else if let Effect::RunEscalated { run, used, .. } = effect {
            escalations += 1;
            // Time may end several runs at once.
            let more = if escalations > 1 { format!("-{escalations}") } else { String::new() };
            let row = run.as_deref().and_then(&run_of);
            out.escalations.push(Escalation {
                id: format!("{agent}-{seq}{more}").into(),
                agent: agent.clone(),
                run: run.clone(),
                reason: used.reason(),
                opened_at: told.now.wall,
                status: CaseStatus::Open,
                owner: None,
                notes: String::new(),
                resolved_at: None,
                resolved_by: None,
                summary: context.words(told.agent, run.as_deref()),
                facts: known(told, effect, row, context).to_string(),
                version: 0,
            });
        }
    }
}

/// What is known of an escalated run: its limit, what it was for, where its work is, what it used.
fn known(told: &AgentRecord<'_>, effect: &Effect, row: Option<&Run>, context: &Context) -> Value {
    let Effect::RunEscalated { run, used, attended } = effect else { return json!({}) };
    let role = row.and_then(|row| row.role.clone()).or_else(|| context.role(told.agent));
    let mut known = json!({ "limit": used, "attended": attended, "role": role });
    if let Some(row) = row {
        // Whoever began it may not have known where it works.
        let place = context.place(told.agent, run.as_deref());
        known["issue"] = json!(row.issue);
        known["branch"] = json!(row.branch.clone().or(place.branch));
        known["session"] = json!(row.session.clone().or(place.session));
    }
    if let Some(view) = context.run_view(told.agent, run.as_deref()) {
        known["iterations"] = json!(view.iterations);
        known["tool_calls"] = json!(view.tool_calls);
        known["turns"] = json!(view.turns);
        known["active_ms"] = json!(view.active_ms);
    }
    known
}
