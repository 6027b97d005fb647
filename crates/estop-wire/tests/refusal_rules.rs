//! What must hold for every refusal, whatever its words.

use estop_core::policy::BlockResponse;
use estop_wire::client::Client;
use estop_wire::protocol::{Family, Protocol};
use estop_wire::refusal::{self, ErrorDetails, ErrorResponse, Kind, RejectedRequest, cut, refuse};
use estop_wire::response::Framing;
use proptest::prelude::*;
use serde_json::Value;

fn of(protocol: Protocol, client: Client, style: BlockResponse, stream: bool) -> RejectedRequest<'static> {
    RejectedRequest { protocol, client, stream, array: false, model: "m", style }
}

fn stop(message: &str) -> ErrorDetails<'_> {
    ErrorDetails { kind: Kind::Stop, code: "kill_switch", message }
}

fn header<'a>(answer: &'a ErrorResponse, name: &str) -> Option<&'a str> {
    answer.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
}

#[test]
fn an_1_the_status_of_a_stop_is_the_one_that_stops_this_client() {
    let status =
        |protocol, client| refuse(&of(protocol, client, BlockResponse::Error, true), &stop("x")).status;
    for protocol in Protocol::all() {
        let usual = if protocol.family() == Family::OpenAi { 400 } else { 403 };
        assert_eq!(status(protocol, Client::Usual), usual, "{protocol:?}");
        assert_eq!(status(protocol, Client::Goose), 403, "{protocol:?}");
        assert_eq!(status(protocol, Client::LiteLlm), 400, "{protocol:?}");
        assert_eq!(status(protocol, Client::Copilot), 400, "{protocol:?}");
    }
}

#[test]
fn an_1_a_stop_never_invites_a_retry() {
    for protocol in Protocol::all() {
        for style in [BlockResponse::Error, BlockResponse::Message] {
            for stream in [false, true] {
                let answer = refuse(&of(protocol, Client::Usual, style, stream), &stop("x"));
                assert_eq!(header(&answer, "x-should-retry"), Some("false"));
                assert_eq!(header(&answer, "retry-after"), None);
                assert_eq!(header(&answer, "x-estop-reason"), Some("kill_switch"));
                assert_eq!(header(&answer, "cache-control"), Some("no-store"));
            }
        }
    }
}

#[test]
fn an_1_an_error_is_one_document_even_if_a_stream_was_asked_for() {
    for protocol in Protocol::all() {
        let plain = refuse(&of(protocol, Client::Usual, BlockResponse::Error, false), &stop("x"));
        let streamed = refuse(&of(protocol, Client::Usual, BlockResponse::Error, true), &stop("x"));
        assert_eq!(plain, streamed);
        assert!(serde_json::from_slice::<Value>(&plain.body).is_ok());
    }
}

#[test]
fn an_1_a_message_is_for_stops_of_generation_calls_only() {
    for protocol in Protocol::all() {
        let refused = of(protocol, Client::Usual, BlockResponse::Message, false);
        let is_message = refuse(&refused, &stop("x")).status == 200;
        assert_eq!(is_message, protocol.is_generation(), "{protocol:?}");
        let late = ErrorDetails { kind: Kind::Wait { after_ms: 5 }, ..stop("x") };
        assert_eq!(refuse(&refused, &late).status, 429, "{protocol:?}");
    }
}

#[test]
fn an_2_waiting_is_said_in_whole_seconds_rounded_up() {
    for (after_ms, seconds) in
        [(0, "1"), (1, "1"), (1000, "1"), (1001, "2"), (59_999, "60"), (u64::MAX, "18446744073709552")]
    {
        for protocol in Protocol::all() {
            let refusal = ErrorDetails { kind: Kind::Wait { after_ms }, code: "rate_limit", message: "x" };
            let answer = refuse(&of(protocol, Client::Usual, BlockResponse::Error, false), &refusal);
            assert_eq!((answer.status, header(&answer, "retry-after")), (429, Some(seconds)));
            assert_eq!(header(&answer, "x-should-retry"), None);
        }
    }
}

#[test]
fn an_2_what_the_upstream_did_is_marked_as_its_own() {
    for (status, code) in [(502, "upstream_unreachable"), (504, "upstream_timeout")] {
        let refusal = ErrorDetails { kind: Kind::Upstream { status }, code, message: "x" };
        for protocol in Protocol::all() {
            let answer = refuse(&of(protocol, Client::Goose, BlockResponse::Message, true), &refusal);
            assert_eq!((answer.status, header(&answer, "x-estop-reason")), (status, Some(code)));
            let body: Value = serde_json::from_slice(&answer.body).expect("JSON");
            let has_type = matches!(protocol.family(), Family::OpenAi | Family::Anthropic);
            assert_eq!(body["error"]["type"] == "upstream_error", has_type, "{protocol:?}");
        }
    }
}

#[test]
fn an_3_a_cut_never_looks_like_a_clean_end() {
    for protocol in Protocol::all() {
        for framing in [Framing::Sse, Framing::Ndjson] {
            let bytes = cut(protocol, framing, true, &stop("x")).expect("a stream can be cut");
            let text = String::from_utf8(bytes).expect("UTF-8");
            for end in
                ["[DONE]", "message_stop", "response.completed", "finish_reason", "finishReason", "\"done\""]
            {
                assert!(!text.contains(end), "{protocol:?}: {text}");
            }
            let between = cut(protocol, framing, false, &stop("x")).expect("a stream can be cut");
            let begin = if framing == Framing::Sse { "\n\n" } else { "\n" };
            assert_eq!(String::from_utf8(between).expect("UTF-8"), format!("{begin}{text}"));
        }
        assert_eq!(cut(protocol, Framing::Plain, true, &stop("x")), None);
        assert_eq!(cut(protocol, Framing::Plain, false, &stop("x")), None);
    }
}

