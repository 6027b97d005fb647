//! What rows need to know beside the records: roles and caps of the configuration, and runs of the store.

use std::sync::Arc;

use estop_core::ids::Name;
use estop_core::policy::BudgetPolicy;
use estop_core::policy_file::PolicyFile;
use estop_gateway::Host;
use estop_store::{AgentRepo, Run, RunRepo, Sqlite};

/// What holds while a batch is made.
pub(in crate::memory) struct Facts {
    /// The caps of all agents together.
    pub(in crate::memory) caps: BudgetPolicy,
    store: Sqlite,
    /// `None` before the data plane began.
    host: Option<Arc<Host>>,
    /// The rules at the start.
    policies: Arc<PolicyFile>,
}

impl Facts {
    pub(in crate::memory) fn new(store: Sqlite, host: Option<Arc<Host>>, policies: Arc<PolicyFile>) -> Facts {
        let caps =
            host.as_ref().map_or_else(|| policies.fleet_budget(), |host| host.rulebook.file().fleet_budget());
        Facts { caps, store, host, policies }
    }

    /// The role of an agent.
    pub(super) fn role(&self, agent: &str) -> Option<Name> {
        if let Some(host) = &self.host {
            return host.rulebook.role(agent);
        }
        let set = self.store.agent(agent).ok().flatten().and_then(|agent| agent.role);
        set.or_else(|| self.policies.role(agent).map(Name::from))
    }

    /// A run as it is stored. One that cannot be read begins anew: its spend stands in the books all the same.
    pub(super) fn run(&self, id: &str) -> Option<Run> {
        self.store.run(id).ok().flatten()
    }
}
