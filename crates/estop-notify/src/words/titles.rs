//! The first line of each message: the only one a locked phone shows.

use crate::alert_event::{AlertEvent, AlertType, Detail};
use crate::plain::one_line;
use crate::words::NAME_MAX;

pub(super) fn alert(told: &AlertEvent) -> String {
    let agent = agent(told);
    match told.alert {
        AlertType::KillSwitch => format!("{agent} was stopped: {}", because(&told.cause)),
        AlertType::CircuitBreaker => circuit_breaker(told, &agent),
        AlertType::Budget => budget(told, &agent),
        AlertType::ErrorRate => format!("{agent} fails often: {}", or(&told.cause, "many requests fail")),
        AlertType::AgentDown => format!("{agent} is silent: {}", or(&told.cause, "it no longer calls")),
        AlertType::Health => format!("{agent} was paused: {}", because(&told.cause)),
        AlertType::SystemKill => system_kill(told),
        AlertType::Watchdog => {
            format!("{agent} ran away and was stopped: {}", or(&told.cause, "too many calls a minute"))
        }
        AlertType::ProoftestOverdue => {
            format!("The emergency stop needs a test: {}", or(&told.cause, "the last one is too long ago"))
        }
        AlertType::StuckWorker => {
            format!("estop itself is stuck: {}", or(&told.cause, "a part of it does not run"))
        }
        AlertType::AdminToken => ADMIN_TOKEN.to_owned(),
        AlertType::Checkpoint => "Checkpoint of the journal".to_owned(),
    }
}

/// It does not last: nothing is told of its end.
const ADMIN_TOKEN: &str = "A new admin token was made on estop's machine without the old one";

pub(super) fn recovery(told: &AlertEvent) -> String {
    let agent = agent(told);
    match told.alert {
        AlertType::KillSwitch | AlertType::Watchdog => reactivated(&agent, told),
        AlertType::CircuitBreaker => {
            format!("Resolved: {}", in_sentence(told))
        }
        AlertType::Budget => format!("{agent} is within budget again"),
        AlertType::ErrorRate => format!("{agent} no longer fails"),
        AlertType::AgentDown => format!("{agent} calls again"),
        AlertType::Health => match &told.by {
            Some(by) => format!("{agent} was resumed by {}", one_line(by, 80)),
            None => format!("{agent} was resumed"),
        },
        AlertType::SystemKill => lifted(told),
        AlertType::ProoftestOverdue => "The emergency stop was tested and works".to_owned(),
        AlertType::StuckWorker => format!("estop runs again: {}", or(&told.cause, "no part of it is stuck")),
        AlertType::AdminToken => ADMIN_TOKEN.to_owned(),
        AlertType::Checkpoint => "Checkpoint of the journal".to_owned(),
    }
}

/// An agent works again, and who saw to it.
fn reactivated(agent: &str, told: &AlertEvent) -> String {
    match &told.by {
        Some(by) => format!("{agent} was reactivated by {}", one_line(by, 80)),
        None => format!("{agent} was reactivated"),
    }
}

fn system_kill(told: &AlertEvent) -> String {
    let cause = or(&told.cause, "manual");
    match &told.detail {
        Detail::Shut(channels) => format!("EMERGENCY STOP of {} ({cause})", one_line(channels, 80)),
        Detail::None | Detail::Budget(_) | Detail::Escalation(_) | Detail::Checkpoint { .. } => {
            format!("EMERGENCY STOP: everything is stopped ({cause})")
        }
    }
}

fn lifted(told: &AlertEvent) -> String {
    match &told.detail {
        Detail::Shut(channels) => {
            format!("The emergency stop was cleared, except for {}", one_line(channels, 80))
        }
        Detail::None | Detail::Budget(_) | Detail::Escalation(_) | Detail::Checkpoint { .. } => {
            "The emergency stop was cleared: agents run again".to_owned()
        }
    }
}

fn circuit_breaker(told: &AlertEvent, agent: &str) -> String {
    let limit = match &told.detail {
        Detail::Escalation(seen) => seen.limit.reason(),
        Detail::None | Detail::Budget(_) | Detail::Shut(_) | Detail::Checkpoint { .. } => {
            or(&told.cause, "a limit was reached")
        }
    };
    format!("{agent} needs a human: {limit}")
}

fn budget(told: &AlertEvent, agent: &str) -> String {
    let percent = match &told.detail {
        Detail::Budget(seen) => seen.percent,
        Detail::None if told.cause.ends_with("waits") => {
            return format!("{agent} is kept waiting by the budget: requests in progress reserve the rest");
        }
        Detail::None if !told.cause.is_empty() => return format!("{agent} is refused by the budget"),
        Detail::None | Detail::Escalation(_) | Detail::Shut(_) | Detail::Checkpoint { .. } => 0,
    };
    if percent >= 100 {
        return format!("{agent} has used up the budget and is refused");
    }
    if percent == 0 {
        return format!("{agent} has used up a share of the budget");
    }
    format!("{agent} has used {percent} % of the budget")
}

/// The agent at the beginning of a sentence.
fn agent(told: &AlertEvent) -> String {
    match &told.agent {
        Some(agent) => format!("Agent {}", one_line(agent, NAME_MAX)),
        None => "The whole fleet".to_owned(),
    }
}

fn in_sentence(told: &AlertEvent) -> String {
    match &told.agent {
        Some(agent) => format!("agent {}", one_line(agent, NAME_MAX)),
        None => "the fleet".to_owned(),
    }
}

/// Causes of the journal in words.
fn because(cause: &str) -> String {
    let words = match cause {
        "loop" => "it goes in circles",
        "health" => "its health fell too low",
        "tool_failures" => "too many of its tool calls failed",
        "request_failures" => "too many of its requests failed",
        "looping" => "it kept looping or running away",
        "watchdog" => "it calls far too often",
        "chant" | "chanting" => "it says the same words over and over",
        "churn" => "its tool calls keep failing in the same way",
        "manual" => "somebody switched it off",
        other => return or(other, "a guard tripped"),
    };
    words.to_owned()
}

fn or(text: &str, otherwise: &str) -> String {
    let text = one_line(text, 160);
    if text.is_empty() { otherwise.to_owned() } else { text }
}
