//! What outlives the process: the journal, and the store with what follows from it (ST-1).
//!
//! A record is in the journal before anybody is told what was decided, so that a killed process loses nothing it said; the
//! projector makes rows of it some milliseconds later, in one transaction for all of them.

mod agent_states;
mod eviction;
mod evidence;
mod fleet_budget;
mod latch;
mod maintenance;
mod newest_records;
mod observers;
mod open_requests;
mod projections;
mod projector;
mod recovery;
mod segment_file;
mod settings;
mod tracked_agents;

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use anyhow::Context;
use estop_admin::overrides_of;
use estop_config::data_dir::database;
use estop_config::printable::escaped;
use estop_config::{Alerts, ServeConfig, find_zone};
use estop_core::agent::standing::{DeactivatedBy, Standing};
use estop_core::ids::{Hash64, Name};
use estop_core::operator::AgentKeyHash;
use estop_core::policy::Preset;
use estop_core::policy_file::PolicyFile;
use estop_core::time::{Millis, Now};
use estop_gateway::{Engine, Gateway, JournalQueue, Over, RestoredState};
use estop_store::segments::{RecoverError, Recovered, SegmentWriter, boot_id, recover};
use estop_store::{
    Agent, AgentRepo, CaseFilter, Cursor, DataLock, Journal, OpenError, Origin, Store, StoreError,
    check_folder, lock,
};
use rustix::process::geteuid;

use crate::alerting::Alerting;
use crate::config_in_force::ConfigInForce;
use crate::logging::events::EventLog;
use crate::store;
pub use maintenance::MaintenanceThread;
pub use observers::Observers;
use projector::{EvictionRules, Projector, ProjectorInputs};
use recovery::{KnownAgent, Recovery};
use segment_file::{SegmentFile, SignOfLife};
use settings::RecordSettings;

/// Everything that outlives the process, open for writing.
pub struct Persistence {
    /// Where records go in.
    pub queue: Arc<JournalQueue>,
    /// The store; `None` if it could not be trusted.
    pub store: Option<Arc<dyn Store>>,
    /// Who tells people; `None` if the store could not be trusted and there is nobody to tell, or no way.
    pub alerting: Option<Arc<Alerting>>,
    /// Why nothing passes, if the store could not be trusted.
    pub problem: Option<String>,
    /// Writes the journal; `None` if it could not be trusted.
    pub writer: Option<Arc<SegmentWriter>>,
    engine: Arc<OnceLock<Arc<Engine>>>,
    places: Arc<OnceLock<EvictionRules>>,
    known: Vec<KnownAgent>,
    data_dir: PathBuf,
    alive: OnceLock<SignOfLife>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
    /// Keeps others away where there is no store that does.
    _lock: Option<DataLock>,
}

