//! Writes the steps before a stop beside its incident (EV-1), after the incident itself is stored: no stop waits for them, and one
//! whose steps cannot be written is as good as any other.

use estop_config::printable::escaped;
use estop_core::decision::Decision;
use estop_core::event::Event;
use estop_core::ids::Name;
use estop_core::time::Now;
use estop_gateway::{Engine, StopPoint};
use estop_store::{Evidence, Incident, Store};
use estop_wire::mask::Masker;

/// An incident whose steps are to be written.
pub(super) struct EvidenceDue {
    incident: Name,
    agent: Name,
    now: Now,
    event: Event,
    decision: Decision,
}

impl EvidenceDue {
    pub(super) fn of(incident: &Incident, now: Now, event: &Event, decision: &Decision) -> EvidenceDue {
        EvidenceDue {
            incident: incident.id.clone(),
            agent: incident.agent.clone(),
            now,
            event: event.clone(),
            decision: decision.clone(),
        }
    }
}

/// Writes what is known of each. What fails is logged, and the incident says that it has no steps.
pub(super) fn write(store: &dyn Store, engine: &Engine, due: &[EvidenceDue]) {
    for due in due {
        if let Err(error) = write_one(store, engine, due) {
            tracing::warn!(
                target: "storage", incident = %due.incident,
                "the steps before this stop could not be stored: {}. The agent is stopped all the same; its incident has no \
                 steps.", escaped(&format!("{error:#}"))
            );
        }
    }
}

fn write_one(store: &dyn Store, engine: &Engine, due: &EvidenceDue) -> anyhow::Result<()> {
    // For this incident alone: equal secrets in it look equal, and nobody can try out guesses.
    let mut key = [0; 32];
    getrandom::fill(&mut key)
        .map_err(|error| anyhow::anyhow!("the system gave no random numbers: {error}"))?;
    let matched = due.decision.evidence().map(|evidence| &*evidence.matched).unwrap_or_default();
    let stop = StopPoint { agent: &due.agent, at: due.now.mono, event: &due.event, matched };
    let Some(steps) = engine.step_log.before(&stop, &Masker::new(key)) else { return Ok(()) };
    let evidence = Evidence {
        incident: due.incident.clone(),
        agent: due.agent.clone(),
        stored_at: due.now.wall,
        steps: Some(serde_json::to_string(&steps)?),
        deleted: None,
    };
    Ok(store.put_evidence(&evidence)?)
}
