//! Recorded agent traces: one JSON object a line, messages in OpenAI chat format.
//!
//! Request k is all messages before the k-th assistant message, response k is that message.

use estop_core::fingerprint::{RequestText, ResponseText, StepText, ended_by_text};
use estop_core::iteration::is_test_run;
use serde::Deserialize;

/// One recorded run of an agent.
#[derive(Debug, Deserialize)]
pub struct Trace {
    /// Its name.
    pub id: String,
    /// What it is known to be.
    pub label: Label,
    /// What else is known.
    #[serde(default)]
    pub meta: Meta,
    /// Everything that was said.
    pub messages: Vec<Message>,
}

/// What a trace is known to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// The run did its work.
    Healthy,
    /// The run got stuck.
    Loop,
}

/// What else is known of a trace.
#[derive(Debug, Default, Deserialize)]
pub struct Meta {
    /// What repeats, and from where on.
    #[serde(default)]
    pub repetition: Option<Repetition>,
}

/// What repeats in a trace.
#[derive(Debug, Deserialize)]
pub struct Repetition {
    /// Its class: `strict`, `window`, …
    pub kind: String,
    /// The step the repetition starts at, from 0.
    #[serde(default)]
    pub start: usize,
}

/// One message.
#[derive(Debug, Deserialize)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool`, …
    pub role: String,
    #[serde(default)]
    content: Option<Content>,
    #[serde(default)]
    tool_calls: Option<Vec<ToolCall>>,
    #[serde(default)]
    tool_call_id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
}

#[derive(Debug, Deserialize)]
struct ToolCall {
    #[serde(default)]
    id: String,
    function: Function,
}

#[derive(Debug, Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    arguments: String,
}

impl Message {
    /// Its text; of several parts the first that has some.
    fn text(&self) -> &str {
        match &self.content {
            Some(Content::Text(text)) => text,
            Some(Content::Parts(parts)) => {
                parts.iter().map(|p| p.text.as_str()).find(|t| !t.is_empty()).unwrap_or("")
            }
            None => "",
        }
    }

    fn calls(&self) -> &[ToolCall] {
        self.tool_calls.as_deref().unwrap_or_default()
    }

    fn is(&self, role: &str) -> bool {
        self.role == role
    }
}

/// One request and its answer.
pub struct Exchange<'a> {
    /// What the request says.
    pub request: RequestText<'a>,
    /// What the answer says.
    pub response: ResponseText<'a>,
    /// Characters sent in all, for an estimate of tokens.
    pub input_chars: usize,
}

impl Trace {
    /// The exchanges, in order.
    pub fn exchanges(&self) -> impl Iterator<Item = Exchange<'_>> {
        let assistants = self.messages.iter().enumerate().filter(|(_, m)| m.is("assistant"));
        let mut input_chars = 0;
        let mut read_to = 0;
        let mut previous = None;
        assistants.map(move |(at, message)| {
            input_chars += self.messages[read_to..at].iter().map(|m| m.text().len()).sum::<usize>();
            read_to = at;
            let exchange =
                Exchange { request: self.request(at, previous), response: response(message), input_chars };
            previous = Some(at);
            exchange
        })
    }

    fn request(&self, at: usize, previous: Option<usize>) -> RequestText<'_> {
        let before = &self.messages[..at];
        let first = |role: &str| before.iter().find(|m| m.is(role)).map_or("", Message::text);
        RequestText {
            system: before.iter().find(|m| m.is("system") || m.is("developer")).map_or("", Message::text),
            first_user: first("user"),
            run: None,
            last_user: before.iter().rev().find(|m| m.is("user")).map_or("", Message::text),
            continues: before.last().is_some_and(|m| m.is("tool")),
            steps: previous.map_or_else(Vec::new, |p| steps(&self.messages[p], &self.messages[p + 1..at])),
        }
    }
}

/// What an assistant message did, and what the messages after it say came of it.
fn steps<'a>(acted: &'a Message, after: &'a [Message]) -> Vec<StepText<'a>> {
    if acted.calls().is_empty() {
        let reply = after.iter().find(|m| m.is("user")).map(Message::text);
        let action = Some(acted.text()).filter(|text| !text.trim().is_empty());
        return action.zip(reply).map(|(args, result)| step("", args, result)).into_iter().collect();
    }
    let results: Vec<&Message> = after.iter().filter(|m| m.is("tool")).collect();
    let result_of = |at: usize, call: &ToolCall| {
        let by_id = results
            .iter()
            .find(|m| !call.id.is_empty() && m.tool_call_id.as_deref() == Some(call.id.as_str()));
        by_id.or_else(|| results.get(at)).map(|m| m.text())
    };
    let done = acted.calls().iter().enumerate().filter_map(|(at, call)| {
        Some(step(&call.function.name, &call.function.arguments, result_of(at, call)?))
    });
    done.collect()
}

fn step<'a>(tool: &'a str, args: &'a str, result: &'a str) -> StepText<'a> {
    StepText { tool, args, result, ended: ended_by_text(result) }
}

fn response(message: &Message) -> ResponseText<'_> {
    let call = |c: &'_ ToolCall| is_test_run(&c.function.name, &command(&c.function.arguments));
    let calls = message.calls().iter();
    ResponseText {
        text: message.text(),
        calls: calls.map(|c| (c.function.name.as_str(), c.function.arguments.as_str(), call(c))).collect(),
    }
}

/// The command line in a shell tool's arguments, whatever the client calls the field.
fn command(arguments: &str) -> String {
    let Ok(serde_json::Value::Object(fields)) = serde_json::from_str(arguments) else { return String::new() };
    let field = ["command", "cmd", "script"].iter().find_map(|key| fields.get(*key));
    match field {
        Some(serde_json::Value::String(command)) => command.clone(),
        Some(serde_json::Value::Array(words)) => {
            words.iter().filter_map(serde_json::Value::as_str).collect::<Vec<_>>().join(" ")
        }
        Some(_) | None => String::new(),
    }
}
