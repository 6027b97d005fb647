//! Qwen Code 0.24: a relative of Gemini CLI that took over Claude Code's events.

use estop_core::ended::Ended;
use serde_json::json;

use super::answer::{HookAnswer, Plain, context};
use super::claude_code::{KEYS, before_prompt};
use super::gemini_cli::ended_by_lines;
use super::payload::{Contract, Seen, result_by_event};
use super::{ClientContract, HookClient, HookError, HookEvent, HookIn, HookOut, Notice, ToolResult};

pub(super) const CLIENT: ClientContract = ClientContract {
    name: "qwen",
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
    ("PostToolUse", HookEvent::ToolFinished),
    ("PostToolUseFailure", HookEvent::ToolFinished),
    ("Stop", HookEvent::TurnEnded),
    ("SubagentStop", HookEvent::SubagentEnded),
    // Not seen without a terminal.
    ("SessionEnd", HookEvent::SessionEnded),
];

const CONTRACT: Contract =
    Contract { client: HookClient::Qwen, keys: KEYS, inside: &[], said: |name| Some(name), result };

fn read(event: Option<&str>, stdin: &[u8]) -> Result<HookIn, HookError> {
    let mut hook = CONTRACT.read(event, stdin)?;
    // It sends UserPromptSubmit again with an empty prompt after each tool result: nobody's turn.
    let is_empty = hook.prompt.as_deref().is_none_or(|prompt| prompt.trim().is_empty());
    if hook.event == HookEvent::PromptSubmitted && is_empty {
        hook.event = HookEvent::Other;
    }
    Ok(hook)
}

fn result(seen: &Seen<'_>, name: &str) -> ToolResult {
    let result = result_by_event(seen, name);
    match result.ended {
        Ended::Ok => ToolResult { ended: ended_by_lines(&result.text, false), ..result },
        Ended::Failed | Ended::Unknown => result,
    }
}

fn write(hook: &HookIn, out: &HookOut) -> HookAnswer {
    let plain = Plain::of(out);
    let name = hook.event_name.as_str();
    match hook.event {
        HookEvent::ToolRequested => before_tool(name, &plain),
        HookEvent::PromptSubmitted => before_prompt(name, &plain),
        HookEvent::ToolFinished | HookEvent::SessionStarted => context(name, plain.words().as_deref()),
        // A "block" at the end of a turn makes it go on.
        HookEvent::TurnEnded | HookEvent::SubagentEnded | HookEvent::SessionEnded | HookEvent::Other => {
            HookAnswer::nothing()
        }
    }
}

fn before_tool(name: &str, plain: &Plain) -> HookAnswer {
    // Context before a tool is ignored: a warning must be given after the tool.
    let Some(reason) = plain.reason_with_context() else { return HookAnswer::nothing() };
    let answer = json!({"hookSpecificOutput": {
        "hookEventName": name,
        "permissionDecision": "deny",
        "permissionDecisionReason": reason,
    }});
    HookAnswer::refusal(&answer, &reason)
}
