//! `estop`: parses the command line, runs the command, turns its end into an exit code.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
#[cfg(feature = "demo")]
use estop_cli::demo;
#[cfg(feature = "top")]
use estop_cli::top;
use estop_cli::{
    Exit, agents, alerts, background, backup, budgets, cases, completions, detach, doctor, emergency, eval,
    hook, install, journal, kill, mcp, policy, prooftest, record, replay, restore, run, runs, sessions,
    spend, status, token, tune, uninstall, verify,
};
use estop_config::printable::escaped_lines;
use estop_daemon::prooftest::canary;
use estop_daemon::{serve, triggers};
use estop_supervise::enter_cgroup;

/// Requests allocate on one thread and are freed on another; the system's allocator is slow at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The emergency stop for AI agents
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Exit codes: 0 fine, 1 the check failed or the answer is no, 2 usage or configuration, 3 cannot reach the daemon.\n\
        Answers go to the standard output. With the exit codes 2 and 3 there is none: the standard error says why, \
        in plain text, with --json too."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Run(run::Args),
    #[cfg(feature = "demo")]
    Demo(demo::Args),
    Kill(kill::Args),
    Emergency(emergency::Args),
    Prooftest(prooftest::Args),
    Status(status::Args),
    Doctor(doctor::Args),
    #[cfg(feature = "top")]
    Top(top::Args),
    Agents(agents::Args),
    Policy(policy::Args),
    Tune(tune::Args),
    Runs(runs::Args),
    Incidents(cases::IncidentsArgs),
    Escalations(cases::EscalationsArgs),
    Alerts(alerts::Args),
    Spend(spend::Args),
    Budgets(budgets::Args),
    Token(token::Args),
    Sessions(sessions::Args),
    Journal(journal::Args),
    Backup(backup::Args),
    Background(background::Args),
    Restore(restore::Args),
    Record(record::Args),
    Eval(eval::Args),
    Replay(replay::Args),
    Verify(verify::Args),
    Hook(hook::Args),
    Mcp(mcp::Args),
    Install(install::Args),
    Uninstall(uninstall::Args),
    Completions(completions::Args),
    #[command(hide = true)]
    Canary(canary::Args),
    #[command(hide = true)]
    EnterCgroup(enter_cgroup::Args),
    #[command(hide = true)]
    Detach(detach::Args),
}

fn main() -> ExitCode {
    // First of all: a SIGUSR1 while estop starts must neither end it nor be lost.
    triggers::hold_back();
    // It stands before every program that is supervised.
    if let Some(exit) = enter_cgroup::if_asked(std::env::args_os()) {
        return exit;
    }
    // It runs before every tool call of every agent: nothing is built that it does not need.
    if let Some(exit) = hook::if_asked(std::env::args_os()) {
        return exit;
    }
    let result = match Cli::parse().command {
        Command::Serve(args) => serve::main(&args).map(|()| Exit::Fine),
        #[cfg(feature = "demo")]
        Command::Demo(args) => demo::main(&args),
        Command::Run(args) => return run::main(&args),
        Command::Kill(args) => kill::main(&args),
        Command::Emergency(args) => emergency::main(&args),
        Command::Prooftest(args) => prooftest::main(&args),
        Command::Status(args) => status::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        #[cfg(feature = "top")]
        Command::Top(args) => top::main(&args),
        Command::Agents(args) => agents::main(&args),
        Command::Policy(args) => policy::main(&args),
        Command::Tune(args) => tune::main(&args),
        Command::Runs(args) => runs::main(&args),
        Command::Incidents(args) => cases::incidents(&args),
        Command::Escalations(args) => cases::escalations(&args),
        Command::Alerts(args) => alerts::main(&args),
        Command::Spend(args) => spend::main(&args),
        Command::Budgets(args) => budgets::main(&args),
        Command::Token(args) => token::main(&args),
        Command::Sessions(args) => sessions::main(&args),
        Command::Journal(args) => journal::main(&args),
        Command::Backup(args) => backup::main(&args),
        Command::Background(args) => background::main(&args),
        Command::Restore(args) => restore::main(&args),
        Command::Record(args) => record::main(&args),
        Command::Eval(args) => eval::main(&args),
        Command::Replay(args) => replay::main(&args),
        Command::Verify(args) => verify::main(&args),
        Command::Hook(args) => return hook::main(args),
        Command::Mcp(args) => return mcp::main(&args),
        Command::Install(args) => install::main(&args),
        Command::Uninstall(args) => uninstall::main(&args),
        Command::Completions(args) => completions::main(&args, Cli::command()),
        Command::Canary(args) => canary::main(&args).map(|()| Exit::Fine),
        Command::EnterCgroup(args) => enter_cgroup::main(&args).map(|never| match never {}),
        Command::Detach(args) => detach::main(&args),
    };
    let exit = result.unwrap_or_else(|error| {
        eprintln!("estop: {}", escaped_lines(&format!("{error:#}")));
        Exit::of(&error)
    });
    exit.into()
}
