//! Rules: who is told of what, how often, and what is muted until when. Checked once, at the edge.

use std::collections::BTreeMap;

use estop_core::ids::Name;
use serde::{Deserialize, Serialize};

use crate::alert_event::{AlertEvent, AlertType, Detail};

/// The usual time between two messages of the same thing (AL-1).
const REPEAT_USUAL_S: u32 = 15 * 60;
/// Reminders of something that lasts. Chosen: 15, 30 and 45 minutes; more are noise to whoever sleeps, and PagerDuty and
/// its like repeat by themselves.
const REMINDERS_USUAL: u32 = 3;
/// A mute ends by itself after this long at the latest: a forgotten one must not hide next week's stop.
pub const MUTE_MAX_MS: i64 = 7 * 24 * 3_600_000;

/// A rule. `{}` tells everything to everybody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// Of these types; none = all but `checkpoint`, which must be asked for.
    pub types: Vec<AlertType>,
    /// Of these agents; none = all, and what concerns the whole system.
    pub agents: Vec<Name>,
    /// To these channels; none = all.
    pub channels: Vec<Name>,
    /// The same thing is told again after this long at the earliest.
    pub repeat_every_s: u32,
    /// How often a thing that lasts is told again.
    pub reminders: u32,
    /// Whether its end is told.
    pub recovery: bool,
    /// Of budgets, these shares; none = 50, 80, 95 and 100.
    pub budget_percent: Vec<u8>,
}

impl Default for Rule {
    fn default() -> Self {
        Rule {
            types: Vec::new(),
            agents: Vec::new(),
            channels: Vec::new(),
            repeat_every_s: REPEAT_USUAL_S,
            reminders: REMINDERS_USUAL,
            recovery: true,
            budget_percent: Vec::new(),
        }
    }
}

/// Why a rule is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It cannot be read.
    #[error("the rule cannot be read: {0}")]
    Unreadable(String),
    /// A number is out of its bounds.
    #[error("`{key}` must be between {min} and {max}, not {found}")]
    Bounds {
        /// Which.
        key: &'static str,
        /// At least.
        min: i64,
        /// At most.
        max: i64,
        /// What was given.
        found: i64,
    },
    /// It names a channel that is not there.
    #[error("there is no channel `{0}`: name one of `alerts.channels`")]
    UnknownChannel(Name),
    /// A mute needs somebody who answers for it.
    #[error("`by` must say who mutes")]
    NoOwner,
    /// Whoever makes themselves an admin token could mute the alert first.
    #[error("`admin_token` cannot be muted")]
    NeverMuted,
}

impl Rule {
    /// Reads a rule as the store and the API have it.
    pub fn parse(json: &str) -> Result<Rule, RuleError> {
        let rule: Rule =
            serde_json::from_str(json).map_err(|error| RuleError::Unreadable(error.to_string()))?;
        rule.check()?;
        Ok(rule)
    }

    /// Whether its numbers are within their bounds.
    pub fn check(&self) -> Result<(), RuleError> {
        let within = |key, found: i64, min, max| {
            let is_fine = (min..=max).contains(&found);
            is_fine.then_some(()).ok_or(RuleError::Bounds { key, min, max, found })
        };
        within("repeat_every_s", self.repeat_every_s.into(), 60, 7 * 86_400)?;
        within("reminders", self.reminders.into(), 0, 100)?;
        for percent in &self.budget_percent {
            within("budget_percent", (*percent).into(), 1, 100)?;
        }
        Ok(())
    }

    /// Whether it is about this.
    pub(crate) fn is_about(&self, told: &AlertEvent) -> bool {
        let by_type = if self.types.is_empty() {
            told.alert != AlertType::Checkpoint
        } else {
            self.types.contains(&told.alert)
        };
        let by_agent =
            self.agents.is_empty() || told.agent.as_ref().is_some_and(|agent| self.agents.contains(agent));
        let by_share = match &told.detail {
            Detail::Budget(seen) if !self.budget_percent.is_empty() => {
                self.budget_percent.contains(&seen.percent)
            }
            Detail::Budget(_)
            | Detail::None
            | Detail::Escalation(_)
            | Detail::Shut(_)
            | Detail::Checkpoint { .. } => true,
        };
        by_type && by_agent && by_share
    }

    pub(crate) fn repeat_ms(&self) -> i64 {
        i64::from(self.repeat_every_s) * 1000
    }
}

