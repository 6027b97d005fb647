//! Agents as people read them.

use estop_config::printable::escaped;
use serde_json::Value;

use crate::table::{cell, dollars, list as table_of, moment, properties};
use crate::urgency::urgency;

/// What its next request would get, in a few words.
fn state(agent: &Value) -> String {
    cell(&agent["state"]["label"])
}

/// The same with the reason, and what to do.
fn state_and_why(agent: &Value) -> String {
    match agent["state"]["sentence"].as_str().filter(|_| agent["state"]["kind"] != "active") {
        Some(why) => format!("{}: {}{}", state(agent), escaped(why), until(agent)),
        None => state(agent),
    }
}

/// When a refusal ends by itself, where that is known.
fn until(agent: &Value) -> String {
    let at = &agent["state"]["until"];
    if at.is_null() { String::new() } else { format!(" Until {}.", moment(at)) }
}

/// Problems first, then by name.
fn troubled_first(answer: &Value) -> Value {
    let mut agents = answer["agents"].as_array().cloned().unwrap_or_default();
    agents.sort_by_key(|agent| std::cmp::Reverse(urgency(agent)));
    Value::Array(agents)
}

fn loop_guard(agent: &Value) -> String {
    let on = if agent["kill_switch_enabled"] == true { "on" } else { "off" };
    let (window, threshold) =
        (cell(&agent["kill_switch_window_size"]), cell(&agent["kill_switch_threshold"]));
    format!("{on} (window {window}, threshold {threshold})")
}

pub(super) fn list(answer: &Value) -> String {
    let heading = ["agent", "state", "loop guard", "score", "activity", "in progress", "today", "last seen"];
    let none = "No agents yet. An agent appears with its first call, or with `estop agents add NAME`.";
    table_of(&troubled_first(answer), none, heading, |agent| {
        [
            cell(&agent["id"]),
            state(agent),
            loop_guard(agent),
            cell(&agent["score"]),
            cell(&agent["mode"]),
            cell(&agent["in_flight"]),
            dollars(&agent["spent_today"]["usd"]),
            moment(&agent["last_seen_at"]),
        ]
    })
}

pub(super) fn one(agent: &Value) -> String {
    let spent = |key: &str| {
        let amount = &agent[key];
        if amount.is_null() { "–".to_owned() } else { spent(amount) }
    };
    properties([
        ("agent", cell(&agent["id"])),
        ("state", state_and_why(agent)),
        ("role", cell(&agent["role"])),
        ("preset", cell(&agent["preset"])),
        ("loop guard", loop_guard(agent)),
        ("score", cell(&agent["score"])),
        ("activity", cell(&agent["mode"])),
        ("intensity", cell(&agent["intensity"])),
        ("health (of 1000)", cell(&agent["health"])),
        ("in progress", cell(&agent["in_flight"])),
        ("runs", cell(&agent["runs"])),
        ("spent today", spent("spent_today")),
        (
            "spent this month",
            format!("{}{}", spent("spent_this_month"), clock_ahead(&agent["budget_latest_day"])),
        ),
        ("snoozed", snoozes(agent)),
        ("named by", cell(&agent["origin"])),
        ("last seen", moment(&agent["last_seen_at"])),
    ])
}

/// The day a budget has seen that is later than today.
fn clock_ahead(day: &Value) -> String {
    let shown = |day| format!(" (the clock once showed {day}: see `estop budgets renew`)");
    day.as_str().map(escaped).map(shown).unwrap_or_default()
}

/// Guards that only warn for a while.
pub(super) fn snoozes(agent: &Value) -> String {
    let one = |snooze: &Value| {
        let note = snooze["note"].as_str().map(|note| format!(": {}", escaped(note))).unwrap_or_default();
        let (guard, until, by) = (cell(&snooze["guard"]), moment(&snooze["until"]), cell(&snooze["by"]));
        format!("{guard} until {until} (by {by}{note})")
    };
    let all: Vec<String> = agent["snoozes"].as_array().into_iter().flatten().map(one).collect();
    if all.is_empty() { "no guard is snoozed".to_owned() } else { all.join(", ") }
}

fn spent(amount: &Value) -> String {
    format!("{}, {} tokens", dollars(&amount["usd"]), cell(&amount["tokens"]))
}

pub(super) fn score(score: &Value) -> String {
    let verdict = if score["is_loop"] == true { "yes" } else { "no" };
    properties([
        ("score", cell(&score["score"])),
        ("threshold", cell(&score["threshold"])),
        ("a loop", verdict.to_owned()),
        ("similar prompts", cell(&score["similar_prompts"])),
        ("similar responses", cell(&score["similar_responses"])),
        ("repeated tool calls", cell(&score["repeated_tool_calls"])),
        ("requests compared", format!("{} of {}", cell(&score["window"]), cell(&score["window_size"]))),
        ("loop guard", if score["enabled"] == true { "on" } else { "off" }.to_owned()),
        ("reason", cell(&score["reason"])),
    ])
}
