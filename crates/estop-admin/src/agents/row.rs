//! An agent as the store and the running estop know it, put together.

use std::collections::BTreeMap;

use estop_core::agent::standing::Standing;
use estop_core::agent::status::AgentStatus;
use estop_core::engine::hours_status;
use estop_core::ids::Name;
use estop_core::operator::AgentView;
use estop_core::system::proof_test::CANARY;
use estop_store::{Agent, Origin, StoreError};

use crate::problem::Problem;
use crate::state::App;

/// An agent. At least one of the two is there.
pub(crate) struct Found {
    /// What is kept of it; missing until its first batch is stored.
    pub(crate) stored: Option<Agent>,
    /// What it does; missing if it has not called since the start.
    pub(crate) live: Option<AgentView>,
}

/// A page of agents.
pub(crate) struct Page {
    pub(crate) agents: Vec<Found>,
    /// The last name, if there are more.
    pub(crate) next: Option<Name>,
}

impl Found {
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

    /// What its next request would get. Of one at rest the store knows the standing and the rules, not its accounts.
    pub(crate) fn status(&self, app: &App) -> AgentStatus {
        if let Some(view) = &self.live {
            return view.status.clone();
        }
        if let Some(trouble) = app.operator.journal_failure() {
            return AgentStatus::shut(trouble.text());
        }
        let commands = &app.place.commands;
        AgentStatus::of_gate(app.operator.gate(), commands)
            .or_else(|| AgentStatus::of_standing(self.name(), self.standing(), commands))
            .or_else(|| hours_status(&super::shown::policy(app, self), app.now()))
            .unwrap_or_else(AgentStatus::active)
    }

    pub(crate) fn is_in_file(&self, app: &App) -> bool {
        (app.policy_file)().agents().any(|name| name == self.name())
    }
}

/// One agent. A deleted one is not there, even if it still runs into refusals.
pub(crate) fn find(app: &App, name: &str) -> Result<Found, Problem> {
    let stored = app.store_here().agent(name)?;
    let live = app.operator.agent(name);
    let deleted = stored.as_ref().is_some_and(|agent| agent.deleted);
    if deleted || (stored.is_none() && live.is_none()) {
        return Err(Problem::not_found("agent", name));
    }
    Ok(Found { stored, live })
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
    // One more than fits tells that there are more; the canary may be among them.
    for agent in store.agents(after, limit + 2)?.into_iter().filter(|agent| is_listed(&agent.name)) {
        all.insert(agent.name.clone(), Found { stored: Some(agent), live: None });
    }
    let is_after = |view: &AgentView| after.is_none_or(|after| *view.name > *after) && is_listed(&view.name);
    for view in app.operator.agents().into_iter().filter(is_after) {
        let found = all.entry(view.name.clone()).or_insert(Found { stored: None, live: None });
        found.live = Some(view);
    }
    let more = all.len() > limit;
    let page: Vec<(Name, Found)> = all.into_iter().take(limit).collect();
    let next = page.last().filter(|_| more).map(|(name, _)| name.clone());
    let mut agents = Vec::with_capacity(page.len());
    for (name, found) in page {
        // Whoever lives and is not among the stored ones is new, or was deleted.
        let is_new = found.stored.is_some() || store.agent(&name)?.is_none();
        agents.extend(is_new.then_some(found));
    }
    Ok(Page { agents, next })
}
