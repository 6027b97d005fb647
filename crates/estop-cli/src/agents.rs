//! `estop agents …`: who there is, how they stand, and switching them on and off.

mod keys;
mod loop_guard;
mod shown;
mod snooze;

use clap::builder::NonEmptyStringValueParser;
use estop_config::printable::escaped;
use http::Method;
use serde_json::{Value, json};

use super::{Exit, say};
use crate::client::{Ask, Daemon, DaemonArgs, Listing, path};

/// Look at agents, switch them on and off, and set their loop guards
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    estop agents list\n  \
    estop agents loop-guard my-agent --on\n  \
    estop agents activate my-agent")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    daemon: DaemonArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List all agents and how they stand
    List,
    /// Show one agent
    Show(NameArgs),
    /// Switch an agent on; its loop window and counters begin anew, and its incidents are resolved
    Activate(NameArgs),
    /// Switch an agent off: its requests in progress are ended, and it stays off
    Deactivate(NameArgs),
    /// Refuse new requests until resumed
    Pause(NameArgs),
    /// Let a paused agent go on
    Resume(NameArgs),
    Snooze(snooze::Args),
    Unsnooze(snooze::WakeArgs),
    /// Add an agent before it calls for the first time
    Add(AddArgs),
    /// Delete an agent: it is switched off, its keys are revoked, its records stay
    Remove(NameArgs),
    #[command(visible_alias = "kill-switch")]
    LoopGuard(loop_guard::Args),
    /// Show the loop score of an agent's latest request, and what it is made of
    Score(NameArgs),
    Key(keys::Args),
}

#[derive(Debug, clap::Args)]
struct NameArgs {
    /// The agent's name
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: String,
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    #[command(flatten)]
    agent: NameArgs,
    /// Its role, which picks its circuit breakers
    #[arg(long)]
    role: Option<String>,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    let daemon = args.daemon.daemon()?;
    match &args.command {
        Command::List => list(&daemon),
        Command::Show(agent) => show(&daemon, &agent.name),
        Command::Activate(agent) => steer(&daemon, &agent.name, "activate"),
        Command::Deactivate(agent) => steer(&daemon, &agent.name, "deactivate"),
        Command::Pause(agent) => steer(&daemon, &agent.name, "pause"),
        Command::Resume(agent) => steer(&daemon, &agent.name, "resume"),
        Command::Snooze(args) => snooze::snooze(&daemon, args),
        Command::Unsnooze(args) => snooze::wake(&daemon, args),
        Command::Add(args) => add(&daemon, args),
        Command::Remove(agent) => remove(&daemon, &agent.name),
        Command::LoopGuard(args) => loop_guard::main(&daemon, args),
        Command::Score(agent) => score(&daemon, &agent.name),
        Command::Key(args) => keys::main(&daemon, args),
    }?;
    Ok(Exit::Fine)
}

fn list(daemon: &Daemon) -> anyhow::Result<()> {
    let all = Listing { path: "/api/agents", query: Vec::new(), key: "agents", cursor: "after", limit: None };
    daemon.say(&daemon.list(all)?, shown::list)
}

fn show(daemon: &Daemon, name: &str) -> anyhow::Result<()> {
    daemon.say(&daemon.get(path(&["agents", name]))?, shown::one)
}

fn steer(daemon: &Daemon, name: &str, step: &str) -> anyhow::Result<()> {
    let agent = daemon.send(Method::POST, path(&["agents", name, step]), None)?;
    daemon.say(&agent, |agent| escaped(agent["message"].as_str().unwrap_or_default()).to_string())
}

fn add(daemon: &Daemon, args: &AddArgs) -> anyhow::Result<()> {
    let body = json!({"id": args.agent.name, "role": args.role});
    let agent = daemon.send(Method::POST, path(&["agents"]), Some(&body))?;
    let name = escaped(&args.agent.name);
    daemon.say(&agent, |_| {
        format!("Added {name}. Its base URL ends with /agents/{name}/ and the provider, as /agents/{name}/openai/v1.")
    })
}

/// Reads it first: whoever deletes must have seen what.
fn remove(daemon: &Daemon, name: &str) -> anyhow::Result<()> {
    let target = path(&["agents", name]);
    daemon.attempt(|client| {
        let seen = client.ask(&Ask::new(Method::GET, target.clone()))?;
        let if_match = seen.etag.as_deref().or(Some("*"));
        client.ask(&Ask { if_match, ..Ask::new(Method::DELETE, target.clone()) })
    })?;
    if daemon.json {
        return super::say_json(&json!({"id": name, "removed": true}));
    }
    say(&format!("Removed {}. Its records stay in the journal.", escaped(name)))
}

fn score(daemon: &Daemon, name: &str) -> anyhow::Result<()> {
    let score: Value = daemon.get(path(&["agents", name, "score"]))?;
    daemon.say(&score, shown::score)
}
