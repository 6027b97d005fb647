//! An agent as the store and the running estop know it, put together.

use std::collections::BTreeMap;

use estop_core::agent::standing::Standing;
use estop_core::agent::status::AgentStatus;
use estop_core::ids::Name;
use estop_core::operator::AgentView;
use estop_core::system::proof_test::CANARY;
use estop_store::{Agent, Origin, StoreError};

use crate::problem::Problem;
use crate::state::App;

/// Whose requests count where none is named.
const DEFAULT_AGENT: &str = "default";
/// Agents that may be kept and not listed: the canary and the unused default.
const UNLISTED: usize = 2;
/// What is said of an agent at rest whose state the store does not give.
const UNREADABLE: &str =
    "Its state cannot be read from the store, so that its next request cannot be judged. See `estop doctor`.";

/// An agent. At least one of the two is there.
pub(crate) struct Found {
    /// What is kept of it; missing until its first batch is stored.
    pub(crate) stored: Option<Agent>,
    /// What it does; missing if it is at rest.
    pub(crate) live: Option<AgentView>,
    /// As it was when it was put to rest.
    pub(crate) at_rest: Option<AgentView>,
}

/// A page of agents.
pub(crate) struct Page {
    pub(crate) agents: Vec<Found>,
    /// The last name, if there are more.
    pub(crate) next: Option<Name>,
}

impl Found {
    pub(crate) fn new(stored: Option<Agent>, live: Option<AgentView>) -> Found {
        Found { stored, live, at_rest: None }
    }

    /// With the state it was put to rest with, if it is at rest. One read of the store.
    pub(crate) fn looked_up(mut self, app: &App) -> Found {
        if self.live.is_none() {
            self.at_rest = app.operator.agent_at_rest(self.name());
        }
        self
    }

    /// Everything that is known of it beside what is kept.
    pub(crate) fn view(&self) -> Option<&AgentView> {
        self.live.as_ref().or(self.at_rest.as_ref())
    }

    /// Whether it is shown in lists. Traffic without a name is the agent `default`, which always has a place; as long as there was
    /// none and nobody configured it, it is no agent of anybody.
    pub(crate) fn is_listed(&self, app: &App) -> bool {
        let is_unused = |view: &AgentView| !view.has_acted && view.standing == Standing::Active;
        self.name() != DEFAULT_AGENT || !self.view().is_some_and(is_unused) || self.is_in_file(app)
    }

    /// 0 as long as nothing is kept.
    pub(crate) fn version(&self) -> u64 {
        self.stored.as_ref().map_or(0, |agent| agent.version)
    }

    pub(crate) fn name(&self) -> &str {
        let live = self.live.as_ref().map(|view| &*view.name);
        live.or(self.stored.as_ref().map(|agent| &*agent.name)).unwrap_or_default()
    }

    pub(crate) fn standing(&self) -> Standing {
        let live = self.live.as_ref().map(|view| view.standing);
        live.or(self.stored.as_ref().map(|agent| agent.standing)).unwrap_or_default()
    }

    /// What its next request would get.
    pub(crate) fn status(&self, app: &App) -> AgentStatus {
        if let Some(view) = self.view() {
            return view.status.clone();
        }
        // Its state cannot be read, so that it cannot be judged either.
        match app.operator.journal_failure() {
            Some(failure) => AgentStatus::shut(failure.text()),
            None => AgentStatus::shut(UNREADABLE),
        }
    }

    pub(crate) fn is_in_file(&self, app: &App) -> bool {
        (app.policy_file)().agents().any(|name| name == self.name())
    }
}

/// One agent. A deleted one is not there, even if it still runs into refusals.
pub(crate) fn find(app: &App, name: &str) -> Result<Found, Problem> {
    let stored = app.store_here().agent(name)?;
    let live = app.operator.agent(name);
    let found = Found::new(stored, live);
    let stored = &found.stored;
    let deleted = stored.as_ref().is_some_and(|agent| agent.deleted);
    if deleted || (stored.is_none() && found.live.is_none()) {
        return Err(Problem::not_found("agent", name));
    }
    Ok(found.looked_up(app))
}

/// The stored half; one that only lives is stored first.
pub(crate) fn stored(app: &App, found: &Found) -> Result<Agent, Problem> {
    if let Some(stored) = &found.stored {
        return Ok(stored.clone());
    }
    let origin = if found.is_in_file(app) { Origin::Config } else { Origin::Traffic };
    let mut agent = Agent::new(found.name(), origin, app.now());
    if let Some(live) = &found.live {
        agent.standing = live.standing;
    }
    match app.store_here().insert_agent(&agent) {
        Ok(agent) => Ok(agent),
        // Its first batch was stored in between.
        Err(StoreError::Exists { .. }) => {
            app.store_here().agent(found.name())?.ok_or_else(|| Problem::not_found("agent", found.name()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Agents after a name, in order; the proof test's canary only if it is wanted.
pub(crate) fn page(app: &App, after: Option<&str>, limit: usize, with_canary: bool) -> Result<Page, Problem> {
    let store = app.store_here();
    let is_listed = |name: &str| with_canary || name != CANARY;
    let mut all: BTreeMap<Name, Found> = BTreeMap::new();
    // One more than fits tells that there are more; two may be among them that are not listed.
    for agent in store.agents(after, limit + 1 + UNLISTED)?.into_iter().filter(|agent| is_listed(&agent.name))
    {
        all.insert(agent.name.clone(), Found::new(Some(agent), None));
    }
    let is_after = |view: &AgentView| after.is_none_or(|after| *view.name > *after) && is_listed(&view.name);
    for view in app.operator.agents().into_iter().filter(is_after) {
        let found = all.entry(view.name.clone()).or_insert(Found::new(None, None));
        found.live = Some(view);
    }
    let mut agents: Vec<Found> = Vec::new();
    for (name, found) in all {
        // Whoever lives and is not among the stored ones is new, or was deleted.
        if found.stored.is_none() && store.agent(&name)?.is_some() {
            continue;
        }
        let found = found.looked_up(app);
        if !found.is_listed(app) {
            continue;
        }
        if agents.len() == limit {
            let next = agents.last().map(|last| Name::from(last.name()));
            return Ok(Page { agents, next });
        }
        agents.push(found);
    }
    Ok(Page { agents, next: None })
}