#[test]
fn an_3_codex_is_stopped_by_the_one_code_that_shows_our_sentence() {
    let bytes =
        cut(Protocol::OpenAiResponses, Framing::Sse, true, &stop("why")).expect("a stream can be cut");
    let text = String::from_utf8(bytes).expect("UTF-8");
    let data: Value =
        serde_json::from_str(text.strip_prefix("event: response.failed\ndata: ").expect("a failure"))
            .expect("JSON");
    assert_eq!(data["response"]["error"]["code"], "invalid_prompt");
    assert_eq!(data["response"]["error"]["message"], "why");
    assert_eq!(
        (&data["response"]["status"], data["sequence_number"].is_u64()),
        (&Value::from("failed"), true)
    );
}

/// The documents of a stream, whatever its framing.
fn documents(answer: &ErrorResponse) -> Vec<Value> {
    let text = std::str::from_utf8(&answer.body).expect("UTF-8");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with("event: "));
    let data = lines.map(|line| line.strip_prefix("data: ").unwrap_or(line)).filter(|data| *data != "[DONE]");
    data.map(|data| serde_json::from_str(data).expect("JSON")).collect()
}

fn contains(value: &Value, text: &str) -> bool {
    match value {
        Value::String(found) => found == text,
        Value::Array(items) => items.iter().any(|item| contains(item, text)),
        Value::Object(fields) => fields.values().any(|field| contains(field, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// What Python's `splitlines` takes for line ends beyond CR and LF, which must not occur at all.
fn has_odd_line_ends(body: &[u8]) -> bool {
    let odd = ['\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}'];
    std::str::from_utf8(body).expect("UTF-8").contains(odd)
}

/// Any text, and much of what ends lines.
const WORDS: &str = "\\PC*|[\\s\\S]{0,40}|[a\\r\\n\u{b}\u{c}\u{1c}\u{85}\u{2028}\u{2029}\"\\\\]{0,20}";

proptest! {
    #[test]
    fn an_1_any_sentence_arrives_as_it_is(message in WORDS, stream: bool, at in 0..Protocol::GENERATIONS.len()) {
        let refusal = stop(&message);
        for style in [BlockResponse::Error, BlockResponse::Message] {
            let answer = refuse(&of(Protocol::GENERATIONS[at], Client::Usual, style, stream), &refusal);
            prop_assert!(documents(&answer).iter().any(|document| contains(document, &message)));
            prop_assert!(!has_odd_line_ends(&answer.body));
            for (_, value) in &answer.headers {
                prop_assert!(value.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
            }
        }
    }

    #[test]
    fn an_3_any_sentence_stays_one_event(message in WORDS, at in 0..Protocol::GENERATIONS.len()) {
        for framing in [Framing::Sse, Framing::Ndjson] {
            let bytes = cut(Protocol::GENERATIONS[at], framing, true, &stop(&message)).expect("a stream can be cut");
            let text = String::from_utf8(bytes).expect("UTF-8");
            prop_assert!(!has_odd_line_ends(text.as_bytes()));
            let end = if framing == Framing::Sse { "\n\n" } else { "\n" };
            prop_assert!(text.ends_with(end) && text.matches(end).count() == 1, "{}", text);
        }
    }
}

#[test]
fn an_1_gemini_without_alt_sse_is_answered_with_one_json_array() {
    let refused =
        RejectedRequest { array: true, ..of(Protocol::Gemini, Client::Usual, BlockResponse::Message, true) };
    let answer = refuse(&refused, &stop("a \u{2028} \"b\" ] , ["));
    let found: Value = serde_json::from_slice(&answer.body).expect("it is JSON");
    assert_eq!(found.as_array().map(Vec::len), Some(1), "{found}");
    assert_eq!(found[0]["candidates"][0]["finishReason"], "STOP");
    assert!(
        answer.headers.contains(&("content-type", "application/json".to_owned())),
        "{:?}",
        answer.headers
    );
}

#[test]
fn an_3_a_cut_gemini_array_ends_with_an_error_element_or_not_at_all() {
    use estop_wire::response::Observer;
    let pieces = [
        "",
        "[",
        "[{\"a\": \"]},{\"}",
        "[{\"a\": [1, {}]}\n,\r\n",
        "[{}",
        "[{}]",
        "[1",
        "[\"a\"",
        "{\"a\": 1}",
    ];
    let gaps = pieces.map(|piece| {
        let mut observer = Observer::new(Protocol::Gemini, Framing::Plain, "");
        observer.push(piece.as_bytes());
        let gap = observer.array_gap();
        if let Some(after_element) = gap {
            let cut = refusal::cut_array(Protocol::Gemini, after_element, &stop("stopped"));
            let whole = [piece.as_bytes(), &cut].concat();
            let found: Value = serde_json::from_slice(&whole).expect("a well-formed array");
            let last = found.as_array().and_then(|all| all.last()).expect("an element");
            assert_eq!(last["error"]["message"], "stopped", "{found}");
        }
        gap
    });
    let expected = [None, Some(false), Some(true), Some(false), Some(true), None, None, None, None];
    assert_eq!(gaps, expected);
}
