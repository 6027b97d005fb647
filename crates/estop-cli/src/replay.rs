//! `estop replay J.jsonl`: recompute a journal and compare (TW-7), or judge it by other rules (TW-8).

use std::path::{Path, PathBuf};

use estop_config::printable::escaped;
use estop_journal::{AgentOutcome, Backtest, Replay};

use super::journal::{Broken, JournalArgs, beginning_text, read, seal_text};
use super::{Exit, say, say_json};

/// Recompute a journal and compare, or see what another policy would have done
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    journal: JournalArgs,
    /// Judge the recorded traffic by this policy instead
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    match &args.policy {
        None => compare(&args.journal),
        Some(policy) => backtest(&args.journal, policy),
    }
}

fn compare(args: &JournalArgs) -> anyhow::Result<Exit> {
    let mut replay = Replay::default();
    let broken = read(args, "replaying", &mut replay)?;
    print_comparison(args, &replay, broken.as_ref())?;
    Ok(if broken.is_some() { Exit::No } else { Exit::Fine })
}

fn print_comparison(args: &JournalArgs, replay: &Replay, broken: Option<&Broken>) -> anyhow::Result<()> {
    let (checker, agents) = (replay.checker(), replay.agents());
    let records = checker.state().seq - checker.begins_after();
    if args.json {
        return say_json(&serde_json::json!({
            "equal": broken.is_none(),
            "records": records,
            "begins_after": checker.begins_after(),
            "sealed": checker.is_ended(),
            "agents": agents,
            "line": broken.map(|broken| broken.line),
            "problem": broken.map(|broken| broken.error.to_string()),
        }));
    }
    match broken {
        None => say(&format!(
            "Equal: {records} records of {agents} agents decide the same on replay, {}.{}",
            seal_text(checker),
            beginning_text(checker)
        )),
        Some(broken) => say(&broken.text(args)),
    }
}

fn backtest(args: &JournalArgs, policy: &Path) -> anyhow::Result<Exit> {
    let file = estop_config::load(policy)?;
    let mut backtest = Backtest::new(|agent: &str| file.resolve(Some(agent), None));
    let broken = read(args, "judging", &mut backtest)?;
    let sealed = backtest.checker().is_ended();
    match &broken {
        None => print_backtest(args, sealed, &backtest.outcomes().collect::<Vec<_>>())?,
        Some(broken) if args.json => say_json(&serde_json::json!({
            "sealed": sealed,
            "line": broken.line,
            "problem": broken.error.to_string(),
        }))?,
        Some(broken) => say(&broken.text(args))?,
    }
    Ok(if broken.is_some() { Exit::No } else { Exit::Fine })
}

fn print_backtest(
    args: &JournalArgs,
    sealed: bool,
    outcomes: &[(&str, &AgentOutcome)],
) -> anyhow::Result<()> {
    if args.json {
        let agents: serde_json::Map<String, serde_json::Value> = outcomes
            .iter()
            .map(|(agent, o)| Ok(((*agent).to_owned(), outcome_json(o)?)))
            .collect::<Result<_, serde_json::Error>>()?;
        return say_json(&serde_json::json!({
            "agents": agents,
            "sealed": sealed,
            "line": null,
            "problem": null,
        }));
    }
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED).set_width(table_width());
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    table.set_header(["agent", "requests", "refused", "was", "saved", "first stop"]);
    for (agent, o) in outcomes {
        let saved = format!("{} and {} tokens", o.saved.usd, o.saved.tokens);
        let first =
            o.stops.first().map_or("–".to_owned(), |s| format!("record {}: {}", s.seq, escaped(&s.reason)));
        table.add_row([
            &escaped(agent),
            o.requests.to_string().as_str(),
            &o.refused.to_string(),
            &o.refused_before.to_string(),
            &saved,
            &first,
        ]);
    }
    say(&table.to_string())?;
    let stopped = outcomes.iter().filter(|(_, o)| !o.stops.is_empty()).count();
    say(&format!("{stopped} of {} agents would have been stopped.", outcomes.len()))
}

/// Money in dollars, as the API and `estop spend --json` have it.
fn outcome_json(outcome: &AgentOutcome) -> Result<serde_json::Value, serde_json::Error> {
    let mut json = serde_json::to_value(outcome)?;
    for (key, amount) in [("spent", outcome.spent), ("saved", outcome.saved)] {
        json[key]["usd"] = (amount.usd.0 as f64 / 1e9).into();
    }
    Ok(json)
}

/// Reasons are wrapped within it: `$COLUMNS`, or what fits most terminals.
fn table_width() -> u16 {
    /// Below this every column is a letter wide.
    const WIDTH_MIN: u16 = 60;
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    columns.unwrap_or(110).max(WIDTH_MIN)
}
