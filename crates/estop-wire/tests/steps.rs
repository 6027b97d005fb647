//! SE-1 for everything in this crate that reads foreign bytes: steps are counted on patterns made of all that each reader
//! knows, repeated, and may grow no faster than the input.

use estop_core::run::test_command::TestRunners;
use estop_core::steps::{NotLinear, counted, growth, patterns};
use estop_wire::decode::Decoder;
use estop_wire::hooks::{self, HookClient};
use estop_wire::mcp::{self, Part};
use estop_wire::protocol::{Family, Protocol};
use estop_wire::request;
use estop_wire::response::{Framing, Observer};
use estop_wire::sse::EventReader;

const LINEAR: Result<(), NotLinear> = Ok(());

/// What was read is of no interest.
fn done<T>(_: T) {}

/// One for each reader: those that write no answer are read alike in every family.
fn protocols() -> impl Iterator<Item = Protocol> {
    Protocol::all().filter(|protocol| protocol.is_generation() || protocol.family() == Family::OpenAi)
}

/// What JSON is made of, right and wrong.
const JSON: [&str; 22] = [
    "{", "}", "[", "]", ":", ",", "\"", "\\", "\\n", "\\u0000", "\\ud83d", "\"a\":", "\"a\":0,", "{\"a\":",
    "[[", "0", "-", "1e5", "null,", " ", "\n", "\u{0}",
];

/// A document with `unit` repeated in it: what stands before, and after.
struct Around(&'static str, &'static str);

impl Around {
    fn document(&self, repeated: &str) -> String {
        [self.0, repeated.trim_end_matches(','), self.1].concat()
    }
}

/// Every place in a request where something is repeated.
fn requests() -> Vec<(Around, Vec<String>)> {
    let messages = [
        r#"{"role":"user","content":"a"},"#,
        r#"{"role":"user","content":"<info-msg>"},"#,
        r#"{"role":"user","content":"<system-reminder>x</system-reminder>"},"#,
        r#"{"role":"assistant","content":"a","tool_calls":[{"id":"c","function":{"name":"t","arguments":"{}"}}]},"#,
        r#"{"role":"tool","tool_call_id":"c","content":"a"},"#,
        r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{"data":"AA"}}]},"#,
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"t","input":{"command":"ls"}}]},"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"x"}]}]},"#,
        r#"{"role":"user","content":[{"content":[{"content":[{"content":[{"content":[{"content":[{"text":"a"}]}]}]}]}]}]},"#,
        r#"{"role":"model","parts":[{"functionCall":{"name":"t","args":{}}},{"text":"a"}]},"#,
        r#"{"role":"user","parts":[{"functionResponse":{"name":"t","response":{"output":"a"}}}]},"#,
        r#"{"type":"function_call","call_id":"c","name":"t","arguments":"{}"},"#,
        r#"{"type":"function_call_output","call_id":"c","output":"a"},"#,
        r#"{"type":"reasoning","summary":[]},"#,
    ];
    let messages: Vec<String> = patterns(&messages);
    let parts: Vec<String> = [
        r#"{"type":"text","text":"a"},"#,
        r#"{"type":"tool_result","tool_use_id":"a"},"#,
        r#"{"type":"tool_use","id":"a","name":"t"},"#,
        r#"{"type":"image","source":{"data":"AA"}},"#,
        r#"{"x":[{}]},"#,
        r#"{"text":"\u0061\n"},"#,
        r#"{"functionCall":{"name":"t"}},"#,
    ]
    .map(String::from)
    .into();
    let text: Vec<String> = patterns(&[
        "a",
        "\\n",
        "\\\"",
        "\\u0061",
        "<",
        "<info-msg>",
        "</info-msg>",
        "<system-reminder>",
        "é",
        " ",
    ]);
    vec![
        (Around("", ""), patterns(&JSON)),
        (Around("{\"model\":\"m\",\"messages\":[", "]}"), messages.clone()),
        (Around("{\"model\":\"m\",\"input\":[", "]}"), messages.clone()),
        (Around("{\"model\":\"m\",\"contents\":[", "]}"), messages),
        (Around("{\"messages\":[{\"role\":\"user\",\"content\":[", "]}]}"), parts.clone()),
        (
            Around(
                "{\"messages\":[{\"role\":\"assistant\",\"content\":[",
                "]},{\"role\":\"user\",\"content\":\"x\"}]}",
            ),
            parts.clone(),
        ),
        (Around("{\"contents\":[{\"role\":\"user\",\"parts\":[", "]}]}"), parts),
        (Around("{\"messages\":[{\"role\":\"user\",\"content\":\"", "\"}],\"prompt\":\"x\"}"), text.clone()),
        (Around("{\"input\":\"", "\",\"prompt\":\"x\",\"contents\":[]}"), text.clone()),
        (Around("{\"prompt\":\"", "\",\"messages\":[{\"role\":\"user\"},{\"x\":1,\"x\":2}]}"), text),
    ]
}

