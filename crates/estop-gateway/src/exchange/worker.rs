//! What one worker thread has: its own upstream connections, and its share of everything else.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};

use estop_core::ids::Name;
use estop_core::prices::{Price, PriceTable};
use http::{HeaderMap, Uri};
use tokio_rustls::TlsAcceptor;

use crate::auth::cross_site::AllowedOrigins;
use crate::auth::identity::{self, CachedKeys, Caller, IdentityContext, IdentityError, IdentityRules, Route};
use crate::body::reading::BodyBudget;
use crate::emergency_stop::connections::Connections;
use crate::emergency_stop::heartbeat::Heartbeat;
use crate::engine::Engine;
use crate::settings::Limits;
use crate::upstream::Upstream;
use crate::upstream::mcp_servers::McpServer;
use crate::upstream::relays::Relay;

/// What one worker thread has.
pub(crate) struct Worker {
    /// Where the core is asked.
    pub engine: Arc<Engine>,
    /// Providers, by the name in the path, with this worker's connections.
    pub upstreams: BTreeMap<Box<str>, Arc<Upstream>>,
    /// Relays of messages, by the name in the path, with this worker's connections.
    pub relays: BTreeMap<Box<str>, Relay>,
    /// MCP servers, the same way.
    pub mcp: BTreeMap<Box<str>, McpServer>,
    /// Keys of agents.
    pub keys: CachedKeys,
    /// Web pages that may use estop.
    pub origins: AllowedOrigins,
    /// Who may call as whom.
    pub identity: IdentityRules,
    /// What models cost.
    pub prices: CachedPrices,
    /// Limits.
    pub limits: Limits,
    /// Bytes of request bodies, all workers together.
    pub memory: Arc<BodyBudget>,
    /// Open client connections, all workers together.
    pub open: Arc<AtomicUsize>,
    /// This worker's client connections.
    pub connections: Arc<Connections>,
    /// Says that it runs.
    pub heartbeat: Arc<Heartbeat>,
    /// Agents connect by TLS.
    pub tls: Option<TlsAcceptor>,
    /// The listener is reachable from this machine only.
    pub loopback: bool,
    /// The LLM channel was not shut by the environment.
    pub llm_enabled: bool,
}

impl Worker {
    /// Closes upstream connections that carry nothing.
    pub(crate) fn close_idle_upstreams(&self) {
        self.upstreams.values().for_each(|upstream| upstream.close_idle());
        self.relays.values().flat_map(Relay::upstreams).for_each(|upstream| upstream.close_idle());
        self.mcp.values().for_each(|server| server.upstream().close_idle());
    }

    /// Finds out who asks. `configured`: the agent the configuration gives to what is asked, if it does.
    pub(crate) fn identify(
        &self,
        route: &Route<'_>,
        uri: &Uri,
        headers: &HeaderMap,
        configured: Option<&str>,
    ) -> Result<Caller, IdentityError> {
        let authority = IdentityContext {
            keys: &self.keys,
            rules: self.identity,
            rulebook: &self.engine.rulebook,
            tickets: &self.engine.tools.tickets,
        };
        identity::identify(&authority, route, uri, headers, configured)
    }
}

/// What models cost, with the one that was asked for last at hand: most agents use one model, and finding its price
/// means comparing spellings.
pub(crate) struct CachedPrices {
    table: Arc<PriceTable>,
    last: Mutex<Option<Found>>,
}

struct Found {
    provider: Name,
    model: Name,
    price: Option<Price>,
}

impl From<Arc<PriceTable>> for CachedPrices {
    fn from(table: Arc<PriceTable>) -> CachedPrices {
        CachedPrices { table, last: Mutex::new(None) }
    }
}

/// A name longer than any model's is not kept.
const MODEL_MAX: usize = 256;

impl CachedPrices {
    /// What a model costs, asked of this provider.
    pub(crate) fn find(&self, provider: &str, model: &str) -> Option<Price> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = &*last
            && *found.model == *model
            && *found.provider == *provider
        {
            return found.price.clone();
        }
        let price = self.table.find(provider, model).cloned();
        if model.len() <= MODEL_MAX {
            let price = price.clone();
            *last = Some(Found { provider: provider.into(), model: model.into(), price });
        }
        price
    }
}
