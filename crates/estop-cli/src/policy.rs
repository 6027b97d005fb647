//! `estop policy …`: an agent's rules: what is in force and why, and rules laid over the configuration's.

mod cases;

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::builder::NonEmptyStringValueParser;
use estop_config::printable::escaped;
use estop_config::{FILE_BYTES_MAX, read_policy, read_yaml};
use http::Method;
use serde_json::Value;

use super::table::{cell, table};
use super::{Exit, Refused, say_json};
use crate::client::{Daemon, DaemonArgs, path};

/// Show and override an agent's rules
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Rules are written as under `policy:` of the configuration, in YAML or JSON. For example:\n  \
    echo 'kill_switch_enabled: true' | estop policy set my-agent -"
)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    daemon: DaemonArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show the rules in force, and where each comes from
    Show(NameArgs),
    /// Lay rules over the configuration's; they replace what was laid before
    Set {
        #[command(flatten)]
        agent: NameArgs,
        #[command(flatten)]
        rules: RulesArgs,
    },
    /// Take the laid rules away: the configuration decides again
    Clear(NameArgs),
    /// Say whether rules can be used, without setting them
    Check(RulesArgs),
    Test(cases::Args),
}

#[derive(Debug, clap::Args)]
struct NameArgs {
    /// The agent's name
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: String,
}

#[derive(Debug, clap::Args)]
struct RulesArgs {
    /// The rules; `-` reads them from the standard input
    file: PathBuf,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    let daemon = || args.daemon.daemon();
    match &args.command {
        Command::Show(agent) => show(&daemon()?, &agent.name),
        Command::Set { agent, rules } => set(&daemon()?, &agent.name, &rules.file),
        Command::Clear(agent) => clear(&daemon()?, &agent.name),
        Command::Check(rules) => check(&daemon()?, &rules.file),
        Command::Test(cases) => return cases::main(cases, args.daemon.json),
    }?;
    Ok(Exit::Fine)
}

fn show(daemon: &Daemon, name: &str) -> anyhow::Result<()> {
    daemon.say(&daemon.get(path(&["agents", name, "policy"]))?, shown)
}

fn set(daemon: &Daemon, name: &str, file: &Path) -> anyhow::Result<()> {
    let rules = read(daemon, file)?;
    let policy = daemon.send(Method::PUT, path(&["agents", name, "policy"]), Some(&rules))?;
    daemon.say(&policy, |policy| {
        format!("Set. These rules of {} are in force:\n{}", escaped(name), shown(policy))
    })
}

fn clear(daemon: &Daemon, name: &str) -> anyhow::Result<()> {
    let policy = daemon.send(Method::DELETE, path(&["agents", name, "policy"]), None)?;
    daemon.say(&policy, |_| format!("Cleared: the configuration decides for {} again.", escaped(name)))
}

fn check(daemon: &Daemon, file: &Path) -> anyhow::Result<()> {
    let rules = read(daemon, file)?;
    let answer = daemon.send(Method::POST, path(&["policy", "check"]), Some(&rules))?;
    daemon.say(&answer, |_| "These rules can be used.".to_owned())
}

/// Rules as JSON. A mistake in their shape is found here, where it has a line.
fn read(daemon: &Daemon, file: &Path) -> anyhow::Result<Value> {
    let name = file.display().to_string();
    let text = text_of(file).with_context(|| format!("cannot read {name}"))?;
    let rules = read_policy(&text, &name).and_then(|_| read_yaml::<Value>(&text, &name));
    let rules = rules.map_err(|problem| problem.to_string());
    if let (true, Err(problem)) = (daemon.json, &rules) {
        say_json(&serde_json::json!({"code": "invalid", "detail": problem}))?;
    }
    // Comments alone set nothing.
    let rules = rules.map_err(|problem| Refused(with_hint(problem)))?;
    Ok(if rules.is_null() { Value::Object(Default::default()) } else { rules })
}

fn with_hint(problem: String) -> String {
    if problem.contains("unknown key `policy`") {
        return format!("{problem}\nWrite what stands under `policy:`, without that key itself.");
    }
    problem
}

pub(super) fn text_of(file: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let most = FILE_BYTES_MAX as u64 + 1;
    if file == Path::new("-") {
        std::io::stdin().lock().take(most).read_to_string(&mut text)?;
    } else {
        std::fs::File::open(file)?.take(most).read_to_string(&mut text)?;
    }
    if text.len() > FILE_BYTES_MAX {
        return Err(std::io::Error::other(format!(
            "larger than {FILE_BYTES_MAX} bytes, the most rules may have"
        )));
    }
    if text.trim().is_empty() {
        // A command before a pipe that failed leaves nothing: that is no wish to take every rule away.
        return Err(std::io::Error::other("it is empty, so nothing was changed; `{}` takes every rule away"));
    }
    Ok(text)
}

/// Each value with where it comes from; a section has one origin.
fn shown(policy: &Value) -> String {
    let mut rows = Vec::new();
    for (key, value) in policy["effective"].as_object().into_iter().flatten() {
        let origin = cell(&policy["origins"][key]);
        match value.as_object() {
            Some(section) => rows.extend(
                section
                    .iter()
                    .map(|(name, value)| [escaped(&format!("{key}.{name}")), cell(value), origin.clone()]),
            ),
            None => rows.push([escaped(key), cell(value), origin]),
        }
    }
    let (preset, role) = (cell(&policy["preset"]), cell(&policy["role"]));
    format!("Preset {preset}, role {role}.\n{}", table(["rule", "value", "from"], rows))
}
