//! Decides who is told what: rules, repeats, reminders, recoveries, mutes, storms.
//!
//! It has no clock and no store: time is an argument, and what it wants kept comes out of [`AlertRouter::take`], together with
//! the alerts that follow from it. What a router was told before a restart it recalls from what was kept.

mod begin;
mod over;

use std::collections::BTreeMap;

use estop_core::ids::Name;
use estop_store::{AlertCommit, AlertMemory, NewAlert};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::alert_event::{AlertEvent, AlertType, Detail, Phase};
use crate::ids::{key, message_id};
use crate::message::Message;
use crate::rule::{ChannelScope, Mute, Rule, RuleBook, RuleError};
use crate::storm::Storm;
use crate::words::{Again, Words};

/// Things that were told and are not over. Beyond it the ones longest ago are forgotten: they are told again if they
/// happen again, and their end is not told.
const TOLD_MAX: usize = 20_000;
/// Ids of the same thing that are remembered. Chosen: whoever presses the button more often before the journal knows is counted.
const KNOWN_MAX: usize = 16;
const TOLD: &str = "told/";
const STORM: &str = "storm/";
const MUTE: &str = "mute/";
const CURSOR: &str = "cursor";

/// Something that was told under a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ActiveAlert {
    rule: Name,
    key: Name,
    /// The latest of its kind.
    last: AlertEvent,
    /// When it was told; `None` = it is muted.
    at: Option<i64>,
    /// How often it was told again since it began.
    reminders: u32,
    /// How often it happened since it was told.
    more: u32,
    /// Ids of the latest: what is told again after a crash is the same.
    #[serde(default)]
    known: Vec<Name>,
}

/// Who was told what, and what goes out next.
#[derive(Debug, Default)]
pub struct AlertRouter {
    told: BTreeMap<Name, ActiveAlert>,
    storms: BTreeMap<Name, Storm>,
    mutes: BTreeMap<Name, Mute>,
    cursor: u64,
    wake: Option<i64>,
    out: AlertCommit,
}

impl AlertRouter {
    /// A router as it was when it was last kept. What cannot be read is forgotten: at worst something is told twice.
    pub fn recall(memory: Vec<(Name, String)>) -> AlertRouter {
        let mut router = AlertRouter::default();
        for (name, value) in memory {
            if name.starts_with(TOLD) {
                if let Ok(told) = serde_json::from_str(&value) {
                    router.told.insert(name, told);
                }
            } else if let Some(channel) = name.strip_prefix(STORM) {
                if let Ok(storm) = serde_json::from_str(&value) {
                    router.storms.insert(channel.into(), storm);
                }
            } else if let Some(id) = name.strip_prefix(MUTE) {
                if let Ok(mute) = serde_json::from_str(&value) {
                    router.mutes.insert(id.into(), mute);
                }
            } else if &*name == CURSOR {
                router.cursor = value.parse().unwrap_or(0);
            }
        }
        router.wake = Some(i64::MIN);
        router
    }

    /// The last journal record whose events were told; 0 = none.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Everything up to this record was told, or need not be.
    pub fn told_up_to(&mut self, seq: u64) {
        if seq > self.cursor {
            self.cursor = seq;
            self.out.memory.retain(|kept| &*kept.name != CURSOR);
            self.out.memory.push(AlertMemory { name: CURSOR.into(), value: Some(seq.to_string()) });
        }
    }

    /// Mutes that hold, by id.
    pub fn mutes(&self) -> &BTreeMap<Name, Mute> {
        &self.mutes
    }

    /// Mutes; a mute of the same id is replaced.
    pub fn mute(&mut self, now: i64, id: Name, mute: Mute) -> Result<(), RuleError> {
        mute.check(now)?;
        self.remember(format!("{MUTE}{id}"), Some(json!(mute).to_string()));
        self.wake_at(mute.until);
        self.mutes.insert(id, mute);
        Ok(())
    }

    /// Ends a mute; what it hid and still lasts is told at the next poll. Whether there was one.
    pub fn unmute(&mut self, id: &str) -> bool {
        let was = self.mutes.remove(id).is_some();
        if was {
            self.remember(format!("{MUTE}{id}"), None);
            self.wake_at(i64::MIN);
        }
        was
    }

