//! `estop alerts rules …`: who is told of what; rules of the file, and those laid over them.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::builder::NonEmptyStringValueParser;
use estop_config::printable::escaped;
use estop_config::read_yaml;
use http::Method;
use serde_json::{Map, Value, json};

use super::names;
use crate::client::{Ask, Daemon, path};
use crate::policy::text_of;
use crate::table::{cell, list};
use crate::{Refused, say_json};

/// Look at rules, and lay rules over the configuration's
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A rule is written as under `alerts.rules` of the configuration, in YAML or JSON. For example:\n  \
    echo '{types: [kill_switch], channels: [ops]}' | estop alerts rules set stops -"
)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List rules, where they stand and which are in force; the same as no command
    List,
    /// Set a rule; it replaces the configuration's of that name
    Set {
        #[command(flatten)]
        rule: NameArgs,
        /// The rule; `-` reads it from the standard input
        file: PathBuf,
    },
    /// Switch a rule off, also one of the configuration
    Off(NameArgs),
    /// Take a rule away that was set here: the configuration decides again
    Remove(NameArgs),
}

#[derive(Debug, clap::Args)]
struct NameArgs {
    /// The rule's name
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: String,
}

pub(super) fn main(daemon: &Daemon, args: &Args) -> anyhow::Result<()> {
    match args.command.as_ref().unwrap_or(&Command::List) {
        Command::List => {
            let rules = daemon.get(path(&["alerts", "rules"]))?;
            daemon.say(&rules, shown)
        }
        Command::Set { rule, file } => {
            let body = json!({"enabled": true, "rule": read(daemon, file)?});
            let set = daemon.send(Method::PUT, path(&["alerts", "rules", &rule.name]), Some(&body))?;
            daemon.say(&set, |_| format!("The rule {} is in force.", escaped(&rule.name)))
        }
        Command::Off(rule) => off(daemon, &rule.name),
        Command::Remove(rule) => {
            daemon.send(Method::DELETE, path(&["alerts", "rules", &rule.name]), None)?;
            let gone = json!({"id": rule.name, "removed": true});
            daemon.say(&gone, |_| format!("The rule {} is taken away.", escaped(&rule.name)))
        }
    }
}

/// What it says stays, for whoever switches it on again.
fn off(daemon: &Daemon, name: &str) -> anyhow::Result<()> {
    let target = || path(&["alerts", "rules", name]);
    let answer = daemon.attempt(|client| {
        let seen = client.ask(&Ask::new(Method::GET, target()))?;
        let body = json!({"enabled": false, "rule": seen.json["rule"]});
        let ask =
            Ask { body: Some(&body), if_match: seen.etag.as_deref(), ..Ask::new(Method::PUT, target()) };
        client.ask(&ask)
    })?;
    daemon.say(&answer.json, |_| format!("The rule {} is off.", escaped(name)))
}

fn read(daemon: &Daemon, file: &Path) -> anyhow::Result<Value> {
    let name = file.display().to_string();
    let text = text_of(file).with_context(|| format!("cannot read {name}"))?;
    let rule = read_yaml::<Value>(&text, &name).map_err(|problem| problem.to_string());
    if let (true, Err(problem)) = (daemon.json, &rule) {
        say_json(&json!({"code": "invalid", "detail": problem}))?;
    }
    // Comments alone tell everything to everybody.
    let rule = rule.map_err(Refused)?;
    Ok(if rule.is_null() { Value::Object(Map::new()) } else { rule })
}

fn shown(rules: &Value) -> String {
    let heading = ["rule", "from", "in force", "types", "agents", "channels", "note"];
    let table = list(&rules["rules"], "No rule.", heading, |rule| {
        let note = if rule["enabled"] == false { "switched off".to_owned() } else { note(&rule["problem"]) };
        let says = &rule["rule"];
        [
            cell(&rule["id"]),
            cell(&rule["origin"]),
            cell(&rule["in_force"]),
            names(&says["types"], "all but checkpoint"),
            names(&says["agents"], "all"),
            names(&says["channels"], "all"),
            note,
        ]
    });
    if rules["everything"] == true {
        return format!(
            "{table}\nNo rule is in force: every channel receives every alert except checkpoints."
        );
    }
    table
}

fn note(problem: &Value) -> String {
    if problem.is_null() { String::new() } else { cell(problem) }
}
