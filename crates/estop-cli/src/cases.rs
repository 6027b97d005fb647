//! `estop incidents …` and `estop escalations …`: what was stopped, where a person is needed, and what people did about it.

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use estop_config::printable::{escaped, escaped_within};
use estop_config::printed_command::shell_word;
use http::Method;
use serde_json::{Value, json};

use super::table::{cell, each, list, moment};
use super::{Exit, evidence};
use crate::client::{Daemon, DaemonArgs, Listing, list_limit, path};
use crate::confirm::confirmed;

/// Of a summary, in a table.
const SUMMARY_CHARS: usize = 80;

/// Look at what was stopped
#[derive(Debug, clap::Args)]
pub struct IncidentsArgs {
    #[command(subcommand)]
    command: IncidentsCommand,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// Look where a person is needed
#[derive(Debug, clap::Args)]
pub struct EscalationsArgs {
    #[command(subcommand)]
    command: EscalationsCommand,
    #[command(flatten)]
    daemon: DaemonArgs,
}

#[derive(Debug, clap::Subcommand)]
enum IncidentsCommand {
    /// List them, newest first
    List(Filter),
    /// Show one: what led to it, what it cost, what to do, and who did what since
    Show(IdArgs),
    /// Delete the steps that are kept with one, for good. Asks first
    DeleteEvidence {
        /// Its id, as the list shows it
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        id: String,
        /// Delete them without asking
        #[arg(long)]
        yes: bool,
    },
    /// Have calls of its tool not count as repetition from here on: that is the agent's work
    ///
    /// For an incident of the loop guard, or AGENT-RECORD of an event that was only watched. The agent stays as it is.
    Mute(IdArgs),
    /// Have calls of its tool count as repetition again
    Unmute(IdArgs),
    /// Say that you are looking at it; the agent stays as it is
    Ack(CaseArgs),
    /// Say that it is done; the agent stays as it is
    Resolve(CaseArgs),
    /// Open it again
    Reopen(CaseArgs),
}

#[derive(Debug, clap::Subcommand)]
enum EscalationsCommand {
    /// List them, newest first
    List(Filter),
    /// Show one: what reached its limit, and who did what since
    Show {
        /// Its id, as the list shows it
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
    /// Say who looks after it
    Assign {
        /// Its id, as the list shows it
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        id: String,
        /// Who; '' for nobody
        #[arg(value_name = "OWNER")]
        owner: String,
        /// Why, in a sentence
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Say that it is done; the run stays at its limit
    Resolve(CaseArgs),
    /// Open it again
    Reopen(CaseArgs),
}

#[derive(Debug, clap::Args)]
struct IdArgs {
    /// Its id, as the list shows it
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    id: String,
}

#[derive(Debug, clap::Args)]
struct CaseArgs {
    /// Its id, as the list shows it
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    id: String,
    /// What was found out or done
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

#[derive(Debug, clap::Args)]
struct Filter {
    /// Of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// In this status
    #[arg(long, value_parser = PossibleValuesParser::new(["open", "acknowledged", "resolved", "unresolved"]))]
    status: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", value_parser = list_limit, default_value_t = 50)]
    limit: usize,
}

impl Filter {
    fn of<'a>(&self, path: &'a str, key: &'a str) -> Listing<'a> {
        let query = vec![("agent", self.agent.clone()), ("status", self.status.clone())];
        Listing { path, query, key, cursor: "before", limit: Some(self.limit) }
    }

    /// The options that ask for the same.
    fn options(&self) -> String {
        let option = |name, value: &Option<String>| {
            value.as_deref().map(|value| format!(" --{name} {}", shell_word(value))).unwrap_or_default()
        };
        option("agent", &self.agent) + &option("status", &self.status)
    }
}

/// Runs `estop incidents`.
pub fn incidents(args: &IncidentsArgs) -> anyhow::Result<Exit> {
    let daemon = args.daemon.daemon()?;
    let filter = match &args.command {
        IncidentsCommand::List(filter) => filter,
        IncidentsCommand::Show(IdArgs { id }) => {
            let incident = daemon.get(path(&["incidents", id]))?;
            daemon.say(&incident, |incident| [evidence::text(incident), lifecycle(incident)].join("\n\n"))?;
            return Ok(Exit::Fine);
        }
        IncidentsCommand::DeleteEvidence { id, yes } => return delete_evidence(&daemon, id, *yes),
        IncidentsCommand::Mute(IdArgs { id }) => return mute(&daemon, Method::POST, id),
        IncidentsCommand::Unmute(IdArgs { id }) => return mute(&daemon, Method::DELETE, id),
        IncidentsCommand::Ack(case) => return change(&daemon, "incidents", case, "acknowledged"),
        IncidentsCommand::Resolve(case) => return change(&daemon, "incidents", case, "resolved"),
        IncidentsCommand::Reopen(case) => return change(&daemon, "incidents", case, "open"),
    };
    let incidents = daemon.list(filter.of("/api/incidents", "incidents"))?;
    let heading = ["id", "opened", "agent", "run", "kind", "status", "what happened"];
    daemon.say(&incidents, |incidents| {
        let rows = Value::Array(emergency_first(incidents));
        let table = list(&rows, "No incidents.", heading, |incident| {
            [
                cell(&incident["id"]),
                moment(&incident["opened_at"]),
                cell(&incident["agent"]),
                cell(&incident["run"]),
                cell(&incident["kind"]),
                cell(&incident["status"]),
                cell(&incident["sentence"]),
            ]
        });
        let (shown, total) = (each(&incidents["incidents"]).len(), incidents["total"].as_u64().unwrap_or(0));
        if incidents["next"].is_null() {
            return table;
        }
        let all = daemon.commands.make(&format!("incidents list{} --limit {total}", filter.options()));
        format!("{table}\nThese are the newest {shown} of {total}. All of them: {all}")
    })?;
    Ok(Exit::Fine)
}

/// The list, that of the pressed button first.
fn emergency_first(incidents: &Value) -> Vec<Value> {
    let emergency = Some(&incidents["emergency"]).filter(|emergency| !emergency.is_null());
    let others = each(&incidents["incidents"]).iter();
    let others = others.filter(|incident| emergency.is_none_or(|first| first["id"] != incident["id"]));
    emergency.into_iter().chain(others).cloned().collect()
}

/// Deletes the steps of an incident, if somebody says so.
fn delete_evidence(daemon: &Daemon, id: &str, yes: bool) -> anyhow::Result<Exit> {
    let question = format!("Delete the steps kept with {} for good?", escaped(id));
    match if yes { Some(true) } else { confirmed(&question) } {
        Some(true) => {}
        Some(false) => {
            eprintln!("Nothing was deleted.");
            return Ok(Exit::No);
        }
        None => anyhow::bail!(
            "the steps kept with {} would be gone for good, and there is no terminal to ask on: nothing was deleted. To delete \
             them, add --yes",
            escaped(id)
        ),
    }
    daemon.send(Method::DELETE, path(&["incidents", id, "evidence"]), None)?;
    let deleted = json!({"id": id, "deleted": true});
    daemon.say(&deleted, |_| format!("Deleted the steps kept with {}. The incident stays.", escaped(id)))?;
    Ok(Exit::Fine)
}

/// Runs `estop escalations`.
pub fn escalations(args: &EscalationsArgs) -> anyhow::Result<Exit> {
    let daemon = args.daemon.daemon()?;
    let filter = match &args.command {
        EscalationsCommand::List(filter) => filter,
        EscalationsCommand::Show { id } => {
            daemon.say(&daemon.get(path(&["escalations", id]))?, escalation)?;
            return Ok(Exit::Fine);
        }
        EscalationsCommand::Assign { id, owner, note } => {
            let owner = Some(owner.as_str()).filter(|owner| !owner.is_empty());
            let mut change = json!({"owner": owner});
            note.iter().for_each(|note| change["note"] = json!(note));
            let done = owner.map_or_else(
                || format!("{} is assigned to nobody.", escaped(id)),
                |owner| format!("{} is assigned to {}.", escaped(id), escaped(owner)),
            );
            return send(&daemon, "escalations", id, &change, &done);
        }
        EscalationsCommand::Resolve(case) => return change(&daemon, "escalations", case, "resolved"),
        EscalationsCommand::Reopen(case) => return change(&daemon, "escalations", case, "open"),
    };
    let escalations = daemon.list(filter.of("/api/escalations", "escalations"))?;
    let heading =
        ["id", "opened", "agent", "run", "status", "owner", "reason", "branch", "session", "summary"];
    daemon.say(&escalations, |escalations| {
        let table = list(&escalations["escalations"], "Nothing needs a human.", heading, |escalation| {
            [
                cell(&escalation["id"]),
                moment(&escalation["opened_at"]),
                cell(&escalation["agent"]),
                cell(&escalation["run"]),
                cell(&escalation["status"]),
                cell(&escalation["owner"]),
                cell(&escalation["reason"]),
                cell(&escalation["branch"]),
                cell(&escalation["session"]),
                short(&escalation["summary"]),
            ]
        });
        match newest_open(escalations) {
            Some(next) => format!("{table}\n\n{next}"),
            None => table,
        }
    })?;
    Ok(Exit::Fine)
}

/// Mutes the pattern of an incident, or ends that.
fn mute(daemon: &Daemon, method: Method, id: &str) -> anyhow::Result<Exit> {
    let muted = daemon.send(method, path(&["incidents", id, "mute"]), None)?;
    daemon.say(&muted, |muted| {
        let text = muted["text"].as_str().map(escaped).unwrap_or_default();
        if muted["changed"] == false { format!("Nothing was changed. {text}") } else { text }
    })?;
    Ok(Exit::Fine)
}

/// Brings a case into a status.
fn change(daemon: &Daemon, kind: &str, case: &CaseArgs, status: &str) -> anyhow::Result<Exit> {
    let mut change = json!({"status": status});
    case.note.iter().for_each(|note| change["note"] = json!(note));
    send(daemon, kind, &case.id, &change, &format!("{} is {status}.", escaped(&case.id)))
}

/// Changes a case, and says what that does not release.
fn send(daemon: &Daemon, kind: &str, id: &str, change: &Value, done: &str) -> anyhow::Result<Exit> {
    let changed = daemon.send(Method::PATCH, path(&[kind, id]), Some(change))?;
    daemon.say(&changed, |changed| {
        let next = changed["next"].as_str().map(|next| format!(" {}", escaped(next))).unwrap_or_default();
        if changed["changed"] == false {
            return format!("Nothing was changed: {}{next}", done.replacen(" is ", " was already ", 1));
        }
        format!("{done}{next}")
    })?;
    Ok(Exit::Fine)
}

/// Who did what about an incident, and which ones belong to it.
fn lifecycle(incident: &Value) -> String {
    let mut lines = vec![format!("Status: {}", cell(&incident["status"]))];
    for (label, value) in [("Reopens", &incident["earlier"]), ("Reopened by", &incident["later"])] {
        lines.extend(value.as_str().map(|text| format!("{label}: {}", escaped(text))));
    }
    lines.extend(page(incident));
    lines.extend(history(incident));
    lines.join("\n")
}

/// An escalation, for people.
fn escalation(case: &Value) -> String {
    let mut lines = vec![
        format!("{}: {}", cell(&case["id"]), cell(&case["reason"])),
        format!("Status: {}", cell(&case["status"])),
        format!("Agent: {}", cell(&case["agent"])),
        format!("Opened: {}", moment(&case["opened_at"])),
        format!("Record: {}", cell(&case["seq"])),
    ];
    for (label, key) in [
        ("Run", "run"),
        ("Owner", "owner"),
        ("Agent's summary", "summary"),
        ("Branch", "branch"),
        ("Session", "session"),
    ] {
        lines.extend(
            Some(&case[key])
                .filter(|value| !value.is_null())
                .map(|value| format!("{label}: {}", cell(value))),
        );
    }
    lines.extend(page(case));
    lines.extend(history(case));
    lines.extend(case["next"].as_str().map(|next| format!("\n{}", escaped(next))));
    lines.join("\n")
}

/// Where the dashboard shows a case.
fn page(case: &Value) -> Option<String> {
    case["url"].as_str().map(|url| format!("Dashboard: {}", escaped(url)))
}

/// A line for each thing that people did about a case.
fn history(case: &Value) -> Vec<String> {
    let line = |step: &Value| {
        let to = step["owner"].as_str().map(|owner| format!(" to {}", escaped(owner))).unwrap_or_default();
        let note = step["note"].as_str().map(|note| format!(": {}", escaped(note))).unwrap_or_default();
        let (at, done, by) = (moment(&step["at"]), cell(&step["step"]), cell(&step["by"]));
        format!("{at}  {done}{to} by {by}{note}")
    };
    each(&case["history"]).iter().map(line).collect()
}

/// What to do about the newest that is not resolved.
fn newest_open(escalations: &Value) -> Option<String> {
    let all = escalations["escalations"].as_array()?;
    let open = all.iter().find(|escalation| escalation["status"] != "resolved")?;
    Some(format!("{}: {}", cell(&open["id"]), escaped(open["next"].as_str()?)))
}

/// The beginning of a text, on one line; `--json` has all of it.
fn short(text: &Value) -> String {
    let Some(text) = text.as_str() else { return cell(text) };
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    escaped_within(&line, SUMMARY_CHARS)
}
