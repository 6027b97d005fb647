//! What the data plane is told at start. Plain data, checked by whoever reads the configuration.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use estop_core::policy_file::PolicyFile;
use estop_core::prices::PriceTable;
use estop_wire::protocol::Family;
use rustls::pki_types::CertificateDer;
use secrecy::SecretString;

/// Everything the data plane is told at start.
pub struct Settings {
    /// Where agents connect.
    pub listen: SocketAddr,
    /// A socket that listens there already, opened by the service manager; all threads share it.
    pub socket: Option<TcpListener>,
    /// Threads, each with its own runtime, listener and upstream connections.
    pub workers: usize,
    /// Certificate and key, if agents connect by TLS.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Model providers, by the name that stands in the path.
    pub providers: BTreeMap<Box<str>, Provider>,
    /// Relays of messages, by the name that stands in the path (KS-10).
    pub relays: BTreeMap<Box<str>, Relay>,
    /// MCP servers, by the name that stands in the path (TL-3).
    pub mcp: BTreeMap<Box<str>, McpServer>,
    /// Keys of agents.
    pub keys: Vec<AgentKey>,
    /// Refuse requests without a valid key (ID-2).
    pub require_keys: bool,
    /// Origins whose web pages may use the data plane, as browsers write them: `http://localhost:3000`.
    pub allowed_origins: Vec<Box<str>>,
    /// What becomes of agents that nobody named (SE-5).
    pub unknown_agents: UnknownAgents,
    /// `false`: the LLM channel is shut from the start (KS-9).
    pub llm_enabled: bool,
    /// Limits on everything that grows.
    pub limits: Limits,
    /// The rules of each agent.
    pub policies: PolicyFile,
    /// What models cost.
    pub prices: Arc<PriceTable>,
}

/// What becomes of a request as an agent that nobody named: neither the configuration, nor the API, nor a key or ticket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownAgents {
    /// It is a new agent.
    Allow,
    /// It is refused.
    Deny,
    /// It is refused as soon as any agent has a key: whoever has one could otherwise go on under another name.
    #[default]
    DenyIfKeys,
}

/// A model provider (ID-4).
#[derive(Clone, Debug)]
pub struct Provider {
    /// What it speaks.
    pub family: Family,
    /// `https` if true.
    pub tls: bool,
    /// Host name or address, without brackets.
    pub host: Box<str>,
    /// Port.
    pub port: u16,
    /// What stands before the client's path; no slash at its end.
    pub base_path: Box<str>,
    /// How a key is sent.
    pub auth: Auth,
    /// The key estop sends instead of the client's (ID-3).
    pub key: Option<SecretString>,
    /// Certificates to trust instead of the usual ones.
    pub ca: Option<Vec<CertificateDer<'static>>>,
}

impl Provider {
    /// The version of an API that the base path ends with. Clients send it too; it is not sent twice.
    pub fn version(&self) -> Option<&str> {
        self.base_path.rsplit('/').next().filter(|segment| is_version(segment))
    }
}

/// Whether a segment names a version of an API: `v1`, `v2`, `v1beta`, `v1alpha1`.
fn is_version(segment: &str) -> bool {
    let rest = segment.strip_prefix('v').unwrap_or_default();
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let kind = rest.get(digits..).unwrap_or_default().trim_end_matches(|c: char| c.is_ascii_digit());
    (1..=4).contains(&digits) && matches!(kind, "" | "alpha" | "beta")
}

/// A relay of messages between an app and a platform (KS-10).
#[derive(Clone, Debug)]
pub struct Relay {
    /// Whose messages they are.
    pub agent: Box<str>,
    /// The app; spoken to as a provider is, without a key.
    pub into: Option<Provider>,
    /// The platform, the same way.
    pub out: Option<Provider>,
    /// What must stand in the path of what comes in.
    pub secret: Option<SecretString>,
    /// Messages under way at once, each way.
    pub concurrency: usize,
}

/// An MCP server behind the gate (TL-3).
#[derive(Clone, Debug)]
pub struct McpServer {
    /// Who calls it, if nobody says.
    pub agent: Option<Box<str>>,
    /// Where it is; spoken to as a provider is, without a key.
    pub target: Provider,
    /// Its address has a slash at its end.
    pub ends_with_slash: bool,
}

/// How a provider wants its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// `authorization: Bearer …`
    Bearer,
    /// A header of this name, lower case.
    Header(&'static str),
    /// None wanted.
    None,
}

/// An agent's key (ID-2).
#[derive(Clone, Debug)]
pub struct AgentKey {
    /// Whose.
    pub agent: Box<str>,
    /// The key; only its hash is kept.
    pub key: SecretString,
}

/// Limits on everything that grows (ST-3).
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest body that is inspected.
    pub body_bytes: usize,
    /// Largest body of a path that is not inspected.
    pub upload_bytes: u64,
    /// Bytes of request bodies held at once.
    pub memory_bytes: u64,
    /// Largest request head.
    pub header_bytes: usize,
    /// Most header lines.
    pub headers: usize,
    /// Client connections open at once.
    pub connections: usize,
    /// Upstream connections open at once.
    pub upstream_connections: usize,
    /// Requests of one agent under way at once.
    pub streams_per_agent: usize,
    /// Agents known at once.
    pub agents: usize,
    /// Names of agents there may ever be, at work or at rest.
    pub agent_names: usize,
    /// Tokens reserved for an answer without a limit, of a model whose maximum nobody knows (PO-2).
    pub output_reserve: u32,
    /// A request's head must arrive within this time.
    pub header_timeout: Duration,
    /// A request's body may pause this long.
    pub body_idle_timeout: Duration,
    /// An upstream connection must be made within this time.
    pub connect_timeout: Duration,
    /// An answer must begin within this time.
    pub first_byte_timeout: Duration,
    /// A stream may pause this long.
    pub stream_idle_timeout: Duration,
    /// A client may leave its answer unread this long.
    pub client_write_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        let seconds = Duration::from_secs;
        Limits {
            body_bytes: 16 << 20,
            upload_bytes: 512 << 20,
            memory_bytes: 1 << 30,
            header_bytes: 64 << 10,
            headers: 100,
            connections: 10_000,
            upstream_connections: 10_000,
            streams_per_agent: 256,
            agents: 10_000,
            agent_names: 200_000,
            output_reserve: 131_072,
            header_timeout: seconds(10),
            body_idle_timeout: seconds(30),
            connect_timeout: seconds(10),
            first_byte_timeout: seconds(600),
            stream_idle_timeout: seconds(300),
            client_write_timeout: seconds(60),
        }
    }
}
