//! Rules set by the API for one agent, over those of the file (`docs/decisions/0014`).
//!
//! They are one JSON object in the shape of the file's `policy:`. The store keeps the three keys of the kill switch in
//! columns of their own and the rest as text; this file takes them apart and puts them together, and nobody else does.

use estop_core::guard::Guard;
use estop_core::operator::Overrides;
use estop_core::policy::{Mode, Policy};
use estop_core::policy_file::PolicyIn;
use estop_core::policy_file::ThresholdTenths;
use estop_store::{Agent, StoreError};
use serde_json::{Map, Value};

use super::row::{self, Found};
use crate::input::parse_value;
use crate::output::tenths;
use crate::problem::Problem;
use crate::state::App;

const ENABLED: &str = "kill_switch_enabled";
const WINDOW: &str = "kill_switch_window_size";
const THRESHOLD: &str = "kill_switch_threshold";

/// Why the rules kept for an agent cannot be read.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct UnreadableRules(#[from] serde_path_to_error::Error<serde_json::Error>);

/// The rules kept for an agent. For the start: what comes out goes to `Operator::set_overrides`.
pub fn overrides_of(agent: &Agent) -> Result<Overrides, UnreadableRules> {
    let value = Value::Object(read(agent));
    let policy: PolicyIn = serde_path_to_error::deserialize(&value)?;
    Ok(Overrides { role: agent.role.clone(), policy })
}

/// The rules as one object.
pub(crate) fn read(agent: &Agent) -> Map<String, Value> {
    let kept = agent.policy_overrides.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let mut rules: Map<String, Value> = kept.unwrap_or_default();
    let columns = [
        (ENABLED, agent.kill_switch_enabled.map(Value::from)),
        (WINDOW, agent.kill_switch_window_size.map(Value::from)),
        (THRESHOLD, agent.kill_switch_threshold_tenths.map(|t| Value::from(tenths(t.into())))),
    ];
    rules.extend(columns.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    rules
}

/// Puts rules into the row. They must have been read as [`PolicyIn`] before.
pub(crate) fn write(agent: &mut Agent, mut rules: Map<String, Value>) {
    agent.kill_switch_enabled = rules.remove(ENABLED).and_then(|value| value.as_bool());
    let window = rules.remove(WINDOW).and_then(|value| value.as_u64());
    agent.kill_switch_window_size = window.and_then(|window| u8::try_from(window).ok());
    let threshold = rules.remove(THRESHOLD).and_then(|value| value.as_f64());
    agent.kill_switch_threshold_tenths = threshold.and_then(ThresholdTenths::of).map(ThresholdTenths::get);
    agent.policy_overrides = (!rules.is_empty()).then(|| Value::Object(rules).to_string());
}

/// The kill switch is `guards.loop` by another name (LD-2); whoever sets it by one name takes the other away.
pub(crate) fn forget_loop_guard(agent: &mut Agent) {
    let mut rules = read(agent);
    let Some(Value::Object(guards)) = rules.get_mut("guards") else { return };
    guards.remove("loop");
    if guards.is_empty() {
        rules.remove("guards");
    }
    write(agent, rules);
}

/// How often a row is read again that changed meanwhile.
const TRIES: usize = 5;

/// Changes an agent: checked first, then kept, then in force. Called while nobody else edits (`Shared::edit`): a row that
/// changes all the same had its agent stopped or started, which the change has nothing to do with.
pub(crate) fn update(
    app: &App,
    found: &Found,
    by: &str,
    change: impl Fn(&mut Agent),
) -> Result<Found, Problem> {
    let mut agent = row::stored(app, found)?;
    let mut tries = 1;
    let agent = loop {
        change(&mut agent);
        agent.updated_at = app.now();
        let rules = checked(&agent)?;
        app.operator.check_overrides(Some(&agent.name), &rules)?;
        match app.store_here().update_agent(&agent) {
            Err(StoreError::Conflict { .. }) if tries < TRIES => tries += 1,
            kept => break kept?,
        }
        let again = app.store_here().agent(found.name())?;
        agent = again.ok_or_else(|| Problem::not_found("agent", found.name()))?;
    };
    tell(app, &agent, by)?;
    row::find(app, found.name())
}

/// Puts what is kept of an agent into force.
pub(crate) fn tell(app: &App, agent: &Agent, by: &str) -> Result<(), Problem> {
    if app.operator.agent(&agent.name).is_none() {
        app.operator.add_agent(&agent.name)?;
    }
    app.operator.set_overrides(&agent.name, checked(agent)?, by)?;
    Ok(())
}

fn checked(agent: &Agent) -> Result<Overrides, Problem> {
    let policy: PolicyIn = parse_value(&Value::Object(read(agent)))?;
    Ok(Overrides { role: agent.role.clone(), policy })
}

/// The columns over rules of the file, for an agent that is not in memory.
pub(crate) fn lay_kill_switch(policy: &mut Policy, agent: &Agent) {
    if let Some(enabled) = agent.kill_switch_enabled {
        policy.modes[Guard::Loop] = if enabled { Mode::Enforce } else { Mode::Shadow };
    }
    if let Some(window) = agent.kill_switch_window_size {
        policy.loops.window_size = window;
    }
    if let Some(threshold) = agent.kill_switch_threshold_tenths {
        policy.loops.threshold_tenths = threshold;
    }
}
