//! `estop kill`: everything stops (KS-5). It does not give up when estop does not answer.

mod holder;
mod offline_kill;

use std::time::Duration;

use anyhow::Context;
use estop_config::printable::escaped;
use estop_core::system::button::Press;
use estop_core::system::{Channel, Channels, KillReason};
use http::Method;
use serde_json::{Value, json};

use super::emergency_text::persisted;
use super::prooftest::millis;
use super::table::cell;
use super::{Exit, say, say_json};
use crate::client::{AdminTokenArg, ClientError, DaemonArgs, Whereabouts, path};
pub(super) use holder::Holder;
use offline_kill::OfflineKill;

/// Who does not answer a kill within this time is treated as one that hangs.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// The same over a network, where nothing else can be tried.
const REMOTE_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Stop everything now; short for `estop emergency kill`
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pressing: Pressing,
    #[command(flatten)]
    token: AdminTokenArg,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// How the button is pressed.
#[derive(Debug, clap::Args)]
pub(super) struct Pressing {
    /// manual, security_incident, runaway_agent, api_quota_exceeded or emergency. Anything else is accepted and
    /// kept as a note
    #[arg(long, value_name = "REASON")]
    reason: Option<String>,
    /// In your words
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Only this channel: llm, tools or messaging; repeatable. An unknown channel stops everything
    #[arg(long, value_name = "CHANNEL")]
    channel: Vec<String>,
    /// If estop hangs and nothing else helps: end its process (SIGKILL). estop down means agents stopped
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    press(&args.pressing, &args.token, &args.daemon)
}

/// Presses the button, whatever it takes.
pub(super) fn press(pressing: &Pressing, token: &AdminTokenArg, args: &DaemonArgs) -> anyhow::Result<Exit> {
    let whereabouts = args
        .whereabouts()
        .context("NOTHING WAS STOPPED. `estop kill --data-dir FOLDER` needs no configuration file")?;
    let patience = match &whereabouts {
        Whereabouts::Url(_) => REMOTE_ANSWER_TIMEOUT,
        Whereabouts::DataDir(_) => ANSWER_TIMEOUT,
    };
    let daemon = token.daemon(args)?.within(patience);
    let error = match daemon.send(Method::POST, path(&["emergency", "kill"]), Some(&pressing.body())) {
        Ok(stopped) => {
            let channels: Vec<&str> = pressing.channels().into_iter().map(|(name, _)| name).collect();
            daemon.say(&stopped, |stopped| text(stopped, &channels))?;
            return Ok(Exit::Fine);
        }
        Err(error) => error,
    };
    let is_no =
        matches!(error.downcast_ref(), Some(ClientError::Refused(refusal)) if refusal.is_callers_fault());
    match whereabouts {
        Whereabouts::DataDir(folder) if !is_no => {
            let done = OfflineKill { folder: &folder, press: pressing.press(), force: pressing.force }.stop();
            // What to do about it is said below, and is not to start it.
            let (exit, why) = (done.exit(), escaped(error.to_string().split(". ").next().unwrap_or_default()));
            if daemon.json { say_json(&done.json(&why))? } else { say(&done.text(&why))? }
            Ok(exit)
        }
        Whereabouts::Url(_) if !is_no => Err(error.context(
            "NOTHING WAS STOPPED. On estop's own machine `estop kill` without --url stops it even if it does not answer",
        )),
        Whereabouts::DataDir(_) | Whereabouts::Url(_) => Err(error),
    }
}

fn text(stopped: &Value, channels: &[&str]) -> String {
    let took = &stopped["took"];
    let kept = &took["persisted_us"];
    let kept = if kept.is_null() { String::new() } else { format!(", saved after {}", millis(kept)) };
    let told = if stopped["told"] == true { "\nAlerts are being sent." } else { "" };
    let background = background(&stopped["background"]);
    format!(
        "{}\nNew requests refused after {}, requests in progress ended after {}{kept}.{background}{told}",
        summary(stopped, channels),
        millis(&took["gate_us"]),
        millis(&took["cut_us"]),
    )
}

/// What is stopped (without channels, everything), what was ended, and whether a restart knows of it.
pub(super) fn summary(stopped: &Value, channels: &[&str]) -> String {
    let ended = &stopped["stopped"];
    let count = |key: &str, one: &str, many: &str| match ended[key].as_u64() {
        Some(1) => format!("1 {one}"),
        _ => format!("{} {many}", cell(&ended[key])),
    };
    let what = match (stopped["status"].as_str(), channels) {
        (Some("shutdown"), _) => "Everything is stopped".to_owned(),
        (_, []) => cell(&stopped["message"]).trim_end_matches('.').to_owned(),
        (_, channels) => format!("Stopped: {}", channels.join(", ")),
    };
    let (calls, tools, messages) = (
        count("model_calls", "model call", "model calls"),
        count("tools", "tool", "tools"),
        count("messages", "message", "messages"),
    );
    let saved = if stopped["persisted"] == false { persisted(stopped) } else { " Saved." };
    format!("{what} ({calls}, {tools}, {messages} ended).{saved}")
}

