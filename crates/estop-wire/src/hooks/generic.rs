//! Our own form, for frameworks without hooks of their own, for our plugins, and for `POST /api/hooks/…`:
//! `{agent, run, tool, args}` in (and `gate: "mcp"` from the gate before an MCP server), `{permission, reason, context, end}` out.

use estop_core::ended::Ended;
use estop_core::fingerprint::ended_by_text;
use serde_json::json;

use super::answer::{HookAnswer, Plain};
use super::payload::{Contract, Key, Seen, text_or_json};
use super::{HookClient, HookError, HookEvent, HookIn, HookOut, ToolResult};
use crate::json::Fields;

pub(super) const EVENTS: &[(&str, HookEvent)] = &[
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
    ("last_words", Key::LastWords),
    ("gate", Key::Gate),
];

pub(super) fn read(client: HookClient, event: Option<&str>, stdin: &[u8]) -> Result<HookIn, HookError> {
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
pub(super) fn write(hook: &HookIn, out: &HookOut) -> HookAnswer {
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

/// Whether what we tell beside an answer reaches the agent. The form has a place for it everywhere, but opencode's plugin
/// passes it on with the result of a tool only, and OpenClaw's nowhere.
pub(super) fn passes_on(hook: &HookIn) -> bool {
    match hook.client {
        HookClient::Opencode => hook.event == HookEvent::ToolFinished,
        HookClient::OpenClaw => false,
        HookClient::ClaudeCode
        | HookClient::Codex
        | HookClient::GeminiCli
        | HookClient::Copilot
        | HookClient::Cline
        | HookClient::Qwen
        | HookClient::Cursor
        | HookClient::Generic => true,
    }
}
