//! What a person can do: look, let it go on, keep it stopped. Commands can be copied as they stand.

use crate::happening::{AlertType, BudgetSeen, Detail, Happening};
use crate::message::Step;
use crate::plain::shell_word;

pub(super) fn steps(told: &Happening) -> Vec<Step> {
    let agent = told.agent.as_deref().map(shell_word);
    match (told.alert, agent) {
        (AlertType::SystemKill, _) => system_kill(),
        (AlertType::ProoftestOverdue, _) => {
            vec![step("Test it now; nobody else is stopped:", "estop prooftest")]
        }
        (AlertType::Checkpoint, _) => {
            vec![step("Compare with the journal:", "estop journal verify")]
        }
        (AlertType::CircuitBreaker, Some(agent)) => circuit_breaker(told, &agent),
        (AlertType::KillSwitch | AlertType::Watchdog, Some(agent)) => stopped(&agent),
        (AlertType::Budget, agent) => budget(told, agent.as_deref()),
        (AlertType::ErrorRate | AlertType::AgentDown | AlertType::Health, Some(agent)) => failing(&agent),
        (
            AlertType::KillSwitch
            | AlertType::Watchdog
            | AlertType::CircuitBreaker
            | AlertType::ErrorRate
            | AlertType::AgentDown
            | AlertType::Health,
            None,
        ) => vec![step("Look:", "estop status")],
    }
}

fn step(say: &str, command: &str) -> Step {
    Step { say: say.to_owned(), command: command.to_owned() }
}

fn stopped(agent: &str) -> Vec<Step> {
    vec![
        step("Look at the evidence:", &format!("estop incidents list --agent {agent}")),
        step("Let it work again:", &format!("estop agents activate {agent}")),
        step("Keep it stopped: do nothing. It stays off until somebody activates it.", ""),
    ]
}

fn system_kill() -> Vec<Step> {
    vec![
        step("Look:", "estop emergency status"),
        step(
            "When the cause is gone, first let people look around (agents stay stopped):",
            "estop emergency restart",
        ),
        step("Then let agents work again:", "estop emergency clear"),
        step("Keep everything stopped: do nothing. It stays so, also over a restart.", ""),
    ]
}

fn circuit_breaker(told: &Happening, agent: &str) -> Vec<Step> {
    let mut steps = vec![step("Look:", &format!("estop escalations list --agent {agent}"))];
    if let Some(run) = told.run.as_deref() {
        let extend = format!("estop runs extend {agent} {}", shell_word(run));
        steps.push(step("Give the run another full allowance:", &extend));
    }
    steps.push(step("Take over by hand: the branch and the session are kept.", ""));
    steps
}

fn budget(told: &Happening, agent: Option<&str>) -> Vec<Step> {
    let look = step("Look at what was spent:", "estop spend --by agent");
    let Some(agent) = agent else { return vec![look] };
    let raise = step("See where the budget is set, to change it:", &format!("estop policy show {agent}"));
    let is_spent = matches!(&told.detail, Detail::Budget(BudgetSeen { percent: 100.., .. }));
    let last = if is_spent {
        step("Keep it stopped: do nothing. Its requests are refused until the period ends.", "")
    } else {
        step("Stop it before it spends more:", &format!("estop agents deactivate {agent}"))
    };
    vec![look, raise, last]
}

fn failing(agent: &str) -> Vec<Step> {
    vec![
        step("Look:", &format!("estop agents show {agent}")),
        step("See what happened:", &format!("estop journal events --agent {agent}")),
        step("Stop it:", &format!("estop agents deactivate {agent}")),
    ]
}
