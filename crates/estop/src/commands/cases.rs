//! `estop incidents list` and `estop escalations list`: what was stopped, and where a person is needed.

use clap::builder::PossibleValuesParser;

use super::Exit;
use super::daemon::{DaemonArgs, Listing};
use super::table::{cell, list, moment};

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
    let heading = ["id", "opened", "agent", "run", "status", "owner", "reason"];
    daemon.say(&escalations, |escalations| {
        list(&escalations["escalations"], "Nobody is needed.", heading, |escalation| {
            [
                cell(&escalation["id"]),
                moment(&escalation["opened_at"]),
                cell(&escalation["agent"]),
                cell(&escalation["run"]),
                cell(&escalation["status"]),
                cell(&escalation["owner"]),
                cell(&escalation["reason"]),
            ]
        })
    })?;
    Ok(Exit::Fine)
}
