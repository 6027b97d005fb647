//! What a request asks, whatever its protocol: model, tools, and who spoke last.

use serde_json::Value;

use crate::answer::ToolKind;

/// A request, read as far as the dialogue needs it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ask {
    pub(crate) model: String,
    pub(crate) stream: bool,
    pub(crate) tools: Vec<Tool>,
    /// The newest thing a person said.
    pub(crate) person: String,
    /// The newest tool result, if the newest input is tool results.
    pub(crate) result: Option<String>,
    /// The answer must be JSON: of this schema, or of any if `Null`.
    pub(crate) json: Option<Value>,
    /// Chat streams say usage only if asked.
    pub(crate) usage_in_stream: bool,
}

/// A declared tool.
#[derive(Clone, Debug)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) kind: ToolKind,
    pub(crate) namespace: Option<String>,
    pub(crate) schema: Value,
}

impl Tool {
    pub(crate) fn function(name: &Value, schema: &Value) -> Self {
        Self { name: text(name), kind: ToolKind::Function, namespace: None, schema: schema.clone() }
    }
}

/// A turn of the conversation, in order.
pub(crate) enum Turn {
    /// Someone spoke to the model.
    Person(String),
    /// A tool's result.
    Result(String),
    /// The model spoke.
    Model,
}

impl Ask {
    /// Reads person and result from the turns. A result among the inputs since the model's last turn wins over text
    /// beside it: clients add reminders there.
    pub(crate) fn hear(&mut self, turns: impl IntoIterator<Item = Turn>) {
        for turn in turns {
            match turn {
                Turn::Person(said) => {
                    let said = without_inserts(&said);
                    if !said.is_empty() && self.result.is_none() {
                        self.person = said;
                    }
                }
                Turn::Result(result) => self.result = Some(result),
                Turn::Model => self.result = None,
            }
        }
    }
}

/// A JSON string, or nothing.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A JSON array, or nothing.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The text of a string or of an array of blocks with `text` (or nested `content`).
pub(crate) fn flat(content: &Value) -> String {
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    let block = |block: &Value| match block["text"].as_str().or(block.as_str()) {
        Some(text) => text.to_owned(),
        None if block["content"].is_null() => String::new(),
        None => flat(&block["content"]),
    };
    let blocks: Vec<String> = list(content).iter().map(block).filter(|text| !text.is_empty()).collect();
    blocks.join("\n")
}

/// Without what clients put into a person's message: `<system-reminder>…</system-reminder>` and the like.
fn without_inserts(said: &str) -> String {
    let mut rest = said;
    let mut kept = String::new();
    while let Some(open) = rest.find('<') {
        let (before, from) = rest.split_at(open);
        kept.push_str(before);
        match insert_length(from) {
            Some(length) => rest = &from[length..],
            None => {
                kept.push('<');
                rest = &from[1..];
            }
        }
    }
    kept.push_str(rest);
    kept.trim().to_owned()
}

/// Length of `<name>…</name>` at the start, if the name is one that clients insert.
fn insert_length(from: &str) -> Option<usize> {
    let end = from[1..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-')? + 1;
    let name = &from[1..end];
    let is_persons = name.starts_with("user_") && name != "user_instructions";
    let is_insert = !is_persons
        && (name.contains(['_', '-']) || ["reminder", "context", "env", "INSTRUCTIONS"].contains(&name));
    if !is_insert {
        return None;
    }
    let close = format!("</{name}>");
    Some(from.find(&close)? + close.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserts_of_clients_are_not_the_persons_words() {
        let said = "<system-reminder>tools: a <b> c</system-reminder>\nSay <b>hi</b>\n<environment_context>x</environment_context>";
        assert_eq!(without_inserts(said), "Say <b>hi</b>");
        assert_eq!(
            without_inserts("<user_query>use a tool</user_query>"),
            "<user_query>use a tool</user_query>"
        );
        assert_eq!(without_inserts("a < b <open-only> c"), "a < b <open-only> c");
    }
}
