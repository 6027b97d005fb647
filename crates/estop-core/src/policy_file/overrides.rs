//! Rules set for one agent while estop runs. They lie over the file, key by key, and win until they are taken away;
//! the file itself stays as it is.

use std::borrow::Cow;

use super::resolve;
use super::rules::{PolicyIn, Zones, keys_set};
use super::shape::{CircuitBreakersIn, LimitsIn};
use super::{PolicyError, PolicyFile, check};
use crate::policy::Policy;
use crate::time::Zone;

/// Rules that fit over a file. The default changes nothing.
///
/// They were checked over one file: after it changed, [`PolicyFile::check_overrides`] has to be asked again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyOverrides {
    policy: PolicyIn,
    /// Invariant: holds every time zone `policy` names.
    zones: Zones,
}

/// Where a key of a policy has its value from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyOrigin {
    /// Nobody set it: the preset decides.
    Preset,
    /// The file, for all agents or for a role.
    File,
    /// The file, for this agent.
    AgentInFile,
    /// It was set while running.
    Api,
}

impl PolicyFile {
    /// Checks rules over those the file has for an agent, like a section of the file. `find_zone` knows the time
    /// zones.
    pub fn check_overrides(
        &self,
        agent: Option<&str>,
        policy: PolicyIn,
        find_zone: &dyn Fn(&str) -> Option<Zone>,
    ) -> Result<PolicyOverrides, PolicyError> {
        let nothing = PolicyIn::default();
        let below = agent.and_then(|name| self.agent(name)).map_or(&nothing, |agent| &agent.policy);
        let zones = check::check_over(&self.file, below, &policy, find_zone)?;
        Ok(PolicyOverrides { policy, zones })
    }

    /// The rules for one agent with overrides on top. `role` is the run's own, or the one that was set while running;
    /// without one, the role the file gives the agent.
    pub fn resolve_over(&self, agent: Option<&str>, role: Option<&str>, over: &PolicyOverrides) -> Policy {
        let agent = agent.and_then(|name| self.agent(name));
        let role = role.or_else(|| agent.and_then(|agent| agent.role.as_deref()));
        let layers: Vec<&PolicyIn> =
            agent.map(|agent| &agent.policy).into_iter().chain([&over.policy]).collect();
        let mut zones = Cow::Borrowed(&self.zones);
        if !over.zones.is_empty() {
            zones.to_mut().extend(over.zones.clone());
        }
        resolve::policy(&self.file, &zones, self.preset().0, &layers, role)
    }

    /// Where each top-level key of an agent's rules has its value from. A section has the origin of the topmost layer
    /// that says anything in it.
    pub fn origins(
        &self,
        agent: &str,
        role: Option<&str>,
        over: &PolicyIn,
    ) -> Vec<(&'static str, PolicyOrigin)> {
        let agent = self.agent(agent);
        let role = role.or_else(|| agent.and_then(|agent| agent.role.as_deref()));
        let mut origins: Vec<_> = keys_set(&self.file.policy)
            .into_iter()
            .map(|(key, said)| (key, if said { PolicyOrigin::File } else { PolicyOrigin::Preset }))
            .collect();
        let preset = self.preset().1;
        origins.iter_mut().filter(|(key, _)| *key == "preset").for_each(|at| at.1 = preset);
        if limits_by_file(&self.file.circuit_breakers, role) {
            origins.iter_mut().filter(|(key, _)| *key == "limits").for_each(|at| at.1 = PolicyOrigin::File);
        }
        let own =
            [(agent.map(|agent| &agent.policy), PolicyOrigin::AgentInFile), (Some(over), PolicyOrigin::Api)];
        for (layer, origin) in own.into_iter().filter_map(|(layer, origin)| Some((layer?, origin))) {
            for (slot, (_, said)) in origins.iter_mut().zip(keys_set(layer)) {
                slot.1 = if said { origin } else { slot.1 };
            }
        }
        // These two are for all agents and have no layer above the file.
        let by_file = |said: bool| if said { PolicyOrigin::File } else { PolicyOrigin::Preset };
        origins.push(("gate", by_file(self.file.gate != Default::default())));
        origins.push(("watchdog", by_file(self.file.watchdog != Default::default())));
        origins
    }
}

fn limits_by_file(breakers: &CircuitBreakersIn, role: Option<&str>) -> bool {
    let of_role = role.and_then(|role| breakers.roles.get(role)).and_then(Option::as_ref);
    breakers.defaults != LimitsIn::default() || of_role.is_some_and(|limits| *limits != LimitsIn::default())
}

#[cfg(test)]
mod tests {
    use super::super::PolicyFileIn;
    use super::*;
    use crate::guard::{Guard, Mode};
    use crate::policy::Preset;

    fn zones(name: &str) -> Option<Zone> {
        (name == "Europe/Berlin").then(|| Zone { name: name.into(), ..Zone::default() })
    }

    fn file(json: &str) -> PolicyFile {
        let file: PolicyFileIn = serde_json::from_str(json).expect("a policy file");
        file.check(&zones).expect("a file that fits together")
    }

    fn over(json: &str) -> PolicyIn {
        serde_json::from_str(json).expect("rules")
    }

