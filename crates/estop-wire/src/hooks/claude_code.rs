//! Claude Code 2.1, and the Claude Agent SDK. All answers below were seen to work (docs/hooks.md).

use serde_json::json;

use super::answer::{HookAnswer, Plain, context};
use super::payload::{Contract, Key, result_by_event};
use super::{ClientContract, HookClient, HookError, HookEvent, HookIn, HookOut, Notice};
use crate::json::Fields;

pub(super) const CLIENT: ClientContract = ClientContract {
    name: "claude-code",
    events: EVENTS,
    read,
    write,
    notice: Notice::SystemMessage,
    passes_on: |_| true,
    shell_tools: &[],
};

const EVENTS: &[(&str, HookEvent)] = &[
    ("SessionStart", HookEvent::SessionStarted),
    ("UserPromptSubmit", HookEvent::PromptSubmitted),
    ("PreToolUse", HookEvent::ToolRequested),
    // Fires for what worked only; a command that exits with 1 comes as the next one.
    ("PostToolUse", HookEvent::ToolFinished),
    ("PostToolUseFailure", HookEvent::ToolFinished),
    ("Stop", HookEvent::TurnEnded),
    ("StopFailure", HookEvent::TurnEnded),
    ("SubagentStop", HookEvent::SubagentEnded),
    ("SessionEnd", HookEvent::SessionEnded),
];

/// The keys of Claude Code and of those who follow it: Codex, Gemini CLI, Qwen Code, Copilot's second form.
pub(super) const KEYS: &Fields<Key> = &[
    ("session_id", Key::Session),
    ("hook_event_name", Key::EventName),
    ("transcript_path", Key::Transcript),
    ("cwd", Key::Cwd),
    ("model", Key::Model),
    ("prompt", Key::Prompt),
    ("tool_name", Key::Tool),
    ("tool_input", Key::Args),
    ("tool_use_id", Key::Call),
    ("tool_response", Key::Result),
    ("error", Key::Error),
    ("is_interrupt", Key::Interrupted),
    ("last_assistant_message", Key::LastMessage),
    ("agent_id", Key::Subagent),
];

const CONTRACT: Contract = Contract {
    client: HookClient::ClaudeCode,
    keys: KEYS,
    inside: &[],
    said: |name| Some(name),
    result: result_by_event,
};

fn read(event: Option<&str>, stdin: &[u8]) -> Result<HookIn, HookError> {
    CONTRACT.read(event, stdin)
}

pub(super) fn write(hook: &HookIn, out: &HookOut) -> HookAnswer {
    let plain = Plain::of(out);
    let name = hook.event_name.as_str();
    match hook.event {
        HookEvent::ToolRequested => before_tool(name, &plain),
        HookEvent::PromptSubmitted => before_prompt(name, &plain),
        HookEvent::ToolFinished => after_tool(name, &plain),
        // `continue: false` is ignored here; the prompt and the tools that follow are refused.
        HookEvent::SessionStarted => context(name, plain.words().as_deref()),
        // A "block" here means "go on working": the opposite of a stop. So never anything.
        HookEvent::TurnEnded | HookEvent::SubagentEnded | HookEvent::SessionEnded | HookEvent::Other => {
            HookAnswer::nothing()
        }
    }
}

fn before_tool(name: &str, plain: &Plain) -> HookAnswer {
    let Some(reason) = plain.reason_with_context() else {
        // Not `permissionDecision: "allow"`: that would also answer the question the person should be asked.
        return context(name, plain.context.as_deref());
    };
    let mut answer = json!({"hookSpecificOutput": {
        "hookEventName": name,
        "permissionDecision": "deny",
        "permissionDecisionReason": reason,
    }});
    if plain.ends {
        // Alone it would let this tool run and stop afterwards; beside a denial it stops at once.
        answer["continue"] = json!(false);
        answer["stopReason"] = json!(reason);
    }
    HookAnswer::refusal(&answer, &reason)
}

/// Shared with Codex, Copilot and Qwen Code: no request to the model is made.
pub(super) fn before_prompt(name: &str, plain: &Plain) -> HookAnswer {
    match plain.reason_with_context() {
        Some(reason) => HookAnswer::refusal(&json!({"decision": "block", "reason": reason}), &reason),
        None => context(name, plain.context.as_deref()),
    }
}

fn after_tool(name: &str, plain: &Plain) -> HookAnswer {
    match &plain.reason {
        // Seen to stop after a tool that worked; after one that failed it is ignored, so there it is said as text.
        Some(reason) if plain.ends && name == "PostToolUse" => {
            HookAnswer::json(&json!({"continue": false, "stopReason": reason}))
        }
        // What ran cannot be refused any more: the model is told.
        Some(_) | None => context(name, plain.words().as_deref()),
    }
}
