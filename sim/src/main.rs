//! `estop-sim`: simulates, prints what happened, and exits 1 with the way to see it again if an invariant broke.

use std::process::ExitCode;
use std::time::Instant;

use estop_core::engine::AgentState;
use estop_sim::{Config, Replaying, invariants, run};

const USAGE: &str = "\
Usage: estop-sim [--seed N] [--seeds N] [--events N] [--agents N] [--no-replay]

  --seed N      the first seed (1)
  --seeds N     how many seeds to run, one after the other (1)
  --events N    events to judge for each seed (1000000)
  --agents N    agents that take part (2000)
  --no-replay   do not replay the journal on the way

Exit code: 0 all invariants held, 1 one broke, 2 usage.";

fn main() -> ExitCode {
    let (first, seeds) = match parse(std::env::args().skip(1)) {
        Ok(Some(parsed)) => parsed,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            eprintln!("estop-sim: {wrong}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    for seed in (first.seed..).take(seeds) {
        let started = Instant::now();
        match run::<AgentState>(&Config { seed, ..first }) {
            Ok(summary) if seeds > 1 => {
                println!("seed {seed}: {} events, digest {}", summary.events, summary.digest);
            }
            Ok(summary) => {
                let seconds = started.elapsed().as_secs_f64();
                println!("{summary}");
                println!("{} invariants held at each step", invariants::count());
                println!("{seconds:.1} s, {:.0} events/s", summary.events as f64 / seconds);
            }
            Err(broken) => {
                eprintln!("{broken}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// The first run and how many seeds; `None` if help was asked for.
fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<(Config, usize)>, String> {
    let (mut config, mut seeds) = (Config::default(), 1);
    while let Some(arg) = args.next() {
        let mut number = || {
            let value = args.next().ok_or_else(|| format!("{arg} needs a number"))?;
            value.parse::<u64>().map_err(|_| format!("{arg} needs a number, not `{value}`"))
        };
        match arg.as_str() {
            "--seed" => config.seed = number()?,
            "--seeds" => seeds = number()? as usize,
            "--events" => config.events = number()?,
            "--agents" => config.agents = number()? as usize,
            "--no-replay" => config.replaying = Replaying::Off,
            "-h" | "--help" => return Ok(None),
            _ => return Err(format!("unknown argument `{arg}`")),
        }
    }
    Ok(Some((config, seeds)))
}
