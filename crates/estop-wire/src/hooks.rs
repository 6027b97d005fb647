//! Hooks of coding agents (TL-1): what a hook says, and our answer in exactly the words its client obeys.
//!
//! A client starts `estop hook <client> <event>`, writes JSON to it and reads its standard output, standard error and
//! exit code. Every client has its own contract, and in most of them a small mistake means that the tool runs:
//! [`read`] and [`write`](write()) are the only places that know these contracts. `docs/hooks.md` has the table.
//!
//! Fail closed: what cannot be read before a tool runs is answered with that client's refusal ([`refuse_unread`]);
//! what cannot be read at any other moment is answered with nothing, which no client minds.
//!
//! What it never does: read or write a file, wait, know the time, or judge.
//!
//! ```
//! use estop_wire::hooks::{self, HookClient, HookOut};
//!
//! let stdin = br#"{"session_id":"s1","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}"#;
//! let hook = hooks::read(HookClient::Codex, Some("PreToolUse"), stdin).expect("a good payload");
//! let answer = hooks::write(&hook, &HookOut::deny("max tool calls reached"));
//! assert_eq!(answer.exit_code, 2);
//! assert!(answer.stdout.contains(r#""permissionDecision":"deny""#));
//! ```

mod answer;
mod calls;
mod claude_code;
mod cline;
mod codex;
mod copilot;
mod cursor;
mod facts;
mod gemini_cli;
mod generic;
mod notice;
mod payload;
mod qwen;

use estop_core::ended::Ended;
use estop_core::event::ToolGate;

use crate::json::ReadError;

pub use answer::HookAnswer;
pub use calls::CallNumbers;
pub use facts::{Commands, HookFingerprint};
pub use notice::allow_and_tell;

/// More than this is not read: a refusal before a tool, nothing elsewhere. Tool results of a few megabytes are real
/// (they stand in payloads after a tool); at double the size reading would still take well under a second.
pub const PAYLOAD_BYTES_MAX: usize = 32 * 1024 * 1024;

/// A program whose hooks we answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookClient {
    /// Claude Code, and the Claude Agent SDK, which runs the same hooks.
    ClaudeCode,
    /// Codex CLI.
    Codex,
    /// Gemini CLI.
    GeminiCli,
    /// GitHub Copilot CLI.
    Copilot,
    /// Cline, as CLI and in the editor.
    Cline,
    /// Qwen Code.
    Qwen,
    /// Cursor. Its contract is documented, not measured: there is no program to run here.
    Cursor,
    /// opencode, through our plugin.
    Opencode,
    /// OpenClaw, through our plugin.
    OpenClaw,
    /// Every other framework: our own JSON, also `POST /api/hooks/…`.
    Generic,
}

impl HookClient {
    /// All of them.
    pub const ALL: [HookClient; 10] = [
        HookClient::ClaudeCode,
        HookClient::Codex,
        HookClient::GeminiCli,
        HookClient::Copilot,
        HookClient::Cline,
        HookClient::Qwen,
        HookClient::Cursor,
        HookClient::Opencode,
        HookClient::OpenClaw,
        HookClient::Generic,
    ];

    fn contract(self) -> &'static ClientContract {
        match self {
            HookClient::ClaudeCode => &claude_code::CLIENT,
            HookClient::Codex => &codex::CLIENT,
            HookClient::GeminiCli => &gemini_cli::CLIENT,
            HookClient::Copilot => &copilot::CLIENT,
            HookClient::Cline => &cline::CLIENT,
            HookClient::Qwen => &qwen::CLIENT,
            HookClient::Cursor => &cursor::CLIENT,
            HookClient::Opencode => &generic::OPENCODE,
            HookClient::OpenClaw => &generic::OPENCLAW,
            HookClient::Generic => &generic::CLIENT,
        }
    }

    /// Its name in `estop hook <client>`.
    pub fn name(self) -> &'static str {
        self.contract().name
    }

    /// The client of this name.
    pub fn from_name(name: &str) -> Option<HookClient> {
        HookClient::ALL.into_iter().find(|client| client.name() == name)
    }

    /// Its events, in its own words, and what each is to us. Events it has beside these are [`HookEvent::Other`].
    pub fn events(self) -> &'static [(&'static str, HookEvent)] {
        self.contract().events
    }
}

