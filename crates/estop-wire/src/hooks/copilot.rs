//! GitHub Copilot CLI 1.0. Its own payloads are in camel case and name no event; a hook registered as `PreToolUse`
//! gets a payload in Claude Code's form. It has no ids of tool calls and no way to end a run.

use estop_core::ended::Ended;
use serde_json::json;

use super::answer::{HookAnswer, Plain};
use super::payload::{Contract, Key, Seen, inner, last_exit_code, text_or_json};
use super::{
    ClientContract, HookClient, HookError, HookEvent, HookIn, HookOut, Notice, ToolResult, claude_code,
};

pub(super) const CLIENT: ClientContract = ClientContract {
    name: "copilot",
    events: EVENTS,
    read,
    write,
    notice: Notice::Stderr,
    passes_on: |_| true,
    // The same tool on Windows, and text typed into a shell that is open.
    shell_tools: &["powershell", "write_bash", "write_powershell"],
};

const EVENTS: &[(&str, HookEvent)] = &[
    ("sessionStart", HookEvent::SessionStarted),
    ("userPromptSubmitted", HookEvent::PromptSubmitted),
    ("preToolUse", HookEvent::ToolRequested),
    ("postToolUse", HookEvent::ToolFinished),
    ("postToolUseFailure", HookEvent::ToolFinished),
    ("agentStop", HookEvent::TurnEnded),
    ("subagentStop", HookEvent::SubagentEnded),
    ("sessionEnd", HookEvent::SessionEnded),
    ("PreToolUse", HookEvent::ToolRequested),
];

const CONTRACT: Contract = Contract {
    client: HookClient::Copilot,
    keys: &[
        ("sessionId", Key::Session),
        ("session_id", Key::Session),
        ("hook_event_name", Key::EventName),
        ("hookName", Key::EventName),
        ("cwd", Key::Cwd),
        ("workingDirectory", Key::Cwd),
        ("transcriptPath", Key::Transcript),
        ("prompt", Key::Prompt),
        ("toolName", Key::Tool),
        ("tool_name", Key::Tool),
        ("toolArgs", Key::Args),
        ("tool_input", Key::Args),
        ("toolResult", Key::Result),
        ("error", Key::Error),
    ],
    inside: &[],
    said: |name| Some(name),
    result,
};

fn read(event: Option<&str>, stdin: &[u8]) -> Result<HookIn, HookError> {
    CONTRACT.read(event, stdin)
}

/// `{"resultType": "success", "textResultForLlm": "…\n<shellId: 0 completed with exit code 3>"}`: a command that fails
/// is a "success" of the tool that ran it, so the last line decides.
fn result(seen: &Seen<'_>, name: &str) -> ToolResult {
    let raw = seen.result.or(seen.error);
    let text = raw.as_ref().map(|raw| {
        inner(raw, "textResultForLlm").as_ref().map_or_else(|| text_or_json(raw), text_or_json).into_owned()
    });
    let text = text.unwrap_or_default();
    let kind = raw.as_ref().and_then(|raw| inner(raw, "resultType"));
    let is_success = kind.is_none_or(|kind| text_or_json(&kind) == "success");
    let has_exit_code = last_exit_code(&text, "completed with exit code").is_some_and(|code| code != 0);
    let has_failed = name == "postToolUseFailure" || !is_success || has_exit_code;
    ToolResult { text, ended: if has_failed { Ended::Failed } else { Ended::Ok } }
}

fn write(hook: &HookIn, out: &HookOut) -> HookAnswer {
    // Asked in Claude Code's words, it takes Claude Code's answer. `continue: false` in it is ignored.
    if hook.event_name == "PreToolUse" {
        return claude_code::write(hook, out);
    }
    let plain = Plain::of(out);
    match hook.event {
        HookEvent::ToolRequested => match plain.reason_with_context() {
            // Flat, unlike Claude Code's. Exit code 2 keeps the reason; 1 would refuse, too, but lose it.
            Some(reason) => HookAnswer::refusal(
                &json!({"permissionDecision": "deny", "permissionDecisionReason": reason}),
                &reason,
            ),
            None => context(plain.context.as_deref()),
        },
        HookEvent::PromptSubmitted => match plain.reason_with_context() {
            Some(reason) => HookAnswer::refusal(&json!({"decision": "block", "reason": reason}), &reason),
            None => context(plain.context.as_deref()),
        },
        HookEvent::ToolFinished | HookEvent::SessionStarted => context(plain.words().as_deref()),
        // A "block" at the end of a turn makes it go on.
        HookEvent::TurnEnded | HookEvent::SubagentEnded | HookEvent::SessionEnded | HookEvent::Other => {
            HookAnswer::nothing()
        }
    }
}

fn context(text: Option<&str>) -> HookAnswer {
    text.map_or_else(HookAnswer::nothing, |text| HookAnswer::json(&json!({"additionalContext": text})))
}
