//! A message for people, before any channel gives it a shape. It is what waits in the outbox.

use estop_core::ids::Name;
use serde::{Deserialize, Serialize};

use crate::alert_event::{AlertType, EscalationSeen};

/// How loud it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// For the record, and good news.
    Info,
    /// Someone should look today.
    Warning,
    /// Something is stopped, or should be.
    Critical,
}

/// What kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// Something happened.
    Alert,
    /// It is still so.
    Reminder,
    /// It is over.
    Recovery,
    /// Many things happened; they are counted here.
    Digest,
    /// Somebody tries out a channel.
    Test,
}

/// A line of a message: a label and what it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// `Why`, `Cost`, …
    pub label: String,
    /// One line.
    pub text: String,
}

/// Something a person can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What it does.
    pub say: String,
    /// The command; empty if there is none.
    #[serde(default)]
    pub command: String,
}

/// A message for people. Every text in it is one line without control characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The same message has the same id, however often it is sent.
    pub id: Name,
    /// The same condition has the same key: an alert and its recovery.
    pub key: Name,
    /// What it is about.
    pub alert: AlertType,
    /// What kind.
    pub kind: MessageKind,
    /// How loud.
    pub severity: Severity,
    /// When it happened, in milliseconds since 1970.
    pub at: i64,
    /// The same as people write it.
    pub when: String,
    /// Whose.
    #[serde(default)]
    pub agent: Option<Name>,
    /// In which run.
    #[serde(default)]
    pub run: Option<Name>,
    /// What happened, in one line.
    pub title: String,
    /// Why, what it cost, …
    pub facts: Vec<Fact>,
    /// What to do.
    pub steps: Vec<Step>,
    /// Where to look.
    #[serde(default)]
    pub link: Option<String>,
    /// Of an escalated run.
    #[serde(default)]
    pub escalation: Option<Box<EscalationSeen>>,
}

impl Message {
    /// The whole message as plain text.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n", self.title);
        for Fact { label, text } in &self.facts {
            out.push_str(&format!("\n{label}: {text}"));
        }
        if !self.steps.is_empty() {
            out.push_str("\n\nWhat you can do:");
        }
        for Step { say, command } in &self.steps {
            out.push_str(&format!("\n- {say}"));
            if !command.is_empty() {
                out.push_str(&format!("\n    {command}"));
            }
        }
        if let Some(link) = &self.link {
            out.push_str(&format!("\n\n{link}"));
        }
        out.push('\n');
        out
    }
}
