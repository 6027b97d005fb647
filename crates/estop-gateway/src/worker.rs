//! What one worker thread has: its own upstream connections, and its share of everything else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use estop_core::decision::{Decision, Guard};
use estop_core::prices::PriceTable;
use estop_core::system::SystemState;
use tokio_rustls::TlsAcceptor;

use crate::body_in::Memory;
use crate::connections::Connections;
use crate::host::Host;
use crate::key_ring::KeyRing;
use crate::refuse;
use crate::settings::Limits;
use crate::upstream::Upstream;

/// What one worker thread has.
pub(crate) struct Worker {
    /// Where the core is asked.
    pub host: Arc<Host>,
    /// Providers, by the name in the path, with this worker's connections.
    pub upstreams: BTreeMap<Box<str>, Arc<Upstream>>,
    /// Keys of agents.
    pub keys: KeyRing,
    /// Refuse requests without a valid key.
    pub require_keys: bool,
    /// What models cost.
    pub prices: Arc<PriceTable>,
    /// Limits.
    pub limits: Limits,
    /// Bytes of request bodies, all workers together.
    pub memory: Arc<Memory>,
    /// Open client connections, all workers together.
    pub open: Arc<AtomicUsize>,
    /// This worker's client connections.
    pub connections: Arc<Connections>,
    /// Agents connect by TLS.
    pub tls: Option<TlsAcceptor>,
    /// The listener is reachable from this machine only.
    pub loopback: bool,
    /// The LLM channel was not shut by the environment.
    pub llm_enabled: bool,
}

impl Worker {
    /// Why a request is refused. A channel that is off by configuration says so as safe mode does (KS-9).
    pub(crate) fn sentence(&self, decision: &Decision) -> String {
        let running = self.host.latch.view().state == SystemState::Running;
        if decision.refused_by() == Some(Guard::System) && running && !self.llm_enabled {
            return "System is in safe mode. LLM is disabled.".into();
        }
        refuse::sentence(decision)
    }
}
