//! Cline 3: a file for each event in its folder of hooks. It reads the JSON and nothing else: exit code 2 without it
//! lets the tool run, and a refusal ends the whole run.

use estop_core::ended::Ended;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::answer::{HookAnswer, Plain};
use super::payload::{Contract, Key, Seen, text_or_json};
use super::{ClientContract, HookClient, HookError, HookEvent, HookIn, HookOut, Notice, ToolResult};
use crate::response::field::{Maybe, each_element};

pub(super) const CLIENT: ClientContract = ClientContract {
    name: "cline",
    events: EVENTS,
    read,
    write,
    notice: Notice::Stderr,
    passes_on: |_| true,
    shell_tools: &[],
};

const EVENTS: &[(&str, HookEvent)] = &[
    ("TaskStart", HookEvent::SessionStarted),
    ("TaskResume", HookEvent::SessionStarted),
    ("UserPromptSubmit", HookEvent::PromptSubmitted),
    ("PreToolUse", HookEvent::ToolRequested),
    ("PostToolUse", HookEvent::ToolFinished),
    ("TaskComplete", HookEvent::TurnEnded),
    ("TaskError", HookEvent::TurnEnded),
    ("TaskCancel", HookEvent::SessionEnded),
    ("SessionShutdown", HookEvent::SessionEnded),
];

const CONTRACT: Contract = Contract {
    client: HookClient::Cline,
    keys: &[
        ("taskId", Key::Session),
        ("hookName", Key::EventName),
        ("agent_id", Key::Subagent),
        ("workspaceRoots", Key::Roots),
        ("sessionContext", Key::Inside(0)),
        ("turn", Key::Inside(1)),
        // The call in full (CLI).
        ("tool_call", Key::Inside(2)),
        ("tool_result", Key::Inside(3)),
        // The same with every argument as a text (CLI and editor).
        ("preToolUse", Key::Inside(4)),
        ("postToolUse", Key::Inside(5)),
        ("userPromptSubmit", Key::Inside(6)),
    ],
    inside: &[
        ("rootSessionId", Key::Root),
        ("outputText", Key::LastMessage),
        ("id", Key::Call),
        ("name", Key::Tool),
        ("toolName", Key::Tool),
        ("input", Key::Args),
        ("parameters", Key::PlainArgs),
        ("output", Key::Result),
        ("result", Key::PlainResult),
        ("success", Key::Succeeded),
        ("prompt", Key::Prompt),
    ],
    said: |name| {
        Some(match name {
            "agent_start" => "TaskStart",
            "agent_resume" => "TaskResume",
            "agent_abort" => "TaskCancel",
            "agent_end" => "TaskComplete",
            "agent_error" => "TaskError",
            "tool_call" => "PreToolUse",
            "tool_result" => "PostToolUse",
            "prompt_submit" => "UserPromptSubmit",
            "session_shutdown" => "SessionShutdown",
            // The editor's payloads name the event as its file.
            other => other,
        })
    },
    result,
};

fn read(event: Option<&str>, stdin: &[u8]) -> Result<HookIn, HookError> {
    CONTRACT.read(event, stdin)
}

/// `success` beside the result is true although a command failed; the result of each command has its own.
fn result(seen: &Seen<'_>, _: &str) -> ToolResult {
    let text = seen.result.or(seen.plain_result).as_ref().map(text_or_json).unwrap_or_default().into_owned();
    let has_failed = seen.failed == Some(true) || any_failed(&text);
    ToolResult { text, ended: if has_failed { Ended::Failed } else { Ended::Ok } }
}

/// One of `[{"query": …, "result": …, "success": false}]`.
#[derive(Deserialize)]
struct CommandResult<'a> {
    #[serde(borrow)]
    success: Option<&'a RawValue>,
}

fn any_failed(list: &str) -> bool {
    let mut failed = false;
    let read = each_element(list, |Maybe(result): Maybe<CommandResult<'_>>| {
        failed |= result.and_then(|result| result.success).is_some_and(|success| success.get() == "false");
    });
    read.is_ok() && failed
}

fn write(hook: &HookIn, out: &HookOut) -> HookAnswer {
    let plain = Plain::of(out);
    match hook.event {
        // Before the task and the prompt only the editor obeys; the CLI goes on, and its first tool is refused.
        HookEvent::ToolRequested | HookEvent::PromptSubmitted | HookEvent::SessionStarted => {
            match plain.reason_with_context() {
                Some(reason) => cancel(&reason),
                None => context(plain.context.as_deref()),
            }
        }
        HookEvent::ToolFinished => match &plain.reason {
            Some(reason) if plain.ends => cancel(reason),
            Some(_) | None => context(plain.words().as_deref()),
        },
        HookEvent::TurnEnded | HookEvent::SubagentEnded | HookEvent::SessionEnded | HookEvent::Other => {
            HookAnswer::nothing()
        }
    }
}

fn cancel(reason: &str) -> HookAnswer {
    HookAnswer::json(&json!({"cancel": true, "errorMessage": reason}))
}

fn context(text: Option<&str>) -> HookAnswer {
    text.map_or_else(HookAnswer::nothing, |text| HookAnswer::json(&json!({"contextModification": text})))
}