#[test]
fn se_1_requests_are_read_in_linear_time() {
    for (around, patterns) in requests() {
        // All protocols share the grammar of JSON: what is no document of any of them is tried on one.
        let is_any = |protocol: &Protocol| !around.0.is_empty() || *protocol == Protocol::AnthropicMessages;
        for protocol in protocols().filter(is_any) {
            let read = |text: &str| done(request::read(protocol, around.document(text).as_bytes()));
            assert_eq!(growth(&patterns, 100, read), LINEAR, "{protocol:?} {}", around.0);
        }
    }
}

/// Objects with thousands of keys, each another; and the same with the last key twice.
#[test]
fn se_1_many_keys_are_compared_in_linear_time() {
    let keys = |len: usize, last: &str| {
        let keys: Vec<String> = (0..len / 12).map(|n| format!("\"k{n:06}\":0")).collect();
        format!("{{\"messages\":[],{},{last}}}", keys.join(","))
    };
    for last in ["\"z\":0", "\"k000001\":0"] {
        let read = |text: &str| done(request::read(Protocol::OpenAiChat, keys(text.len(), last).as_bytes()));
        assert_eq!(growth(&["x".to_owned()], 40, read), LINEAR, "{last}");
    }
}

/// A fault inside many levels is told with its path, which is found in one pass.
#[test]
fn se_1_the_path_of_a_fault_is_found_in_linear_time() {
    for (open, close) in [("{\"a\":", "}"), ("[", "]"), ("{\"x\":0,\"content\":[{\"content\":", "}]}")] {
        let fault = |text: &str| {
            let levels = 100 / open.matches(['{', '[']).count();
            let deep =
                format!("{}[{}0]{}", open.repeat(levels), "0,".repeat(text.len() / 2), close.repeat(levels));
            let body = format!("{{\"messages\":[{{\"role\":\"user\",\"x\":{deep},\"role\":\"user\"}}]}}");
            assert!(request::read(Protocol::OpenAiChat, body.as_bytes()).is_err());
        };
        assert_eq!(growth(&["x".to_owned()], 60, fault), LINEAR, "{open}");
        // And where the fault stands inside of them.
        let inside = |text: &str| {
            let levels = 60 / open.matches(['{', '[']).count();
            let deep =
                format!("{}\"{}\"{}", "{\"content\":[".repeat(levels), text, "],\"id\":0}".repeat(levels));
            let body = format!("{{\"messages\":[{{\"role\":\"user\",\"content\":[{deep}]}}]}}");
            done(request::read(Protocol::OpenAiChat, body.as_bytes()));
        };
        assert_eq!(growth(&["x".to_owned()], 60, inside), LINEAR, "{open}");
    }
}

/// A text inside contents inside one another is not read once for each of them.
#[test]
fn se_1_nested_contents_are_read_a_bounded_number_of_times() {
    let steps = |levels: usize| {
        let (open, close) = ("[{\"type\":\"text\",\"content\":".repeat(levels), "}]".repeat(levels));
        let body = format!(
            "{{\"messages\":[{{\"role\":\"user\",\"content\":{open}[{}{{}}]{close}}}]}}",
            "{\"text\":\"a\"},".repeat(2_000)
        );
        counted(u64::MAX, || {
            done(request::read(Protocol::AnthropicMessages, body.as_bytes()).expect("a request"));
        })
    };
    assert!(steps(50) <= 2 * steps(3), "{} steps, {} with few levels", steps(50), steps(3));
}

/// What answers are made of: fields of events, and documents of every protocol.
const STREAM: [&str; 24] = [
    "data:",
    "data: ",
    "event: error",
    "event:",
    "id:",
    ":",
    "\n",
    "\r",
    "\r\n",
    "\n\n",
    "data: {",
    "data: [DONE]\n\n",
    "retry: 1\n",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    "\u{feff}",
    " ",
    "x",
    "{}\n",
    "data: {}\n\n",
];

const DOCUMENTS: [&str; 14] = [
    r#"{"choices":[{"delta":{"content":"a"}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"t","arguments":"{"}}]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":7,"function":{"arguments":{"a":[0,0]}}}]},"usage":{}}]}"#,
    r#"{"choices":[{},{},{"index":1,"text":"a"}],"usage":{"prompt_tokens":1}}"#,
    r#"{"type":"response.output_text.delta","delta":"a"}"#,
    r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"c","name":"t"}}"#,
    r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{"}"#,
    r#"{"type":"response.function_call_arguments.done","output_index":1,"arguments":"{}"}"#,
    r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"t","input":{}}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{"}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#,
    r#"{"candidates":[{"content":{"parts":[{"text":"a"},{"functionCall":{"name":"t","args":{ "a" : 1 }}}]}}]}"#,
    r#"{"message":{"content":"a","tool_calls":[{"function":{"name":"t","arguments":{ }}}]},"done":false}"#,
    r#"{"error":{"message":"x"}}"#,
];

fn observe(protocol: Protocol, framing: Framing, body: &[u8], piece: usize) {
    let mut observer = Observer::new(protocol, framing, "");
    for piece in body.chunks(piece) {
        observer.push(piece);
    }
    done(observer.finish());
}

