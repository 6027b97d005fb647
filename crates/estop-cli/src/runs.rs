//! `estop runs …`: runs of agents, and another allowance for one that reached a limit (CB-7).

use clap::builder::NonEmptyStringValueParser;
use estop_config::printable::escaped;
use http::Method;

use super::Exit;
use super::table::{cell, dollars, list as table_of, moment};
use crate::client::{Daemon, DaemonArgs, Listing, list_limit, path};

/// Look at runs, and let one go on that reached a limit
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    daemon: DaemonArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List runs, newest first
    List {
        /// Of this agent
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// At most so many
        #[arg(long, value_name = "N", value_parser = list_limit, default_value_t = 50)]
        limit: usize,
    },
    /// Give a run that reached a limit another full allowance, and resolve its escalation
    Extend {
        /// The agent's name
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        agent: String,
        /// The run's name; '' or nothing is the run without a name
        #[arg(default_value = "")]
        run: String,
    },
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    let daemon = args.daemon.daemon()?;
    match &args.command {
        Command::List { agent, limit } => list(&daemon, agent.clone(), *limit),
        Command::Extend { agent, run } => extend(&daemon, agent, run),
    }?;
    Ok(Exit::Fine)
}

fn list(daemon: &Daemon, agent: Option<String>, limit: usize) -> anyhow::Result<()> {
    let query = vec![("agent", agent)];
    let runs = daemon.list(Listing {
        path: "/api/runs",
        query,
        key: "runs",
        cursor: "before",
        limit: Some(limit),
    })?;
    let heading = ["agent", "run", "state", "at a limit", "iterations", "tool calls", "spent", "started"];
    daemon.say(&runs, |runs| {
        table_of(&runs["runs"], "No runs yet.", heading, |run| {
            [
                cell(&run["agent"]),
                cell(&run["run"]),
                cell(&run["state"]),
                cell(&run["tripped"]),
                cell(&run["iterations"]),
                cell(&run["tool_calls"]),
                dollars(&run["spent_usd"]),
                moment(&run["started_at"]),
            ]
        })
    })
}

fn extend(daemon: &Daemon, agent: &str, run: &str) -> anyhow::Result<()> {
    let id = format!("{agent}:{run}");
    let extended = daemon.send(Method::POST, path(&["runs", &id, "extend"]), None)?;
    daemon.say(&extended, |extended| escaped(extended["message"].as_str().unwrap_or_default()).to_string())
}
