//! Writes the steps before a stop beside its incident (EV-1), after the incident itself is stored: no stop waits for them, and one
//! whose steps cannot be written is as good as any other. What cannot be written is tried again while estop runs.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use estop_config::printable::{escaped, named};
use estop_core::decision::{Decision, Effect};
use estop_core::event::Event;
use estop_core::ids::Name;
use estop_core::operator::IncidentSteps;
use estop_core::policy::EvidenceMode;
use estop_core::time::{Millis, Now};
use estop_gateway::{Engine, StepLog, StepsToSave, StopPoint, WAITING_MAX, redacted};
use estop_store::{Evidence, EvidenceRepo, Incident, Store};
use estop_wire::mask::Masker;

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
    /// else, and beyond the quota. Its steps are known by the record, as those of an incident are.
    pub(super) fn watched(
        quota: &mut WatchedQuota,
        agent: &str,
        seq: u64,
        now: Now,
        event: &Event,
        decision: &Decision,
    ) -> Option<EvidenceDue> {
        let reason = decision.effects.iter().find_map(|effect| watched_reason(effect, decision))?;
        if !quota.admits(agent, now.mono) {
            return None;
        }
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
        Effect::WouldHaveStopped { guard, .. } => {
            let verdict = decision.verdicts.get(*guard);
            Some(verdict.map(|verdict| verdict.finding.to_string()).unwrap_or_default())
        }
        Effect::Nudged { tool, steps } => {
            Some(format!("{steps} steps without anything new, the latest a call of {}.", named(tool)))
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

/// Writes what is known of stops. What could not be written waits in the step log for the next try.
#[derive(Default)]
pub(super) struct EvidenceWriter {
    again_at: Option<Instant>,
}

impl EvidenceWriter {
    /// Writes what is known of each.
    pub(super) fn write(&mut self, store: &dyn Store, engine: &Engine, due: &[EvidenceDue]) {
        for due in due {
            match steps_of(engine, due) {
                Ok(steps) => self.save_new(store, &engine.step_log, steps),
                Err(error) => lost(&engine.step_log, &due.incident, &due.agent, &format!("{error:#}")),
            }
        }
    }

    /// Tries again what could not be written, if it is time.
    pub(super) fn try_again(&mut self, store: &dyn Store, engine: &Engine, now: Instant) {
        if self.again_at.is_none_or(|again_at| now < again_at) {
            return;
        }
        self.again_at = None;
        let mode_of = |agent: &str| engine.rulebook.resolve(agent).evidence;
        // Each failure may have waited for a lock, and rows and alerts wait behind it.
        while self.again_at.is_none()
            && let Some(steps) = engine.step_log.unsaved.oldest()
        {
            self.save(store, &engine.step_log, &steps, mode_of(&steps.agent));
        }
    }

    fn save_new(&mut self, store: &(impl EvidenceRepo + ?Sized), log: &StepLog, steps: StepsToSave) {
        let (incident, mode) = (steps.incident.clone(), steps.steps.mode);
        if let Some(oldest) = log.unsaved.add(steps) {
            lost(
                log,
                &oldest.incident,
                &oldest.agent,
                &format!("the steps of {WAITING_MAX} more incidents wait"),
            );
        }
        if let Some(steps) = log.unsaved.of(&incident) {
            self.save(store, log, &steps, mode);
        }
    }

    /// Saves steps as the agent's policy wants it by now.
    fn save(
        &mut self,
        store: &(impl EvidenceRepo + ?Sized),
        log: &StepLog,
        steps: &StepsToSave,
        mode: EvidenceMode,
    ) {
        let StepsToSave { incident, agent, at, .. } = steps;
        let to_text = |steps: &IncidentSteps| serde_json::to_string(steps).map_err(anyhow::Error::from);
        let text = match mode {
            EvidenceMode::Off => to_text(&nothing(mode)),
            EvidenceMode::Redacted if steps.steps.mode == EvidenceMode::Full => {
                new_masker().and_then(|masker| to_text(&redacted(steps.steps.clone(), &masker)))
            }
            EvidenceMode::Redacted | EvidenceMode::Full => to_text(&steps.steps),
        };
        let text = match text {
            Ok(text) => text,
            Err(error) => return lost(log, incident, agent, &format!("{error:#}")),
        };
        let (incident, agent) = (incident.clone(), agent.clone());
        let evidence =
            Evidence { incident: incident.clone(), agent, stored_at: *at, steps: Some(text), deleted: None };
        let Err(error) = store.put_evidence(&evidence) else {
            return saved(store, log, &incident, *at);
        };
        let why = escaped(&error.to_string());
        let again = AGAIN_AFTER.as_secs();
        let said = format!("{why}. The agent is stopped all the same; estop tries again every {again} s");
        if log.unsaved.failed(&incident, &said) {
            tracing::warn!(
                target: "storage", %incident, "evidence could not be saved: {said}. See that its data directory can be written."
            );
        }
        self.again_at = Some(Instant::now() + AGAIN_AFTER);
    }
}

fn saved(store: &(impl EvidenceRepo + ?Sized), log: &StepLog, incident: &str, at: i64) {
    if log.unsaved.of(incident).is_none() {
        // Somebody dropped them while they were written. Who did so is said, if it is known.
        if let Err(error) = store.delete_evidence(incident, "estop", at) {
            let error = escaped(&error.to_string());
            tracing::warn!(
                target: "storage", incident, "steps that were dropped while they were saved could not be deleted: {error}. Delete \
                 them again."
            );
        }
    } else if log.unsaved.end(incident) {
        tracing::info!(target: "storage", incident, "the steps before this stop are saved");
    }
}

fn lost(log: &StepLog, incident: &str, agent: &str, why: &str) {
    let said = format!("{}. The agent is stopped all the same; its steps are lost", escaped(why));
    tracing::warn!(target: "storage", incident, "evidence could not be saved: {said}.");
    log.unsaved.lost(incident, agent, said);
}

/// For one incident alone: equal secrets in it look equal, and nobody can try out guesses.
fn new_masker() -> anyhow::Result<Masker> {
    let mut key = [0; 32];
    getrandom::fill(&mut key)
        .map_err(|error| anyhow::anyhow!("the system gave no random numbers: {error}"))?;
    Ok(Masker::new(key))
}

/// That there are no steps; the mode says whether they may not be kept.
fn nothing(mode: EvidenceMode) -> IncidentSteps {
    IncidentSteps { mode, ..IncidentSteps::default() }
}

/// What is kept of a stop.
fn steps_of(engine: &Engine, due: &EvidenceDue) -> anyhow::Result<StepsToSave> {
    let masker = new_masker()?;
    let EvidenceDue { incident, agent, now, event, decision, reason } = due;
    // What holds by now: whoever switched evidence off or to `redacted` since wants nothing more written.
    let most = engine.rulebook.resolve(agent).evidence;
    let stop = StopPoint { agent, at: now.mono, event, decision, most };
    let mut steps = engine.step_log.before(&stop, &masker).unwrap_or_else(|| nothing(most));
    steps.reason = reason.as_deref().map(|reason| masker.text(reason).into());
    Ok(StepsToSave { incident: incident.clone(), agent: agent.clone(), at: now.wall, steps })
}
