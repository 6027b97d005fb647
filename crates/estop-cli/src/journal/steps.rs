//! `estop journal steps`: what led to an event by which nobody was stopped (EV-1).

use crate::client::{DaemonArgs, path};
use crate::{Exit, evidence};

/// Show the steps up to a stop that a guard in shadow would have made, or up to a nudge
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    estop journal events --type would_have_stopped\n  \
    estop journal steps 1234")]
pub(super) struct Args {
    /// The event's record: `seq` in the list of events
    seq: u64,
    #[command(flatten)]
    daemon: DaemonArgs,
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let daemon = args.daemon.daemon()?;
    let event = daemon.get(path(&["events", &args.seq.to_string(), "evidence"]))?;
    daemon.say(&event, evidence::event_text)?;
    Ok(Exit::Fine)
}
