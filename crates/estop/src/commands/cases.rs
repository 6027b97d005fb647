//! `estop incidents list` and `estop escalations list`: what was stopped, and where a person is needed.

use clap::builder::PossibleValuesParser;
use serde_json::Value;

use super::Exit;
use super::daemon::{DaemonArgs, Listing};
use super::table::{cell, list, moment};
use crate::printable::{escaped, escaped_within};

/// Of a summary, in a table.
const SUMMARY_CHARS: usize = 80;

/// Look at what was stopped
#[derive(Debug, clap::Args)]
pub struct IncidentsArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// Look where a person is needed
#[derive(Debug, clap::Args)]
pub struct EscalationsArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    daemon: DaemonArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List them, newest first
    List(Filter),
}

#[derive(Debug, clap::Args)]
struct Filter {
    /// Of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// In this status
    #[arg(long, value_parser = PossibleValuesParser::new(["open", "closed"]))]
    status: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

impl Filter {
    fn of<'a>(&self, path: &'a str, key: &'a str) -> Listing<'a> {
        let query = vec![("agent", self.agent.clone()), ("status", self.status.clone())];
        Listing { path, query, key, cursor: "before", limit: Some(self.limit) }
    }
}

/// Runs `estop incidents`.
pub fn incidents(args: &IncidentsArgs) -> anyhow::Result<Exit> {
    let Command::List(filter) = &args.command;
    let daemon = args.daemon.daemon()?;
    let incidents = daemon.list(filter.of("/api/incidents", "incidents"))?;
    let heading = ["id", "opened", "agent", "run", "kind", "status", "summary"];
    daemon.say(&incidents, |incidents| {
        list(&incidents["incidents"], "No incidents.", heading, |incident| {
            [
                cell(&incident["id"]),
                moment(&incident["opened_at"]),
                cell(&incident["agent"]),
                cell(&incident["run"]),
                cell(&incident["kind"]),
                cell(&incident["status"]),
                cell(&incident["summary"]),
            ]
        })
    })?;
    Ok(Exit::Fine)
}

/// Runs `estop escalations`.
pub fn escalations(args: &EscalationsArgs) -> anyhow::Result<Exit> {
    let Command::List(filter) = &args.command;
    let daemon = args.daemon.daemon()?;
    let escalations = daemon.list(filter.of("/api/escalations", "escalations"))?;
    let heading =
        ["id", "opened", "agent", "run", "status", "owner", "reason", "branch", "session", "summary"];
    daemon.say(&escalations, |escalations| {
        let table = list(&escalations["escalations"], "Nobody is needed.", heading, |escalation| {
            [
                cell(&escalation["id"]),
                moment(&escalation["opened_at"]),
                cell(&escalation["agent"]),
                cell(&escalation["run"]),
                cell(&escalation["status"]),
                cell(&escalation["owner"]),
                cell(&escalation["reason"]),
                cell(&escalation["branch"]),
                cell(&escalation["session"]),
                short(&escalation["summary"]),
            ]
        });
        match newest_open(escalations) {
            Some(next) => format!("{table}\n\n{next}"),
            None => table,
        }
    })?;
    Ok(Exit::Fine)
}

/// What to do about the newest that is open.
fn newest_open(escalations: &Value) -> Option<String> {
    let all = escalations["escalations"].as_array()?;
    let open = all.iter().find(|escalation| escalation["status"] == "open")?;
    Some(format!("{}: {}", cell(&open["id"]), escaped(open["next"].as_str()?)))
}

/// The beginning of a text, on one line; `--json` has all of it.
fn short(text: &Value) -> String {
    let Some(text) = text.as_str() else { return cell(text) };
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    escaped_within(&line, SUMMARY_CHARS)
}