impl Persistence {
    /// Opens the data directory and takes in what a killed process left. A database that cannot be trusted does not
    /// end estop: it comes up shut, with the reason.
    pub fn open(
        data_dir: &Path,
        wall: i64,
        policies: &PolicyFile,
        alerts: &Alerts,
        journal_bytes: Option<u64>,
        observers: &Observers,
    ) -> anyhow::Result<(Persistence, RestoredState)> {
        // Its owner's alone: whoever may write here may press the button, and read what agents did.
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data_dir);
        made.with_context(|| format!("data_dir: cannot create {}", data_dir.display()))?;
        check_folder(data_dir, geteuid().as_raw()).context("data_dir")?;
        match store::open(&database(data_dir)) {
            Ok(store) => {
                Persistence::begin(data_dir, store, wall, policies, alerts, journal_bytes, observers)
            }
            Err(
                error @ (OpenError::Corrupt { .. } | OpenError::Foreign { .. } | OpenError::Newer { .. }),
            ) => Persistence::untrusted(data_dir, wall, alerts, error.to_string()),
            Err(error @ (OpenError::Locked { .. } | OpenError::Io { .. })) => Err(error).context("data_dir"),
        }
    }

    fn begin(
        data_dir: &Path,
        store: Arc<dyn Store>,
        wall: i64,
        policies: &PolicyFile,
        alerts: &Alerts,
        journal_bytes: Option<u64>,
        observers: &Observers,
    ) -> anyhow::Result<(Persistence, RestoredState)> {
        let boot = boot_id();
        let read = recover(store.journal().folder(), &boot, &mut |_, _| {}).map_err(anyhow::Error::from);
        let read = read.and_then(|recovered| {
            let recovery = Recovery::read(&*store, recovered.as_ref())?;
            settings::restore(&*store, &recovery.state.settings)?;
            Ok((recovered, recovery))
        });
        let (recovered, mut recovery) = match read {
            Ok(read) => read,
            // The system refuses to read it, and it may be as it was.
            Err(error) if is_refused(&error) => return Err(error).context("data_dir"),
            Err(error) => {
                // Its lock is taken again below.
                drop(store);
                let problem = format!(
                    "the journal cannot be trusted: {error:#}. Restore a backup with `estop restore FILE`, or move {} away to \
                     start anew",
                    data_dir.display()
                );
                return Persistence::untrusted(data_dir, wall, alerts, problem);
            }
        };
        Alerting::forget_shut(data_dir);
        let (writer, cursor) = begin_writing(&*store, recovered.as_ref(), &boot, wall)
            .context("data_dir: cannot write the journal")?;
        let writer = Arc::new(writer);
        let file = SegmentFile::new(Arc::clone(&writer), journal_bytes);
        let queue = Arc::new(JournalQueue::with_file(Box::new(file), recovery.state.clone()));
        let engine: Arc<OnceLock<Arc<Engine>>> = Arc::default();
        let places: Arc<OnceLock<EvictionRules>> = Arc::default();
        let commands = estop_config::commands(data_dir, &estop_config::Env::of_process());
        let alerting =
            Arc::new(Alerting::start(Arc::clone(&store), alerts, recovery.state.seq, commands.clone())?);
        let beside = ProjectorInputs {
            engine: Arc::clone(&engine),
            places: Arc::clone(&places),
            policies: Arc::new(policies.clone()),
            alerting: Arc::clone(&alerting),
            events: EventLog::new(commands),
            observers: observers.clone(),
        };
        let cursor = Cursor { seq: recovery.cursor, ..cursor };
        let mut projector = Projector::new(Arc::clone(&store), Arc::clone(&queue), beside, cursor);
        projector.know(&mut recovery, fleet_budget::account(&*store, wall)?)?;
        projector.catch_up(&mut recovery)?;
        projector.tell_missed()?;
        let known = std::mem::take(&mut recovery.known);
        let mut restored = recovery.restored(data_dir, wall)?;
        restored.fleet = projector.fleet();
        // Only refusals name it: a start does not depend on it.
        restored.stopped_at = stopped_at(&*store, &restored).unwrap_or_else(|error| {
            tracing::warn!(target: "storage", "refusals of stopped agents do not name their incidents: {error:#}.");
            Vec::new()
        });
        let write = move || projector.run();
        let thread = std::thread::Builder::new().name("estop-projector".into()).spawn(write)?;
        let thread = Some(thread);
        Ok((
            Persistence {
                queue,
                store: Some(store),
                alerting: Some(alerting),
                problem: None,
                writer: Some(writer),
                engine,
                places,
                known,
                data_dir: data_dir.to_owned(),
                alive: OnceLock::new(),
                thread,
                _lock: None,
            },
            restored,
        ))
    }

    /// Comes up shut. The data directory is this estop's nevertheless: two would share a latch, and nobody may put another
    /// database there meanwhile.
    fn untrusted(
        data_dir: &Path,
        wall: i64,
        alerts: &Alerts,
        problem: String,
    ) -> anyhow::Result<(Persistence, RestoredState)> {
        let lock = match lock(&database(data_dir)) {
            Err(error @ OpenError::Locked { .. }) => return Err(error).context("data_dir"),
            // Where nothing can be written, nothing is.
            locked => locked.ok(),
        };
        let queue = Arc::new(JournalQueue::default());
        queue.fail();
        let persistence = Persistence {
            queue,
            store: None,
            alerting: Alerting::while_shut(data_dir, alerts).map(Arc::new),
            problem: Some(problem),
            writer: None,
            engine: Arc::default(),
            places: Arc::default(),
            known: Vec::new(),
            data_dir: data_dir.to_owned(),
            alive: OnceLock::new(),
            thread: None,
            _lock: lock,
        };
        let latch = latch::without_database(data_dir, persistence.problem.clone(), wall);
        Ok((persistence, RestoredState { latch: Some(latch), ..RestoredState::default() }))
    }

    /// Adds what was set while estop ran: rules of agents and their keys. Gives back the agents whose rules do not fit
    /// over the configuration any more; they are left out, and said.
    pub fn set_over(&self, policies: &PolicyFile, restored: &mut RestoredState) -> anyhow::Result<Vec<Name>> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let good = store.keys()?.into_iter().filter(|key| key.revoked_at.is_none());
        restored.made_keys = good.map(|key| AgentKeyHash { agent: key.agent, sha256: key.sha256 }).collect();
        let agents: Vec<Agent> = store.load_agents()?.into_iter().map(|kept| kept.agent).collect();
        let added = agents.iter().filter(|agent| agent.origin == Origin::Api && !agent.deleted);
        restored.added = added.map(|agent| agent.name.clone()).collect();
        let (over, unfit) = fitting(agents, policies);
        restored.over = over;
        for (agent, error) in &unfit {
            let error = escaped(error);
            tracing::warn!(
                target: "configuration", "agent {agent} is paused: the rules set for it do not fit over the configuration: {error}. \
                 Set them anew (estop policy set {agent}), then estop agents resume {agent}."
            );
        }
        Ok(unfit.into_iter().map(|(agent, _)| agent).collect())
    }

    /// Everybody's preset, if one was set over the configuration's.
    pub fn preset(&self) -> anyhow::Result<Option<Preset>> {
        Ok(self.store.as_deref().map(estop_admin::kept_preset).transpose()?.flatten())
    }

    /// Sees to it that there are places left: agents nobody needs in memory rest in the store. After
    /// [`Persistence::set_over`], which says who has rules and keys of its own.
    pub fn settle(&self, config: &ServeConfig, restored: &mut RestoredState) {
        if let Some(store) = &self.store {
            eviction::evict_at_start(Arc::clone(store), &self.known, config, restored);
        }
    }

    /// From here on the agents' states are kept too, and agents that have been idle this long may rest.
    pub fn watch(&self, gateway: &Gateway, config: ConfigInForce) -> anyhow::Result<()> {
        // Set once, right after the data plane started.
        let _ = self.engine.set(Arc::clone(gateway.engine()));
        let _ = self.places.set(EvictionRules { keys: gateway.keys(), config });
        if let Some(store) = &self.store {
            self.beat(gateway);
            store.record_settings(Arc::new(RecordSettings(Arc::clone(gateway.engine()))))?;
        }
        Ok(())
    }

    /// From here on it is known until when estop was alive.
    fn beat(&self, gateway: &Gateway) {
        let engine = Arc::clone(gateway.engine());
        let Some(writer) = self.writer.clone() else { return };
        match SignOfLife::start(writer, move || engine.clock.now()) {
            Ok(sign) => drop(self.alive.set(sign)),
            Err(error) => tracing::warn!(
                target: "storage", "cannot say in {}/journal/mark until when estop is alive: {error}. Runs that say nothing lose their \
                 active time when estop ends.",
                self.data_dir.display()
            ),
        }
    }

    /// Stores what is left, syncs the journal and closes the database.
    pub fn finish(mut self) -> anyhow::Result<()> {
        if let Some(sign) = self.alive.take() {
            sign.end();
        }
        self.queue.close();
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().map_err(|_| anyhow::anyhow!("the journal's projector panicked"))?
    }
}

