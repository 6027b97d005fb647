//! `estop agents snooze`: a guard works as in shadow for a while (PO-7).

use estop_config::printable::escaped;
use estop_core::guard::Guard;
use http::Method;
use serde_json::json;

use super::{NameArgs, shown};
use crate::client::{Daemon, path, with_query};

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

/// Minutes in `90m`, `2h` or `3d`.
pub(crate) fn minutes(text: &str) -> Result<u64, String> {
    let wrong = || "a time is a whole number of minutes, hours or days, as 90m, 2h or 3d".to_owned();
    let unit = match text.as_bytes().last() {
        Some(b'm') => 1,
        Some(b'h') => 60,
        Some(b'd') => 1440,
        Some(_) | None => return Err(wrong()),
    };
    let count: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    count.checked_mul(unit).filter(|minutes| *minutes > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn po_7_times_are_minutes_hours_or_days() {
        assert_eq!(minutes("90m"), Ok(90));
        assert_eq!(minutes("2h"), Ok(120));
        assert_eq!(minutes("7d"), Ok(10_080));
        for wrong in ["", "h", "2", "0h", "-1h", "2 h", "1.5h", "18446744073709551615d", "zwei\u{fc}"] {
            assert!(minutes(wrong).is_err(), "{wrong}");
        }
    }
}
