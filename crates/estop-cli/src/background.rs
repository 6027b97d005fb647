//! `estop background`: work that goes on at providers after its request, and what a stop did about it.

use http::Method;
use serde_json::Value;

use super::Exit;
use super::table::cell;
use crate::client::{DaemonArgs, path};

/// Show work that goes on at providers: background responses, batches, fine-tuning; and what a stop cancelled
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    let daemon = args.daemon.daemon()?;
    let work = daemon.send(Method::GET, path(&["background"]), None)?;
    daemon.say(&work, text)?;
    Ok(Exit::Fine)
}

fn text(work: &Value) -> String {
    let jobs = work["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut text = format!(
        "{} running, {} being cancelled, {} cancelled, {} not cancelled",
        cell(&work["running"]),
        cell(&work["cancelling"]),
        cell(&work["cancelled"]),
        cell(&work["not_cancelled"])
    );
    for job in jobs {
        text += &format!("\n{}", line(job));
    }
    if work["forgotten"].as_u64().is_some_and(|forgotten| forgotten > 0) {
        let forgotten = cell(&work["forgotten"]);
        text += &format!("\n{forgotten} more began than estop remembers: look at the providers' own lists.");
    }
    text
}

/// One of them, in a line.
pub(super) fn line(job: &Value) -> String {
    let id = if job["id"].is_null() { "(id unknown)".to_owned() } else { cell(&job["id"]) };
    let why = if job["why"].is_null() { String::new() } else { format!(": {}", cell(&job["why"])) };
    let state = cell(&job["state"]).replace('_', " ");
    format!(
        "{}: {} {id} at {}: {state}{why}",
        cell(&job["agent"]),
        cell(&job["kind"]),
        cell(&job["provider"])
    )
}
