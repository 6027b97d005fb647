//! What people may do to a running estop, and what they see of it: the seam between those who steer and those who act.
//!
//! The admin plane speaks to this trait and to nothing behind it. Nothing here waits for a database.

mod background;
mod evidence;
mod hook;
mod recording;
mod watched;

use crate::agent::standing::Standing;
use crate::agent::status::AgentStatus;
use crate::budget::{Amount, PeriodSpend};
use crate::decision::Decision;
use crate::engine::Snooze;
use crate::event::EventKind;
use crate::guard::Guard;
use crate::ids::Name;
use crate::loop_detector::LoopFinding;
use crate::policy::{BudgetPolicy, Policy, Preset, RunLimits};
use crate::policy_file::{PolicyError, PolicyIn};
use crate::run::RunView;
use crate::system::button::{Latched, Press, Unlock};
use crate::system::proof_test::{ProofTest, ProofTestError, ProofTests};
use crate::system::{CaseChange, GateView, SystemDecision};
use crate::tags::Tags;
use crate::tripwire::activity::ActivityState;

pub use background::{BackgroundJob, BackgroundState, BackgroundWork};
pub use evidence::{Excerpt, InFlightStep, IncidentSteps, KeptStep, StepCounts, StepEnd, ToolUse};
pub use hook::{HOOK_BODY_MAX, HookCall, HookFault, HookReply};
pub use recording::{NewRecording, OnLine, RECORDING_LINE_MAX, Recording, RecordingLine, RecordingView};
pub use watched::{OnEnd, Watch, Watched};

/// How `access_changed` begins where somebody made an admin token over the owner's socket without having one: people are
/// told of it, since it is the way to unlock the button without the token that is asked for (KS-5).
pub const ADMIN_TOKEN_BY_OWNER: &str = "admin token made over the owner's socket";

/// Variables of the configuration that programs under it do not get as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WithheldVariables {
    /// They hold keys which estop injects: programs get a placeholder instead.
    pub provider_keys: Vec<String>,
    /// They hold other secrets of estop: programs do not get them.
    pub others: Vec<String>,
}

/// What can be done to a running estop.
pub trait Operator: Send + Sync {
    /// Which variables programs under it do not get as they are.
    fn withheld_variables(&self) -> WithheldVariables {
        WithheldVariables::default()
    }

    /// Every agent, in order of name.
    fn agents(&self) -> Vec<AgentView>;

    /// One agent.
    fn agent(&self, name: &str) -> Option<AgentView>;

    /// Whether it is active, without asking what its next request would get.
    fn standing(&self, name: &str) -> Option<Standing> {
        self.agent(name).map(|agent| agent.standing)
    }

    /// One that has no place in memory, as its state was stored; it stays where it is. May read the disk.
    fn agent_at_rest(&self, _name: &str) -> Option<AgentView> {
        None
    }

    /// An agent's name as it is kept. Names that differ in case alone are one agent's, and the first spelling stays.
    fn canonical(&self, name: &str) -> Name {
        name.into()
    }

    /// A person added this agent: it may call where unknown agents may not.
    fn name_agent(&self, _name: &str) {}

    /// Makes an agent known before it calls.
    fn add_agent(&self, name: &str) -> Result<AgentView, OperatorError>;

    /// An agent was deleted: it gives its place back as soon as nothing of it is under way.
    fn release_agent(&self, _name: &str) {}

    /// Switches an agent on or off, pauses it or lets it go on. On the disk before it returns.
    fn steer(&self, agent: &str, steer: AgentCommand, by: &str) -> Result<AgentView, OperatorError>;

    /// Puts rules over those of the configuration; `None` takes them away again. On the disk before it returns.
    fn set_overrides(&self, agent: &str, overrides: Overrides, by: &str) -> Result<AgentView, OperatorError>;

    /// Whether overrides would do for an agent, without setting them.
    fn check_overrides(&self, agent: Option<&str>, overrides: &Overrides) -> Result<(), OperatorError>;

    /// Sets everybody's preset over the configuration's; `None` = the configuration decides. On the disk before it returns.
    fn set_preset(&self, preset: Option<Preset>, by: &str) -> Result<(), OperatorError>;

    /// Has a guard of an agent work as in shadow for a while. On the disk before it returns.
    fn snooze(&self, agent: &str, snooze: NewSnooze, by: &str) -> Result<AgentView, OperatorError>;

    /// Has a snoozed guard work again. On the disk before it returns.
    fn wake_guard(&self, agent: &str, guard: Guard, by: &str) -> Result<AgentView, OperatorError>;

    /// Has an agent's budget begin the present day and month, if it has seen later ones. On the disk before it returns.
    fn renew_budget(&self, agent: &str, spent: PeriodSpend, by: &str) -> Result<AgentView, OperatorError>;

    /// The same for the account of all agents together.
    fn renew_fleet_budget(&self, spent: PeriodSpend, by: &str) -> Result<FleetView, OperatorError>;

    /// How the account of all agents together stands.
    fn fleet(&self) -> FleetView;