/// Which record stopped or paused each agent that a guard did. Its newest incident is of that: whatever came later would have had
/// to let it go on first.
fn stopped_at(store: &dyn Store, restored: &RestoredState) -> anyhow::Result<Vec<(Name, u64)>> {
    let mut found = Vec::new();
    for (agent, kept) in &restored.agents {
        let is_by_guard = match kept.state.standing() {
            Standing::Inactive { by: DeactivatedBy::KillSwitch(_), .. }
            | Standing::Paused { cause: Some(_), .. } => true,
            Standing::Inactive { by: DeactivatedBy::Manual, .. }
            | Standing::Paused { cause: None, .. }
            | Standing::Active => false,
        };
        if is_by_guard {
            let of = CaseFilter { agent: Some(agent.clone()), ..CaseFilter::default() };
            found.extend(store.incidents(&of, 1)?.first().map(|incident| (agent.clone(), incident.seq)));
        }
    }
    Ok(found)
}

/// Goes on with a journal, or begins one; and which one it is.
fn begin_writing(
    store: &dyn Journal,
    recovered: Option<&Recovered>,
    boot: &str,
    wall: i64,
) -> anyhow::Result<(SegmentWriter, Cursor)> {
    let folder = store.journal().folder();
    let Some(recovered) = recovered else {
        let journal = Hash64(getrandom::u64()?);
        let now = Now { mono: Millis(0), wall };
        let writer = SegmentWriter::create(folder, journal, boot, now)?;
        return Ok((writer, Cursor { journal, seq: 0 }));
    };
    if recovered.torn > 0 {
        tracing::warn!(
            target: "storage", "the journal ends with {} bytes of a record that was never acknowledged: they are cut off.",
            recovered.torn
        );
    }
    if recovered.lost > 0 {
        tracing::warn!(
            target: "storage", "the machine stopped before its disk had the last {} records of the journal: they are lost. No stop is \
             among them.",
            recovered.lost
        );
    }
    let writer = SegmentWriter::open(folder, recovered, boot, recovered.last)?;
    Ok((writer, Cursor { journal: recovered.journal, seq: recovered.state.seq }))
}

/// Whether the system refused something, and nothing is known to be damaged.
fn is_refused(error: &anyhow::Error) -> bool {
    let io =
        error.downcast_ref::<RecoverError>().is_some_and(|error| matches!(error, RecoverError::Io { .. }));
    let store = error.downcast_ref::<StoreError>();
    io || store.is_some_and(|error| matches!(error, StoreError::Io(_) | StoreError::Busy | StoreError::Full))
}

/// The rules set for agents, and those that do not fit over the configuration.
#[expect(clippy::type_complexity, reason = "two lists, each plain")]
pub fn overrides(
    store: &dyn AgentRepo,
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
            Err(error) => unfit.push((agent.name, error.to_string())),
        }
    }
    (fit, unfit)
}

fn over(agent: &Agent, policies: &PolicyFile) -> anyhow::Result<Over> {
    let overrides = overrides_of(agent)?;
    let rules = policies.check_overrides(Some(&agent.name), overrides.policy, &find_zone);
    Ok(Over { role: overrides.role, rules: rules? })
}
