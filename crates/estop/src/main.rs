//! `estop`: parses the command line, runs the command, turns its end into an exit code.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use estop::commands::{Exit, eval, replay, serve, verify};
use estop::printable::escaped_lines;

/// Requests allocate on one thread and are freed on another; the system's allocator is slow at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The emergency stop for AI agents
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Exit codes: 0 fine, 1 the answer is no, 2 usage or configuration, 3 cannot reach the daemon.\n\
        Answers go to the standard output. With exit code 2 there is none: the standard error says why, \
        in plain text, with --json too."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Eval(eval::Args),
    Replay(replay::Args),
    Serve(serve::Args),
    Verify(verify::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Eval(args) => eval::main(&args),
        Command::Replay(args) => replay::main(&args),
        Command::Serve(args) => serve::main(&args),
        Command::Verify(args) => verify::main(&args),
    };
    match result {
        Ok(Exit::Fine) => ExitCode::SUCCESS,
        Ok(Exit::No) => ExitCode::from(1),
        Err(error) => {
            eprintln!("estop: {}", escaped_lines(&format!("{error:#}")));
            ExitCode::from(2)
        }
    }
}
