//! `estop journal events`: what happened, newest first; or as it happens.

use std::time::Duration;

use anyhow::Context;
use estop_config::printable::{escaped_within, named};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::Exit;
use crate::client::{Daemon, DaemonArgs, Listing, list_limit};
use crate::say;
use crate::table::{cell, each, list, moment};

/// Events shown where nobody says how many.
const LIMIT: usize = 50;
/// Events looked through for a time span.
const SINCE_MAX: usize = 10_000;
/// Longer details are cut; `--json` has them whole.
const DETAIL_MAX: usize = 200;
/// How often estop is asked for what is new.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Events asked for at a time while following. When more happen within an interval, that is said.
const NEW_MAX: usize = 500;

/// List what happened, newest first
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    estop journal events --since 1h\n  \
    estop journal events --agent my-agent --type kill_switch\n  \
    estop journal events --follow\n\n\
    Types: kill_switch, paused, would_have_stopped, nudged, run_tripped, run_escalated, run_extended, budget_warning, \
    budget_refused, activated, deactivated, resumed, policy_changed and others: one that is not known lists them all.")]
pub(super) struct Args {
    /// Of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Of this type, as kill_switch
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Not older than this: 30m, 2h, 7d, or a moment as 2026-11-15T10:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<Since>,
    /// Not later than this, written as for --since
    #[arg(long, value_name = "WHEN", value_parser = since, conflicts_with = "follow")]
    until: Option<Since>,
    /// Of this guard, as loop: what it did, or would have done
    #[arg(long, value_name = "GUARD")]
    guard: Option<String>,
    /// Maximum number of events; without it 50, and with --since 10000
    #[arg(long, value_name = "N", value_parser = list_limit)]
    limit: Option<usize>,
    /// Print new events as they happen, oldest first, until Ctrl-C; with --json one document per line
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// From when on.
#[derive(Clone, Copy, Debug)]
enum Since {
    Ago(SignedDuration),
    At(Timestamp),
}

fn since(text: &str) -> Result<Since, String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(Since::At(at));
    }
    let wrong = || "expected a time span as 30m, 2h or 7d, or a moment as 2026-11-15T10:00:00Z".to_owned();
    let unit = text.chars().next_back().ok_or_else(wrong)?;
    let count: i64 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| wrong())?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let all =
        count.checked_mul(seconds).filter(|all| (0..=100 * 365 * 86_400).contains(all)).ok_or_else(wrong)?;
    Ok(Since::Ago(SignedDuration::from_secs(all)))
}

impl Since {
    fn moment(self) -> anyhow::Result<Timestamp> {
        match self {
            Since::At(at) => Ok(at),
            Since::Ago(ago) => Timestamp::now().checked_sub(ago).context("this is too long ago"),
        }
    }
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let daemon = args.daemon.daemon()?;
    let limit = args.limit.unwrap_or(if args.since.is_some() { SINCE_MAX } else { LIMIT });
    let query = args.query()?;
    let events = ask(&daemon, &query, limit)?;
    if args.follow {
        return follow(&daemon, &query, &events);
    }
    let heading = ["record", "when", "type", "agent", "detail"];
    daemon.say(&events, |events| list(&events["events"], "No matching events.", heading, row))?;
    Ok(Exit::Fine)
}

fn row(event: &Value) -> [String; 5] {
    [
        cell(&event["seq"]),
        moment(&event["at"]),
        cell(&event["event_type"]),
        cell(&event["agent"]),
        detail(&event["detail"]),
    ]
}

/// What an event says: its sentence if it has one, else what is in it; `--json` has it as it is.
fn detail(detail: &Value) -> String {
    let sentence = ["reason", "text", "message", "summary"].iter().find_map(|key| detail[key].as_str());
    if let Some(sentence) = sentence {
        return escaped_within(sentence, DETAIL_MAX);
    }
    let Some(fields) = detail.as_object() else { return cell(detail) };
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let told = fields.iter().filter(|(_, value)| !value.is_null());
    let said = |(key, value): (&String, &Value)| match key.as_str() {
        "tool" => format!("tool={}", named(&plain(value))),
        _ => format!("{key}={}", plain(value)),
    };
    let parts: Vec<String> = told.map(said).collect();
    if parts.is_empty() { "–".to_owned() } else { escaped_within(&parts.join(" "), DETAIL_MAX) }
}

/// Its record.
fn seq(event: &Value) -> u64 {
    event["seq"].as_u64().unwrap_or(0)
}

impl Args {
    /// What is asked for. Spans of time end now, also while new events are followed.
    fn query(&self) -> anyhow::Result<Query> {
        let moment = |of: Option<Since>| of.map(Since::moment).transpose();
        Ok(vec![
            ("agent", self.agent.clone()),
            ("type", self.event_type.clone()),
            ("guard", self.guard.clone()),
            ("from", moment(self.since)?.map(|at| at.to_string())),
            ("to", moment(self.until)?.map(|at| at.to_string())),
        ])
    }
}

type Query = Vec<(&'static str, Option<String>)>;

fn ask(daemon: &Daemon, query: &Query, limit: usize) -> anyhow::Result<Value> {
    let query = query.clone();
    let limit = Some(limit);
    daemon.list(Listing { path: "/api/events", query, key: "events", cursor: "before", limit })
}

/// Prints what is there, and then what is new, until it is ended.
fn follow(daemon: &Daemon, query: &Query, first: &Value) -> anyhow::Result<Exit> {
    let mut news: Vec<Value> = each(&first["events"]).to_vec();
    // All events of a record come at once.
    let mut printed = 0;
    loop {
        for event in news.iter().rev().filter(|event| seq(event) > printed) {
            if daemon.json {
                say(&event.to_string())?;
            } else {
                say(&row(event).join("  "))?;
            }
        }
        printed = news.iter().map(seq).chain([printed]).max().unwrap_or(0);
        std::thread::sleep(POLL_INTERVAL);
        news = each(&ask(daemon, query, NEW_MAX)?["events"]).to_vec();
        if news.len() == NEW_MAX && news.iter().all(|event| seq(event) > printed) {
            eprintln!("estop: more than {NEW_MAX} events at once: those before are not shown.");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ui_2_an_event_is_said_in_words() {
        let said = [
            json!({"reason": "because\n", "cause": "loop"}),
            json!({"by": "ann", "note": null, "for_ms": 5, "gate": {"epoch": 1}}),
            json!({}),
            json!(null),
        ];
        let expected = ["because\\n", "by=ann for_ms=5 gate={\"epoch\":1}", "–", "–"];
        assert_eq!(said.each_ref().map(detail), expected);
    }

    #[test]
    fn ui_2_since_takes_spans_and_moments_and_refuses_the_rest() {
        assert!(matches!(since("30m"), Ok(Since::Ago(ago)) if ago == SignedDuration::from_secs(1_800)));
        assert!(matches!(since("7d"), Ok(Since::Ago(ago)) if ago == SignedDuration::from_secs(604_800)));
        assert!(matches!(since("2026-11-15T10:00:00Z"), Ok(Since::At(_))));
        for wrong in ["", "m", "5", "5y", "-5m", "99999999999999999999h", "9999999999d", "yesterday", "5µ"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }
}
