//! Our own form, for frameworks without hooks of their own, for our plugins, and for `POST /api/hooks/…`:
//! `{agent, run, tool, args}` in (and `gate: "mcp"` from the gate before an MCP server), `{permission, reason, context, end}` out.

use estop_core::ended::Ended;
use estop_core::fingerprint::ended_by_text;
use serde_json::json;

use super::answer::{HookAnswer, Plain};
use super::payload::{Contract, Key, Seen, text_or_json};
use super::{ClientContract, HookClient, HookError, HookEvent, HookIn, HookOut, Notice, ToolResult};
use crate::json::Fields;

pub(super) const CLIENT: ClientContract = ClientContract {
    name: "generic",
    events: EVENTS,
    read: |event, stdin| read(HookClient::Generic, event, stdin),
    write,
    notice: Notice::Stderr,
    passes_on: |_| true,
    shell_tools: &[],
};

/// By our plugin, which passes on what is told beside an answer with the result of a tool only.
pub(super) const OPENCODE: ClientContract = ClientContract {
    name: "opencode",
    read: |event, stdin| read(HookClient::Opencode, event, stdin),
    passes_on: |event| matches!(event, HookEvent::ToolFinished),
    ..CLIENT
};

/// By our plugin, which passes it on nowhere.
pub(super) const OPENCLAW: ClientContract = ClientContract {
    name: "openclaw",
    read: |event, stdin| read(HookClient::OpenClaw, event, stdin),
    passes_on: |_| false,
    ..CLIENT
};

const EVENTS: &[(&str, HookEvent)] = &[
    ("session-start", HookEvent::SessionStarted),
    ("prompt-submit", HookEvent::PromptSubmitted),
    ("pre-tool-use", HookEvent::ToolRequested),
    ("post-tool-use", HookEvent::ToolFinished),
    ("turn-end", HookEvent::TurnEnded),
    ("subagent-end", HookEvent::SubagentEnded),
    ("session-end", HookEvent::SessionEnded),
];

const KEYS: &Fields<Key> = &[
    ("event", Key::EventName),
    ("agent", Key::Agent),
    ("run", Key::Run),
    ("session", Key::Session),
    ("subagent", Key::Subagent),
    ("cwd", Key::Cwd),
    ("transcript", Key::Transcript),
    ("model", Key::Model),
    ("prompt", Key::Prompt),
    ("tool", Key::Tool),
    ("args", Key::Args),
    ("call", Key::Call),
    ("result", Key::Result),
    ("exit_code", Key::ExitCode),
    ("failed", Key::Failed),
    ("last_words", Key::LastMessage),
    ("gate", Key::Gate),
];

fn read(client: HookClient, event: Option<&str>, stdin: &[u8]) -> Result<HookIn, HookError> {
    Contract { client, keys: KEYS, inside: &[], said: |name| Some(name), result }.read(event, stdin)
}

fn result(seen: &Seen<'_>, _: &str) -> ToolResult {
    let text = seen.result.as_ref().map(text_or_json).unwrap_or_default().into_owned();
    let ended = match (seen.failed, seen.exit_code) {
        (Some(true), _) => Ended::Failed,
        (_, Some(code)) if code != 0 => Ended::Failed,
        (Some(false), _) | (_, Some(_)) => Ended::Ok,
        (None, None) => ended_by_text(&text),
    };
    ToolResult { text, ended }
}

/// All keys are always there, so that a reader that finds one missing knows that something went wrong.
fn write(hook: &HookIn, out: &HookOut) -> HookAnswer {
    let plain = Plain::of(out);
    let answer = json!({
        "permission": if plain.reason.is_some() { "deny" } else { "allow" },
        "reason": plain.reason,
        "context": plain.context,
        "end": plain.ends,
    });
    match (hook.event, &plain.reason) {
        (HookEvent::ToolRequested | HookEvent::PromptSubmitted | HookEvent::SessionStarted, Some(reason)) => {
            HookAnswer::refusal(&answer, reason)
        }
        // What is over cannot be refused: the answer tells, the exit code does not.
        (
            HookEvent::ToolRequested
            | HookEvent::PromptSubmitted
            | HookEvent::SessionStarted
            | HookEvent::ToolFinished
            | HookEvent::TurnEnded
            | HookEvent::SubagentEnded
            | HookEvent::SessionEnded
            | HookEvent::Other,
            _,
        ) => HookAnswer::json(&answer),
    }
}
