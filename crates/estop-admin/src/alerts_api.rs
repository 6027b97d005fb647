//! The seam to those who tell people (AL-1 to AL-3): what the admin plane asks of alerts, and what it shows of them. The
//! binary stands behind it with `estop-notify`, which this crate does not know.

use estop_core::ids::Name;

/// Those who tell people. Nothing here waits for a network or a receiver; `rules_changed` may read the store.
pub trait AlertsApi: Send + Sync {
    /// Every channel and how it does, in order of name.
    fn channels(&self) -> Vec<ChannelView>;
    /// Whether anybody is told when a guard switches this agent off (AL-3); `None` = any agent at all.
    fn is_told_of_stops(&self, agent: Option<&str>) -> bool;
    /// Whether anybody is told when the red button is pressed (KS-2).
    fn is_told_of_kills(&self) -> bool {
        false
    }
    /// Rules of the configuration file, by name, as JSON (those of the store are the store's).
    fn file_rules(&self) -> Vec<(Name, String)>;
    /// Whether a rule could be used: its JSON, or what is wrong and how to fix it.
    fn check_rule(&self, rule: &str) -> Result<(), UnusableRule>;
    /// The rules in the store changed: takes them up. Whoever calls it holds `AdminState::edits`.
    fn rules_changed(&self) -> Result<(), RulesNotTaken>;
    /// Sends a test; the delivery log says how it ended.
    fn test(&self, channel: &str, by: &str) -> Result<(), AlertsError>;
    /// Mutes that hold.
    fn mutes(&self) -> Vec<MuteView>;
    /// Mutes for a while; a mute of the same id is replaced.
    fn mute(&self, mute: MuteView) -> Result<(), AlertsError>;
    /// Ends a mute; `false` if there was none.
    fn unmute(&self, id: &str) -> Result<bool, AlertsError>;
    /// An escalation was resolved by a person: its alert is over. `run` is empty if it has none.
    fn escalation_resolved(&self, escalation: &str, agent: &str, run: &str, by: &str);
    /// Why alerts cannot be stored at the moment.
    fn store_error(&self) -> Option<String>;
}

/// A channel and how it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelView {
    /// What the configuration calls it.
    pub name: Name,
    /// `slack`, `email`, …
    pub kind: &'static str,
    /// Host or addresses; no secret, no path with secrets.
    pub to: Name,
    /// Tries in a row that failed.
    pub failures: u32,
    /// It is left alone until then.
    pub rests_until: Option<i64>,
    /// What the receiver said last; harmless text.
    pub said: Name,
}

/// A mute. Empty lists mean all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MuteView {
    /// Chosen by whoever mutes, or made by the API.
    pub id: Name,
    /// Types as `AlertType::name()` has them.
    pub types: Vec<Name>,
    /// Of these agents.
    pub agents: Vec<Name>,
    /// Until then, in milliseconds since 1970.
    pub until: i64,
    /// Who answers for it.
    pub by: Name,
    /// Why.
    pub why: Name,
}

/// Why a wish was not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlertsError {
    /// There is no such channel.
    UnknownChannel(Name),
    /// A value cannot be used.
    Invalid {
        /// Which field.
        field: &'static str,
        /// What is wrong, and how to fix it.
        problem: String,
    },
    /// There is too much to do right now.
    Busy,
}

/// What is wrong with a rule, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnusableRule(pub String);

/// Why the rules in the store were not taken up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RulesNotTaken(pub String);

/// Nobody is told of anything, so nothing can be muted.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAlerts;

impl AlertsApi for NoAlerts {
    fn channels(&self) -> Vec<ChannelView> {
        Vec::new()
    }

    fn is_told_of_stops(&self, _agent: Option<&str>) -> bool {
        false
    }

    fn file_rules(&self) -> Vec<(Name, String)> {
        Vec::new()
    }

    fn check_rule(&self, _rule: &str) -> Result<(), UnusableRule> {
        Ok(())
    }

    fn rules_changed(&self) -> Result<(), RulesNotTaken> {
        Ok(())
    }

    fn test(&self, channel: &str, _by: &str) -> Result<(), AlertsError> {
        Err(AlertsError::UnknownChannel(channel.into()))
    }

    fn mutes(&self) -> Vec<MuteView> {
        Vec::new()
    }

    fn mute(&self, _mute: MuteView) -> Result<(), AlertsError> {
        let problem = "nobody is told of anything here, so there is nothing to mute".to_owned();
        Err(AlertsError::Invalid { field: "types", problem })
    }

    fn unmute(&self, _id: &str) -> Result<bool, AlertsError> {
        Ok(false)
    }

    fn escalation_resolved(&self, _escalation: &str, _agent: &str, _run: &str, _by: &str) {}

    fn store_error(&self) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn al_1_where_nobody_is_told_nothing_is_muted() {
        let mute = MuteView {
            id: "m".into(),
            types: Vec::new(),
            agents: Vec::new(),
            until: 1,
            by: "ada".into(),
            why: "x".into(),
        };
        assert!(matches!(NoAlerts.mute(mute), Err(AlertsError::Invalid { .. })));
    }
}
