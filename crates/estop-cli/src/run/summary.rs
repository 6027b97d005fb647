//! The end of a run: completed at the daemon, and summed up for the person.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use estop_config::printable::escaped;
use estop_core::printed_command::Commands;
use http::Method;
use serde_json::{Value, json};

use super::job::Done;
use crate::client::{Ask, Client, ClientError, path, with_query};

/// A daemon that takes longer is in trouble, and the person waits.
const TIMEOUT: Duration = Duration::from_secs(5);
/// What is only nice to know is not waited for.
const SOON: Duration = Duration::from_millis(500);
/// Spend follows within a tenth of a second.
const BOOKED_TRIES: usize = 10;
const BOOKED_AGAIN: Duration = Duration::from_millis(30);

/// What the daemon knows of the run.
pub(super) struct Summary {
    id: String,
    /// The run; null if nobody answered.
    run: Value,
    /// Requests to models.
    model_calls: Option<u64>,
    /// Guards that only watch and would have stopped it.
    would_have: Vec<String>,
    /// Why there is nothing to show.
    problem: Option<String>,
}

/// Whether a loop stops the agent; `None` if nobody answers in time.
pub(super) fn are_loops_stopped(socket: &Path, agent: &str) -> Option<bool> {
    let client = Client::to_socket(socket).ok()?.within(SOON);
    let found = client.ask(&Ask::new(Method::GET, path(&["agents", agent, "kill-switch"]))).ok()?;
    found.json["enabled"].as_bool()
}

/// Turns the agent's loop guard on.
pub(super) fn stop_loops(socket: &Path, agent: &str) -> anyhow::Result<()> {
    let client = Client::to_socket(socket)?.within(TIMEOUT);
    let (target, body) = (path(&["agents", agent, "kill-switch"]), json!({ "enabled": true }));
    client.ask(&Ask { body: Some(&body), ..Ask::new(Method::PATCH, target) })?;
    Ok(())
}

/// Completes the run. What it used is asked for only if somebody reads it.
pub(super) fn close(socket: &Path, id: &str, is_read: bool) -> Summary {
    let mut summary = Summary {
        id: id.to_owned(),
        run: Value::Null,
        model_calls: None,
        would_have: Vec::new(),
        problem: None,
    };
    let Ok(client) = Client::to_socket(socket).map(|client| client.within(TIMEOUT)) else { return summary };
    let completed = client.ask(&Ask::new(Method::POST, path(&["runs", id, "complete"])));
    summary.run = match completed {
        Ok(answer) => answer.json,
        // It was over before: escalated, or completed by somebody else.
        Err(ClientError::Refused(_)) => {
            let found = client.ask(&Ask::new(Method::GET, path(&["runs", id])));
            found.map(|answer| answer.json).unwrap_or_default()
        }
        Err(ClientError::Unreachable(why)) => {
            summary.problem = Some(why);
            return summary;
        }
    };
    if is_read {
        summary.model_calls = model_calls(&client, &summary.run);
        summary.would_have = would_have(&client, &summary.run).unwrap_or_default();
    }
    summary
}

/// Requests of the run. They are booked a moment after they are counted: waited for, not for ever.
fn model_calls(client: &Client, run: &Value) -> Option<u64> {
    let agent = run["agent"].as_str()?.to_owned();
    let day = run["started_at"].as_str().and_then(|moment| moment.get(..10)).map(str::to_owned);
    let query = [
        ("by", Some("run".to_owned())),
        ("agent", Some(agent)),
        ("from", day),
        ("limit", Some("500".to_owned())),
    ];
    let target = with_query("/api/spend", &query);
    let mut requests = None;
    for _ in 0..BOOKED_TRIES {
        let sums = client.ask(&Ask::new(Method::GET, target.clone())).ok()?.json;
        let row = sums["spend"]
            .as_array()?
            .iter()
            .find(|row| row["key"] == run["run"])
            .cloned()
            .unwrap_or_default();
        let booked =
            ["input_tokens", "output_tokens"].iter().filter_map(|key| row[key].as_u64()).sum::<u64>();
        requests = Some(row["requests"].as_u64().unwrap_or(0));
        if booked >= run["tokens"].as_u64().unwrap_or(0) {
            break;
        }
        std::thread::sleep(BOOKED_AGAIN);
    }
    requests
}

