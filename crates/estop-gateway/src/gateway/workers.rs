//! The workers as the configuration has them: a reload gives each thread another [`Worker`], while it runs.
//!
//! A request keeps the worker it began with; the next one, on the same connection too, gets the one in force then.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_rustls::TlsAcceptor;

use super::job_canceller::JobUpstreams;
use crate::auth::cross_site::AllowedOrigins;
use crate::auth::identity::{IdentityRules, KeyRing};
use crate::body::reading::BodyBudget;
use crate::emergency_stop::connections::Connections;
use crate::emergency_stop::heartbeat::Heartbeat;
use crate::engine::Engine;
use crate::exchange::worker::Worker;
use crate::settings::{Settings, UnknownAgents};
use crate::start_error::StartError;
use crate::upstream::mcp_servers::McpTarget;
use crate::upstream::relays::RelayTarget;
use crate::upstream::{ProviderTarget, Upstream};

/// What the threads of the data plane have in common for as long as they run.
pub(super) struct Common {
    pub(super) engine: Arc<Engine>,
    pub(super) keys: KeyRing,
    pub(super) memory: Arc<BodyBudget>,
    pub(super) open: Arc<AtomicUsize>,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) loopback: bool,
    pub(super) llm_enabled: bool,
}

/// One thread's worker, as it is in force.
pub(crate) struct CurrentWorker {
    current: Mutex<Arc<Worker>>,
}

impl CurrentWorker {
    /// The worker that a request begins with.
    pub(crate) fn get(&self) -> Arc<Worker> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, worker: Worker) {
        let before = std::mem::replace(
            &mut *self.current.lock().unwrap_or_else(PoisonError::into_inner),
            Arc::new(worker),
        );
        // What it still serves goes on; nothing new comes to its idle connections.
        before.close_idle_upstreams();
    }
}

/// The settings that may change while the data plane runs, ready to be taken up.
pub struct ReadySettings {
    settings: Settings,
    providers: BTreeMap<Box<str>, Arc<ProviderTarget>>,
    relays: BTreeMap<Box<str>, RelayTarget>,
    mcp: BTreeMap<Box<str>, McpTarget>,
}

impl ReadySettings {
    /// Everything that can fail: certificates, hosts, paths.
    pub fn new(mut settings: Settings) -> Result<ReadySettings, StartError> {
        let providers = std::mem::take(&mut settings.providers)
            .into_iter()
            .map(|(name, provider)| Ok((name.clone(), Arc::new(ProviderTarget::new(&name, provider)?))))
            .collect::<Result<_, StartError>>()?;
        let relays = std::mem::take(&mut settings.relays)
            .into_iter()
            .map(|(name, relay)| Ok((name.clone(), RelayTarget::new(&name, relay)?)))
            .collect::<Result<_, StartError>>()?;
        let mcp = std::mem::take(&mut settings.mcp)
            .into_iter()
            .map(|(name, server)| Ok((name.clone(), McpTarget::new(&name, server)?)))
            .collect::<Result<_, StartError>>()?;
        Ok(ReadySettings { settings, providers, relays, mcp })
    }

    /// The agents that relays and MCP servers call as. They have their places like those the configuration names: made-up
    /// names cannot take them.
    pub(super) fn preload(&self, engine: &Engine) {
        self.relays.values().for_each(|relay| drop(engine.agent(relay.agent())));
        self.mcp.values().filter_map(McpTarget::agent).for_each(|agent| drop(engine.agent(agent)));
    }

    fn worker(&self, common: &Common, heartbeat: &Arc<Heartbeat>, connections: &Arc<Connections>) -> Worker {
        let shared = &common.engine.upstream;
        let (require_keys, unknown_agents): (bool, UnknownAgents) =
            (self.settings.require_keys, self.settings.unknown_agents);
        Worker {
            engine: Arc::clone(&common.engine),
            upstreams: self
                .providers
                .iter()
                .map(|(name, target)| (name.clone(), Upstream::new(Arc::clone(target), shared)))
                .collect(),
            relays: self
                .relays
                .iter()
                .map(|(name, relay)| (name.clone(), relay.for_worker(shared)))
                .collect(),
            mcp: self.mcp.iter().map(|(name, server)| (name.clone(), server.for_worker(shared))).collect(),
            keys: common.keys.cached(),
            origins: AllowedOrigins::from(self.settings.allowed_origins.clone()),
            identity: IdentityRules { require_keys, unknown_agents },
            prices: Arc::clone(&self.settings.prices).into(),
            limits: self.settings.limits,
            memory: Arc::clone(&common.memory),
            open: Arc::clone(&common.open),
            connections: Arc::clone(connections),
            heartbeat: Arc::clone(heartbeat),
            tls: common.tls.clone(),
            loopback: common.loopback,
            llm_enabled: common.llm_enabled,
        }
    }
}

/// All workers of a data plane.
#[derive(Clone)]
pub struct Workers(Arc<All>);

struct All {
    common: Common,
    workers: Vec<Arc<CurrentWorker>>,
    jobs: JobUpstreams,
}

impl Workers {
    /// As many as asked for.
    pub(super) fn new(common: Common, count: usize, ready: &ReadySettings) -> Workers {
        let engine = &common.engine;
        let worker = |index: usize| {
            let heartbeat = engine.heartbeats.add(&format!("worker {index}"), engine.clock.mono());
            let worker = ready.worker(&common, &heartbeat, &Arc::default());
            Arc::new(CurrentWorker { current: Mutex::new(Arc::new(worker)) })
        };
        let workers: Vec<Arc<CurrentWorker>> = (0..count).map(worker).collect();
        let jobs = JobUpstreams::new(&ready.providers, &engine.upstream);
        Workers(Arc::new(All { common, workers, jobs }))
    }

    /// One for each thread.
    pub(super) fn each(&self) -> impl Iterator<Item = &Arc<CurrentWorker>> {
        self.0.workers.iter()
    }

    /// How work at providers is cancelled.
    pub(super) fn jobs(&self) -> JobUpstreams {
        self.0.jobs.clone()
    }

    /// Takes up other settings: providers, relays, MCP servers, prices, limits, and who may call. The listener, its TLS, keys and
    /// rules stay as they are.
    pub fn take_up(&self, ready: &ReadySettings) {
        let All { common, workers, jobs } = &*self.0;
        let limits = &ready.settings.limits;
        common.memory.set_max(limits.memory_bytes);
        common.engine.agents.set_max(limits.agents, limits.agent_names);
        ready.preload(&common.engine);
        for worker in workers {
            let before = worker.get();
            worker.set(ready.worker(common, &before.heartbeat, &before.connections));
        }
        jobs.set(&ready.providers, &common.engine.upstream);
    }
}
