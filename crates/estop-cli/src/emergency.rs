//! `estop emergency …`: the red button (KS-5, KS-6). Killing is easy; restarting and clearing need an admin token and say which
//! kill they mean.

use std::io::{BufRead, IsTerminal, Write};

use estop_config::printable::escaped;
use estop_config::printed_command::Commands;
use http::Method;
use serde_json::{Value, json};

use super::Exit;
use super::emergency_text::{persisted, proof_test, state, state_of};
use super::kill::{self, Pressing};
use super::table::{cell, each, moment, properties};
use crate::client::{AdminTokenArg, Daemon, DaemonArgs, path};

/// Longest reason that is read from a terminal.
const REASON_MAX: usize = 500;

/// Stop everything, let it go on, or show how the emergency stop stands
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    token: AdminTokenArg,
    #[command(flatten)]
    daemon: DaemonArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Stop everything, or single channels
    Kill(Pressing),
    /// Step 1 of 2 to go on: SHUTDOWN → SAFE_MODE; people may look, agents stay stopped
    #[command(visible_alias = "restart")]
    Unlock(Unlocking),
    /// Step 2 of 2: SAFE_MODE → RUNNING; while running, opens channels that were killed one by one
    Clear(Unlocking),
    /// How the system stands; exit code 1 if it is not running
    Status,
}

/// A step towards running again.
#[derive(Debug, clap::Args)]
struct Unlocking {
    /// Why, for the journal; asked for on a terminal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The epoch of the status you looked at, instead of the present one: a newer kill then stays
    #[arg(long, value_name = "N")]
    epoch: Option<u64>,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Kill(pressing) => kill::press(pressing, &args.token, &args.daemon),
        Command::Unlock(unlocking) => {
            unlock(&args.token.daemon_to_unlock(&args.daemon)?, unlocking, ("restart", "unlock"))
        }
        Command::Clear(unlocking) => {
            unlock(&args.token.daemon_to_unlock(&args.daemon)?, unlocking, ("clear", "clear"))
        }
        Command::Status => status(&args.token.daemon(&args.daemon)?),
    }
}

/// Looks first: the epoch that is shown is the one that is unlocked. A kill that comes in between wins. The verb is the API's,
/// and how people call it.
fn unlock(daemon: &Daemon, unlocking: &Unlocking, (verb, called): (&str, &str)) -> anyhow::Result<Exit> {
    let seen = daemon.get(path(&["emergency", "status"]))?;
    let epoch = unlocking.epoch.map_or_else(|| seen["epoch"].clone(), Into::into);
    let reason = unlocking.reason.clone().or_else(|| ask_why(&seen, called));
    let mut body = json!({ "epoch": epoch });
    if let Some(reason) = reason {
        body["reason"] = reason.into();
    }
    let done = daemon.send(Method::POST, path(&["emergency", verb]), Some(&body))?;
    daemon.say(&done, |done| {
        let saved = if done["persisted"] == false { persisted(done) } else { " Saved." };
        match done["status"].as_str() {
            Some("safe_mode") => {
                let clear = daemon.commands.emergency_clear();
                format!("SAFE_MODE: agents stay stopped.{saved} Next: {clear}")
            }
            Some("running") => format!("RUNNING: {}{saved}", can_work(done, &daemon.commands)),
            _ => format!("{}: {}{saved}", state(&done["status"]), cell(&done["message"])),
        }
    })?;
    Ok(Exit::Fine)
}

/// Who can work again. Channels that were killed one by one are not opened with the system, one that was switched off at the
/// start never is.
fn can_work(done: &Value, commands: &Commands) -> String {
    let shut: Vec<&str> = each(&done["shut"]).iter().filter_map(Value::as_str).collect();
    if shut.is_empty() {
        return "agents can work again.".to_owned();
    }
    let of_llm = match shut.contains(&"llm") {
        true => ", and llm needs a start without LLM_ENABLED=false and ESTOP_LLM_ENABLED=false",
        false => "",
    };
    format!(
        "agents can work again, but these channels stay shut: {}. What was killed one by one opens with another \
         `{}`{of_llm}.",
        shut.join(", "),
        commands.emergency_clear()
    )
}

/// On a terminal; who presses Enter gives none. A pipe is not asked: it might never answer.
fn ask_why(seen: &Value, verb: &str) -> Option<String> {
    let (input, mut asked) = (std::io::stdin(), std::io::stderr());
    if !input.is_terminal() || !asked.is_terminal() {
        return None;
    }
    let note = seen["note"].as_str().map(|note| format!(" ({})", escaped(note))).unwrap_or_default();
    let since = format!("by {}, since {}{note}", cell(&seen["by"]), moment(&seen["since"]));
    write!(asked, "{}, {since}\nWhy do you {verb} it? (Enter = no reason) ", state(&seen["state"])).ok()?;
    asked.flush().ok()?;
    let mut line = String::new();
    input.lock().read_line(&mut line).ok()?;
    let line = line.trim();
    let line = &line[..line.floor_char_boundary(REASON_MAX)];
    (!line.is_empty()).then(|| line.to_owned())
}

fn status(daemon: &Daemon) -> anyhow::Result<Exit> {
    let status = daemon.get(path(&["emergency", "status"]))?;
    daemon.say(&status, |status| {
        let channels = [("llm", "llmEnabled"), ("messaging", "messagingEnabled"), ("tools", "toolsEnabled")];
        let open = |(name, key): (&str, &str)| {
            format!("{name} {}", if status[key] == true { "open" } else { "shut" })
        };
        properties([
            ("state", state_of(status)),
            ("channels", channels.map(open).join(", ")),
            ("reason", cell(&status["reason"])),
            ("note", cell(&status["note"])),
            ("by", format!("{} ({})", cell(&status["by"]), cell(&status["source"]))),
            ("since", moment(&status["since"])),
            ("epoch", cell(&status["epoch"])),
            (
                "saved",
                if status["persisted"] == true { "yes" } else { "NO: a restart would not know of it" }.into(),
            ),
            ("proof test", proof_test(&status["proofTest"])),
        ])
    })?;
    Ok(if status["operational"] == true { Exit::Fine } else { Exit::No })
}
