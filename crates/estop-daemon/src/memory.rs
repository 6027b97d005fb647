//! What estop remembers: the store, the tail in front of it, and the thread that takes one into the other (ST-1).
//!
//! A record goes to the tail before anybody is told what was decided, so that a killed process loses nothing it said;
//! the scribe numbers it, links it into its chain and stores it some milliseconds later, with everything that follows
//! from it, in one transaction.

mod alive;
mod batch;
mod desks;
mod fleet;
mod latch;
mod missing;
mod open;
mod past;
mod places;
mod rows;
mod scribe;
mod states;
mod tail;
mod upkeep;

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use estop_admin::overrides_of;
use estop_config::data_dir::{DATABASE, database};
use estop_config::printable::escaped;
use estop_config::{Alerts, ServeConfig, find_zone};
use estop_core::ids::Name;
use estop_core::operator::AgentKeyHash;
use estop_core::policy::Preset;
use estop_core::policy_file::PolicyFile;
use estop_gateway::{Engine, Gateway, JournalQueue, Over, Remembered};
use estop_store::{
    Access, Agent, AgentRepo, DataLock, OpenError, Origin, RESTORING, Sqlite, SqliteOptions, StoreError,
    TailFile, check_folder, lock, tail_end,
};
use rustix::process::geteuid;

use crate::alerting::Alerting;
use alive::Heartbeat;
use past::{Known, Past};
use scribe::{Beside, Places, Scribe};
pub use upkeep::Tidying;

/// Why nothing passes if only the database is gone.
const DATABASE_GONE: &str = "the database is gone, but the tail of its journal is still there: put it back, or move tail-*.jsonl away to start anew";

/// Whether there is no database, although there was one: the next start would take what is left of its journal into a new one. Half a restore
/// is told by whoever opens it.
fn is_gone(data_dir: &Path) -> std::io::Result<bool> {
    let restoring = data_dir.join(format!("{DATABASE}{RESTORING}"));
    let is_there = database(data_dir).try_exists()? || restoring.try_exists()?;
    Ok(!is_there && tail_end(data_dir)?.is_some())
}

/// A memory that is being written.
pub struct Memory {
    /// Where records go in.
    pub queue: Arc<JournalQueue>,
    /// The store; `None` if it could not be trusted.
    pub store: Option<Sqlite>,
    /// Who tells people; `None` if the store could not be trusted and there is nobody to tell, or no way.
    pub alerting: Option<Arc<Alerting>>,
    /// Why nothing passes, if the store could not be trusted.
    pub problem: Option<String>,
    /// The journal's tail; `None` if the store could not be trusted.
    pub tail_file: Option<Arc<TailFile>>,
    engine: Arc<OnceLock<Arc<Engine>>>,
    places: Arc<OnceLock<Places>>,
    known: Vec<Known>,
    data_dir: PathBuf,
    /// The tail's generation when this process began.
    generation: u64,
    alive: OnceLock<Heartbeat>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
    /// Keeps others away where there is no store that does.
    _lock: Option<DataLock>,
}