    const FILE: &str = r#"{"policy": {"kill_switch_window_size": 30, "allowed_hours": {"from": "08:00", "to": "18:00"}},
        "agents": {"coder": {"role": "pm", "policy": {"kill_switch_threshold": 12, "budget": {"usd_per_day": 5}}}}}"#;

    #[test]
    fn ui_5_overrides_lie_over_the_file_key_by_key_until_they_are_taken_away() {
        let file = file(FILE);
        let plain = file.resolve(Some("coder"), None);
        let rules = over(
            r#"{"kill_switch_enabled": true, "budget": {"usd_per_month": 9, "timezone": "Europe/Berlin"},
            "allowed_hours": {"to": "20:00"}}"#,
        );
        let over = file.check_overrides(Some("coder"), rules, &zones).expect("they fit");
        let laid = file.resolve_over(Some("coder"), None, &over);
        assert_eq!(
            (laid.loops.window_size, laid.loops.threshold_tenths),
            (30, 120),
            "the file's own keys stay"
        );
        assert_eq!(laid.modes[Guard::Loop], Mode::Enforce);
        assert_eq!(laid.budget.usd_per_day, plain.budget.usd_per_day);
        assert_eq!(&*laid.budget.zone.name, "Europe/Berlin");
        assert_eq!(laid.hours.map(|hours| (hours.from_minute, hours.to_minute)), Some((480, 1200)));
        assert_eq!(laid.limits, plain.limits, "the role of the file still counts");
        assert_eq!(file.resolve_over(Some("coder"), None, &PolicyOverrides::default()), plain);
        let other_role = file.resolve_over(Some("coder"), Some("security-review"), &over);
        assert_ne!(other_role.limits, plain.limits);
    }

    #[test]
    fn ui_5_overrides_are_checked_like_a_section_of_the_file() {
        let file = file(r#"{"watchdog": {"scope": "off"}}"#);
        let refused = |json: &str| {
            let error = file.check_overrides(None, over(json), &zones).expect_err("they do not fit");
            error.to_string()
        };
        for (rules, blamed) in [
            (r#"{"kill_switch_enabled": true, "guards": {"loop": "off"}}"#, "guards.loop: "),
            (r#"{"guards": {"watchdog": "enforce"}}"#, "guards.watchdog: "),
            (r#"{"allowed_hours": {"from": "08:00"}}"#, "allowed_hours: "),
            (r#"{"budget": {"timezone": "Mars"}}"#, "budget.timezone: "),
        ] {
            assert!(refused(rules).starts_with(blamed), "{}", refused(rules));
        }
    }

    #[test]
    fn po_5_an_agents_preset_stands_over_everybodys_and_the_one_set_while_running_over_the_files() {
        let file = file(r#"{"preset": "strict", "agents": {"easy": {"policy": {"preset": "watch"}}}}"#);
        let gate = |file: &PolicyFile, agent: &str, rules: &str| {
            let over = file.check_overrides(Some(agent), over(rules), &zones).expect("they fit");
            let policy = file.resolve_over(Some(agent), None, &over);
            (policy.preset, policy.modes[Guard::Gate])
        };
        let (strict, watch) = ((Preset::Strict, Mode::Enforce), (Preset::Watch, Mode::Shadow));
        assert_eq!((gate(&file, "any", "{}"), gate(&file, "easy", "{}")), (strict, watch));
        assert_eq!(gate(&file, "easy", r#"{"preset": "strict"}"#), strict);
        assert_eq!(gate(&file, "any", r#"{"guards": {"gate": "shadow"}}"#), (Preset::Strict, Mode::Shadow));
        assert_eq!(file.preset(), (Preset::Strict, PolicyOrigin::File));
        let set = file.clone().with_preset(Some(Preset::Watch));
        assert_eq!((gate(&set, "any", "{}"), set.preset().1), (watch, PolicyOrigin::Api));
        assert_eq!(set.with_preset(None), file);
        let misplaced: PolicyFileIn =
            serde_json::from_str(r#"{"policy": {"preset": "strict"}}"#).expect("a shape");
        let error = misplaced.check(&zones).expect_err("it stands at the top").to_string();
        assert!(error.starts_with("policy.preset: ") && error.contains("top of the file"), "{error}");
    }

    #[test]
    fn ui_5_each_key_says_where_it_comes_from() {
        let file = file(FILE);
        let origins = file.origins(
            "coder",
            None,
            &over(r#"{"kill_switch_threshold": 20, "limits": {"max_turns": 9}}"#),
        );
        let of = |key: &str| origins.iter().find(|(known, _)| *known == key).map(|(_, origin)| *origin);
        assert_eq!(of("kill_switch_threshold"), Some(PolicyOrigin::Api));
        assert_eq!(of("limits"), Some(PolicyOrigin::Api));
        assert_eq!(of("budget"), Some(PolicyOrigin::AgentInFile));
        assert_eq!(of("kill_switch_window_size"), Some(PolicyOrigin::File));
        assert_eq!(of("guards"), Some(PolicyOrigin::Preset));
        assert_eq!(of("nothing"), None);
    }
}
