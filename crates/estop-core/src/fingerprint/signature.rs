//! Exact hashes of what was done and what came of it (FP-4, FP-6).
//!
//! XXH3-64: frozen since xxHash 0.8, the same on every machine.

use std::borrow::Cow;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::fingerprint::simhash::normal_hash;
use crate::fingerprint::{arguments, volatile};
use crate::ids::Hash64;
use crate::steps;

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
    steps::add(text.len() / 8);
    if text.is_empty() { Hash64(0) } else { Hash64(xxh3_64(text.as_bytes())) }
}

/// A tool and its arguments. JSON arguments count by value: key order and white space do not matter. Arguments above
/// [`TEXT_BYTES_MAX`] count as they are written.
pub fn action(tool: &str, args: &str) -> Hash64 {
    let by_value = if args.len() <= TEXT_BYTES_MAX { arguments::value_hash(args) } else { None };
    mix(&[text(tool), by_value.unwrap_or_else(|| text(args.trim()))])
}

/// What an agent that acts in text does, else all it says.
pub fn text_action(answer: &str) -> Hash64 {
    text(action_in_text(answer).map_or(answer, |(_, action)| action).trim())
}

/// A result, with ids, durations, timestamps and nonces taken out; everything else counts exactly. Of a result above
/// [`TEXT_BYTES_MAX`] its head, its tail and its length count.
pub fn result(result: &str) -> Hash64 {
    result_and_text(result).0
}

/// The same, and the text that was hashed.
pub(crate) fn result_and_text(result: &str) -> (Hash64, String) {
    let stripped = volatile::strip(&head_and_tail(result));
    let read = text(&stripped);
    let hash = if result.len() <= TEXT_BYTES_MAX { read } else { mix(&[read, Hash64(result.len() as u64)]) };
    (hash, stripped)
}

/// Bytes of one text that are normalised: of a longer one the first and the last half of this. Far above what clients let
/// through of one result (some 30 to 100 kB), and read in a few milliseconds, whatever it is. At half, whole files that
/// agents read would be cut; at double, one text could hold a thread twice as long.
pub const TEXT_BYTES_MAX: usize = 256 * 1024;

/// What is read of a text: all of it, or the head and the tail of a long one, as two lines.
pub(crate) fn head_and_tail(text: &str) -> Cow<'_, str> {
    if text.len() <= TEXT_BYTES_MAX {
        return Cow::Borrowed(text);
    }
    let head = &text[..text.floor_char_boundary(TEXT_BYTES_MAX / 2)];
    let tail = &text[text.ceil_char_boundary(text.len() - TEXT_BYTES_MAX / 2)..];
    Cow::Owned([head, "\n", tail].concat())
}

/// The conversation a request belongs to: its named run, system prompt and first user message, normalised so
/// that restarts of the same task share it.
pub fn conversation(run: Option<&str>, system: &str, first_user: &str) -> Hash64 {
    conversation_of(run, system, normal_hash(&head_and_tail(first_user)))
}

/// The same, where the first user message is hashed already.
pub(crate) fn conversation_of(run: Option<&str>, system: &str, first_user: u64) -> Hash64 {
    mix(&[text(run.unwrap_or_default()), Hash64(normal_hash(&head_and_tail(system))), Hash64(first_user)])
}

/// The stream of tool calls that hooks see in one run: a conversation of its own.
pub fn hook_conversation(run: Option<&str>) -> Hash64 {
    mix(&[text("hooks"), text(run.unwrap_or_default())])
}

/// The action of an agent that acts in text, with the tool's name if it has one: the element that its answer ends with (the form
/// that Cline and OpenHands write), else its last code block, else what follows its last `Action:` (the form that ReAct agents write).
/// Behind a code block an element is a remark.
pub fn action_in_text(answer: &str) -> Option<(&str, &str)> {
    let element = last_element(answer);
    let before = element.map_or(answer, |(_, call)| &answer[..answer.trim_end().len() - call.len()]);
    if let Some(block) = last_code_block(before) {
        return Some(("", block));
    }
    match element {
        // Asking a person and reporting to one is talk.
        Some((tool, _)) if TALKS.contains(&tool) => None,
        Some(call) => Some(call),
        None => after_last_action(answer).map(|action| ("", action)),
    }
}

/// Elements that speak to a person.
const TALKS: &[&str] = &["ask_followup_question", "attempt_completion", "plan_mode_respond"];

/// What follows the last `Action:` that begins a line.
fn after_last_action(answer: &str) -> Option<&str> {
    steps::add(answer.len());
    let at =
        answer.rfind("\nAction:").map(|at| at + 1).or_else(|| answer.starts_with("Action:").then_some(0))?;
    let action = answer[at + "Action:".len()..].trim();
    (!action.is_empty()).then_some(action)
}

/// The element that a text ends with, and its name: `<read_file>…</read_file>`, `<function=read>…</function>`. Tools have a `_` in
/// their names, the elements of HTML have none.
fn last_element(answer: &str) -> Option<(&str, &str)> {
    let answer = answer.trim_end();
    let closing = answer.strip_suffix('>')?;
    let start = closing.len() - closing.bytes().rev().take(ELEMENT_NAME_MAX).position(|byte| byte == b'/')?;
    let name = &closing[start..];
    let is_name = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if !is_name || !(name.contains('_') || name == "function") || !closing[..start].ends_with("</") {
        return None;
    }
    // One search from the end, of a name of bounded length.
    steps::add(2 * answer.len());
    let body = &answer[..start - "</".len()];
    let opens = body.rfind(&*["<", name].concat())?;
    let element = &answer[opens..];
    let rest = &element[1 + name.len()..];
    let begins_line = opens == 0 || answer[..opens].ends_with('\n');
    if !begins_line || !rest.starts_with(['>', '=', ' ']) {
        return None;
    }
    let called = rest.strip_prefix('=').and_then(|rest| rest.split_once('>')).map(|(called, _)| called);
    Some((called.unwrap_or(name), element))
}

