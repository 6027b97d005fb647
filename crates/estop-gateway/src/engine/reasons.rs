//! Why a decision refuses: the word for machines, the sentence for people, and whether trying again helps. What holds for all that
//! a guard refuses stands in its row (`estop_core::guard`); here is what depends on what it saw.

use estop_core::agent::standing::{Cause, DeactivatedBy, StandingFinding};
use estop_core::budget::{BudgetCap, BudgetFinding, Fit};
use estop_core::decision::{Decision, Finding, Guard, Outcome, Retry};
use estop_core::guard::for_agent;
use estop_core::system::GateView;
use estop_core::tripwire::safety_gate::SafetyGateFinding;
use estop_wire::refusal::Kind;

use crate::engine::agents::Agent;
use crate::engine::incident::{IncidentId, with_incident};

/// What to do about a pressed button, for the sentence an agent's user reads.
const AFTER_KILL: &str = Guard::System.info().next_step;

/// Said to requests of an agent that a person switches off.
pub(crate) fn deactivated(agent: &str) -> String {
    format!("Stopped by estop: a person deactivated agent {agent}. A person must reactivate it.")
}

/// A paused agent is asked to wait this long; a person decides when it ends. Chosen: SDKs sleep all of it.
const PAUSE_WAIT_MS: u64 = 30_000;

/// The stable word for why something was refused.
pub(crate) fn code(decision: &Decision) -> &'static str {
    // An agent that a person switched off, with requests under way.
    let Some(guard) = stopped_by(decision) else { return "agent_inactive" };
    match finding(decision, guard) {
        Some(Finding::Standing(StandingFinding::Inactive(DeactivatedBy::Manual))) => "agent_inactive",
        Some(Finding::Standing(StandingFinding::Paused(_))) => "agent_paused",
        Some(Finding::Gate(SafetyGateFinding { veto_reason: Some(veto), .. })) => veto.code(),
        _ => guard.info().code,
    }
}

fn stopped_by(decision: &Decision) -> Option<Guard> {
    decision.refused_by().or_else(|| decision.deactivated().map(Cause::guard))
}

fn finding(decision: &Decision, guard: Guard) -> Option<&Finding> {
    decision.verdicts.get(guard).map(|verdict| &verdict.finding)
}

/// Why, and what to do next, in words for the person in front of the client. Its model reads them too: what lets an agent go on
/// is said as what a person must do, and never as a command.
pub(crate) fn sentence(decision: &Decision, agent: &Agent) -> String {
    with_incident(without_incident(decision, &agent.name), agent.incident_of(decision).as_ref())
}

fn without_incident(decision: &Decision, agent: &str) -> String {
    let Some(guard) = stopped_by(decision) else { return deactivated(agent) };
    let next = match finding(decision, guard) {
        Some(Finding::Standing(StandingFinding::Paused(_))) => {
            "A person must review what agent {agent} did and resume it."
        }
        // Its sentence says that a person must let it go on.
        Some(Finding::Gate(gate)) if gate.veto_reason.is_some() && gate.cooldown_ms == 0 => "",
        Some(Finding::Budget(budget)) if budget.fit == Fit::Waits => {
            "It ends by itself: try again in some seconds."
        }
        Some(Finding::Budget(BudgetFinding { account: BudgetCap::Unpriced, .. })) => {
            "Use another model; a person can give this one a price."
        }
        Some(Finding::Budget(BudgetFinding { account: BudgetCap::UnpricedPath, .. })) => {
            "A person can allow the path there."
        }
        Some(Finding::Budget(budget)) if budget.spent < budget.cap => {
            "Ask for fewer tokens (`max_tokens`), or wait for the next period; a person can raise the budget of agent {agent}."
        }
        _ => guard.info().next_step,
    };
    format!("Stopped by estop: {} {}", decision.reason(), for_agent(next, agent)).trim_end().to_owned()
}

/// What the gate word means to a client, and what to do about it.
pub(crate) fn system_sentence(gate: GateView) -> String {
    let sentence = format!("Stopped by estop: {} {AFTER_KILL}", Finding::System(gate));
    with_incident(sentence, IncidentId::of_gate(gate).as_ref())
}

/// What kind of no a decision is (AN-2): only what ends by itself says when to try again.
pub(crate) fn kind(decision: &Decision) -> Kind {
    match decision.outcome {
        Outcome::Refuse { retry: Retry::AfterMs(after_ms), .. } => Kind::Wait { after_ms },
        Outcome::Refuse { .. } if code(decision) == "agent_paused" => Kind::Wait { after_ms: PAUSE_WAIT_MS },
        Outcome::Refuse { .. } | Outcome::Allow | Outcome::Noted => Kind::Stop,
    }
}
