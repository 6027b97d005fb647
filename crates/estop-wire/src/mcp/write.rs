//! What estop says itself: a denial, a cancellation, an error.

use serde_json::{Value, json};

use super::{Call, Id};

/// Takes a request back.
pub const CANCELLED: &str = "notifications/cancelled";

/// JSON-RPC's number for what is the server's own business: refused by its gate.
pub const SERVER_ERROR: i32 = -32001;

/// A denial: the result of a tool that failed, with the reason as its text. Models read it, as they read any tool's error.
pub fn denied(call: &Call<'_>, reason: &str) -> String {
    denied_under(&call.id, call.wants_result_type, reason)
}

/// The same for a call of which no more is known.
pub(super) fn denied_under(id: &Id, wants_result_type: bool, reason: &str) -> String {
    let mut result = json!({"content": [{"type": "text", "text": reason}], "isError": true});
    if wants_result_type {
        result["resultType"] = "complete".into();
    }
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id.json())
}

/// Tells a server that nobody waits for this request any more.
pub fn cancelled(id: &Id, reason: &str) -> String {
    let reason = Value::from(reason);
    let id = id.json();
    format!(r#"{{"jsonrpc":"2.0","method":"{CANCELLED}","params":{{"requestId":{id},"reason":{reason}}}}}"#)
}

/// An error, where no result of a tool can be given. Without an id, nobody knows which request it answers.
pub fn error(id: Option<&Id>, code: i32, message: &str) -> String {
    let id = id.map_or("null", Id::json);
    let message = Value::from(message);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}}}}}"#)
}

/// Several answers to one batch.
pub fn batch(answers: &[String]) -> String {
    format!("[{}]", answers.join(","))
}

/// The name of a server's tool among all tools, as most clients make it: so that hooks and this gate speak of the same one.
pub fn tool_name(server: &str, tool: &str) -> String {
    format!("mcp__{server}__{tool}")
}
