//! Memory that long lists in requests, answers and MCP messages take (SE-1), counted by the allocator: an element of three
//! bytes must not become a struct of two hundred.

use estop_bench::counting_alloc::CountingAlloc;
use estop_core::fingerprint::RequestFingerprint;
use estop_core::run::test_command::TestRunners;
use estop_wire::hooks::{self, HookClient};
use estop_wire::mcp;
use estop_wire::protocol::Protocol;
use estop_wire::request;
use estop_wire::response::{Framing, Observer};

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc;

const BODY_BYTES: usize = 3 << 20;

/// What may be allocated at once for a body of `BODY_BYTES`: copies of its texts, and a fixed rest.
const TIMES_MAX: usize = 2;
const BESIDE_MAX: usize = 6 << 20;

/// A document: what stands before and after a list, and its elements.
type Case = (&'static str, &'static [&'static str], &'static str);

fn document((before, units, after): Case, unit: usize) -> String {
    let unit = format!("{},", units[unit]);
    format!("{before}{}{after}", unit.repeat(BODY_BYTES / unit.len()).trim_end_matches(','))
}

/// Runs `read` on every document and gives one line for each that takes too much memory.
fn over(times: usize, cases: &[Case], read: &dyn Fn(&str)) -> Vec<String> {
    let mut over = Vec::new();
    for &case in cases {
        for unit in 0..case.1.len() {
            let text = document(case, unit);
            let peak = CountingAlloc::peak_of(|| read(&text));
            if peak > times * text.len() + BESIDE_MAX {
                over.push(format!("{} MB: {}{}…", peak >> 20, case.0, case.1[unit]));
            }
        }
    }
    over
}

const REQUESTS: &[(Protocol, &[Case])] = &[
    (
        Protocol::OpenAiChat,
        &[
            (
                r#"{"messages":["#,
                &[
                    r#"{"role":"user"}"#,
                    r#"{"role":"assistant"}"#,
                    r#"{"role":"tool"}"#,
                    r#"{"role":"user","content":[{}]}"#,
                ],
                "]}",
            ),
            (r#"{"messages":[{"role":"user","content":["#, &["{}", r#"{"text":"a"}"#], "]}]}"),
            (
                r#"{"messages":[{"role":"assistant","tool_calls":["#,
                &[r#"{"function":{"name":""}}"#],
                r#"]},{"role":"tool"}]}"#,
            ),
            (
                r#"{"messages":[{"role":"assistant","content":"x"},{"role":"user","content":"x"}],"a":{},"#,
                &[r#""":0"#],
                "}",
            ),
        ],
    ),
    (
        Protocol::OpenAiResponses,
        &[
            (
                r#"{"input":["#,
                &[
                    r#"{"role":"user"}"#,
                    r#"{"role":"assistant"}"#,
                    r#"{"type":"x_call","call_id":"a"}"#,
                    r#"{"type":"_call_output"}"#,
                    r#"{"type":"_call","error":1}"#,
                ],
                r#",{"role":"user","content":"x"}]}"#,
            ),
            (r#"{"input":[{"role":"user","content":["#, &["{}"], "]}]}"),
        ],
    ),
    (Protocol::OpenAiCompletions, &[(r#"{"prompt":["#, &["[]", r#""""#, "0"], "]}")]),
    (
        Protocol::AnthropicMessages,
        &[
            (
                r#"{"messages":["#,
                &[r#"{"role":"user"}"#, r#"{"role":"assistant"}"#],
                r#",{"role":"user","content":"x"}]}"#,
            ),
            (
                r#"{"messages":[{"role":"assistant","content":["#,
                &[r#"{"type":"tool_use"}"#, r#"{"type":"tool_result"}"#],
                r#"]},{"role":"user","content":"x"}]}"#,
            ),
            (
                r#"{"messages":[{"role":"user","content":["#,
                &["{}", r#"{"type":"tool_result"}"#, r#"{"source":0}"#],
                "]}]}",
            ),
            (r#"{"messages":[],"system":["#, &["{}", r#"{"text":"a"}"#], "]}"),
        ],
    ),
    (
        Protocol::Gemini,
        &[
            (
                r#"{"contents":["#,
                &["{}", r#"{"role":"model"}"#, r#"{"parts":{}}"#],
                r#",{"role":"user","parts":[{"text":"x"}]}]}"#,
            ),
            (
                r#"{"contents":[{"role":"model","parts":["#,
                &["{}", r#"{"functionCall":{}}"#],
                r#"]},{"role":"user","parts":[{"text":"x"}]}]}"#,
            ),
            (
                r#"{"contents":[{"parts":["#,
                &["{}", r#"{"functionResponse":{}}"#, r#"{"inlineData":{}}"#],
                "]}]}",
            ),
        ],
    ),
    (
        Protocol::OllamaChat,
        &[
            (r#"{"messages":[{"role":"user","images":["#, &["0", r#""""#], "]}]}"),
            (r#"{"messages":["#, &[r#"{"role":"tool"}"#], "]}"),
        ],
    ),
    (Protocol::OllamaGenerate, &[(r#"{"prompt":"x","images":["#, &["0"], "]}")]),
];

const CHOICES: &[&str] =
    &["{}", "[]", r#"{"index":1}"#, r#"{"text":"a"}"#, r#"{"delta":{}}"#, r#"{"message":{}}"#];
const CALLS: &[&str] = &["{}", r#"{"id":"a"}"#, r#"{"index":1}"#, r#"{"function":{}}"#, r#"{"custom":{}}"#];
const PARTS: &[&str] = &["{}", r#"{"text":"a"}"#, r#"{"refusal":"a"}"#, r#"{"thinking":[{},{},{}]}"#];

const ANSWERS: &[(Protocol, &[Case])] = &[
    (
        Protocol::OpenAiChat,
        &[
            (r#"{"choices":["#, CHOICES, "]}"),
            (r#"{"error":{},"choices":["#, CHOICES, "]}"),
            (r#"{"choices":[{"message":{"tool_calls":["#, CALLS, "]}}]}"),
            (r#"{"choices":[{"delta":{"tool_calls":["#, CALLS, "]}}]}"),
            (r#"{"choices":[{"index":1,"message":{"tool_calls":["#, CALLS, "]}}]}"),
            (r#"{"choices":[{"message":{"content":["#, PARTS, "]}}]}"),
            (r#"{"choices":[{"message":{"content":[{"thinking":["#, PARTS, "]}]}}]}"),
        ],
    ),
    (Protocol::OpenAiCompletions, &[(r#"{"choices":["#, CHOICES, "]}")]),
    (
        Protocol::OpenAiResponses,
        &[
            (r#"{"output":["#, &["{}", r#"{"type":"message"}"#, r#"{"type":"function_call"}"#], "]}"),
            (r#"{"output":[{"type":"message","content":["#, PARTS, "]}]}"),
            (r#"{"output":[{"type":"reasoning","summary":["#, PARTS, "]}]}"),
            (r#"{"type":"response.completed","response":{"output":["#, &["{}"], "]}}"),
        ],
    ),
    (
        Protocol::AnthropicMessages,
        &[(r#"{"content":["#, &["{}", r#"{"type":"tool_use"}"#, r#"{"text":"a"}"#], "]}")],
    ),
    (
        Protocol::Gemini,
        &[
            (r#"{"candidates":["#, &["{}", r#"{"content":{}}"#, r#"{"content":{"parts":[{}]}}"#], "]}"),
            (
                r#"{"candidates":[{"content":{"parts":["#,
                &["{}", r#"{"functionCall":{}}"#, r#"{"text":"a"}"#],
                "]}}]}",
            ),
        ],
    ),
    (Protocol::OllamaChat, &[(r#"{"message":{"tool_calls":["#, &["{}", r#"{"function":{}}"#], "]}}")]),
];

const MCP: &[Case] = &[
    ("[", &["{}", r#"{"id":1,"method":"a"}"#], "]"),
    (r#"{"id":1,"method":"tools/call","params":{"name":"t","arguments":{"#, &[r#""":0"#], "}}}"),
    (r#"{"id":1,"method":"tools/call","params":["#, &["{}", "0"], "]}"),
    (r#"{"id":1,"result":{"content":["#, &["{}", r#"{"text":"a"}"#], "]}}"),
    (r#"{"#, &[r#""a":0"#], "}"),
];

const HOOKS: &[Case] = &[
    (r#"{"tool":"t","args":{"#, &[r#""":0"#], "}}"),
    (r#"{"tool":"t","args":["#, &["{}"], "]}"),
    (r#"{"tool":"t","result":{"#, &[r#""":0"#], "}}"),
];

fn observe(protocol: Protocol, framing: Framing, body: &str) {
    let mut observer = Observer::new(protocol, framing, "");
    for piece in body.as_bytes().chunks(16 << 10) {
        observer.push(piece);
    }
    drop(observer.finish());
}

/// One test, because all threads are counted.
#[test]
fn se_1_long_lists_take_a_small_multiple_of_their_bytes() {
    let mut failed = Vec::new();
    let mut add = |what: &str, over: Vec<String>| {
        failed.extend(over.into_iter().map(|line| format!("{what} {line}")));
    };
    for &(protocol, cases) in REQUESTS {
        let read = |body: &str| {
            if let Ok(read) = request::read(protocol, body.as_bytes()) {
                drop(RequestFingerprint::of(&read.text(None)));
            }
        };
        add(&format!("request {protocol:?}"), over(TIMES_MAX, cases, &read));
    }
    for &(protocol, cases) in ANSWERS {
        // The body itself is kept to its end, in a buffer that doubles.
        let read = |body: &str| observe(protocol, Framing::Plain, body);
        add(&format!("answer {protocol:?}"), over(TIMES_MAX + 1, cases, &read));
        // An event has at most 1 MiB.
        let read = |body: &str| {
            let head = body.len() % (1 << 19);
            observe(protocol, Framing::Sse, &format!("data: {}\n\n", &body[..head]));
        };
        add(&format!("event {protocol:?}"), over(1, cases, &read));
    }
    let read = |line: &str| {
        if let Ok(message) = mcp::read_line(line.as_bytes()) {
            for part in message.parts() {
                if let mcp::Part::Answer { result, error, .. } = part {
                    drop(mcp::answered(*result, *error));
                }
            }
        }
    };
    add("mcp", over(TIMES_MAX, MCP, &read));
    let read = |body: &str| {
        for event in ["pre-tool-use", "post-tool-use"] {
            if let Ok(hook) = hooks::read(HookClient::Generic, Some(event), body.as_bytes()) {
                drop(hook.print(&TestRunners::default()));
            }
        }
    };
    add("hook", over(TIMES_MAX, HOOKS, &read));
    assert!(
        failed.is_empty(),
        "more than a small multiple of {} MB:\n{}",
        BODY_BYTES >> 20,
        failed.join("\n")
    );
}