/// What goes on at providers after their requests: what is cancelled, and each that could not be.
fn background(work: &Value) -> String {
    let count = |key: &str| work[key].as_u64().unwrap_or(0);
    let (cancelling, cancelled, not) = (count("cancelling"), count("cancelled"), count("not_cancelled"));
    let forgotten = count("forgotten");
    if cancelling + cancelled + not + forgotten == 0 {
        return String::new();
    }
    let mut text = format!(
        "\nAt providers: {cancelling} being cancelled, {cancelled} cancelled, {not} could NOT be cancelled and may still run. \
         `estop background` shows how it goes on."
    );
    let jobs = work["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
    for job in jobs.iter().filter(|job| job["state"] == "not_cancelled") {
        text += &format!("\n  {}", super::background::line(job));
    }
    if forgotten > 0 {
        text +=
            &format!("\n  {forgotten} more began than estop remembers: look at the providers' own lists.");
    }
    text
}

const REASONS: [(&str, KillReason); 5] = [
    ("manual", KillReason::Manual),
    ("security_incident", KillReason::SecurityIncident),
    ("runaway_agent", KillReason::RunawayAgent),
    ("api_quota_exceeded", KillReason::ApiQuotaExceeded),
    ("emergency", KillReason::Emergency),
];
const CHANNELS: [(&str, Channel); 3] =
    [("llm", Channel::Llm), ("tools", Channel::Tools), ("messaging", Channel::Messaging)];

impl Pressing {
    /// The reason by its name, if it is one.
    fn reason(&self) -> Option<(&'static str, KillReason)> {
        let given = self.reason.as_deref().unwrap_or("manual");
        REASONS.into_iter().find(|(name, _)| *name == given)
    }

    /// The note, with a reason that is none before it.
    fn note(&self) -> Option<String> {
        let odd = self.reason.as_ref().filter(|_| self.reason().is_none());
        let parts: Vec<&str> = odd.into_iter().chain(&self.note).map(String::as_str).collect();
        (!parts.is_empty()).then(|| parts.join(": "))
    }

    /// The channels; empty = everything.
    fn channels(&self) -> Vec<(&'static str, Channel)> {
        let find = |given: &String| CHANNELS.into_iter().find(|(name, _)| name == given);
        self.channel.iter().map(find).collect::<Option<Vec<_>>>().unwrap_or_default()
    }

    fn body(&self) -> Value {
        let channels: Vec<&str> = self.channels().into_iter().map(|(name, _)| name).collect();
        let mut body = json!({
            "reason": self.reason().map_or("manual", |(name, _)| name),
            "channels": channels,
            "metadata": metadata(),
        });
        if let Some(note) = self.note() {
            body["note"] = note.into();
        }
        body
    }

    fn press(&self) -> Press {
        let channels =
            self.channels().into_iter().fold(Channels::NONE, |set, (_, channel)| set.with(channel));
        let user = user();
        let reason = self.reason().map_or(KillReason::Manual, |(_, reason)| reason);
        Press {
            channels: if channels.is_empty() { Channels::ALL } else { channels },
            note: self.note().map(Into::into),
            metadata: Some(metadata().to_string().into()),
            ..Press::new(reason, &format!("{user} at the command line"), "cli")
        }
    }
}

fn metadata() -> Value {
    json!({"source": "cli", "user": user()})
}

fn user() -> String {
    let named = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    named
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressing(reason: Option<&str>, note: Option<&str>, channels: &[&str]) -> Pressing {
        Pressing {
            reason: reason.map(Into::into),
            note: note.map(Into::into),
            channel: channels.iter().map(|name| (*name).to_owned()).collect(),
            force: false,
        }
    }

    #[test]
    fn ks_11_a_kill_lists_what_could_not_be_cancelled() {
        assert_eq!(background(&json!(null)), "");
        let work = json!({"cancelling": 2, "cancelled": 0, "not_cancelled": 1, "forgotten": 3, "jobs": [
            {"agent": "a", "provider": "anthropic", "kind": "batch", "id": "msgbatch_1", "state": "not_cancelled",
             "why": "estop holds no credential"},
            {"agent": "a", "provider": "openai", "kind": "batch", "id": "b", "state": "cancelling", "why": null}]});
        let text = background(&work);
        assert!(text.contains("2 being cancelled, 0 cancelled, 1 could NOT be cancelled"), "{text}");
        assert!(
            text.contains("a: batch msgbatch_1 at anthropic: not cancelled: estop holds no credential"),
            "{text}"
        );
        assert!(text.contains("3 more began") && !text.contains("at openai"), "{text}");
    }

    #[test]
    fn ks_5_a_typo_stands_in_nobodys_way() {
        let body = pressing(Some("securty_incident"), Some("it deletes mail"), &["llm", "tolls"]).body();
        assert_eq!((&body["reason"], &body["channels"]), (&json!("manual"), &json!([])));
        assert_eq!(body["note"], "securty_incident: it deletes mail");
        let press = pressing(None, None, &["llm", "messaging"]).press();
        assert_eq!(press.channels, Channels::NONE.with(Channel::Llm).with(Channel::Messaging));
        assert_eq!(press.note, None);
        assert_eq!(pressing(Some("emergency"), None, &[]).press().reason, KillReason::Emergency);
    }
}