impl Memory {
    /// Opens the data directory and takes in what a killed process left. A database that cannot be trusted does not
    /// end estop: it comes up shut, with the reason.
    pub fn open(
        data_dir: &Path,
        wall: i64,
        policies: &PolicyFile,
        alerts: &Alerts,
    ) -> anyhow::Result<(Memory, Remembered)> {
        // Its owner's alone: whoever may write here may press the button, and read what agents did.
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data_dir);
        made.with_context(|| format!("data_dir: cannot create {}", data_dir.display()))?;
        check_folder(data_dir, geteuid().as_raw()).context("data_dir")?;
        if is_gone(data_dir).with_context(|| format!("data_dir: cannot look into {}", data_dir.display()))? {
            return Memory::untrusted(data_dir, wall, alerts, DATABASE_GONE.to_owned());
        }
        match Sqlite::open(&database(data_dir), SqliteOptions::default()) {
            Ok(store) => Memory::begin(data_dir, store, wall, policies, alerts),
            Err(
                error @ (OpenError::Corrupt { .. } | OpenError::Foreign { .. } | OpenError::Newer { .. }),
            ) => Memory::untrusted(data_dir, wall, alerts, error.to_string()),
            Err(error @ (OpenError::Locked { .. } | OpenError::Io { .. })) => Err(error).context("data_dir"),
        }
    }

    fn begin(
        data_dir: &Path,
        store: Sqlite,
        wall: i64,
        policies: &PolicyFile,
        alerts: &Alerts,
    ) -> anyhow::Result<(Memory, Remembered)> {
        let past = match Past::read(data_dir, &store, wall) {
            Ok(past) => past,
            Err(error) => {
                // Its lock is taken again below.
                drop(store);
                let problem = format!("the journal cannot be trusted: {error:#}");
                return Memory::untrusted(data_dir, wall, alerts, problem);
            }
        };
        Alerting::forget_shut(data_dir);
        let mut remembered = past.remembered;
        let start = estop_gateway::TailMark { generation: past.generation, offset: 0 };
        let (tail, tail_file) =
            tail::begin(data_dir, past.generation).context("data_dir: cannot write the journal's tail")?;
        let queue = Arc::new(JournalQueue::with_tail(tail, start));
        let engine: Arc<OnceLock<Arc<Engine>>> = Arc::default();
        let places: Arc<OnceLock<Places>> = Arc::default();
        let commands = estop_config::commands(data_dir, &estop_config::Env::of_process());
        let alerting = Arc::new(Alerting::start(&store, alerts, past.chains.seq(), commands)?);
        let mut scribe = Scribe::new(
            data_dir,
            store.clone(),
            Arc::clone(&queue),
            Beside {
                engine: Arc::clone(&engine),
                places: Arc::clone(&places),
                policies: Arc::new(policies.clone()),
                alerting: Arc::clone(&alerting),
            },
            past.chains,
            remembered.system.clone(),
        );
        scribe.know(past.standings);
        scribe.take_up(fleet::account(&store, wall)?, past.open);
        scribe.catch_up(past.leftover, start)?;
        scribe.tell_missed()?;
        remembered.fleet = scribe.fleet();
        let write = move || scribe.run();
        let thread = std::thread::Builder::new().name("estop-scribe".into()).spawn(write)?;
        let (known, thread) = (past.known, Some(thread));
        Ok((
            Memory {
                queue,
                store: Some(store),
                alerting: Some(alerting),
                problem: None,
                tail_file: Some(tail_file),
                engine,
                places,
                known,
                data_dir: data_dir.to_owned(),
                generation: start.generation,
                alive: OnceLock::new(),
                thread,
                _lock: None,
            },
            remembered,
        ))
    }

    /// Comes up shut. The data directory is this estop's nevertheless: two would share a latch, and nobody may put another
    /// database there meanwhile.
    fn untrusted(
        data_dir: &Path,
        wall: i64,
        alerts: &Alerts,
        problem: String,
    ) -> anyhow::Result<(Memory, Remembered)> {
        let lock = match lock(&database(data_dir)) {
            Err(error @ OpenError::Locked { .. }) => return Err(error).context("data_dir"),
            // Where nothing can be written, nothing is.
            locked => locked.ok(),
        };
        let queue = Arc::new(JournalQueue::default());
        queue.fail();
        let memory = Memory {
            queue,
            store: None,
            alerting: Alerting::while_shut(data_dir, alerts).map(Arc::new),
            problem: Some(problem),
            tail_file: None,
            engine: Arc::default(),
            places: Arc::default(),
            known: Vec::new(),
            data_dir: data_dir.to_owned(),
            generation: 0,
            alive: OnceLock::new(),
            thread: None,
            _lock: lock,
        };
        let latch = latch::without_database(data_dir, memory.problem.clone(), wall);
        Ok((memory, Remembered { latch: Some(latch), ..Remembered::default() }))
    }

    /// Adds what was set while estop ran: rules of agents and their keys. Gives back the agents whose rules do not fit
    /// over the configuration any more; they are left out, and said.
    pub fn set_over(&self, policies: &PolicyFile, remembered: &mut Remembered) -> anyhow::Result<Vec<Name>> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let good = store.keys()?.into_iter().filter(|key| key.revoked_at.is_none());
        remembered.made_keys =
            good.map(|key| AgentKeyHash { agent: key.agent, sha256: key.sha256 }).collect();
        let agents: Vec<Agent> = store.load_agents()?.into_iter().map(|kept| kept.agent).collect();
        let added = agents.iter().filter(|agent| agent.origin == Origin::Api && !agent.deleted);
        remembered.added = added.map(|agent| agent.name.clone()).collect();
        let (over, unfit) = fitting(agents, policies);
        remembered.over = over;
        for (agent, error) in &unfit {
            let error = escaped(error);
            eprintln!(
                "estop: agent {agent} is paused: the rules set for it do not fit over the configuration: {error}. \
                 Set them anew (estop policy set {agent}), then estop agents resume {agent}."
            );
        }
        Ok(unfit.into_iter().map(|(agent, _)| agent).collect())
    }

    /// Everybody's preset, if one was set over the configuration's.
    pub fn preset(&self) -> anyhow::Result<Option<Preset>> {
        Ok(self.store.as_ref().map(estop_admin::kept_preset).transpose()?.flatten())
    }

    /// Sees to it that there are places left: agents nobody needs in memory rest in the store. After
    /// [`Memory::set_over`], which says who has rules and keys of its own.
    pub fn settle(&self, config: &ServeConfig, remembered: &mut Remembered) {
        if let Some(store) = &self.store {
            places::settle(store, &self.known, config, remembered);
        }
    }

    /// From here on the agents' states are remembered too, and agents that have been idle this long may rest.
    pub fn watch(&self, gateway: &Gateway, agent_idle: Duration) {
        // Set once, right after the data plane started.
        let _ = self.engine.set(Arc::clone(gateway.engine()));
        let idle_ms = u64::try_from(agent_idle.as_millis()).unwrap_or(u64::MAX);
        let _ = self.places.set(Places { keys: gateway.keys(), idle_ms });
        if self.store.is_some() {
            self.beat(gateway);
        }
    }

    /// From here on it is known until when estop was alive.
    fn beat(&self, gateway: &Gateway) {
        let engine = Arc::clone(gateway.engine());
        match Heartbeat::start(&self.data_dir, self.generation, move || engine.clock.now()) {
            Ok(heartbeat) => drop(self.alive.set(heartbeat)),
            Err(error) => eprintln!(
                "estop: cannot write {}/alive: {error}. Runs that say nothing lose their active time when estop ends.",
                self.data_dir.display()
            ),
        }
    }

    /// Stores what is left, seals the journal and closes the database.
    pub fn finish(mut self) -> anyhow::Result<()> {
        if let Some(heartbeat) = self.alive.take() {
            heartbeat.end();
        }
        self.queue.close();
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().map_err(|_| anyhow::anyhow!("the journal's scribe panicked"))?
    }
}

/// The rules set for agents, and those that do not fit over the configuration.
#[expect(clippy::type_complexity, reason = "two lists, each plain")]
pub fn overrides(
    store: &Sqlite,
    policies: &PolicyFile,
) -> Result<(BTreeMap<Name, Over>, Vec<(Name, String)>), StoreError> {
    let agents = store.load_agents()?.into_iter().map(|kept| kept.agent);
    Ok(fitting(agents.collect(), policies))
}

fn fitting(agents: Vec<Agent>, policies: &PolicyFile) -> (BTreeMap<Name, Over>, Vec<(Name, String)>) {
    let (mut fit, mut unfit) = (BTreeMap::new(), Vec::new());
    for agent in agents {
        match over(&agent, policies) {
            Ok(over) if over == Over::default() => {}
            Ok(over) => drop(fit.insert(agent.name, over)),
            Err(error) => unfit.push((agent.name, error)),
        }
    }
    (fit, unfit)
}

fn over(agent: &Agent, policies: &PolicyFile) -> Result<Over, String> {
    let overrides = overrides_of(agent)?;
    let rules = policies.check_overrides(Some(&agent.name), overrides.policy, &find_zone);
    Ok(Over { role: overrides.role, rules: rules.map_err(|error| error.to_string())? })
}
