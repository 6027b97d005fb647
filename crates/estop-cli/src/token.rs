//! `estop token …`: tokens of people. A lost admin token is replaced over the owner's socket (KS-5).

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use estop_config::data_dir::admin_token;
use estop_config::printable::escaped;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Exit;
use super::table::{cell, each, list as table_of, moment};
use crate::client::{Daemon, DaemonArgs, Whereabouts, path};

/// Tokens of the environment come back with the next start.
const ENV_NAME: &str = "ESTOP_ADMIN_TOKEN";

/// Create, list and revoke tokens of people
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    daemon: DaemonArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List active tokens
    List,
    Create(CreateArgs),
    /// Revoke a token, and end its sessions
    Revoke {
        /// The token's id; `estop token list` shows it
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
    /// Lost the admin token? Create a new one and revoke all other admin tokens; over the owner's socket only. Alerts are sent
    Reset,
}

/// Create a token; it is shown once
#[derive(Debug, clap::Args)]
struct CreateArgs {
    /// What it allows: admin everything, operator looking and stopping, viewer looking
    #[arg(long, value_parser = PossibleValuesParser::new(["admin", "operator", "viewer"]))]
    role: String,
    /// What people call it; the journal names it as who did something
    #[arg(long)]
    name: String,
    /// It expires after so many days; never if left out
    #[arg(long, value_name = "DAYS")]
    expires_in_days: Option<u32>,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        Command::List => list(&args.daemon.daemon()?),
        Command::Create(new) => create(&args.daemon.daemon()?, new),
        Command::Revoke { id } => {
            let done = |id| format!("Revoked token {id}: it is no longer accepted.");
            args.daemon.daemon()?.revoke("tokens", id, done)
        }
        Command::Reset => {
            let daemon = args.daemon.daemon_of_owner("`estop token reset`")?;
            reset(&daemon, &args.daemon.whereabouts()?)
        }
    }?;
    Ok(Exit::Fine)
}

fn list(daemon: &Daemon) -> anyhow::Result<()> {
    let heading = ["id", "name", "role", "created", "expires", "last used"];
    daemon.say(&daemon.get(path(&["tokens"]))?, |tokens| {
        table_of(&tokens["tokens"], "No tokens.", heading, |token| {
            [
                cell(&token["id"]),
                cell(&token["name"]),
                cell(&token["role"]),
                moment(&token["created_at"]),
                moment(&token["expires_at"]),
                moment(&token["last_used_at"]),
            ]
        })
    })
}

fn create(daemon: &Daemon, new: &CreateArgs) -> anyhow::Result<()> {
    let mut body = json!({"name": new.name, "role": new.role});
    if let Some(days) = new.expires_in_days {
        body["expires_in_days"] = days.into();
    }
    let token = daemon.send(Method::POST, path(&["tokens"]), Some(&body))?;
    daemon.say(&token, |token| {
        let (role, name, id) = (&new.role, escaped(&new.name), cell(&token["id"]));
        format!(
            "Created token {name} with the role {role} (shown only once): {}\nIts id is {id}. Use it with --url and ESTOP_TOKEN, \
             or to log in.",
            cell(&token["token"])
        )
    })
}

/// The new one first, so that there is always one; it is shown whatever happens to the others.
fn reset(daemon: &Daemon, place: &Whereabouts) -> anyhow::Result<()> {
    let name = format!("reset-{}", Timestamp::now().strftime("%Y%m%dT%H%M%SZ"));
    let body = json!({"name": name, "role": "admin"});
    let mut token = daemon.send(Method::POST, path(&["tokens"]), Some(&body))?;
    let taken = take_back_others(daemon, &token["id"]);
    let (gone, problem) = match taken {
        Ok(gone) => (gone, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    if let (Whereabouts::DataDir(folder), None) = (place, &problem) {
        // What a first start wrote there opens nothing any more.
        let _ = std::fs::remove_file(admin_token(folder));
    }
    let from_env = gone.iter().any(|token| token["name"] == ENV_NAME);
    token["revoked"] = gone.iter().map(|token| token["id"].clone()).collect();
    daemon.say(&token, |token| {
        let mut text = format!("New admin token (shown only once): {}", cell(&token["token"]));
        if problem.is_none() {
            text += &format!("\nAdmin tokens revoked: {}.", gone.len());
        }
        if from_env {
            text += &format!("\nOne came from the variable {ENV_NAME}: change it there, or it is accepted again after the next start.");
        }
        text
    })?;
    problem.map_or(Ok(()), |error| {
        Err(error
            .context("the new token is valid, but not every other admin token was revoked: run this again"))
    })
}

/// All admin tokens but this one.
fn take_back_others(daemon: &Daemon, new: &Value) -> anyhow::Result<Vec<Value>> {
    let all = daemon.get(path(&["tokens"]))?;
    let others = each(&all["tokens"]).iter().filter(|token| token["role"] == "admin" && token["id"] != *new);
    let mut gone = Vec::new();
    for token in others {
        let id = token["id"].as_str().unwrap_or_default();
        daemon.send(Method::DELETE, path(&["tokens", id]), None)?;
        gone.push(token.clone());
    }
    Ok(gone)
}
