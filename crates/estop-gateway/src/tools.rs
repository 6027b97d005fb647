//! Tools that run for agents: process trees under a supervisor, calls at an MCP server. Whoever runs one registers it
//! here, so that a kill of the channel `tools` finds it.

use std::sync::Arc;

use crate::registry::{Entry, Registry};

/// Something that runs and can be ended.
pub trait RunningTool: Send + Sync {
    /// Begins to end it, and returns at once: a kill does not wait for it.
    fn end(&self);

    /// For which agent it runs.
    fn agent(&self) -> Option<&str> {
        None
    }
}

/// All tools that run.
#[derive(Default)]
pub struct Tools(Arc<Registry<Arc<dyn RunningTool>>>);

/// Tools that may run at once. Chosen: each is at least a process; a machine with more has other worries.
const TOOLS_MAX: usize = 10_000;

impl Tools {
    /// Registers one that runs; `None` if there are too many. Whoever starts a tool reads the gate after this, as
    /// requests do.
    pub fn register(&self, tool: Arc<dyn RunningTool>) -> Option<RegisteredTool> {
        self.0.register(tool, TOOLS_MAX).map(|entry| RegisteredTool { _entry: entry })
    }

    /// Begins to end those that may not go on; how many there were.
    pub fn end_where(&self, may_not: impl Fn(&dyn RunningTool) -> bool) -> usize {
        // Not under the lock: a tool that ends takes itself off the list.
        let all = self.0.all();
        let ending = all.iter().filter(|tool| may_not(&****tool));
        ending.map(|tool| tool.end()).count()
    }

    /// How many run.
    pub fn count(&self) -> usize {
        self.0.count()
    }
}

/// A registered tool. Dropping it takes it off the list.
pub struct RegisteredTool {
    _entry: Entry<Arc<dyn RunningTool>>,
}
