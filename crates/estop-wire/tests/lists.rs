//! Long lists (SE-1): what is kept of them is bounded, and no bound hides what an agent does. Their memory is counted in
//! `bench/tests/list_memory.rs`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use estop_wire::protocol::Protocol;
use estop_wire::request::{self, ReadError};
use estop_wire::response::{CALLS_MAX, Framing, Observed, Observer};

/// A document with `unit` so often, and then `last`.
fn list(before: &str, unit: &str, times: usize, last: &str, after: &str) -> String {
    format!("{before}{}{last}{after}", format!("{unit},").repeat(times))
}

fn observed(protocol: Protocol, framing: Framing, body: &str) -> Observed {
    let mut observer = Observer::new(protocol, framing, "");
    observer.push(body.as_bytes());
    observer.finish()
}

/// Whether the one call `t` is seen behind many elements that say nothing.
#[test]
fn se_1_a_call_behind_many_empty_elements_is_seen() {
    let answers = [
        (
            Protocol::OpenAiChat,
            r#"{"choices":["#,
            r#"{"message":{"tool_calls":[{"id":"a","function":{"name":"t","arguments":"{}"}}]}}"#,
            "]}",
        ),
        (
            Protocol::OpenAiChat,
            r#"{"choices":[{"message":{"tool_calls":["#,
            r#"{"id":"a","function":{"name":"t","arguments":"{}"}}"#,
            "]}}]}",
        ),
        (
            Protocol::OpenAiChat,
            r#"{"choices":[{"delta":{"tool_calls":["#,
            r#"{"index":7,"id":"a","function":{"name":"t","arguments":"{}"}}"#,
            "]}}]}",
        ),
        (
            Protocol::OpenAiResponses,
            r#"{"output":["#,
            r#"{"type":"function_call","call_id":"a","name":"t","arguments":"{}"}"#,
            "]}",
        ),
        (
            Protocol::AnthropicMessages,
            r#"{"content":["#,
            r#"{"type":"tool_use","id":"a","name":"t","input":{}}"#,
            "]}",
        ),
        (
            Protocol::Gemini,
            r#"{"candidates":["#,
            r#"{"content":{"parts":[{"functionCall":{"id":"a","name":"t","args":{}}}]}}"#,
            "]}",
        ),
        (
            Protocol::Gemini,
            r#"{"candidates":[{"content":{"parts":["#,
            r#"{"functionCall":{"id":"a","name":"t","args":{}}}"#,
            "]}}]}",
        ),
        (
            Protocol::OllamaChat,
            r#"{"message":{"tool_calls":["#,
            r#"{"id":"a","function":{"name":"t","arguments":{}}}"#,
            "]}}",
        ),
    ];
    let empty = [
        "{}",
        "0",
        r#"{"id":"x"}"#,
        r#"{"type":"tool_use"}"#,
        r#"{"type":"function_call"}"#,
        r#"{"function":{}}"#,
        r#"{"functionCall":{}}"#,
    ];
    for (protocol, before, call, after) in answers {
        for unit in empty {
            for times in [0, 1, 20, 10_000] {
                let body = list(before, unit, times, call, after);
                for (framing, body) in
                    [(Framing::Plain, body.clone()), (Framing::Sse, format!("data: {body}\n\n"))]
                {
                    let seen = observed(protocol, framing, &body).calls;
                    let named: Vec<_> = seen.iter().filter(|call| !call.name.is_empty()).collect();
                    assert_eq!(named.len(), 1, "{protocol:?} {framing:?} {times} x {unit} in {before}");
                    assert_eq!(
                        (named[0].id.as_str(), named[0].name.as_str(), named[0].args.as_str()),
                        ("a", "t", "{}")
                    );
                    assert!(seen.len() <= CALLS_MAX);
                }
            }
        }
    }
}