    /// Something happened. Up to which record everything was told is said by [`AlertRouter::told_up_to`] alone: a later record
    /// may be told before this one.
    pub fn handle(&mut self, now: i64, event: &AlertEvent, book: &RuleBook, words: &Words) {
        for (name, rule) in &book.rules {
            match event.phase {
                Phase::Raised if rule.is_about(event) => {
                    self.raised(now, (name, rule), event, book, words);
                }
                Phase::Cleared => self.cleared(now, (name, rule), event, book, words),
                Phase::Raised => {}
            }
        }
    }

    /// So many events were too many to be taken one by one.
    pub fn handle_missed(&mut self, now: i64, count: u64, book: &RuleBook) {
        for (channel, _) in book.channels.iter().filter(|(_, takes)| **takes == ChannelScope::All) {
            let storm = self.storms.entry(channel.clone()).or_default();
            storm.missed(now, count);
            self.keep_storm(channel);
        }
    }

    /// Does what is due: reminders, digests, what a mute hid.
    pub fn poll(&mut self, now: i64, book: &RuleBook, words: &Words) {
        if self.wake.is_none_or(|wake| now < wake) {
            return;
        }
        self.wake = None;
        let ended: Vec<Name> =
            self.mutes.iter().filter(|(_, mute)| mute.until <= now).map(|(id, _)| id.clone()).collect();
        for id in ended {
            self.unmute(&id);
        }
        self.wake = self.mutes.values().map(|mute| mute.until).min();
        let names: Vec<Name> = self.told.keys().cloned().collect();
        for name in names {
            self.repeat(now, &name, book, words);
        }
        let channels: Vec<Name> = self.storms.keys().cloned().collect();
        for channel in channels {
            self.digest(now, &channel, words);
        }
        self.forget_surplus();
    }

    /// When to poll next.
    pub fn next_wake(&self) -> Option<i64> {
        self.wake
    }

    /// What is to be stored: alerts, and what must be known after a restart.
    pub fn take(&mut self, now: i64) -> Option<AlertCommit> {
        if self.out.alerts.is_empty() && self.out.memory.is_empty() {
            return None;
        }
        Some(AlertCommit { at: now, ..std::mem::take(&mut self.out) })
    }

    fn raised(
        &mut self,
        now: i64,
        (rule_name, rule): (&Name, &Rule),
        event: &AlertEvent,
        book: &RuleBook,
        words: &Words,
    ) {
        let key = key(event);
        let is_muted = self.is_muted(event, now);
        if event.alert == AlertType::Checkpoint {
            if is_muted {
                return;
            }
            // Each is worth as much as the one before; none is held back.
            return self.tell(now, rule, (event, &key, Again::default()), &event.id, book, words);
        }
        let name: Name = format!("{TOLD}{rule_name}/{key}").into();
        let told = self.told.entry(name.clone()).or_insert_with(|| ActiveAlert {
            rule: rule_name.clone(),
            key: key.clone(),
            last: event.clone(),
            at: None,
            reminders: 0,
            more: 0,
            known: Vec::new(),
        });
        let is_known = told.last.id == event.id || told.known.contains(&event.id);
        if told.at.is_some() && is_known {
            return;
        }
        if !is_known || told.known.is_empty() {
            told.known.insert(0, event.id.clone());
            told.known.truncate(KNOWN_MAX);
        }
        if told.at.is_some() {
            told.more = told.more.saturating_add(1);
            told.last = event.clone();
            let due = told.at.map_or(now, |at| at + rule.repeat_ms());
            self.wake_at(due);
        } else if !is_muted {
            told.at = Some(now);
            self.tell(now, rule, (event, &key, Again::default()), &event.id, book, words);
            self.wake_at(now + rule.repeat_ms());
        }
        self.save_active(&name);
        self.repeat(now, &name, book, words);
    }

