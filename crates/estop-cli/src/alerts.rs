//! `estop alerts …`: who is told, whether that works, and silence for a while (AL-1, AL-3).

mod rules;

use std::time::{Duration, Instant};

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use estop_config::printable::escaped;
use http::Method;
use serde_json::{Value, json};

use super::Exit;
use super::minutes::minutes;
use super::table::{cell, each, list, moment};
use crate::client::{Daemon, DaemonArgs, Listing, list_limit, path, with_query};

const LOG: &str = "/api/alerts/deliveries";
/// A try takes ten seconds at most, unless a channel says otherwise.
const TEST_TIMEOUT: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// What an alert may be about; a test holds it against the notifier's.
const TYPES: [&str; 12] = [
    "kill_switch",
    "circuit_breaker",
    "budget",
    "error_rate",
    "agent_down",
    "health",
    "system_kill",
    "watchdog",
    "prooftest_overdue",
    "stuck_worker",
    "admin_token",
    "checkpoint",
];

/// Show who is notified, send a test, and mute alerts for a while
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    daemon: DaemonArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List channels and how they do, and what is muted
    List,
    /// Send a test through a channel and wait for how it ends; exit code 1 if it does not arrive
    Test {
        /// The channel's name
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        channel: String,
    },
    /// Show what was sent and how it ended, newest first
    Log(LogArgs),
    Rules(rules::Args),
    Mute(MuteArgs),
    /// End a mute
    Unmute {
        /// The mute's id, as `estop alerts list` shows it
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
}

#[derive(Debug, clap::Args)]
struct LogArgs {
    /// Of this channel
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", value_parser = list_limit, default_value_t = 50)]
    limit: usize,
}

/// Mute alerts for a while, seven days at most; what is still open is sent when the mute ends
#[derive(Debug, clap::Args)]
struct MuteArgs {
    /// For how long, as 90m, 2h or 3d
    #[arg(long = "for", value_name = "TIME", value_parser = minutes)]
    minutes: u64,
    /// Why
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// Only this type; may be given several times. Without it everything but the red button is muted
    #[arg(long = "type", value_name = "TYPE", value_parser = PossibleValuesParser::new(TYPES))]
    types: Vec<String>,
    /// Only of this agent; may be given several times
    #[arg(long = "agent", value_name = "NAME")]
    agents: Vec<String>,
    /// The mute's id: a mute of the same id is replaced
    #[arg(long, value_name = "ID")]
    id: Option<String>,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    let daemon = args.daemon.daemon()?;
    match &args.command {
        Command::List => channels(&daemon),
        Command::Test { channel } => return test(&daemon, channel),
        Command::Log(filter) => log(&daemon, filter),
        Command::Rules(args) => rules::main(&daemon, args),
        Command::Mute(args) => mute(&daemon, args),
        Command::Unmute { id } => {
            daemon.send(Method::DELETE, path(&["alerts", "mutes", id]), None)?;
            daemon.say(&json!({"id": id, "muted": false}), |_| format!("{} is over.", escaped(id)))
        }
    }?;
    Ok(Exit::Fine)
}

fn channels(daemon: &Daemon) -> anyhow::Result<()> {
    let mut answer = daemon.get(path(&["alerts", "channels"]))?;
    answer["mutes"] = daemon.get(path(&["alerts", "mutes"]))?["mutes"].take();
    daemon.say(&answer, |answer| {
        let heading = ["channel", "type", "to", "works", "failed tries", "waiting", "response"];
        let none = format!("No alert channels are configured: nobody is notified.\n{}", how_to_add());
        let mut text = list(&answer["channels"], &none, heading, |channel| {
            [
                cell(&channel["name"]),
                cell(&channel["kind"]),
                cell(&channel["to"]),
                cell(&channel["working"]),
                cell(&channel["failures"]),
                cell(&channel["waiting"]),
                cell(&channel["said"]),
            ]
        });
        if !each(&answer["channels"]).is_empty() && answer["told_of_stops"] == false {
            text += "\nNo rule tells anybody when an agent is stopped: `estop alerts rules` shows them.";
        }
        if let Some(error) = answer["store_error"].as_str() {
            text += &format!("\nAlerts cannot be stored at the moment: {}.", escaped(error));
        }
        if !each(&answer["mutes"]).is_empty() {
            text += "\nMuted:\n";
            text += &list(&answer["mutes"], "", ["id", "types", "agents", "until", "by", "why"], |mute| {
                [
                    cell(&mute["id"]),
                    names(&mute["types"], "all but system_kill and admin_token"),
                    names(&mute["agents"], "all"),
                    moment(&mute["until"]),
                    cell(&mute["by"]),
                    cell(&mute["why"]),
                ]
            });
        }
        text
    })
}

/// What to do where nobody is told: two lines.
pub(super) fn how_to_add() -> String {
    "Put a channel into the configuration (docs/alerts.md has all kinds) and start estop again:\n  \
     alerts: {channels: {ops: {type: slack, url_env: SLACK_WEBHOOK_URL}}}"
        .to_owned()
}

