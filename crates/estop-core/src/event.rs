//! What happened to an agent. Events carry ids, sizes, tokens and fingerprints, never raw prompts.
//!
//! Everything a judgement needs comes in here or with `now`: the gate word, the fleet's budget, the estimate
//! of the cost. An agent's journal therefore replays alone, on another machine, years later.

mod tokens;

use serde::{Deserialize, Serialize};

use crate::budget::{BudgetFinding, PeriodSpend};
pub use crate::ended::Ended;
use crate::fingerprint::step_words::StepWords;
use crate::fingerprint::{RequestFingerprint, ResponseFingerprint};
use crate::guard::Guard;
use crate::ids::{CallId, Hash64, Name, RequestId};
use crate::loop_detector::chant::Chant;
use crate::policy::{Policy, RunLimits};
use crate::system::{Channel, GateView};
use crate::tags::Tags;
use crate::trace_parent::TraceParent;
pub use tokens::{Estimate, Usage};

/// One event of one agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// The named run it belongs to; `None` = the agent's implicit run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Name>,
    /// What the gate word said.
    #[serde(default = "open", skip_serializing_if = "GateView::is_open")]
    pub gate: GateView,
    /// What happened.
    pub what: EventKind,
}

/// An open gate is the usual case and left out of the journal.
fn open() -> GateView {
    GateView::OPEN
}

impl Event {
    /// An event of the implicit run under an open gate: for recorded traces and tests. A live shell fills in what
    /// the gate word says.
    pub fn open(what: EventKind) -> Event {
        Event { run: None, gate: GateView::OPEN, what }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum EventKind {
    /// A request to a model arrived and asks to be forwarded.
    RequestReceived(RequestReceived),
    /// A forwarded request came to its end.
    ResponseCompleted(ResponseCompleted),
    /// A streamed answer has used this much so far.
    StreamProgressed(StreamProgressed),
    /// A forwarded request ended early.
    StreamAborted(StreamAborted),
    /// A streamed answer repeats itself (LD-6 e).
    ChantDetected(ChantDetected),
    /// A hook asks whether a tool may run.
    ToolRequested(ToolRequested),
    /// A hook reports what a tool did.
    ToolFinished(ToolFinished),
    /// A hook reports that a person submitted a prompt.
    PromptSubmitted,
    /// A run begins.
    RunStarted {
        /// Whether a person sits at it.
        attended: bool,
        /// What it is for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tags: Option<Box<Tags>>,
        /// Limits for this run alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<Box<RunLimits>>,
    },
    /// A run waits for something.
    RunSlept,
    /// A run goes on.
    RunWoke,
    /// A run is done.
    RunCompleted,
    /// A person lets a tripped run go on with another full allowance.
    RunExtended {
        /// Who.
        by: Name,
    },
    /// A message to the agent asks to be delivered.
    MessageIn {
        /// Which relay.
        relay: Name,
    },
    /// A message from the agent asks to be sent.
    MessageOut {
        /// Which relay.
        relay: Name,
    },
    /// New rules, from here on.
    PolicyChanged {
        /// Who.
        by: Name,
        /// The rules.
        policy: Box<Policy>,
    },
    /// A person switched the agent on.
    AgentActivated {
        /// Who.
        by: Name,
    },
    /// A person switched the agent off.
    AgentDeactivated {
        /// Who.
        by: Name,
    },
    /// A person paused the agent.
    AgentPaused {
        /// Who.
        by: Name,
    },
    /// A person let a paused agent go on.
    AgentResumed {
        /// Who.
        by: Name,
    },
    /// A person has a guard work as in shadow for a while (PO-7).
    GuardSnoozed {
        /// Who.
        by: Name,
        /// Which guard. One that always holds stays as it is.
        guard: Guard,
        /// For how long, from here on.
        for_ms: u64,
        /// When it ends by the clock on the wall, for people.
        until: i64,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<Name>,
    },
    /// A person has a guard work again.
    GuardWoken {
        /// Who.
        by: Name,
        /// Which guard.
        guard: Guard,
    },
    /// A person has the budget begin the present day and month, because it has seen later ones while the clock was ahead
    /// (PO-2). A budget that is in the present stays as it is.
    BudgetRenewed {
        /// Who.
        by: Name,
        /// What was spent in the present day and month.
        spent: PeriodSpend,
    },
    /// estop was not running for a while: what was under way is over, and nobody was active meanwhile.
    Restarted {
        /// How long it was away.
        away_ms: u64,
    },
    /// Time passed: see `poll_timeout`.
    Tick,
}

impl EventKind {
    /// The channel on which it asks to pass something; `None` if it only tells.
    pub fn channel(&self) -> Option<Channel> {
        match self {
            EventKind::RequestReceived(_) | EventKind::StreamProgressed(_) | EventKind::PromptSubmitted => {
                Some(Channel::Llm)
            }
            EventKind::ToolRequested(_) => Some(Channel::Tools),
            EventKind::MessageIn { .. } | EventKind::MessageOut { .. } => Some(Channel::Messaging),
            EventKind::ResponseCompleted(_)
            | EventKind::StreamAborted(_)
            | EventKind::ChantDetected(_)
            | EventKind::ToolFinished(_)
            | EventKind::RunStarted { .. }
            | EventKind::RunSlept
            | EventKind::RunWoke
            | EventKind::RunCompleted
            | EventKind::RunExtended { .. }
            | EventKind::PolicyChanged { .. }
            | EventKind::AgentActivated { .. }
            | EventKind::AgentDeactivated { .. }
            | EventKind::AgentPaused { .. }
            | EventKind::AgentResumed { .. }
            | EventKind::GuardSnoozed { .. }
            | EventKind::GuardWoken { .. }
            | EventKind::BudgetRenewed { .. }
            | EventKind::Restarted { .. }
            | EventKind::Tick => None,
        }
    }
}

/// A request to a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestReceived {
    /// Its number.
    pub request: RequestId,
    /// What it asks of the provider.
    #[serde(default, skip_serializing_if = "CallKind::is_generation")]
    pub call: CallKind,
    /// The model it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Name>,
    /// Other models it names: its path's where its body names another, and those that a router may take instead. All must be
    /// allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_models: Vec<Name>,
    /// Its path at the provider, where nobody knows what it costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Name>,
    /// What it says, as fingerprints.
    pub print: RequestFingerprint,
    /// What it may cost.
    pub estimate: Estimate,
    /// How the budget of the whole fleet stands, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<BudgetFinding>,
    /// What its run is for, if the client says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Box<Tags>>,
    /// Where it comes from and goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Box<Route>>,
}

/// Where a request comes from and goes to. Nothing is judged by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The provider, as the configuration calls it.
    pub provider: Name,
    /// Where it stands in its client's trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_parent: Option<TraceParent>,
}

