//! From the configuration to the settings of the parts.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use estop_core::ids::Name;
use estop_gateway::settings::{AgentKey, Auth, Limits, McpServer, Provider, Relay, Settings};
use estop_wire::protocol::Family;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::SecretString;

use crate::config;
use crate::config::ServeConfig;

/// The data plane's settings. Reads the PEM files the configuration names.
pub fn settings(config: &ServeConfig) -> anyhow::Result<Settings> {
    let provider = |(name, given): (&String, &config::Provider)| {
        let ready = provider(given).with_context(|| format!("providers.{name}"))?;
        anyhow::Ok((Box::from(name.as_str()), ready))
    };
    Ok(Settings {
        listen: config.listen.data,
        workers: workers(),
        tls: config.tls.as_ref().map(server_tls).transpose()?,
        providers: config.providers.iter().map(provider).collect::<anyhow::Result<_>>()?,
        relays: config.relays.iter().map(|(name, given)| (name.as_str().into(), relay(given))).collect(),
        mcp: config.mcp_servers.iter().map(|(name, given)| (name.as_str().into(), mcp(given))).collect(),
        keys: agent_keys(config),
        require_keys: config.require_keys,
        allowed_origins: config.allowed_origins.iter().map(|origin| origin.as_str().into()).collect(),
        unknown_agents: config.unknown_agents,
        llm_enabled: config.llm_enabled,
        limits: limits(&config.limits),
        policies: config.policies.clone(),
        prices: Arc::new(config.prices.clone()),
    })
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

/// Worker threads of the data plane: one for each core.
pub fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The certificate the data listener shows, if it speaks TLS.
pub fn certificate(config: &ServeConfig) -> anyhow::Result<Option<CertificateDer<'static>>> {
    let chain = config.tls.as_ref().map(|files| certificates(&files.cert, "tls.cert")).transpose()?;
    Ok(chain.and_then(|chain| chain.into_iter().next()))
}

/// The keys of agents.
pub fn agent_keys(config: &ServeConfig) -> Vec<AgentKey> {
    let key = |(agent, key): (&Name, &SecretString)| AgentKey { agent: agent.clone(), key: key.clone() };
    config.agent_keys.iter().map(key).collect()
}

fn provider(given: &config::Provider) -> anyhow::Result<Provider> {
    let url = &given.base_url;
    Ok(Provider {
        family: match given.protocol {
            config::Protocol::OpenAi => Family::OpenAi,
            config::Protocol::Anthropic => Family::Anthropic,
            config::Protocol::Gemini => Family::Gemini,
            config::Protocol::Ollama => Family::Ollama,
        },
        tls: url.is_https(),
        host: url.host().trim_matches(['[', ']']).into(),
        port: url.port(),
        base_path: url.path().trim_end_matches('/').into(),
        auth: match given.auth {
            config::AuthStyle::Bearer => Auth::Bearer,
            config::AuthStyle::XApiKey => Auth::Header("x-api-key"),
            config::AuthStyle::XGoogApiKey => Auth::Header("x-goog-api-key"),
            config::AuthStyle::ApiKey => Auth::Header("api-key"),
            config::AuthStyle::None => Auth::None,
        },
        key: given.api_key.clone(),
        ca: given.ca_file.as_deref().map(|file| certificates(file, "ca_file")).transpose()?,
    })
}

fn relay(given: &config::Relay) -> Relay {
    Relay {
        agent: given.agent.clone(),
        into: given.into.as_ref().map(target),
        out: given.out.as_ref().map(target),
        secret: given.secret.clone(),
        concurrency: given.concurrency,
    }
}

fn mcp(given: &config::McpServer) -> McpServer {
    let agent = given.agent.as_ref().map(|agent| Box::from(&**agent));
    McpServer { agent, target: target(&given.url), ends_with_slash: given.ends_with_slash }
}

/// An app or a platform: its own credentials pass, whatever they are.
fn target(url: &config::BaseUrl) -> Provider {
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

fn server_tls(files: &config::TlsFiles) -> anyhow::Result<Arc<ServerConfig>> {
    let chain = certificates(&files.cert, "tls.cert")?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .with_context(|| format!("tls.key: {} has no private key in PEM", files.key.display()))?;
    let crypto = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(crypto)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("tls: certificate and key do not fit together")?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn certificates(file: &Path, key: &str) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let cannot = || format!("{key}: {} cannot be read as PEM", file.display());
    let chain = CertificateDer::pem_file_iter(file).with_context(cannot)?.collect::<Result<Vec<_>, _>>();
    let chain = chain.with_context(cannot)?;
    anyhow::ensure!(!chain.is_empty(), "{key}: {} has no certificate in it", file.display());
    Ok(chain)
}

fn limits(given: &config::Limits) -> Limits {
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
