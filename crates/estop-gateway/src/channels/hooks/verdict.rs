//! From a decision to what a hook answers: whether it may go on, and in which words the model is told.
//!
//! A refusal ends the whole run where nothing the agent could do would change it: the button is pressed, the agent is off,
//! the run is over. A run that is asked to sum up is refused its tools and left its words.

use std::fmt::Display;

use estop_core::agent::standing::{Standing, StandingFinding};
use estop_core::decision::{Decision, Finding, Guard};
use estop_core::guard::{HookRefusal, OVER, WAIT, for_agent};
use estop_core::operator::HookFault;
use estop_core::run::{RunFinding, RunState};
use estop_core::system::{Channel, GateView};
use estop_wire::hooks::{HookClient, HookEvent, HookIn, HookOut, HookVerdict};

use crate::engine::agents::Agent;
use crate::engine::incident::{IncidentId, with_incident};

/// No place for one more agent.
pub(super) fn no_room() -> HookOut {
    HookOut::deny(
        "estop refused this: there are too many agents. Tell the person to raise limits.agents or to remove some.",
    )
}

/// What cannot be written down is not let through.
pub(super) fn no_journal(failed: bool) -> HookOut {
    HookOut::deny(if failed {
        "estop refused this: it cannot write its journal. Tell the person to fix its data directory and to restart it."
    } else {
        "estop refused this: it cannot write its journal fast enough. Try again in a while."
    })
}

/// A fault, as its client is refused.
pub(super) fn fault(fault: &HookFault) -> HookOut {
    HookOut::deny(format!("estop refused this: {fault}"))
}

/// What a decision means to whoever asked by this hook.
pub(super) fn of(decision: &Decision, hook: &HookIn, agent: &Agent) -> HookOut {
    with(what(decision, hook, &agent.name), agent.incident_of(decision).as_ref())
}

fn what(decision: &Decision, hook: &HookIn, agent: &str) -> HookOut {
    // Also where health fell below the hard stop by this very call: it is off from here on.
    if decision.deactivated().is_some() {
        return refused_by(Guard::Agent, &decision.reason(), hook.client, agent);
    }
    let Some(by) = decision.refused_by() else {
        return HookOut { context: warning(decision), ..HookOut::allow() };
    };
    let reason = decision.reason();
    match decision.verdicts.get(by).map(|verdict| &verdict.finding) {
        Some(Finding::Standing(StandingFinding::Paused(_))) => HookOut::deny(sentence(&reason, WAIT)),
        Some(Finding::Run(run)) if is_over(run.state) => HookOut::end(sentence(&reason, OVER)),
        Some(Finding::Run(run)) => asked_to_sum_up(&reason, run.prompt().unwrap_or(&reason), hook.client),
        _ => refused_by(by, &reason, hook.client, agent),
    }
}

/// What a guard's refusal means, whatever it saw.
fn refused_by(guard: Guard, reason: &str, client: HookClient, agent: &str) -> HookOut {
    match guard.info().hook {
        HookRefusal::Deny(next) => HookOut::deny(sentence(&reason, &for_agent(next, agent))),
        HookRefusal::End(next) => HookOut::end(sentence(&reason, &for_agent(next, agent))),
        HookRefusal::SumUp => asked_to_sum_up(reason, reason, client),
    }
}

/// What holds though nothing was asked: after a tool, and at the beginning of a session.
pub(super) fn standing(
    gate: GateView,
    (agent, standing): (&Agent, Standing),
    run: Option<RunFinding>,
    hook: &HookIn,
) -> HookOut {
    let name = &*agent.name;
    let channel = if hook.event == HookEvent::SessionStarted { Channel::Llm } else { Channel::Tools };
    if !gate.lets_pass(channel) {
        let out = refused_by(Guard::System, &Finding::System(gate).to_string(), hook.client, name);
        return with(out, IncidentId::of_gate(gate).as_ref());
    }
    match standing {
        Standing::Inactive { by, .. } => {
            let out = refused_by(Guard::Agent, &StandingFinding::Inactive(by).to_string(), hook.client, name);
            return with(out, agent.incident().as_ref());
        }
        // Nothing new begins, but what runs may come to its end.
        Standing::Paused { .. } | Standing::Active => {}
    }
    match run {
        Some(finding) if finding.state == RunState::Escalated => HookOut::end(sentence(&finding, OVER)),
        // It does not have to ask for something to be told that it is to sum up (CB-6).
        Some(finding) => HookOut { context: finding.prompt().map(str::to_owned), ..HookOut::allow() },
        None => HookOut::allow(),
    }
}

/// A refusal, and where its user reads on.
fn with(out: HookOut, incident: Option<&IncidentId>) -> HookOut {
    let verdict = match out.verdict {
        HookVerdict::Allow => HookVerdict::Allow,
        HookVerdict::Deny { reason } => HookVerdict::Deny { reason: with_incident(reason, incident) },
        HookVerdict::End { reason } => HookVerdict::End { reason: with_incident(reason, incident) },
    };
    HookOut { verdict, ..out }
}

fn is_over(state: RunState) -> bool {
    matches!(state, RunState::Completed | RunState::Escalated)
}

/// Seed 3's sentences say what to do. Frameworks that follow it read them as the context of a denial; everybody else
/// reads the reason.
fn asked_to_sum_up(reason: &str, context: &str, client: HookClient) -> HookOut {
    let context = (client == HookClient::Generic).then(|| context.to_owned());
    HookOut { context, ..HookOut::deny(reason) }
}

fn sentence(reason: &dyn Display, next: &str) -> String {
    format!("Stopped by estop: {reason} {next}")
}

/// Limits that are near, or reached where they stop nobody, that a tripped run should sum up (CB-2, CB-6), and that the agent repeats
/// itself (LD-9).
pub(super) fn warning(decision: &Decision) -> Option<String> {
    let said = [Guard::Run, Guard::Breaker, Guard::Loop]
        .into_iter()
        .filter_map(|guard| decision.verdicts.get(guard));
    let words: Vec<String> = said.filter_map(estop_core::decision::Verdict::warning).collect();
    (!words.is_empty()).then(|| words.join("\n"))
}
