//! What estop itself takes in (ST-3). The limits of a run are part of the policy.

use std::time::Duration;

use estop_core::policy_file::Number;

use serde::Deserialize;

use super::fault::ValueError;
use super::values::{
    Bytes, Count, DrainSeconds, HeaderBytes, HeaderCount, ModelTokens, Seconds, Size, given, size_text,
};

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
    #[serde(deserialize_with = "given")]
    pub(super) drain_s: Option<DrainSeconds>,
}

/// Limits on everything that grows. Each is at least 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Body of a request that is inspected.
    pub body_bytes: usize,
    /// All headers of a request together.
    pub header_bytes: usize,
    /// Headers of a request.
    pub headers: usize,
    /// Open connections from clients.
    pub connections: usize,
    /// Requests of one agent under way at once.
    pub streams_per_agent: usize,
    /// Agents held in memory.
    pub agents: usize,
    /// Names of agents there may ever be, at work or at rest. At least `agents`.
    pub agent_names: usize,
    /// How long an agent must have been idle before another may take its place.
    pub agent_idle: Duration,
    /// Body of a request that is not inspected, such as an upload of a file.
    pub upload_bytes: u64,
    /// Bytes of request bodies held at once, over all requests. At least `body_bytes`.
    pub memory_bytes: u64,
    /// Tokens reserved for an answer without a limit, of a model whose maximum the price table does not know.
    pub output_reserve: u32,
    /// Until all headers of a request are there.
    pub header_timeout: Duration,
    /// Between two pieces of a request's body.
    pub body_idle_timeout: Duration,
    /// Until a connection to a provider stands.
    pub connect_timeout: Duration,
    /// Until the first byte of an answer.
    pub first_byte_timeout: Duration,
    /// Between two pieces of an answer.
    pub stream_idle_timeout: Duration,
    /// How long a client may not take what is written to it.
    pub client_write_timeout: Duration,
    /// How long answers in progress may go on once estop was told to end.
    pub drain: Duration,
}

/// Chosen: models take images of some MiB; reasoning can be silent for minutes; 10000 streams are what KS-2 asks for;
/// containers are killed ten seconds after they were told to end.
impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body_bytes: 16 << 20,
            header_bytes: 64 << 10,
            headers: 100,
            connections: 10_000,
            streams_per_agent: 256,
            agents: 10_000,
            agent_names: 200_000,
            agent_idle: Duration::from_secs(3600),
            upload_bytes: 512 << 20,
            memory_bytes: 1 << 30,
            output_reserve: 131_072,
            header_timeout: Duration::from_secs(10),
            body_idle_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            first_byte_timeout: Duration::from_secs(600),
            stream_idle_timeout: Duration::from_secs(300),
            client_write_timeout: Duration::from_secs(60),
            drain: Duration::from_secs(8),
        }
    }
}

/// The defaults with what is given, if it fits together. `named_agents` is how many the file names.
pub(super) fn limits(given: &LimitsIn, named_agents: usize) -> Result<Limits, ValueError> {
    let usual = Limits::default();
    let seconds = |given: Option<Seconds>, usual| given.map_or(usual, |s| Duration::from_millis(s.get()));
    let agents = given.agents.map_or(usual.agents, Number::get);
    let limits = Limits {
        body_bytes: held(given.body_bytes.map(Size::get), usual.body_bytes),
        header_bytes: held(given.header_bytes.map(Size::get), usual.header_bytes),
        headers: given.headers.map_or(usual.headers, Number::get),
        connections: given.connections.map_or(usual.connections, Number::get),
        streams_per_agent: given.streams_per_agent.map_or(usual.streams_per_agent, Number::get),
        agents,
        agent_names: given.agent_names.map_or(usual.agent_names.max(agents), Number::get),
        agent_idle: seconds(given.agent_idle_s, usual.agent_idle),
        upload_bytes: given.upload_bytes.map_or(usual.upload_bytes, Size::get),
        memory_bytes: given.memory_bytes.map_or(usual.memory_bytes, Size::get),
        output_reserve: given.output_reserve.map_or(usual.output_reserve, Number::get),
        header_timeout: seconds(given.header_timeout_s, usual.header_timeout),
        body_idle_timeout: seconds(given.body_idle_timeout_s, usual.body_idle_timeout),
        connect_timeout: seconds(given.connect_timeout_s, usual.connect_timeout),
        first_byte_timeout: seconds(given.first_byte_timeout_s, usual.first_byte_timeout),
        stream_idle_timeout: seconds(given.stream_idle_timeout_s, usual.stream_idle_timeout),
        client_write_timeout: seconds(given.client_write_timeout_s, usual.client_write_timeout),
        drain: given.drain_s.map_or(usual.drain, |s| Duration::from_millis(s.get())),
    };
    let body_bytes = limits.body_bytes as u64;
    if body_bytes > limits.memory_bytes {
        let [body, memory] = [body_bytes, limits.memory_bytes].map(size_text);
        let key = if given.body_bytes.is_some() { "body_bytes" } else { "memory_bytes" };
        let message = format!("limits.body_bytes ({body}) must not be above limits.memory_bytes ({memory})");
        return Err(ValueError::new(&["limits", key], message));
    }
    if limits.agents > limits.agent_names {
        let message = format!(
            "limits.agents ({}) must not be above limits.agent_names ({})",
            limits.agents, limits.agent_names
        );
        return Err(ValueError::new(&["limits", "agent_names"], message));
    }
    if named_agents > limits.agents {
        let message = format!(
            "limits.agents ({}) is less than the {named_agents} agents named in the file",
            limits.agents
        );
        return Err(ValueError::new(&["limits", "agents"], message));
    }
    Ok(limits)
}

/// On a 32-bit machine a size may be more than it can address.
fn held(given: Option<u64>, usual: usize) -> usize {
    given.map_or(usual, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}