/// Longest name of an element that is looked for.
const ELEMENT_NAME_MAX: usize = 64;

/// The text between the last pair of fences, without the language name.
fn last_code_block(answer: &str) -> Option<&str> {
    // Two searches from the end, each over bytes that the other does not look at, and one over the block.
    steps::add(2 * answer.len());
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
    fn fp_4_long_results_count_by_head_tail_and_length() {
        let long = |head: &str, middle: char, tail: &str, len: usize| {
            let middle: String = std::iter::repeat_n(middle, len - head.len() - tail.len()).collect();
            result(&format!("{head}{middle}{tail}"))
        };
        let len = 2 * TEXT_BYTES_MAX;
        let one = long("3 passed", '.', "end", len);
        assert_ne!(one, long("4 passed", '.', "end", len), "the head counts");
        assert_ne!(one, long("3 passed", '.', "END", len), "the tail counts");
        assert_ne!(one, long("3 passed", '.', "end", len + 1), "the length counts");
        assert_eq!(
            long("id=7 ", '.', "id=8", len),
            long("id=8 ", '.', "id=9", len),
            "what is volatile does not"
        );
        let outer = "x".repeat(TEXT_BYTES_MAX / 2);
        let around = |middle: &str| result(&[&outer, middle, &outer].concat());
        assert_eq!(around("1 of 2"), around("2 of 2"), "what stands between them is not read");
        assert_ne!(result(&"a".repeat(TEXT_BYTES_MAX)), result(&"a".repeat(TEXT_BYTES_MAX + 1)));
        // A cut in the middle of a character moves to its edge.
        assert_ne!(result(&"é".repeat(TEXT_BYTES_MAX)), result(&"é".repeat(TEXT_BYTES_MAX + 1)));
    }

    #[test]
    fn fp_4_results_up_to_the_cap_count_whole() {
        let at_cap = |middle: char| {
            let half = TEXT_BYTES_MAX / 2;
            result(&format!("{}{middle}{}", "x".repeat(half), "x".repeat(half - 1)))
        };
        assert_ne!(at_cap('1'), at_cap('2'));
    }

    #[test]
    fn fp_4_long_arguments_count_as_they_are_written() {
        let filler = "0,".repeat(TEXT_BYTES_MAX);
        let args = |before: &str, last: char| format!("{before}{{\"a\":[{filler}{last}]}}");
        assert_eq!(action("t", &args("", '0')), action("t", &args(" \n", '0')));
        assert_ne!(action("t", &args("", '0')), action("t", &args("", '1')));
        let middle = |n: char| format!("{{\"a\":[{filler}{n},{filler}0]}}");
        assert_ne!(action("t", &middle('0')), action("t", &middle('1')), "all of them count");
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
    fn ld_6_an_agent_that_writes_elements_acts_by_its_last_one() {
        let read = |said: &str, path: &str| format!("{said}<read_file>\n<path>{path}</path>\n</read_file>\n");
        let a = text_action(&read("Next.\n\n", "a.rs"));
        assert_eq!(a, text_action(&read("", "a.rs")));
        assert_ne!(a, text_action(&read("Next.\n\n", "b.rs")));
        let tool = |text: &str| action_in_text(text).map(|(tool, _)| tool.to_owned());
        assert_eq!(tool(&read("", "a")).as_deref(), Some("read_file"));
        assert_eq!(
            tool("<function=execute_bash>\n<parameter=command>ls</parameter>\n</function>").as_deref(),
            Some("execute_bash")
        );
        assert_eq!(tool("<tool_call>\n{\"name\": \"ls\"}\n</tool_call>").as_deref(), Some("tool_call"));
        let run = "```sh\nmake\n```\n";
        for remark in
            ["<next_step>\nSee.\n</next_step>", "<attempt_completion>\nDone.\n</attempt_completion>"]
        {
            assert_eq!(action_in_text(&[run, remark].concat()), Some(("", "make\n")));
        }
        for talk in [
            "<p>done</p>",
            "<read_file>",
            "</read_file>",
            "a <read_file> b</read_file>",
            "<read_files>\n</read_file>",
            "<ask_followup_question>\n<question>Which?</question>\n</ask_followup_question>",
            ">",
            "/>",
            "</>",
        ] {
            assert_eq!(tool(talk), None, "{talk}");
        }
    }

    #[test]
    fn ld_6_a_react_agent_acts_by_its_last_action() {
        let east = text_action("Thought: not been there.\nAction: go\nAction Input: east");
        assert_eq!(east, text_action("Thought: east again.\nAction: go\nAction Input: east\n"));
        assert_ne!(east, text_action("Thought: not been there.\nAction: go\nAction Input: west"));
        assert_eq!(text_action("Action: look"), text("look"));
        assert_eq!(text_action("No Action: needed"), text("No Action: needed"));
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
