//! Exact hashes of what was done and what came of it (FP-4, FP-6).
//!
//! XXH3-64: frozen since xxHash 0.8, the same on every machine.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::ids::Hash64;
use crate::simhash::normal_hash;
use crate::volatile;

/// Several hashes as one, order included.
pub fn mix(parts: &[Hash64]) -> Hash64 {
    let mut hasher = Xxh3::new();
    for part in parts {
        hasher.update(&part.0.to_le_bytes());
    }
    Hash64(hasher.digest())
}

/// A text, exactly as it is. Empty text is 0 and equals nothing but itself.
pub fn text(text: &str) -> Hash64 {
    if text.is_empty() { Hash64(0) } else { Hash64(xxh3_64(text.as_bytes())) }
}

/// A tool and its arguments. JSON arguments count by value: key order and white space do not matter.
pub fn action(tool: &str, args: &str) -> Hash64 {
    let canonical = serde_json::from_str::<serde_json::Value>(args).ok().map(|value| {
        let mut out = String::with_capacity(args.len());
        write_canonical(&value, &mut out);
        out
    });
    let args = canonical.as_deref().unwrap_or(args.trim());
    mix(&[text(tool), text(args)])
}

/// What an agent that acts in text does: its last code block, else all it says.
pub fn text_action(answer: &str) -> Hash64 {
    text(last_code_block(answer).unwrap_or(answer).trim())
}

/// A result, with ids, durations, timestamps and nonces taken out; everything else counts exactly.
pub fn result(result: &str) -> Hash64 {
    text(&volatile::strip(result))
}

/// The conversation a request belongs to: its named run, system prompt and first user message, normalised so
/// that restarts of the same task share it.
pub fn conversation(run: Option<&str>, system: &str, first_user: &str) -> Hash64 {
    conversation_of(run, system, normal_hash(first_user))
}

/// The same, where the first user message is hashed already.
pub(crate) fn conversation_of(run: Option<&str>, system: &str, first_user: u64) -> Hash64 {
    mix(&[text(run.unwrap_or_default()), Hash64(normal_hash(system)), Hash64(first_user)])
}

/// The stream of tool calls that hooks see in one run: a conversation of its own.
pub fn hook_conversation(run: Option<&str>) -> Hash64 {
    mix(&[text("hooks"), text(run.unwrap_or_default())])
}

/// Sorted keys, no white space. Sorts by itself, because `serde_json` may be built to keep the order of keys.
fn write_canonical(value: &serde_json::Value, out: &mut String) {
    use serde_json::Value;
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            out.push('{');
            for key in keys {
                write_string(key, out);
                out.push(':');
                write_canonical(&map[key.as_str()], out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write_canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::String(text) => write_string(text, out),
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
}

/// Length first, so that no content can look like structure.
fn write_string(text: &str, out: &mut String) {
    out.push('"');
    out.push_str(&text.len().to_string());
    out.push('"');
    out.push_str(text);
}

/// The text between the last pair of fences, without the language name.
fn last_code_block(answer: &str) -> Option<&str> {
    let (before, _) = answer.rsplit_once("```")?;
    let (_, block) = before.rsplit_once("```")?;
    let body = block.split_once('\n').map_or(block, |(_, body)| body);
    (!body.trim().is_empty()).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fp_4_key_order_and_white_space_of_arguments_do_not_matter() {
        let one = action("edit", r#"{"file": "a", "new": {"x": 1, "y": [1, 2]}}"#);
        assert_eq!(one, action("edit", r#"{"new":{"y":[1,2],"x":1},"file":"a"}"#));
        assert_ne!(one, action("edit", r#"{"new":{"y":[2,1],"x":1},"file":"a"}"#));
        assert_ne!(one, action("write", r#"{"new":{"y":[1,2],"x":1},"file":"a"}"#));
        assert_ne!(action("t", r#"{"a":"b,c"}"#), action("t", r#"{"a":"b","c":""}"#));
    }

    #[test]
    fn fp_4_arguments_that_are_not_json_count_as_they_are() {
        assert_eq!(action("sh", " ls -l "), action("sh", "ls -l"));
        assert_ne!(action("sh", "ls -l"), action("sh", "ls  -l"));
    }

    #[test]
    fn ld_6_the_last_code_block_is_the_action() {
        let first = text_action("I try again.\n```sql\nSELECT 1;\n```\n");
        assert_eq!(first, text_action("Another idea!\n```sql\nSELECT 1;\n```"));
        assert_ne!(first, text_action("Another idea!\n```sql\nSELECT 2;\n```"));
        assert_eq!(text_action("ls -l"), text_action(" ls -l\n"));
        assert_eq!(text_action("```ls```"), text("```ls```".trim_matches('`')));
    }

    #[test]
    fn fp_6_restarts_of_the_same_task_share_a_conversation() {
        let key = |first| conversation(None, "You help.", first);
        assert_eq!(
            key("Solve issue 7. Started 2025-11-13T04:01:49Z"),
            key("Solve issue 7. Started 2025-11-13T05:22:01Z")
        );
        assert_ne!(key("Solve the issue"), key("Close the issue"));
        assert_ne!(conversation(Some("a"), "s", "u"), conversation(Some("b"), "s", "u"));
    }
}
