//! `estop incidents …` and `estop escalations …`: what was stopped, where a person is needed, and closing what was looked at.

use clap::builder::PossibleValuesParser;
use estop_config::printable::{escaped, escaped_within};
use http::Method;
use serde_json::{Value, json};

use super::Exit;
use super::table::{cell, list, moment};
use crate::client::{Daemon, DaemonArgs, Listing, path};

/// Of a summary, in a table.
const SUMMARY_CHARS: usize = 80;

/// Look at what was stopped
#[derive(Debug, clap::Args)]
pub struct IncidentsArgs {
    #[command(subcommand)]
    command: IncidentsCommand,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// Look where a person is needed
#[derive(Debug, clap::Args)]
pub struct EscalationsArgs {
    #[command(subcommand)]
    command: EscalationsCommand,
    #[command(flatten)]
    daemon: DaemonArgs,
}

#[derive(Debug, clap::Subcommand)]
enum IncidentsCommand {
    /// List them, newest first
    List(Filter),
    /// Close one; the agent stays as it is
    Close(CaseArgs),
}

#[derive(Debug, clap::Subcommand)]
enum EscalationsCommand {
    /// List them, newest first
    List(Filter),
    /// Close one; the run stays at its limit
    Resolve(CaseArgs),
}

#[derive(Debug, clap::Args)]
struct CaseArgs {
    /// Its id, as the list shows it
    id: String,
    /// What was found out
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
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
    let daemon = args.daemon.daemon()?;
    let filter = match &args.command {
        IncidentsCommand::List(filter) => filter,
        IncidentsCommand::Close(case) => {
            let mut change = json!({"status": "closed"});
            case.note.iter().for_each(|note| change["resolution"] = json!(note));
            return close(&daemon, "incidents", &case.id, &change);
        }
    };
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
    let daemon = args.daemon.daemon()?;
    let filter = match &args.command {
        EscalationsCommand::List(filter) => filter,
        EscalationsCommand::Resolve(case) => {
            let mut change = json!({"resolved": true});
            case.note.iter().for_each(|note| change["notes"] = json!(note));
            return close(&daemon, "escalations", &case.id, &change);
        }
    };
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

/// Closes a case, and says what that does not release.
fn close(daemon: &Daemon, kind: &str, id: &str, change: &Value) -> anyhow::Result<Exit> {
    let closed = daemon.send(Method::PATCH, path(&[kind, id]), Some(change))?;
    daemon.say(&closed, |closed| {
        let next = closed["next"].as_str().map(|next| format!(" {}", escaped(next))).unwrap_or_default();
        format!("Closed {}.{next}", escaped(id))
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
