//! The policy file a user writes, and the [`Policy`] it means for each agent.
//!
//! Reading text is the caller's business: any serde format gives a [`PolicyFileIn`], and
//! [`PolicyFileIn::check`] makes it a [`PolicyFile`], which always resolves. Layers, the later one wins
//! key by key (CB-1, PO-5):
//!
//! 1. the preset
//! 2. `policy:`
//! 3. `circuit_breakers.defaults`
//! 4. the built-in role (`pm`, `pr-review`, `security-review`)
//! 5. `circuit_breakers.roles` of that name
//! 6. `policy` of the agent
//! 7. what was set for the agent while running ([`PolicyOverrides`])

mod check;
mod guards;
mod overrides;
mod resolve;
mod rules;
mod schema;
mod shape;
mod shown;
mod values;

pub use check::{PolicyError, PolicyProblem};
pub use guards::GuardsIn;
pub use overrides::{PolicyOrigin, PolicyOverrides};
pub use rules::{PolicyIn, in_file_shape, rules_schema, sections_schema};
pub use shape::{
    AllowedHoursIn, BudgetIn, CircuitBreakersIn, FleetBudgetIn, LimitsIn, LoopRulesIn, ModelsIn, RateLimitIn,
    SafetyGateIn, WatchdogIn,
};
pub use values::{Clock, Day, Days, Number, ThresholdTenths};

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::ids::Name;
use crate::policy::{BudgetPolicy, Policy, Preset};
use crate::time::Zone;
use values::given;

/// A whole policy file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyFileIn {
    /// Where every agent starts (PO-5).
    #[serde(deserialize_with = "given")]
    pub preset: Option<Preset>,
    /// Defaults for all agents.
    pub policy: PolicyIn,
    /// Limits of a run, by role (seed 3).
    pub circuit_breakers: CircuitBreakersIn,
    /// The tripwire's numbers (seed 4).
    pub gate: SafetyGateIn,
    /// Runaway watchdog (KS-8).
    pub watchdog: WatchdogIn,
    /// Spending caps of all agents together (PO-2).
    pub budget: FleetBudgetIn,
    /// Agents that differ from the defaults. An empty body names the agent and changes nothing.
    pub agents: BTreeMap<Name, Option<AgentIn>>,
}

/// One agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentIn {
    /// Its role, which picks its circuit breakers. Any name; an unknown one has the defaults.
    #[serde(deserialize_with = "given")]
    pub role: Option<Name>,
    /// What differs from `policy:`.
    pub policy: PolicyIn,
}

/// A policy file in which everything fits together. The default is an empty file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyFile {
    file: PolicyFileIn,
    /// Invariant: holds every time zone `file` names.
    zones: rules::Zones,
    /// Everybody's preset, set while running.
    preset: Option<Preset>,
}

impl PolicyFileIn {
    /// Checks what single values cannot show. `find_zone` knows the time zones; the core does not.
    pub fn check(self, find_zone: &dyn Fn(&str) -> Option<Zone>) -> Result<PolicyFile, PolicyError> {
        let zones = check::check(&self, find_zone)?;
        Ok(PolicyFile { file: self, zones, preset: None })
    }
}

impl PolicyFile {
    /// The rules for one agent. An agent the file does not name has the defaults; so has an unknown role.
    /// `role` is the run's own; without one, the role the file gives the agent.
    pub fn resolve(&self, agent: Option<&str>, role: Option<&str>) -> Policy {
        self.resolve_over(agent, role, &PolicyOverrides::default())
    }

    /// The same file with another preset for everybody, set while running; `None` = the file decides.
    pub fn with_preset(mut self, preset: Option<Preset>) -> PolicyFile {
        self.preset = preset;
        self
    }

    /// Where every agent starts, and who says so. An agent's own preset stands over it.
    pub fn preset(&self) -> (Preset, PolicyOrigin) {
        match (self.preset, self.file.preset) {
            (Some(preset), _) => (preset, PolicyOrigin::Api),
            (None, Some(preset)) => (preset, PolicyOrigin::File),
            (None, None) => (Preset::default(), PolicyOrigin::Preset),
        }
    }

    /// The spending caps of all agents together.
    pub fn fleet_budget(&self) -> BudgetPolicy {
        resolve::fleet_budget(&self.file.budget, &self.zones)
    }

    /// The role the file gives an agent.
    pub fn role(&self, agent: &str) -> Option<&str> {
        self.agent(agent)?.role.as_deref()
    }

    /// The agents the file names, in order of name.
    pub fn agents(&self) -> impl Iterator<Item = &str> {
        self.file.agents.keys().map(AsRef::as_ref)
    }

    /// Whether the file names an agent. Names that differ in case alone name one agent.
    pub fn names(&self, agent: &str) -> bool {
        self.entry(agent).is_some()
    }

    fn agent(&self, name: &str) -> Option<&AgentIn> {
        self.entry(name)?.as_ref()
    }

    fn entry(&self, name: &str) -> Option<&Option<AgentIn>> {
        let agents = &self.file.agents;
        let in_other_case = || agents.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        agents.get(name).or_else(|| in_other_case().map(|(_, agent)| agent))
    }
}
