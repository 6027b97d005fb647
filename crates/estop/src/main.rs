//! `estop`: parses the command line, runs the command, turns its end into an exit code.

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
#[cfg(feature = "demo")]
use estop_cli::demo;
#[cfg(feature = "top")]
use estop_cli::top;
use estop_cli::{
    Exit, agents, alerts, background, backup, budgets, cases, completions, config, detach, doctor, emergency,
    eval, hook, install, journal, kill, manual, mcp, policy, prooftest, record, replay, restore, run, runs,
    sessions, spend, status, token, tune, uninstall, verify,
};
use estop_config::printable::escaped_lines;
use estop_daemon::prooftest::canary;
use estop_daemon::{serve, triggers};
use estop_supervise::enter_cgroup;

/// Requests allocate on one thread and are freed on another; the system's allocator is slow at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Commands as `estop --help` shows them: what a person wants to do, and what does it.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Start", &["demo", "serve", "run", "install", "uninstall", "mcp", "hook"]),
    ("Stop", &["kill", "emergency", "prooftest"]),
    ("Look", &["status", "top", "agents", "runs", "incidents", "escalations", "spend", "journal"]),
    (
        "Set up",
        &["config", "policy", "tune", "budgets", "alerts", "token", "sessions", "doctor", "completions"],
    ),
    ("Test and replay", &["record", "eval", "replay", "verify"]),
    ("Look after", &["backup", "restore", "background", "version", "help"]),
];

/// The emergency stop for AI agents
#[derive(Debug, Parser)]
#[command(
    version,
    help_template = "{about-with-newline}\n{usage-heading} {usage}\n{before-help}\nOptions:\n{options}\n{after-help}",
    after_help = "Examples:\n  \
        estop demo                                  see it stop a loop, without a key\n  \
        estop serve                                 stand between agents and their models\n  \
        estop run --stop-loops -- python agent.py   run a program under it\n  \
        estop agents loop-guard my-agent --on       have loops stop an agent\n  \
        estop kill                                  stop everything\n\n\
        `estop help COMMAND` explains a command.\n\n\
        Exit codes: 0 fine, 1 the check failed or the answer is no, 2 usage or configuration, 3 cannot reach the daemon.\n\
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
    Config(config::Args),
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
    /// Print the version
    Version,
    #[command(hide = true)]
    Manual(manual::Args),
    #[command(hide = true)]
    Canary(canary::Args),
    #[command(hide = true)]
    EnterCgroup(enter_cgroup::Args),
    #[command(hide = true)]
    Detach(detach::Args),
}

/// The command line with its commands in groups.
fn grouped() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    let mut listed = String::new();
    for (title, names) in GROUPS {
        listed += &format!("\n{title}:\n");
        // What this build leaves out is not shown.
        for found in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = found.get_about().map(ToString::to_string).unwrap_or_default();
            // The rest is for whoever asks for this one.
            let about = about.split([';', ':']).next().unwrap_or_default();
            listed += &format!("  {:<12} {about}\n", found.get_name());
        }
    }
    command.before_help(listed)
}

/// Ends the process where nothing is to be run: with help, or with what is wrong.
fn parsed() -> Cli {
    let matches = grouped().get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

fn version() -> Exit {
    use std::io::Write;
    // Whoever reads may have seen enough.
    let _ = writeln!(std::io::stdout(), "estop {}", env!("CARGO_PKG_VERSION"));
    Exit::Fine
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
    let result = match parsed().command {
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
        Command::Config(args) => config::main(&args),
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
        Command::Version => Ok(version()),
        Command::Manual(args) => manual::main(&args, Cli::command()),
        Command::Canary(args) => canary::main(&args).map(|()| Exit::Fine),
        Command::EnterCgroup(args) => enter_cgroup::main(&args).map(|never| match never {}),
        Command::Detach(args) => detach::main(&args),
    };
    let exit = result.unwrap_or_else(|error| {
        // Where nobody can be told, the exit code still says it.
        let _ = writeln!(std::io::stderr(), "estop: {}", escaped_lines(&format!("{error:#}")));
        Exit::of(&error)
    });
    exit.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ui_2_help_shows_every_command_once_and_in_a_group() {
        let mut command = Cli::command();
        command.build();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let mut visible: Vec<&str> =
            command.get_subcommands().filter(|c| !c.is_hide_set()).map(clap::Command::get_name).collect();
        grouped.sort_unstable();
        visible.sort_unstable();
        assert_eq!(grouped, visible);
        let help = super::grouped().render_help().to_string();
        assert!(help.lines().all(|line| line.chars().count() <= 120), "{help}");
        for text in ["Start:", "Stop:", "Examples:", "estop run --stop-loops -- python agent.py"] {
            assert!(help.contains(text), "{text}: {help}");
        }
    }
}
