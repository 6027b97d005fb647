//! Which agent a person should look at first, by what the API says of it: the order of the dashboard.

use serde_json::Value;

/// More is sooner: who was stopped by a guard, then who is refused, then who is watched, then who works; who was switched off by a
/// person comes last.
pub(crate) fn urgency(agent: &Value) -> u32 {
    let alarming = matches!(agent["mode"].as_str(), Some("LOOPING" | "RUNAWAY"));
    let standing = match (agent["deactivated_by"].as_str(), agent["paused"].as_bool()) {
        (Some("kill_switch"), _) => 10,
        (Some(_), _) => 0,
        (None, Some(true)) => 7,
        (None, _) => match agent["state"]["kind"].as_str() {
            Some("stopped") => 10,
            Some("budget_spent") => 9,
            Some("at_run_limit") => 8,
            Some("paused") => 7,
            Some("model_refused") => 6,
            Some("outside_hours") => 5,
            Some("cooling_down") => 4,
            Some("rate_limited") => 3,
            Some("watched") => 2,
            _ => 1,
        },
    };
    standing * 2 + u32::from(alarming)
}

#[cfg(test)]
mod tests {
    use super::*;
    use estop_core::agent::standing::Standing;
    use estop_core::agent::status::{AgentStatus, StatusKind};
    use serde_json::json;

    #[test]
    fn ev_2_the_order_is_that_of_the_core() {
        let kinds = [
            StatusKind::Active,
            StatusKind::Watched,
            StatusKind::RateLimited,
            StatusKind::CoolingDown,
            StatusKind::OutsideHours,
            StatusKind::ModelRefused,
            StatusKind::Paused,
            StatusKind::AtRunLimit,
            StatusKind::BudgetSpent,
            StatusKind::Stopped,
            StatusKind::Shut,
        ];
        for kind in kinds {
            let status = AgentStatus { kind, ..AgentStatus::active() };
            let agent = json!({"state": {"kind": kind.name()}});
            assert_eq!(urgency(&agent), status.urgency(Standing::Active) * 2, "{kind:?}");
        }
    }
}
