//! `estop journal events`: what happened, newest first.

use crate::Exit;
use crate::client::{DaemonArgs, Listing};
use crate::table::{cell, list, moment};

/// List what happened, newest first
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Of this type, as kill_switch
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    #[command(flatten)]
    daemon: DaemonArgs,
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let daemon = args.daemon.daemon()?;
    let query = vec![("agent", args.agent.clone()), ("type", args.event_type.clone())];
    let events = daemon.list(Listing {
        path: "/api/events",
        query,
        key: "events",
        cursor: "before",
        limit: Some(args.limit),
    })?;
    let heading = ["record", "when", "type", "agent", "detail"];
    daemon.say(&events, |events| {
        list(&events["events"], "Nothing yet.", heading, |event| {
            [
                cell(&event["seq"]),
                moment(&event["at"]),
                cell(&event["event_type"]),
                cell(&event["agent"]),
                cell(&event["detail"]),
            ]
        })
    })?;
    Ok(Exit::Fine)
}
