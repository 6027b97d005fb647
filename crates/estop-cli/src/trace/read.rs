//! A trace as it stands in its line, and why a line is none.

use std::fmt;

use estop_config::printable::escaped_within;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::error::Category;

/// One recorded run of an agent.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with `id` and `messages`")]
pub struct Trace {
    /// Its name.
    pub id: String,
    /// What it is known to be, if it is known.
    #[serde(default)]
    pub label: Option<Label>,
    #[serde(default)]
    meta: Option<Meta>,
    /// Everything that was said.
    pub(super) messages: Vec<Message>,
}

/// What a trace is known to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// The run did its work.
    Healthy,
    /// The run got stuck.
    Loop,
}

/// What else is known of a trace.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct Meta {
    #[serde(default)]
    repetition: Option<Repetition>,
    /// The kind of work it shows.
    #[serde(default)]
    pattern: Option<String>,
    /// The kind of agent that does it.
    #[serde(default)]
    family: Option<String>,
    /// The second at which each request was made.
    #[serde(default)]
    at: Vec<f64>,
    /// The second at which each answer was complete.
    #[serde(default)]
    answered: Vec<Option<f64>>,
    /// So many of the first assistant messages were said before it was recorded: they are no steps.
    #[serde(default)]
    earlier: usize,
    /// The agent whose policy it is judged by.
    #[serde(default)]
    agent: Option<String>,
}

/// What repeats in a trace.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with `kind`")]
pub struct Repetition {
    /// Its class: `strict`, `window`, …
    pub kind: String,
    /// The step the repetition starts at, from 1.
    #[serde(default)]
    pub start: usize,
    /// The step by which it should have been stopped: a later stop is late.
    #[serde(default)]
    pub by: Option<usize>,
}

/// One message. Invariant of a trace that was read: each role is one of `ROLES`, and calls stand in `tool_calls`.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with `role`")]
pub(super) struct Message {
    role: String,
    #[serde(default)]
    content: Option<Content>,
    #[serde(default)]
    tool_calls: Option<Vec<ToolCall>>,
    #[serde(default)]
    tool_call_id: Option<String>,
    #[serde(default)]
    function_call: Option<Value>,
    #[serde(default)]
    ended: Option<MessageEnd>,
}

/// How an answer or a call ended, where its text does not say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum MessageEnd {
    Ok,
    Failed,
    Unknown,
    /// An answer that nobody waited for.
    Aborted,
}

const ROLES: [&str; 5] = ["system", "developer", "user", "assistant", "tool"];

#[derive(Debug)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with `type`")]
struct Part {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with `function`")]
pub(super) struct ToolCall {
    #[serde(default)]
    pub(super) id: String,
    pub(super) function: Function,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with `name` and `arguments`")]
pub(super) struct Function {
    pub(super) name: String,
    #[serde(default, deserialize_with = "arguments")]
    pub(super) arguments: String,
}

/// JSON in a string, as the API has it, or the JSON itself, as some recorders write it.
fn arguments<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(d)? {
        Value::String(text) => text,
        Value::Null => String::new(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => other.to_string(),
    })
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Content, D::Error> {
        d.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of parts")
    }

    fn visit_str<E>(self, text: &str) -> Result<Content, E> {
        Ok(Content::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Content, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = seq.next_element()? {
            parts.push(part);
        }
        Ok(Content::Parts(parts))
    }
}

/// Why a line is not a trace.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// Not JSON at all.
    #[error("this line is not a trace, it is not valid JSON: {0}")]
    NotJson(String),
    /// JSON of another shape.
    #[error("this line is not a trace: {0}. docs/traces.md describes the format")]
    Shape(String),
    /// Messages of another API. Judged as they are, every loop in them would be overlooked.
    #[error(
        "messages[{at}] has {what}, which is not supported. Supported are OpenAI chat messages: calls in `tool_calls`, \
         each result in a message of role `tool`. docs/traces.md describes the format"
    )]
    Unsupported {
        /// Which message, from 0.
        at: usize,
        /// What it has.
        what: String,
    },
}

impl Trace {
    /// Reads a line.
    pub fn parse(line: &[u8]) -> Result<Trace, TraceError> {
        let mut json = serde_json::Deserializer::from_slice(line);
        let trace: Trace = serde_path_to_error::deserialize(&mut json)
            .map_err(|error| shape_error(&error.path().to_string(), error.inner()))?;
        json.end().map_err(|error| shape_error(".", &error))?;
        for (at, message) in trace.messages.iter().enumerate() {
            if let Some(what) = message.unsupported() {
                return Err(TraceError::Unsupported { at, what });
            }
        }
        Ok(trace)
    }

    /// The kind of agent it shows.
    pub fn family(&self) -> Option<&str> {
        self.meta.as_ref()?.family.as_deref()
    }

    /// Forgets when its requests were made.
    pub fn forget_times(&mut self) {
        if let Some(meta) = &mut self.meta {
            meta.at.clear();
            meta.answered.clear();
        }
    }

    /// The kind of work it shows, if somebody said.
    pub fn pattern(&self) -> Option<&str> {
        self.meta.as_ref()?.pattern.as_deref()
    }

    /// When a request was made, in milliseconds, if that is known; the first is number 0.
    pub fn asked_at(&self, request: usize) -> Option<u64> {
        let seconds = *self.meta.as_ref()?.at.get(request)?;
        // A century, lest a typing error make a number that cannot be added to.
        Some((seconds.clamp(0.0, 3e9) * 1000.0).round() as u64)
    }

    /// When a request was answered, in milliseconds, if that is known.
    pub fn answered_at(&self, request: usize) -> Option<u64> {
        let seconds = (*self.meta.as_ref()?.answered.get(request)?)?;
        Some((seconds.clamp(0.0, 3e9) * 1000.0).round() as u64)
    }

