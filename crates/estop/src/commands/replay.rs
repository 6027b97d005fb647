//! `estop replay J.jsonl`: recompute a journal and compare (TW-7), or judge it by other rules (TW-8).

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use estop_core::backtest::{AgentOutcome, Backtest};
use estop_core::replay::{Replay, ReplayError};

use super::Exit;
use crate::config;
use crate::lines::Lines;

/// Recompute a journal and compare, or see what another policy would have done
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The journal
    journal: PathBuf,
    /// Judge the recorded traffic by this policy instead
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    match &args.policy {
        None => compare(args),
        Some(policy) => backtest(args, policy),
    }
}

fn compare(args: &Args) -> anyhow::Result<Exit> {
    let mut lines = Lines::open(&args.journal, "replaying")?;
    let mut replay = Replay::default();
    let mut differs = None;
    while let Some((number, line)) = lines.next_line()? {
        if let Err(error) = replay.feed(line) {
            differs = Some((number, error));
            break;
        }
    }
    print_comparison(args, &replay, differs.as_ref()).context("cannot write the answer")?;
    Ok(if differs.is_some() { Exit::No } else { Exit::Fine })
}

fn print_comparison(
    args: &Args,
    replay: &Replay,
    differs: Option<&(usize, ReplayError)>,
) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let records = replay.chains().seq();
    if args.json {
        let answer = serde_json::json!({
            "equal": differs.is_none(),
            "records": records,
            "agents": replay.agents(),
            "line": differs.map(|(line, _)| line),
            "problem": differs.map(|(_, error)| error.to_string()),
        });
        writeln!(out, "{}", serde_json::to_string_pretty(&answer)?)?;
        return Ok(());
    }
    match differs {
        None => writeln!(
            out,
            "Equal: {records} records of {} agents decide the same on replay.",
            replay.agents()
        )?,
        Some((line, error)) => writeln!(out, "{}:{line}: {error}", args.journal.display())?,
    }
    Ok(())
}

fn backtest(args: &Args, policy: &Path) -> anyhow::Result<Exit> {
    let file = config::load(policy)?;
    let mut lines = Lines::open(&args.journal, "judging")?;
    let mut backtest = Backtest::new(|agent: &str| file.resolve(Some(agent), None));
    while let Some((number, line)) = lines.next_line()? {
        if let Err(error) = backtest.feed(line) {
            writeln!(std::io::stdout(), "{}:{number}: {error}", args.journal.display())?;
            return Ok(Exit::No);
        }
    }
    print_backtest(args, &backtest.outcomes().collect::<Vec<_>>()).context("cannot write the answer")?;
    Ok(Exit::Fine)
}

/// Fits most terminals; reasons are wrapped within it.
const TABLE_WIDTH: u16 = 110;

fn print_backtest(args: &Args, outcomes: &[(&str, &AgentOutcome)]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if args.json {
        let agents: serde_json::Map<String, serde_json::Value> = outcomes
            .iter()
            .map(|(agent, o)| Ok(((*agent).to_owned(), serde_json::to_value(o)?)))
            .collect::<Result<_, serde_json::Error>>()?;
        writeln!(out, "{}", serde_json::to_string_pretty(&serde_json::json!({ "agents": agents }))?)?;
        return Ok(());
    }
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED).set_width(TABLE_WIDTH);
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    table.set_header(["agent", "requests", "refused", "was", "saved", "first stop"]);
    for (agent, o) in outcomes {
        let saved = format!("{} and {} tokens", o.saved.usd, o.saved.tokens);
        let first = o.stops.first().map_or("–".to_owned(), |s| format!("record {}: {}", s.seq, s.reason));
        table.add_row([
            agent,
            o.requests.to_string().as_str(),
            &o.refused.to_string(),
            &o.refused_before.to_string(),
            &saved,
            &first,
        ]);
    }
    writeln!(out, "{table}")?;
    let stopped = outcomes.iter().filter(|(_, o)| !o.stops.is_empty()).count();
    writeln!(out, "{stopped} of {} agents would have been stopped.", outcomes.len())?;
    Ok(())
}
