//! Codex CLI 0.166. It runs the tool if anything in the answer is not to its liking: an unknown key, an empty reason,
//! `continue: false`, "ask", any exit code but 0 and 2. Hence no key more than needed.

use estop_core::fingerprint::ended_by_text;
use serde_json::json;

use super::answer::{HookAnswer, Plain, context};
use super::claude_code::{KEYS, before_prompt};
use super::payload::{Contract, Seen, text_or_json};
use super::{ClientContract, HookClient, HookError, HookEvent, HookIn, HookOut, Notice, ToolResult};

pub(super) const CLIENT: ClientContract = ClientContract {
    name: "codex",
    events: EVENTS,
    read,
    write,
    notice: Notice::Stderr,
    passes_on: |_| true,
    shell_tools: &["write_stdin"],
};

const EVENTS: &[(&str, HookEvent)] = &[
    ("SessionStart", HookEvent::SessionStarted),
    ("UserPromptSubmit", HookEvent::PromptSubmitted),
    ("PreToolUse", HookEvent::ToolRequested),
    ("PostToolUse", HookEvent::ToolFinished),
    ("Stop", HookEvent::TurnEnded),
    ("SubagentStop", HookEvent::SubagentEnded),
    ("SessionEnd", HookEvent::SessionEnded),
];

const CONTRACT: Contract =
    Contract { client: HookClient::Codex, keys: KEYS, inside: &[], said: |name| Some(name), result };

fn read(event: Option<&str>, stdin: &[u8]) -> Result<HookIn, HookError> {
    CONTRACT.read(event, stdin)
}

/// The text alone: a command that exits with 3 and one that exits with 0 look the same.
fn result(seen: &Seen<'_>, _: &str) -> ToolResult {
    let text = seen.result.as_ref().map(text_or_json).unwrap_or_default().into_owned();
    let ended = ended_by_text(&text);
    ToolResult { text, ended }
}

fn write(hook: &HookIn, out: &HookOut) -> HookAnswer {
    let plain = Plain::of(out);
    let name = hook.event_name.as_str();
    match hook.event {
        HookEvent::ToolRequested => before_tool(name, &plain),
        HookEvent::PromptSubmitted => before_prompt(name, &plain),
        // `continue: false` would only replace the tool's result.
        HookEvent::ToolFinished => context(name, plain.words().as_deref()),
        HookEvent::SessionStarted => match plain.reason_with_context() {
            // Ends the run before its first request. The only event where Codex takes it.
            Some(reason) => HookAnswer::json(&json!({"continue": false, "stopReason": reason})),
            None => context(name, plain.context.as_deref()),
        },
        // A "block" at the end of a turn makes it go on.
        HookEvent::TurnEnded | HookEvent::SubagentEnded | HookEvent::SessionEnded | HookEvent::Other => {
            HookAnswer::nothing()
        }
    }
}

/// It cannot end a run here: `continue: false`, even beside a denial, makes the answer invalid and the tool run.
fn before_tool(name: &str, plain: &Plain) -> HookAnswer {
    let Some(reason) = plain.reason_with_context() else {
        // Context alone: beside "allow" it is dropped.
        return context(name, plain.context.as_deref());
    };
    let answer = json!({"hookSpecificOutput": {
        "hookEventName": name,
        "permissionDecision": "deny",
        "permissionDecisionReason": reason,
    }});
    HookAnswer::refusal(&answer, &reason)
}
