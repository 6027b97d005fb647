//! What all handlers share: the operator, the store, and who is known. Nothing here is slow on the way to a kill.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use estop_core::ids::Name;
use estop_core::operator::{AgentKeyHash, Operator};
use estop_core::policy_file::PolicyFile;
use estop_core::printed_command::Commands;
use estop_core::system::SYSTEM;
use estop_store::{Store, StoreError};
use tokio::sync::Semaphore;

use crate::access::{Sessions, TOKENS_MAX, Tokens};
use crate::alerts_api::AlertsApi;
use crate::problem::{Kind, Problem};
use crate::recent_activity::RecentActivity;
use crate::supervisor_connections::SupervisorConnections;

/// Wall-clock milliseconds since 1970.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// The policy file in force; hot reload changes what it gives.
pub type PolicyFileNow = Arc<dyn Fn() -> Arc<PolicyFile> + Send + Sync>;

/// Makes the text of `/metrics`. It looks at every agent.
pub type MetricsText = Arc<dyn Fn() -> String + Send + Sync>;

/// What the admin plane is given.
#[derive(Clone)]
pub struct AdminState {
    /// Those who act.
    pub operator: Arc<dyn Operator>,
    /// What is kept.
    pub store: Arc<dyn Store>,
    /// What time it is.
    pub clock: Clock,
    /// The file's rules, to say where a value comes from.
    pub policy_file: PolicyFileNow,
    /// Held by whoever changes what is kept and what is in force, so that both always agree. Reloading the configuration
    /// holds it too.
    pub edits: Arc<Mutex<()>>,
    /// How it is reached.
    pub options: Options,
    /// Where the rest of this estop is.
    pub place: Installation,
    /// Those who tell people.
    pub alerts_api: Arc<dyn AlertsApi>,
    /// What `/metrics` answers.
    pub metrics: MetricsText,
}

/// Where estop is, for those who start programs under it.
#[derive(Clone, Debug, Default)]
pub struct Installation {
    /// The data plane, as `http://127.0.0.1:4100`.
    pub data_url: String,
    /// The dashboard, as `http://estop.localhost:4101`, or as `alerts.dashboard` of the configuration says.
    pub dashboard_url: String,
    /// Where everything is kept.
    pub data_dir: String,
    /// The commands that texts tell people to type.
    pub commands: Commands,
    /// After how many days the steps of incidents are deleted; `None` = never.
    pub evidence_days: Option<u32>,
}

impl Installation {
    /// The whole address of a page of the dashboard.
    pub(crate) fn page(&self, path: &str) -> String {
        format!("{}{path}", self.dashboard_url.trim_end_matches('/'))
    }
}

/// How the admin port is reached.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Only from this machine: requests for other hosts are refused.
    pub loopback: bool,
    /// By https, here or at a proxy in front. Then the session cookie is `__Host-estop` and `Secure`; browsers do not
    /// take such a cookie over plain http everywhere, so without https, which is for loopback only, it is `estop`.
    pub https: bool,
}

impl Options {
    pub(crate) fn cookie_name(self) -> &'static str {
        if self.https { "__Host-estop" } else { "estop" }
    }
}

/// Pages that follow at once. Each is a connection, and the admin port has 128 places in all.
const FOLLOWERS_MAX: usize = 64;
/// Store calls at a time. The blocking pool has 512 threads; what is left of it is for kills.
const STORE_CALLS_MAX: usize = 64;
/// Hooks at a time. Each takes microseconds, or one read of the disk if its agent is at rest.
const HOOKS_MAX: usize = 64;
/// Hooks at a time whose body is large: each may hold tens of megabytes.
const LARGE_HOOKS_MAX: usize = 4;
/// Exports and verifications at a time: each reads the whole journal.
const LONG_READS_MAX: usize = 2;
/// How often a token's last use is written down.
const TOUCH_EVERY_MS: i64 = 60_000;

/// What handlers share.
pub(crate) type App = Arc<Shared>;

pub(crate) struct Shared {
    pub(crate) operator: Arc<dyn Operator>,
    store: Arc<dyn Store>,
    clock: Clock,
    pub(crate) policy_file: PolicyFileNow,
    pub(crate) options: Options,
    pub(crate) tokens: Tokens,
    pub(crate) sessions: Sessions,
    calls: Arc<Semaphore>,
    pub(crate) long_reads: Arc<Semaphore>,
    /// Pages that follow what happens.
    pub(crate) followers: Arc<Semaphore>,
    pub(crate) hooks: Arc<Semaphore>,
    pub(crate) large_hooks: Arc<Semaphore>,
    touched: Mutex<BTreeMap<Name, i64>>,
    edits: Arc<Mutex<()>>,
    /// Lines to supervisors.
    pub(crate) lines: Arc<SupervisorConnections>,
    pub(crate) place: Installation,
    /// What charts show.
    hours: Mutex<RecentActivity>,
    pub(crate) alerts_api: Arc<dyn AlertsApi>,
    pub(crate) metrics: MetricsText,
}