    /// Starts a run or changes its state. The decision says whether it was allowed.
    fn run(&self, agent: &str, run: &str, step: RunStep, by: &str) -> Result<Decision, OperatorError>;

    /// Answers a hook of a coding agent. Answers quickly: a tool, and maybe a person, waits for it.
    fn hook(&self, call: HookCall<'_>) -> HookReply;

    /// Whose key this is the SHA-256 of.
    fn key_owner(&self, _sha256: [u8; 32]) -> Option<Name> {
        None
    }

    /// Whose ticket this is the SHA-256 of: agent and run.
    fn ticket(&self, _sha256: [u8; 32]) -> Option<(Name, Name)> {
        None
    }

    /// The keys agents may use from here on, beside those of the configuration.
    fn set_keys(&self, keys: Vec<AgentKeyHash>);

    /// Records an agent's requests and answers, line by line, until what it gives is dropped, the time is over or there is enough.
    /// Its beginning is on the disk before it returns.
    fn record(&self, new: NewRecording, by: &str, on_line: OnLine) -> Result<Recording, OperatorError>;

    /// Ends the recording of an agent: what was said before is still sent. Whether there was one.
    fn end_recording(&self, _agent: &str) -> bool {
        false
    }

    /// The recordings under way.
    fn recordings(&self) -> Vec<RecordingView> {
        Vec::new()
    }

    /// Writes down that a token or a key was made or taken back, or that other people are told. On the disk before it returns.
    fn access_changed(&self, what: &str, by: &str);

    /// Somebody acknowledged, resolved or wrote down something about an incident or an escalation. On the disk before it
    /// returns; the store has it once [`Operator::is_stored`] says so.
    fn change_case(&self, change: CaseChange, by: &str) -> Result<(), OperatorError>;

    /// Whether everything that was done so far is on the disk. May wait for it.
    fn is_kept(&self) -> bool;

    /// Waits until the store has what people did so far, with all that happened before it; not for ever. Whether it has.
    fn is_stored(&self) -> bool {
        true
    }

    /// Why nothing new passes, pressed button or not.
    fn journal_failure(&self) -> Option<JournalFailure> {
        None
    }

    /// Whether estop was told to end: nothing new is taken, and what is in progress may end.
    fn is_ending(&self) -> bool {
        false
    }

    /// Parts of estop that have stopped to run.
    fn stuck_parts(&self) -> Vec<StuckPart> {
        Vec::new()
    }

    /// Syncs the journal; the newest record, or `None` if the disk does not take it.
    fn checkpoint(&self) -> Option<u64> {
        None
    }

    /// The gate.
    fn gate(&self) -> GateView;

    /// How the button stands, and who brought it about.
    fn button(&self) -> Latched;

    /// Whether a press of the button is in force, of everything or of single channels. What the configuration shuts is none.
    fn is_pressed(&self) -> bool {
        self.gate().is_pressed()
    }

    /// Presses the button: the gate is shut before anything else is tried, and nothing undoes that.
    fn kill(&self, press: Press) -> Stopped;

    /// SHUTDOWN → SAFE_MODE, by somebody who saw an epoch. On the disk before it is so.
    fn restart(&self, unlock: Unlock) -> Result<SystemDecision, OperatorError>;

    /// SAFE_MODE → RUNNING, by somebody who saw an epoch. On the disk before the gate opens.
    fn clear(&self, unlock: Unlock) -> Result<SystemDecision, OperatorError>;

    /// Somebody is there: the dead man's switch waits anew. `false` if there is none.
    fn heartbeat(&self) -> bool;

    /// Tries out the stop on a canary, without stopping anybody else. Takes seconds.
    fn proof_test(&self, by: &str) -> Result<ProofTest, ProofTestError>;

    /// When the stop was last tried out.
    fn proof_tests(&self) -> ProofTests;

    /// What is under way, and a kill would end.
    fn under_way(&self) -> EndedWork;

    /// Work that goes on at providers, and what became of it after a stop.
    fn background(&self) -> BackgroundWork {
        BackgroundWork::default()
    }

    /// Why the steps of an incident could not be saved; `None` if nothing is known of that.
    fn steps_unsaved(&self, _incident: &str) -> Option<String> {
        None
    }

    /// Drops the steps of an incident that wait to be saved, for somebody who deletes them; whose they were, if there were any.
    fn forget_unsaved(&self, _incident: &str, _by: &str) -> Option<Name> {
        None
    }

    /// Grows with everything that happens: whoever saw the same number before has missed nothing.
    fn pulse(&self) -> u64;

    /// What presses the button besides people, and whether each would.
    fn triggers(&self) -> Vec<TriggerView>;

    /// Something runs outside of this process: `on_end` is told when it must end, for as long as the result is held.
    fn watch(&self, who: Watched, on_end: OnEnd) -> Result<Watch, OperatorError>;
}

/// Why what is decided cannot be written down: nothing passes unwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalFailure {
    /// The disk failed: it stays so until the next start.
    Failed,
    /// The store takes nothing for now.
    Stuck,
    /// Somebody removed, cut or replaced a file of the data directory: it stays so until the next start.
    FilesLost,
}

