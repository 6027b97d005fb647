//! `estop agents key NAME`: makes a key for an agent, lists its keys, or takes one back (ID-2).

use estop_config::printable::escaped;
use http::Method;
use serde_json::json;

use super::NameArgs;
use crate::client::{Daemon, path};
use crate::table::{cell, list, moment};
use crate::{say, say_json};

/// Make a key for an agent, shown once; or list its keys, or take one back
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    agent: NameArgs,
    /// List its keys instead
    #[arg(long, conflicts_with = "revoke")]
    list: bool,
    /// Revoke this key instead
    #[arg(long, value_name = "ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    revoke: Option<String>,
}

pub(super) fn main(daemon: &Daemon, args: &Args) -> anyhow::Result<()> {
    let name = &args.agent.name;
    match &args.revoke {
        Some(id) => revoke(daemon, name, id),
        None if args.list => show(daemon, name),
        None => make(daemon, name),
    }
}

fn make(daemon: &Daemon, name: &str) -> anyhow::Result<()> {
    let key = daemon.send(Method::POST, path(&["agents", name, "keys"]), None)?;
    daemon.say(&key, |key| {
        format!(
            "Created a key for {} (shown only once): {}\nIts id is {}. The agent sends it as its API key.",
            escaped(name),
            cell(&key["key"]),
            cell(&key["id"])
        )
    })
}

fn show(daemon: &Daemon, name: &str) -> anyhow::Result<()> {
    let keys = daemon.get(path(&["agents", name, "keys"]))?;
    let heading = ["id", "begins with", "created", "last used"];
    daemon.say(&keys, |keys| {
        list(&keys["keys"], "No keys. With a key, estop can verify which agent is calling.", heading, |key| {
            [cell(&key["id"]), cell(&key["prefix"]), moment(&key["created_at"]), moment(&key["last_used_at"])]
        })
    })
}

fn revoke(daemon: &Daemon, name: &str, id: &str) -> anyhow::Result<()> {
    daemon.send(Method::DELETE, path(&["agents", name, "keys", id]), None)?;
    if daemon.json {
        return say_json(&json!({"id": id, "revoked": true}));
    }
    say(&format!("Revoked key {} of {}: it is no longer accepted.", escaped(id), escaped(name)))
}
