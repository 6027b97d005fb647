//! What an agent may say of its own runs, by its key or by a run's ticket: less than a person.

use estop_core::operator::AgentView;
use estop_core::run::RunState;

use super::{RunIn, id_of};
use crate::access::Caller;
use crate::output::kept_json;
use crate::problem::{Kind, Problem};
use crate::state::App;

/// The agent, woken up if it is at rest: only then its rules and runs are known.
pub(super) fn awake(app: &App, agent: &str) -> Result<AgentView, Problem> {
    match app.operator.agent(agent) {
        Some(view) => Ok(view),
        None => Ok(app.operator.add_agent(agent)?),
    }
}

/// An agent that speaks for itself may tighten its limits, never loosen them, and cannot vouch for a person.
pub(super) fn may_say(about: &RunIn, agent: &AgentView, caller: &Caller) -> Result<(), Problem> {
    if caller.only.is_none() {
        return Ok(());
    }
    if about.attended {
        return Err(Problem::field("attended", "is for a person to say, not for an agent's key or ticket"));
    }
    match about.limits.loosens(&agent.policy.limits) {
        Some(key) => Err(Problem::field(format!("limits.{key}"), "must not be more than the agent's own")),
        None => Ok(()),
    }
}

/// An agent gives itself no new allowance for a run that reached a limit, that a person sat at, or that has a supervisor.
pub(super) fn may_begin(app: &App, agent: &AgentView, run: &str, caller: &Caller) -> Result<(), Problem> {
    if caller.only.is_none() {
        return Ok(());
    }
    let live = agent.runs.iter().find(|view| view.name.as_deref() == Some(run));
    let is_guarded = match live {
        Some(view) => view.tripped || view.attended || view.state == RunState::Escalated,
        None => app.store_here().run(&id_of(&agent.name, Some(run)))?.is_some_and(|row| {
            let tripped = kept_json(&row.counters)["tripped"].as_bool() == Some(true);
            tripped || row.attended || *row.state == *RunState::Escalated.name()
        }),
    };
    if is_guarded || app.lines.has(&agent.name, run) {
        let detail = "This run reached a limit, or a person or a supervisor had it: an agent's key does not begin it \
            anew. Take another name, or have an operator activate it.";
        return Err(Problem::new(Kind::Conflict, detail));
    }
    Ok(())
}

/// A ticket is shown by what its supervisor started: that may say which calls it makes, and nothing about its run.
pub(super) fn may_watch(caller: &Caller, program: bool, begin: bool, ticket: bool) -> Result<(), Problem> {
    if caller.only.as_ref().is_none_or(|only| only.run.is_none()) {
        return Ok(());
    }
    let fields = [("kind", program), ("begin", begin), ("ticket_sha256", ticket)];
    match fields.into_iter().find_map(|(field, said)| said.then_some(field)) {
        Some("kind") => {
            Err(Problem::field("kind", "must be `call` with a ticket: its supervisor has the program"))
        }
        Some(field) => Err(Problem::field(field, "is for the supervisor to say, not for a ticket")),
        None => Ok(()),
    }
}