impl JournalFailure {
    /// What people must know of it.
    pub fn text(self) -> &'static str {
        match self {
            JournalFailure::Failed => {
                "The journal could not be written: every request is refused until estop is started again. Look at the disk first."
            }
            JournalFailure::Stuck => {
                "The store does not take the journal: every request is refused until it does. Look at the disk."
            }
            JournalFailure::FilesLost => {
                "A file of the data directory was removed, cut or replaced while estop runs: what is written is lost, and every request is refused. estop's log and the button's note name the file. Put a backup back (`estop restore`) or look at what is left, then start estop again."
            }
        }
    }
}

/// A part of estop that does not run any more (KS-11). Kills work all the same; what it serves stands still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckPart {
    /// Which one: `worker 0`, `sweeper`, `timer`, `journal writer`.
    pub name: Name,
    /// For how long it has not run.
    pub silent_ms: u64,
}

impl StuckPart {
    /// What people must know of it.
    pub fn text(&self) -> String {
        format!(
            "{} has not run for {} s: what it serves stands still. Kills still work. Look at the disk and the CPU, then restart estop.",
            self.name,
            self.silent_ms / 1_000
        )
    }
}

/// What a kill did, and how long each part took (KS-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// What the system decided.
    pub decision: SystemDecision,
    /// What was under way and is ended.
    pub ended: EndedWork,
    /// Until the gate was shut, in microseconds.
    pub gate_us: u64,
    /// Until everything under way was told to end.
    pub cut_us: u64,
    /// Until it was on the disk; `None` = it is not: it holds, but a restart would not know of it.
    pub kept_us: Option<u64>,
}

/// What is seen of a trigger of the button.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerView {
    /// As the configuration names it.
    pub name: Name,
    /// It would press the button.
    pub working: bool,
    /// How it is pressed, or why it does not work.
    pub what: Name,
    /// Since when it is so, by the wall clock.
    pub since: i64,
}

/// What was under way and is ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndedWork {
    /// Requests to models.
    pub model_calls: usize,
    /// Tools: process trees and calls.
    pub tools: usize,
    /// Messages.
    pub messages: usize,
}

/// What can be done to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentCommand {
    /// Switch it on.
    Activate,
    /// Switch it off.
    Deactivate,
    /// Refuse what is new for now.
    Pause,
    /// Let a paused agent go on.
    Resume,
}

/// A guard that is to work as in shadow for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSnooze {
    /// Which.
    pub guard: Guard,
    /// For how long.
    pub for_ms: u64,
    /// When it ends by the clock on the wall.
    pub until: i64,
    /// Why.
    pub note: Option<Name>,
}

/// The account of all agents together (PO-2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetView {
    /// Its caps.
    pub caps: BudgetPolicy,
    /// Settled today.
    pub spent_today: Amount,
    /// Settled this month.
    pub spent_this_month: Amount,
    /// Held for requests under way.
    pub reserved: Amount,
    /// The latest day its budget has seen, in days since 1970, if that is more than a day after the present one: the clock
    /// was ahead.
    pub latest_day: Option<i32>,
}

/// What can be done to a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunStep {
    /// Begin.
    Start {
        /// A person sits at it.
        attended: bool,
        /// What it is for.
        tags: Tags,
        /// Limits for this run alone.
        limits: RunLimits,
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
    /// Whether it may work at all.
    pub standing: Standing,
    /// What its next request would get.
    pub status: AgentStatus,
    /// Whether it ever asked for anything, or a run of it began.
    pub has_acted: bool,
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
    /// The latest day its budget has seen, in days since 1970, if that is more than a day after the present one: the clock
    /// was ahead.
    pub budget_latest_day: Option<i32>,
    /// Its runs.
    pub runs: Vec<RunView>,
    /// Guards that work as in shadow for a while.
    pub snoozes: Vec<Snooze>,
}

impl RunStep {
    /// What happened, told by `by`.
    pub fn into_event(self, by: &str) -> EventKind {
        match self {
            RunStep::Start { attended, tags, limits } => EventKind::RunStarted {
                attended,
                tags: (!tags.is_empty()).then(|| Box::new(tags)),
                limits: (!limits.is_empty()).then(|| Box::new(limits)),
            },
            RunStep::Sleep => EventKind::RunSlept,
            RunStep::Wake => EventKind::RunWoke,
            RunStep::Complete => EventKind::RunCompleted,
            RunStep::Extend => EventKind::RunExtended { by: by.into() },
        }
    }
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
    /// It is being recorded already.
    #[error("there is a recording of {agent} already, by {by}: end that one first")]
    Recorded {
        /// Which agent.
        agent: Name,
        /// Who records it.
        by: Name,
    },
    /// It must not run: why.
    #[error("{0}")]
    MustNotRun(String),
    /// There is no room for one more that is watched.
    #[error("too many programs are watched already: end some first")]
    TooManyWatched,
    /// It is done, but it could not be written to the disk.
    #[error("done, but not on disk: {0}")]
    NotPersisted(String),
}
