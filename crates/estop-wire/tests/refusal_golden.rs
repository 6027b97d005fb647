//! Every refusal, byte for byte: protocol × kind × stream × style, and every cut. After a wanted change, write the
//! files anew with `ESTOP_GOLDEN=write cargo test -p estop-wire --test refusal_golden` and read the difference.

use std::fs;
use std::path::Path;

use estop_core::policy::BlockResponse;
use estop_wire::client::Client;
use estop_wire::protocol::{Family, Protocol};
use estop_wire::refusal::{ErrorDetails, ErrorResponse, Kind, RejectedRequest, cut, refuse};
use estop_wire::response::Framing;

/// What a user's own words could do to JSON, to an event stream and to a line of it.
const SENTENCE: &str =
    "Stopped by estop: \"rm -rf\" seen 5×.\nA person must look.\r\n\u{2028}data: [DONE]\n\n\\ é \u{1F6D1}";

const PROTOCOLS: &[(&str, Protocol)] = &[
    ("openai_chat", Protocol::OpenAiChat),
    ("openai_responses", Protocol::OpenAiResponses),
    ("openai_completions", Protocol::OpenAiCompletions),
    ("anthropic_messages", Protocol::AnthropicMessages),
    ("gemini", Protocol::Gemini),
    ("ollama_chat", Protocol::OllamaChat),
    ("ollama_generate", Protocol::OllamaGenerate),
    ("openai_embeddings", Protocol::Embeddings(Family::OpenAi)),
    ("gemini_embeddings", Protocol::Embeddings(Family::Gemini)),
    ("ollama_embeddings", Protocol::Embeddings(Family::Ollama)),
    ("openai_other", Protocol::Other(Family::OpenAi)),
    ("anthropic_other", Protocol::Other(Family::Anthropic)),
    ("gemini_other", Protocol::Other(Family::Gemini)),
    ("ollama_other", Protocol::Other(Family::Ollama)),
];

const KINDS: &[(&str, Kind, &str)] = &[
    ("stop", Kind::Stop, "kill_switch"),
    ("wait", Kind::Wait { after_ms: 1_001 }, "rate_limit"),
    ("bad 400", Kind::BadRequest { status: 400 }, "unreadable_json"),
    ("bad 401", Kind::BadRequest { status: 401 }, "key_required"),
    ("bad 404", Kind::BadRequest { status: 404 }, "unknown_provider"),
    ("bad 413", Kind::BadRequest { status: 413 }, "body_too_large"),
    ("bad 426", Kind::BadRequest { status: 426 }, "websocket"),
    ("upstream 502", Kind::Upstream { status: 502 }, "upstream_unreachable"),
    ("upstream 504", Kind::Upstream { status: 504 }, "upstream_timeout"),
    ("overload", Kind::Overload, "overload"),
];

#[test]
fn an_1_refusals_are_as_recorded() {
    for (name, protocol) in PROTOCOLS {
        let mut text = String::new();
        for (kind_name, kind, code) in KINDS {
            let refusal = ErrorDetails { kind: *kind, code, message: SENTENCE };
            for (style_name, style) in [("error", BlockResponse::Error), ("message", BlockResponse::Message)]
            {
                for stream in [false, true] {
                    let (protocol, client) = (*protocol, Client::Usual);
                    let refused =
                        RejectedRequest { protocol, client, stream, array: false, model: "m\"1", style };
                    let asked = if stream { "streamed" } else { "plain" };
                    text.push_str(&format!(
                        "=== {kind_name}, {style_name}, {asked}\n{}",
                        shown(&refuse(&refused, &refusal))
                    ));
                }
            }
        }
        golden(name, &text);
    }
}

#[test]
fn an_3_cuts_are_as_recorded() {
    let mut text = String::new();
    for (name, protocol) in PROTOCOLS {
        for (kind_name, kind, code) in KINDS {
            let refusal = ErrorDetails { kind: *kind, code, message: SENTENCE };
            let bytes = cut(*protocol, framing_of(*protocol), true, &refusal).expect("a stream can be cut");
            text.push_str(&format!("=== {name}, {kind_name}\n{}", String::from_utf8(bytes).expect("UTF-8")));
        }
    }
    golden("cuts", &text);
}

fn framing_of(protocol: Protocol) -> Framing {
    if protocol.family() == Family::Ollama { Framing::Ndjson } else { Framing::Sse }
}

fn shown(answer: &ErrorResponse) -> String {
    let mut text = format!("{}\n", answer.status);
    for (name, value) in &answer.headers {
        text.push_str(&format!("{name}: {value}\n"));
    }
    format!("{text}\n{}\n", String::from_utf8(answer.body.clone()).expect("UTF-8"))
}

fn golden(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/refusal/{name}.txt"));
    if std::env::var_os("ESTOP_GOLDEN").is_some_and(|mode| mode == "write") {
        fs::write(&file, text).expect("a golden file can be written");
        return;
    }
    let expected = fs::read_to_string(&file).expect("a golden file can be read");
    let differs = expected.lines().zip(text.lines()).position(|(expected, text)| expected != text);
    let at = differs.map_or("end".to_owned(), |line| format!("{}", line + 1));
    assert!(expected == text, "{name}.txt differs at line {at}");
}
