//! Writes what is proposed: laid over the rules in force, key by key, so that what was set before stays.

use estop_config::printable::escaped;
use http::Method;
use serde_json::Value;

use super::AgentReport;
use crate::client::{ClientError, Daemon, path};
use crate::confirm::confirmed;

/// What became of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// Nothing was written: nobody said yes.
    No,
    /// estop does not run.
    Unreachable,
    Yes,
}

/// Writes it if somebody says so. That estop does not run is an error only for who said so beforehand.
pub(super) fn write(
    daemon: Option<&Daemon>,
    agent: &AgentReport,
    yes: bool,
    is_json: bool,
) -> anyhow::Result<Written> {
    let Some(daemon) = daemon else { return Ok(Written::No) };
    let target = || path(&["agents", &agent.name, "policy"]);
    if !yes {
        match daemon.get(target()) {
            Err(error) if matches!(error.downcast_ref(), Some(ClientError::Unreachable(_))) => {
                return Ok(Written::Unreachable);
            }
            answer => drop(answer?),
        }
        if is_json || confirmed(&format!("Write this for {}?", escaped(&agent.name))) != Some(true) {
            return Ok(Written::No);
        }
    }
    daemon.send(Method::PATCH, target(), Some(&Value::Object(agent.proposal.change.clone())))?;
    Ok(Written::Yes)
}