    /// How many assistant messages are no steps, because they were said before it was recorded.
    pub(super) fn earlier(&self) -> usize {
        self.meta.as_ref().map_or(0, |meta| meta.earlier)
    }

    /// The agent whose policy it is judged by.
    pub fn agent(&self) -> &str {
        self.meta.as_ref().and_then(|meta| meta.agent.as_deref()).unwrap_or(&self.id)
    }

    /// What repeats, and from where on, if that is known.
    pub fn repetition(&self) -> Option<&Repetition> {
        self.meta.as_ref()?.repetition.as_ref()
    }
}

fn shape_error(path: &str, error: &serde_json::Error) -> TraceError {
    let text = error.to_string();
    let said = text.rsplit_once(" at line ").map_or(text.as_str(), |(said, _)| said);
    let said = escaped_within(said, 200);
    match error.classify() {
        Category::Data if path == "." => TraceError::Shape(said),
        Category::Data => TraceError::Shape(format!("{}: {said}", escaped_within(path, 80))),
        Category::Io | Category::Syntax | Category::Eof => {
            TraceError::NotJson(format!("{said} (column {})", error.column()))
        }
    }
}

impl Message {
    /// What the message has that we would overlook.
    fn unsupported(&self) -> Option<String> {
        if self.function_call.is_some() {
            return Some("a legacy `function_call`".to_owned());
        }
        if !ROLES.contains(&self.role.as_str()) {
            return Some(format!("the role `{}`", escaped_within(&self.role, 40)));
        }
        let Some(Content::Parts(parts)) = &self.content else { return None };
        let acts = |part: &&Part| part.kind.contains("tool") || part.kind.contains("function");
        let part = parts.iter().find(acts)?;
        Some(format!("a `{}` block in its content", escaped_within(&part.kind, 40)))
    }

    /// Its text; of several parts the first that has some.
    pub(super) fn text(&self) -> &str {
        match &self.content {
            Some(Content::Text(text)) => text,
            Some(Content::Parts(parts)) => {
                parts.iter().filter_map(|p| p.text.as_deref()).find(|t| !t.is_empty()).unwrap_or("")
            }
            None => "",
        }
    }

    pub(super) fn calls(&self) -> &[ToolCall] {
        self.tool_calls.as_deref().unwrap_or_default()
    }

    /// How it ended, if that is known.
    pub(super) fn ended(&self) -> Option<MessageEnd> {
        self.ended
    }

    /// The id of the call whose result this is.
    pub(super) fn answers_call(&self) -> Option<&str> {
        self.tool_call_id.as_deref().filter(|id| !id.is_empty())
    }

    pub(super) fn is(&self, role: &str) -> bool {
        self.role == role
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> String {
        Trace::parse(line.as_bytes()).expect_err("it is refused").to_string()
    }

    fn with_message(message: &str) -> String {
        format!(r#"{{"id": "t", "messages": [{{"role": "user", "content": "go"}}, {message}]}}"#)
    }

    #[test]
    fn ui_2_a_line_that_is_no_trace_is_told_which_field_is_wrong() {
        let told =
            |line: &str, expected: &str| assert!(refused(line).contains(expected), "{}", refused(line));
        told(
            r#"{"id": 5, "messages": []}"#,
            "id: invalid type: integer `5`, expected a string. docs/traces.md",
        );
        told(r#"{"id": "t"}"#, "missing field `messages`. docs/traces.md");
        told("7", "expected an object with `id` and `messages`");
        told(r#"{"id": "t", "messages": [], "label": "good"}"#, "label: unknown variant `good`");
        told(&with_message(r#"{"content": "x"}"#), "messages[1]: missing field `role`");
        told(
            &with_message(r#"{"role": "user", "content": 5}"#),
            "messages[1].content: invalid type: integer `5`, expected a text or a list of parts",
        );
        told("{\"id\": \"t\",", "not valid JSON: EOF while parsing");
        told(r#"{"id": "t", "messages": []} {}"#, "not valid JSON: trailing characters");
        told(r#"{"id": "t", "messages": [], "label": "\u001b[2J"}"#, r"unknown variant `\u{1b}[2J`");
    }

    #[test]
    fn ld_7_messages_of_other_apis_are_refused_and_not_overlooked() {
        let told = |message: &str, what: &str| {
            let expected =
                format!("messages[1] has {what}, which is not supported. Supported are OpenAI chat");
            assert!(
                refused(&with_message(message)).starts_with(&expected),
                "{}",
                refused(&with_message(message))
            );
        };
        told(
            r#"{"role": "assistant", "content": [{"type": "text", "text": "x"}, {"type": "tool_use", "name": "f"}]}"#,
            "a `tool_use` block in its content",
        );
        told(
            r#"{"role": "user", "content": [{"type": "tool_result", "content": "x"}]}"#,
            "a `tool_result` block in its content",
        );
        told(r#"{"role": "assistant", "function_call": {"name": "f"}}"#, "a legacy `function_call`");
        told(r#"{"role": "function", "name": "f", "content": "x"}"#, "the role `function`");
        told(r#"{"role": "human", "content": "x"}"#, "the role `human`");
    }

    #[test]
    fn what_recorders_leave_null_is_fine() {
        let message = r#"{"role": "assistant", "content": null, "tool_calls": null, "function_call": null}"#;
        let line = with_message(message).replacen('{', r#"{"label": null, "meta": null, "#, 1);
        let trace = Trace::parse(line.as_bytes()).expect("a trace");
        assert!(trace.label.is_none() && trace.repetition().is_none());
        assert!(
            Trace::parse(with_message(r#"{"role": "user", "content": [{"type": "image_url"}]}"#).as_bytes())
                .is_ok()
        );
    }
}
