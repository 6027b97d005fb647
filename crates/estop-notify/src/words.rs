//! The words a tired person reads at three in the morning: what was stopped, why, what it cost, what to do.
//!
//! One pure function for each type; `tests/words.rs` has each text word for word.

mod steps;
mod titles;

use estop_core::ids::Name;
use estop_core::money::NanoUsd;
use estop_core::printed_command::Commands;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::alert_event::{AlertEvent, AlertType, BudgetSeen, Detail, Phase};
use crate::message::{Fact, Message, MessageKind, Severity};
use crate::plain::{few_lines, one_line};

/// Characters a line of evidence may have. Chosen: two lines of a phone are read, six are not.
const LINE_MAX: usize = 300;
/// Characters a name may have.
pub(crate) const NAME_MAX: usize = 80;

/// What texts need to know beside the event.
#[derive(Clone, Debug)]
pub struct Words {
    /// Where people see the dashboard, without a slash at the end; `None` = messages carry no links.
    pub dashboard: Option<String>,
    /// In which zone times are written.
    pub zone: TimeZone,
    /// The commands of the steps.
    pub commands: Commands,
}

impl Default for Words {
    fn default() -> Self {
        Words { dashboard: None, zone: TimeZone::UTC, commands: Commands::default() }
    }
}

/// How often it was held back, and by what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Again {
    /// It is still so, and was told before.
    pub(crate) reminder: bool,
    /// It happened so many more times since it was told.
    pub(crate) more: u32,
}

impl Words {
    /// The message of an alert event.
    pub(crate) fn alert(&self, id: Name, key: Name, told: &AlertEvent, again: Again) -> Message {
        let kind = match (told.phase, again.reminder) {
            (Phase::Cleared, _) => MessageKind::Recovery,
            (Phase::Raised, true) => MessageKind::Reminder,
            (Phase::Raised, false) => MessageKind::Alert,
        };
        let title = match kind {
            MessageKind::Recovery => titles::recovery(told),
            MessageKind::Reminder => format!("Ongoing: {}", titles::alert(told)),
            MessageKind::Alert | MessageKind::Digest | MessageKind::Test => titles::alert(told),
        };
        let escalation = match &told.detail {
            Detail::Escalation(seen) => Some(seen.clone()),
            Detail::None | Detail::Budget(_) | Detail::Shut(_) | Detail::Checkpoint { .. } => None,
        };
        Message {
            id,
            key,
            alert: told.alert,
            kind,
            severity: if kind == MessageKind::Recovery { Severity::Info } else { severity(told) },
            at: told.at,
            when: self.when(told.at),
            agent: told.agent.as_deref().map(|agent| one_line(agent, NAME_MAX).into()),
            run: told.run.as_deref().map(|run| one_line(run, NAME_MAX).into()),
            title,
            facts: self.facts(told, again),
            steps: if kind == MessageKind::Recovery {
                Vec::new()
            } else {
                steps::steps(told, &self.commands)
            },
            link: self.link(told),
            escalation,
        }
    }

    /// A moment as people write it.
    pub(crate) fn when(&self, at: i64) -> String {
        Timestamp::from_millisecond(at)
            .map(|moment| moment.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string())
            .unwrap_or_else(|_| "at an unknown time".to_owned())
    }

    fn facts(&self, told: &AlertEvent, again: Again) -> Vec<Fact> {
        let mut facts = Vec::new();
        let mut add = |label: &str, text: String| {
            if !text.is_empty() {
                facts.push(Fact { label: label.to_owned(), text });
            }
        };
        add("Why", why(told));
        if let Some(by) = &told.by {
            add("By", one_line(by, NAME_MAX));
        }
        add("Cost", cost(told));
        add("Run", told.run.as_deref().map(|run| one_line(run, NAME_MAX)).unwrap_or_default());
        if let Detail::Escalation(seen) = &told.detail {
            let name =
                |name: &Option<Name>| name.as_deref().map(|n| one_line(n, NAME_MAX)).unwrap_or_default();
            add("Issue", name(&seen.issue));
            add("Role", name(&seen.role));
            let summary = seen.summary.as_deref().unwrap_or("no summary provided");
            add("Agent's summary", one_line(&few_lines(summary, 20, LINE_MAX), LINE_MAX));
            add("Branch", name(&seen.branch));
            add("Session", name(&seen.session));
        }
        if let Detail::Checkpoint { last_seq, digest } = &told.detail {
            add("Last record", last_seq.to_string());
            add("Digest of the journal", one_line(digest, 128));
        }
        add("When", self.when(told.at));
        if again.more > 0 {
            add("Since then", format!("it happened {} more {}", again.more, times(again.more)));
        }
        facts
    }

