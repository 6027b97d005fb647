//! The daemon: whether it runs, answers, and is as it should be.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use estop_config::data_dir::{database, socket};
use estop_store::segments::{JOURNAL_FOLDER, Listing};
use http::Method;
use rustix::process::geteuid;
use serde_json::Value;

use super::{Area, Finding, Installation, alerts};
use crate::client::{Ask, Client, ClientError, path};
use crate::kill::Holder;
use crate::table::{cell, each, moment};

const AREA: Area = Area("daemon");
/// An answer takes milliseconds.
const ANSWERS_TIMEOUT: Duration = Duration::from_secs(2);

/// Also one that came up shut has none.
const NO_SOCKET: &str = "it has no socket there. If its database cannot be used, fix that and start it again";

/// What there is of a daemon.
pub(super) enum Daemon {
    /// It answered: how the button stands, the counts, who is told, and whether its store answers.
    Answers {
        status: Value,
        stats: Result<Value, ClientError>,
        channels: Result<Value, ClientError>,
        /// `None` = everything is shut, so that it is not ready: then the counts say whether the store answers.
        ready: Option<Result<Value, ClientError>>,
    },
    /// Something holds the data directory and does not answer.
    Silent { pid: Option<i32>, why: String },
    /// It is another person's.
    Foreign,
    /// None runs. Its socket may be left.
    None { left: bool },
}

impl Daemon {
    /// Whether something uses the data directory.
    pub(super) fn is_there(&self) -> bool {
        !matches!(self, Daemon::None { .. })
    }

    /// Whether it answers.
    pub(super) fn answers(&self) -> bool {
        matches!(self, Daemon::Answers { .. })
    }
}

/// Looks for the daemon of a data directory.
pub(super) fn look(folder: &Path) -> Daemon {
    let ask = |client: &Client, target: String| {
        let answer = client.ask(&Ask::new(Method::GET, target));
        answer.map(|answer| answer.json)
    };
    let path_of_socket = socket(folder);
    let about = match std::fs::symlink_metadata(&path_of_socket) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Daemon::Foreign,
        about => about.ok(),
    };
    let holder = || Holder::of_folder(folder).map(|holder| holder.pid);
    if about.is_none() {
        return match holder() {
            Some(pid) => Daemon::Silent { pid: Some(pid), why: NO_SOCKET.to_owned() },
            None => Daemon::None { left: false },
        };
    }
    let client = match Client::to_socket(&path_of_socket) {
        Ok(client) => client.within(ANSWERS_TIMEOUT),
        Err(error) => return Daemon::Silent { pid: holder(), why: error.to_string() },
    };
    match ask(&client, path(&["emergency", "status"])) {
        Ok(status) => {
            let stats = ask(&client, path(&["stats"]));
            let ready = (status["state"] == "running").then(|| ask(&client, "/readyz".to_owned()));
            let channels = ask(&client, path(&["alerts", "channels"]));
            Daemon::Answers { status, stats, channels, ready }
        }
        Err(_) if about.is_some_and(|about| !is_mine(about.uid())) => Daemon::Foreign,
        Err(why) => match holder() {
            Some(pid) => Daemon::Silent { pid: Some(pid), why: why.to_string() },
            None => Daemon::None { left: true },
        },
    }
}

/// Whether no estop left anything there.
fn is_unused(folder: &Path) -> bool {
    !database(folder).exists()
        && Listing::of(&folder.join(JOURNAL_FOLDER)).is_ok_and(|journal| journal.is_empty())
}

fn is_mine(owner: u32) -> bool {
    geteuid().is_root() || geteuid().as_raw() == owner
}

/// What is to be said of it.
pub(super) fn check(place: &Installation, folder: &Path, daemon: &Daemon) -> Vec<Finding> {
    match daemon {
        Daemon::None { .. } if is_unused(folder) => vec![AREA.warning(
            format!("nothing here yet: no estop has run with {}", folder.display()),
            format!("start with `{}`", place.serve()),
        )],
        Daemon::None { left } => {
            let how =
                if *left { ", and the last one ended without tidying up: its socket is left" } else { "" };
            vec![AREA.warning(format!("no estop runs{how}"), format!("`{}` starts it", place.serve()))]
        }
        Daemon::Foreign => vec![AREA.warning(
            "it is another user's: its socket cannot be used",
            "run this as the owner of the data directory",
        )],
        Daemon::Silent { pid, why } => {
            let who = pid.map_or_else(|| "a process".to_owned(), |pid| format!("process {pid}"));
            vec![AREA.wrong(
                format!("{who} holds the data directory and does not answer: {why}"),
                format!(
                    "{} stops everything all the same; then start estop again",
                    place.command("kill --force")
                ),
            )]
        }
        Daemon::Answers { status, stats, channels, ready } => {
            let mut findings = vec![state(place, status)];
            findings.extend(kept(status));
            findings.extend(triggers(status));
            findings.push(proof_test(place, &status["proofTest"]));
            findings.push(store(ready.as_ref().unwrap_or(stats)));
            findings.extend(broken(status));
            findings.extend(counts(stats));
            findings.extend(budgets(place, stats));
            findings.extend(alerts::check(place, channels));
            findings
        }
    }
}

