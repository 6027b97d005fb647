//! Tools that run for agents: process trees under a supervisor, calls at an MCP server. Whoever runs one registers it
//! here, so that a kill of the channel `tools` finds it.

use std::sync::Arc;

use crate::emergency_stop::registry::{Entry, Registry};
use crate::engine::tickets::Tickets;

/// Something that runs and can be ended.
pub trait RunningTool: Send + Sync {
    /// Begins to end it, for this reason, and returns at once: a kill does not wait for it.
    fn end(&self, why: &str);

    /// For which agent it runs.
    fn agent(&self) -> Option<&str> {
        None
    }

    /// In which run of the agent.
    fn run(&self) -> Option<&str> {
        None
    }

    /// A person sits at it: a guard has it refused, only the button ends it.
    fn is_attended(&self) -> bool {
        false
    }
}

/// All tools that run, and the tickets of those whose run has one.
#[derive(Default)]
pub struct Tools {
    running: Arc<Registry<Arc<dyn RunningTool>>>,
    pub(crate) tickets: Arc<Tickets>,
}

/// Tools that may run at once. Chosen: each is at least a process; a machine with more has other worries.
const TOOLS_MAX: usize = 10_000;

impl Tools {
    /// Registers one that runs; `None` if there are too many. Whoever starts a tool reads the gate after this, as
    /// requests do.
    pub fn register(&self, tool: Arc<dyn RunningTool>) -> Option<RegisteredTool> {
        self.running.register(tool, TOOLS_MAX).map(|entry| RegisteredTool { _entry: entry })
    }

    /// Begins to end those that may not go on, for which `why` has a reason; how many there were.
    pub fn end_where(&self, why: impl Fn(&dyn RunningTool) -> Option<String>) -> usize {
        // Not under the lock: a tool that ends takes itself off the list.
        let all = self.running.all();
        let ending = all.iter().filter_map(|tool| why(&***tool).map(|why| (tool, why)));
        ending.map(|(tool, why)| tool.end(&why)).count()
    }

    /// How many run.
    pub fn count(&self) -> usize {
        self.running.count()
    }
}

/// A registered tool. Dropping it takes it off the list.
pub struct RegisteredTool {
    _entry: Entry<Arc<dyn RunningTool>>,
}
