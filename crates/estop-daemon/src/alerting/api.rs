//! What people ask of alerts, by the API (`estop_admin::AlertsApi`).

use estop_admin::{AlertsApi, AlertsError, ChannelView, MuteView, RulesNotTaken, UnusableRule};
use estop_core::ids::Name;
use estop_notify::{AlertEvent, AlertType, Cost, Detail, Mute, NotifyError, Phase, Rule, RuleError};

use super::{Alerting, laid_over, now};

impl AlertsApi for Alerting {
    fn channels(&self) -> Vec<ChannelView> {
        let health = self.notifier.health();
        let file = self.file();
        let view = |(name, channel): (&Name, &estop_notify::Channel)| {
            let health = health.iter().find(|health| health.channel == *name);
            ChannelView {
                name: name.clone(),
                kind: channel.kind_name(),
                to: channel.shown_to().into(),
                failures: health.map_or(0, |health| health.failures),
                rests_until: health.and_then(|health| health.rests_until),
                said: health.map_or("", |health| &health.said).into(),
            }
        };
        file.settings.channels.iter().map(view).collect()
    }

    fn is_told_of_stops(&self, agent: Option<&str>) -> bool {
        match agent {
            Some(agent) => self.notifier.is_told_of(AlertType::KillSwitch, agent),
            None => self.notifier.is_told_of_any(AlertType::KillSwitch),
        }
    }

    fn is_told_of_kills(&self) -> bool {
        Alerting::is_told_of_kills(self)
    }

    fn file_rules(&self) -> Vec<(Name, String)> {
        let json = |rule: &Rule| serde_json::to_string(rule).unwrap_or_default();
        self.file().settings.rules.iter().map(|(name, rule)| (name.clone(), json(rule))).collect()
    }

    fn check_rule(&self, rule: &str) -> Result<(), UnusableRule> {
        let unusable = |error: RuleError| UnusableRule(error.to_string());
        let rule = Rule::parse(rule).map_err(unusable)?;
        let file = self.file();
        let unknown = rule.channels.into_iter().find(|name| !file.settings.channels.contains_key(name));
        unknown.map_or(Ok(()), |name| Err(unusable(RuleError::UnknownChannel(name))))
    }

    fn rules_changed(&self) -> Result<(), RulesNotTaken> {
        // Held until the notifier has them: of two changes the later one has the last word.
        let file = self.file();
        let (settings, unfit) = laid_over(&*self.store, &file, &self.commands)
            .map_err(|error| RulesNotTaken(format!("{error:#}")))?;
        self.notifier.change(settings).map_err(|error| RulesNotTaken(error.to_string()))?;
        self.say_unfit(unfit);
        Ok(())
    }

    fn test(&self, channel: &str, by: &str) -> Result<(), AlertsError> {
        self.notifier.test(channel, by).map_err(|error| refused("channel", error))
    }

    fn mutes(&self) -> Vec<MuteView> {
        let view = |(id, mute): (Name, Mute)| MuteView {
            id,
            types: mute.types.iter().map(|alert| alert.name().into()).collect(),
            agents: mute.agents,
            until: mute.until,
            by: mute.by,
            why: mute.why.into(),
        };
        self.notifier.mutes().into_iter().map(view).collect()
    }

    fn mute(&self, mute: MuteView) -> Result<(), AlertsError> {
        let MuteView { id, types, agents, until, by, why } = mute;
        let known = |name: Name| {
            let found = AlertType::ALL.into_iter().find(|alert| alert.name() == &*name);
            found.ok_or_else(|| {
                let all: Vec<&str> = AlertType::ALL.iter().map(|alert| alert.name()).collect();
                let problem = format!("there is no type `{name}`: it is one of {}", all.join(", "));
                AlertsError::Invalid { field: "types", problem }
            })
        };
        let types = types.into_iter().map(known).collect::<Result<Vec<_>, _>>()?;
        let mute = Mute { types, agents, until, by, why: why.into() };
        self.notifier.mute(&id, mute).map_err(|error| refused("until", error))
    }

    fn unmute(&self, id: &str) -> Result<bool, AlertsError> {
        let was = self.notifier.mutes().contains_key(id);
        if was {
            self.notifier.unmute(id).map_err(|error| refused("id", error))?;
        }
        Ok(was)
    }

    fn escalation_resolved(&self, escalation: &str, agent: &str, run: &str, by: &str) {
        self.tell(AlertEvent {
            id: format!("resolved-{escalation}").into(),
            seq: 0,
            at: now(),
            alert: AlertType::CircuitBreaker,
            phase: Phase::Cleared,
            agent: Some(agent.into()),
            run: Some(Name::from(run)).filter(|run| !run.is_empty()),
            cause: String::new(),
            evidence: String::new(),
            by: Some(by.into()),
            incident: None,
            cost: Cost::default(),
            detail: Detail::None,
        });
    }

    fn store_error(&self) -> Option<String> {
        self.notifier.store_error().map(|error| error.to_string())
    }
}

fn refused(field: &'static str, error: NotifyError) -> AlertsError {
    match error {
        NotifyError::Rule(RuleError::UnknownChannel(name)) => AlertsError::UnknownChannel(name),
        NotifyError::Rule(RuleError::NoOwner) => {
            AlertsError::Invalid { field: "by", problem: RuleError::NoOwner.to_string() }
        }
        NotifyError::Rule(RuleError::NeverMuted) => {
            AlertsError::Invalid { field: "types", problem: RuleError::NeverMuted.to_string() }
        }
        NotifyError::Busy | NotifyError::Store(_) => AlertsError::Busy,
        NotifyError::Rule(_)
        | NotifyError::Channel { .. }
        | NotifyError::TooMany
        | NotifyError::Thread(_) => AlertsError::Invalid { field, problem: error.to_string() },
    }
}
