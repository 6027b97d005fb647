//! The shape of the configuration file: which keys there are and what each may hold. Everything is optional;
//! what is left out keeps its default. `eval` and `replay` read the same shape and use its policy keys only.

use std::collections::BTreeMap;

use estop_core::ids::Name;
use estop_core::policy::Preset;
use estop_core::policy_file::{
    AgentIn, CircuitBreakersIn, FleetBudgetIn, GateIn, PolicyFileIn, PolicyIn, WatchdogIn,
};
use estop_notify::AlertsIn;
use serde::Deserialize;

use super::base_url::BaseUrl;
use super::mcp::McpIn;
use super::providers::{AuthStyle, Protocol};
use super::relays::RelayKind;
use super::retention::{KeepBytes, KeepDays};
use super::serve::OnStuckWorker;
use super::triggers::TriggersIn;
use super::values::{
    Address, Bytes, Count, FilePath, HeaderBytes, HeaderCount, ModelTokens, Origin, Rate, Seconds,
    VariableName, given,
};

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
    pub(super) prices: PricesIn,
    pub(super) triggers: TriggersIn,
    pub(super) alerts: AlertsIn,

    #[serde(deserialize_with = "given")]
    preset: Option<Preset>,
    policy: PolicyIn,
    circuit_breakers: CircuitBreakersIn,
    gate: GateIn,
    watchdog: WatchdogIn,
    budget: FleetBudgetIn,
    pub(super) agents: BTreeMap<Name, Option<ServedAgentIn>>,
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

/// One provider. What a preset leaves open, or what differs from it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ProviderIn {
    #[serde(deserialize_with = "given")]
    pub(super) base_url: Option<BaseUrl>,
    #[serde(deserialize_with = "given")]
    pub(super) protocol: Option<Protocol>,
    #[serde(deserialize_with = "given")]
    pub(super) api_key_env: Option<VariableName>,
    #[serde(deserialize_with = "given")]
    pub(super) api_key_file: Option<FilePath>,
    #[serde(deserialize_with = "given")]
    pub(super) auth: Option<AuthStyle>,
    #[serde(deserialize_with = "given")]
    pub(super) ca_file: Option<FilePath>,
    #[serde(deserialize_with = "given")]
    pub(super) allow_plain_http: Option<bool>,
    /// Whose prices it has: `free`, or a provider of the price table.
    #[serde(deserialize_with = "given")]
    pub(super) prices: Option<Name>,
}

/// One relay of messages.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RelayIn {
    #[serde(deserialize_with = "given")]
    pub(super) kind: Option<RelayKind>,
    #[serde(rename = "in", deserialize_with = "given")]
    pub(super) into: Option<BaseUrl>,
    #[serde(deserialize_with = "given")]
    pub(super) out: Option<BaseUrl>,
    #[serde(deserialize_with = "given")]
    pub(super) agent: Option<Name>,
    #[serde(deserialize_with = "given")]
    pub(super) secret_path_env: Option<VariableName>,
    #[serde(deserialize_with = "given")]
    pub(super) secret_path_file: Option<FilePath>,
    #[serde(deserialize_with = "given")]
    pub(super) concurrency: Option<Count>,
    #[serde(deserialize_with = "given")]
    pub(super) allow_plain_http: Option<bool>,
}

/// `prices:`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PricesIn {
    #[serde(deserialize_with = "given")]
    pub(super) file: Option<FilePath>,
    /// By `model` or `provider/model`.
    pub(super) models: BTreeMap<Name, ModelPriceIn>,
}

/// What a million tokens of one model cost.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelPriceIn {
    pub(super) input: Rate,
    pub(super) output: Rate,
    #[serde(default, deserialize_with = "given")]
    pub(super) cache_read: Option<Rate>,
    #[serde(default, deserialize_with = "given")]
    pub(super) cache_write: Option<Rate>,
    #[serde(default, deserialize_with = "given")]
    pub(super) cache_write_1h: Option<Rate>,
    #[serde(default, deserialize_with = "given")]
    pub(super) reasoning: Option<Rate>,
    /// Tokens of one answer at most.
    #[serde(default, deserialize_with = "given")]
    pub(super) max_output: Option<ModelTokens>,
    /// Tokens that can be sent at most.
    #[serde(default, deserialize_with = "given")]
    pub(super) max_input: Option<ModelTokens>,
    /// It may write tokens that are billed and never shown.
    #[serde(default, deserialize_with = "given")]
    pub(super) reasons: Option<bool>,
}

/// `limits:`, what estop itself takes in. Limits of a run are `policy.limits`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LimitsIn {
    #[serde(deserialize_with = "given")]
    pub(super) body_bytes: Option<Bytes>,
    #[serde(deserialize_with = "given")]
    pub(super) header_bytes: Option<HeaderBytes>,
    #[serde(deserialize_with = "given")]
    pub(super) headers: Option<HeaderCount>,
    #[serde(deserialize_with = "given")]
    pub(super) connections: Option<Count>,
    #[serde(deserialize_with = "given")]
    pub(super) streams_per_agent: Option<Count>,
    #[serde(deserialize_with = "given")]
    pub(super) agents: Option<Count>,
    #[serde(deserialize_with = "given")]
    pub(super) agent_names: Option<Count>,
    #[serde(deserialize_with = "given")]
    pub(super) agent_idle_s: Option<Seconds>,
    #[serde(deserialize_with = "given")]
    pub(super) upload_bytes: Option<Bytes>,
    #[serde(deserialize_with = "given")]
    pub(super) memory_bytes: Option<Bytes>,
    #[serde(deserialize_with = "given")]
    pub(super) output_reserve: Option<ModelTokens>,
    #[serde(deserialize_with = "given")]
    pub(super) header_timeout_s: Option<Seconds>,
    #[serde(deserialize_with = "given")]
    pub(super) body_idle_timeout_s: Option<Seconds>,
    #[serde(deserialize_with = "given")]
    pub(super) connect_timeout_s: Option<Seconds>,
    #[serde(deserialize_with = "given")]
    pub(super) first_byte_timeout_s: Option<Seconds>,
    #[serde(deserialize_with = "given")]
    pub(super) stream_idle_timeout_s: Option<Seconds>,
    #[serde(deserialize_with = "given")]
    pub(super) client_write_timeout_s: Option<Seconds>,
}

/// `prooftest:`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ProoftestIn {
    #[serde(deserialize_with = "given")]
    pub(super) every_days: Option<KeepDays>,
}

/// `retention:`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RetentionIn {
    #[serde(deserialize_with = "given")]
    pub(super) journal_days: Option<KeepDays>,
    #[serde(deserialize_with = "given")]
    pub(super) journal_bytes: Option<KeepBytes>,
    #[serde(deserialize_with = "given")]
    pub(super) events_days: Option<KeepDays>,
    #[serde(deserialize_with = "given")]
    pub(super) cases_days: Option<KeepDays>,
    #[serde(deserialize_with = "given")]
    pub(super) runs_days: Option<KeepDays>,
    #[serde(deserialize_with = "given")]
    pub(super) spend_days: Option<KeepDays>,
    #[serde(deserialize_with = "given")]
    pub(super) alerts_days: Option<KeepDays>,
    #[serde(deserialize_with = "given")]
    pub(super) access_days: Option<KeepDays>,
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