/// All we know of a client's hooks; each file beside this one has those of one client.
struct ClientContract {
    name: &'static str,
    events: &'static [(&'static str, HookEvent)],
    read: fn(Option<&str>, &[u8]) -> Result<HookIn, HookError>,
    write: fn(&HookIn, &HookOut) -> HookAnswer,
    notice: Notice,
    /// Whether what we tell beside an answer to this event reaches the agent, where the contract has a place for it.
    passes_on: fn(HookEvent) -> bool,
    /// Its shell-like tools, beside those the core knows by name.
    shell_tools: &'static [&'static str],
}

/// Where a word to the person goes, beside an answer that objects to nothing.
enum Notice {
    /// Into the key `systemMessage`.
    SystemMessage,
    /// To standard error.
    Stderr,
}

/// What a hook is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookEvent {
    /// A session begins or is resumed.
    SessionStarted,
    /// A person submitted a prompt: a turn (CB-3).
    PromptSubmitted,
    /// A tool is about to run. The only moment at which everything can be refused.
    ToolRequested,
    /// A tool ran, well or not.
    ToolFinished,
    /// The agent is done with its turn.
    TurnEnded,
    /// A sub-agent is done.
    SubagentEnded,
    /// The session is over.
    SessionEnded,
    /// Something we have no use for.
    Other,
}

/// What a hook said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookIn {
    /// Who said it.
    pub client: HookClient,
    /// What it is about.
    pub event: HookEvent,
    /// The event in the client's own words; some answers must repeat it.
    pub event_name: String,
    /// The client's session; empty if it has none.
    pub session: String,
    /// The agent, where the caller names one (our own form only).
    pub agent: Option<String>,
    /// The run, where the caller names one (our own form only).
    pub run: Option<String>,
    /// Which sub-agent inside the session, if the client tells.
    pub subagent: Option<String>,
    /// Where it works.
    pub cwd: Option<String>,
    /// Where the client keeps the conversation.
    pub transcript: Option<String>,
    /// The model it uses.
    pub model: Option<String>,
    /// The person's prompt.
    pub prompt: Option<String>,
    /// Who saw the tool call (our own form only: the gate before an MCP server uses it).
    pub gate: ToolGate,
    /// The tool call, before and after a tool.
    pub tool: Option<ToolCall>,
    /// What came of it, after a tool.
    pub result: Option<ToolResult>,
    /// The assistant's last words, at the end of a turn: the summary of a run that was stopped (CB-6).
    pub last_message: Option<String>,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The client's id of it. Gemini CLI and Copilot have none ([`CallNumbers`] helps).
    pub id: Option<String>,
    /// The tool's name as the client writes it.
    pub name: String,
    /// Its arguments as JSON text, as they came.
    pub args: String,
}

/// What came of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// What came out.
    pub text: String,
    /// How it ended, as far as the client tells. Codex never does.
    pub ended: Ended,
}

/// What we answer. There is no "ask a person": without a person Codex runs the tool then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookOut {
    /// Whether it may go on.
    pub verdict: HookVerdict,
    /// Something to tell the agent beside it: a warning (CB-2). Not every client passes it on at every event.
    pub context: Option<String>,
}

/// Whether it may go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookVerdict {
    /// We have no objection. The client's own rules and questions still hold: this is not its "allow".
    Allow,
    /// Not this tool, not this prompt.
    Deny {
        /// Why, and what to do now; shown to the model.
        reason: String,
    },
    /// Not this one, and the whole run ends, where the client can end it. Elsewhere the same as a denial.
    End {
        /// Why, and what to do now.
        reason: String,
    },
}

impl HookOut {
    /// No objection.
    pub fn allow() -> HookOut {
        HookOut { verdict: HookVerdict::Allow, context: None }
    }

    /// No objection, and something to tell the agent.
    pub fn warn(context: impl Into<String>) -> HookOut {
        HookOut { verdict: HookVerdict::Allow, context: Some(context.into()) }
    }

    /// Refused.
    pub fn deny(reason: impl Into<String>) -> HookOut {
        HookOut { verdict: HookVerdict::Deny { reason: reason.into() }, context: None }
    }

    /// Refused, and the run ends.
    pub fn end(reason: impl Into<String>) -> HookOut {
        HookOut { verdict: HookVerdict::End { reason: reason.into() }, context: None }
    }
}

