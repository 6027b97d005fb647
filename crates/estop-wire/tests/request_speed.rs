//! How fast requests are read. Run with `cargo test --release -p estop-wire --test request_speed -- --ignored --nocapture`.

use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

use estop_wire::protocol::Protocol;
use estop_wire::request::read;
use serde_json::Value;
use serde_json::value::RawValue;

/// The best of several runs, in megabytes a second: the machine can only be slower than it is.
fn speed(bytes: usize, mut work: impl FnMut()) -> f64 {
    let best = (0..30).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    });
    bytes as f64 / best.fold(f64::INFINITY, f64::min) / 1e6
}

/// About 1 MB of chat: a coding agent's history, most of it old tool results.
fn chat(line: &str, result_lines: usize) -> String {
    let mut body = String::from(
        r#"{"model":"gpt-4o","stream":true,"messages":[{"role":"system","content":"You are a coding agent."},{"role":"user","content":"Fix the failing test in the parser."}"#,
    );
    for at in 0.. {
        if body.len() > 1_000_000 {
            break;
        }
        let result = line.repeat(result_lines);
        write!(
            body,
            r#",{{"role":"assistant","content":null,"tool_calls":[{{"id":"call_{at}","type":"function","function":{{"name":"read_file","arguments":"{{\"path\":\"src/parser_{at}.rs\"}}"}}}}]}},{{"role":"tool","tool_call_id":"call_{at}","content":"{result}"}}"#
        )
        .expect("a string takes everything");
    }
    body.push_str("]}");
    body
}

const CODE: &str = r#"        let value = self.parse_value(\"key\", depth + 1)?;\n"#;
const PROSE: &str =
    "The quick brown fox jumps over the lazy dog and then sits down to think about what it has done. ";

#[test]
#[ignore = "a measurement"]
fn speed_of_reading_requests() {
    let texts = [
        ("code, results of 4 kB", chat(CODE, 75)),
        ("code, results of 400 B", chat(CODE, 7)),
        ("prose, results of 4 kB", chat(PROSE, 42)),
        ("Chinese, results of 4 kB", chat("我们需要修复解析器中失败的测试。", 90)),
        ("escaped Chinese", chat(r"\u6211\u4eec\u9700\u8981\u4fee\u590d", 110)),
        ("no results at all", chat("", 0)),
    ];
    for (name, body) in &texts {
        let bytes = body.as_bytes();
        let ours = speed(bytes.len(), || drop(black_box(read(Protocol::OpenAiChat, bytes))));
        let ignored = speed(bytes.len(), || {
            black_box(serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok());
        });
        let raw = speed(bytes.len(), || {
            black_box(serde_json::from_slice::<Top<'_>>(bytes).map(|top| top.messages.len()).ok());
        });
        let value = speed(bytes.len(), || drop(black_box(serde_json::from_slice::<Value>(bytes))));
        println!(
            "{name:26} read {ours:6.0} MB/s   IgnoredAny {ignored:6.0}   RawValue {raw:6.0}   Value {value:6.0}"
        );
    }
}

#[derive(serde::Deserialize)]
struct Top<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}

#[test]
#[ignore = "a measurement"]
fn hostile_shapes_stay_linear() {
    let many = |open: &str, part: &str, count: usize, close: &str| {
        format!("{open}{}{close}", vec![part; count].join(","))
    };
    let keys = |count: usize| {
        let keys: Vec<String> = (0..count).map(|at| format!("\"key_{at}\":0")).collect();
        format!("{{\"messages\":[],{}}}", keys.join(","))
    };
    let results = |count: usize| {
        let calls: Vec<String> = (0..count)
            .map(|at| format!(r#"{{"id":"c{at}","function":{{"name":"f","arguments":"{{}}"}}}}"#))
            .collect();
        let came: Vec<String> = (0..count)
            .map(|at| format!(r#"{{"role":"tool","tool_call_id":"c{at}","content":"x"}}"#))
            .collect();
        format!(
            r#"{{"messages":[{{"role":"assistant","tool_calls":[{}]}},{}]}}"#,
            calls.join(","),
            came.join(",")
        )
    };
    for size in [1usize, 10] {
        let shapes = [
            ("tiny messages", many(r#"{"messages":["#, r#"{"role":"user"}"#, 100_000 * size, "]}")),
            ("keys in one object", keys(100_000 * size)),
            ("calls and results", results(20_000 * size)),
            ("tiny parts", many(r#"{"messages":[{"role":"user","content":["#, "{}", 100_000 * size, "]}]}")),
            ("numbers in an unknown field", many(r#"{"messages":[],"x":["#, "0", 500_000 * size, "]}")),
            ("escapes", format!(r#"{{"messages":[],"x":"{}"}}"#, r"\n".repeat(500_000 * size))),
            ("open brackets", "[".repeat(1_000_000 * size)),
        ];
        for (name, body) in &shapes {
            let speed = speed(body.len(), || drop(black_box(read(Protocol::OpenAiChat, body.as_bytes()))));
            println!("{name:28} {:9} bytes  {speed:6.0} MB/s", body.len());
        }
    }
}