/// What a list of any length says is what its elements say.
#[test]
fn se_1_text_and_usage_beside_long_lists_are_read() {
    for times in [1, 15, 16, 17, 5_000] {
        let part = r#"{"message":{"content":[{"type":"text","text":"ab"}]}}"#;
        let body = list(r#"{"choices":["#, part, times, part, r#"],"usage":{"prompt_tokens":7}}"#);
        let seen = observed(Protocol::OpenAiChat, Framing::Plain, &body);
        assert_eq!((seen.text.len(), seen.usage.unwrap().input, seen.partial), (2 * (times + 1), 7, false));
        let other = r#"{"index":1,"message":{"content":"ab","tool_calls":[{"function":{"name":"t","arguments":"xyz"}}]}}"#;
        let seen = observed(
            Protocol::OpenAiChat,
            Framing::Plain,
            &list(r#"{"choices":["#, other, times, other, "]}"),
        );
        assert_eq!((seen.text.as_str(), seen.calls.len(), seen.partial), ("", 0, false));
        assert_eq!(seen.output_bytes, 5 * (times as u64 + 1));
    }
}

/// What stands before an element that cannot be read counts, and what is missed is said.
#[test]
fn se_1_an_element_that_cannot_be_read_is_missed_and_said_so() {
    let body = r#"{"content":[{"text":"a"},{"text":"b","text":"c"},{"text":"d"}]}"#;
    let seen = observed(Protocol::AnthropicMessages, Framing::Plain, body);
    assert_eq!((seen.text.as_str(), seen.partial), ("a", true));
}

fn refused(protocol: Protocol, body: &str) -> Option<(String, usize)> {
    match request::read(protocol, body.as_bytes()) {
        Ok(_) => None,
        Err(ReadError::TooMany { what, max, .. }) => Some((what.to_owned(), max)),
        Err(other) => panic!("{other}"),
    }
}

/// A request with more calls, results or messages in a row than are kept is refused: none of them is judged less.
#[test]
fn se_1_a_request_with_more_than_is_kept_is_refused() {
    let end = r#"{"role":"user","content":"x"}"#;
    let cases = [
        (
            Protocol::OpenAiChat,
            r#"{"messages":[{"role":"assistant","tool_calls":["#,
            r#"{"function":{"name":""}}"#,
            r#"{"function":{"name":"t"}}"#,
            r#"]},{"role":"tool","content":"x"}]}"#,
            10_000,
        ),
        (Protocol::OpenAiChat, r#"{"messages":["#, r#"{"role":"tool"}"#, end, "]}", 10_000),
        (Protocol::OllamaChat, r#"{"messages":["#, r#"{"role":"tool"}"#, end, "]}", 10_000),
        (
            Protocol::AnthropicMessages,
            r#"{"messages":[{"role":"assistant","content":["#,
            r#"{"type":"tool_use"}"#,
            r#"{"type":"tool_use","name":"t"}"#,
            r#"]},{"role":"user","content":"x"}]}"#,
            10_000,
        ),
        (
            Protocol::AnthropicMessages,
            r#"{"messages":[{"role":"user","content":["#,
            r#"{"type":"tool_result"}"#,
            r#"{"type":"tool_result"}"#,
            "]}]}",
            10_000,
        ),
        (Protocol::AnthropicMessages, r#"{"messages":["#, r#"{"role":"assistant"}"#, end, "]}", 10_000),
        (Protocol::AnthropicMessages, r#"{"messages":["#, r#"{"role":"user"}"#, end, "]}", 10_000),
        (
            Protocol::OpenAiResponses,
            r#"{"input":["#,
            r#"{"type":"function_call","call_id":"a","name":"t"}"#,
            end,
            "]}",
            10_000,
        ),
        (Protocol::OpenAiResponses, r#"{"input":["#, r#"{"type":"function_call_output"}"#, end, "]}", 10_000),
        (Protocol::Gemini, r#"{"contents":["#, "{}", "{}", "]}", 10_000),
        (
            Protocol::Gemini,
            r#"{"contents":[{"parts":["#,
            r#"{"functionResponse":{}}"#,
            r#"{"functionResponse":{}}"#,
            "]}]}",
            10_000,
        ),
    ];
    for (protocol, before, unit, last, after, max) in cases {
        let at = |times: usize| list(before, unit, times, last, after);
        assert_eq!(refused(protocol, &at(max - 1)), None, "{protocol:?} {before}{unit}");
        let found = refused(protocol, &at(max + 1)).map(|(_, max)| max);
        assert_eq!(found, Some(max), "{protocol:?} {before}{unit}");
    }
}

/// Conversations as agents have them, of any length: only one turn is kept.
#[test]
fn se_1_a_conversation_of_20_000_messages_is_read() {
    let turn = r#"{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"t","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}"#;
    let body = list(r#"{"messages":["#, turn, 7_000, turn, "]}");
    let read = request::read(Protocol::OpenAiChat, body.as_bytes()).unwrap();
    assert_eq!((read.steps.len(), read.steps[0].tool.as_ref(), read.continues), (1, "t", true));
    let turn = r#"{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"t","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"r"}]}"#;
    let body = list(r#"{"messages":["#, turn, 7_000, turn, "]}");
    let read = request::read(Protocol::AnthropicMessages, body.as_bytes()).unwrap();
    assert_eq!((read.steps.len(), read.steps[0].tool.as_ref(), read.continues), (1, "t", true));
}

/// Parts that count by their hash still tell two contents apart, however many there are.
#[test]
fn se_1_the_last_of_many_parts_still_counts() {
    let words = |last: &str| {
        let body = list(r#"{"messages":[{"role":"user","content":["#, r#"{"x":1}"#, 10_000, last, "]}]}");
        request::read(Protocol::OpenAiChat, body.as_bytes()).unwrap().last_user.into_owned()
    };
    assert_ne!(words(r#"{"x":1}"#), words(r#"{"x":2}"#));
    assert_eq!(words(r#"{"x":2}"#), words(r#"{"x":2}"#));
    assert!(words("{}").len() < 110_000 && words(r#"{"text":"word"}"#).contains("\nword"));
}

#[test]
fn se_1_an_object_with_more_keys_than_are_compared_is_refused() {
    let body = |keys: usize| {
        let keys: Vec<String> = (0..keys).map(|n| format!("\"k{n}\":0")).collect();
        format!("{{\"messages\":[],{}}}", keys.join(","))
    };
    assert_eq!(refused(Protocol::OpenAiChat, &body(32_768)), None);
    assert_eq!(refused(Protocol::OpenAiChat, &body(32_769)), Some(("keys".to_owned(), 32_768)));
}
