//! Many alerts at once become one: the first go out as they come, the rest of the minute is counted and told in one digest.

use std::collections::BTreeMap;

use estop_core::ids::Name;
use serde::{Deserialize, Serialize};

use crate::alert_event::AlertType;
use crate::message::{Fact, Message, MessageKind, Severity, Step};
use crate::plain::one_line;
use crate::words::{NAME_MAX, Words};

/// Messages of a channel that go out as they come, in a minute. Chosen: a person reads twenty, not two hundred; Slack,
/// Discord and Telegram begin to refuse at some thirty to sixty.
pub const STORM_AFTER: u32 = 20;
const WINDOW_MS: i64 = 60_000;
/// Names a digest has.
const NAMES_MAX: usize = 5;

/// How many messages a channel got in this minute, and what is held back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Storm {
    since: i64,
    sent: u32,
    held: u64,
    by_type: BTreeMap<AlertType, u64>,
    names: Vec<String>,
    severity: Option<Severity>,
    at: i64,
}

impl Storm {
    /// Whether a message goes out at once; if not, it is counted.
    pub(crate) fn lets_through(&mut self, now: i64, message: &Message) -> bool {
        // A clock that was set back must not hold everything until it is there again.
        if now >= self.since + WINDOW_MS && self.held == 0 || now < self.since {
            *self = Storm { since: now, sent: 0, ..std::mem::take(self) };
        }
        if self.held == 0 && self.sent < STORM_AFTER {
            self.sent += 1;
            return true;
        }
        self.held += 1;
        *self.by_type.entry(message.alert).or_default() += 1;
        self.severity = self.severity.max(Some(message.severity));
        self.at = message.at;
        if self.names.len() < NAMES_MAX {
            self.names.push(one_line(&message.title, NAME_MAX * 2));
        }
        false
    }

    /// Counts what could not even be told apart.
    pub(crate) fn missed(&mut self, now: i64, count: u64) {
        if self.held == 0 {
            self.since = now;
        }
        self.held += count;
        self.severity = Some(Severity::Critical);
        self.at = now;
    }

    /// When its digest is due, if anything is held back.
    pub(crate) fn due_at(&self) -> Option<i64> {
        (self.held > 0).then_some(self.since + WINDOW_MS)
    }

    /// The digest, if it is due.
    pub(crate) fn digest(&mut self, now: i64, channel: &str, words: &Words) -> Option<Message> {
        let due = self.due_at()?;
        if now < due && now >= self.since {
            return None;
        }
        // The digest is the first message of the next minute.
        let old = std::mem::replace(self, Storm { since: now, sent: 1, ..Storm::default() });
        Some(old.message(channel, words))
    }

    fn message(self, channel: &str, words: &Words) -> Message {
        let Storm { since, held, by_type, names, severity, at, .. } = self;
        let counts: Vec<String> =
            by_type.iter().map(|(alert, count)| format!("{count} {}", alert.name())).collect();
        let mut facts = vec![Fact { label: "Counted".to_owned(), text: counts.join(", ") }];
        facts.retain(|fact| !fact.text.is_empty());
        facts.extend(names.into_iter().map(|text| Fact { label: "Among them".to_owned(), text }));
        facts.push(Fact { label: "When".to_owned(), text: words.when(at) });
        let step =
            |say: &str, command: &str| Step { say: say.to_owned(), command: words.commands.make(command) };
        let key = Name::from(format!("digest/{channel}"));
        let alert =
            by_type.iter().max_by_key(|(_, count)| **count).map_or(AlertType::KillSwitch, |(a, _)| *a);
        Message {
            id: crate::ids::message_id(channel, &key, &since.to_string(), "digest"),
            key,
            alert,
            kind: MessageKind::Digest,
            severity: severity.unwrap_or(Severity::Warning),
            at,
            when: words.when(at),
            agent: None,
            run: None,
            title: format!("{held} more alerts within a minute"),
            facts,
            steps: vec![
                step("See what was stopped:", "incidents list --status open"),
                step("If it does not end, stop everything:", "kill --reason runaway_agent"),
            ],
            link: words.dashboard.clone().map(|base| format!("{base}/")),
            escalation: None,
        }
    }
}
