//! The MCP servers, made ready: where each is, and as whom it is called if nobody says.

use std::sync::Arc;

use estop_core::ids::Name;

use crate::settings;
use crate::start_error::StartError;
use crate::upstream::{ProviderTarget, Shared, Upstream};

/// An MCP server, ready to be used. Shared by all workers.
pub(crate) struct McpTarget {
    agent: Option<Name>,
    ready: Arc<ProviderTarget>,
    ends_with_slash: bool,
}

/// An MCP server, as one worker sees it.
pub(crate) struct McpServer {
    /// Who calls it, if nobody says.
    pub(crate) agent: Option<Name>,
    pub(crate) upstream: Arc<Upstream>,
    /// Its address has a slash at its end. Servers redirect those who leave it out.
    pub(crate) ends_with_slash: bool,
}

impl McpTarget {
    /// Makes a server ready.
    pub(crate) fn new(name: &str, given: settings::McpServer) -> Result<McpTarget, StartError> {
        let settings::McpServer { agent, target, ends_with_slash } = given;
        let ready = ProviderTarget::new(name, target).map_err(|error| match error {
            StartError::Provider { problem, .. } => StartError::Mcp { server: name.into(), problem },
            other @ (StartError::Relay { .. }
            | StartError::Mcp { .. }
            | StartError::Listen { .. }
            | StartError::Runtime(_)) => other,
        })?;
        Ok(McpTarget { agent, ready: Arc::new(ready), ends_with_slash })
    }

    /// The server for one worker, with no connections yet.
    pub(crate) fn for_worker(&self, shared: &Arc<Shared>) -> McpServer {
        McpServer {
            agent: self.agent.clone(),
            upstream: Upstream::new(Arc::clone(&self.ready), shared),
            ends_with_slash: self.ends_with_slash,
        }
    }

    /// Who calls it, if nobody says.
    pub(crate) fn agent(&self) -> Option<&str> {
        self.agent.as_deref()
    }
}

impl McpServer {
    /// This worker's connections.
    pub(crate) fn upstream(&self) -> &Upstream {
        &self.upstream
    }
}