    fn link(&self, told: &AlertEvent) -> Option<String> {
        let base = self.dashboard.as_deref()?;
        if let Some(incident) = &told.incident {
            return Some(format!("{base}/incidents/{}", encoded(incident)));
        }
        let path = match (told.alert, &told.agent) {
            (AlertType::CircuitBreaker, _) => match &told.detail {
                Detail::Escalation(seen) => format!("/needs-human?case={}", encoded(&seen.id)),
                Detail::None | Detail::Budget(_) | Detail::Shut(_) | Detail::Checkpoint { .. } => {
                    "/needs-human".to_owned()
                }
            },
            (AlertType::AdminToken, _) => "/settings".to_owned(),
            (
                AlertType::SystemKill
                | AlertType::ProoftestOverdue
                | AlertType::StuckWorker
                | AlertType::Checkpoint,
                _,
            )
            | (_, None) => "/".to_owned(),
            (_, Some(agent)) => format!("/agents/{}", encoded(agent)),
        };
        Some(format!("{base}{path}"))
    }
}

fn severity(told: &AlertEvent) -> Severity {
    match told.alert {
        AlertType::KillSwitch
        | AlertType::SystemKill
        | AlertType::Watchdog
        | AlertType::CircuitBreaker
        | AlertType::StuckWorker
        | AlertType::AdminToken => Severity::Critical,
        AlertType::Budget => match &told.detail {
            Detail::Budget(BudgetSeen { percent: 100.., .. }) => Severity::Critical,
            Detail::Budget(BudgetSeen { percent: ..80, .. }) => Severity::Info,
            Detail::Budget(_)
            | Detail::None
            | Detail::Escalation(_)
            | Detail::Shut(_)
            | Detail::Checkpoint { .. } => Severity::Warning,
        },
        AlertType::ErrorRate | AlertType::AgentDown | AlertType::Health | AlertType::ProoftestOverdue => {
            Severity::Warning
        }
        AlertType::Checkpoint => Severity::Info,
    }
}

fn why(told: &AlertEvent) -> String {
    let evidence = one_line(&told.evidence, LINE_MAX);
    if let Detail::Budget(seen) = &told.detail {
        let amount = |n| if seen.account.starts_with("tokens") { tokens(n) } else { dollars(NanoUsd(n)) };
        let text =
            format!("{} of {} ({})", amount(seen.spent), amount(seen.cap), one_line(&seen.account, 40));
        return if evidence.is_empty() { text } else { format!("{text}; {evidence}") };
    }
    if evidence.is_empty() { one_line(&told.cause, LINE_MAX) } else { evidence }
}

fn cost(told: &AlertEvent) -> String {
    let mut parts = Vec::new();
    if let Some(run) = told.cost.run {
        parts.push(format!("{} in this run", dollars(run)));
    }
    if let Some(today) = told.cost.today {
        parts.push(format!("{} today", dollars(today)));
    }
    parts.join(", ")
}

/// Money as people read it: cents.
pub(crate) fn dollars(amount: NanoUsd) -> String {
    let cents = amount.0 / 10_000_000;
    if cents == 0 && amount.0 > 0 {
        return "less than $0.01".to_owned();
    }
    format!("${}.{:02}", cents / 100, cents % 100)
}

fn tokens(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out.push_str(" tokens");
    out
}

pub(crate) fn times(count: u32) -> &'static str {
    if count == 1 { "time" } else { "times" }
}

/// A name as a part of a path.
fn encoded(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
