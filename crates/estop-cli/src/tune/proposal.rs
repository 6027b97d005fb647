//! What is proposed for an agent, and why, in a sentence.
//!
//! Nobody recorded which runs were healthy, so the evidence is how they ended. What would have stopped runs that look healthy is
//! avoided, then what misses runs that a person stopped; then the setting that changes least wins. The guard is proposed to be
//! switched on only where nothing that it would have stopped is in doubt, and enough was seen.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;

use estop_core::guard::Guard;
use estop_core::policy::{LoopPolicy, Mode, Policy, Profile};
use estop_journal::{RunEnd, SettingOutcome, Traffic};
use serde_json::{Map, Value};

use super::setting::{profile_name, threshold, threshold_text};

/// Runs that must have ended by themselves before the guard is proposed to be switched on: with none of 20 stopped, a share of
/// one in seven would still be possible.
pub(super) const ENDED_MIN: u64 = 20;

/// What is proposed for one agent.
#[derive(Debug)]
pub(super) struct Proposal {
    /// Which of the settings.
    pub(super) at: usize,
    /// Rules to be laid over those in force; empty = nothing to change.
    pub(super) change: Map<String, Value>,
    /// Why.
    pub(super) reason: String,
}

/// What an agent is judged by.
pub(super) struct Case<'a> {
    pub(super) policy: &'a Policy,
    pub(super) traffic: Traffic,
    pub(super) settings: &'a [LoopPolicy],
    /// One for each setting.
    pub(super) outcomes: &'a [SettingOutcome],
}