/// Guards that would have stopped the run if they were enforced, each once.
fn would_have(client: &Client, run: &Value) -> Option<Vec<String>> {
    let query = [
        ("agent", Some(run["agent"].as_str()?.to_owned())),
        ("type", Some("would_have_stopped".to_owned())),
        ("limit", Some("500".to_owned())),
    ];
    let found = client.ask(&Ask::new(Method::GET, with_query("/api/events", &query))).ok()?.json;
    let started = run["started_at"].as_str()?;
    let of_run = |event: &&Value| {
        event["detail"]["run"] == run["run"] && event["at"].as_str().is_some_and(|at| at >= started)
    };
    let guards = found["events"].as_array()?.iter().filter(of_run);
    let guards: BTreeSet<String> =
        guards.filter_map(|event| Some(event["detail"]["guard"].as_str()?.to_owned())).collect();
    Some(guards.into_iter().collect())
}

impl Summary {
    /// For the person.
    pub(super) fn text(&self, done: &Done, commands: &Commands) -> String {
        let mut out = String::new();
        let mut say = |line: String| {
            out += &format!("estop: {line}\n");
        };
        if let Some(why) = &done.why_ended {
            say(format!("the program was ended: {}", escaped(why)));
        }
        if let Some(ended) = &done.ended {
            if done.why_ended.is_none() && !ended.told.is_empty() {
                let more = if ended.told_more > 0 {
                    format!(" and {} more", ended.told_more)
                } else {
                    String::new()
                };
                say(format!("ended what the program left behind: {}{more}", escaped(&ended.told.join(", "))));
            }
            if !ended.survivors.is_empty() {
                say(format!("these processes do NOT die: {:?}", ended.survivors));
            }
        }
        if done.lost > 0 {
            say(format!("the daemon was gone {} times while the program ran.", done.lost));
        }
        let took = shown(done.took);
        if let Some(why) = &self.problem {
            say(format!("run {} ended after {took}. What it used is not known: {}", self.id, escaped(why)));
            return out;
        }
        let run = &self.run;
        let count = |key: &str| run[key].as_u64().unwrap_or(0);
        let calls = self.model_calls.map(|calls| format!("{calls} model calls, ")).unwrap_or_default();
        let usd = run["spent_usd"].as_f64().unwrap_or(0.0);
        say(format!(
            "run {} ended after {took}: {calls}{} tool calls, {} turns, ${usd:.4}, {} tokens.",
            self.id,
            count("tool_calls"),
            count("turns"),
            count("tokens")
        ));
        if !self.would_have.is_empty() {
            let enforce = match self.would_have.iter().any(|guard| guard == "loop") {
                true => format!(" To have loops stopped: {}.", commands.stop_loops(text(run, "agent"))),
                false => String::new(),
            };
            say(format!(
                "it was only watched, and would have been stopped by: {}.{enforce}",
                escaped(&self.would_have.join(", "))
            ));
        }
        if run["tripped"] == true {
            say(format!(
                "it reached a limit and is {}. More: {}. To give it another full allowance: {}.",
                text(run, "state"),
                commands.escalations(text(run, "agent")),
                commands.extend(text(run, "agent"), run["run"].as_str()),
            ));
        }
        out
    }

    /// For machines.
    pub(super) fn json(&self, done: &Done) -> Value {
        let ended = done.ended.as_ref();
        json!({
            "id": self.id,
            "exit_code": done.code,
            "took_ms": u64::try_from(done.took.as_millis()).unwrap_or(u64::MAX),
            "ended": done.why_ended,
            "left_behind": ended.filter(|_| done.why_ended.is_none()).map(|ended| &ended.told),
            "survivors": ended.map(|ended| &ended.survivors),
            "daemon_lost": done.lost,
            "model_calls": self.model_calls,
            "would_have_been_stopped_by": self.would_have,
            "run": self.run,
        })
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("over")
}

fn shown(took: Duration) -> String {
    let seconds = took.as_secs();
    match seconds {
        0..60 => format!("{:.1} s", took.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}
