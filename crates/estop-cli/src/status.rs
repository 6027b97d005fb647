//! `estop status`: how the system stands, in one look.

use serde_json::{Value, json};

use super::Exit;
use super::alerts::failing;
use super::emergency_text::{proof_test, state_of};
use super::table::{cell, dollars, each, moment, properties};
use crate::client::{DaemonArgs, path};

/// Show how the system stands; exit code 1 if it is not running, or nothing passes on a channel
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    let daemon = args.daemon.daemon()?;
    let emergency = daemon.get(path(&["emergency", "status"]))?;
    let stats = daemon.get(path(&["stats"]))?;
    let mut status = together(emergency, &stats);
    status["alerts"] = daemon.get(path(&["alerts", "channels"]))?;
    status["preset"] = daemon.get(path(&["preset"]))?;
    status["recordings"] = daemon.get(path(&["recordings"]))?["recordings"].take();
    daemon.say(&status, text)?;
    let is_stuck = !status["stuckParts"][0].is_null();
    let passes = status["operational"] == true && !is_stuck;
    Ok(if passes { Exit::Fine } else { Exit::No })
}

/// What the emergency status says, with the counts.
fn together(mut status: Value, stats: &Value) -> Value {
    status["agents"] = json!({
        "total": stats["agents"],
        "running": stats["running"],
        "active": stats["active"],
        "deactivated": stats["inactive"],
        "paused": stats["paused"],
        "states": stats["states"],
    });
    let counts = [
        "in_flight",
        "runs",
        "spent_today",
        "spent_this_month",
        "budgets_ahead",
        "budgets_latest_day",
        "open_incidents",
        "open_escalations",
        "last_seq",
        "notification_missing",
    ];
    for key in counts {
        status[key] = stats[key].clone();
    }
    status
}

/// Each trigger of the red button; those that do not work with the reason.
fn triggers(all: &Value) -> String {
    let shown = |trigger: &Value| {
        let name = cell(&trigger["name"]);
        if trigger["working"] == true {
            name
        } else {
            format!("{name} DOES NOT WORK ({})", cell(&trigger["what"]))
        }
    };
    all.as_array().into_iter().flatten().map(shown).collect::<Vec<_>>().join(", ")
}

/// Who is told, and which channels fail.
fn alerts(status: &Value) -> String {
    let channels = each(&status["alerts"]["channels"]);
    let told = match (channels.len(), status["notification_missing"] == true) {
        (0, _) => "no alert channel is configured: nobody is notified of stops".to_owned(),
        (count, true) => format!("{count} channels, and no rule sends them stops"),
        (1, false) => "1 channel".to_owned(),
        (count, false) => format!("{count} channels"),
    };
    let failing = failing(&status["alerts"]).into_iter();
    let failing = failing.map(|(name, how)| format!("{name} FAILS ({how})"));
    [told].into_iter().chain(failing).collect::<Vec<_>>().join(", ")
}

/// How many agents there are, and what the next request of each would get.
fn agents(agents: &Value) -> String {
    let count = |key: &str| agents[key].as_u64().unwrap_or(0);
    let running = format!("{} of {} running", count("running"), count("total"));
    let states = agents["states"].as_object().into_iter().flatten();
    let refused = states.filter(|(kind, _)| *kind != "active");
    let refused = refused.map(|(kind, count)| format!("{} {}", cell(count), kind.replace('_', " ")));
    let shown: Vec<String> = [running].into_iter().chain(refused).collect();
    shown.join(", ")
}

/// Whether loops stop agents where nobody chose otherwise, and how to change that.
fn loops(status: &Value) -> String {
    if status["preset"]["preset"] == "strict" {
        return "they stop agents (preset strict)".to_owned();
    }
    let watched = status["agents"]["states"]["watched"].as_u64().unwrap_or(0);
    let now = if watched > 0 { format!("; {watched} would have been stopped") } else { String::new() };
    format!(
        "they stop agents whose loop guard is on; others are only watched{now}; to switch one on: `estop agents loop-guard NAME --on`"
    )
}

fn text(status: &Value) -> String {
    let why = [("reason", ""), ("by", "by "), ("since", "since ")];
    let known = why.into_iter().filter(|(key, _)| status["state"] != "running" && !status[*key].is_null());
    let why: Vec<String> = known.map(|(key, word)| format!("{word}{}", moment(&status[key]))).collect();
    let separator = if why.is_empty() { "" } else { ": " };
    let state = format!("{}{separator}{}", state_of(status), why.join(", "));
    let channels = [("llm", "llmEnabled"), ("messaging", "messagingEnabled"), ("tools", "toolsEnabled")];
    let open =
        |(name, key): (&str, &str)| format!("{name} {}", if status[key] == true { "open" } else { "shut" });
    let budgets = budgets(status).map(|text| ("budgets", text));
    let shown = [
        ("state", state),
        ("channels", channels.map(open).join(", ")),
        ("agents", agents(&status["agents"])),
        ("loops", loops(status)),
        ("in progress", cell(&status["in_flight"])),
        ("runs", cell(&status["runs"])),
        ("spent today", dollars(&status["spent_today"]["usd"])),
    ];
    let rest = [
        ("open incidents", cell(&status["open_incidents"])),
        ("needs a human", cell(&status["open_escalations"])),
        ("triggers", triggers(&status["triggers"])),
        ("proof test", proof_test(&status["proofTest"])),
        ("alerts", alerts(status)),
    ];
    let recordings = recordings(&status["recordings"]).map(|text| ("recording", text));
    properties(shown.into_iter().chain(budgets).chain(rest).chain(recordings))
}

/// Whose words go to somebody's file.
fn recordings(all: &Value) -> Option<String> {
    let shown = |one: &Value| {
        format!("{}, by {}, until {}", cell(&one["agent"]), cell(&one["by"]), moment(&one["until"]))
    };
    let all: Vec<String> = each(all).iter().map(shown).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Budgets that have seen a later day than today.
fn budgets(status: &Value) -> Option<String> {
    let count = status["budgets_ahead"].as_u64().filter(|count| *count > 0)?;
    let which = if count == 1 { "1 has".to_owned() } else { format!("{count} have") };
    let day = cell(&status["budgets_latest_day"]);
    Some(format!(
        "{which} seen {day} because the clock was ahead; `estop budgets renew --all` begins the present day and month"
    ))
}
