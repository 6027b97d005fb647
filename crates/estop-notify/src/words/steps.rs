//! What a person can do: look, let it go on, keep it stopped. Commands can be copied as they stand.

use estop_core::printed_command::Commands;

use crate::alert_event::{AlertEvent, AlertType, BudgetSeen, Detail};
use crate::message::Step;
use crate::plain::shell_word;

pub(super) fn steps(told: &AlertEvent, commands: &Commands) -> Vec<Step> {
    let mut steps = steps_of(told);
    for step in steps.iter_mut().filter(|step| !step.command.is_empty()) {
        step.command = commands.make(&step.command);
    }
    steps
}

/// The steps, their commands without `estop` and the options that find it.
fn steps_of(told: &AlertEvent) -> Vec<Step> {
    let agent = told.agent.as_deref().map(shell_word);
    match (told.alert, agent) {
        (AlertType::SystemKill, _) => system_kill(),
        (AlertType::ProoftestOverdue, _) => {
            vec![step("Test it now; nobody else is stopped:", "prooftest")]
        }
        (AlertType::StuckWorker, _) => vec![
            step("Look at what is stuck, and at the disk:", "doctor"),
            step("Kills work all the same:", "emergency kill"),
        ],
        (AlertType::AdminToken, _) => vec![
            step("Was it you? If not, stop everything:", "kill"),
            step("See who may come in:", "token list"),
        ],
        (AlertType::Checkpoint, _) => {
            vec![step("Compare with the journal:", "journal verify")]
        }
        (AlertType::CircuitBreaker, Some(agent)) => circuit_breaker(told, &agent),
        (AlertType::KillSwitch | AlertType::Watchdog, Some(agent)) => {
            stopped(&agent, &evidence(told, &agent))
        }
        (AlertType::Budget, agent) => budget(told, agent.as_deref()),
        (AlertType::Health, Some(agent)) => paused(&agent, &evidence(told, &agent)),
        (AlertType::ErrorRate | AlertType::AgentDown, Some(agent)) => failing(&agent),
        (
            AlertType::KillSwitch
            | AlertType::Watchdog
            | AlertType::CircuitBreaker
            | AlertType::ErrorRate
            | AlertType::AgentDown
            | AlertType::Health,
            None,
        ) => vec![step("Look:", "status")],
    }
}

fn step(say: &str, command: &str) -> Step {
    Step { say: say.to_owned(), command: command.to_owned() }
}

/// The command that shows what it did.
fn evidence(told: &AlertEvent, agent: &str) -> String {
    match &told.incident {
        Some(incident) => format!("incidents show {}", shell_word(incident)),
        None => format!("incidents list --agent {agent}"),
    }
}

fn stopped(agent: &str, evidence: &str) -> Vec<Step> {
    vec![
        step("Look at the evidence:", evidence),
        step("Reactivate it:", &format!("agents activate {agent}")),
        step("Keep it stopped: do nothing. It stays off until somebody activates it.", ""),
    ]
}

fn paused(agent: &str, evidence: &str) -> Vec<Step> {
    vec![
        step("Look at the evidence:", evidence),
        step("Let it go on:", &format!("agents resume {agent}")),
        step("Stop it:", &format!("agents deactivate {agent}")),
        step("Keep it paused: do nothing. What it asks is refused until somebody lets it go on.", ""),
    ]
}

fn system_kill() -> Vec<Step> {
    vec![
        step("Look:", "emergency status"),
        step(
            "When the cause is gone, first let people look around (agents stay stopped):",
            "emergency unlock",
        ),
        step("Then resume all agents:", "emergency clear"),
        step("Keep everything stopped: do nothing. It stays so, also over a restart.", ""),
    ]
}

fn circuit_breaker(told: &AlertEvent, agent: &str) -> Vec<Step> {
    let mut steps = vec![step("Look:", &format!("escalations list --agent {agent}"))];
    // The run without a name is extended as ''.
    let extend = format!("runs extend {agent} {}", shell_word(told.run.as_deref().unwrap_or_default()));
    steps.push(step("Give the run another full allowance:", &extend));
    steps.push(step("Take over by hand: the branch and the session are kept.", ""));
    steps
}

fn budget(told: &AlertEvent, agent: Option<&str>) -> Vec<Step> {
    let look = step("Look at what was spent:", "spend --by agent");
    let Some(agent) = agent else { return vec![look] };
    let raise = step("See where the budget is set, to change it:", &format!("policy show {agent}"));
    if told.detail == Detail::None {
        return vec![look, raise];
    }
    let is_spent = matches!(&told.detail, Detail::Budget(BudgetSeen { percent: 100.., .. }));
    let last = if is_spent {
        step("Keep it stopped: do nothing. Its requests are refused until the period ends.", "")
    } else {
        step("Stop it before it spends more:", &format!("agents deactivate {agent}"))
    };
    vec![look, raise, last]
}

fn failing(agent: &str) -> Vec<Step> {
    vec![
        step("Look:", &format!("agents show {agent}")),
        step("See what happened:", &format!("journal events --agent {agent}")),
        step("Stop it:", &format!("agents deactivate {agent}")),
    ]
}