#[test]
fn se_1_answers_are_read_in_linear_time() {
    let events: Vec<String> = DOCUMENTS.iter().map(|json| format!("data: {json}\n\n")).collect();
    let lines: Vec<String> = DOCUMENTS.iter().map(|json| format!("{json}\n")).collect();
    let elements: Vec<String> = DOCUMENTS.iter().map(|json| format!("{json},")).collect();
    for protocol in protocols() {
        for (framing, start, patterns) in [
            (Framing::Sse, "", &events),
            (Framing::Ndjson, "", &lines),
            (Framing::Plain, "[", &elements),
            (Framing::Plain, "{\"choices\":[", &elements),
            (Framing::Plain, "{\"x\":[", &elements),
        ] {
            let read = |text: &str| observe(protocol, framing, format!("{start}{text}").as_bytes(), 16 << 10);
            assert_eq!(growth(patterns, 400, read), LINEAR, "{protocol:?} {framing:?} {start}");
        }
    }
}

#[test]
fn se_1_streams_in_any_pieces_are_read_in_linear_time() {
    let all = patterns(&STREAM);
    for piece in [1, 7, 16 << 10] {
        let read = |text: &str| {
            let mut reader = EventReader::default();
            text.as_bytes().chunks(piece).for_each(|piece| reader.push(piece, |_| {}));
            reader.finish(|_| {});
        };
        assert_eq!(growth(&all, 12, read), LINEAR, "pieces of {piece}");
    }
    for framing in [Framing::Plain, Framing::Sse, Framing::Ndjson] {
        let read = |text: &str| observe(Protocol::Gemini, framing, text.as_bytes(), 1);
        assert_eq!(growth(&all, 30, read), LINEAR, "{framing:?}");
    }
}

#[test]
fn se_1_hooks_are_read_in_linear_time() {
    let all = patterns(&["0,", "\"\",", "{},", "[],", "{\"command\":\"ls\"},", "\"a\\n\",", "null,"]);
    let text = patterns(&[
        "a",
        "\\n",
        "\\\"",
        "exit code ",
        "completed with exit code",
        "1",
        " ",
        "\\u0061",
        "id=(,",
    ]);
    for client in HookClient::ALL {
        let (name, _) = client.events()[2];
        let after = client.events().iter().find(|(_, event)| *event == hooks::HookEvent::ToolFinished);
        let after = after.map_or(name, |(name, _)| *name);
        let read = |event: &str, tool: &str, args: &str, result: &str| {
            let body = format!(
                r#"{{"tool_name":"{tool}","toolName":"{tool}","tool":"{tool}","tool_input":{args},"toolArgs":{args},"args":{args},"tool_response":{result},"toolResult":{result},"result":{result}}}"#
            );
            if let Ok(hook) = hooks::read(client, Some(event), body.as_bytes()) {
                done(hook.print(&TestRunners::default()));
            }
        };
        let list = |text: &str| format!("{{\"command\":[{}]}}", text.trim_end_matches(','));
        assert_eq!(growth(&all, 300, |text| read(name, "Bash", &list(text), "\"\"")), LINEAR, "{client:?}");
        let said = |text: &str| format!("\"{text}\"");
        assert_eq!(growth(&text, 300, |text| read(after, "Bash", "{}", &said(text))), LINEAR, "{client:?}");
        assert_eq!(growth(&text, 300, |text| read(name, "t", &said(text), "\"\"")), LINEAR, "{client:?}");
    }
}

#[test]
fn se_1_mcp_messages_are_read_in_linear_time() {
    let read = |text: &str| {
        if let Ok(message) = mcp::read_line(text.as_bytes()) {
            for part in message.parts() {
                if let Part::Answer { result, error, .. } = part {
                    done(mcp::answered(*result, *error));
                }
            }
        }
        mcp::cannot_be_call(text.as_bytes());
    };
    let mut raw = patterns(&JSON);
    raw.extend(patterns(&["tools/call", "tools/cal", "TOOLS/", "\r", "t"]));
    assert_eq!(growth(&raw, 60, read), LINEAR);
    let units = [
        r#"{"type":"text","text":"a"},"#,
        r#"{"text":7},"#,
        "0,",
        "{},",
        "[],",
        r#""a","#,
        r#"{"id":1,"result":{}},"#,
        r#"{"id":"a","method":"tools/call","params":{"name":"t"}},"#,
    ];
    for around in [
        Around("[", "]"),
        Around("{\"id\":1,\"result\":{\"content\":[", "]}}"),
        Around("{\"id\":1,\"error\":{\"message\":[", "]}}"),
        Around(
            "{\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\",\"arguments\":{\"a\":[",
            "]}}}",
        ),
    ] {
        assert_eq!(
            growth(&patterns(&units), 60, |text| read(&around.document(text))),
            LINEAR,
            "{}",
            around.0
        );
    }
}

/// A body of many small gzip members costs no more for each byte than one member.
#[test]
fn se_1_compressed_bodies_are_undone_within_their_bounds() {
    let member: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let body = member.repeat(50_000);
    let mut decoder = Decoder::new("gzip").expect("known").expect("a coding");
    let mut out = 0;
    decoder.push(&body, |bytes| out += bytes.len());
    assert_eq!((out, decoder.stopped()), (0, false));
}
