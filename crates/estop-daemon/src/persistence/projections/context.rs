//! What rows need to know beside the records: roles and caps of the configuration, and runs of the store.

use std::sync::Arc;

use estop_core::ids::Name;
use estop_core::money::NanoUsd;
use estop_core::policy::BudgetPolicy;
use estop_core::policy_file::PolicyFile;
use estop_core::run::RunView;
use estop_core::time::Zone;
use estop_gateway::{Engine, RunLocation};
use estop_store::{Escalation, Run, SpendBy, SpendQuery, Store};
use jiff::Timestamp;

/// What holds while a batch is made.
pub(in crate::persistence) struct Context {
    /// Which these are: what was found while some held may not hold with the next. Each belong to one batch, which may have
    /// several.
    pub(super) batch: u64,
    /// The caps of all agents together.
    pub(in crate::persistence) caps: BudgetPolicy,
    store: Arc<dyn Store>,
    /// `None` before the data plane began.
    engine: Option<Arc<Engine>>,
    /// The rules at the start.
    policies: Arc<PolicyFile>,
}

impl Context {
    pub(in crate::persistence) fn new(
        batch: u64,
        store: Arc<dyn Store>,
        engine: Option<Arc<Engine>>,
        policies: Arc<PolicyFile>,
    ) -> Context {
        let caps = engine
            .as_ref()
            .map_or_else(|| policies.fleet_budget(), |engine| engine.rulebook.file().fleet_budget());
        Context { batch, caps, store, engine, policies }
    }

    /// The role of an agent.
    pub(super) fn role(&self, agent: &str) -> Option<Name> {
        if let Some(engine) = &self.engine {
            return engine.rulebook.role(agent);
        }
        let set = self.store.agent(agent).ok().flatten().and_then(|agent| agent.role);
        set.or_else(|| self.policies.role(agent).map(Name::from))
    }

    /// What a run said last. Whatever was said before this process is gone.
    pub(super) fn words(&self, agent: &str, run: Option<&str>) -> Option<String> {
        self.engine.as_ref()?.last_output.of(agent, run)
    }

    /// Where a run works, as its hooks said.
    pub(super) fn place(&self, agent: &str, run: Option<&str>) -> RunLocation {
        self.engine.as_ref().map(|engine| engine.last_output.place_of(agent, run)).unwrap_or_default()
    }

    /// What the core counts of a run.
    pub(super) fn run_view(&self, agent: &str, run: Option<&str>) -> Option<RunView> {
        let agent = self.engine.as_ref()?.agents.get(agent)?;
        let views = agent.lock_state().state.run_views();
        views.into_iter().find(|view| view.name.as_deref() == run)
    }

    /// What an agent spent today: by its own budget's day, or by UTC's before the data plane began.
    pub(super) fn spent_today(&self, agent: &str) -> Option<NanoUsd> {
        let spent = match self.engine.as_ref().and_then(|engine| engine.agents.get(agent)) {
            Some(agent) => agent.lock_state().state.budget().spent_today().usd,
            None => {
                let day = Zone::default().local(Timestamp::now().as_millisecond()).day;
                let query = SpendQuery {
                    by: SpendBy::Agent,
                    from_day: day,
                    to_day: day,
                    agent: Some(agent.into()),
                    limit: 1,
                };
                self.store.spend(&query).ok()?.first().map(|group| group.sum.usd)?
            }
        };
        (spent.0 > 0).then_some(spent)
    }

    /// An escalation as it is stored.
    pub(super) fn escalation(&self, id: &str) -> Option<Escalation> {
        self.store.escalation(id).ok().flatten()
    }

    /// A run as it is stored. One that cannot be read begins anew: its spend is counted all the same.
    pub(super) fn run(&self, id: &str) -> Option<Run> {
        self.store.run(id).ok().flatten()
    }
}