/// Nothing is told for a while: by whom, why and until when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mute {
    /// Of these types; none = all but `system_kill`, which must be named. `admin_token` cannot be muted.
    #[serde(default)]
    pub types: Vec<AlertType>,
    /// Of these agents; none = all.
    #[serde(default)]
    pub agents: Vec<Name>,
    /// Until then, in milliseconds since 1970.
    pub until: i64,
    /// Who answers for it.
    pub by: Name,
    /// Why.
    #[serde(default)]
    pub why: String,
}

impl Mute {
    /// Whether it may begin now.
    pub fn check(&self, now: i64) -> Result<(), RuleError> {
        if self.by.trim().is_empty() {
            return Err(RuleError::NoOwner);
        }
        if self.types.contains(&AlertType::AdminToken) {
            return Err(RuleError::NeverMuted);
        }
        let (min, max) = (now + 1, now + MUTE_MAX_MS);
        let is_fine = (min..=max).contains(&self.until);
        is_fine.then_some(()).ok_or(RuleError::Bounds { key: "until", min, max, found: self.until })
    }

    pub(crate) fn hides(&self, told: &AlertEvent, now: i64) -> bool {
        let by_agent = told.agent.as_ref().is_some_and(|agent| self.agents.contains(agent));
        self.is_of(told.alert, now) && (self.agents.is_empty() || by_agent)
    }

    /// Whether it hides everything of this type.
    pub(crate) fn hides_all(&self, alert: AlertType, now: i64) -> bool {
        self.is_of(alert, now) && self.agents.is_empty()
    }

    fn is_of(&self, alert: AlertType, now: i64) -> bool {
        let can_be_muted = alert != AlertType::AdminToken;
        let by_type =
            if self.types.is_empty() { alert != AlertType::SystemKill } else { self.types.contains(&alert) };
        now < self.until && by_type && can_be_muted
    }
}

/// What a channel takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelScope {
    /// Every message.
    All,
    /// Escalations to a human alone.
    Escalations,
}

/// All rules in force and the channels they may name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleBook {
    pub(crate) rules: BTreeMap<Name, Rule>,
    pub(crate) channels: BTreeMap<Name, ChannelScope>,
}

impl RuleBook {
    /// Puts rules and channels together. Without any rule, everything is told to every channel.
    pub fn new(
        mut rules: BTreeMap<Name, Rule>,
        channels: BTreeMap<Name, ChannelScope>,
    ) -> Result<RuleBook, RuleError> {
        for rule in rules.values() {
            rule.check()?;
            let unknown = rule.channels.iter().find(|channel| !channels.contains_key(*channel));
            if let Some(channel) = unknown {
                return Err(RuleError::UnknownChannel(channel.clone()));
            }
        }
        if rules.is_empty() {
            rules.insert("default".into(), Rule::default());
        }
        Ok(RuleBook { rules, channels })
    }

    /// Whether anybody would be told that this agent's kill switch tripped (AL-3).
    pub fn is_told_of(&self, alert: AlertType, agent: &str) -> bool {
        let is_of = |rule: &&Rule| rule.agents.is_empty() || rule.agents.iter().any(|name| &**name == agent);
        self.rules.values().filter(is_of).any(|rule| self.reaches(rule, alert))
    }

    /// Whether anybody would be told of this, of any agent at all; of what has no agent, by a rule that names none.
    pub fn is_told_of_any(&self, alert: AlertType) -> bool {
        let is_of = |rule: &&Rule| rule.agents.is_empty() || alert.has_agent();
        self.rules.values().filter(is_of).any(|rule| self.reaches(rule, alert))
    }

    fn reaches(&self, rule: &Rule, alert: AlertType) -> bool {
        let by_type =
            if rule.types.is_empty() { alert != AlertType::Checkpoint } else { rule.types.contains(&alert) };
        by_type && self.heard_by(rule).any(|(_, takes)| takes == ChannelScope::All)
    }

    /// The channels of a rule.
    pub(crate) fn heard_by<'a>(&'a self, rule: &'a Rule) -> impl Iterator<Item = (&'a Name, ChannelScope)> {
        let is_named = |name: &Name| rule.channels.is_empty() || rule.channels.contains(name);
        self.channels.iter().filter(move |(name, _)| is_named(name)).map(|(name, takes)| (name, *takes))
    }
}
