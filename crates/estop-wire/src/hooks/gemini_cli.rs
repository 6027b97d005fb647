//! Gemini CLI 0.61. It has no ids of tool calls, and its own names of events.

use estop_core::ended::Ended;
use serde_json::{Value, json};

use super::answer::{HookAnswer, Plain, context};
use super::claude_code::KEYS;
use super::payload::{Contract, Seen, inner, last_exit_code, text_or_json};
use super::{ClientContract, HookClient, HookError, HookEvent, HookIn, HookOut, Notice, ToolResult};

pub(super) const CLIENT: ClientContract = ClientContract {
    name: "gemini-cli",
    events: EVENTS,
    read,
    write,
    notice: Notice::SystemMessage,
    passes_on: |_| true,
    shell_tools: &[],
};

const EVENTS: &[(&str, HookEvent)] = &[
    ("SessionStart", HookEvent::SessionStarted),
    ("BeforeAgent", HookEvent::PromptSubmitted),
    ("BeforeTool", HookEvent::ToolRequested),
    ("AfterTool", HookEvent::ToolFinished),
    ("AfterAgent", HookEvent::TurnEnded),
    ("SessionEnd", HookEvent::SessionEnded),
];

const CONTRACT: Contract =
    Contract { client: HookClient::GeminiCli, keys: KEYS, inside: &[], said: |name| Some(name), result };

fn read(event: Option<&str>, stdin: &[u8]) -> Result<HookIn, HookError> {
    CONTRACT.read(event, stdin)
}

/// `{"llmContent": "Output: …\nExit Code: 3\n…", "returnDisplay": …, "error"?: …}`. A command that worked has no line
/// `Exit Code`.
fn result(seen: &Seen<'_>, _: &str) -> ToolResult {
    let Some(raw) = &seen.result else {
        return ToolResult { text: String::new(), ended: Ended::Unknown };
    };
    let text = inner(raw, "llmContent").as_ref().map_or_else(|| text_or_json(raw), text_or_json).into_owned();
    let has_error = inner(raw, "error").is_some_and(|error| error.text != "null");
    let ended = ended_by_lines(&text, has_error);
    ToolResult { text, ended }
}

/// Shared with Qwen Code, whose shell tool writes the same lines.
pub(super) fn ended_by_lines(text: &str, has_error: bool) -> Ended {
    let has_failed = has_error || last_exit_code(text, "Exit Code:").is_some_and(|code| code != 0);
    if has_failed { Ended::Failed } else { Ended::Ok }
}

fn write(hook: &HookIn, out: &HookOut) -> HookAnswer {
    let plain = Plain::of(out);
    let name = hook.event_name.as_str();
    match hook.event {
        // Context before a tool is ignored, so a warning here is lost: it must be given after the tool.
        HookEvent::ToolRequested => refusal(&plain).unwrap_or_else(HookAnswer::nothing),
        HookEvent::PromptSubmitted => {
            refusal(&plain).unwrap_or_else(|| context(name, plain.context.as_deref()))
        }
        HookEvent::ToolFinished => match &plain.reason {
            // The loop ends here; the tool's result stays.
            Some(reason) if plain.ends => HookAnswer::json(&json!({"continue": false, "stopReason": reason})),
            // Not `decision: "deny"`: that would hide the result of what was done.
            Some(_) | None => context(name, plain.words().as_deref()),
        },
        HookEvent::SessionStarted => context(name, plain.words().as_deref()),
        // A "deny" after the agent's turn makes it try again.
        HookEvent::TurnEnded | HookEvent::SubagentEnded | HookEvent::SessionEnded | HookEvent::Other => {
            HookAnswer::nothing()
        }
    }
}

fn refusal(plain: &Plain) -> Option<HookAnswer> {
    let reason = plain.reason_with_context()?;
    let mut answer: Value = json!({"decision": "deny", "reason": reason});
    if plain.ends {
        answer["continue"] = json!(false);
        answer["stopReason"] = json!(reason);
    }
    Some(HookAnswer::refusal(&answer, &reason))
}