/// The names of a list; without any, what that means.
fn names(list: &Value, none: &str) -> String {
    let names: Vec<String> = each(list).iter().map(cell).collect();
    if names.is_empty() { none.to_owned() } else { names.join(", ") }
}

fn test(daemon: &Daemon, channel: &str) -> anyhow::Result<Exit> {
    let tries = |limit: &str| {
        let query = [("channel", Some(channel.to_owned())), ("limit", Some(limit.to_owned()))];
        daemon.get(with_query(LOG, &query))
    };
    let last = tries("1")?["deliveries"][0]["id"].as_u64().unwrap_or(0);
    daemon.send(Method::POST, path(&["alerts", "channels", channel, "test"]), None)?;
    let begun = Instant::now();
    let is_ours = |one: &&Value| one["kind"] == "test" && one["id"].as_u64().is_some_and(|id| id > last);
    let ended = loop {
        // The oldest since then: of two tests at once, either answers.
        let found = tries("50")?;
        let first = each(&found["deliveries"]).iter().rev().find(is_ours).cloned();
        if first.is_some() || begun.elapsed() >= TEST_TIMEOUT {
            break first;
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    let name = escaped(channel);
    let Some(ended) = ended else {
        let fails = failing(&daemon.get(path(&["alerts", "channels"]))?);
        let fails = fails.into_iter().find(|(failing, _)| *failing == name).map(|(_, how)| how);
        let waits = json!({"channel": channel, "outcome": "waiting", "why": fails});
        daemon.say(&waits, |_| {
            let why = fails.map(|how| format!(", because the channel fails ({how})")).unwrap_or_default();
            format!("The test waits still{why}: `estop alerts log --channel {name}` shows how it ends.")
        })?;
        return Ok(Exit::No);
    };
    let arrived = ended["outcome"] == "delivered";
    daemon.say(&ended, |ended| {
        let said = cell(&ended["said"]);
        if arrived {
            format!("It arrived. The receiver of {name} said: {said}")
        } else {
            format!("It did NOT arrive. What {name} met: {said}")
        }
    })?;
    Ok(if arrived { Exit::Fine } else { Exit::No })
}

fn log(daemon: &Daemon, filter: &LogArgs) -> anyhow::Result<()> {
    let query = vec![("channel", filter.channel.clone())];
    let (key, cursor, limit) = ("deliveries", "before", Some(filter.limit));
    let log = daemon.list(Listing { path: LOG, query, key, cursor, limit })?;
    let heading = ["when", "channel", "message", "try", "outcome", "response"];
    daemon.say(&log, |log| {
        list(&log["deliveries"], "Nothing was sent yet.", heading, |one| {
            let title = if one["title"].is_null() { &one["message"] } else { &one["title"] };
            [
                moment(&one["at"]),
                cell(&one["channel"]),
                cell(title),
                cell(&one["attempt"]),
                cell(&one["outcome"]),
                cell(&one["said"]),
            ]
        })
    })
}

fn mute(daemon: &Daemon, args: &MuteArgs) -> anyhow::Result<()> {
    let MuteArgs { minutes, why, types, agents, id } = args;
    let body = json!({"minutes": minutes, "why": why, "types": types, "agents": agents});
    let (method, target) = match id {
        Some(id) => (Method::PUT, path(&["alerts", "mutes", id])),
        None => (Method::POST, path(&["alerts", "mutes"])),
    };
    let mute = daemon.send(method, target, Some(&body))?;
    daemon.say(&mute, |mute| {
        let (id, until) = (cell(&mute["id"]), moment(&mute["until"]));
        format!("Muted until {until}. `estop alerts unmute {id}` ends it.")
    })
}

/// Channels that fail, each with what its receiver said; for commands that look at everything.
pub(super) fn failing(channels: &Value) -> Vec<(String, String)> {
    let fails = |channel: &&Value| channel["working"] == false;
    let shown = |channel: &Value| {
        let (name, count) = (cell(&channel["name"]), cell(&channel["failures"]));
        (name, format!("{count} failed in a row, last: {}", cell(&channel["said"])))
    };
    each(&channels["channels"]).iter().filter(fails).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn al_1_every_type_of_the_notifier_can_be_muted() {
        assert_eq!(TYPES, estop_notify::AlertType::ALL.map(estop_notify::AlertType::name));
    }

    #[test]
    fn al_3_failing_channels_are_named_with_what_their_receiver_said() {
        let channels = json!({"channels": [
            {"name": "mail", "working": true, "failures": 0, "said": "250 ok"},
            {"name": "ops", "working": false, "failures": 3, "said": "404 no_service"}]});
        assert_eq!(
            failing(&channels),
            [("ops".to_owned(), "3 failed in a row, last: 404 no_service".to_owned())]
        );
        assert_eq!(failing(&Value::Null), []);
    }
}
