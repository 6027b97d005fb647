//! One line for each thing that happened: what guards and people did, as the journal has it.
//!
//! Emergency stops, reloads, triggers and stuck parts are logged by whoever carries them out, at once and also while the
//! journal cannot be written.

use std::collections::BTreeMap;

use estop_core::guard::Guard;
use estop_core::ids::Name;
use estop_core::printed_command::Commands;
use estop_store::NewEvent;
use serde_json::{Map, Value};
use tracing::Level;

/// What repeats is logged once in this time, for each agent and kind, with how often it was.
const REPEAT_AFTER_MS: i64 = 10 * 60_000;
/// Pairs of agent and kind that are remembered; beyond it the oldest are forgotten and logged again.
const REMEMBERED_MAX: usize = 10_000;

/// Logs what happened.
pub(crate) struct EventLog {
    commands: Commands,
    repeated: BTreeMap<(Name, String), Repeated>,
}

/// What was logged last, and how often it was since.
struct Repeated {
    at: i64,
    since: u64,
}

/// How a kind of event is logged.
struct Entry {
    level: Level,
    message: &'static str,
    /// It may come with every request.
    repeats: bool,
}

const fn entry(level: Level, message: &'static str) -> Option<Entry> {
    Some(Entry { level, message, repeats: false })
}

const fn repeated(level: Level, message: &'static str) -> Option<Entry> {
    Some(Entry { level, message, repeats: true })
}

/// `None`: somebody else logs it.
fn entry_of(event_type: &str) -> Option<Entry> {
    match event_type {
        "kill_switch" => entry(Level::WARN, "agent stopped"),
        "deactivated" => entry(Level::WARN, "agent stopped by a person"),
        "activated" => entry(Level::INFO, "agent activated"),
        "paused" => entry(Level::WARN, "agent paused"),
        "resumed" => entry(Level::INFO, "agent resumed"),
        "would_have_stopped" => repeated(Level::WARN, "guard only watches: it would have stopped the agent"),
        "refused" => repeated(Level::WARN, "requests refused"),
        "budget_warning" => entry(Level::WARN, "budget nearly spent"),
        "budget_refused" => repeated(Level::WARN, "budget spent: requests refused"),
        "budget_renewed" => entry(Level::INFO, "budget renewed"),
        "run_tripped" => entry(Level::WARN, "run reached its limit"),
        "run_escalated" => entry(Level::WARN, "run escalated: it needs a person"),
        "run_extended" => entry(Level::INFO, "run extended"),
        "error_rate" => entry(Level::WARN, "many requests fail at the provider"),
        "error_rate_over" => entry(Level::INFO, "requests succeed again at the provider"),
        "watchdog" => entry(Level::ERROR, "watchdog: agent is running away"),
        "policy_changed" => entry(Level::INFO, "policy changed"),
        "preset_changed" => entry(Level::INFO, "preset changed"),
        "access_changed" => entry(Level::INFO, "access changed"),
        "case_changed" => entry(Level::INFO, "incident or escalation changed"),
        "guard_snoozed" => entry(Level::WARN, "guard snoozed"),
        "guard_woken" | "snooze_ended" => entry(Level::INFO, "guard is back after a snooze"),
        "nudged" => entry(Level::INFO, "agent was told that it repeats itself"),
        "prooftest_passed" => entry(Level::INFO, "proof test passed"),
        "prooftest_failed" => entry(Level::ERROR, "proof test failed"),
        "pruned" => entry(Level::INFO, "old records pruned"),
        "system_kill"
        | "system_restart"
        | "system_clear"
        | "configuration_read"
        | "configuration_refused"
        | "trigger_works"
        | "trigger_lost"
        | "part_recovered"
        | "part_stuck"
        | "started" => None,
        _ => entry(Level::DEBUG, "event"),
    }
}

/// What a line is about.
fn target_of(event_type: &str) -> Target {
    match event_type {
        "refused" | "budget_refused" => Target::Requests,
        "error_rate" | "error_rate_over" => Target::Upstream,
        "policy_changed" | "preset_changed" | "access_changed" => Target::Configuration,
        "prooftest_passed" | "prooftest_failed" => Target::Emergency,
        "pruned" => Target::Storage,
        _ => Target::Agents,
    }
}

#[derive(Clone, Copy)]
enum Target {
    Agents,
    Requests,
    Upstream,
    Configuration,
    Emergency,
    Storage,
}

/// A field of its own for what everybody looks for; the rest as JSON.
#[derive(Default)]
struct Fields {
    run: Option<String>,
    by: Option<String>,
    guard: Option<String>,
    reason: Option<String>,
    tool: Option<String>,
    detail: Option<String>,
}

impl Fields {
    fn of(detail: &str) -> Fields {
        let Ok(Value::Object(mut detail)) = serde_json::from_str(detail) else { return Fields::default() };
        let mut text = |key: &str| match detail.remove(key)? {
            Value::String(text) => Some(text),
            Value::Null => None,
            other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                Some(other.to_string())
            }
        };
        let (run, by, reason, tool) = (text("run"), text("by"), text("reason"), text("tool"));
        let guard = text("guard").or_else(|| text("cause"));
        // The incident has the evidence.
        detail.remove("evidence");
        Fields { run, by, guard, reason, tool, detail: rest(detail) }
    }
}

fn rest(detail: Map<String, Value>) -> Option<String> {
    let detail: Map<String, Value> = detail.into_iter().filter(|(_, value)| !value.is_null()).collect();
    (!detail.is_empty()).then(|| Value::Object(detail).to_string())
}