fn state(place: &Installation, status: &Value) -> Finding {
    let (restart, clear) = (place.command("emergency unlock"), place.command("emergency clear"));
    let by = format!(
        "since {}, by {} ({}{}){}{}",
        moment(&status["since"]),
        cell(&status["by"]),
        cell(&status["source"]),
        said(", ", &status["metadata"]["user"]),
        said(": ", &status["reason"]),
        said(", ", &status["note"])
    );
    match status["state"].as_str() {
        Some("running") => {
            let channels =
                [("llm", "llmEnabled"), ("messaging", "messagingEnabled"), ("tools", "toolsEnabled")];
            let shut: Vec<&str> =
                channels.into_iter().filter(|(_, key)| status[*key] == false).map(|(name, _)| name).collect();
            if shut.is_empty() {
                return AREA.ok("it runs and answers");
            }
            AREA.wrong(format!("shut: {} ({by})", shut.join(", ")), format!("{clear} opens what was killed"))
        }
        Some("shutdown") => {
            AREA.wrong(format!("SHUTDOWN {by}"), format!("find out why; then {restart}, then {clear}"))
        }
        Some("safe_mode") => AREA.wrong(format!("SAFE_MODE {by}"), format!("{clear} resumes all agents")),
        Some(_) | None => {
            let state = cell(&status["state"]).to_uppercase();
            AREA.warning(format!("it is {state}: nothing passes yet"), "look again in a moment")
        }
    }
}

fn said(before: &str, value: &Value) -> String {
    if value.is_null() { String::new() } else { format!("{before}{}", cell(value)) }
}

fn kept(status: &Value) -> Option<Finding> {
    (status["persisted"] == false).then(|| {
        AREA.wrong(
            "how the button stands is not on the disk: a restart would not know of it",
            "fix the disk; estop tries again every second",
        )
    })
}

fn triggers(status: &Value) -> Vec<Finding> {
    let one = |trigger: &Value| {
        let (name, what) = (cell(&trigger["name"]), cell(&trigger["what"]));
        if trigger["working"] == true {
            AREA.ok(format!("trigger {name}: {what}"))
        } else {
            AREA.wrong(
                format!("the trigger {name} does not work: {what}"),
                "fix what it names; docs/emergency.md has every trigger",
            )
        }
    };
    each(&status["triggers"]).iter().map(one).collect()
}

fn proof_test(place: &Installation, tests: &Value) -> Finding {
    let (last, run) = (&tests["last"], place.command("prooftest"));
    if !last.is_null() && last["passed"] != true {
        return AREA.wrong(
            format!("the last proof test FAILED ({}): the stop may not work", moment(&last["at"])),
            format!("{run} says which step fails"),
        );
    }
    match (last.is_null(), tests["overdue"] == true) {
        (true, true) => {
            AREA.warning("the emergency stop has never been tested", format!("{run} does, and stops nobody"))
        }
        (false, true) => AREA.warning(
            format!("the emergency stop was last tested {}, which is too long ago", moment(&last["at"])),
            format!("{run} does, and stops nobody"),
        ),
        (true, false) => AREA.ok("nobody asked for proof tests"),
        (false, false) => AREA.ok(format!("the emergency stop was tested {}", moment(&last["at"]))),
    }
}

fn store(ready: &Result<Value, ClientError>) -> Finding {
    match ready {
        Ok(_) => AREA.ok("its store answers"),
        Err(why) => AREA
            .wrong(format!("it is not ready: {why}"), "see what is said of the data directory and its disk"),
    }
}

/// What keeps requests from passing or standing still, pressed button or not. A running one has said it by not being ready.
fn broken(status: &Value) -> Vec<Finding> {
    if status["state"] == "running" {
        return Vec::new();
    }
    let stuck = each(&status["stuckParts"]).iter().filter_map(|part| part["problem"].as_str());
    let all = status["journalProblem"].as_str().into_iter().chain(stuck);
    all.map(|problem| AREA.wrong(problem, "see what is said of the data directory and its disk")).collect()
}

/// Budgets that have seen a later day than today.
fn budgets(place: &Installation, stats: &Result<Value, ClientError>) -> Option<Finding> {
    let stats = stats.as_ref().ok()?;
    let count = stats["budgets_ahead"].as_u64().filter(|count| *count > 0)?;
    let day = cell(&stats["budgets_latest_day"]);
    Some(AREA.warning(
        format!("the clock was ahead: {count} budgets have seen {day}, and renew less often until then"),
        format!("if the clock is right: {}", place.command("budgets renew --all")),
    ))
}

fn counts(stats: &Result<Value, ClientError>) -> Option<Finding> {
    let why = stats.as_ref().err()?;
    Some(AREA.wrong(format!("it does not give its counts: {why}"), "look at its standard error"))
}
