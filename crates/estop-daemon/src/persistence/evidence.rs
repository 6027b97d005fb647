//! Writes the steps before a stop beside its incident (EV-1), after the incident itself is stored: no stop waits for them, and one
//! whose steps cannot be written is as good as any other. What cannot be written is tried again while estop runs.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use estop_config::printable::escaped;
use estop_core::decision::{Decision, Effect};
use estop_core::event::Event;
use estop_core::ids::Name;
use estop_core::policy::EvidenceMode;
use estop_core::time::{Millis, Now};
use estop_gateway::{Engine, StepLog, StopPoint};
use estop_store::{Evidence, EvidenceRepo, Incident, Store};
use estop_wire::mask::Masker;

/// Incidents whose steps wait to be stored, some 60 KB each at most. Beyond it the oldest are lost.
const UNSAVED_MAX: usize = 32;
/// How long after a try that failed comes the next.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Of what was only watched, the steps are kept so often in an hour, of all agents, and of one agent once in ten minutes.
const WATCHED_PER_HOUR: usize = 100;
const WATCHED_EVERY_MS: u64 = 600_000;
const HOUR_MS: u64 = 3_600_000;

/// An incident whose steps are to be written, or what would have been one.
pub(super) struct EvidenceDue {
    incident: Name,
    agent: Name,
    now: Now,
    event: Event,
    decision: Decision,
    /// What the guard said, where nobody was stopped.
    reason: Option<String>,
}

impl EvidenceDue {
    pub(super) fn of(incident: &Incident, now: Now, event: &Event, decision: &Decision) -> EvidenceDue {
        EvidenceDue {
            incident: incident.id.clone(),
            agent: incident.agent.clone(),
            now,
            event: event.clone(),
            decision: decision.clone(),
            reason: None,
        }
    }

    /// Of a stop that a guard in shadow would have made, or of an agent that was told that it repeats itself; `None` for all
    /// else. Its steps are known by the record, as those of an incident are.
    pub(super) fn watched(
        agent: &str,
        seq: u64,
        now: Now,
        event: &Event,
        decision: &Decision,
    ) -> Option<EvidenceDue> {
        let reason = decision.effects.iter().find_map(|effect| watched_reason(effect, decision))?;
        Some(EvidenceDue {
            incident: format!("{agent}-{seq}").into(),
            agent: agent.into(),
            now,
            event: event.clone(),
            decision: decision.clone(),
            reason: Some(reason),
        })
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the others stop somebody, or are no finding of a guard")]
fn watched_reason(effect: &Effect, decision: &Decision) -> Option<String> {
    match effect {
        Effect::WouldHaveStopped { guard } => {
            let verdict = decision.verdicts.get(*guard);
            Some(verdict.map(|verdict| verdict.finding.to_string()).unwrap_or_default())
        }
        Effect::Nudged { tool, steps } => {
            Some(format!("{steps} steps without anything new, the latest a call of {tool}."))
        }
        _ => None,
    }
}

/// How much is kept of what was only watched: an agent that is watched does it again and again.
#[derive(Default)]
pub(super) struct WatchedQuota {
    hour: u64,
    /// When steps of an agent were last kept in this hour.
    latest: BTreeMap<Name, Millis>,
    count: usize,
}

impl WatchedQuota {
    /// Whether the steps of this one are kept.
    pub(super) fn admits(&mut self, agent: &str, now: Millis) -> bool {
        let hour = now.0 / HOUR_MS;
        if hour != self.hour {
            *self = WatchedQuota { hour, ..WatchedQuota::default() };
        }
        let is_soon = self.latest.get(agent).is_some_and(|latest| now.since(*latest) < WATCHED_EVERY_MS);
        if is_soon || self.count == WATCHED_PER_HOUR {
            return false;
        }
        self.count += 1;
        self.latest.insert(agent.into(), now);
        true
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
        while let Some(evidence) = self.unsaved.pop_front() {
            let incident = evidence.incident.clone();
            if engine.rulebook.resolve(&evidence.agent).evidence == EvidenceMode::Off {
                engine.step_log.set_unsaved(&incident, None);
                continue;
            }
            self.save(store, &engine.step_log, evidence);
            // Each failure may have waited for a lock, and rows and alerts wait behind it.
            if self.again_at.is_some() {
                return;
            }
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
    let EvidenceDue { incident, agent, now, event, decision, reason } = due;
    // What holds by now: whoever switched evidence off or to `redacted` since wants nothing more written.
    let most = engine.rulebook.resolve(agent).evidence;
    let stop = StopPoint { agent, at: now.mono, event, decision, most };
    let masker = Masker::new(key);
    let Some(mut steps) = engine.step_log.before(&stop, &masker) else { return Ok(None) };
    steps.reason = reason.as_deref().map(|reason| masker.text(reason).into());
    Ok(Some(Evidence {
        incident: incident.clone(),
        agent: agent.clone(),
        stored_at: now.wall,
        steps: Some(serde_json::to_string(&steps)?),
        deleted: None,
    }))
}
