//! MCP servers behind the gate (TL-3): where each is, and as whom it is called if nobody says. A client names a server,
//! never a URL.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use estop_core::ids::Name;
use estop_wire::agent_name::is_agent_name;
use serde::Deserialize;
use serde::de::Deserializer;

use super::base_url::BaseUrl;
use super::fault::ValueError;
use super::listen::Listen;
use super::values::{Reading, from_text, given};

/// One MCP server, complete.
#[derive(Clone, Debug)]
pub struct McpServer {
    /// Its endpoint.
    pub url: BaseUrl,
    /// The endpoint has a slash at its end, which `url` does not keep.
    pub ends_with_slash: bool,
    /// Who calls it, if nobody says.
    pub agent: Option<Name>,
}

/// `mcp:`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct McpIn {
    pub(super) servers: BTreeMap<Name, McpServerIn>,
}

/// One MCP server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct McpServerIn {
    url: EndpointUrl,
    #[serde(default, deserialize_with = "given")]
    agent: Option<Name>,
    #[serde(default, deserialize_with = "given")]
    allow_plain_http: Option<bool>,
}

/// A URL of which the slash at its end counts: servers redirect those who leave it out.
#[derive(Clone, Debug)]
struct EndpointUrl {
    url: BaseUrl,
    ends_with_slash: bool,
}

impl Reading for EndpointUrl {
    fn read(text: &str) -> Result<EndpointUrl, &'static str> {
        let url = BaseUrl::read(text)?;
        let ends_with_slash = text.ends_with('/') && !url.path().is_empty();
        Ok(EndpointUrl { url, ends_with_slash })
    }
}

impl<'de> Deserialize<'de> for EndpointUrl {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<EndpointUrl, D::Error> {
        from_text(d)
    }
}

const NAME_MAX: usize = 64;

/// All MCP servers the configuration names.
pub(super) fn mcp_servers(given: &McpIn, listen: &Listen) -> Result<BTreeMap<String, McpServer>, ValueError> {
    let one = |(name, given): (&Name, &McpServerIn)| Ok((name.to_string(), server(name, given, listen)?));
    given.servers.iter().map(one).collect()
}

fn server(name: &str, given: &McpServerIn, listen: &Listen) -> Result<McpServer, ValueError> {
    let fault = |key: Option<&str>, message: String| {
        let keys: Vec<&str> = ["mcp", "servers", name].into_iter().chain(key).collect();
        ValueError::new(&keys, message)
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(fits) || name.starts_with('.') {
        let message = format!(
            "`{name}` cannot be an MCP server's name: it is part of a URL, so it has 1 to 64 letters, digits, `-`, `_` and `.`"
        );
        return Err(fault(None, message));
    }
    let EndpointUrl { url, ends_with_slash } = given.url.clone();
    if !url.is_https() && !url.is_loopback() && given.allow_plain_http != Some(true) {
        let message =
            format!("mcp.servers.{name}.url: http to another machine sends calls and tokens in clear");
        let help =
            "Use https, or set `allow_plain_http: true` in this server if the network between is yours.";
        return Err(fault(Some("url"), message).with_help(help.to_owned()));
    }
    if is_ours(&url, listen.data) || is_ours(&url, listen.admin) {
        let message = format!("mcp.servers.{name}.url ({url}) is estop itself, so calls would go in circles");
        return Err(fault(Some("url"), message).with_help("Name the MCP server itself.".to_owned()));
    }
    if let Some(agent) = given.agent.as_deref().filter(|agent| !is_agent_name(agent)) {
        let message = format!("mcp.servers.{name} cannot be called by the agent `{agent}`");
        let help = "Set `agent` to 1 to 64 letters, digits, `.`, `_` or `-`, and not to `system`.";
        return Err(fault(Some("agent"), message).with_help(help.to_owned()));
    }
    Ok(McpServer { url, ends_with_slash, agent: given.agent.clone() })
}

fn is_ours(url: &BaseUrl, own: SocketAddr) -> bool {
    let is_here = |ip: IpAddr| {
        url.host().parse() == Ok(ip) || url.is_loopback() && (ip.is_loopback() || ip.is_unspecified())
    };
    own.port() == url.port() && is_here(own.ip())
}
