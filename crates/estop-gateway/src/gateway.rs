//! The data plane as a whole: started from its settings, stopped when dropped.

mod dispatch;
mod job_canceller;
mod listener;
mod phase;
mod timeouts;
mod workers;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use estop_core::event::AbortedBy;
use estop_core::system::{Channel, Channels};
use estop_wire::refusal::Kind;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::auth::identity::KeyRing;
use crate::body::reading::BodyBudget;
use crate::emergency_stop::heartbeat::{self, BEAT_INTERVAL, Heartbeat, PartChange};
use crate::emergency_stop::in_flight::Cut;
use crate::engine::agents::Agents;
use crate::engine::panic_guard::ShutIfPanicking;
use crate::engine::policies::Rulebook;
use crate::engine::restored_state::RestoredState;
use crate::engine::{Engine, Stores};
use crate::settings::Settings;
use crate::start_error::StartError;

use phase::Phase;
use workers::{Common, CurrentWorker};
pub use workers::{ReadySettings, Workers};

/// What a stopping data plane waits for its clients to be told, and for its threads.
const FAREWELL: Duration = Duration::from_millis(100);
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// A running data plane. Dropping it ends every request and closes every connection.
pub struct Gateway {
    address: SocketAddr,
    engine: Arc<Engine>,
    keys: KeyRing,
    workers: Workers,
    phase: watch::Sender<Phase>,
    /// Open client connections.
    open: Arc<AtomicUsize>,
    stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// The threads that look after time, and after the others.
    watchers: Vec<JoinHandle<()>>,
}

impl Gateway {
    /// Starts listening.
    pub fn start(
        settings: Settings,
        keeping: impl Into<Stores>,
        remembered: RestoredState,
    ) -> Result<Gateway, StartError> {
        Gateway::start_watched(settings, keeping, remembered, |_| Ok(()))
    }

