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
        AlertType::ErrorRate => {
            format!("{agent} is failing: {}", or(&told.cause, "many of its requests fail"))
        }
        AlertType::AgentDown => {
            format!("{agent} is silent: {}", or(&told.cause, "it has sent no request for too long"))
        }
        AlertType::Health => format!("{agent} was paused: {}", because(&told.cause)),
        AlertType::SystemKill => system_kill(told),
        AlertType::Watchdog => {
            format!("{agent} was stopped as a runaway: {}", or(&told.cause, "too many calls a minute"))
        }
        AlertType::ProoftestOverdue => {
            format!(
                "The emergency stop is due for a test: {}",
                or(&told.cause, "the last one is too long ago")
            )
        }
        AlertType::StuckWorker => {
            format!("estop itself is stuck: {}", or(&told.cause, "a part of it has stopped working"))
        }
        AlertType::AdminToken => ADMIN_TOKEN.to_owned(),
        AlertType::Checkpoint => CHECKPOINT.to_owned(),
    }
}

const CHECKPOINT: &str = "Journal checkpoint";

/// It does not last: nothing is told of its end.
const ADMIN_TOKEN: &str = "A new admin token was created on estop's machine without the old one";

pub(super) fn recovery(told: &AlertEvent) -> String {
    let agent = agent(told);
    match told.alert {
        AlertType::KillSwitch | AlertType::Watchdog => format!("{agent} was reactivated{}", by(told)),
        AlertType::CircuitBreaker => format!("{agent} no longer needs a human"),
        AlertType::Budget => {
            format!("{agent} {} within budget again", if told.agent.is_some() { "is" } else { "are" })
        }
        AlertType::ErrorRate => format!("{agent} is no longer failing"),
        AlertType::AgentDown => format!("{agent} sends requests again"),
        AlertType::Health => format!("{agent} was resumed{}", by(told)),
        AlertType::SystemKill => lifted(told),
        AlertType::ProoftestOverdue => "The emergency stop was tested and works".to_owned(),
        AlertType::StuckWorker => {
            format!("estop is working again: {}", or(&told.cause, "no part of it is stuck"))
        }
        AlertType::AdminToken => ADMIN_TOKEN.to_owned(),
        AlertType::Checkpoint => CHECKPOINT.to_owned(),
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
            format!("The emergency stop was cleared, but not for {}", one_line(channels, 80))
        }
        Detail::None | Detail::Budget(_) | Detail::Escalation(_) | Detail::Checkpoint { .. } => {
            "The emergency stop was cleared: agents can work again".to_owned()
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
            let are = if told.agent.is_some() { "is" } else { "are" };
            return format!(
                "{agent} {are} waiting for budget: the rest is reserved for requests in progress"
            );
        }
        Detail::None if !told.cause.is_empty() => {
            return format!("A request of {} was refused: it does not fit the budget", in_sentence(told));
        }
        Detail::None | Detail::Escalation(_) | Detail::Shut(_) | Detail::Checkpoint { .. } => 0,
    };
    let (have, their) = if told.agent.is_some() { ("has", "its") } else { ("have", "their") };
    if percent >= 100 {
        return format!("{agent} {have} spent {their} budget: requests are refused");
    }
    if percent == 0 {
        return format!("{agent} {have} used part of {their} budget");
    }
    format!("{agent} {have} used {percent} % of {their} budget")
}

/// The agent at the beginning of a sentence.
fn agent(told: &AlertEvent) -> String {
    match &told.agent {
        Some(agent) => format!("Agent {}", one_line(agent, NAME_MAX)),
        None => "All agents together".to_owned(),
    }
}

fn in_sentence(told: &AlertEvent) -> String {
    match &told.agent {
        Some(agent) => format!("agent {}", one_line(agent, NAME_MAX)),
        None => "the agents".to_owned(),
    }
}

/// The person, at the end of a sentence.
fn by(told: &AlertEvent) -> String {
    told.by.as_deref().map(|by| format!(" by {}", one_line(by, NAME_MAX))).unwrap_or_default()
}

/// Causes of the journal in words.
fn because(cause: &str) -> String {
    let words = match cause {
        "loop" => "stuck in a loop",
        "health" => "its health fell too low",
        "tool_failures" => "too many of its tool calls failed",
        "request_failures" => "too many of its requests failed",
        "looping" => "it kept looping or running away",
        "watchdog" => "it sends far too many requests",
        "chant" | "chanting" => "it repeats the same words over and over",
        "churn" => "its tool calls keep failing in the same way",
        "manual" => "a person deactivated it",
        other => return or(other, "a guard tripped"),
    };
    words.to_owned()
}

fn or(text: &str, otherwise: &str) -> String {
    let text = one_line(text, 160);
    if text.is_empty() { otherwise.to_owned() } else { text }
}
