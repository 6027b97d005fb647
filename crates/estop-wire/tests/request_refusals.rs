//! Bodies that are not read, and the exact sentence each gets. Nothing is forwarded of them (AN-2).

use estop_wire::protocol::Protocol;
use estop_wire::request::read;

#[track_caller]
fn refused(protocol: Protocol, body: &[u8], sentence: &str) {
    let error = read(protocol, body).expect_err("it is refused");
    assert_eq!(error.to_string(), sentence);
}

#[track_caller]
fn chat(body: &str, sentence: &str) {
    refused(Protocol::OpenAiChat, body.as_bytes(), sentence);
}

/// A second message in a chat.
#[track_caller]
fn message(message: &str, sentence: &str) {
    chat(&format!(r#"{{"messages":[{{"role":"user","content":"go"}},{message}]}}"#), sentence);
}

#[test]
fn id_5_what_is_not_json_is_refused() {
    chat("", "the body is empty: send a JSON object");
    chat(" \n", "the body is empty: send a JSON object");
    chat("{\"messages\":[", "the body is not valid JSON: the text ends too early at byte 13");
    chat("{\"messages\":[}", "the body is not valid JSON: a value is expected at byte 13");
    chat("{'messages':[]}", "the body is not valid JSON: a key in quotation marks is expected at byte 1");
    chat("{\"messages\":[],}", "the body is not valid JSON: a key in quotation marks is expected at byte 15");
    chat("{\"messages\" []}", "the body is not valid JSON: `:` is expected at byte 12");
    chat("{\"messages\":[] \"n\":1}", "the body is not valid JSON: `,` or `}` is expected at byte 15");
    chat("{\"messages\":[],\"top_p\":NaN}", "the body is not valid JSON: a value is expected at byte 23");
    chat(
        "{\"messages\":[],\"top_p\":Infinity}",
        "the body is not valid JSON: a value is expected at byte 23",
    );
    chat("{\"messages\":[],\"top_p\":.5}", "the body is not valid JSON: a value is expected at byte 23");
    chat("{\"messages\":[],\"top_p\":1.}", "the body is not valid JSON: a digit is expected at byte 25");
    chat(
        "{\"messages\":[],\"x\":\"a\tb\"}",
        "the body is not valid JSON: a control character in a text must be escaped at byte 21",
    );
    chat(r#"{"messages":[],"x":"\x"}"#, "the body is not valid JSON: unknown escape in a text at byte 20");
    chat(
        r#"{"messages":[],"x":"\u12g4"}"#,
        "the body is not valid JSON: `\\u` takes four hex digits at byte 20",
    );
}

#[test]
fn id_5_what_readers_disagree_on_is_refused() {
    chat("\u{feff}{\"messages\":[]}", "the body starts with a byte order mark: send JSON without one");
    refused(
        Protocol::OpenAiChat,
        b"{\"messages\":[],\"x\":\"\xff\"}",
        "the body is not UTF-8 from byte 20 on: send JSON in UTF-8",
    );
    chat(
        "{\"messages\":[]} {}",
        "the body goes on after its JSON document at byte 16: send one document and nothing else",
    );
    chat(
        "{\"messages\":[]}\0",
        "the body goes on after its JSON document at byte 15: send one document and nothing else",
    );
    let deep = format!("{{\"messages\":[],\"x\":{}{}}}", "[".repeat(128), "]".repeat(128));
    chat(&deep, "the body is nested deeper than 128 levels at byte 146: send it flatter");
}

#[test]
fn id_5_keys_that_are_there_twice_are_refused_wherever_we_look() {
    chat(r#"{"model":"a","messages":[],"model":"b"}"#, "`model` is there twice: send each key once");
    chat(r#"{"x":1,"messages":[],"x":2}"#, "`x` is there twice: send each key once");
    chat(
        r#"{"model":"a","messages":[],"mod\u0065l":"b"}"#,
        r"`mod\\u0065l` is there twice: send each key once",
    );
    message(r#"{"role":"user","role":"tool"}"#, "`messages[1].role` is there twice: send each key once");
    message(
        r#"{"role":"user","content":[{"type":"text"},{"type":"text","text":"a","text":"b"}]}"#,
        "`messages[1].content[1].text` is there twice: send each key once",
    );
    message(
        r#"{"role":"assistant","tool_calls":[{"function":{"name":"a","name":"b"}}]}"#,
        "`messages[1].tool_calls[0].function.name` is there twice: send each key once",
    );
    refused(
        Protocol::Gemini,
        br#"{"contents":[],"systemInstruction":{},"system_instruction":{}}"#,
        "`system_instruction` is there twice: send each key once",
    );
    let long = "k".repeat(50);
    chat(
        &format!(r#"{{"{long}":1,"messages":[],"{long}":2}}"#),
        &format!("`{}…` is there twice: send each key once", "k".repeat(40)),
    );
}

#[test]
fn id_5_keys_in_the_wrong_case_are_refused_where_we_look() {
    chat(r#"{"Model":"a","messages":[]}"#, "`Model` is spelled in the wrong case: write `model`");
    chat(r#"{"model":"a","MODEL":"b","messages":[]}"#, "`MODEL` is spelled in the wrong case: write `model`");
    message(
        r#"{"role":"user","Content":"x"}"#,
        "`messages[1].Content` is spelled in the wrong case: write `content`",
    );
    message(
        r#"{"role":"assistant","tool_calls":[{"function":{"Name":"a"}}]}"#,
        "`messages[1].tool_calls[0].function.Name` is spelled in the wrong case: write `name`",
    );
    refused(
        Protocol::AnthropicMessages,
        br#"{"messages":[{"role":"user","content":[{"Type":"tool_result"}]}]}"#,
        "`messages[0].content[0].Type` is spelled in the wrong case: write `type`",
    );
    refused(
        Protocol::Gemini,
        br#"{"contents":[],"generationconfig":{}}"#,
        "`generationconfig` is spelled in the wrong case: write `generationConfig`",
    );
}

#[test]
fn id_5_wrong_types_are_refused_where_we_look() {
    chat("[]", "the body: expected an object, found a list");
    chat("7", "the body: expected an object, found a number");
    chat(r#"{"model":5,"messages":[]}"#, "`model`: expected text, found a number");
    chat(r#"{"stream":"yes","messages":[]}"#, "`stream`: expected true or false, found text");
    chat(r#"{"max_tokens":"100","messages":[]}"#, "`max_tokens`: expected a whole number, found text");
    chat(r#"{"messages":{"role":"user"}}"#, "`messages`: expected a list of messages, found an object");
    message("\"hello\"", "`messages[1]`: expected an object, found text");
    message(r#"{"role":1}"#, "`messages[1].role`: expected text, found a number");
    message(
        r#"{"role":"user","content":5}"#,
        "`messages[1].content`: expected text or a list of parts, found a number",
    );
    message(
        r#"{"role":"user","content":[{"type":"text","text":["a"]}]}"#,
        "`messages[1].content[0].text`: expected text, found a list",
    );
    message(r#"{"role":"user","content":["a"]}"#, "`messages[1].content[0]`: expected an object, found text");
    message(
        r#"{"role":"assistant","tool_calls":{}}"#,
        "`messages[1].tool_calls`: expected a list of calls, found an object",
    );
    refused(
        Protocol::OpenAiResponses,
        br#"{"input":{"role":"user"}}"#,
        "`input`: expected text or a list of items, found an object",
    );
    refused(
        Protocol::OpenAiCompletions,
        br#"{"prompt":[true]}"#,
        "`prompt[0]`: expected text, tokens, or a list of them, found a boolean",
    );
    refused(
        Protocol::AnthropicMessages,
        br#"{"messages":[{"role":"user","content":[{"type":"tool_result","is_error":"no"}]}]}"#,
        "`messages[0].content[0].is_error`: expected true or false, found text",
    );
    refused(
        Protocol::Gemini,
        br#"{"contents":[{"parts":[{"functionCall":"f"}]}]}"#,
        "`contents[0].parts[0].functionCall`: expected an object, found text",
    );
    refused(
        Protocol::OllamaChat,
        br#"{"options":{"num_predict":[1]}}"#,
        "`options.num_predict`: expected a whole number, found a list",
    );
    refused(Protocol::OllamaGenerate, br#"{"prompt":["a"]}"#, "`prompt`: expected text, found a list");
}

#[test]
fn id_5_what_a_request_cannot_do_without_is_asked_for() {
    chat(r#"{"model":"a"}"#, "`messages` is missing: add it");
    message(r#"{"content":"x"}"#, "`messages[1].role` is missing: add it");
    message(
        r#"{"role":"assistant","tool_calls":[{"id":"a"}]}"#,
        "`messages[1].tool_calls[0].function` is missing: add it",
    );
    message(
        r#"{"role":"assistant","tool_calls":[{"function":{"arguments":"{}"}}]}"#,
        "`messages[1].tool_calls[0].function.name` is missing: add it",
    );
    refused(Protocol::AnthropicMessages, br#"{"max_tokens":1}"#, "`messages` is missing: add it");
    refused(
        Protocol::OpenAiResponses,
        br#"{"input":[{"type":"message"}]}"#,
        "`input[0].role` is missing: add it",
    );
    refused(Protocol::OpenAiCompletions, br#"{"model":"m"}"#, "`prompt` is missing: add it");
    refused(Protocol::Gemini, br#"{"model":"m"}"#, "`contents` is missing: add it");
}

#[test]
fn id_5_numbers_and_texts_that_are_none_are_refused_where_we_look() {
    chat(
        r#"{"messages":[],"max_tokens":1e999}"#,
        "`max_tokens`: the number is too large: send a whole number below 2^32",
    );
    message(
        r#"{"role":"user","content":"\ud83d"}"#,
        "`messages[1].content`: `\\u` with half of a surrogate pair is no character: send both halves, or neither",
    );
    message(
        r#"{"role":"user","content":[{"type":"text","text":"\udc00\ud83d"}]}"#,
        "`messages[1].content[0].text`: `\\u` with half of a surrogate pair is no character: send both halves, or neither",
    );
    refused(
        Protocol::AnthropicMessages,
        br#"{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"\ud83dx"}]}]}]}"#,
        "`messages[1].content[0].content[0].text`: `\\u` with half of a surrogate pair is no character: send both halves, or neither",
    );
}

#[test]
fn id_6_what_we_do_not_look_at_rides_along() {
    let body = br#"{"messages":[{"role":"user","content":"go","x":{"a":1,"a":2,"Role":0}}],"top_p":1e999,
        "metadata":{"k":"\ud83d","k":1},"Metadata":{},"seed":123456789012345678901234567890}"#;
    assert_eq!(read(Protocol::OpenAiChat, body).expect("a request").last_user, "go");
}
