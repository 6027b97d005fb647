//! From the configuration to the settings of the parts.

use std::sync::Arc;

use estop_config::descriptors::{Shares, workers};
use estop_config::{PemFiles, ServeConfig};
use estop_core::ids::Name;
use estop_gateway::settings::{AgentKey, Auth, Limits, McpServer, Provider, Relay, Settings, UnknownAgents};
use estop_wire::protocol::Family;
use rustls::pki_types::CertificateDer;
use secrecy::SecretString;

/// The data plane's settings. Reads the PEM files the configuration names.
pub fn settings(config: &ServeConfig) -> anyhow::Result<Settings> {
    let mut pem = PemFiles::read(config)?;
    let provider = |(name, given): (&String, &estop_config::Provider)| {
        (Box::from(name.as_str()), provider(given, pem.provider_ca.remove(name)))
    };
    Ok(Settings {
        listen: config.listen.data,
        socket: None,
        workers: workers(),
        tls: pem.tls,
        providers: config.providers.iter().map(provider).collect(),
        relays: config.relays.iter().map(|(name, given)| (name.as_str().into(), relay(given))).collect(),
        mcp: config.mcp_servers.iter().map(|(name, given)| (name.as_str().into(), mcp(given))).collect(),
        keys: agent_keys(config),
        require_keys: config.require_keys,
        allowed_origins: config.allowed_origins.iter().map(|origin| origin.as_str().into()).collect(),
        unknown_agents: unknown_agents(config.unknown_agents),
        llm_enabled: config.llm_enabled,
        limits: limits(&config.limits),
        policies: config.policies.clone(),
        prices: Arc::new(config.prices.clone()),
    })
}

/// No more connections than there are open files for.
pub fn limit_connections(settings: &mut Settings, shares: Shares) {
    settings.limits.connections = settings.limits.connections.min(shares.connections);
    settings.limits.upstream_connections = shares.connections;
}

/// What is taken up another way than it is written, for whoever starts estop.
pub fn notices(settings: &Settings) -> Vec<String> {
    let of = |(name, provider): (&str, &Provider)| {
        let version = provider.version()?;
        Some(format!(
            "providers.{name}.base_url ends in /{version}, which clients send too: it is sent once, never as \
             /{version}/{version}. Leave /{version} out of base_url to have it as clients send it."
        ))
    };
    settings.providers.iter().map(|(name, provider)| (&**name, provider)).filter_map(of).collect()
}

/// The keys of agents.
pub fn agent_keys(config: &ServeConfig) -> Vec<AgentKey> {
    let key = |(agent, key): (&Name, &SecretString)| AgentKey { agent: agent.clone(), key: key.clone() };
    config.agent_keys.iter().map(key).collect()
}

fn provider(given: &estop_config::Provider, ca: Option<Vec<CertificateDer<'static>>>) -> Provider {
    let url = &given.base_url;
    Provider {
        family: match given.protocol {
            estop_config::Protocol::OpenAi => Family::OpenAi,
            estop_config::Protocol::Anthropic => Family::Anthropic,
            estop_config::Protocol::Gemini => Family::Gemini,
            estop_config::Protocol::Ollama => Family::Ollama,
        },
        tls: url.is_https(),
        host: url.host().trim_matches(['[', ']']).into(),
        port: url.port(),
        base_path: url.path().trim_end_matches('/').into(),
        auth: match given.auth {
            estop_config::AuthStyle::Bearer => Auth::Bearer,
            estop_config::AuthStyle::XApiKey => Auth::Header("x-api-key"),
            estop_config::AuthStyle::XGoogApiKey => Auth::Header("x-goog-api-key"),
            estop_config::AuthStyle::ApiKey => Auth::Header("api-key"),
            estop_config::AuthStyle::None => Auth::None,
        },
        key: given.api_key.clone(),
        ca,
    }
}

fn unknown_agents(given: estop_config::UnknownAgents) -> UnknownAgents {
    match given {
        estop_config::UnknownAgents::Allow => UnknownAgents::Allow,
        estop_config::UnknownAgents::Deny => UnknownAgents::Deny,
        estop_config::UnknownAgents::DenyIfKeys => UnknownAgents::DenyIfKeys,
    }
}

fn relay(given: &estop_config::Relay) -> Relay {
    Relay {
        agent: given.agent.clone(),
        into: given.into.as_ref().map(target),
        out: given.out.as_ref().map(target),
        secret: given.secret.clone(),
        concurrency: given.concurrency,
    }
}

fn mcp(given: &estop_config::McpServer) -> McpServer {
    let agent = given.agent.as_ref().map(|agent| Box::from(&**agent));
    McpServer { agent, target: target(&given.url), ends_with_slash: given.ends_with_slash }
}

/// An app or a platform: its own credentials pass, whatever they are.
fn target(url: &estop_config::BaseUrl) -> Provider {
    Provider {
        family: Family::OpenAi,
        tls: url.is_https(),
        host: url.host().into(),
        port: url.port(),
        base_path: url.path().into(),
        auth: Auth::None,
        key: None,
        ca: None,
    }
}

fn limits(given: &estop_config::Limits) -> Limits {
    Limits {
        body_bytes: given.body_bytes,
        upload_bytes: given.upload_bytes,
        memory_bytes: given.memory_bytes,
        output_reserve: given.output_reserve,
        header_bytes: given.header_bytes,
        headers: given.headers,
        connections: given.connections,
        upstream_connections: given.connections,
        streams_per_agent: given.streams_per_agent,
        agents: given.agents,
        agent_names: given.agent_names,
        header_timeout: given.header_timeout,
        body_idle_timeout: given.body_idle_timeout,
        connect_timeout: given.connect_timeout,
        first_byte_timeout: given.first_byte_timeout,
        stream_idle_timeout: given.stream_idle_timeout,
        client_write_timeout: given.client_write_timeout,
    }
}
