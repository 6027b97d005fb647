//! What tells messages and conditions apart.

use estop_core::ids::Name;
use sha2::{Digest as _, Sha256};

use crate::alert_event::{AlertEvent, AlertType, Detail};
use crate::message::{Fact, Message, MessageKind, Severity};
use crate::plain::one_line;
use crate::words::{NAME_MAX, Words};

/// A message that somebody asked for, to try out a channel: the nth one.
pub(crate) fn test_message((now, nth): (i64, u64), channel: &str, by: &str, words: &Words) -> Message {
    let key = Name::from(format!("test/{channel}"));
    Message {
        id: message_id(channel, &key, &format!("{now} {nth}"), "test"),
        key,
        alert: AlertType::KillSwitch,
        kind: MessageKind::Test,
        severity: Severity::Info,
        at: now,
        when: words.when(now),
        agent: None,
        run: None,
        title: "This is a test: estop can reach you here".to_owned(),
        facts: vec![Fact { label: "By".to_owned(), text: one_line(by, NAME_MAX) }],
        steps: Vec::new(),
        link: words.dashboard.clone().map(|base| format!("{base}/")),
        escalation: None,
    }
}

/// What tells one condition from another: type, agent, and whatever of it there can be several.
pub(crate) fn key(event: &AlertEvent) -> Name {
    let agent = event.agent.as_deref().unwrap_or("*");
    let of = match (&event.detail, event.alert) {
        (Detail::Budget(seen), _) if seen.account.ends_with("_per_run") => {
            format!("/{}/{}/{}", seen.account, seen.percent, event.run.as_deref().unwrap_or("*"))
        }
        (Detail::Budget(seen), _) => format!("/{}/{}", seen.account, seen.percent),
        // The whole button is told at once, though a channel was shut before.
        (Detail::Shut(channels), _) => format!("/{channels}"),
        // A refusal, and by which account.
        (Detail::None, AlertType::Budget) => {
            format!("/refused/{}/{}", event.cause, event.run.as_deref().unwrap_or("*"))
        }
        (_, AlertType::CircuitBreaker) => format!("/{}", event.run.as_deref().unwrap_or("*")),
        (_, AlertType::Checkpoint) => format!("/{}", event.id),
        (Detail::None | Detail::Escalation(_) | Detail::Checkpoint { .. }, _) => String::new(),
    };
    format!("{}/{agent}{of}", event.alert.name()).into()
}

/// An id that is the same whenever the same is told to the same channel, and tells nothing to whoever reads it.
pub(crate) fn message_id(channel: &str, key: &str, nth: &str, kind: &str) -> Name {
    let mut hasher = Sha256::new();
    for part in [channel, key, nth, kind] {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let hex: String = hasher.finalize().iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    format!("msg_{hex}").into()
}
