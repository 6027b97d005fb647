//! What people may do to a running estop, and what they see of it: the seam between those who steer and those who act.
//!
//! The admin plane speaks to this trait and to nothing behind it. Nothing here waits for a database.

use crate::activity::ActivityState;
use crate::budget::Amount;
use crate::decision::Decision;
use crate::ids::Name;
use crate::loop_detector::LoopFinding;
use crate::policy::Policy;
use crate::policy_file::{PolicyError, PolicyIn};
use crate::run::RunState;
use crate::standing::Standing;
use crate::system::{Channels, GateView, KillReason, SystemDecision};

/// What can be done to a running estop.
pub trait Operator: Send + Sync {
    /// Every agent, in order of name.
    fn agents(&self) -> Vec<AgentView>;

    /// One agent.
    fn agent(&self, name: &str) -> Option<AgentView>;

    /// Makes an agent known before it calls.
    fn add_agent(&self, name: &str) -> Result<AgentView, OperatorError>;

    /// Switches an agent on or off, pauses it or lets it go on. On the disk before it returns.
    fn steer(&self, agent: &str, steer: Steer, by: &str) -> Result<AgentView, OperatorError>;

    /// Puts rules over those of the configuration; `None` takes them away again. On the disk before it returns.
    fn set_overrides(&self, agent: &str, overrides: Overrides, by: &str) -> Result<AgentView, OperatorError>;

    /// Whether overrides would do for an agent, without setting them.
    fn check_overrides(&self, agent: Option<&str>, overrides: &Overrides) -> Result<(), OperatorError>;

    /// Starts a run or changes its state. The decision says whether it was allowed.
    fn run(&self, agent: &str, run: &str, step: RunStep, by: &str) -> Result<Decision, OperatorError>;

    /// The keys agents may use from here on, beside those of the configuration.
    fn set_keys(&self, keys: Vec<AgentKeyHash>);

    /// Writes down that a token or a key was made or taken back. On the disk before it returns.
    fn access_changed(&self, what: &str, by: &str);

    /// Whether everything that was done so far is on the disk. May wait for it.
    fn is_kept(&self) -> bool;

    /// The gate.
    fn gate(&self) -> GateView;

    /// Presses the button.
    fn kill(&self, channels: Channels, reason: KillReason, by: &str) -> SystemDecision;

    /// SHUTDOWN → SAFE_MODE, by somebody who saw `epoch`.
    fn restart(&self, by: &str, epoch: u64) -> SystemDecision;

    /// SAFE_MODE → RUNNING, by somebody who saw `epoch`.
    fn clear(&self, by: &str, epoch: u64) -> SystemDecision;
}

/// What can be done to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steer {
    /// Switch it on.
    Activate,
    /// Switch it off.
    Deactivate,
    /// Refuse what is new for now.
    Pause,
    /// Let a paused agent go on.
    Resume,
}

/// What can be done to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStep {
    /// Begin.
    Start {
        /// A person sits at it.
        attended: bool,
    },
    /// It waits.
    Sleep,
    /// It goes on.
    Wake,
    /// It is done.
    Complete,
    /// Another full allowance.
    Extend,
}

/// Rules for one agent over those of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Its role.
    pub role: Option<Name>,
    /// What differs.
    pub policy: PolicyIn,
}

/// A key of an agent, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentKeyHash {
    /// Whose.
    pub agent: Name,
    /// SHA-256 of the key.
    pub sha256: [u8; 32],
}

/// What is seen of an agent.
#[derive(Clone, Debug)]
pub struct AgentView {
    /// Its name.
    pub name: Name,
    /// Whether it may work.
    pub standing: Standing,
    /// In thousandths.
    pub health: u16,
    /// What it is doing.
    pub activity: ActivityState,
    /// Its role.
    pub role: Option<Name>,
    /// Its rules in force.
    pub policy: std::sync::Arc<Policy>,
    /// What its latest request scored.
    pub score: Option<LoopFinding>,
    /// Requests under way.
    pub in_flight: usize,
    /// Settled today.
    pub spent_today: Amount,
    /// Settled this month.
    pub spent_this_month: Amount,
    /// Held for requests under way.
    pub reserved: Amount,
    /// Its runs.
    pub runs: Vec<RunView>,
}

/// What is seen of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunView {
    /// Its name; `None` = the implicit one.
    pub name: Option<Name>,
    /// Its state.
    pub state: RunState,
    /// A person sits at it.
    pub attended: bool,
    /// Test-then-fix cycles.
    pub iterations: u32,
    /// Tool calls.
    pub tool_calls: u32,
    /// Turns.
    pub turns: u32,
    /// Milliseconds in ACTIVE.
    pub active_ms: u64,
    /// What it spent.
    pub spent: Amount,
    /// It reached a limit.
    pub tripped: bool,
}

/// Why something cannot be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperatorError {
    /// There is no such agent.
    #[error("there is no agent {0}")]
    UnknownAgent(Name),
    /// It cannot be called so.
    #[error("an agent's name has letters, digits, `.`, `_` and `-`, at most 64, and is not `system`")]
    BadName,
    /// There is no room for one more.
    #[error("there are too many agents: raise limits.agents or remove some")]
    TooManyAgents,
    /// The rules do not fit together.
    #[error("the policy cannot be used: {0}")]
    BadPolicy(PolicyError),
    /// It is done, but it could not be written to the disk.
    #[error("done, but not on disk: {0}")]
    NotKept(String),
}