impl EventLog {
    /// `commands` are those people type to find this estop.
    pub(crate) fn new(commands: Commands) -> EventLog {
        EventLog { commands, repeated: BTreeMap::new() }
    }

    /// Logs one.
    pub(crate) fn log(&mut self, event: &NewEvent) {
        let Some(Entry { level, message, repeats }) = entry_of(&event.event_type) else { return };
        let times = match repeats.then(|| self.times(event)) {
            Some(None) => return,
            Some(Some(times)) => Some(times).filter(|times| *times > 1),
            None => None,
        };
        let Fields { run, by, guard, reason, tool, detail } = Fields::of(&event.detail);
        let (run, by, guard, reason) = (run.as_deref(), by.as_deref(), guard.as_deref(), reason.as_deref());
        let (tool, detail, agent) = (tool.as_deref(), detail.as_deref(), event.agent.as_deref());
        let kind = &*event.event_type;
        let fix = agent.filter(|_| kind == "would_have_stopped").zip(guard);
        let fix = fix.map(|(agent, guard)| self.turn_on(agent, guard));
        let fix = fix.as_deref();
        let (seq, event) = (event.seq, kind);
        macro_rules! line {
            ($target:literal, $level:expr) => {
                tracing::event!(
                    target: $target, $level, agent, run, guard, reason, tool, by, times, fix, event, seq, detail, "{message}"
                )
            };
        }
        macro_rules! at_level {
            ($target:literal) => {
                match level {
                    Level::ERROR => line!($target, Level::ERROR),
                    Level::WARN => line!($target, Level::WARN),
                    Level::INFO => line!($target, Level::INFO),
                    _ => line!($target, Level::DEBUG),
                }
            };
        }
        match target_of(kind) {
            Target::Agents => at_level!("agents"),
            Target::Requests => at_level!("requests"),
            Target::Upstream => at_level!("upstream"),
            Target::Configuration => at_level!("configuration"),
            Target::Emergency => at_level!("emergency"),
            Target::Storage => at_level!("storage"),
        }
    }

    /// What has the guard stop the agent.
    fn turn_on(&self, agent: &str, guard: &str) -> String {
        if [Guard::Loop, Guard::Churn, Guard::Chanting].iter().any(|loops| loops.name() == guard) {
            self.commands.stop_loops(agent)
        } else {
            format!("set `guards.{guard}: enforce` in its policy")
        }
    }

    /// How often it was since it was last logged, this one counted; `None` if that is too short ago.
    fn times(&mut self, event: &NewEvent) -> Option<u64> {
        let what = serde_json::from_str::<Value>(&event.detail).ok();
        let guard =
            what.and_then(|detail| Some(detail.get("guard")?.as_str()?.to_owned())).unwrap_or_default();
        let key = (event.agent.clone().unwrap_or_default(), format!("{} {guard}", event.event_type));
        if self.repeated.len() >= REMEMBERED_MAX && !self.repeated.contains_key(&key) {
            let oldest = self.repeated.iter().min_by_key(|(_, logged)| logged.at).map(|(key, _)| key.clone());
            oldest.map(|key| self.repeated.remove(&key));
        }
        let logged = self.repeated.entry(key).or_insert(Repeated { at: i64::MIN, since: 0 });
        logged.since += 1;
        // A clock that was set back begins anew.
        let is_recent = (logged.at..logged.at.saturating_add(REPEAT_AFTER_MS)).contains(&event.wall);
        if is_recent {
            return None;
        }
        logged.at = event.wall;
        Some(std::mem::take(&mut logged.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(agent: &str, event_type: &str, wall: i64, detail: &str) -> NewEvent {
        NewEvent {
            seq: 1,
            wall,
            agent: Some(agent.into()),
            event_type: event_type.into(),
            detail: detail.into(),
        }
    }

    #[test]
    fn ob_1_what_repeats_is_logged_once_in_ten_minutes_with_its_number() {
        let mut log = EventLog::new(Commands::default());
        let loops = |agent: &str, wall| event(agent, "would_have_stopped", wall, r#"{"guard":"loop"}"#);
        assert_eq!(log.times(&loops("a", 0)), Some(1));
        assert_eq!(log.times(&loops("a", 1)), None);
        assert_eq!(log.times(&loops("b", 2)), Some(1), "each agent for itself");
        let churn = event("a", "would_have_stopped", 3, r#"{"guard":"churn"}"#);
        assert_eq!(log.times(&churn), Some(1), "each guard for itself");
        assert_eq!(log.times(&loops("a", REPEAT_AFTER_MS)), Some(2));
        assert_eq!(log.times(&loops("a", 5)), Some(1), "the clock was set back");
    }

    #[test]
    fn ob_1_what_is_remembered_is_bounded() {
        let mut log = EventLog::new(Commands::default());
        for n in 0..REMEMBERED_MAX + 10 {
            let refused = event(&format!("a{n}"), "refused", n as i64, r#"{"guard":"budget"}"#);
            assert_eq!(log.times(&refused), Some(1));
        }
        assert_eq!(log.repeated.len(), REMEMBERED_MAX);
    }

    #[test]
    fn ob_1_the_fields_people_look_for_are_fields() {
        let fields = Fields::of(
            r#"{"cause":"loop","reason":"Loop: 5 times","tool":"run_tests","score":11.0,"run":null,"evidence":[1,2]}"#,
        );
        assert_eq!(fields.guard.as_deref(), Some("loop"));
        assert_eq!(fields.reason.as_deref(), Some("Loop: 5 times"));
        assert_eq!(fields.tool.as_deref(), Some("run_tests"));
        assert_eq!((fields.run, fields.detail.as_deref()), (None, Some(r#"{"score":11.0}"#)));
    }
}