    /// The same; `watch` is called before anything may pass: whoever presses the button in it has pressed it in time.
    pub fn start_watched(
        mut settings: Settings,
        keeping: impl Into<Stores>,
        remembered: RestoredState,
        watch: impl FnOnce(&Arc<Engine>) -> std::io::Result<()>,
    ) -> Result<Gateway, StartError> {
        let RestoredState {
            system,
            told,
            latch,
            mono,
            away_ms,
            agents,
            over,
            added,
            fleet,
            made_keys,
            evicted,
            stopped_at,
            jobs,
        } = remembered;
        let (listen, workers, limits) = (settings.listen, settings.workers.max(1), settings.limits);
        let (tls, policies, llm_enabled) =
            (settings.tls.clone(), settings.policies.clone(), settings.llm_enabled);
        let keys = KeyRing::new(&settings.keys, made_keys);
        let passed = settings.socket.take();
        let ready = ReadySettings::new(settings)?;
        let always_shut = if llm_enabled { Channels::NONE } else { Channels::NONE.with(Channel::Llm) };
        let engine = Arc::new(Engine::new(
            Rulebook::new(policies, over, fleet),
            Agents::new(limits.agents, limits.agent_names, evicted),
            keeping.into(),
            always_shut,
            mono,
            system,
        ));
        added.iter().for_each(|agent| engine.rulebook.set_added(agent, true));
        let cannot_listen = |error| StartError::Listen { address: listen, error };
        let (address, sockets) = listener::open(listen, passed, workers).map_err(cannot_listen)?;
        let common = Common {
            engine: Arc::clone(&engine),
            keys: keys.clone(),
            memory: Arc::new(BodyBudget::new(limits.memory_bytes)),
            open: Arc::default(),
            tls: tls.map(TlsAcceptor::from),
            loopback: address.ip().is_loopback(),
            llm_enabled,
        };
        let open = Arc::clone(&common.open);
        let workers = Workers::new(common, sockets.len(), &ready);
        let pools: Vec<Weak<CurrentWorker>> = workers.each().map(Arc::downgrade).collect();
        engine.upstream.limit(limits.upstream_connections, move || {
            pools.iter().filter_map(Weak::upgrade).for_each(|worker| worker.get().close_idle_upstreams());
        });
        engine.open(latch, told);
        // Nobody accepts a connection so far.
        watch(&engine)?;
        engine.restore(agents, away_ms);
        engine.restore_incidents(stopped_at);
        engine.preload_configured();
        ready.preload(&engine);
        let (phase, phases) = watch::channel(Phase::Serving);
        let mut gateway = Gateway {
            address,
            engine: Arc::clone(&engine),
            keys,
            workers: workers.clone(),
            phase,
            open,
            stopping: Arc::default(),
            threads: Vec::new(),
            watchers: Vec::new(),
        };
        for (socket, worker) in sockets.into_iter().zip(workers.each()) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let (worker, phases) = (Arc::clone(worker), phases.clone());
            let name = format!("estop-data-{}", gateway.threads.len());
            let work = move || {
                runtime.block_on(work(socket, worker, phases));
                // A lookup of a name may hang; nobody waits for it.
                runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
            };
            gateway.threads.push(std::thread::Builder::new().name(name).spawn(work)?);
        }
        gateway.threads.push(job_canceller::start(Arc::clone(&engine), workers.jobs(), jobs, phases)?);
        gateway.watcher("estop-sweep", move |engine, stopping| {
            timeouts::run(engine, &workers, stopping);
        })?;
        gateway.watcher("estop-timer", timeouts::run_timer)?;
        Ok(gateway)
    }

    /// Calls `told` whenever a part gets stuck or runs again (KS-11), from a thread that does nothing else.
    pub fn watch_parts(&mut self, told: impl FnMut(PartChange) + Send + 'static) -> std::io::Result<()> {
        self.watcher("estop-watch", move |engine, stopping| {
            let is_over = || stopping.load(Ordering::Relaxed);
            heartbeat::watch(&engine.heartbeats, &engine.clock, is_over, told);
        })
    }

    /// Starts a thread without which no limit of time holds: if it breaks, nothing passes.
    fn watcher(
        &mut self,
        name: &str,
        run: impl FnOnce(&Engine, &AtomicBool) + Send + 'static,
    ) -> std::io::Result<()> {
        let (engine, stopping) = (Arc::clone(&self.engine), Arc::clone(&self.stopping));
        let run = move || {
            let _guard = ShutIfPanicking(Arc::clone(&engine));
            run(&engine, &stopping);
        };
        self.watchers.push(std::thread::Builder::new().name(name.into()).spawn(run)?);
        Ok(())
    }

    /// Accepts no more connections, closes those that wait for a request, and the others after the answers in progress. The
    /// button and every limit go on holding.
    pub fn drain(&self) {
        self.engine.begin_end();
        let _ = self.phase.send(Phase::Draining);
    }

    /// How many client connections are open.
    pub fn open_connections(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The keys in force.
    pub fn keys(&self) -> KeyRing {
        self.keys.clone()
    }

    /// The workers, to give them other settings.
    pub fn workers(&self) -> Workers {
        self.workers.clone()
    }

    /// Where agents are judged and the button is pressed.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if self.engine.cut_all(&stopping()) > 0 {
            std::thread::sleep(FAREWELL);
        }
        self.stopping.store(true, Ordering::Relaxed);
        // Nobody listens any more if all workers have ended already.
        let _ = self.phase.send(Phase::Stopped);
        self.watchers.iter().for_each(|watcher| watcher.thread().unpark());
        for thread in self.threads.drain(..).chain(self.watchers.drain(..)) {
            // A worker that panicked has said so; the others still end.
            let _ = thread.join();
        }
    }
}

/// What clients are told when estop itself ends.
fn stopping() -> Cut {
    let message = "estop is being stopped: try again when it is back.".to_owned();
    Cut { by: AbortedBy::Kill, kind: Kind::Overload, code: "stopping", message }
}

async fn work(socket: std::net::TcpListener, worker: Arc<CurrentWorker>, mut phases: watch::Receiver<Phase>) {
    let Ok(listener) = TcpListener::from_std(socket) else { return };
    let now = worker.get();
    tokio::spawn(beat(Arc::clone(&now.heartbeat), Arc::clone(&now.engine)));
    drop(now);
    let graceful = GracefulShutdown::new();
    let of_connections = phases.clone();
    tokio::select! {
        // First: whoever stands in the kernel's queue when draining begins is still let in.
        biased;
        () = listener::accept(listener, worker, &graceful, of_connections) => {}
        _ = phases.wait_for(|phase| *phase != Phase::Serving) => {}
    }
    tokio::select! {
        () = graceful.shutdown() => {}
        _ = phases.wait_for(|phase| *phase == Phase::Stopped) => return,
    }
    // What is left has no client connection, such as a request that is cancelled upstream.
    let _ = phases.wait_for(|phase| *phase == Phase::Stopped).await;
}

/// Says that a worker runs, for as long as its runtime does.
async fn beat(heartbeat: Arc<Heartbeat>, engine: Arc<Engine>) {
    let mut every = tokio::time::interval(BEAT_INTERVAL);
    loop {
        every.tick().await;
        heartbeat.beat(engine.clock.mono());
    }
}
