//! `estop record`: what one agent says and does, secrets masked, as traces for `estop eval` (LD-7).
//!
//! The daemon sends it over the line of this command and keeps nothing; this command writes the file.

mod assembly;

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use estop_config::printable::escaped;
use serde_json::{Value, json};

use super::Exit;
use crate::client::{DaemonArgs, RecordingEnd, path};
use crate::minutes::minutes;
use assembly::Assembly;

/// Record what an agent says and does as traces for `estop eval`, with secrets masked
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The agent; everything it asks models from now on is recorded
    #[arg(long, value_name = "NAME")]
    agent: String,
    /// The file, which must not exist; without it, recording-AGENT-TIME.jsonl in this folder
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// For how long at most, as 90m, 2h or 1d; Ctrl-C ends it before
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = minutes)]
    minutes: u64,
    /// How much at most, in megabytes
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1024))]
    max_mb: u64,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    let daemon = args.daemon.daemon()?;
    let began = jiff::Timestamp::now();
    let name = || format!("recording-{}-{}.jsonl", args.agent, began.strftime("%Y%m%dT%H%M%SZ"));
    let place = args.out.clone().unwrap_or_else(|| PathBuf::from(name().replace('/', "_")));
    let shown = place.display().to_string();
    let mut assembly = Assembly::new(&args.agent, began);
    let mut end = Value::Null;
    let mut file = None;
    let target = path(&["agents", &args.agent, "recording"]);
    let body = json!({"for_s": args.minutes * 60, "max_mb": args.max_mb});
    let why = daemon.follow(&target, &body, &mut |line| {
        if line.is_null() {
            // Only now: a refused recording leaves no file.
            file = Some(create(&place)?);
            eprintln!(
                "estop: recording {} into {shown}, for at most {} min or {} MB. Ctrl-C ends it. Known kinds of secrets are \
                 masked; everything else is kept: read it before you give it away.",
                escaped(&args.agent),
                args.minutes,
                args.max_mb
            );
        } else if line["end"].is_string() {
            end = line.clone();
        } else {
            assembly.add(line);
        }
        Ok(())
    })?;
    let traces = assembly.finish();
    let mut file = file.context("estop sent nothing")?;
    let written =
        traces.iter().try_for_each(|trace| writeln!(file, "{trace}")).and_then(|()| file.sync_all());
    written.with_context(|| format!("cannot write {shown}"))?;
    let summary = json!({
        "file": shown,
        "traces": traces.len(),
        "ended": ended(why, &end),
        "requests": end["requests"],
        "left_out": end["dropped"],
        "unread": end["unread"],
    });
    daemon.say(&summary, text)?;
    let is_whole =
        why != RecordingEnd::Gone && end["end"] != "slow" && end["dropped"].as_u64().unwrap_or(0) == 0;
    Ok(if is_whole { Exit::Fine } else { Exit::No })
}

/// For its owner alone, and never over something else.
fn create(place: &Path) -> anyhow::Result<std::fs::File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(place);
    file.with_context(|| format!("cannot create {}", place.display()))
}

fn ended(why: RecordingEnd, end: &Value) -> &'static str {
    match (why, end["end"].as_str()) {
        (RecordingEnd::Gone, _) => "estop is gone",
        (RecordingEnd::Signal, _) => "by a signal",
        (RecordingEnd::Told, Some("time")) => "the time is over",
        (RecordingEnd::Told, Some("size")) => "the size is reached",
        (RecordingEnd::Told, Some("slow")) => {
            "this command did not run for half a minute, and what it did not take is lost"
        }
        (RecordingEnd::Told, _) => "estop ended it",
    }
}

fn text(summary: &Value) -> String {
    let word = |key: &str| summary[key].as_str().unwrap_or_default().to_owned();
    let traces = if summary["traces"] == 1 { "trace" } else { "traces" };
    let mut text = format!("{} {traces} in {}; {}.", summary["traces"], word("file"), word("ended"));
    if let Some(left_out) = summary["left_out"].as_u64().filter(|count| *count > 0) {
        text += &format!(
            " {left_out} requests and answers were left out, because they came faster than they could be read: traces go on in \
             a new part after that."
        );
    }
    if let Some(unread) = summary["unread"].as_u64().filter(|count| *count > 0) {
        text += &format!(" {unread} requests were no talk with a model that estop reads, and are not in it.");
    }
    text + " Set `label` to healthy or loop where you know it, then: estop eval FILE --list"
}
