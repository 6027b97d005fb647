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
            vec![step("Test it now (only a test agent is stopped):", "prooftest")]
        }
        (AlertType::StuckWorker, _) => vec![
            step("See what is stuck, and check the disk:", "doctor"),
            step("The emergency stop still works:", "emergency kill"),
        ],
        (AlertType::AdminToken, _) => vec![
            step("Was it you? If not, stop everything:", "kill"),
            step("List the tokens, to revoke what is not yours:", "token list"),
        ],
        (AlertType::Checkpoint, _) => {
            vec![step("Compare it with the journal:", "journal verify")]
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
        ) => vec![step("See the state of everything:", "status")],
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
        step("Keep it stopped: do nothing. It stays stopped until somebody reactivates it.", ""),
    ]
}

fn paused(agent: &str, evidence: &str) -> Vec<Step> {
    vec![
        step("Look at the evidence:", evidence),
        step("Resume it:", &format!("agents resume {agent}")),
        step("Stop it:", &format!("agents deactivate {agent}")),
        step("Keep it paused: do nothing. Its requests are refused until somebody resumes it.", ""),
    ]
}

fn system_kill() -> Vec<Step> {
    vec![
        step("See who pressed it, and what is shut:", "emergency status"),
        step("When the cause is gone, step 1 of 2: unlock (agents stay stopped):", "emergency unlock"),
        step("Step 2 of 2: resume all agents:", "emergency clear"),
        step("Keep everything stopped: do nothing. It stays stopped, even after a restart.", ""),
    ]
}

fn circuit_breaker(told: &AlertEvent, agent: &str) -> Vec<Step> {
    let mut steps =
        vec![step("See what it did and what it needs:", &format!("escalations list --agent {agent}"))];
    // The run without a name is extended as ''.
    let extend = format!("runs extend {agent} {}", shell_word(told.run.as_deref().unwrap_or_default()));
    steps.push(step("Let the run go on with another full allowance:", &extend));
    steps.push(step("Or take over by hand: its branch and session are kept.", ""));
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
        step("See its state:", &format!("agents show {agent}")),
        step("See what happened:", &format!("journal events --agent {agent}")),
        step("Stop it:", &format!("agents deactivate {agent}")),
    ]
}
