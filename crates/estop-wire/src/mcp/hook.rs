//! A call in the words of our own hooks, which both gates ask by: what is asked before it, what is told after it, and what
//! the answer means.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answered, Call, tool_name};

/// What is asked before a call: the body of the hook `pre-tool-use`. `number` tells it from every other call of its agent.
pub fn asks(server: &str, call: &Call<'_>, number: &str) -> String {
    let mut text = json!({"tool": tool_name(server, &call.name), "call": number, "gate": "mcp"}).to_string();
    // The arguments as they were sent: written again, they would not be the same bytes.
    text.pop();
    text.push_str(r#","args":"#);
    text.push_str(&call.arguments);
    text.push('}');
    text
}

/// What is told after a call: the body of the hook `post-tool-use`.
pub fn tells(server: &str, tool: &str, number: &str, answered: &Answered) -> String {
    let tool = tool_name(server, tool);
    json!({"tool": tool, "call": number, "gate": "mcp", "result": answered.text, "failed": answered.failed})
        .to_string()
}

#[derive(Deserialize)]
struct Said {
    permission: String,
    reason: Option<String>,
}

/// Why a call may not run, from the answer to what was asked. Only a clear yes is one.
pub fn refusal(answer: &[u8]) -> Option<String> {
    match serde_json::from_slice(answer) {
        Ok(Said { permission, .. }) if permission == "allow" => None,
        Ok(Said { reason: Some(reason), .. }) => Some(reason),
        Ok(Said { reason: None, .. }) => Some("estop refused this.".to_owned()),
        Err(_) => Some(format!("estop refused this: its own answer cannot be read ({}).", shown(answer))),
    }
}

fn shown(answer: &[u8]) -> Value {
    String::from_utf8_lossy(answer).chars().take(80).collect::<String>().into()
}
