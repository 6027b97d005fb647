//! Cursor, by its documentation: it could not be run. `failClosed` in its settings makes every failure of the hook a
//! refusal.

use estop_core::ended::Ended;
use estop_core::fingerprint::ended_by_text;
use serde_json::json;

use super::answer::{HookAnswer, Plain};
use super::payload::{Contract, Key, Seen, result_by_event};
use super::{ClientContract, HookClient, HookError, HookEvent, HookIn, HookOut, Notice, ToolResult};

pub(super) const CLIENT: ClientContract = ClientContract {
    name: "cursor",
    events: EVENTS,
    read,
    write,
    notice: Notice::Stderr,
    passes_on: |_| true,
    shell_tools: &[],
};

const EVENTS: &[(&str, HookEvent)] = &[
    ("sessionStart", HookEvent::SessionStarted),
    ("beforeSubmitPrompt", HookEvent::PromptSubmitted),
    ("preToolUse", HookEvent::ToolRequested),
    ("postToolUse", HookEvent::ToolFinished),
    ("postToolUseFailure", HookEvent::ToolFinished),
    // Older versions have these alone. We register the ones above: both would count a call twice.
    ("beforeShellExecution", HookEvent::ToolRequested),
    ("beforeMCPExecution", HookEvent::ToolRequested),
    ("afterShellExecution", HookEvent::ToolFinished),
    ("afterMCPExecution", HookEvent::ToolFinished),
    ("stop", HookEvent::TurnEnded),
    ("subagentStop", HookEvent::SubagentEnded),
    ("sessionEnd", HookEvent::SessionEnded),
];

const CONTRACT: Contract = Contract {
    client: HookClient::Cursor,
    keys: &[
        ("conversation_id", Key::Session),
        ("hook_event_name", Key::EventName),
        ("transcript_path", Key::Transcript),
        ("workspace_roots", Key::Roots),
        ("cwd", Key::Cwd),
        ("model", Key::Model),
        ("prompt", Key::Prompt),
        ("tool_name", Key::Tool),
        ("tool_input", Key::Args),
        ("tool_use_id", Key::Call),
        ("command", Key::Command),
        ("tool_output", Key::Result),
        ("output", Key::Result),
        ("result_json", Key::Result),
        ("error_message", Key::Error),
        ("is_interrupt", Key::Interrupted),
    ],
    inside: &[],
    said: |name| Some(name),
    result,
};

fn read(event: Option<&str>, stdin: &[u8]) -> Result<HookIn, HookError> {
    CONTRACT.read(event, stdin)
}

/// Whether a failed command comes as a failure is not documented: only plain words in the text tell.
fn result(seen: &Seen<'_>, name: &str) -> ToolResult {
    let result = result_by_event(seen, name);
    match result.ended {
        Ended::Ok => ToolResult { ended: ended_by_text(&result.text), ..result },
        Ended::Failed | Ended::Unknown => result,
    }
}

fn write(hook: &HookIn, out: &HookOut) -> HookAnswer {
    let plain = Plain::of(out);
    match hook.event {
        HookEvent::ToolRequested => before_tool(hook, &plain),
        HookEvent::PromptSubmitted => HookAnswer::json(&match plain.reason_with_context() {
            Some(reason) => json!({"continue": false, "user_message": reason}),
            None => json!({"continue": true}),
        }),
        HookEvent::ToolFinished | HookEvent::SessionStarted => plain
            .words()
            .map_or_else(HookAnswer::nothing, |text| HookAnswer::json(&json!({"additional_context": text}))),
        // A `followup_message` at the end of a turn makes it go on.
        HookEvent::TurnEnded | HookEvent::SubagentEnded | HookEvent::SessionEnded | HookEvent::Other => {
            HookAnswer::nothing()
        }
    }
}

fn before_tool(hook: &HookIn, plain: &Plain) -> HookAnswer {
    if let Some(reason) = plain.reason_with_context() {
        // Exit code 0: with 2 it refuses as well, but the documentation does not say that it reads the messages then.
        let answer = json!({"permission": "deny", "user_message": reason, "agent_message": reason});
        return HookAnswer::json(&answer);
    }
    // No place for a warning is documented here: it must be given after the tool. Before a shell command "allow" could
    // answer the question the person should be asked; `{}` has no opinion.
    HookAnswer::json(&match hook.event_name.as_str() {
        "preToolUse" => json!({"permission": "allow"}),
        _ => json!({}),
    })
}
