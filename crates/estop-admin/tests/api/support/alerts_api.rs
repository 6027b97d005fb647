//! Alerts in memory: channels and rules a test sets, and a note of everything that was asked.

use std::sync::{Mutex, MutexGuard, PoisonError};

use estop_admin::{AlertsApi, AlertsError, ChannelView, MuteView, RulesNotTaken, UnusableRule};
use estop_core::ids::Name;

#[derive(Default)]
pub(crate) struct FakeAlerts(Mutex<Told>);

#[derive(Default)]
pub(crate) struct Told {
    pub(crate) channels: Vec<ChannelView>,
    pub(crate) file_rules: Vec<(Name, String)>,
    pub(crate) mutes: Vec<MuteView>,
    /// Agents of whose stops somebody is told.
    pub(crate) told_of: Vec<Name>,
    pub(crate) store_error: Option<String>,
    /// Rules with this text are refused.
    pub(crate) bad_rule: Option<&'static str>,
    pub(crate) busy: bool,
    pub(crate) notes: Vec<String>,
}

impl FakeAlerts {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A channel that works, or has failed so often.
    pub(crate) fn add_channel(&self, name: &str, failures: u32, said: &str) {
        let (to, said) = ("hooks.slack.com".into(), said.into());
        let rests_until = (failures >= 5).then_some(super::START + 45_000);
        let view = ChannelView { name: name.into(), kind: "slack", to, failures, rests_until, said };
        self.lock().channels.push(view);
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().notes)
    }

    fn ready(&self) -> Result<MutexGuard<'_, Told>, AlertsError> {
        let told = self.lock();
        if told.busy { Err(AlertsError::Busy) } else { Ok(told) }
    }
}

impl AlertsApi for FakeAlerts {
    fn channels(&self) -> Vec<ChannelView> {
        self.lock().channels.clone()
    }

    fn is_told_of_stops(&self, agent: Option<&str>) -> bool {
        let told = self.lock();
        match agent {
            Some(agent) => told.told_of.iter().any(|name| &**name == agent),
            None => !told.told_of.is_empty(),
        }
    }

    fn file_rules(&self) -> Vec<(Name, String)> {
        self.lock().file_rules.clone()
    }

    fn check_rule(&self, rule: &str) -> Result<(), UnusableRule> {
        match self.lock().bad_rule {
            Some(bad) if rule.contains(bad) => {
                Err(UnusableRule(format!("`{bad}` cannot be used: leave it out")))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn rules_changed(&self) -> Result<(), RulesNotTaken> {
        self.lock().notes.push("rules changed".to_owned());
        Ok(())
    }

    fn test(&self, channel: &str, by: &str) -> Result<(), AlertsError> {
        let mut told = self.ready()?;
        if !told.channels.iter().any(|known| &*known.name == channel) {
            return Err(AlertsError::UnknownChannel(channel.into()));
        }
        told.notes.push(format!("test of {channel} by {by}"));
        Ok(())
    }

    fn mutes(&self) -> Vec<MuteView> {
        self.lock().mutes.clone()
    }

    fn mute(&self, mute: MuteView) -> Result<(), AlertsError> {
        let mut told = self.ready()?;
        told.mutes.retain(|held| held.id != mute.id);
        told.mutes.push(mute);
        Ok(())
    }

    fn unmute(&self, id: &str) -> Result<bool, AlertsError> {
        let mut told = self.ready()?;
        let before = told.mutes.len();
        told.mutes.retain(|held| &*held.id != id);
        Ok(told.mutes.len() < before)
    }

    fn escalation_resolved(&self, escalation: &str, agent: &str, run: &str, by: &str) {
        self.lock().notes.push(format!("{escalation} of {agent}:{run} resolved by {by}"));
    }

    fn store_error(&self) -> Option<String> {
        self.lock().store_error.clone()
    }
}
