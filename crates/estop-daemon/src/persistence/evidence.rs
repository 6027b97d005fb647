//! Writes the steps before a stop beside its incident (EV-1), after the incident itself is stored: no stop waits for them, and one
//! whose steps cannot be written is as good as any other. What cannot be written is tried again while estop runs.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use estop_config::printable::escaped;
use estop_core::decision::Decision;
use estop_core::event::Event;
use estop_core::ids::Name;
use estop_core::policy::EvidenceMode;
use estop_core::time::Now;
use estop_gateway::{Engine, StepLog, StopPoint};
use estop_store::{Evidence, EvidenceRepo, Incident, Store};
use estop_wire::mask::Masker;

/// Incidents whose steps wait to be stored, some 60 KB each at most. Beyond it the oldest are lost.
const UNSAVED_MAX: usize = 32;
/// How long after a try that failed comes the next.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

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

/// Writes what is known of stops, and keeps what could not be written for the next try.
#[derive(Default)]
pub(super) struct EvidenceWriter {
    unsaved: VecDeque<Evidence>,
    again_at: Option<Instant>,
}

impl EvidenceWriter {
    /// Writes what is known of each.
    pub(super) fn write(&mut self, store: &dyn Store, engine: &Engine, due: &[EvidenceDue]) {
        for due in due {
            match steps_of(engine, due) {
                Ok(None) => {}
                Ok(Some(evidence)) => self.save(store, &engine.step_log, evidence),
                Err(error) => lost(&engine.step_log, &due.incident, &format!("{error:#}")),
            }
        }
    }

    /// Tries again what could not be written, if it is time.
    pub(super) fn try_again(&mut self, store: &dyn Store, engine: &Engine, now: Instant) {
        if self.again_at.is_none_or(|again_at| now < again_at) {
            return;
        }
        self.again_at = None;
        for evidence in std::mem::take(&mut self.unsaved) {
            let incident = evidence.incident.clone();
            if engine.rulebook.resolve(&evidence.agent).evidence == EvidenceMode::Off {
                engine.step_log.set_unsaved(&incident, None);
                continue;
            }
            self.save(store, &engine.step_log, evidence);
        }
    }

    fn save(&mut self, store: &(impl EvidenceRepo + ?Sized), log: &StepLog, evidence: Evidence) {
        let incident = evidence.incident.clone();
        let Err(error) = store.put_evidence(&evidence) else {
            if log.set_unsaved(&incident, None) {
                tracing::info!(target: "storage", %incident, "the steps before this stop are saved");
            }
            return;
        };
        let why = escaped(&error.to_string());
        let again = AGAIN_AFTER.as_secs();
        let said = format!("{why}. The agent is stopped all the same; estop tries again every {again} s");
        if !log.set_unsaved(&incident, Some(said.clone())) {
            tracing::warn!(
                target: "storage", %incident, "evidence could not be saved: {said}. See that its data directory can be written."
            );
        }
        self.unsaved.push_back(evidence);
        self.again_at = Some(Instant::now() + AGAIN_AFTER);
        while self.unsaved.len() > UNSAVED_MAX {
            if let Some(oldest) = self.unsaved.pop_front() {
                lost(
                    log,
                    &oldest.incident,
                    &format!("{why}, and the steps of {UNSAVED_MAX} more incidents wait"),
                );
            }
        }
    }
}

fn lost(log: &StepLog, incident: &str, why: &str) {
    let said = format!("{}. The agent is stopped all the same; its steps are lost", escaped(why));
    tracing::warn!(target: "storage", incident, "evidence could not be saved: {said}.");
    log.set_unsaved(incident, Some(said));
}

/// What is kept of a stop; `None` if nothing is known of it, or nothing may be kept.
fn steps_of(engine: &Engine, due: &EvidenceDue) -> anyhow::Result<Option<Evidence>> {
    // For this incident alone: equal secrets in it look equal, and nobody can try out guesses.
    let mut key = [0; 32];
    getrandom::fill(&mut key)
        .map_err(|error| anyhow::anyhow!("the system gave no random numbers: {error}"))?;
    let EvidenceDue { incident, agent, now, event, decision } = due;
    // What holds by now: whoever switched evidence off or to `redacted` since wants nothing more written.
    let most = engine.rulebook.resolve(agent).evidence;
    let stop = StopPoint { agent, at: now.mono, event, decision, most };
    let Some(steps) = engine.step_log.before(&stop, &Masker::new(key)) else { return Ok(None) };
    Ok(Some(Evidence {
        incident: incident.clone(),
        agent: agent.clone(),
        stored_at: now.wall,
        steps: Some(serde_json::to_string(&steps)?),
        deleted: None,
    }))
}
