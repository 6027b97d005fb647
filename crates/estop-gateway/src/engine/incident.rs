//! The incident that a refusal belongs to: whoever is refused finds what happened there. A model reads it too, so
//! that there is no command in it: what a command would show says how the agent is reactivated.

use estop_core::decision::{Decision, Effect};
use estop_core::system::{GateView, SYSTEM, SystemState};

/// The id of an incident. The journal's reader makes the same of the same record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IncidentId(String);

impl IncidentId {
    /// A guard stopped or paused an agent by this record.
    pub(super) fn of_agent(agent: &str, seq: u64) -> IncidentId {
        IncidentId(format!("{agent}-{seq}"))
    }

    /// Everything is stopped.
    pub(crate) fn of_gate(gate: GateView) -> Option<IncidentId> {
        // A channel may be shut by the configuration, which is no incident.
        (gate.state == SystemState::Shutdown).then(|| IncidentId(format!("{SYSTEM}-{}", gate.epoch)))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The sentence that follows a refusal.
impl std::fmt::Display for IncidentId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let id = &self.0;
        write!(f, "What happened: incident {id} (/incidents/{id} on the dashboard).")
    }
}

/// A refusal, and where its user reads on.
pub(crate) fn with_incident(sentence: String, incident: Option<&IncidentId>) -> String {
    match incident {
        Some(incident) => format!("{sentence} {incident}"),
        None => sentence,
    }
}

/// Whether this decision opens an incident of its agent.
pub(super) fn opens(decision: &Decision) -> bool {
    let is_one = |effect: &Effect| matches!(effect, Effect::Deactivated { .. } | Effect::Paused { .. });
    decision.effects.iter().any(is_one)
}
