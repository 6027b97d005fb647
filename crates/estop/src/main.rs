//! `estop`: parses the command line, runs the command, turns its end into an exit code.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use estop::commands::{Exit, eval, replay, verify};

/// The emergency stop for AI agents
#[derive(Debug, Parser)]
#[command(
    version,
    about,
    after_help = "Exit codes: 0 fine, 1 the answer is no, 2 usage or configuration, 3 cannot reach the daemon."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Eval(eval::Args),
    Replay(replay::Args),
    Verify(verify::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Eval(args) => eval::main(&args),
        Command::Replay(args) => replay::main(&args),
        Command::Verify(args) => verify::main(&args),
    };
    match result {
        Ok(Exit::Fine) => ExitCode::SUCCESS,
        Ok(Exit::No) => ExitCode::from(1),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("estop: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Whoever reads our output has seen enough (`estop … | head`).
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind)
    };
    error.chain().any(|cause| io(cause) == Some(std::io::ErrorKind::BrokenPipe))
}
