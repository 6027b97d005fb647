//! What came of a call, as far as the core is told of it.

use serde_json::Value;

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The server says that it failed.
    pub failed: bool,
    /// What it says: the texts of its content, and everything else as JSON.
    pub text: String,
}

/// Reads the `result` or the `error` of an answer to a call.
pub fn answered(result: Option<&str>, error: Option<&str>) -> Answered {
    if let Some(error) = error {
        let message = serde_json::from_str::<Value>(error).ok();
        let message = message.as_ref().and_then(|error| error.get("message")?.as_str());
        return Answered { failed: true, text: message.unwrap_or(error).to_owned() };
    }
    let json = result.unwrap_or_default();
    let Ok(result) = serde_json::from_str::<Value>(json) else {
        return Answered { failed: false, text: json.to_owned() };
    };
    let failed = result.get("isError") == Some(&Value::Bool(true));
    let parts = result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if parts.is_empty() {
        return Answered { failed, text: json.to_owned() };
    }
    let text = |part: &Value| match part.get("text").and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => part.to_string(),
    };
    Answered { failed, text: parts.iter().map(text).collect::<Vec<_>>().join("\n") }
}
