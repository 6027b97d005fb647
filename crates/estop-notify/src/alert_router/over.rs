//! When something is over: who hears of it, and what of it stays.

use estop_core::ids::Name;

use super::{ActiveAlert, AlertRouter, TOLD, key};
use crate::alert_event::{AlertEvent, AlertType, Detail, Phase};
use crate::rule::{Rule, RuleBook};
use crate::words::{Again, Words};

impl AlertRouter {
    pub(super) fn cleared(
        &mut self,
        now: i64,
        (rule_name, rule): (&Name, &Rule),
        event: &AlertEvent,
        book: &RuleBook,
        words: &Words,
    ) {
        let prefix = format!("{TOLD}{rule_name}/");
        let over: Vec<Name> = self
            .told
            .range(Name::from(prefix.as_str())..)
            .take_while(|(name, _)| name.starts_with(&prefix))
            .filter(|(_, told)| is_over(told, event))
            .map(|(name, _)| name.clone())
            .collect();
        for name in over {
            let Some(told) = self.told.remove(&name) else { continue };
            self.save_active(&name);
            let is_heard = told.at.is_some() && rule.recovery && told.last.alert.lasts();
            if is_heard {
                // What was shut is not what stays shut.
                let is_button = event.alert == AlertType::SystemKill;
                let detail = if is_button { event.detail.clone() } else { told.last.detail.clone() };
                let (run, incident) = (told.last.run.clone(), told.last.incident.clone());
                let end = AlertEvent { run, incident, detail, ..event.clone() };
                self.tell(now, rule, (&end, &told.key, Again::default()), &event.id, book, words);
            }
            if stays_shut(event) {
                self.stays(now, (rule_name, rule), event, &told, is_heard);
            }
        }
    }

    /// What stays shut when the rest is lifted is a thing of its own: people are reminded of it, and told when it is over.
    /// Who heard what stays shut when the rest was lifted knows of it.
    fn stays(
        &mut self,
        now: i64,
        (rule_name, rule): (&Name, &Rule),
        lifted: &AlertEvent,
        before: &ActiveAlert,
        is_heard: bool,
    ) {
        let key = key(lifted);
        let name: Name = format!("{TOLD}{rule_name}/{key}").into();
        if self.told.contains_key(&name) {
            return;
        }
        let (cause, evidence) = (before.last.cause.clone(), before.last.evidence.clone());
        let incident = before.last.incident.clone();
        let last = AlertEvent { phase: Phase::Raised, cause, evidence, incident, ..lifted.clone() };
        let at = is_heard.then_some(now);
        let known = vec![lifted.id.clone()];
        let told = ActiveAlert { rule: rule_name.clone(), key, last, at, reminders: 0, more: 0, known };
        self.told.insert(name.clone(), told);
        self.save_active(&name);
        self.wake_at(at.map_or(now, |at| at + rule.repeat_ms()));
    }
}

fn stays_shut(event: &AlertEvent) -> bool {
    event.alert == AlertType::SystemKill && matches!(event.detail, Detail::Shut(_))
}

/// Whether this is the end of what was told.
fn is_over(told: &ActiveAlert, event: &AlertEvent) -> bool {
    let is_same = told.key == key(event);
    let is_ended = match event.alert {
        AlertType::SystemKill => told.last.alert == AlertType::SystemKill && !(is_same && stays_shut(event)),
        AlertType::KillSwitch => {
            is_same || told.last.alert.ends_with_activation() && told.last.agent == event.agent
        }
        AlertType::CircuitBreaker
        | AlertType::Budget
        | AlertType::ErrorRate
        | AlertType::AgentDown
        | AlertType::Health
        | AlertType::Watchdog
        | AlertType::ProoftestOverdue
        | AlertType::StuckWorker
        | AlertType::AdminToken
        | AlertType::Checkpoint => is_same,
    };
    is_ended && told.last.at <= event.at
}
