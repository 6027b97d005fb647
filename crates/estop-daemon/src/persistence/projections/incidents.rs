//! Cases that follow from a record: incidents of what was stopped, escalations with what a person needs to know (CB-8).

use estop_core::decision::Effect;
use estop_core::ids::Name;
use estop_core::system::{
    Channel, Channels, SYSTEM, SystemDecision, SystemEvent, SystemOutcome, SystemState,
};
use estop_store::{CaseStatus, CaseUpdate, Escalation, Incident, JournalBatch, Run};
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
                resolved_at: None,
                history: Vec::new(),
                earlier: None,
                later: None,
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
                seq,
                opened_at: told.now.wall,
                status: CaseStatus::Open,
                owner: None,
                history: Vec::new(),
                resolved_at: None,
                resolved_by: None,
                summary: context.words(told.agent, run.as_deref()),
                facts: known(told, effect, row, context).to_string(),
                version: 0,
            });
        }
    }
}

/// Agents whose requests in progress a press of the button names.
const AGENTS_MAX: usize = 20;

/// Opens the incident of a button that somebody pressed, with the requests to models that were in progress; resolves it when
/// everything works again.
pub(super) fn system(
    seq: u64,
    wall: i64,
    (what, in_progress): (&SystemEvent, &[(Name, usize)]),
    decision: &SystemDecision,
    out: &mut JournalBatch,
) {
    if let SystemEvent::CaseChanged { by, change } = what {
        out.case_updates.push(CaseUpdate::by_person(seq, wall, by, change));
    }
    if decision.outcome != SystemOutcome::Applied {
        return;
    }
    if let SystemEvent::ClearRequested { by, .. } = what
        && decision.gate.shut.is_empty()
    {
        out.case_updates.push(CaseUpdate::cleared(seq, wall, by));
    }
    let (summary, evidence) = match what {
        SystemEvent::KillRequested { channels, reason, by, source, note, .. } => {
            let from = if source.is_empty() { String::new() } else { format!(" ({source})") };
            let why = note.as_deref().map(|note| format!(": {note}")).unwrap_or_default();
            let summary = format!("Emergency stop of {} by {by}{from}{why}", channels_text(*channels));
            let evidence = json!({
                "by": by, "reason": summary, "kill_reason": reason, "source": source, "note": note,
                "in_progress": ended(*channels, in_progress),
            });
            (summary, evidence)
        }
        // Pressed while nobody wrote a journal, by `estop kill` without a daemon for example.
        SystemEvent::Started { .. } if decision.gate.state == SystemState::Shutdown => {
            let summary = "Emergency stop of everything, found when estop started".to_owned();
            (summary.clone(), json!({ "reason": summary }))
        }
        SystemEvent::Started { .. }
        | SystemEvent::RestartRequested { .. }
        | SystemEvent::ClearRequested { .. }
        | SystemEvent::TriggerChanged { .. }
        | SystemEvent::PartChanged { .. }
        | SystemEvent::ProofTested { .. }
        | SystemEvent::ConfigurationRead { .. }
        | SystemEvent::PresetChanged { .. }
        | SystemEvent::FleetBudgetRenewed { .. }
        | SystemEvent::AccessChanged { .. }
        | SystemEvent::SettingsChanged { .. }
        | SystemEvent::CaseChanged { .. }
        | SystemEvent::Pruned { .. } => return,
    };
    out.incidents.push(Incident {
        // The epoch is known when people are told, which is before there is a record. No agent can be named so.
        id: format!("{SYSTEM}-{}", decision.gate.epoch).into(),
        agent: SYSTEM.into(),
        run: None,
        seq,
        kind: "emergency_stop".into(),
        opened_at: wall,
        status: CaseStatus::Open,
        resolution: None,
        resolved_at: None,
        history: Vec::new(),
        earlier: None,
        later: None,
        evidence: evidence.to_string(),
        summary,
        version: 0,
    });
}

/// The requests to models that a press ends, those agents first that have most.
fn ended(channels: Channels, in_progress: &[(Name, usize)]) -> Value {
    if !channels.is_empty() && !channels.contains(Channel::Llm) {
        return Value::Null;
    }
    let mut agents: Vec<&(Name, usize)> = in_progress.iter().collect();
    agents.sort_by(|(a, of_a), (b, of_b)| of_b.cmp(of_a).then_with(|| a.cmp(b)));
    let named =
        agents.iter().take(AGENTS_MAX).map(|(agent, count)| json!({"agent": agent, "requests": count}));
    json!({
        "requests": in_progress.iter().map(|(_, count)| count).sum::<usize>(),
        "agents": named.collect::<Vec<_>>(),
        "more_agents": agents.len().saturating_sub(AGENTS_MAX),
    })
}

fn channels_text(channels: Channels) -> String {
    if channels.is_empty() || channels == Channels::ALL {
        return "everything".to_owned();
    }
    let all = [(Channel::Llm, "model calls"), (Channel::Tools, "tools"), (Channel::Messaging, "messages")];
    let shut = all.into_iter().filter(|(channel, _)| channels.contains(*channel)).map(|(_, name)| name);
    shut.collect::<Vec<_>>().join(" and ")
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