impl Shared {
    /// Loads who is known, and tells the operator which keys are good.
    pub(crate) fn open(state: AdminState) -> Result<Shared, StoreError> {
        let tokens = Tokens::load(&*state.store)?;
        let shared = Shared {
            operator: state.operator,
            store: state.store,
            clock: state.clock,
            policy_file: state.policy_file,
            options: state.options,
            tokens,
            sessions: Sessions::default(),
            calls: Arc::new(Semaphore::new(STORE_CALLS_MAX)),
            long_reads: Arc::new(Semaphore::new(LONG_READS_MAX)),
            followers: Arc::new(Semaphore::new(FOLLOWERS_MAX)),
            hooks: Arc::new(Semaphore::new(HOOKS_MAX)),
            large_hooks: Arc::new(Semaphore::new(LARGE_HOOKS_MAX)),
            touched: Mutex::default(),
            edits: state.edits,
            lines: Arc::default(),
            place: state.place,
            hours: Mutex::default(),
            alerts_api: state.alerts_api,
            metrics: state.metrics,
        };
        shared.tell_keys(&*shared.store)?;
        Ok(shared)
    }

    /// From here until it is dropped nobody else changes what is kept and in force. Never for a kill.
    pub(crate) fn edit(&self) -> MutexGuard<'_, ()> {
        self.edits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For charts. Held while the journal is read on.
    pub(crate) fn hours(&self) -> MutexGuard<'_, RecentActivity> {
        self.hours.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> i64 {
        (self.clock)()
    }

    /// The agent a filter names, as its name is kept: names that differ in case alone are one agent's.
    pub(crate) fn agent_named(&self, name: Option<Name>) -> Option<Name> {
        name.map(|name| self.operator.canonical(&name))
    }

    /// The same for a filter, which must not answer nothing where its name was mistyped. Deleted agents are known. May wait for
    /// the store.
    pub(crate) fn agent_filter(&self, name: Option<Name>) -> Result<Option<Name>, Problem> {
        let Some(name) = self.agent_named(name) else { return Ok(None) };
        let is_known = &*name == SYSTEM || self.operator.agent(&name).is_some();
        if is_known || self.store_here().agent(&name)?.is_some() {
            return Ok(Some(name));
        }
        Err(Problem::no_agent("agent", &name))
    }

    /// For code that may block.
    pub(crate) fn store_here(&self) -> &dyn Store {
        &*self.store
    }

    pub(crate) fn store_handle(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// Asks the store, on a thread that may wait.
    pub(crate) async fn store<T, E>(
        self: &Arc<Self>,
        work: impl FnOnce(&dyn Store) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Problem>
    where
        T: Send + 'static,
        E: Into<Problem> + Send + 'static,
    {
        let app = Arc::clone(self);
        self.work(move || work(&*app.store).map_err(Into::into)).await
    }

    /// Any work that may wait, as many at a time as leave room for a kill.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let permit = Arc::clone(&self.calls).acquire_owned().await;
        let permit = permit.map_err(|_| Problem::new(Kind::Unavailable, "estop is stopping."))?;
        at_once(move || {
            let _permit = permit;
            work()
        })
        .await
    }

    /// Tells the operator all good keys.
    pub(crate) fn tell_keys(&self, store: &dyn Store) -> Result<(), StoreError> {
        let good = store.keys()?.into_iter().filter(|key| key.revoked_at.is_none());
        let keys = good.map(|key| AgentKeyHash { agent: key.agent, sha256: key.sha256 });
        self.operator.set_keys(keys.collect());
        Ok(())
    }

    /// Notes that a session was used; nobody waits for it.
    pub(crate) fn touch_session(self: &Arc<Self>, sha256: [u8; 32], now: i64) {
        let Ok(permit) = Arc::clone(&self.calls).try_acquire_owned() else { return };
        let app = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            // What is not written down lets the session end earlier after a restart, never later.
            let _ = app.store.touch_session(&sha256, now);
        });
    }

    /// Notes that a token was used; nobody waits for it.
    pub(crate) fn touch(self: &Arc<Self>, id: &Name) {
        let now = self.now();
        {
            let mut touched = self.touched.lock().unwrap_or_else(PoisonError::into_inner);
            if touched.len() >= TOKENS_MAX && !touched.contains_key(id) {
                touched.clear();
            }
            let last = touched.entry(id.clone()).or_insert(0);
            if (*last..last.saturating_add(TOUCH_EVERY_MS)).contains(&now) {
                return;
            }
            *last = now;
        }
        let Ok(permit) = Arc::clone(&self.calls).try_acquire_owned() else { return };
        let (app, id) = (Arc::clone(self), id.clone());
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            // When a token was last used is nice to know, and nothing depends on it.
            let _ = app.store.touch_token(&id, now);
        });
    }
}

/// Work that may wait for a disk, and that nothing holds back: stopping things.
pub(crate) async fn at_once<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(Problem::new(Kind::Internal, "The work was broken off.")))
}
