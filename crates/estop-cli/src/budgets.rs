//! `estop budgets renew`: has budgets begin the present day and month after the clock was ahead (PO-2).

use clap::builder::NonEmptyStringValueParser;
use estop_config::printable::escaped_lines;
use http::Method;
use serde_json::json;

use super::Exit;
use crate::client::{DaemonArgs, path};

/// Renew budgets after the clock was ahead; begins the present day and month
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    daemon: DaemonArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Begin the present day and month, with what `estop spend` shows for them
    Renew(RenewArgs),
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct RenewArgs {
    /// The agent's name
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// Of all agents, and of all agents together
    #[arg(long)]
    all: bool,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    let daemon = args.daemon.daemon()?;
    let Command::Renew(RenewArgs { name, all: _ }) = &args.command;
    let body = json!({ "agent": name });
    let renewed = daemon.send(Method::POST, path(&["budgets", "renew"]), Some(&body))?;
    daemon.say(&renewed, |renewed| escaped_lines(renewed["message"].as_str().unwrap_or_default()))?;
    Ok(Exit::Fine)
}