/// What a request asks of the provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// Text, fingerprinted and watched.
    #[default]
    Generation,
    /// Embeddings: counted, not fingerprinted.
    Embedding,
    /// Any other path of the provider: under the same gates.
    Other,
}

impl CallKind {
    fn is_generation(&self) -> bool {
        *self == CallKind::Generation
    }
}

/// A forwarded request came to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResponseCompleted {
    /// Which request.
    pub request: RequestId,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Ended::is_ok")]
    pub ended: Ended,
    /// What it says, as fingerprints.
    pub print: ResponseFingerprint,
    /// What it used.
    pub usage: Usage,
    /// How long its first byte took, in milliseconds; `None` = nobody measured it. Nothing is judged by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_ms: Option<u32>,
}

/// A streamed answer has used this much so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamProgressed {
    /// Which request.
    pub request: RequestId,
    /// What it used until here, in all.
    pub usage: Usage,
    /// How the budget of the whole fleet stands, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<BudgetFinding>,
}

/// A forwarded request ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamAborted {
    /// Which request.
    pub request: RequestId,
    /// Who ended it.
    pub by: AbortedBy,
    /// What it used until then.
    pub usage: Usage,
}

/// Who ended a request early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbortedBy {
    /// The client went away.
    Client,
    /// The upstream broke off: an execution error.
    Upstream,
    /// A guard of this agent cut it.
    Guard,
    /// The red button.
    Kill,
}

/// A streamed answer repeats itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChantDetected {
    /// Which request.
    pub request: RequestId,
    /// What repeats.
    pub chant: Chant,
}

/// A hook asks whether a tool may run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolRequested {
    /// Which call.
    pub call: CallId,
    /// Which tool.
    pub tool: Name,
    /// Tool and arguments.
    pub action: Hash64,
    /// The command runs tests (CB-4).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub test_run: bool,
    /// Who saw it.
    #[serde(default, skip_serializing_if = "ToolGate::is_hook")]
    pub gate: ToolGate,
}

/// Who saw a tool call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolGate {
    /// A hook of the client: it sees all calls of its run.
    #[default]
    Hook,
    /// The gate before an MCP server: judged like any other, counted unless a hook or the latest answer showed it (CB-3).
    Mcp,
}

impl ToolGate {
    pub(crate) fn is_hook(&self) -> bool {
        *self == ToolGate::Hook
    }
}

/// A hook reports what a tool did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolFinished {
    /// Which call.
    pub call: CallId,
    /// What came out.
    pub result: Hash64,
    /// How it ended.
    pub ended: Ended,
    /// With it the agent reported that it is done or blocked; a tripped run is escalated then (CB-6).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reports: bool,
    /// Its words, to tell what is new in it.
    #[serde(default, skip_serializing_if = "StepWords::is_usual")]
    pub words: StepWords,
}
