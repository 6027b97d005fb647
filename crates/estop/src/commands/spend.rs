//! `estop spend`: what was spent, and on what.

use clap::builder::PossibleValuesParser;

use super::Exit;
use super::daemon::DaemonArgs;
use super::table::{cell, dollars, list};
use crate::client::with_query;

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
    #[arg(long, value_name = "N", default_value_t = 100)]
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
    let heading = [&args.by, "requests", "tokens in", "tokens out", "dollars", "without a price"];
    daemon.say(&spend, |spend| {
        let none = format!("Nothing was spent from {} to {}.", cell(&spend["from"]), cell(&spend["to"]));
        list(&spend["spend"], &none, heading, |sum| {
            let key = if sum["key"] == "" { "–".to_owned() } else { cell(&sum["key"]) };
            [
                key,
                cell(&sum["requests"]),
                cell(&sum["input_tokens"]),
                cell(&sum["output_tokens"]),
                dollars(&sum["usd"]),
                cell(&sum["unpriced"]),
            ]
        })
    })?;
    Ok(Exit::Fine)
}
