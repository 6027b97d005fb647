//! What the command line asks for, checked: who runs, with which limits, for what.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;

use anyhow::Context;
use serde_json::{Map, Value, json};

use super::{Args, project};
use crate::hook::branch;

/// The limits a run can have of its own.
const LIMITS: &[&str] =
    &["max_iterations", "max_tool_calls", "max_turns", "max_active_duration", "max_sleep_duration"];
/// Bytes of a ticket: 256 bits.
const TICKET_BYTES: usize = 32;
/// Bytes that tell runs apart.
const RUN_BYTES: usize = 4;

/// What is asked for.
pub(super) struct RunOptions {
    pub(super) agent: String,
    pub(super) attended: bool,
    pub(super) data_dir: Option<PathBuf>,
    pub(super) config: Option<PathBuf>,
    run: String,
    role: Option<String>,
    issue: Option<String>,
    branch: Option<String>,
    limits: Map<String, Value>,
    labels: BTreeMap<String, String>,
}

impl RunOptions {
    pub(super) fn read(args: &Args) -> anyhow::Result<RunOptions> {
        let folder = std::env::current_dir().context("the working folder cannot be read")?;
        let agent = match &args.agent {
            Some(agent) => agent.clone(),
            None => project::agent_name(&folder),
        };
        let program = args.command.first().map(|program| project::base_name(program)).unwrap_or_default();
        let run = match &args.run {
            Some(run) => run.clone(),
            None => format!("{}-{}", project::fit(&program, 40), random_hex::<RUN_BYTES>()?),
        };
        let (data_dir, config) = args.place.named();
        let absolute = |path: Option<PathBuf>| path.map(std::path::absolute).transpose();
        Ok(RunOptions {
            agent,
            attended: std::io::stdin().is_terminal(),
            data_dir: absolute(data_dir)?,
            config: absolute(config)?,
            run,
            role: args.role.clone(),
            issue: args.issue.clone(),
            branch: branch::branch(&folder),
            limits: limits(&args.limits)?,
            labels: labels(&args.labels)?,
        })
    }

    /// A new ticket: whoever shows it acts as this run.
    pub(super) fn ticket(&self) -> anyhow::Result<String> {
        random_hex::<TICKET_BYTES>()
    }

    /// What the daemon is told.
    pub(super) fn about(&self, ticket: &str) -> Value {
        use sha2::{Digest, Sha256};
        let digest: [u8; 32] = Sha256::digest(ticket.as_bytes()).into();
        json!({
            "agent": self.agent,
            "run": self.run,
            "role": self.role,
            "attended": self.attended,
            "kind": "program",
            "pid": std::process::id(),
            "ticket_sha256": hex(&digest),
            "issue": self.issue,
            "branch": self.branch,
            "limits": self.limits,
            "labels": self.labels,
        })
    }
}

fn limits(given: &[String]) -> anyhow::Result<Map<String, Value>> {
    let mut limits = Map::new();
    for limit in given {
        let known =
            || format!("limits are {}; a value is a whole number from 1 on, or off", LIMITS.join(", "));
        let (key, value) = limit.split_once('=').with_context(|| format!("--limit {limit}: {}", known()))?;
        anyhow::ensure!(LIMITS.contains(&key), "--limit {limit}: there is no limit `{key}`; {}", known());
        let number = value.parse::<u32>().ok().filter(|number| *number > 0).map(Value::from);
        let value = number.or_else(|| (value == "off").then(|| "off".into()));
        let value = value.with_context(|| format!("--limit {limit}: {}", known()))?;
        anyhow::ensure!(limits.insert(key.to_owned(), value).is_none(), "--limit {key} is given twice");
    }
    Ok(limits)
}

fn labels(given: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    for label in given {
        let pair = label.split_once('=').filter(|(key, value)| !key.is_empty() && !value.is_empty());
        let (key, value) = pair.with_context(|| format!("--label {label}: write it as team=core"))?;
        labels.insert(key.to_owned(), value.to_owned());
    }
    Ok(labels)
}

fn random_hex<const BYTES: usize>() -> anyhow::Result<String> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("the system gave no random numbers: {error}"))?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tl_2_limits_that_cannot_be_are_refused_with_the_list() {
        let read = |limit: &str| limits(&[limit.to_owned()]).map_err(|error| error.to_string());
        assert_eq!(read("max_tool_calls=50").map(|read| read["max_tool_calls"].clone()), Ok(json!(50)));
        assert_eq!(read("max_turns=off").map(|read| read["max_turns"].clone()), Ok(json!("off")));
        for bad in ["max_tool_calls=0", "max_tool_calls=-1", "max_tool_calls", "max_calls=5", "max_turns=1.5"]
        {
            let error = read(bad).expect_err(bad);
            assert!(error.contains(bad) && error.contains("max_sleep_duration"), "{error}");
        }
    }
}
