//! Why a decision refuses: the word for machines, the sentence for people, and whether trying again helps.

use estop_core::agent::standing::{Cause, DeactivatedBy, StandingFinding};
use estop_core::budget::{Account, BudgetFinding, Fit};
use estop_core::decision::{Decision, Finding, Guard, Outcome, Retry};
use estop_core::system::GateView;
use estop_core::tripwire::safety_gate::SafetyVeto;
use estop_wire::refusal::Kind;

/// What to do about a pressed button, for the sentence an agent's user reads.
pub(crate) const AFTER_KILL: &str = "An admin must clear it before agents can go on.";

/// Said to requests of an agent that a person switches off.
pub(crate) const DEACTIVATED: &str =
    "Stopped by estop: a person deactivated this agent. Activate it again to go on.";

/// A paused agent is asked to wait this long; a person decides when it ends. Chosen: SDKs sleep all of it.
const PAUSE_WAIT_MS: u64 = 30_000;

/// The stable word for why something was refused.
pub(crate) fn code(decision: &Decision) -> &'static str {
    let by = decision.refused_by().or_else(|| decision.deactivated().map(Cause::guard));
    match by {
        Some(Guard::Agent) => match finding(decision, Guard::Agent) {
            Some(Finding::Standing(StandingFinding::Inactive(DeactivatedBy::Manual))) => "agent_inactive",
            Some(Finding::Standing(StandingFinding::Paused(_))) => "agent_paused",
            _ => "kill_switch",
        },
        Some(Guard::Loop | Guard::Churn | Guard::Chanting) => "kill_switch",
        Some(Guard::Breaker | Guard::Run) => "circuit_breaker",
        Some(Guard::Rate) => "rate_limit",
        Some(Guard::Models) => "model_not_allowed",
        Some(guard @ (Guard::System | Guard::Hours | Guard::Budget)) => guard.name(),
        Some(Guard::Gate) => match finding(decision, Guard::Gate) {
            Some(Finding::Gate(gate)) => gate.veto_reason.map_or("gate", SafetyVeto::code),
            _ => "gate",
        },
        Some(guard @ (Guard::Health | Guard::Watchdog)) => guard.name(),
        // An agent that a person switched off, with requests under way.
        None => "agent_inactive",
    }
}

fn finding(decision: &Decision, guard: Guard) -> Option<&Finding> {
    decision.verdicts.get(guard).map(|verdict| &verdict.finding)
}

/// Why, and what to do next, in words for the person in front of the client.
pub(crate) fn sentence(decision: &Decision) -> String {
    if decision.refused_by().is_none() && decision.deactivated().is_none() {
        return DEACTIVATED.into();
    }
    let by = decision.refused_by().or_else(|| decision.deactivated().map(Cause::guard));
    let next = match by {
        Some(Guard::System) => AFTER_KILL,
        Some(Guard::Agent) if code(decision) == "agent_paused" => {
            "Look at what it did, then resume the agent."
        }
        Some(
            Guard::Agent | Guard::Loop | Guard::Churn | Guard::Chanting | Guard::Health | Guard::Watchdog,
        ) => "Look at what it did, then activate the agent again.",
        Some(Guard::Run | Guard::Breaker) => "Start a fresh run, or extend this one.",
        Some(Guard::Hours) => "Try again within the allowed hours.",
        Some(Guard::Models) => "Use an allowed model, or change the policy.",
        Some(Guard::Budget) => match finding(decision, Guard::Budget) {
            Some(Finding::Budget(budget)) if budget.fit == Fit::Waits => {
                "It ends by itself: try again in some seconds."
            }
            Some(Finding::Budget(BudgetFinding { account: Account::Unpriced, .. })) => {
                "Use another model, or give this one a price."
            }
            Some(Finding::Budget(BudgetFinding { account: Account::UnpricedPath, .. })) => {
                "Name the path there, or do not call it."
            }
            Some(Finding::Budget(budget)) if budget.spent < budget.cap => {
                "Ask for fewer tokens (`max_tokens`), raise the budget, or wait for the next period."
            }
            _ => "Raise the budget, or wait for the next period.",
        },
        Some(Guard::Rate | Guard::Gate) => "Slow down and try again.",
        None => "",
    };
    format!("Stopped by estop: {} {next}", decision.reason()).trim_end().to_owned()
}

/// What the gate word means to a client.
pub(crate) fn system_sentence(gate: GateView) -> String {
    format!("Stopped by estop: {}", Finding::System(gate))
}

/// What kind of no a decision is (AN-2): only what ends by itself says when to try again.
pub(crate) fn kind(decision: &Decision) -> Kind {
    match decision.outcome {
        Outcome::Refuse {
            by: Guard::Rate | Guard::Gate | Guard::Budget,
            retry: Retry::AfterMs(after_ms),
        } => Kind::Wait { after_ms },
        Outcome::Refuse { by: Guard::Agent, .. } if code(decision) == "agent_paused" => {
            Kind::Wait { after_ms: PAUSE_WAIT_MS }
        }
        Outcome::Refuse { .. } | Outcome::Allow | Outcome::Noted => Kind::Stop,
    }
}
