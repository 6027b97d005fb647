//! A word to the person beside an answer that objects to nothing: "estop was not asked, the tool runs".
//!
//! It must not become an answer of its own. Gemini CLI and Qwen Code take plain text of either stream for
//! `decision: "allow"`, so there, and where a key for it is known, it goes into that key; elsewhere to standard error,
//! which nobody reads as an answer beside exit code 0.

use serde_json::json;

use super::{HookAnswer, HookClient, HookEvent, HookIn, HookOut, Notice, write};

/// No objection, and a line for the person. Silent where the client has nobody to show it to, or where the moment
/// would repeat it: it is said before a tool and at a prompt only.
pub fn allow_and_tell(client: HookClient, event: HookEvent, name: &str, line: &str) -> HookAnswer {
    let allowed = write(&HookIn::empty(client, event, name), &HookOut::allow());
    if !matches!(event, HookEvent::ToolRequested | HookEvent::PromptSubmitted) {
        return allowed;
    }
    match client.contract().notice {
        Notice::SystemMessage => HookAnswer::json(&json!({"systemMessage": line})),
        Notice::Stderr => HookAnswer { stderr: line.to_owned(), ..allowed },
    }
}