impl Case<'_> {
    /// Which of the settings is in force.
    pub(super) fn today(&self) -> usize {
        self.settings.iter().position(|setting| *setting == self.policy.loops).unwrap_or(0)
    }

    pub(super) fn is_enforced(&self) -> bool {
        self.policy.modes[Guard::Loop] == Mode::Enforce
    }

    pub(super) fn propose(&self) -> Proposal {
        let (today, at) = (self.today(), self.best());
        let is_on = self.may_switch_on(at);
        let mut change = Map::new();
        let (old, new) = (&self.settings[today], &self.settings[at]);
        if new.profile != old.profile {
            change.insert("profile".to_owned(), profile_name(new.profile).into());
        }
        if new.threshold_tenths != old.threshold_tenths {
            change.insert("kill_switch_threshold".to_owned(), threshold(new.threshold_tenths));
        }
        if is_on {
            change.insert("kill_switch_enabled".to_owned(), true.into());
        }
        let mut sentences = if at == today { self.why_stay(today) } else { self.why_change(today, at) };
        sentences.extend(self.about_the_switch(at, is_on));
        Proposal { at, change, reason: sentences.join(" ") }
    }

    fn best(&self) -> usize {
        let cost = |at: &usize| {
            let ends = self.outcomes[*at].ends;
            (ends.by_itself, Reverse(ends.by_hand), self.distance(*at))
        };
        (0..self.settings.len()).min_by_key(cost).unwrap_or(0)
    }

    /// How much a setting changes: the profile is chosen before the threshold, and of what changes as much, what finds most.
    fn distance(&self, at: usize) -> (u8, Reverse<u64>, u16, u8) {
        let (own, other) = (&self.policy.loops, &self.settings[at]);
        let is_lower = other.threshold_tenths < own.threshold_tenths;
        let is_other = u8::from(other.profile != own.profile);
        let kind = match other.threshold_tenths.abs_diff(own.threshold_tenths) {
            0 => is_other,
            _ => 2 + is_other + 2 * u8::from(is_lower),
        };
        let by_threshold = other.threshold_tenths.abs_diff(own.threshold_tenths);
        let rank = match other.profile {
            Profile::Coding => 0,
            Profile::Interactive => 1,
            Profile::Ops => 2,
            Profile::Batch => 3,
        };
        (kind, Reverse(self.outcomes[at].loops.runs), by_threshold, rank)
    }

    /// Only where every stop is of a run that a person stopped too, and enough runs ended by themselves.
    fn may_switch_on(&self, at: usize) -> bool {
        let ends = self.outcomes[at].ends;
        let is_clear = ends.by_itself + ends.unclear() + self.traffic.stopped == 0;
        !self.is_enforced() && is_clear && self.traffic.ended_long >= ENDED_MIN
    }

    fn why_stay(&self, today: usize) -> Vec<String> {
        let outcome = &self.outcomes[today];
        let ends = outcome.ends;
        if outcome.loops.runs == 0 {
            return vec!["Today's setting stops none of its runs.".to_owned()];
        }
        let mut why = Vec::new();
        if ends.by_itself > 0 {
            let spared = self.setting_that_spares(outcome);
            why.push(format!(
                "None of these settings spares more of the {} that look healthy{}.{}",
                runs(ends.by_itself),
                at_tools(outcome),
                spared.map(|setting| format!(" If this is its work, set `{setting}`.")).unwrap_or_default()
            ));
        }
        if ends.by_hand > 0 {
            why.push(format!("Today's setting stops {} that a person stopped by hand.", runs(ends.by_hand)));
        }
        if ends.unclear() > 0 {
            why.push(format!(
                "Today's setting stops {} whose health nobody knows: look at the stops above.",
                runs(ends.unclear())
            ));
            if let Some(other) = self.that_spares_all().filter(|_| ends.by_itself == 0) {
                let what = if ends.unclear() == 1 { "it was" } else { "they were" };
                why.push(format!("If {what} healthy, set {}.", self.named(today, other)));
            }
        }
        why
    }

    fn why_change(&self, today: usize, at: usize) -> Vec<String> {
        let (old, new) = (&self.outcomes[today], &self.outcomes[at]);
        let mut why = Vec::new();
        if new.ends.by_itself < old.ends.by_itself {
            let left = match new.ends.by_itself {
                0 => "none of them".to_owned(),
                left => format!("{left} of them"),
            };
            let (own, threshold) =
                (&self.settings[today], threshold_text(self.settings[today].threshold_tenths));
            why.push(format!(
                "`profile: {}` at {threshold} stops {} that look healthy{}; {} stops {left}.",
                profile_name(own.profile),
                runs(old.ends.by_itself),
                at_tools(old),
                self.named(today, at),
            ));
        }
        let (before, after) = (old.ends.by_hand, new.ends.by_hand);
        why.extend(match after.cmp(&before) {
            Ordering::Greater => Some(format!(
                "It stops {} that a person stopped by hand; today's setting stops {before}.",
                runs(after)
            )),
            Ordering::Less => {
                Some(format!("It misses {} that a person stopped by hand.", runs(before - after)))
            }
            Ordering::Equal if after == 0 => None,
            Ordering::Equal => {
                Some(format!("It still stops the {} that a person stopped by hand.", runs(after)))
            }
        });
        if new.ends.unclear() < old.ends.unclear() {
            why.push(format!(
                "It no longer stops {} whose health nobody knows{}.",
                runs(old.ends.unclear() - new.ends.unclear()),
                match old.ends.by_loop_guard.saturating_sub(new.ends.by_loop_guard) {
                    0 => String::new(),
                    stopped => format!(", {stopped} of which the loop guard stopped"),
                }
            ));
        }
        if new.ends.unclear() > 0 {
            why.push(format!(
                "It stops {} whose health nobody knows: look at the stops.",
                runs(new.ends.unclear())
            ));
        }
        why
    }

    fn about_the_switch(&self, at: usize, is_on: bool) -> Option<String> {
        let ends = self.outcomes[at].ends;
        let Traffic { ended_long: ended, stopped, .. } = self.traffic;
        if self.is_enforced() {
            return None;
        }
        if is_on {
            return Some(format!(
                "{} of five steps or more ended by themselves and no stop is in doubt: loops may stop this agent.",
                runs(ended)
            ));
        }
        if ends.by_itself + ends.unclear() > 0 {
            return Some("So whether loops stop this agent is for you to decide.".to_owned());
        }
        if stopped > 0 {
            return Some(format!(
                "The loop guard stopped {} before it was switched off: whether to switch it on again is for you to decide.",
                runs(stopped)
            ));
        }
        Some(format!(
            "Too few runs of five steps or more ended by themselves ({ended} of {ENDED_MIN}) to propose that loops may stop this agent."
        ))
    }

    /// The setting that changes least and stops nothing whose end is in doubt.
    fn that_spares_all(&self) -> Option<usize> {
        let spares = |at: &usize| {
            let ends = self.outcomes[*at].ends;
            ends.by_itself + ends.unclear() == 0
        };
        (0..self.settings.len()).filter(spares).min_by_key(|at| self.distance(*at))
    }

    /// What a setting changes, as it stands in a policy.
    fn named(&self, today: usize, at: usize) -> String {
        let (old, new) = (&self.settings[today], &self.settings[at]);
        let profile =
            (new.profile != old.profile).then(|| format!("`profile: {}`", profile_name(new.profile)));
        let threshold = (new.threshold_tenths != old.threshold_tenths)
            .then(|| format!("`kill_switch_threshold: {}`", threshold_text(new.threshold_tenths)));
        profile.into_iter().chain(threshold).collect::<Vec<_>>().join(" with ")
    }

    /// What the incident of the newest stop of a run that looks healthy would name.
    fn setting_that_spares(&self, outcome: &SettingOutcome) -> Option<String> {
        let newest = outcome.stops.iter().rev().find(|stop| stop.end == RunEnd::ByItself)?;
        Some(newest.stop.finding.sparing_setting(newest.tool.as_deref()))
    }
}

fn runs(count: u64) -> String {
    if count == 1 { "1 run".to_owned() } else { format!("{count} runs") }
}

/// The tools at which runs that look healthy would have been stopped; empty where there are none, or too many to say.
fn at_tools(outcome: &SettingOutcome) -> String {
    let healthy = outcome.stops.iter().filter(|stop| stop.end == RunEnd::ByItself);
    let tools: Option<BTreeSet<&str>> = healthy.map(|stop| stop.tool.as_deref()).collect();
    let tools: Vec<String> =
        tools.unwrap_or_default().into_iter().map(estop_config::printable::name_in_quotes).collect();
    match &tools[..] {
        [one] => format!(" (all at `{one}`)"),
        [first, last] => format!(" (at `{first}` and `{last}`)"),
        [first, second, last] => format!(" (at `{first}`, `{second}` and `{last}`)"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
