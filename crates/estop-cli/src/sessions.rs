//! `estop sessions …`: who is logged in to the dashboard, and ending a session.

use clap::builder::NonEmptyStringValueParser;

use super::Exit;
use super::table::{cell, list as table_of, moment};
use crate::client::{Daemon, DaemonArgs, path};

/// List the sessions of the dashboard, and end one
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    daemon: DaemonArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List sessions that have not ended
    List,
    /// End a session: whoever has it must log in again
    Revoke {
        /// The session's id; `estop sessions list` shows it
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    let daemon = args.daemon.daemon()?;
    match &args.command {
        Command::List => list(&daemon),
        Command::Revoke { id } => daemon.revoke("sessions", id, |id| format!("Ended the session {id}.")),
    }?;
    Ok(Exit::Fine)
}

fn list(daemon: &Daemon) -> anyhow::Result<()> {
    let heading = ["id", "token", "role", "since", "last used", "browser"];
    daemon.say(&daemon.get(path(&["sessions"]))?, |sessions| {
        table_of(&sessions["sessions"], "Nobody is logged in.", heading, |session| {
            [
                cell(&session["id"]),
                cell(&session["name"]),
                cell(&session["role"]),
                moment(&session["created_at"]),
                moment(&session["last_used_at"]),
                cell(&session["user_agent"]),
            ]
        })
    })
}