/// Why a payload was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the payload of the hook {name} could not be read: {why}")]
pub struct HookError {
    /// The event as the command line names it.
    name: String,
    why: HookFault,
    /// Nobody can say that no tool is about to run.
    is_before_tool: bool,
}

/// What is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookFault {
    /// Not the JSON we expect.
    #[error(transparent)]
    Payload(#[from] ReadError),
    /// More than [`PAYLOAD_BYTES_MAX`].
    #[error("it has {0} bytes, at most {PAYLOAD_BYTES_MAX} are read")]
    TooLarge(usize),
    /// Neither the command line nor the payload names an event.
    #[error("it names no event: pass the event's name after the client's")]
    NoEvent,
    /// The command line names an event this client does not have.
    #[error("this client has no such event: run `estop install` again")]
    UnknownEvent,
    /// It did not arrive, or was not taken.
    #[error("{0}")]
    Lost(String),
    /// The command line and the payload name different events.
    #[error("it says it is of the event `{0}`: run `estop install` again")]
    OtherEvent(String),
}

impl HookError {
    /// Whether a tool may be waiting for the answer.
    pub fn is_before_tool(&self) -> bool {
        self.is_before_tool
    }

    /// What is wrong.
    pub fn why(&self) -> &HookFault {
        &self.why
    }
}

/// Reads what a client wrote to its hook. `event` is the name from the command line, if there is one.
pub fn read(client: HookClient, event: Option<&str>, stdin: &[u8]) -> Result<HookIn, HookError> {
    if stdin.len() > PAYLOAD_BYTES_MAX {
        return Err(error(client, event, None, HookFault::TooLarge(stdin.len())));
    }
    (client.contract().read)(event, stdin)
}

/// For a payload that nobody could read, because it did not arrive or was not taken.
pub fn lost(client: HookClient, event: Option<&str>, why: &str) -> HookError {
    error(client, event, None, HookFault::Lost(why.trim_end_matches('.').to_owned()))
}

/// Our answer in the client's contract.
pub fn write(hook: &HookIn, out: &HookOut) -> HookAnswer {
    (hook.client.contract().write)(hook, out)
}

/// The answer to a payload that could not be read: a refusal if a tool may be waiting for it, else nothing.
pub fn refuse_unread(client: HookClient, error: &HookError) -> HookAnswer {
    let (event, name) = match client.events().iter().find(|(_, event)| *event == HookEvent::ToolRequested) {
        Some((name, event)) if error.is_before_tool => (*event, *name),
        Some(_) | None => (HookEvent::Other, error.name.as_str()),
    };
    let reason = format!(
        "estop refused this tool call: {error}. Nothing is wrong with the call itself. Tell the person at the keyboard to run `estop doctor`."
    );
    write(&HookIn::empty(client, event, name), &HookOut::deny(reason))
}

impl HookIn {
    /// A hook that says nothing but its event.
    pub fn empty(client: HookClient, event: HookEvent, event_name: &str) -> HookIn {
        HookIn {
            client,
            event,
            event_name: event_name.to_owned(),
            session: String::new(),
            agent: None,
            run: None,
            subagent: None,
            cwd: None,
            transcript: None,
            model: None,
            prompt: None,
            gate: ToolGate::Hook,
            tool: None,
            result: None,
            last_message: None,
        }
    }

    /// Whether the agent hears what we tell it beside an answer to this event. Gemini CLI and Qwen Code drop it before a
    /// tool: a warning must wait for the event after it.
    pub fn hears_context(&self) -> bool {
        // What an MCP server answers passes as it is: nothing can be told beside it.
        self.gate == ToolGate::Hook
            && (self.client.contract().passes_on)(self.event)
            && write(self, &HookOut::warn("anything")) != write(self, &HookOut::allow())
    }
}

/// `event` is the command line's name, `said` the payload's. Fails closed: only a known name of another event is a
/// reason to believe that no tool is waiting.
fn error(client: HookClient, event: Option<&str>, said: Option<&str>, why: HookFault) -> HookError {
    let is_other = |name: &str| {
        client.events().iter().any(|(known, event)| *known == name && *event != HookEvent::ToolRequested)
    };
    let is_harmless = event.is_some_and(is_other) && said.is_none_or(is_other);
    let name = event.or(said).unwrap_or("(no name)").chars().take(64).collect();
    HookError { name, why, is_before_tool: !is_harmless }
}
