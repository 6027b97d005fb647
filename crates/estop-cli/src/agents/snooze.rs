//! `estop agents snooze`: a guard works as in shadow for a while (PO-7).

use estop_config::printable::escaped;
use estop_core::guard::Guard;
use http::Method;
use serde_json::json;

use super::{NameArgs, shown};
use crate::client::{Daemon, path, with_query};
use crate::minutes::minutes;

/// Have a guard of an agent only warn for a while, seven days at most
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    agent: NameArgs,
    // Its help names those there are.
    #[arg(long, value_name = "GUARD", help = guard_help())]
    guard: String,
    /// For how long, as 90m, 2h or 3d
    #[arg(long = "for", value_name = "TIME", value_parser = minutes)]
    minutes: u64,
    /// Why
    #[arg(long)]
    note: Option<String>,
}

/// Have a snoozed guard of an agent work again
#[derive(Debug, clap::Args)]
pub(super) struct WakeArgs {
    #[command(flatten)]
    agent: NameArgs,
    /// The guard; all of them if left out
    #[arg(long, value_name = "GUARD")]
    guard: Option<String>,
}

fn guard_help() -> String {
    let mut names: Vec<&str> = Guard::snoozable().map(Guard::name).collect();
    let last = names.pop().unwrap_or_default();
    format!("The guard: {} or {last}", names.join(", "))
}

pub(super) fn snooze(daemon: &Daemon, args: &Args) -> anyhow::Result<()> {
    let name = &args.agent.name;
    let body = json!({"guard": args.guard, "minutes": args.minutes, "note": args.note});
    let agent = daemon.send(Method::POST, path(&["agents", name, "snooze"]), Some(&body))?;
    daemon.say(&agent, |agent| format!("{}: {}.", escaped(name), shown::snoozes(agent)))
}

pub(super) fn wake(daemon: &Daemon, args: &WakeArgs) -> anyhow::Result<()> {
    let name = &args.agent.name;
    let target = with_query(&path(&["agents", name, "snooze"]), &[("guard", args.guard.clone())]);
    let agent = daemon.send(Method::DELETE, target, None)?;
    daemon.say(&agent, |agent| format!("{}: {}.", escaped(name), shown::snoozes(agent)))
}
