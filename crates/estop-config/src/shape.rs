//! The shape of the configuration file: which keys there are and what each may hold; the larger sections have theirs
//! beside their meaning. Everything is optional;
//! what is left out keeps its default. `eval` and `replay` read the same shape and use its policy keys only.

use std::collections::BTreeMap;

use estop_core::ids::Name;
use estop_core::policy::Preset;
use estop_core::policy_file::{
    AgentIn, CircuitBreakersIn, FleetBudgetIn, PolicyFileIn, PolicyIn, SafetyGateIn, WatchdogIn,
};
use estop_notify::AlertsIn;
use serde::Deserialize;

use super::limits::LimitsIn;
use super::log::LogIn;
use super::mcp::McpIn;
use super::opentelemetry::OpenTelemetryIn;
use super::prices::PricesIn;
use super::providers::ProviderIn;
use super::relays::RelayIn;
use super::retention::{ProoftestIn, RetentionIn};
use super::triggers::TriggersIn;
use super::values::{Address, FilePath, Origin, VariableName, given};

/// Where a configuration file keeps everything, whatever else it says.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct DataDirIn {
    #[serde(deserialize_with = "given")]
    pub(super) data_dir: Option<FilePath>,
}

/// A whole configuration file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FileIn {
    pub(super) listen: ListenIn,
    #[serde(deserialize_with = "given")]
    pub(super) data_dir: Option<FilePath>,
    pub(super) tls: TlsIn,
    #[serde(deserialize_with = "given")]
    pub(super) behind_tls_proxy: Option<bool>,
    /// An empty body names a provider and changes nothing.
    pub(super) providers: BTreeMap<Name, Option<ProviderIn>>,
    pub(super) relays: BTreeMap<Name, RelayIn>,
    pub(super) mcp: McpIn,
    #[serde(deserialize_with = "given")]
    pub(super) require_keys: Option<bool>,
    #[serde(deserialize_with = "given")]
    pub(super) unknown_agents: Option<UnknownAgentsIn>,
    pub(super) limits: LimitsIn,
    pub(super) retention: RetentionIn,
    pub(super) prooftest: ProoftestIn,
    #[serde(deserialize_with = "given")]
    pub(super) on_stuck_worker: Option<OnStuckWorker>,
    pub(super) log: LogIn,
    pub(super) opentelemetry: OpenTelemetryIn,
    pub(super) prices: PricesIn,
    pub(super) triggers: TriggersIn,
    pub(super) alerts: AlertsIn,

    #[serde(deserialize_with = "given")]
    preset: Option<Preset>,
    policy: PolicyIn,
    circuit_breakers: CircuitBreakersIn,
    gate: SafetyGateIn,
    watchdog: WatchdogIn,
    budget: FleetBudgetIn,
    pub(super) agents: BTreeMap<Name, Option<ServedAgentIn>>,
    /// Read before all else: their agents are among `agents` already.
    #[serde(rename = "include")]
    _include: Vec<FilePath>,
}

/// What is done when a part of estop stops running (KS-11). People are alerted in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnStuckWorker {
    /// Alert, and go on.
    #[default]
    Alert,
    /// Press the red button.
    Kill,
}

/// `unknown_agents:`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum UnknownAgentsIn {
    Allow,
    Deny,
}

/// One agent: what the policy file knows of it, and its key.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ServedAgentIn {
    #[serde(deserialize_with = "given")]
    role: Option<Name>,
    #[serde(deserialize_with = "given")]
    pub(super) key_env: Option<VariableName>,
    policy: PolicyIn,
}

/// `listen:`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ListenIn {
    #[serde(deserialize_with = "given")]
    pub(super) data: Option<Address>,
    #[serde(deserialize_with = "given")]
    pub(super) admin: Option<Address>,
    /// Web apps whose pages may use the data port.
    pub(super) allowed_origins: Vec<Origin>,
}

/// `tls:`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TlsIn {
    #[serde(deserialize_with = "given")]
    pub(super) cert: Option<FilePath>,
    #[serde(deserialize_with = "given")]
    pub(super) key: Option<FilePath>,
}

impl FileIn {
    /// The part that says how agents are judged.
    pub(super) fn into_policy(self) -> PolicyFileIn {
        let FileIn { preset, policy, circuit_breakers, gate, watchdog, budget, agents, .. } = self;
        let judged = |agent: ServedAgentIn| AgentIn { role: agent.role, policy: agent.policy };
        let agents = agents.into_iter().map(|(name, agent)| (name, agent.map(judged))).collect();
        PolicyFileIn { preset, policy, circuit_breakers, gate, watchdog, budget, agents }
    }
}