    /// Tells something again, if it is time for that.
    fn repeat(&mut self, now: i64, name: &Name, book: &RuleBook, words: &Words) {
        let Some(mut told) = self.told.get(name).cloned() else { return };
        let Some(rule) = book.rules.get(&told.rule) else {
            self.told.remove(name);
            return self.save_active(name);
        };
        if self.is_muted(&told.last, now) {
            return;
        }
        let due = told.at.map_or(now, |at| at + rule.repeat_ms());
        let lasts = told.last.alert.lasts() && told.reminders < rule.reminders;
        if now < due {
            if told.more > 0 || lasts || !told.last.alert.lasts() {
                self.wake_at(due);
            }
            return;
        }
        let is_first = told.at.is_none();
        if !(is_first || told.more > 0 || lasts) {
            if !told.last.alert.lasts() {
                self.told.remove(name);
                self.save_active(name);
            }
            return;
        }
        let again = Again { reminder: !is_first && told.more == 0, more: told.more };
        told.reminders = if again.reminder { told.reminders + 1 } else { 0 };
        (told.at, told.more) = (Some(now), 0);
        let nth = format!("{} {now}", told.last.id);
        self.tell(now, rule, (&told.last, &told.key, again), &nth, book, words);
        self.told.insert(name.clone(), told);
        self.save_active(name);
        self.wake_at(now + rule.repeat_ms());
    }

    /// Puts a message into the outbox of each channel that hears of it, or counts it where there are too many.
    fn tell(
        &mut self,
        now: i64,
        rule: &Rule,
        (event, key, again): (&AlertEvent, &Name, Again),
        nth: &str,
        book: &RuleBook,
        words: &Words,
    ) {
        let is_escalation = matches!(event.detail, Detail::Escalation(_)) && event.phase == Phase::Raised;
        for (channel, takes) in book.heard_by(rule) {
            if takes == ChannelScope::Escalations && (!is_escalation || again.reminder) {
                continue;
            }
            let kind = if event.phase == Phase::Cleared { "recovery" } else { "alert" };
            let id = message_id(channel, key, nth, kind);
            let message = words.alert(id, key.clone(), event, again);
            let storm = self.storms.entry(channel.clone()).or_default();
            // Everybody must hear of the red button, whatever else is going on.
            let passes = storm.lets_through(now, &message) || event.alert == AlertType::SystemKill;
            self.keep_storm(channel);
            if passes {
                self.push(now, channel, &message);
            }
        }
    }

    fn digest(&mut self, now: i64, channel: &Name, words: &Words) {
        let Some(storm) = self.storms.get_mut(channel) else { return };
        let digest = storm.digest(now, channel, words);
        if let Some(digest) = digest {
            self.push(now, channel, &digest);
        }
        self.keep_storm(channel);
    }

    pub(crate) fn push(&mut self, now: i64, channel: &Name, message: &Message) {
        self.out.alerts.push(NewAlert {
            dedupe: message.id.clone(),
            target: channel.clone(),
            payload: json!(message).to_string(),
            created_at: now,
            due_at: now,
        });
    }

    fn is_muted(&self, event: &AlertEvent, now: i64) -> bool {
        self.mutes.values().any(|mute| mute.hides(event, now))
    }

    fn wake_at(&mut self, at: i64) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }

    fn save_active(&mut self, name: &Name) {
        let value = self.told.get(name).map(|told| json!(told).to_string());
        self.remember(name.to_string(), value);
    }

    fn keep_storm(&mut self, channel: &Name) {
        let Some(storm) = self.storms.get(channel) else { return };
        let (due, value) = (storm.due_at(), json!(storm).to_string());
        if let Some(due) = due {
            self.wake_at(due);
        }
        self.remember(format!("{STORM}{channel}"), Some(value));
    }

    /// The last word on a name is the one that is kept.
    fn remember(&mut self, name: String, value: Option<String>) {
        let name = Name::from(name);
        // Only the newest few can be the same: an alert event touches its own names.
        let near = self.out.memory.iter_mut().rev().take(64).find(|kept| kept.name == name);
        match near {
            Some(kept) => kept.value = value,
            None => self.out.memory.push(AlertMemory { name, value }),
        }
    }

    fn forget_surplus(&mut self) {
        if self.told.len() <= TOLD_MAX {
            return;
        }
        let mut by_age: Vec<(i64, Name)> =
            self.told.iter().map(|(name, told)| (told.last.at, name.clone())).collect();
        by_age.sort_unstable();
        for (_, name) in by_age.drain(..self.told.len() - TOLD_MAX) {
            self.told.remove(&name);
            self.save_active(&name);
        }
    }
}
