//! The section `alerts:` of the configuration file: its shape, and the settings it means. Secrets are named by the
//! environment variable that holds them; the caller looks them up, as it reads files of certificates.

use std::collections::BTreeMap;

use estop_core::ids::Name;
use jiff::tz::TimeZone;
use serde::Deserialize;

use crate::channel::{ChannelIn, Lookup};
use crate::net::Endpoint;
use crate::notifier::{CHANNELS_MAX, Settings};
use crate::rule::Rule;
use crate::words::Words;

/// Shorter silences are pauses between two calls.
const DOWN_AFTER_S_MIN: u32 = 60;
/// Longer ones are found in a calendar.
const DOWN_AFTER_S_MAX: u32 = 30 * 86_400;

/// The section `alerts:`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AlertsIn {
    /// Where people see the dashboard; messages link there.
    pub dashboard: Option<String>,
    /// In which zone times are written; UTC if left out.
    pub timezone: Option<String>,
    /// Agents that should call: after so many seconds of silence they are told as down.
    pub agent_down_after_s: BTreeMap<Name, u32>,
    /// Where people are told.
    pub channels: BTreeMap<Name, ChannelIn>,
    /// Who is told of what; none = everything to every channel.
    pub rules: BTreeMap<Name, Rule>,
}

/// A value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands, below `alerts`: `channels`, `ops`, `url`.
    pub keys: Vec<String>,
    /// What is wrong, and how to fix it; no secret.
    pub problem: String,
}

impl AlertsIn {
    /// The settings it means, or everything that is wrong with it.
    pub fn resolve(&self, lookup: &Lookup<'_>) -> Result<Settings, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut wrong = |keys: &[&str], problem: String| {
            let keys = keys.iter().map(|key| (*key).to_owned()).collect();
            problems.push(Problem { keys, problem });
        };
        let dashboard = self.dashboard.as_deref().map(|url| url.trim().trim_end_matches('/').to_owned());
        if dashboard.as_deref().is_some_and(|url| Endpoint::parse(url).is_err()) {
            wrong(&["dashboard"], "it must be a URL like https://estop.example.com".to_owned());
        }
        let zone = match self.timezone.as_deref() {
            None => TimeZone::UTC,
            Some(name) => TimeZone::get(name).unwrap_or_else(|_| {
                wrong(&["timezone"], "there is no such time zone: write one like Europe/Berlin".to_owned());
                TimeZone::UTC
            }),
        };
        if self.channels.len() > CHANNELS_MAX {
            wrong(&["channels"], format!("there may be {CHANNELS_MAX} channels"));
        }
        for (agent, seconds) in &self.agent_down_after_s {
            if !(DOWN_AFTER_S_MIN..=DOWN_AFTER_S_MAX).contains(seconds) {
                let bounds = format!("it must be between {DOWN_AFTER_S_MIN} and {DOWN_AFTER_S_MAX} seconds");
                wrong(&["agent_down_after_s", agent], bounds);
            }
        }
        let mut channels = BTreeMap::new();
        for (name, channel) in &self.channels {
            match channel.resolve(lookup) {
                Ok(channel) => drop(channels.insert(name.clone(), channel)),
                Err((key, problem)) => wrong(&["channels", name, key], problem),
            }
        }
        for (name, rule) in &self.rules {
            if let Err(error) = rule.check() {
                wrong(&["rules", name], error.to_string());
            }
            for channel in rule.channels.iter().filter(|channel| !self.channels.contains_key(*channel)) {
                wrong(&["rules", name, "channels"], format!("there is no channel `{channel}`"));
            }
        }
        let words = Words { dashboard, zone, ..Words::default() };
        let settings = Settings { channels, rules: self.rules.clone(), words };
        if problems.is_empty() { Ok(settings) } else { Err(problems) }
    }
}
