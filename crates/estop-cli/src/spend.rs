//! `estop spend`: what was spent, and on what.

use clap::builder::PossibleValuesParser;
use clap::value_parser;
use serde_json::Value;

use super::Exit;
use super::table::{cell, dollars, list};
use crate::client::{DaemonArgs, with_query};

/// Show what was spent
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What the sums are made by
    #[arg(long, default_value = "day",
        value_parser = PossibleValuesParser::new(["day", "agent", "model", "run", "issue", "role", "label"]))]
    by: String,
    /// Of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The first day, as 2026-11-01; thirty days before the last if left out
    #[arg(long, value_name = "DAY")]
    from: Option<String>,
    /// The last day; today if left out
    #[arg(long, value_name = "DAY")]
    to: Option<String>,
    /// At most so many sums, up to 500
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = value_parser!(u64).range(1..=500))]
    limit: u64,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    let daemon = args.daemon.daemon()?;
    let query = [
        ("by", Some(args.by.clone())),
        ("agent", args.agent.clone()),
        ("from", args.from.clone()),
        ("to", args.to.clone()),
        ("limit", Some(args.limit.to_string())),
    ];
    let spend = daemon.get(with_query("/api/spend", &query))?;
    daemon.say(&spend, |spend| format!("{}\n\n{}", sums(spend, &args.by), fleet(&spend["fleet"])))?;
    Ok(Exit::Fine)
}

fn sums(spend: &Value, by: &str) -> String {
    let heading = [
        by,
        "requests",
        "tokens in",
        "of it cached",
        "tokens out",
        "of it reasoning",
        "dollars",
        "unpriced requests",
        "estimated",
    ];
    let none = format!("Nothing was spent from {} to {}.", cell(&spend["from"]), cell(&spend["to"]));
    list(&spend["spend"], &none, heading, |sum| {
        let key = if sum["key"] == "" { "–".to_owned() } else { cell(&sum["key"]) };
        [
            key,
            cell(&sum["requests"]),
            cell(&sum["input_tokens"]),
            cell(&sum["cache_read_tokens"]),
            cell(&sum["output_tokens"]),
            cell(&sum["reasoning_tokens"]),
            dollars(&sum["usd"]),
            cell(&sum["unpriced"]),
            cell(&sum["estimated"]),
        ]
    })
}

/// All agents together, and their caps if there are any.
fn fleet(fleet: &Value) -> String {
    let amount = |amount: &Value| format!("{}, {} tokens", dollars(&amount["usd"]), cell(&amount["tokens"]));
    format!(
        "All agents together ({}){}:\n  today: {}{}\n  this month: {}{}\n  reserved for requests in progress: {}",
        cell(&fleet["timezone"]),
        clock_ahead(&fleet["latest_day"]),
        amount(&fleet["spent_today"]),
        caps(&fleet["usd_per_day"], &fleet["tokens_per_day"]),
        amount(&fleet["spent_this_month"]),
        caps(&fleet["usd_per_month"], &fleet["tokens_per_month"]),
        amount(&fleet["reserved"]),
    )
}

/// The day the account has seen that is later than today.
fn clock_ahead(day: &Value) -> String {
    if day.is_null() {
        return String::new();
    }
    format!(", of which the clock once showed {}: see `estop budgets renew`", cell(day))
}

fn caps(usd: &Value, tokens: &Value) -> String {
    let usd = (!usd.is_null()).then(|| dollars(usd));
    let tokens = (!tokens.is_null()).then(|| format!("{} tokens", cell(tokens)));
    let caps: Vec<String> = [usd, tokens].into_iter().flatten().collect();
    if caps.is_empty() { String::new() } else { format!(" of {}", caps.join(" and ")) }
}
